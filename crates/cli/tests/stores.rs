//! How a store is named, and what is said of one that cannot be opened.

#![cfg(test)]

mod support;

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::json;
use support::{Place, Session, program};

/// Views the store, in this working directory.
fn view(store: impl AsRef<OsStr>, directory: &Path) -> Output {
    program().args(["view", "/memories", "--store"]).arg(store).current_dir(directory).output().unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Whether `store` names the directory `expected`: what is created through it must be there.
fn assert_names(store: &str, directory: &Path, expected: &Path) {
    let path = "/memories/a";
    let output =
        program().args(["create", path, "--text", "here", "--store", store]).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{store}: {output:?}");
    assert_eq!(fs::read_to_string(expected.join("memories/a")).unwrap(), "here", "{store}");
    fs::remove_dir_all(expected).unwrap();
}

/// That neither `run` nor a command opens the store, for a reason that starts like this.
fn assert_refused(store: impl AsRef<OsStr>, reason: &str) {
    let store = store.as_ref();
    for arguments in [&["run"][..], &["view", "/memories"], &["view", "/memories", "--json"]] {
        let output = program().args(arguments).arg("--store").arg(store).output().unwrap();
        assert_refusal(&output, reason);
    }
}

fn assert_refusal(output: &Output, reason: &str) {
    let errors = errors(output);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), b"".as_slice()), "{errors}");
    assert!(errors.starts_with(reason) && errors.ends_with('\n'), "want {reason}\n got {errors}");
}

#[test]
fn a_store_is_a_path_or_a_file_url() {
    let place = Place::new();
    let directory = place.outside("");
    let absolute = directory.to_str().unwrap();
    for (store, expected) in [
        ("plain", "plain"),
        ("./foo:bar", "foo:bar"),
        ("a%20b", "a%20b"),
        ("C:x", "C:x"),
        ("file:relative", "relative"),
        ("file:deep/er", "deep/er"),
        ("FILE:a%20b/100%25", "a b/100%"),
        ("file:%C3%A9", "é"),
        (&format!("{absolute}/abs"), "abs"),
        (&format!("file:{absolute}/abs"), "abs"),
        (&format!("file://{absolute}/a%3Fb"), "a?b"),
        (&format!("file://localhost{absolute}/abs"), "abs"),
    ] {
        assert_names(store, &directory, &directory.join(expected));
    }
}

#[test]
fn a_new_store_is_made_with_its_parents_and_is_empty() {
    let place = Place::new();
    let output = view("new/er/store", &place.outside(""));
    assert!(output.status.success(), "{output:?}");
    assert!(output.stdout.ends_with(b"node_modules:\n0B\t/memories\n"));
    assert!(place.outside("new/er/store").is_dir());
}

#[test]
fn an_unknown_scheme_is_refused_with_a_hint() {
    for (store, scheme) in [("foo:bar", "foo"), ("https://host/path", "https"), ("a+b-c.d1:x", "a+b-c.d1")] {
        let place = Place::new();
        let output = view(store, &place.outside(""));
        assert_refusal(
            &output,
            &format!(
                "error: invalid value '{store}' for '--store <URL>': unknown scheme `{scheme}:`. \
                 A store is a path, or a URL that begins with file:, sqlite:, s3:, gs:, az: or memory:; \
                 write ./{store} for a path of that name\n"
            ),
        );
        assert_eq!(fs::read_dir(place.outside("")).unwrap().count(), 0);
    }
}

#[test]
fn a_url_that_names_no_store_is_refused() {
    for (store, reason) in [
        ("", "it names no directory or file"),
        ("file:", "it names no directory or file"),
        ("file://elsewhere/a", "the URL cannot name the host `elsewhere`"),
        ("file:100%", "`%` must be followed by two hexadecimal digits"),
        ("file:a?b", "`?` and `#` have a meaning of their own"),
        ("file:a%00b", "the decoded path is not one that this system can hold"),
        ("sqlite:", "it names no directory or file"),
        ("sqlite://elsewhere/a", "the URL cannot name the host `elsewhere`"),
        ("sqlite:100%", "`%` must be followed by two hexadecimal digits"),
        ("sqlite:a#b", "`?` and `#` have a meaning of their own"),
        ("sqlite:a?store=", "the name of a store must not be empty"),
        ("sqlite:a?mode=ro", "unknown parameter `mode`"),
        ("sqlite:a?store=b&store=c", "the parameter `store` is given more than once"),
    ] {
        assert_refused(store, &format!("error: invalid value '{store}' for '--store <URL>': {reason}"));
    }
}

#[test]
fn a_path_that_is_a_file_is_refused() {
    let place = Place::new();
    let file = place.outside("file");
    fs::write(&file, "mine").unwrap();
    for store in [file.clone(), file.join("beneath")] {
        assert_refused(
            &store,
            &format!("memory-tool: cannot open the memory store in the directory {}: ", store.display()),
        );
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
#[cfg(target_os = "linux")]
fn a_place_where_nobody_can_make_directories_is_refused() {
    assert_refused("/proc/memory", "memory-tool: cannot open the memory store in the directory /proc/memory: ");
}

#[test]
#[cfg(unix)]
fn a_directory_without_rights_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;

    let place = Place::new();
    fs::set_permissions(place.outside(""), fs::Permissions::from_mode(0o755)).unwrap();
    for (name, mode) in [("unreadable", 0o000), ("read-only", 0o555)] {
        let directory = place.outside(name);
        fs::create_dir(&directory).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(mode)).unwrap();
        for store in [directory.clone(), directory.join("new")] {
            let output =
                without_privileges(&place).args(["view", "/memories", "--store"]).arg(&store).output().unwrap();
            assert_refusal(
                &output,
                &format!("memory-tool: cannot open the memory store in the directory {}: ", store.display()),
            );
            assert!(errors(&output).contains("Permission denied"), "{}", errors(&output));
        }
    }
}

/// Directories that another user made, and may alone enter or change, lie among the files.
#[test]
#[cfg(unix)]
fn a_directory_without_rights_among_the_files_stops_nothing_else() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    let place = Place::new();
    fs::set_permissions(place.outside(""), fs::Permissions::from_mode(0o777)).unwrap();
    let run = |arguments: &[&str]| {
        let output = without_privileges(&place).args(arguments).arg("--store").arg(place.store()).output().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    assert!(run(&["create", "/memories/d/a.txt", "--text", "a"]).starts_with("File created"));
    for (name, mode) in [(".trash", 0o000), ("only/locked", 0o000), ("d/locked", 0o500)] {
        fs::create_dir_all(place.file(name)).unwrap();
        fs::write(place.file(name).join("file"), "x").unwrap();
        fs::set_permissions(place.file(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    if fs::metadata(place.outside("")).unwrap().uid() == 0 {
        let owned = Command::new("chown").arg("-R").arg("65534:65534").arg(place.file("")).status().unwrap();
        assert!(owned.success());
    }
    assert!(run(&["view", "/memories"]).ends_with("1B\t/memories/d/locked/\n"), "{}", run(&["view", "/memories"]));
    assert!(run(&["view", "/memories/.trash"]).starts_with("memory-tool: Error: The memory storage refused access"));
    assert!(run(&["view", "/memories/only"]).contains("does not exist"), "nothing beneath it can be seen");
    assert_eq!(run(&["delete", "/memories/d"]), "Successfully deleted /memories/d\n");
    let staging = fs::read_dir(place.store().join(".memory-tool/staging")).unwrap();
    assert_eq!(staging.count(), 0, "what was deleted is still on the disk");
}

/// The program as a user who is not the superuser, whom no rights would stop.
#[cfg(unix)]
fn without_privileges(place: &Place) -> Command {
    use std::os::unix::fs::MetadataExt as _;
    use std::os::unix::process::CommandExt as _;

    const NOBODY: u32 = 65_534;
    if fs::metadata(place.outside("")).unwrap().uid() != 0 {
        return program();
    }
    // Nobody may be unable to reach the program where it was built. It is copied by another process: what this one has
    // open for writing is open for a moment in whatever another test starts, and cannot be run meanwhile.
    let reachable = place.outside("memory-tool");
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_memory-tool")).arg(&reachable).status().unwrap();
    assert!(copied.success());
    let mut command = Command::new(reachable);
    command.uid(NOBODY).gid(NOBODY);
    command
}

#[test]
fn a_memory_in_this_process_is_new_and_leaves_nothing() {
    let place = Place::new();
    let directory = place.outside("");
    for _ in 0..2 {
        let create = program().args(["create", "/memories/a", "--text", "", "--store", "memory:"]).output().unwrap();
        assert!(create.status.success(), "{create:?}");
    }
    assert!(view("MEMORY:", &directory).stdout.ends_with(b"node_modules:\n0B\t/memories\n"));
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    let named = "error: invalid value 'memory:a' for '--store <URL>': nothing can follow memory:";
    assert_refused("memory:a", named);
}

#[test]
fn a_memory_in_this_process_lasts_for_a_session() {
    let mut session = Session::start("memory:", &[]);
    let create = json!({"command": "create", "path": "/memories/a", "file_text": ""});
    assert_eq!(session.succeed(&create), "File created successfully at: /memories/a");
    assert_eq!(session.fail(&create), "Error: File /memories/a already exists");
    session.close();
}

#[test]
fn a_memory_in_this_process_is_not_looked_after() {
    let place = Place::new();
    let key = place.outside("key");
    fs::write(&key, "0".repeat(64)).unwrap();
    #[cfg(unix)]
    fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let key = key.to_str().unwrap();
    let rekey = ["rekey", "--key-file", key];
    for arguments in [&["verify"][..], &["gc"], &["check"], &["expire", "--expire-after", "1d"], &rekey] {
        let output = program().args(arguments).args(["--store", "memory:"]).output().unwrap();
        assert_refusal(&output, "memory-tool: memory: keeps nothing that could be looked after");
    }
}
