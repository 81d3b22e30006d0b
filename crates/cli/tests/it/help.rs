//! Help, completions, man pages, and the default store.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output};
use std::sync::LazyLock;

use memory_tool_test_fixtures::session::{Place, program};

const HEADINGS: [&str; 8] =
    ["Usage:", "Arguments:", "Options:", "Store:", "Encryption of SRC:", "Encryption:", "Policies:", "Exit status:"];

/// The commands that do not work on one store. All others do, which may be the default store.
const WITHOUT_STORE: &str = "completions copy healthcheck keygen man proposal sync token";

/// The commands that have a page.
fn commands() -> impl Iterator<Item = &'static str> + Clone {
    static NAMES: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
        let pages = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/pages")).unwrap();
        let names = pages.map(|page| page.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned());
        names.filter(|name| name != "memory-tool").collect()
    });
    NAMES.iter().map(String::as_str)
}

fn output_of(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(status.success() && stderr.is_empty(), "{command:?}: {status}, {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

/// The help of a command, or of the program if the name is empty, on a terminal of this width.
fn help(command: &str, option: &str, columns: u16) -> String {
    let words = [command, option].into_iter().filter(|word| !word.is_empty());
    output_of(program().args(words).env("COLUMNS", columns.to_string()))
}

/// The lines under a heading, up to the next line that is not indented.
fn section<'a>(help: &'a str, heading: &str) -> Vec<&'a str> {
    let lines = help.lines().skip_while(|line| *line != heading).skip(1);
    lines.take_while(|line| line.is_empty() || line.starts_with(' ')).collect()
}

#[test]
fn all_commands_are_listed_and_those_for_packages_last() {
    let help = help("", "-h", 100);
    let listed: Vec<_> = section(&help, "Commands:").iter().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(listed[listed.len() - 3..], ["completions", "man", "help"]);
    let listed: BTreeSet<_> = listed.into_iter().filter(|name| *name != "help").collect();
    assert_eq!(listed, commands().collect());
}

#[test]
fn the_readme_of_the_program_names_all_commands() {
    const README: &str = include_str!("../../README.md");
    let named: BTreeSet<_> = README.split("](pages/").skip(1).map(|link| link.split_once(".md)").unwrap().0).collect();
    let expected = commands().chain(["memory-tool"]).collect();
    let different: Vec<_> = named.symmetric_difference(&expected).collect();
    assert!(different.is_empty(), "these are only commands, or only in crates/cli/README.md: {different:?}");
}

#[test]
fn sections_are_in_order_and_examples_at_the_end() {
    for (command, option) in commands().chain([""]).flat_map(|command| [(command, "-h"), (command, "--help")]) {
        let help = help(command, option, 100);
        let place = |heading: &str| help.find(&format!("\n{heading}"));
        let places: Vec<_> = HEADINGS.iter().filter_map(|heading| place(heading)).collect();
        assert!(places.is_sorted(), "{command} {option}: {help}");
        assert!(place("Usage:").is_some() && place("Options:").is_some(), "{command} {option}: {help}");
        assert_eq!(
            place("Store:").is_some(),
            !command.is_empty() && WITHOUT_STORE.split_whitespace().all(|name| name != command),
            "{command} {option}: {help}"
        );
        assert_eq!(place("Exit status:").is_some(), option == "--help", "{command} {option}: {help}");
        assert!((command, option) != ("run", "--help") || help.contains("16 MiB"), "{help}");
        let (before, examples) = help.rsplit_once("\nExamples:\n").unwrap();
        assert!(places.iter().all(|place| *place < before.len()), "{command} {option}: {help}");
        assert!(examples.lines().all(|line| line.starts_with("  ")), "{command} {option}: {examples}");
        assert!(examples.contains(&format!("memory-tool {command}")), "{command} {option}: {examples}");
    }
}

#[test]
fn the_options_of_a_command_itself_come_first() {
    let help = help("view", "-h", 100);
    let names = |heading| section(&help, heading).join("\n");
    assert!(names("Arguments:").contains("[PATH]"), "{help}");
    assert!(names("Options:").contains("--view-range"), "{help}");
    assert!(!names("Options:").contains("--store") && names("Store:").contains("--store"), "{help}");
    assert!(!help.contains("Encryption:") && !help.contains("Policies:"), "{help}");
    let help = self::help("view", "--help", 100);
    let names = |heading| section(&help, heading).join("\n");
    assert!(names("Encryption:").contains("--key-file") && names("Policies:").contains("--scope"), "{help}");
    assert!(self::help("run", "-h", 100).contains("\nPolicies:\n"));
}

#[test]
fn the_short_help_has_one_line_for_each_option() {
    for command in commands().chain([""]) {
        let (short, long) = (help(command, "-h", 100), help(command, "--help", 100));
        assert!(short.lines().count() < long.lines().count(), "{command}");
        for line in HEADINGS[1..].iter().flat_map(|heading| section(&short, heading)) {
            let is_entry = ["  -", "      --", "  <", "  [", ""].iter().any(|start| match *start {
                "" => line.is_empty(),
                start => line.starts_with(start),
            });
            assert!(is_entry, "{command}: {line:?} continues the line before");
        }
    }
}

#[test]
fn lines_fit_the_terminal() {
    for (command, option) in commands().chain([""]).flat_map(|command| [(command, "-h"), (command, "--help")]) {
        // The maximum width, on any terminal.
        for line in help(command, option, 200).lines() {
            assert!(line.chars().count() <= 100, "{command} {option}: {line}");
        }
        // clap must not break lines of examples and tables.
        let [narrow, wide] = [80, 100].map(|columns| help(command, option, columns));
        for heading in ["Stores:", "Environment:", "Exit status:", "Examples:"] {
            assert_eq!(section(&narrow, heading), section(&wide, heading), "{command} {option}");
        }
    }
}

#[test]
fn completions_contain_each_command() {
    let script = output_of(program().args(["completions", "bash"]));
    let first = script.lines().find_map(|line| line.trim().strip_prefix("opts=\"-h")).unwrap();
    let words: BTreeSet<_> = first.trim_matches('"').split(' ').collect();
    for command in commands() {
        assert!(words.contains(command), "{command} is not in {first}");
    }
    for shell in ["elvish", "fish", "powershell", "zsh"] {
        let script = output_of(program().args(["completions", shell]));
        for command in commands() {
            let quoted =
                [format!("'{command}'"), format!("\"{command}\""), format!("'{command}:"), format!("{command} ")];
            assert!(quoted.iter().any(|name| script.contains(name)), "{shell} does not complete {command}");
        }
        assert!(script.contains("max-view-chars"), "{shell}");
    }
    let unknown = program().args(["completions", "cmd.exe"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&unknown.stderr).contains("[possible values: bash, elvish, fish, powershell, zsh]")
    );
}

#[test]
fn each_command_has_a_man_page() {
    let place = Place::new();
    let directory = place.outside("share/man/man1");
    assert_eq!(output_of(program().args(["man", "--directory"]).arg(&directory)), "");
    let written: BTreeSet<_> =
        fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let pages = commands().map(|command| (command, format!("memory-tool-{command}.1")));
    let expected = pages.clone().map(|(_, page)| page).chain(["memory-tool.1".to_owned()]);
    assert_eq!(written, expected.collect());
    let read = |page: &str| fs::read_to_string(directory.join(page)).unwrap();
    for (command, page) in pages {
        let page = read(&page);
        // roff writes a hyphen with a backslash before it.
        let title = format!(".TH memory-tool-{command} 1 ");
        let title = [title.replace('-', "\\-"), title].iter().any(|title| page.contains(title));
        assert!(title, "{page}");
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "EXAMPLES"] {
            assert!(
                page.contains(&format!("\n.SH {section}\n")) || page.contains(&format!("\n.SH \"{section}\"\n")),
                "{section}: {page}"
            );
        }
    }
    assert_eq!(output_of(program().arg("man")), read("memory-tool.1"));
    // Pages of an older version are overwritten.
    fs::write(directory.join("memory-tool.1"), "old").unwrap();
    output_of(program().args(["man", "--directory"]).arg(&directory));
    assert_eq!(output_of(program().arg("man")), read("memory-tool.1"));
}

#[test]
fn the_error_names_a_directory_that_cannot_be_written() {
    let place = Place::new();
    let file = place.outside("file");
    fs::write(&file, "").unwrap();
    let Output { status, stderr, .. } = program().args(["man", "--directory"]).arg(&file).output().unwrap();
    let errors = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(2));
    assert!(errors.starts_with(&format!("memory-tool: cannot write {}: ", file.display())), "{errors}");
}

#[test]
fn view_without_a_path_prints_the_root() {
    let place = Place::new();
    let on_store = |words: &[&str]| output_of(program().args(words).arg("--store").arg(place.store()));
    on_store(&["create", "/memories/a.txt", "--text", "a"]);
    assert_eq!(on_store(&["view"]), on_store(&["view", "/memories"]));
    assert!(on_store(&["view"]).contains("/memories/a.txt"));
}

#[test]
fn an_option_overrides_the_default_store() {
    let place = Place::new();
    let with_default = |words: &[&str]| output_of(program().args(words).env("MEMORY_TOOL_STORE", place.store()));
    with_default(&["create", "/memories/default.txt", "--text", ""]);
    assert!(with_default(&["view"]).contains("/memories/default.txt"));
    let other = place.sqlite("other");
    with_default(&["create", "/memories/other.txt", "--text", "", "--store", &other]);
    let view = with_default(&["view", "--store", &other]);
    assert!(view.contains("/memories/other.txt") && !view.contains("default.txt"), "{view}");
    // An unused variable is not parsed.
    let view = output_of(program().args(["view", "--store", &other]).env("MEMORY_TOOL_STORE", "nonsense:x"));
    assert!(view.contains("/memories/other.txt"), "{view}");
}

#[test]
fn a_key_applies_to_the_default_store() {
    let place = Place::new();
    let key = place.outside("key");
    output_of(program().args(["keygen", "--output"]).arg(&key).stderr(std::process::Stdio::null()));
    let with_key = |words: &[&str]| {
        output_of(program().args(words).arg("--key-file").arg(&key).env("MEMORY_TOOL_STORE", place.store()))
    };
    with_key(&["create", "/memories/a.txt", "--text", "a"]);
    assert!(with_key(&["view"]).contains("/memories/a.txt"));
    assert!(!place.file("a.txt").exists());
}

#[test]
fn an_empty_variable_counts_as_unset() {
    for empty in [None, Some("")] {
        for command in [&["view"][..], &["run"], &["verify"]] {
            let mut command_line = program();
            command_line.args(command).envs(empty.map(|value| ("MEMORY_TOOL_STORE", value)));
            let Output { status, stderr, .. } = command_line.output().unwrap();
            let errors = String::from_utf8(stderr).unwrap();
            assert_eq!(status.code(), Some(2), "{errors}");
            let error = "error: the following required arguments were not provided:\n  --store <URL>\n\n  \
                         tip: the environment variable MEMORY_TOOL_STORE sets a default\n\nUsage: memory-tool ";
            assert!(errors.starts_with(error), "{errors}");
        }
    }
}

#[test]
fn errors_name_the_variable_and_the_default_store() {
    let place = Place::new();
    let view = |store: &str| {
        let Output { status, stderr, .. } = program().arg("view").env("MEMORY_TOOL_STORE", store).output().unwrap();
        assert_eq!(status.code(), Some(2));
        String::from_utf8(stderr).unwrap()
    };
    let wrong = view("nonsense:x");
    assert!(wrong.starts_with("error: invalid value 'nonsense:x' for 'MEMORY_TOOL_STORE': unknown scheme"), "{wrong}");
    let absent = place.store();
    let errors = view(absent.to_str().unwrap());
    assert_eq!(errors, format!("memory-tool: there is no memory store at file://{}\n", absent.display()));
    assert!(!absent.exists());
}

#[test]
fn help_does_not_print_the_default_store() {
    for option in ["-h", "--help"] {
        let help = output_of(program().args(["run", option]).env("MEMORY_TOOL_STORE", "sqlite:private.db"));
        assert!(help.contains("[env: MEMORY_TOOL_STORE]") && !help.contains("private"), "{help}");
    }
}

#[test]
fn copy_ignores_the_default_store() {
    let place = Place::new();
    let copied = program().args(["copy", "./source"]).env("MEMORY_TOOL_STORE", place.store()).output().unwrap();
    assert_eq!(copied.status.code(), Some(2));
    assert!(String::from_utf8(copied.stderr).unwrap().contains("not provided:\n  <DST>"));
    assert!(!place.store().exists());
}
