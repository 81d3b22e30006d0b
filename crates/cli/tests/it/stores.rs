//! URLs of stores, and errors about stores that cannot be opened.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use memory_tool::StoreUrl;
use memory_tool_test_fixtures::session::{Place, program};

fn view(store: impl AsRef<OsStr>, directory: &Path) -> Output {
    program().args(["view", "/memories", "--store"]).arg(store).current_dir(directory).output().unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Checks that `run` and `view` refuse the store with an error that starts like this.
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
fn a_new_store_is_created_with_its_parents_and_is_empty() {
    let place = Place::new();
    for (store, path) in [("new/er/store", "new/er/store"), ("sqlite:other/new/a%23b.db", "other/new/a#b.db")] {
        let run = program().args(["run", "--store", store]).current_dir(place.outside("")).output().unwrap();
        assert!(run.status.success(), "{run:?}");
        assert!(place.outside(path).exists());
        let output = view(store, &place.outside(""));
        assert!(output.status.success(), "{output:?}");
        assert!(output.stdout.ends_with(b"node_modules:\n0B\t/memories\n"));
    }
}

fn everything(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(current) = directories.pop() {
        for entry in fs::read_dir(current).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path.clone());
            }
            found.insert(path.clone(), fs::read(&path).unwrap_or_default());
        }
    }
    found
}

const A: &str = "/memories/a";

/// A place with a store, a database, a file to import and a key. Commands run in its directory.
fn place_with_stores() -> Place {
    let place = Place::new();
    let key = place.outside("key");
    assert!(program().arg("keygen").arg("--output").arg(&key).output().unwrap().status.success());
    for store in ["store", "sqlite:memory.db", "sqlite:memory.db?memory=a"] {
        let output = in_place(&place, &["create", A, "--text", "kept", "--store", store]);
        assert!(output.status.success(), "{output:?}");
    }
    place
}

fn in_place(place: &Place, arguments: &[&str]) -> Output {
    program().args(arguments).current_dir(place.outside("")).output().unwrap()
}

#[test]
fn a_store_that_does_not_exist_is_reported_and_not_created() {
    let place = place_with_stores();
    let before = everything(&place.outside(""));
    let commands: &[&[&str]] = &[
        &["view", "/memories"],
        &["view", "/memories", "--json"],
        &["view", "/memories", "--expire-after", "1d"],
        &["view", "/memories", "--key-file", "key"],
        &["create", A, "--text", "x", "--read-only"],
        &["str_replace", A, "--old-str", "x"],
        &["insert", A, "--insert-line", "0", "--insert-text", "x"],
        &["delete", A],
        &["delete", A, "--json"],
        &["rename", A, "/memories/b"],
        &["run", "--read-only"],
        &["run", "--read-only", "--expire-after", "1d"],
        &["verify"],
        &["verify", "--key-file", "key"],
        &["export", "target"],
        &["export", "target.tar.gz"],
        &["export", "-"],
        &["expire", "--expire-after", "1d"],
        &["expire", "--expire-after", "1d", "--dry-run"],
        &["rekey", "--key-file", "key"],
    ];
    for store in ["typo", "ty/po", "sqlite:typo", "sqlite:ty/po", "sqlite:memory.db?memory=typo"] {
        let url: StoreUrl = store.parse().unwrap();
        let reason = format!("memory-tool: there is no memory store at {url}\n");
        for command in commands {
            let output = in_place(&place, &[command, &["--store", store][..]].concat());
            assert_refusal(&output, &reason);
        }
        for command in [&["copy", store, "target"][..], &["copy", store, "target", "--dry-run"]] {
            assert_refusal(&in_place(&place, command), &reason);
        }
        for command in [&["view", "/memories"][..], &["run"], &["create", "/memories/new", "--text", "x"]] {
            let mount = format!("--mount-read-only=/memories/m={store}");
            for over in ["store", "new"] {
                assert_refusal(&in_place(&place, &[command, &["--store", over, &mount]].concat()), &reason);
            }
        }
        let mount = format!("--mount=/memories/m={store}");
        assert_refusal(&in_place(&place, &["view", "/memories", "--store", "store", &mount]), &reason);
    }
    assert_eq!(everything(&place.outside("")), before);
}

#[test]
fn a_scope_without_files_is_reported() {
    let place = place_with_stores();
    for (store, url) in [("store", "file:store"), ("sqlite:memory.db", "sqlite:memory.db?memory=default")] {
        let reason = format!("memory-tool: there is no memory store for the scope typo at {url}\n");
        for command in [
            &["view", "/memories", "--scope=typo"][..],
            &["delete", A, "--scope=typo"],
            &["run", "--read-only", "--scope=typo"],
            &["export", "target", "--scope=typo"],
            &["expire", "--expire-after=1d", "--scope=typo"],
        ] {
            assert_refusal(&in_place(&place, &[command, &["--store", store]].concat()), &reason);
        }
        assert_refusal(&in_place(&place, &["copy", store, "target", "--source-scope=typo"]), &reason);
    }
    assert!(!place.outside("target").exists());
}

#[test]
fn only_run_reports_a_new_store() {
    let place = place_with_stores();
    let mount = "--mount=/memories/m=mounted";
    for (arguments, expected) in [
        (&["--store", "new"][..], "memory-tool: created the memory store at file:new\n"),
        (&["--store", "new"], ""),
        (
            &["--store", "store", "--scope", "alice"],
            "memory-tool: created the memory store for the scope alice at file:store\n",
        ),
        (&["--store", "store", mount], "memory-tool: created the memory store at file:mounted\n"),
        (&["--store", "store", mount], ""),
        (&["--store", "sqlite:new.db"], "memory-tool: created the memory store at sqlite:new.db?memory=default\n"),
        (&["--store", "new", "--key-file", "key"], "memory-tool: created the memory store at file:new\n"),
        (&["--store", "in-process:"], ""),
        (&["--store", "in-process:", "--key-file", "key"], ""),
    ] {
        let output = in_place(&place, &[&["run"], arguments].concat());
        assert_eq!((output.status.code(), errors(&output).as_str()), (Some(0), expected), "{arguments:?}");
    }
    for arguments in [
        &["create", A, "--text", "x", "--store", "created"][..],
        &["create", A, "--text", "x", "--store", "created", "--scope", "alice"],
        &["copy", "store", "copied"],
        &["import", "store/memories", "--store", "imported"],
    ] {
        let output = in_place(&place, arguments);
        assert_eq!((output.status.code(), errors(&output).as_str()), (Some(0), ""), "{arguments:?}");
    }
}

/// The exception is a view with `--expire-after`, which is recorded.
#[test]
fn commands_that_read_do_not_change_a_store() {
    let place = place_with_stores();
    fs::create_dir_all(place.outside("by-hand/memories")).unwrap();
    fs::write(place.outside("by-hand/memories/a"), "kept").unwrap();
    let before = everything(&place.outside(""));
    for store in ["store", "by-hand", "sqlite:memory.db"] {
        for command in [
            &["view", A][..],
            &["run", "--read-only"],
            &["create", "/memories/b", "--text", "x", "--read-only"],
            &["verify"],
            &["export", "-"],
            &["expire", "--expire-after=1d", "--dry-run"],
        ] {
            let output = in_place(&place, &[command, &["--store", store]].concat());
            assert_eq!(output.status.code(), Some(i32::from(command[0] == "create")), "{command:?} {output:?}");
        }
        assert!(in_place(&place, &["copy", store, "sqlite:memory.db?memory=b", "--dry-run"]).status.success());
    }
    assert_eq!(everything(&place.outside("")), before);
    let used = in_place(&place, &["view", A, "--store", "store", "--expire-after=1d", "--read-only"]);
    assert!(used.status.success() && place.store().join(".memory-tool/records").exists(), "{used:?}");
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
                 A store is a path, or a URL that begins with file:, sqlite:, postgres:, s3:, gs:, az: or in-process:; \
                 write ./{store} for a path of that name\n"
            ),
        );
        assert_eq!(fs::read_dir(place.outside("")).unwrap().count(), 0);
    }
}

#[test]
fn a_path_that_is_a_file_is_refused() {
    let place = Place::new();
    let file = place.outside("file");
    fs::write(&file, "mine").unwrap();
    for store in [file.clone(), file.join("below")] {
        assert_refused(
            &store,
            &format!("memory-tool: cannot open the memory store in the directory {}: ", store.display()),
        );
    }
    let reason = "the file is not a SQLite database";
    let refusal = format!("memory-tool: cannot open the memory store in the database {}: {reason}", file.display());
    assert_refused(format!("sqlite:{}", file.display()), &refusal);
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
#[cfg(unix)]
fn a_directory_without_permissions_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;

    let place = Place::new();
    fs::set_permissions(place.outside(""), fs::Permissions::from_mode(0o755)).unwrap();
    for (name, mode) in [("unreadable", 0o000), ("read-only", 0o555)] {
        let directory = place.outside(name);
        fs::create_dir(&directory).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(mode)).unwrap();
        for store in [directory.clone(), directory.join("new")] {
            let output =
                without_privileges(&place).args(["create", A, "--text", "", "--store"]).arg(&store).output().unwrap();
            assert_refusal(
                &output,
                &format!("memory-tool: cannot open the memory store in the directory {}: ", store.display()),
            );
            assert!(errors(&output).contains("Permission denied"), "{}", errors(&output));
        }
    }
}

/// As on a read-only disk or in a backup of another user.
#[test]
#[cfg(unix)]
fn a_read_only_store_can_be_viewed_verified_and_exported() {
    use std::os::unix::fs::PermissionsExt as _;

    let place = place_with_stores();
    for path in everything(&place.outside("")).into_keys().chain([place.outside("")]) {
        let mode = if path.is_dir() { 0o555 } else { 0o444 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    // The other user needs access to the program.
    let reachable = Place::new();
    fs::set_permissions(reachable.outside(""), fs::Permissions::from_mode(0o755)).unwrap();
    let before = everything(&place.outside(""));
    for store in ["store", "sqlite:memory.db", "sqlite:memory.db?memory=a"] {
        for (command, printed) in [
            (&["view", A][..], "kept\n"),
            (&["verify"], "1 file, 4 bytes: no problems found\n"),
            (&["export", "-"], ""),
            (&["run", "--read-only"], ""),
        ] {
            let mut program = without_privileges(&reachable);
            let output =
                program.args(command).args(["--store", store]).current_dir(place.outside("")).output().unwrap();
            assert!(output.status.success(), "{store} {command:?} {output:?}");
            assert!(String::from_utf8(output.stdout).unwrap().ends_with(printed), "{store} {command:?}");
        }
        let mut program = without_privileges(&reachable);
        let write = program.args(["create", "/memories/b", "--text", "x", "--store", store]);
        assert!(!write.current_dir(place.outside("")).output().unwrap().status.success());
    }
    assert_eq!(everything(&place.outside("")), before);
    fs::set_permissions(place.outside(""), fs::Permissions::from_mode(0o755)).unwrap();
    for directory in everything(&place.outside("")).into_keys().filter(|path| path.is_dir()) {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap(); // for the cleanup
    }
}

/// Directories of another user are among the files.
#[test]
#[cfg(unix)]
fn an_inaccessible_directory_does_not_affect_other_files() {
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
    let view = run(&["view", "/memories"]);
    assert!(view.ends_with("\t/memories/d/locked/\n[1 items could not be listed: 1 unreadable.]\n"), "{view}");
    assert!(run(&["view", "/memories/.trash"]).starts_with("memory-tool: Error: The memory storage refused access"));
    let view = run(&["view", "/memories/only"]);
    assert!(view.ends_with("\n0B\t/memories/only\n[1 items could not be listed: 1 unreadable.]\n"), "{view}");
    assert_eq!(run(&["delete", "/memories/d"]), "Successfully deleted /memories/d\n");
    let staging = fs::read_dir(place.store().join(".memory-tool/staging")).unwrap();
    assert_eq!(staging.count(), 0, "what was deleted is still on the disk");
}

/// The program as an unprivileged user, because permissions do not apply to the superuser.
#[cfg(unix)]
fn without_privileges(place: &Place) -> Command {
    use std::os::unix::fs::MetadataExt as _;
    use std::os::unix::process::CommandExt as _;

    const NOBODY: u32 = 65_534;
    if fs::metadata(place.outside("")).unwrap().uid() != 0 {
        return program();
    }
    // The unprivileged user may not reach the build directory. A separate process copies the program: a file that this
    // process has open for writing may be inherited by processes of other tests, and cannot be executed until they
    // close it.
    let reachable = place.outside("memory-tool");
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_memory-tool")).arg(&reachable).status().unwrap();
    assert!(copied.success());
    let mut command = Command::new(reachable);
    command.uid(NOBODY).gid(NOBODY);
    command
}

#[test]
fn an_in_process_store_starts_empty_and_leaves_no_files() {
    let place = Place::new();
    let directory = place.outside("");
    for _ in 0..2 {
        let create =
            program().args(["create", "/memories/a", "--text", "", "--store", "in-process:"]).output().unwrap();
        assert!(create.status.success(), "{create:?}");
    }
    assert!(view("IN-Process:", &directory).stdout.ends_with(b"node_modules:\n0B\t/memories\n"));
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    let named = "error: invalid value 'in-process:a' for '--store <URL>': nothing can follow in-process:";
    assert_refused("in-process:a", named);
    let unknown = "error: invalid value 'memory:' for '--store <URL>': \
                   unknown scheme `memory:` (did you mean in-process:?)";
    assert_refused("memory:", unknown);
}

#[test]
fn maintenance_commands_refuse_an_in_process_store() {
    let place = Place::new();
    let key = place.outside("key");
    fs::write(&key, "0".repeat(64)).unwrap();
    #[cfg(unix)]
    fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let key = key.to_str().unwrap();
    let rekey = ["rekey", "--key-file", key];
    for arguments in [&["verify"][..], &["gc"], &["expire", "--expire-after", "1d"], &rekey] {
        let output = program().args(arguments).args(["--store", "in-process:"]).output().unwrap();
        assert_refusal(&output, "memory-tool: in-process: is temporary");
    }
}
