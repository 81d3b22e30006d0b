//! The floor of a SQLite store: prepared statements on one table.

use std::sync::Mutex;

use memory_tool_core::{Command, MemoryPath};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, params};

use crate::worker::threads::{Bare, Operation};

pub(crate) const CREATE_TABLE: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
     CREATE TABLE IF NOT EXISTS file (path TEXT PRIMARY KEY, text TEXT NOT NULL)";

pub(super) struct SqliteFloor(Mutex<Connection>);

impl Bare for SqliteFloor {
    fn open(name: &str) -> Self {
        let connection = Connection::open(format!("{name}.sqlite")).unwrap();
        connection.execute_batch(CREATE_TABLE).unwrap();
        // Without this, statements are prepared each time.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).unwrap();
        Self(Mutex::new(connection))
    }

    fn call(&self, operation: &Operation) -> Result<String, String> {
        let Operation::Command(command) = operation else { panic!("this floor has no log") };
        execute(&self.0.lock().unwrap(), command).map_err(|error| error.to_string())
    }
}

fn execute(connection: &Connection, command: &Command) -> rusqlite::Result<String> {
    let change = |statement, values: &[&str]| {
        let changed = connection.prepare_cached(statement)?.execute(rusqlite::params_from_iter(values))?;
        if changed == 1 { Ok(String::new()) } else { Err(rusqlite::Error::QueryReturnedNoRows) }
    };
    match command {
        Command::View(command) => view(connection, &command.path),
        Command::Create(command) => {
            change("INSERT INTO file (path, text) VALUES (?1, ?2)", &[command.path.as_str(), &command.file_text])
        }
        Command::StrReplace(command) => change(
            "UPDATE file SET text = replace(text, ?2, ?3) WHERE path = ?1",
            &[command.path.as_str(), &command.old_str, &command.new_str],
        ),
        Command::Insert(command) => {
            change("UPDATE file SET text = ?2 || text WHERE path = ?1", &[command.path.as_str(), &command.insert_text])
        }
        Command::Delete(command) => change("DELETE FROM file WHERE path = ?1", &[command.path.as_str()]),
        Command::Rename(command) => {
            change("UPDATE file SET path = ?2 WHERE path = ?1", &[command.old_path.as_str(), command.new_path.as_str()])
        }
    }
}

fn view(connection: &Connection, path: &MemoryPath) -> rusqlite::Result<String> {
    if path.is_root() {
        let mut sizes = connection.prepare_cached("SELECT path, octet_length(text) FROM file")?;
        let sizes = sizes.query_map((), |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))?;
        let sum = sizes.map(|row| row.map(|(_, size)| size)).sum::<rusqlite::Result<i64>>()?;
        return Ok(sum.to_string());
    }
    connection
        .prepare_cached("SELECT text FROM file WHERE path = ?1")?
        .query_row(params![path.as_str()], |row| row.get(0))
}
