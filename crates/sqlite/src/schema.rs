//! The tables: whose database it is, and how a file of an older version is brought up to date.

use memory_tool_core::OpenMode;
use rusqlite::{Connection, MAIN_DB, TransactionBehavior};

use crate::config::OpenFailure;
use crate::failure::NotOpened;

/// "cmem" in ASCII, in the header of each database: `file` and SQLite tell by it whose the file is.
const APPLICATION_ID: u32 = 0x636d_656d;

/// Script `n` takes a database from version `n` of the schema to the next. What was released is never edited again.
const MIGRATIONS: &[&str] = &[include_str!("../migrations/0001_files.sql")];

/// Brings the database up to date, as far as the mode allows it. One that is not ours is left as it is.
pub(crate) fn prepare(connection: &mut Connection, mode: OpenMode) -> Result<(), NotOpened> {
    let (found, known) = (version(connection, MIGRATIONS)?, newest(MIGRATIONS));
    if found == 0 && mode != OpenMode::Create {
        return Err(OpenFailure::NotFound.into());
    }
    if found < known && mode == OpenMode::ReadOnly {
        return Err(OpenFailure::OlderSchema { found, known }.into());
    }
    if found == known && connection.is_readonly(MAIN_DB)? {
        return Ok(());
    }
    keep_write_ahead_log(connection)?;
    migrate(connection, MIGRATIONS)
}

/// Refuses a database that a newer program brought up to date since this one opened it.
pub(crate) fn refuse_newer(connection: &Connection) -> Result<(), NotOpened> {
    let known = newest(MIGRATIONS);
    let found = connection.prepare_cached("PRAGMA user_version")?.query_one((), |row| row.get(0))?;
    if found > known { Err(OpenFailure::NewerSchema { found, known }.into()) } else { Ok(()) }
}

fn newest(migrations: &[&str]) -> u32 {
    migrations.len() as u32
}

/// The version of the schema; 0 where the database is empty.
fn version(connection: &Connection, migrations: &[&str]) -> Result<u32, NotOpened> {
    // One statement, so that all three are of one moment.
    const STATE: &str = "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema) \
         FROM pragma_application_id, pragma_user_version";
    let known = newest(migrations);
    let mut state = connection.prepare_cached(STATE)?;
    match state.query_one((), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))? {
        (APPLICATION_ID, found, _) if found <= known => Ok(found),
        (APPLICATION_ID, found, _) => Err(OpenFailure::NewerSchema { found, known }.into()),
        (0, 0, 0) => Ok(0),
        _ => Err(OpenFailure::NotAStore.into()),
    }
}

/// The log lets readers go on while somebody writes. The mode stays with the file.
fn keep_write_ahead_log(connection: &Connection) -> Result<(), NotOpened> {
    let mode: String = connection.query_one("PRAGMA journal_mode = WAL", (), |row| row.get(0))?;
    if mode == "wal" { Ok(()) } else { Err(OpenFailure::NoWriteAheadLog { mode }.into()) }
}

fn migrate(connection: &mut Connection, migrations: &[&str]) -> Result<(), NotOpened> {
    while version(connection, migrations)? < newest(migrations) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let version = version(&transaction, migrations)?; // another process may have been faster
        if let Some(script) = migrations.get(version as usize) {
            transaction.execute_batch(script)?;
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            transaction.pragma_update(None, "user_version", version + 1)?;
        }
        transaction.commit()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: &[&str] = &[
        "CREATE TABLE note (text TEXT) STRICT",
        "INSERT INTO note VALUES ('kept')",
        "ALTER TABLE note ADD COLUMN author TEXT; UPDATE note SET author = 'somebody'",
    ];

    fn state(connection: &Connection) -> (u32, Vec<(String, Option<String>)>) {
        let version = connection.query_one("PRAGMA user_version", (), |row| row.get(0)).unwrap();
        let has_author = connection.prepare("SELECT author FROM note").is_ok();
        let sql = if has_author { "SELECT text, author FROM note" } else { "SELECT text, NULL FROM note" };
        let mut notes = connection.prepare(sql).unwrap();
        let notes = notes.query_map((), |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        (version, notes.map(Result::unwrap).collect())
    }

    #[test]
    fn a_database_of_any_version_is_brought_forward_step_by_step() {
        for start in 0..=STEPS.len() {
            let mut connection = Connection::open_in_memory().unwrap();
            migrate(&mut connection, &STEPS[..start]).unwrap();
            migrate(&mut connection, STEPS).unwrap();
            assert_eq!(state(&connection), (3, vec![("kept".to_owned(), Some("somebody".to_owned()))]), "from {start}");
        }
    }

    #[test]
    fn a_step_that_fails_leaves_the_state_before_it() {
        let mut connection = Connection::open_in_memory().unwrap();
        let broken = [STEPS[0], STEPS[1], "ALTER TABLE note ADD COLUMN author TEXT; INSERT INTO nowhere VALUES (1)"];
        assert!(matches!(migrate(&mut connection, &broken), Err(NotOpened(OpenFailure::Failed { .. }))));
        assert_eq!(state(&connection), (2, vec![("kept".to_owned(), None)]));
        migrate(&mut connection, STEPS).unwrap();
        assert_eq!(state(&connection).0, 3);
    }

    #[test]
    fn a_newer_database_is_refused_as_it_is() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, STEPS).unwrap();
        let refused = migrate(&mut connection, &STEPS[..1]);
        assert!(matches!(refused, Err(NotOpened(OpenFailure::NewerSchema { found: 3, known: 1 }))), "{refused:?}");
        assert_eq!(state(&connection).0, 3);
    }
}
