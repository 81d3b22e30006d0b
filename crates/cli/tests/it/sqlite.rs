//! Memories in a SQLite database: the commands, several memories in one file, and errors about other files.

use std::fs;

use memory_tool::StoreUrl;
use memory_tool_test_fixtures::session::{Place, Session, program};
use rusqlite::Connection;
use serde_json::json;

/// Runs a subcommand on a store: status, standard output, standard error.
fn run(store: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = program().args(arguments).args(["--store", store]).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn assert_replies(store: &str, arguments: &[&str], reply: &str) {
    assert_eq!(run(store, arguments), (Some(0), format!("{reply}\n"), String::new()));
}

#[test]
fn the_six_commands_work_on_one_memory_and_leave_the_others_alone() {
    const HEADER: &str =
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:";
    let place = Place::new();
    let (alice, bob) = (place.sqlite("alice"), place.sqlite("user%2Fb%20o%26b"));
    for (store, text) in [(&alice, "one\ntwo"), (&bob, "of bob")] {
        let create = ["create", "/memories/d/a", "--text", text];
        assert_replies(store, &create, "File created successfully at: /memories/d/a");
        let again = (Some(1), String::new(), "Error: File /memories/d/a already exists\n".to_owned());
        assert_eq!(run(store, &create), again);
    }
    let edited = "The memory file has been edited. Here is the snippet showing the change (with line numbers):";
    let replace = ["str_replace", "/memories/d/a", "--old-str", "one", "--new-str", "1"];
    assert_replies(&alice, &replace, &format!("{edited}\n     1\t1\n     2\ttwo"));
    let insert = ["insert", "/memories/d/a", "--insert-line", "0", "--insert-text", "zero"];
    assert_replies(&alice, &insert, "The file /memories/d/a has been edited.");
    let rename = ["rename", "/memories/d", "/memories/e"];
    assert_replies(&alice, &rename, "Successfully renamed /memories/d to /memories/e");
    let content = "Here's the content of /memories/e/a with line numbers:\n     1\tzero\n     2\t1\n     3\ttwo";
    assert_replies(&alice, &["view", "/memories/e/a"], content);
    assert_replies(&alice, &["delete", "/memories/e"], "Successfully deleted /memories/e");
    let gone = format!("memory-tool: there is no memory store at {}\n", StoreUrl::parse(&alice).unwrap());
    assert_eq!(run(&alice, &["view", "/memories"]), (Some(2), String::new(), gone));
    let shown = "Here's the content of /memories/d/a with line numbers:\n     1\tof bob";
    assert_replies(&bob, &["view", "/memories/d/a"], shown);
    let default = format!("sqlite:{}", place.database().display());
    assert_replies(&default, &["view", "/memories"], &format!("{HEADER}\n0B\t/memories"));
}

#[test]
fn a_new_database_is_created_with_its_parents() {
    let place = Place::new();
    let create = ["create", "/memories/a", "--text", "here", "--store", "sqlite:new/er/a%23b.db"];
    assert!(program().args(create).current_dir(place.outside("")).output().unwrap().status.success());
    assert!(place.outside("new/er/a#b.db").is_file());
}

#[test]
fn a_file_without_a_memory_is_refused_and_not_changed() {
    let newer = "PRAGMA user_version = 7";
    for (reason, make) in [
        (
            "the file is not a SQLite database",
            &(|place: &Place| fs::write(place.database(), "text").unwrap()) as &dyn Fn(&Place),
        ),
        ("the database is not a memory store", &|place| change(place, "CREATE TABLE customer (name TEXT)")),
        ("the database has schema version 7; this program supports versions up to 2", &|place| {
            Session::start(place.sqlite("a"), &[]).close();
            change(place, newer);
        }),
    ] {
        let place = Place::new();
        make(&place);
        let before = fs::read(place.database()).unwrap();
        for arguments in [&["run"][..], &["verify"], &["view", "/memories"], &["delete", "/memories/a", "--json"]] {
            let (status, output, errors) = run(&place.sqlite("a"), arguments);
            let database = place.database();
            let expected =
                format!("memory-tool: cannot open the memory store in the database {}: {reason}\n", database.display());
            assert_eq!((status, output.as_str(), errors), (Some(2), "", expected));
            assert_eq!(fs::read(&database).unwrap(), before);
            assert_eq!(fs::read_dir(place.outside("")).unwrap().count(), 1, "nothing is made beside it");
        }
    }
}

/// Changes the database like another program.
fn change(place: &Place, sql: &str) {
    Connection::open(place.database()).unwrap().execute_batch(sql).unwrap();
}

#[test]
fn replies_never_contain_the_path_of_the_database() {
    let place = Place::new();
    let mut session = Session::start(place.sqlite("alice"), &[]);
    let create = json!({"command": "create", "path": "/memories/a", "file_text": ""});
    session.succeed(&create);
    change(&place, "PRAGMA user_version = 7");
    let replies = [
        session.fail(&json!({"command": "delete", "path": "/memories/a"})),
        session.fail(&json!({"command": "view", "path": "/memories/b"})),
        session.fail(&json!({"command": "view", "path": "/memories"})),
    ];
    assert_eq!(replies[0], "Error: The memory storage failed. Nothing was changed.");
    let directory = place.outside("");
    let directory = directory.parent().unwrap().to_str().unwrap();
    for reply in replies {
        assert!(!reply.contains("memory.db") && !reply.contains(directory) && !reply.contains("alice"), "{reply}");
    }
    let (_, status, errors) = session.finish();
    assert!(status.success() && errors.contains("version 7"), "{errors}");
}
