//! `memories`, `forget` and `--all`, on local disk, SQLite and an encrypted store.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use memory_tool_test_fixtures::session::{Place, outcome, program};
use serde_json::Value;

/// Runs the program in the directory. Returns its status, output and errors.
pub(crate) fn run(directory: &Path, line: &str) -> (Option<i32>, String, String) {
    let words = shlex::split(line).unwrap();
    outcome(program().current_dir(directory).args(words))
}

pub(crate) fn succeed(directory: &Path, line: &str) -> String {
    let (status, output, errors) = run(directory, line);
    assert_eq!(status, Some(0), "{line}: {output}{errors}");
    output
}

/// The places in a list of memories.
fn listed(directory: &Path, store: &str) -> Vec<String> {
    let lines = succeed(directory, &format!("memories --json --store {store}"));
    let value = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    let place = |found: Value| match found["scope"].as_str() {
        Some(scope) => format!("{} {scope} {} {}", found["store"].as_str().unwrap(), found["files"], found["bytes"]),
        None => format!("{} {} {}", found["store"].as_str().unwrap(), found["files"], found["bytes"]),
    };
    lines.lines().map(value).map(place).collect()
}

/// A database with two memories, a directory with two tenants, and an encrypted one.
fn stores(place: &Place) -> [String; 3] {
    let directory = place.outside("");
    fs::write(directory.join("key"), "01".repeat(32)).unwrap();
    fs::set_permissions(directory.join("key"), fs::Permissions::from_mode(0o600)).unwrap();
    let stores = ["sqlite:m.db".to_owned(), "tenants".to_owned(), "sealed --key-file key".to_owned()];
    for name in ["alice", "bob"] {
        let create = format!("create notes.md --text '{name}' --history");
        succeed(&directory, &format!("{create} --store sqlite:m.db?memory={name}"));
        succeed(&directory, &format!("{create} --store tenants --scope {name}"));
        succeed(&directory, &format!("{create} --store sealed --key-file key --scope {name}"));
    }
    stores
}

#[test]
fn the_memories_of_a_store_are_listed() {
    let place = Place::new();
    let directory = place.outside("");
    let [database, tenants, sealed] = stores(&place);
    let expected = ["sqlite:m.db?memory=alice 1 5", "sqlite:m.db?memory=bob 1 3"];
    assert_eq!(listed(&directory, &database), expected);
    assert_eq!(listed(&directory, &tenants), ["file:tenants alice 1 5", "file:tenants bob 1 3"]);
    assert_eq!(listed(&directory, &sealed), ["file:sealed alice 1 5", "file:sealed bob 1 3"]);

    // Files outside all scopes are a memory, and a scope can have no files.
    succeed(&directory, "create outside.md --text text --store tenants");
    succeed(&directory, "delete notes.md --store tenants --scope bob");
    let expected = ["file:tenants 1 4", "file:tenants alice 1 5", "file:tenants bob 0 0"];
    assert_eq!(listed(&directory, &tenants), expected);
    let (status, output, errors) = run(&directory, "memories --store sealed");
    assert_eq!(status, Some(1), "{errors}");
    assert!(output.contains("       -            -  -                     file:sealed\n"), "{output}");
    assert!(errors.contains("add --key-file"), "{errors}");
    let (status, _, errors) = run(&directory, "memories --store missing");
    assert!(status == Some(2) && errors.contains("there is no memory store"), "{errors}");
}

#[test]
fn a_forgotten_memory_is_gone_with_its_history() {
    let place = Place::new();
    let directory = place.outside("");
    for store in stores(&place) {
        let (status, _, errors) = run(&directory, &format!("forget alice --store {store}"));
        assert!(status == Some(2) && errors.contains("--yes is required"), "{errors}");
        let (status, output, errors) = run(&directory, &format!("forget alice --yes --store {store}"));
        assert_eq!(status, Some(0), "{errors}");
        assert!(output.contains("alice with 1 file, its history and its records\n"), "{output}");
        assert!(errors.contains("backups are not known here"), "{errors}");
        assert_eq!(listed(&directory, &store).len(), 1, "{store}");
        let (status, _, errors) = run(&directory, &format!("forget alice --yes --store {store}"));
        assert!(status == Some(2) && errors.contains("no memory of this name"), "{errors}");
        assert!(succeed(&directory, &format!("verify --all --store {store}")).contains("no problems found"));
    }
    assert_eq!(succeed(&directory, "log --store sqlite:m.db?memory=bob").matches("entry ").count(), 1);
    // The histories of all tenants are verified.
    let head = directory.join("tenants/.memory-tool/records/scopes/scope-bob/history/head");
    fs::write(head, "damaged").unwrap();
    let (status, output, _) = run(&directory, "verify --store tenants");
    assert!(status == Some(1) && output.contains("scope bob: "), "{output}");
}

#[test]
fn a_name_of_two_memories_is_refused() {
    let place = Place::new();
    let directory = place.outside("");
    succeed(&directory, "create a.md --text text --store sqlite:m.db?memory=alice");
    succeed(&directory, "create a.md --text text --store sqlite:m.db --scope alice");
    let (status, _, errors) = run(&directory, "forget alice --yes --store sqlite:m.db");
    assert!(status == Some(2) && errors.contains("several memories have this name"), "{errors}");
    let (status, _, errors) = run(&directory, "export out --all --store sqlite:m.db");
    assert!(status == Some(2) && errors.contains("several memories are named \"alice\""), "{errors}");
    succeed(&directory, "forget 'sqlite:m.db?memory=default --scope alice' --yes --store sqlite:m.db");
    assert_eq!(listed(&directory, "sqlite:m.db"), ["sqlite:m.db?memory=alice 1 4"]);
}

#[test]
fn all_memories_can_be_verified_exported_copied_and_swept() {
    let place = Place::new();
    let directory = place.outside("");
    let [database, tenants, sealed] = stores(&place);
    succeed(&directory, "create outside.md --text text --store tenants");
    for (number, store) in [&database, &tenants, &sealed].into_iter().enumerate() {
        let verified = succeed(&directory, &format!("verify --all --store {store}"));
        assert!(verified.contains("no problems found"), "{verified}");
        let (status, output, errors) = run(&directory, &format!("export out{number} --all --store {store}"));
        assert_eq!((status, output.matches("exported 1 file").count()), (Some(0), 2), "{errors}");
        let is_mixed = errors.contains("file:tenants has 1 file outside all scopes, not included here");
        assert_eq!(is_mixed, store == &tenants, "{errors}");
        for name in ["alice", "bob"] {
            let exported = directory.join(format!("out{number}/{name}/notes.md"));
            assert_eq!(fs::read_to_string(exported).unwrap(), name);
        }
        let swept = succeed(&directory, &format!("expire --all --expire-after 24h --json --store {store}"));
        assert_eq!(swept.matches("\"removed\":[],\"kept\":1,\"held\":0").count(), 2, "{swept}");
        assert_eq!(swept.matches("\"memory\":").count(), 2, "{swept}");
    }
    // A tenant stays a tenant, and a memory becomes one of the destination.
    succeed(&directory, "copy --all tenants sqlite:tenants.db");
    let expected = ["alice 1 5", "bob 1 3"].map(|rest| format!("sqlite:tenants.db?memory=default {rest}"));
    assert_eq!(listed(&directory, "sqlite:tenants.db"), expected);
    succeed(&directory, "copy --all sqlite:m.db shelf");
    assert_eq!(listed(&directory, "shelf"), ["file:shelf/alice 1 5", "file:shelf/bob 1 3"]);
    succeed(&directory, "copy --all shelf sqlite:back.db");
    assert_eq!(listed(&directory, "sqlite:back.db").len(), 2);
    let (status, _, errors) = run(&directory, "export - --all --store shelf");
    assert!(status == Some(2) && errors.contains("--all needs a directory"), "{errors}");

    // One failure does not stop the others.
    fs::write(directory.join("out1/alice/notes.md"), "other").unwrap();
    let (status, output, errors) = run(&directory, "export out3 --all --store tenants");
    assert_eq!(status, Some(0), "{output}{errors}");
    fs::remove_dir_all(directory.join("out3/bob")).unwrap();
    let (status, output, errors) = run(&directory, "export out3 --all --store tenants");
    assert_eq!((status, output.matches("exported 1 file").count()), (Some(1), 1), "{output}{errors}");
}

/// A memory whose last file was deleted still has its history.
#[test]
fn a_memory_without_files_keeps_its_history_until_it_is_forgotten() {
    for (store, scope, name) in [
        ("tenants", "--scope alice", "alice"),
        ("sqlite:m.db", "--scope dave", "dave"),
        ("sealed --key-file key", "--scope alice", "alice"),
        ("sqlite:m.db?memory=carl", "", "carl"),
        ("tenants/carl", "", "carl"),
    ] {
        let place = Place::new();
        let directory = place.outside("");
        stores(&place);
        let run = |line: &str| run(&directory, &format!("{line} --store {store} {scope}"));
        let done = |line: &str| succeed(&directory, &format!("{line} --store {store} {scope}"));
        if name != "alice" {
            done("create notes.md --text text1 --history");
        }
        done("delete notes.md");
        for line in ["log", "show 1", "search xyz --at 1", "expire --expire-after 90d"] {
            let (status, output, errors) = run(line);
            assert!(matches!(status, Some(0 | 1)), "{store}: {line}: {output}{errors}");
        }
        let exported = run("export out --at 1");
        assert_eq!(exported.0, Some(0), "{store}: {}", exported.2);
        assert_eq!(exported.1, "exported 1 file (5 bytes)\n", "{store}");
        assert!(directory.join("out/notes.md").exists());
        done("undo");
        done("cat notes.md");
        done("redo");
        assert_eq!(run("redact 1 2").0, Some(0), "{store}");
        let listed_at = if store.starts_with("sqlite:") { "sqlite:m.db" } else { store.trim_end_matches("/carl") };
        assert!(listed(&directory, listed_at).iter().any(|found| found.contains(name) && found.ends_with(" 0 0")));
        let forgotten = succeed(&directory, &format!("forget {name} --yes --store {listed_at}"));
        assert!(forgotten.contains("with 0 files, its history and its records"), "{forgotten}");
        // A directory of a memory remains, without files and records.
        let is_listed =
            listed(&directory, listed_at).iter().any(|found| found.contains(name) && found.ends_with(" 0 0"));
        assert_eq!(is_listed, store == "tenants/carl", "{store}");
    }
}

/// The history of files outside all scopes is a memory too.
#[test]
fn a_store_with_scopes_and_an_own_history_is_listed() {
    let place = Place::new();
    let directory = place.outside("");
    let [_, tenants, _] = stores(&place);
    succeed(&directory, "create outside.md --text text --history --store tenants");
    succeed(&directory, "delete outside.md --store tenants");
    assert_eq!(listed(&directory, &tenants), ["file:tenants 0 0", "file:tenants alice 1 5", "file:tenants bob 1 3"]);
}
