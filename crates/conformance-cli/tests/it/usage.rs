//! Errors about arguments, and the help.

use std::fs;

use memory_tool_test_fixtures::session::{Place, outcome};

use crate::program;

#[test]
fn wrong_usage_is_reported() {
    let place = Place::new();
    for (arguments, reason) in [
        (&[][..], "<--command <LINE>|--store <URL>|--list>"),
        (&["--command", "a {dir}", "--store", "b"], "cannot be used with"),
        (&["--command", "a"], "the command line lacks {dir}"),
        (&["--command", "a '{dir}"], "an unclosed quote"),
        (&["--command", " "], "names no program"),
        (&["--command", "a {dir}", "--plain-files", "memories"], "expected the placeholder {dir}"),
        (&["--store", "a", "--plain-files", "{dir}"], "cannot be used with"),
        (&["--list", "--key-file", "key"], "--store <URL>"),
        (&["--store", "in-process:"], "in-process: is temporary"),
        (
            &["--store", "postgres://host/database"],
            "cannot test a store in postgres://host/database?memory=default: name a directory",
        ),
        (&["help"], "unrecognized subcommand 'help'"),
        (&["run"], "--store <URL>"),
        (&["--store", "a", "--filter", "view.", "--filter", "!"], "no test case matches the filter \"!\""),
        (&["--list", "--filter", "!"], "no test case matches the filter \"!\""),
        (&["--list", "--format", "markdown"], "--list supports only --format table"),
        (&["--list", "--format", "yaml"], "table, json, markdown"),
        (&["--list", "--basis", "docs"], "expected one of `documentation`, `recommendation`"),
        (&["--list", "--failed-from", "no-such-report"], "cannot read no-such-report"),
        (&["--list", "--timeout", "0"], "a number of seconds above 0"),
        (&["--list", "--timeout=-1"], "a number of seconds above 0"),
        (&["--list", "--timeout", "NaN"], "a number of seconds above 0"),
        (&["--list", "--jobs", "0"], "--jobs <N>"),
        (&["--list", "--lacks", "sessions"], "expected NEED=REASON"),
        (&["--list", "--lacks", "sessions="], "expected NEED=REASON"),
        (&["--list", "--lacks", "nonsense=x"], "expected one of `"),
    ] {
        let (status, output, errors) = outcome(program().args(arguments).current_dir(place.outside("")));
        assert_eq!((status, output.as_str()), (Some(2), ""), "{arguments:?}: {errors}");
        assert!(errors.contains(reason), "{arguments:?}: want {reason}\n got {errors}");
    }
    assert_eq!(fs::read_dir(place.outside("")).unwrap().count(), 0, "nothing is made");
}

/// The program prints its errors as `memory-tool` does, whose tests have more of them.
#[test]
fn errors_have_neither_forged_lines_nor_credentials() {
    const FORGED: &str = "a\nforged: all is well\u{1b}[2J\u{202e}\u{2028}\u{200b}";
    for arguments in [
        &["--list", "--lacks", &format!("{FORGED}=a")][..],
        &["--list", "--basis", FORGED],
        &["--list", "--filter", FORGED],
        &["--store", "s3://forged:wJalr/XUtn+FEMI=K7MDENG@bucket/a"],
    ] {
        let (status, output, errors) = outcome(program().args(arguments));
        assert!(status == Some(2) && output.is_empty(), "{arguments:?}: {output}");
        let is_hidden = |character: char| "\u{1b}\u{202e}\u{2028}\u{200b}".contains(character);
        assert!(!errors.lines().any(|line| line.starts_with("forged")), "{arguments:?}: {errors:?}");
        assert!(!errors.contains(is_hidden) && !errors.contains("FEMI"), "{arguments:?}: {errors:?}");
    }
}

#[test]
fn the_default_store_is_ignored() {
    let place = Place::new();
    let run = |arguments: &[&str]| outcome(program().args(arguments).env("MEMORY_TOOL_STORE", place.store())).2;
    assert!(run(&[]).contains("--command <LINE>|--store <URL>|--list"));
    // A default store does not conflict with --command.
    let errors = run(&["--command", "./missing-program {dir}"]);
    assert!(errors.starts_with("memory-tool-conformance: cannot start ./missing-program: "), "{errors}");
    assert!(!place.store().exists());
}

#[test]
fn the_help_is_the_page() {
    let help = |option: &str, columns: &str| {
        let (status, help, errors) = outcome(program().arg(option).env("COLUMNS", columns));
        assert_eq!((status, errors.as_str()), (Some(0), ""));
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
        help
    };
    let (short, long) = (help("-h", "100"), help("--help", "200"));
    for help in [&short, &long] {
        let parts = ["\nUsage: memory-tool-conformance [OPTIONS]", "\nOptions:\n", "\nEncryption:\n", "\nExamples:\n"];
        let places: Vec<_> = parts.iter().map(|part| help.find(part)).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{help}");
        assert!(!help.contains("Commands:") && !help.contains("MEMORY_TOOL_STORE]"), "{help}");
    }
    assert!(long.contains("\nExit status:\n  0    no case failed") && !short.contains("Exit status"), "{long}");
    let (_, options) = short.split_once("\nOptions:\n").unwrap();
    let (options, _) = options.split_once("\nExamples:\n").unwrap();
    let is_entry = |line: &str| line.is_empty() || line.starts_with("  -") || line.starts_with("      --");
    assert!(options.lines().all(|line| is_entry(line) || line == "Encryption:"), "{options}");
    for heading in ["\nExit status:\n", "\nExamples:\n"] {
        let section = |columns| help("--help", columns).split_once(heading).unwrap().1.to_owned();
        assert_eq!(section("80"), section("100"), "clap must not break lines of examples and tables");
    }
}
