//! A hostile local store, such as a clone of a repository: no command reads, writes or moves a file outside it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use memory_tool_test_fixtures::session::{Place, program};

/// A store from `git clone`: its links are relative, and lead to the `home` next to it.
fn make_store(place: &Place, staged: &str, links: &[(&str, &str)]) {
    let store = place.store();
    let _ = fs::remove_dir_all(&store);
    for directory in ["memories", ".memory-tool/staging", ".memory-tool/conflicts"] {
        fs::create_dir_all(store.join(directory)).unwrap();
    }
    for (name, target) in links {
        symlink(target, store.join(name)).unwrap();
    }
    let journal =
        format!(r#"{{"format":1,"steps":[{{"write":{{"path":"/memories/x","staged":"{staged}","replaces":null}}}}]}}"#);
    fs::write(store.join(".memory-tool/journal"), journal).unwrap();
}

/// All files under a directory with their contents, without following links.
fn files(directory: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let (path, kind) = entry.map(|entry| (entry.path(), entry.file_type().unwrap())).unwrap();
        if kind.is_dir() {
            found.extend(files(&path));
        } else if kind.is_file() && !path.ends_with("lock") && !path.ends_with("turnstile") {
            found.push((path.clone(), fs::read_to_string(path).unwrap()));
        }
    }
    found.sort();
    found
}

/// Runs every kind of command that opens a store, each on a fresh store. Each must fail and change no file.
fn every_command(place: &Place, make: impl Fn()) {
    let key = place.outside("key");
    assert!(program().args(["keygen", "--output"]).arg(&key).status().unwrap().success());
    let (store, out, other) = (place.store(), place.outside("out"), place.outside("other"));
    let commands: [&[&OsStr]; 7] = [
        &["view".as_ref(), "/memories".as_ref()],
        &["view".as_ref(), "--read-only".as_ref(), "/memories".as_ref()],
        &["create".as_ref(), "/memories/new".as_ref(), "text".as_ref()],
        &["verify".as_ref()],
        &["export".as_ref(), out.as_os_str()],
        &["copy".as_ref(), "--dry-run".as_ref(), store.as_os_str(), other.as_os_str()],
        &["view".as_ref(), "--key-file".as_ref(), key.as_os_str(), "/memories".as_ref()],
    ];
    for command in commands {
        make();
        let before = (files(&place.outside("home")), files(&place.store()));
        let mut program = program();
        program.args(command);
        if command[0] != "copy" {
            program.arg("--store").arg(place.store());
        }
        let output = program.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{command:?}: {text}");
        assert!(!text.contains("panicked") && !text.contains("SECRET"), "{command:?}: {text}");
        assert_eq!((files(&place.outside("home")), files(&place.store())), before, "{command:?}: {text}");
    }
}

#[test]
fn a_hostile_store_cannot_read_files_outside_it() {
    let place = Place::new();
    fs::create_dir_all(place.outside("home/.ssh")).unwrap();
    fs::write(place.outside("home/.ssh/id_rsa"), "SECRET").unwrap();
    let links = [(".memory-tool/staging/d", "../../../home/.ssh"), (".memory-tool/conflicts/d", "../../memories")];
    every_command(&place, || make_store(&place, "d/id_rsa", &links));
}

#[test]
fn a_hostile_store_cannot_create_files_outside_it() {
    let place = Place::new();
    fs::create_dir(place.outside("home")).unwrap();
    let links = [(".memory-tool/conflicts/d", "../../../home"), ("memories/x", "/")];
    every_command(&place, || {
        make_store(&place, "d/.profile", &links);
        fs::create_dir(place.store().join(".memory-tool/staging/d")).unwrap();
        fs::write(place.store().join(".memory-tool/staging/d/.profile"), "theirs").unwrap();
    });
}

/// It does not complete an interrupted change either.
#[test]
fn verifying_does_not_change_a_store() {
    let place = Place::new();
    fs::create_dir_all(place.store().join("memories")).unwrap();
    fs::write(place.file("a"), "text").unwrap();
    let verify = || program().arg("verify").arg("--store").arg(place.store()).output().unwrap();
    assert_eq!(String::from_utf8(verify().stdout).unwrap(), "1 file, 4 bytes: no problems found\n");
    assert!(!place.store().join(".memory-tool").exists());
    make_store(&place, "0123456789abcdef", &[]);
    let before = files(&place.store());
    let output = verify();
    let problems = String::from_utf8(output.stdout).unwrap();
    assert_eq!((output.status.code(), files(&place.store())), (Some(1), before), "{problems}");
    assert!(problems.contains("an interrupted change is pending: open the store for writing once"), "{problems}");
}

/// The file is larger than the RAM of the machine.
#[test]
fn a_file_that_is_too_large_is_reported() {
    let place = Place::new();
    fs::create_dir_all(place.store().join("memories")).unwrap();
    fs::write(place.file("a"), "text").unwrap();
    File::create(place.file("big")).unwrap().set_len(1 << 40).unwrap();
    let run = |arguments: &[&str]| {
        let output = program().args(arguments).current_dir(place.outside("")).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), text)
    };
    let reason = "The file is too large to read: it has 1099511627776 bytes and the limit is 67108864";
    for arguments in [
        &["view", "--store", "store", "/memories/big"][..],
        &["verify", "--store", "store"],
        &["export", "out", "--store", "store"],
        &["copy", "store", "other"],
        &["copy", "--dry-run", "store", "other"],
    ] {
        let (status, text) = run(arguments);
        assert!(status != 0 && text.contains(reason), "{arguments:?}: {text}");
        assert!(text.contains("/memories/big") || arguments[0] == "view", "{arguments:?}: {text}");
    }
    let (status, listing) = run(&["view", "--store", "store", "/memories"]);
    assert!(status == 0 && listing.contains("1024.0G\t/memories/big"), "{listing}");
    assert_eq!(run(&["delete", "--store", "store", "/memories/big"]).0, 0);
    assert_eq!(run(&["verify", "--store", "store"]), (0, "1 file, 4 bytes: no problems found\n".to_owned()));
}
