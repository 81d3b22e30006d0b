//! The schema: recognizing databases of this crate, and upgrading those of older versions.

use std::borrow::Cow;
use std::fmt;

use memory_tool_core::OpenMode;
use rusqlite::{Connection, MAIN_DB, TransactionBehavior};

use crate::failure::{ConnectError, OpenFailure};

/// "cmem" in ASCII, in the header of each database. SQLite and the command `file` identify the format by it.
const APPLICATION_ID: u32 = 0x636d_656d;

/// Script `n` upgrades a database from version `n` of the schema to the next. Released scripts never change.
const MIGRATIONS: &[&str] = &[include_str!("../migrations/0001_files.sql")];

/// The number of objects of other programs that an error names.
const MOST_ADDED: u32 = 100;

/// The objects of the newest version, one per line.
const OBJECTS: &str = include_str!("../migrations/objects.txt");

/// Upgrades the database if the mode allows it. A foreign database is left unchanged.
pub(crate) fn prepare(connection: &mut Connection, mode: OpenMode) -> Result<(), ConnectError> {
    let known = newest(MIGRATIONS);
    let transaction = connection.transaction()?; // another process may upgrade the database concurrently
    let found = version(&transaction, MIGRATIONS)?;
    refuse_foreign(&transaction, found)?;
    drop(transaction);
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

/// Creates the newest version in a new database.
#[cfg(test)]
pub(crate) fn create(connection: &mut Connection) -> Result<(), ConnectError> {
    migrate(connection, MIGRATIONS)
}

/// The schema that a connection has checked last. Another program can change it at any time, for example add a trigger
/// that would run in the next command.
#[derive(Debug, Default)]
pub(crate) struct CheckedSchema {
    /// SQLite's number of the schema, which every change of it increments, and the version of this crate's schema.
    numbers: Option<[i64; 2]>,
}

impl CheckedSchema {
    /// Refuses a schema that is not the newest one of this crate. Must be called in a transaction, before any other
    /// statement: SQLite then runs the statements of the transaction with this schema.
    pub(crate) fn check(&mut self, connection: &Connection) -> Result<(), ConnectError> {
        let number = |sql| connection.prepare_cached(sql)?.query_one((), |row| row.get(0));
        let found = Some([number("PRAGMA schema_version")?, number("PRAGMA user_version")?]);
        if self.numbers == found {
            return Ok(());
        }
        let (found_version, known) = (version(connection, MIGRATIONS)?, newest(MIGRATIONS));
        if found_version < known {
            return Err(OpenFailure::OlderSchema { found: found_version, known }.into());
        }
        refuse_foreign(connection, found_version)?;
        self.numbers = found;
        Ok(())
    }
}

fn newest(migrations: &[&str]) -> u32 {
    migrations.len() as u32
}

/// The schema version; 0 for an empty database.
fn version(connection: &Connection, migrations: &[&str]) -> Result<u32, ConnectError> {
    let known = newest(migrations);
    match state(connection)? {
        (APPLICATION_ID, found, _) if found <= known => Ok(found),
        (APPLICATION_ID, found, _) => Err(OpenFailure::NewerSchema { found, known }.into()),
        (0, 0, 0) => Ok(0),
        _ => Err(OpenFailure::NotAStore.into()),
    }
}

/// The application id, the version, and the number of objects in the schema, read in one transaction.
fn state(connection: &Connection) -> rusqlite::Result<(u32, u32, u32)> {
    let transaction = connection.is_autocommit().then(|| connection.unchecked_transaction()).transpose()?;
    let number = |sql| connection.query_one(sql, (), |row| row.get(0));
    // Not with the pragma functions: the schema of the file may contain tables and views of the same names.
    let state = (
        number("PRAGMA application_id")?,
        number("PRAGMA user_version")?,
        number("SELECT count(*) FROM sqlite_schema")?,
    );
    drop(transaction);
    Ok(state)
}

/// Refuses a database whose schema differs from the expected one. A trigger, a view in place of a table, or a generated
/// column could contain code that runs with each change.
fn refuse_foreign(connection: &Connection, version: u32) -> Result<(), ConnectError> {
    if version == newest(MIGRATIONS) && is_newest(connection)? {
        return Ok(());
    }
    let mut reference = Connection::open_in_memory()?;
    migrate(&mut reference, MIGRATIONS.get(..version as usize).unwrap_or(MIGRATIONS))?;
    let expected = objects(&reference, u32::MAX)?;
    let found = objects(connection, expected.len() as u32 + MOST_ADDED)?;
    let modified = |object: &&SchemaObject| expected.iter().any(|own| own.name() == object.name() && own != *object);
    let modified = found.iter().find(modified);
    let missing = expected.iter().find(|object| !found.contains(object));
    if let Some(object) = modified.or(missing) {
        return Err(OpenFailure::ForeignSchema { object: object.to_string() }.into());
    }
    let Some(last) = found.get(expected.len()) else { return Ok(()) };
    let added: Vec<_> = found.iter().filter(|object| !expected.contains(object)).collect();
    match removal(&added) {
        removal if removal.is_empty() => Err(OpenFailure::ForeignSchema { object: last.to_string() }.into()),
        removal => Err(OpenFailure::AddedObjects { removal }.into()),
    }
}

/// The statements that remove the objects. Removing a virtual table also removes its other tables, and removing a table
/// removes its indexes and triggers.
fn removal(added: &[&SchemaObject]) -> String {
    let (first, last): (Vec<&SchemaObject>, Vec<_>) = added.iter().partition(|object| object.is_virtual_table());
    first.into_iter().chain(last).filter_map(SchemaObject::removal).collect::<Vec<_>>().join(" ")
}

/// Whether the schema equals the newest version. Most do and need no reference database, which takes half of the
/// instructions of a process with one command. Another version of SQLite may word an upgraded schema differently.
fn is_newest(connection: &Connection) -> Result<bool, ConnectError> {
    let most = OBJECTS.lines().count() as u32 + 1;
    Ok(objects(connection, most)?.iter().map(SchemaObject::to_line).eq(OBJECTS.lines()))
}

/// An object of a schema: its type, name, table, and SQL statement.
#[derive(Debug, Eq, PartialEq)]
struct SchemaObject([Option<Vec<u8>>; 4]);

impl SchemaObject {
    /// A line that differs from the lines of all other objects. A missing value is an empty field without quotes.
    fn to_line(&self) -> String {
        let field = |field: &Option<Vec<u8>>| field.as_deref().map(|text| format!("\"{}\"", text.escape_ascii()));
        self.0.each_ref().map(|text| field(text).unwrap_or_default()).join("\t")
    }
}

impl SchemaObject {
    fn text(&self, field: usize) -> Cow<'_, str> {
        String::from_utf8_lossy(self.0.get(field).and_then(Option::as_deref).unwrap_or_default())
    }

    fn name(&self) -> Cow<'_, str> {
        self.text(1)
    }

    fn is_virtual_table(&self) -> bool {
        self.text(3).starts_with("CREATE VIRTUAL TABLE")
    }

    /// The statement that removes it; `None` if SQLite removes it with another object, or if its name is unreadable.
    fn removal(&self) -> Option<String> {
        let name = self.name();
        let kind = self.text(0).to_uppercase();
        let is_readable = name.len() <= 100 && !name.contains(char::is_control);
        let is_removable = matches!(&*kind, "TABLE" | "INDEX" | "TRIGGER" | "VIEW") && !name.starts_with("sqlite_");
        (is_readable && is_removable).then(|| format!("DROP {kind} IF EXISTS \"{}\";", name.replace('"', "\"\"")))
    }
}

impl fmt::Display for SchemaObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.text(0).escape_debug(), self.name())
    }
}

/// The first `most` objects of the schema, without the statistics of `ANALYZE` and `PRAGMA optimize`, which only affect
/// how SQLite searches.
fn objects(connection: &Connection, most: u32) -> Result<Vec<SchemaObject>, ConnectError> {
    const SELECT: &str = "SELECT CAST(type AS BLOB), CAST(name AS BLOB), CAST(tbl_name AS BLOB), CAST(sql AS BLOB) \
         FROM sqlite_schema WHERE (type, name, sql) NOT IN (VALUES \
         ('table', 'sqlite_stat1', 'CREATE TABLE sqlite_stat1(tbl,idx,stat)'), \
         ('table', 'sqlite_stat4', 'CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)')) IS NOT FALSE LIMIT ?1";
    let mut statement = connection.prepare(SELECT)?;
    let objects =
        statement.query_map([most], |row| Ok(SchemaObject([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?])))?;
    Ok(objects.collect::<Result<_, _>>()?)
}

/// The log lets readers continue during a write. The mode is stored in the file.
fn keep_write_ahead_log(connection: &Connection) -> Result<(), ConnectError> {
    let mode: String = connection.query_one("PRAGMA journal_mode = WAL", (), |row| row.get(0))?;
    if mode == "wal" { Ok(()) } else { Err(OpenFailure::NoWriteAheadLog { mode }.into()) }
}

fn migrate(connection: &mut Connection, migrations: &[&str]) -> Result<(), ConnectError> {
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
    fn a_database_of_any_version_is_upgraded() {
        for start in 0..=STEPS.len() {
            let mut connection = Connection::open_in_memory().unwrap();
            migrate(&mut connection, &STEPS[..start]).unwrap();
            migrate(&mut connection, STEPS).unwrap();
            assert_eq!(state(&connection), (3, vec![("kept".to_owned(), Some("somebody".to_owned()))]), "from {start}");
        }
    }

    #[test]
    fn the_objects_of_the_newest_version_are_known() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, MIGRATIONS).unwrap();
        let lines: Vec<_> = objects(&connection, u32::MAX).unwrap().iter().map(SchemaObject::to_line).collect();
        assert_eq!(lines.join("\n"), OBJECTS.trim_end());
        assert!(is_newest(&connection).unwrap());
        connection.execute_batch("CREATE TABLE added (text TEXT)").unwrap();
        assert!(!is_newest(&connection).unwrap());
        connection.execute_batch("DROP TABLE added; DROP VIEW file_text").unwrap();
        assert!(!is_newest(&connection).unwrap());
    }

    #[test]
    fn a_failed_step_is_rolled_back() {
        let mut connection = Connection::open_in_memory().unwrap();
        let broken = [STEPS[0], STEPS[1], "ALTER TABLE note ADD COLUMN author TEXT; INSERT INTO nowhere VALUES (1)"];
        assert!(matches!(migrate(&mut connection, &broken), Err(ConnectError(OpenFailure::Failed { .. }))));
        assert_eq!(state(&connection), (2, vec![("kept".to_owned(), None)]));
        migrate(&mut connection, STEPS).unwrap();
        assert_eq!(state(&connection).0, 3);
    }

    #[test]
    fn a_newer_database_is_refused_and_unchanged() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, STEPS).unwrap();
        let refused = migrate(&mut connection, &STEPS[..1]);
        assert!(matches!(refused, Err(ConnectError(OpenFailure::NewerSchema { found: 3, known: 1 }))), "{refused:?}");
        assert_eq!(state(&connection).0, 3);
    }
}
