//! Errors about arguments, with repeated and suggested arguments.

use std::ffi::OsStr;
use std::fs;
use std::process::Command;

use memory_tool_test_fixtures::session::{Outcome, Place, outcome, program};

/// A secret as the key of a cloud, with the characters of base64.
const SECRET: &str = "wJalr/XUtn+FEMI=K7MDENG";

fn words(arguments: &[&str]) -> Command {
    let mut command = program();
    command.args(arguments);
    command
}

/// A tenant's name could otherwise add a line to a log, or hide a part of one.
#[test]
fn no_error_repeats_an_argument_that_forges_a_line() {
    const FORGED: &str = "a\nforged: all is well\u{1b}[2J\u{202e}\u{2028}\u{200b}";
    let place = Place::new();
    let store = place.store();
    let store = store.to_str().unwrap();
    assert!(words(&["create", "/memories/a", "--text", "a", "--store", store]).output().unwrap().status.success());
    let path = format!("/memories/{FORGED}");
    let unknown = format!("{FORGED}:x");
    let option = format!("--{FORGED}");
    for arguments in [
        &["verify", FORGED][..],
        &[FORGED],
        &["verify", &option],
        &["verify", "--store", &unknown],
        &["verify", "--store", &format!("s3://{FORGED}")],
        &["verify", "--store", &format!("file://{FORGED}/a")],
        &["verify", "--store", &format!("~{FORGED}")],
        &["verify", "--store", &format!("$HOME{FORGED}")],
        &["verify", "--store", &format!("{store}/{FORGED}")],
        &["view", "--store", store, "--scope", FORGED],
        &["run", "--store", store, "--audit-log", "a", "--actor", FORGED],
        &["run", "--store", store, "--screen", FORGED],
        &["run", "--store", store, "--screen", "refuse", "--screen-also", FORGED],
        &["run", "--store", store, "--mount", FORGED],
        &["run", "--store", store, "--mount", &format!("{path}=a")],
        &["run", "--store", store, "--limits", "--max-files", FORGED],
        &["run", "--store", store, "--key-file", FORGED],
        &["run", "--store", store, "--key-env", FORGED],
        &["expire", "--store", store, "--expire-after", FORGED],
        &["completions", FORGED],
        &["view", &path, "--store", store],
        &["view", FORGED, "--store", store],
        &["str_replace", "/memories/a", "--old-str", FORGED, "--store", store],
        &["rename", &path, FORGED, "--store", store],
        &["create", "/memories/b", "--file", FORGED, "--store", store],
        &["export", &format!("{FORGED}.7z"), "--store", store],
        &["import", FORGED, "--store", store],
    ] {
        let (status, output, errors) = outcome(&mut words(arguments));
        assert!(status != Some(0) && output.is_empty(), "{arguments:?}: {output}");
        let is_forged = |line: &str| line.starts_with("forged");
        let is_hidden = |character: char| "\u{1b}\u{202e}\u{2028}\u{200b}".contains(character);
        assert!(!errors.lines().any(is_forged) && !errors.contains(is_hidden), "{arguments:?}: {errors:?}");
        assert!(errors.contains("forged"), "{arguments:?}: {errors}");
    }
    let (_, _, errors) = outcome(words(&["verify"]).env("MEMORY_TOOL_STORE", unknown));
    assert!(!errors.lines().any(|line| line.starts_with("forged")) && errors.contains("forged"), "{errors}");
}

#[test]
fn no_error_contains_the_credentials_of_a_url() {
    let place = Place::new();
    let store = place.store();
    let store = store.to_str().unwrap();
    for url in [
        format!("s3://AKIA:{SECRET}@bucket/a"),
        format!("s3://AKIA:{SECRET}"),
        format!("s3:AKIA:{SECRET}@bucket"),
        format!("gs://bucket?key={SECRET}"),
        format!("az://container/a?sv=2025-01-05&sig={SECRET}"),
        format!("https://account.blob.core.windows.net/a?sig={SECRET}"),
        format!("postgres://user:{SECRET}@host/db"),
        format!("file://user:{SECRET}@host/a"),
        format!("sqlite:a.db?key={SECRET}"),
        format!("sqlite:a.db?{SECRET}"),
    ] {
        let mount = format!("/memories/a={url}");
        let option = format!("--store={url}");
        for arguments in [
            &["verify", "--store", &url][..],
            &["verify", &option],
            &["verify", &url],
            &["copy", &url, store],
            &["copy", store, &url],
            &["run", "--store", store, "--mount", &mount],
            &["run", "--store", store, "--mount-read-only", &mount],
            &[&url],
        ] {
            let (status, output, errors) = outcome(&mut words(arguments));
            assert_eq!((status, output.as_str()), (Some(2), ""), "{errors}");
            assert!(!errors.contains("FEMI") && !errors.contains("K7MDENG"), "{arguments:?}: {errors}");
        }
        let (status, _, errors) = outcome(words(&["verify"]).env("MEMORY_TOOL_STORE", &url));
        assert!(status == Some(2) && !errors.contains("FEMI"), "{errors}");
    }
}

#[test]
fn no_error_contains_the_credentials_in_the_address_of_a_service() {
    for address in [format!("http://user:{}@127.0.0.1:1", "secret"), "http://127.0.0.1:1?sig=secret".to_owned()] {
        for (url, variable) in [
            ("s3://bucket/a", "AWS_ENDPOINT_URL"),
            ("gs://bucket/a", "STORAGE_EMULATOR_HOST"),
            ("az://bucket/a", "AZURE_STORAGE_ENDPOINT"),
        ] {
            for command in ["verify", "gc", "run"] {
                let mut command = words(&[command, "--store", url, "--timeout", "1s"]);
                command.env(variable, &address).env("AWS_ALLOW_HTTP", "true").env("AZURE_ALLOW_HTTP", "true");
                command.env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "secret").env("AWS_REGION", "a");
                command.env("AZURE_STORAGE_ACCOUNT", "a").env("AZURE_STORAGE_SAS_KEY", "sv=1&sig=secret");
                let (status, _, errors) = outcome(&mut command);
                assert!(status == Some(2) && !errors.contains("secret"), "{url}: {errors}");
            }
        }
    }
}

#[test]
fn the_option_that_was_meant_is_named() {
    for (arguments, suggested) in [
        (&["verify", "./memory"][..], "did you mean --store ./memory?"),
        (&["run", "--limits", "sqlite:a.db"], "did you mean --store sqlite:a.db?"),
        (&["mcp", "./memory"], "did you mean --store ./memory?"),
        (&["keygen", "a.key"], "did you mean --output a.key?"),
        (&["man", "pages"], "did you mean --directory pages?"),
        (&["history"], "did you mean `memory-tool log`?"),
        (&["grep", "tea"], "did you mean `memory-tool search`?"),
    ] {
        let (status, _, errors) = outcome(&mut words(arguments));
        assert!(status == Some(2) && errors.contains(suggested), "{arguments:?}: {errors}");
    }
    for store in [&["--store", "./memory"][..], &["--store=./memory"]] {
        let (status, _, errors) = outcome(&mut words(&[&["verify", "extra"], store].concat()));
        assert!(status == Some(2) && !errors.contains("did you mean"), "{errors}");
    }
}

#[test]
fn the_path_that_was_meant_is_named() {
    let place = Place::new();
    let store = place.store();
    let store = store.to_str().unwrap();
    let create = ["create", "/memories/notes.txt", "--text", "a", "--store", store];
    assert!(words(&create).output().unwrap().status.success());
    for (arguments, meant) in
        [(&["delete", "/notes.txt"][..], "/memories/notes.txt"), (&["rename", "notes.txt", "/b/c"], "/memories/b/c")]
    {
        let (status, output, errors) = outcome(words(arguments).args(["--store", store]));
        let expected = format!("memory-tool: did you mean {meant}?\n");
        assert!(status == Some(1) && output.is_empty() && errors.ends_with(&expected), "{errors}");
    }
    let (_, output, errors) = outcome(&mut words(&["view", "/notes.txt", "--json", "--store", store]));
    assert!(output.contains("Path must start with /memories, got: /notes.txt"), "{output}");
    assert_eq!(errors, "memory-tool: did you mean /memories/notes.txt?\n");
    for arguments in [&["rename", "notes.txt", "./b"][..], &["view", "memories/b"], &["delete", "b"]] {
        let (status, output, errors) = outcome(words(arguments).args(["--store", store]));
        assert!(status == Some(0) && output.contains("/memories/b") && errors.is_empty(), "{output}{errors}");
    }
}

/// The program in an empty working directory, with another one as home directory.
fn at_home(place: &Place, arguments: &[&str]) -> Outcome {
    let (home, work) = (place.outside("home"), place.outside("work"));
    fs::create_dir_all(&home).unwrap();
    fs::create_dir_all(&work).unwrap();
    outcome(words(arguments).current_dir(work).env("HOME", home))
}

#[test]
#[cfg(unix)]
fn a_tilde_is_the_home_directory_in_each_option_that_takes_a_path() {
    let place = Place::new();
    let succeed = |arguments: &[&str]| {
        let (status, _, errors) = at_home(&place, arguments);
        assert_eq!(status, Some(0), "{arguments:?}: {errors}");
    };
    succeed(&["keygen", "--output=~/key"]);
    let text = ["create", "/memories/a", "--text", "tea"];
    for store in ["--store=~/local", "--store=file:~/file", "--store=sqlite:~/memory.db"] {
        succeed(&[&text[..], &[store]].concat());
    }
    succeed(&["create", "/memories/b", "--file=~/local/memories/a", "--store=~/local"]);
    succeed(&["run", "--store=~/sealed", "--key-file=~/key", "--audit-log=~/audit", "--actor=a"]);
    succeed(&["run", "--store=~/local", "--mount=/memories/c=~/file", "--must-exist"]);
    succeed(&["export", "--store=~/local", "~/backup.tar"]);
    succeed(&["import", "--store=~/imported", "~/backup.tar"]);
    succeed(&["copy", "~/local", "~/copied"]);
    succeed(&["man", "--directory=~/man"]);
    let (status, ..) = outcome(
        words(&["view", "/memories/a"])
            .env("MEMORY_TOOL_STORE", "~/local")
            .env("HOME", place.outside("home"))
            .current_dir(place.outside("work")),
    );
    assert_eq!(status, Some(0));
    let mut names: Vec<_> =
        fs::read_dir(place.outside("home")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    let expected = ["audit", "backup.tar", "copied", "file", "imported", "key", "local", "man", "memory.db", "sealed"];
    assert_eq!(names, expected.map(OsStr::new));
    assert_eq!(fs::read_dir(place.outside("work")).unwrap().count(), 0, "nothing is made beside it");
}

#[test]
#[cfg(unix)]
fn other_forms_of_a_shell_are_refused_in_each_option_that_takes_a_path() {
    let place = Place::new();
    at_home(&place, &["keygen", "--output=~/key"]);
    for path in ["~alice/a", "$HOME/a", "${HOME}/a", "%USERPROFILE%", "/~/a"] {
        let options = ["--store={}", "--store=file:{}", "--store=sqlite:{}", "--mount=/memories/b={}", "--key-file={}"];
        let options = options.iter().chain(&["--audit-log={}", "--old-key-file={}", "--passphrase-file={}"]);
        for option in options.map(|option| option.replace("{}", path)) {
            let (status, _, errors) = at_home(&place, &["run", "--store=a", "--actor=a", &option]);
            let reasons = [
                "is a variable, which only a shell expands",
                "starts with the home directory of a user",
                "starts at the root",
            ];
            // A second `--store` is another error.
            let is_twice = errors.contains("cannot be used multiple times");
            assert!(
                status == Some(2) && (is_twice || reasons.iter().any(|reason| errors.contains(reason))),
                "{option}: {errors}"
            );
        }
        for arguments in [
            &["verify", "--store", path][..],
            &["copy", path, "b"],
            &["copy", "b", path],
            &["export", "--store=b", path],
            &["import", "--store=b", path],
            &["keygen", "--output", path],
            &["man", "--directory", path],
            &["serve", "--store=b", "--tokens", path],
        ] {
            let (status, _, errors) = at_home(&place, arguments);
            assert!(
                status == Some(2) && errors.contains(&format!("invalid value '{path}'")),
                "{arguments:?}: {errors}"
            );
        }
    }
    assert_eq!(fs::read_dir(place.outside("work")).unwrap().count(), 0, "nothing is made");
    assert_eq!(fs::read_dir(place.outside("home")).unwrap().count(), 1, "nothing is made");
}

#[test]
fn a_store_that_must_exist_is_not_created() {
    let place = Place::new();
    let source = place.outside("source");
    let (source, files) = (source.to_str().unwrap(), source.join("memories"));
    let files = files.to_str().unwrap();
    assert!(words(&["create", "/memories/a", "--text", "tea", "--store", source]).output().unwrap().status.success());
    let (store, database, nested) = (place.store(), place.sqlite("a"), place.outside("unmounted/store"));
    for store in [store.to_str().unwrap(), &database, nested.to_str().unwrap()] {
        for arguments in [
            &["run", "--must-exist", "--store", store][..],
            &["mcp", "--must-exist", "--store", store],
            &["create", "/memories/a", "--text", "a", "--must-exist", "--store", store],
            &["import", files, "--must-exist", "--store", store],
            &["import", files, "--must-exist", "--dry-run", "--store", store],
            &["copy", source, store, "--must-exist"],
            &["copy", source, store, "--must-exist", "--dry-run"],
            &["run", "--must-exist", "--store", source, "--scope", "alice"],
            &["run", "--must-exist", "--store", source, "--mount", &format!("/memories/b={store}")],
        ] {
            let mut command = words(arguments);
            command.env("ANTHROPIC_API_KEY", "a").env("ANTHROPIC_BASE_URL", "http://127.0.0.1:9");
            let (status, output, errors) = outcome(&mut command);
            assert_eq!((status, output.as_str()), (Some(2), ""), "{arguments:?}: {errors}");
            assert!(errors.starts_with("memory-tool: there is no memory store "), "{arguments:?}: {errors}");
        }
    }
    assert_eq!(fs::read_dir(place.outside("")).unwrap().count(), 1, "nothing is made");
    let (status, ..) = outcome(&mut words(&["run", "--must-exist", "--store", source]));
    assert_eq!(status, Some(0));
}

#[test]
fn wrong_usage_is_reported() {
    let place = Place::new();
    for (command, rows) in [
        (
            &[][..],
            &[
                (&[][..], "Usage: memory-tool"),
                (&["nonsense"], "nonsense"),
                (&["clear_all_memory"], "clear_all_memory"),
                (&["--store", "x", "view", "/memories"], "--store"),
                (&["view", "/memories/a", "--view-range", "1"], "but 1 was provided"),
                (&["view", "/memories/a", "--view-range", "1", "x"], "invalid value 'x' for '--view-range"),
                (&["view", "/memories/a", "--view-range", "1", "2", "3"], "unexpected argument '3'"),
                (&["create", "/memories/a", "--text", "x", "--file", "y"], "cannot be used with '--file <FILE>'"),
                (&["str_replace", "/memories/a", "--new-str", "x"], "  --old-str <TEXT>\n"),
                (&["insert", "/memories/a", "--insert-text", "x"], "  --insert-line <N>\n"),
                (&["insert", "/memories/a", "--insert-line", "x"], "invalid value 'x' for '--insert-line"),
                (
                    &["insert", "/memories/a", "--insert-line=1", "--insert-text", "x", "--file", "y"],
                    "cannot be used with '--file",
                ),
                (&["rename", "/memories/a"], "  <NEW_PATH>\n"),
            ][..],
        ),
        (
            &["run", "--store", "store"],
            &[
                (&["--max-view-chars", "0"], "--max-view-chars"),
                (&["--max-view-chars", "-1"], "unexpected argument '-1'"),
                (&["--max-view-chars", "many"], "--max-view-chars"),
                (&["--max-view-chars"], "--max-view-chars"),
                (&["--nonsense"], "--nonsense"),
                (&["extra"], "extra"),
            ],
        ),
        (
            &["view", "/memories", "--store", "store"],
            &[
                (&["--scope", ""], "scope name must not be empty"),
                (&["--max-files=many"], "--max-files"),
                (&["--pin=/memories/a"], "--expire-after"),
                (&["--mount", "/memories/team"], "expected PATH=URL"),
                (&["--mount", "team=./team"], "team"),
                (&["--mount-read-only", "/memories/team=ftp://team"], "unknown scheme `ftp:`"),
                (&["--screen=refuse", "--screen-also=everything"], "expected one of personal, aws-access-key-id, "),
                (&["--screen-also=iban"], "--screen"),
                (&["--audit-log=log"], "--actor"),
                (&["--audit-log=log", "--actor="], "actor"),
                (&["--log-paths"], "--log"),
                (&["--log=everything"], "[possible values: commands, operations]"),
                (&["--key-file=key", "--passphrase-file=key"], "--passphrase-file"),
                (&["--old-key-file=key"], "--key-file"),
                (&["--padding=padme"], "--key-file"),
                (&["--key-file=key", "--padding=0"], "--padding"),
                (&["--key-file=key", "--label="], "--label"),
                (&["--label=alice"], "--key-file"),
            ],
        ),
    ] {
        for (options, reason) in rows {
            let arguments = [command, *options].concat();
            let (status, output, errors) = outcome(words(&arguments).current_dir(place.outside("")));
            assert_eq!((status, output.as_str()), (Some(2), ""), "{arguments:?}: {errors}");
            assert!(errors.contains(reason), "{arguments:?}: want {reason}\n got {errors}");
        }
    }
    assert_eq!(fs::read_dir(place.outside("")).unwrap().count(), 0, "nothing is made");
}
