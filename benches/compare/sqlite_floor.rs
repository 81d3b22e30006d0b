//! The floor of a SQLite store: prepared statements on one table.

use std::io;
use std::path::Path;
use std::sync::Mutex;

use memory_tool_core::{Command, StorePath};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, params_from_iter};

use crate::in_process::Floor;

const CREATE_TABLE: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
     CREATE TABLE IF NOT EXISTS file (path TEXT PRIMARY KEY, text TEXT NOT NULL)";
const INSERT: &str = "INSERT INTO file (path, text) VALUES (?1, ?2)";

pub(crate) struct SqliteFloor(Mutex<Connection>);

impl SqliteFloor {
    pub(crate) fn open(path: &Path) -> Self {
        let connection = Connection::open(path).unwrap();
        connection.execute_batch(CREATE_TABLE).unwrap();
        // Without this, statements are prepared each time.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).unwrap();
        Self(Mutex::new(connection))
    }

    /// Writes files in one transaction.
    pub(crate) fn fill(&self, paths: &[String], text: &str) {
        let mut connection = self.0.lock().unwrap();
        let transaction = connection.transaction().unwrap();
        for path in paths {
            transaction.execute(INSERT, [path, text]).unwrap();
        }
        transaction.commit().unwrap();
    }
}

impl Floor for SqliteFloor {
    fn call(&self, command: &Command) -> io::Result<String> {
        execute(&self.0.lock().unwrap(), command).map_err(io::Error::other)
    }
}

fn execute(connection: &Connection, command: &Command) -> rusqlite::Result<String> {
    let change = |statement, values: &[&str]| {
        let changed = connection.prepare_cached(statement)?.execute(params_from_iter(values))?;
        if changed == 1 { Ok(String::new()) } else { Err(rusqlite::Error::QueryReturnedNoRows) }
    };
    match command {
        Command::View(command) => view(connection, &command.path),
        Command::Create(command) => change(INSERT, &[command.path.as_str(), &command.file_text]),
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

fn view(connection: &Connection, path: &StorePath) -> rusqlite::Result<String> {
    if path.is_root() {
        let mut sizes = connection.prepare_cached("SELECT path, octet_length(text) FROM file")?;
        let sizes = sizes.query_map((), |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))?;
        let sum = sizes.map(|row| row.map(|(_, size)| size)).sum::<rusqlite::Result<i64>>()?;
        return Ok(sum.to_string());
    }
    let mut select = connection.prepare_cached("SELECT text FROM file WHERE path = ?1")?;
    select.query_row([path.as_str()], |row| row.get(0))
}
