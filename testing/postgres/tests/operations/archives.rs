//! A dump of a sound database in `tests/stores`, the statements of other programs that damage it, and beside each what
//! `verify` and its repair report.

use std::fs;
use std::path::Path;

use memory_tool_test_fixtures::archives::{archives, expect_report, folder, report};
use memory_tool_test_fixtures::in_full;
use memory_tool_test_postgres::{Database, server};

/// Restores the dump, and makes the statements of another program.
fn restored(statements: &Path) -> Database {
    let (database, sound) = (Database::new(server()), folder().join("postgres-sound.sql"));
    let files = if statements == sound { vec![&*sound] } else { vec![&*sound, statements] };
    for file in files {
        let statements = fs::read_to_string(file).unwrap();
        server().sql_in(database.role(), database.name(), &statements).unwrap();
    }
    database
}

#[test]
fn damaged_databases_are_reported_and_repaired() {
    let archives = archives(|name| name.ends_with(".sql"));
    assert!(archives.len() > 8, "{archives:?}");
    // The full tier has all of them.
    for archive in archives.into_iter().step_by(in_full(4, 1)) {
        let database = restored(&archive);
        let (url, directory) = (database.url(server()), tempfile::tempdir().unwrap());
        let found = report(directory.path(), &["--store", &url]).replace(&url, "URL");
        expect_report(&archive, &found.replace(database.role(), "ROLE"));
    }
}
