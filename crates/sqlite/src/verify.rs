//! Whether a database holds what it should.

use memory_tool_core::MemoryPath;
use rusqlite::{Connection, ErrorCode, Row, Transaction};

use crate::failure::Failure;
use crate::name::StoreName;

/// Something that [`SqliteStore::verify`](crate::SqliteStore::verify) found wrong. For the operator: it holds names of stores
/// and paths.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// SQLite finds the database damaged. What is in it was not looked at further.
    #[error("SQLite: {message}")]
    Damaged {
        /// What SQLite says.
        message: String,
    },
    /// A file has no content.
    #[error("{path} of the store {store} has no content")]
    NoContent {
        /// The name of the store.
        store: String,
        /// The path of the file.
        path: String,
    },
    /// The content is not as long as is noted.
    #[error("{path} of the store {store} has {found} bytes instead of {noted}")]
    WrongSize {
        /// The name of the store.
        store: String,
        /// The path of the file.
        path: String,
        /// The size that is noted, in bytes.
        noted: i64,
        /// The size of the content, in bytes.
        found: i64,
    },
    /// The name of the store, or the path, is not legal: no command reaches the file.
    #[error("{path:?} of the store {store:?} is not legal: {reason}")]
    IllegalName {
        /// The name of the store.
        store: String,
        /// The path of the file.
        path: String,
        /// The rule that it breaks.
        reason: String,
    },
    /// A file lies beneath another file.
    #[error("{path} of the store {store} is a file, and {beneath} lies beneath it")]
    BeneathAFile {
        /// The name of the store.
        store: String,
        /// The path of the upper file.
        path: String,
        /// The path of the lower file.
        beneath: String,
    },
    /// A content belongs to no file.
    #[error("the content {id} belongs to no file")]
    NoFile {
        /// The content's id.
        id: i64,
    },
}

/// What is wrong with the database, all seen at one moment.
pub(crate) fn problems(connection: &mut Connection) -> Result<Vec<Problem>, Failure> {
    let transaction = connection.transaction()?;
    let damage = damage(&transaction)?;
    if !damage.is_empty() {
        return Ok(damage);
    }
    let mut problems = Vec::new();
    check_files(&transaction, &mut problems)?;
    check_directories(&transaction, &mut problems)?;
    check_contents(&transaction, &mut problems)?;
    Ok(problems)
}

/// What SQLite finds. It gives up where the damage is too great for its own check.
fn damage(transaction: &Transaction<'_>) -> Result<Vec<Problem>, Failure> {
    let mut statement = transaction.prepare("PRAGMA integrity_check")?;
    let messages = statement.query_map((), |row| row.get(0))?.collect::<Result<Vec<String>, _>>();
    let messages = match messages {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => vec![error.to_string()],
        messages => messages?,
    };
    Ok(messages.into_iter().filter(|message| message != "ok").map(|message| Problem::Damaged { message }).collect())
}

fn check_files(transaction: &Transaction<'_>, problems: &mut Vec<Problem>) -> Result<(), Failure> {
    const FILES: &str =
        "SELECT store, path, size, length(bytes) FROM file LEFT JOIN content ON content.id = content_id";
    let mut statement = transaction.prepare(FILES)?;
    let mut rows = statement.query(())?;
    while let Some(row) = rows.next()? {
        let (store, path) = (text(row, 0)?, text(row, 1)?);
        if let Some(reason) = illegality(row)? {
            problems.push(Problem::IllegalName { store: store.clone(), path: path.clone(), reason });
        }
        match (row.get(2)?, row.get(3)?) {
            (_, None) => problems.push(Problem::NoContent { store, path }),
            (noted, Some(found)) if noted != found => {
                problems.push(Problem::WrongSize { store, path, noted, found });
            }
            _ => {}
        }
    }
    Ok(())
}

/// The text of a column, whatever stands in it.
fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    Ok(String::from_utf8_lossy(row.get_ref(column)?.as_bytes()?).into_owned())
}

fn illegality(row: &Row<'_>) -> rusqlite::Result<Option<String>> {
    Ok(match (row.get_ref(0)?.as_str(), row.get_ref(1)?.as_str()) {
        (Ok(store), Ok(path)) => illegality_of(store, path),
        _ => Some("it is not UTF-8".to_owned()),
    })
}

fn illegality_of(store: &str, path: &str) -> Option<String> {
    if let Err(error) = StoreName::parse(store) {
        return Some(error.to_string());
    }
    match MemoryPath::parse(path) {
        Ok(parsed) if parsed.is_root() => Some("a file cannot be /memories itself".to_owned()),
        Ok(parsed) if parsed.as_str() != path => Some("it ends with a slash".to_owned()),
        Ok(_) => None,
        Err(error) => Some(error.to_string()),
    }
}

fn check_directories(transaction: &Transaction<'_>, problems: &mut Vec<Problem>) -> Result<(), Failure> {
    const BENEATH_FILES: &str = "SELECT upper.store, upper.path, lower.path FROM file AS upper CROSS JOIN file AS lower \
         ON lower.store = upper.store AND lower.path > upper.path || '/' AND lower.path < upper.path || '0'";
    let mut statement = transaction.prepare(BENEATH_FILES)?;
    let found = statement.query_map((), |row| {
        Ok(Problem::BeneathAFile { store: text(row, 0)?, path: text(row, 1)?, beneath: text(row, 2)? })
    })?;
    for problem in found {
        problems.push(problem?);
    }
    Ok(())
}

fn check_contents(transaction: &Transaction<'_>, problems: &mut Vec<Problem>) -> Result<(), Failure> {
    const WITHOUT_FILE: &str = "SELECT id FROM content WHERE id NOT IN (SELECT content_id FROM file)";
    let mut statement = transaction.prepare(WITHOUT_FILE)?;
    for id in statement.query_map((), |row| row.get(0))? {
        problems.push(Problem::NoFile { id: id? });
    }
    Ok(())
}
