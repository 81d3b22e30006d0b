//! `memory-tool verify`.

use std::ffi::OsStr;
use std::thread;

use memory_tool_test_fixtures::session::{Outcome, Place, Session, outcome, program};
use serde_json::json;

/// Verifies a store: status, standard output, standard error.
fn verify(store: impl AsRef<OsStr>, options: &[&str]) -> Outcome {
    outcome(program().arg("verify").args(options).arg("--store").arg(store))
}

/// The outcome with this output and an empty standard error.
fn found(status: i32, output: &str) -> Outcome {
    (Some(status), output.to_owned(), String::new())
}

fn create(session: &mut Session, path: &str, text: &str) {
    session.succeed(&json!({"command": "create", "path": path, "file_text": text}));
}

#[test]
fn undamaged_files_are_counted() {
    let place = Place::new();
    for store in [place.store().into_os_string(), place.sqlite("default").into()] {
        let mut session = Session::start(&store, &[]);
        session.succeed(&json!({"command": "view", "path": "/memories"}));
        assert_eq!(verify(&store, &[]), found(0, "0 files, 0 bytes: no problems found\n"));
        create(&mut session, "/memories/a", "x");
        assert_eq!(verify(&store, &[]), found(0, "1 file, 1 byte: no problems found\n"));
        create(&mut session, "/memories/d/e/f", "Grüße");
        assert_eq!(verify(&store, &[]), found(0, "2 files, 8 bytes: no problems found\n"));
        assert_eq!(verify(&store, &["--json"]), found(0, "{\"files\":2,\"bytes\":8,\"problems\":[],\"others\":0}\n"));
        session.close();
    }
}

#[test]
fn a_storage_failure_is_an_error() {
    let place = Place::new();
    place.session().succeed(&json!({"command": "view", "path": "/memories"}));
    place.break_storage();
    let (status, output, errors) = verify(place.store(), &[]);
    assert_eq!((status, output.as_str()), (Some(2), ""));
    assert!(
        errors.starts_with("memory-tool: cannot verify the store: waiting for the store lock failed: "),
        "{errors}"
    );
}

/// Files may change between the listing and the reading.
#[test]
fn concurrent_writers_cause_no_false_reports() {
    const LOOKS: usize = 50;
    let place = Place::in_memory();
    for store in [place.store().into_os_string(), place.sqlite("a").into()] {
        let mut session = Session::start(&store, &["--create-overwrites"]);
        create(&mut session, "/memories/first", "");
        let verifying = thread::spawn({
            let store = store.clone();
            move || (0..LOOKS).map(|_| verify(&store, &[])).collect::<Vec<_>>()
        });
        for number in 0.. {
            create(&mut session, "/memories/a", &"x".repeat(number % 1_000));
            create(&mut session, "/memories/d/b", "x");
            session.succeed(&json!({"command": "delete", "path": "/memories/d"}));
            if verifying.is_finished() {
                break;
            }
        }
        for (status, output, errors) in verifying.join().unwrap() {
            assert!(status == Some(0) && output.ends_with("no problems found\n"), "{output}{errors}");
        }
    }
}
