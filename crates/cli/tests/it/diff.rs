//! `diff` of moments, stores, archives and directories.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use memory_tool_test_fixtures::session::Place;

use crate::memories::{run, succeed};

#[test]
fn stores_archives_and_directories_are_compared() {
    let place = Place::new();
    let directory = place.outside("");
    fs::write(directory.join("key"), "01".repeat(32)).unwrap();
    fs::set_permissions(directory.join("key"), fs::Permissions::from_mode(0o600)).unwrap();
    for (name, text) in [("same.md", "same\n"), ("edited.md", "one\ntwo\n"), ("removed.md", "text")] {
        succeed(&directory, &format!("create {name} --text '{text}' --store before"));
    }
    succeed(&directory, "export backup.tar.gz --store before");
    succeed(&directory, "export exported --store before");
    succeed(&directory, "copy before sqlite:before.db");
    succeed(&directory, "copy before sealed --key-file key");
    succeed(&directory, "copy before after --json");
    succeed(&directory, "str_replace edited.md --old-str two --new-str 2 --store after");
    succeed(&directory, "rm removed.md --store after");
    succeed(&directory, "create new.md --text text --store after");

    let edited = "--- a/memories/edited.md\n+++ b/memories/edited.md\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n";
    for before in ["before", "backup.tar.gz", "exported", "sqlite:before.db", "sealed --key-file key"] {
        let side = if before.starts_with("sqlite") {
            "sqlite:before.db?memory=default".to_owned()
        } else {
            format!("file:{}", before.split(' ').next().unwrap())
        };
        let expected = format!("{edited}only in file:after: /memories/new.md\nonly in {side}: /memories/removed.md\n");
        let line = format!("diff {before} after").replace(" --key-file key after", " after --key-file key");
        assert_eq!(run(&directory, &line), (Some(1), expected, String::new()), "{before}");
        let line = line.replace(" after", " after edited.md");
        assert_eq!(run(&directory, &line), (Some(1), edited.to_owned(), String::new()), "{before}");
        let line = line.replace(" edited.md", " same.md");
        assert_eq!(run(&directory, &line), (Some(0), String::new(), String::new()), "{before}");
    }
    let json = run(&directory, "diff before after new.md --json").1;
    assert!(json.starts_with("{\"path\":\"/memories/new.md\",\"diff\":\"--- /dev/null\\n"), "{json}");

    let (status, _, errors) = run(&directory, "diff sealed after");
    assert!(status == Some(2) && errors.contains("add --key-file"), "{errors}");
    let (status, _, errors) = run(&directory, "diff before soon");
    assert!(status == Some(2) && errors.contains("there is no memory store at file:soon"), "{errors}");
    let (status, _, errors) = run(&directory, "diff 1 2");
    assert!(status == Some(2) && errors.contains("name it with --store"), "{errors}");
    let (_, _, errors) = run(&directory, "diff before after missing.md");
    assert!(errors.contains("neither side has a file"), "{errors}");
    fs::write(directory.join("key.tar"), "no archive").unwrap();
    assert_eq!(run(&directory, "diff key.tar after").0, Some(2));
}

#[test]
fn a_moment_is_compared_with_another_and_with_a_backup() {
    let place = Place::new();
    let directory = place.outside("");
    succeed(&directory, "create a.md --text one --store m --history");
    succeed(&directory, "export backup --store m");
    succeed(&directory, "create b.md --text two --store m");
    let (status, moments, _) = run(&directory, "diff 1 --store m");
    assert_eq!((status, moments.starts_with("--- /dev/null\n+++ b/memories/b.md\n")), (Some(1), true), "{moments}");
    assert_eq!(run(&directory, "diff 1 now --store m").1, moments);
    assert_eq!(run(&directory, "diff 0s --store m").0, Some(0));
    assert_eq!(run(&directory, "diff backup 1 --store m"), (Some(0), String::new(), String::new()));
    let only_now = (Some(1), "only in now: /memories/b.md\n".to_owned(), String::new());
    assert_eq!(run(&directory, "diff backup now --store m"), only_now);
    assert!(run(&directory, "diff 9 --store m").2.contains("there is no entry 9; the newest is 2"));
    succeed(&directory, "export past.tar --at 1 --store m");
    assert_eq!(run(&directory, "diff past.tar 1 --store m").0, Some(0));
    succeed(&directory, "copy m sqlite:past.db --at 1");
    assert_eq!(run(&directory, "diff sqlite:past.db 1 --store m").0, Some(0));
}

#[test]
fn texts_of_a_model_cannot_forge_a_difference() {
    let place = Place::new();
    let directory = place.outside("");
    fs::create_dir_all(directory.join("a")).unwrap();
    fs::create_dir_all(directory.join("b")).unwrap();
    fs::write(directory.join("a/binary"), b"\0\xff\x1b[2J").unwrap();
    fs::write(directory.join("b/binary"), b"\0\xfe\x1b[2J").unwrap();
    let (status, output, _) = run(&directory, "diff a b");
    assert_eq!(status, Some(1));
    assert_eq!(output, "Binary files a/memories/binary and b/memories/binary differ\n");
}
