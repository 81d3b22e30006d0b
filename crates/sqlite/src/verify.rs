//! The check of a whole database.

use memory_tool_core::{MemoryName, Problem, StorePath};
use rusqlite::{Connection, ErrorCode, Row};

use crate::failure::Failure;
use crate::files::canonical;

/// The problems of the database, in one snapshot. A problem of a file in `memory` has its path.
pub(crate) fn problems(snapshot: &Connection, memory: &MemoryName) -> Result<Vec<Problem>, Failure> {
    let mut problems = Vec::new();
    check_files(snapshot, memory, &mut problems)?;
    check_directories(snapshot, &mut problems)?;
    check_contents(snapshot, &mut problems)?;
    Ok(problems)
}

/// The problems that SQLite finds, at most 100. Its check fails if the database is too damaged.
pub(crate) fn damage(snapshot: &Connection) -> Result<Vec<Problem>, Failure> {
    let mut statement = snapshot.prepare("PRAGMA integrity_check")?;
    let messages = statement.query_map((), |row| row.get(0))?.collect::<Result<Vec<String>, _>>();
    let messages = match messages {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => vec![error.to_string()],
        messages => messages?,
    };
    // The first message can have a header and several lines.
    let is_damage = |line: &&str| *line != "ok" && !line.starts_with("***");
    let damage = messages.iter().flat_map(|message| message.lines()).filter(is_damage);
    Ok(damage.map(|line| Problem::new(format!("SQLite: {line}"))).collect())
}

fn check_files(snapshot: &Connection, memory: &MemoryName, problems: &mut Vec<Problem>) -> Result<(), Failure> {
    const FILES: &str =
        "SELECT memory, path, size, length(bytes) FROM file LEFT JOIN content ON content.id = content_id";
    let mut statement = snapshot.prepare(FILES)?;
    let mut rows = statement.query(())?;
    while let Some(row) = rows.next()? {
        let (store, path) = (text(row, 0)?, text(row, 1)?);
        // The listing of the memory reports its own.
        let is_listed = store == memory.as_str() && (path.starts_with("/memories/") || path.starts_with("/records/"));
        if let Some(reason) = broken_rule(row)?.filter(|_| !is_listed) {
            problems.push(Problem::new(format!("invalid path {path:?} in memory {store:?}: {reason}")));
        }
        let message = match (row.get::<_, i64>(2)?, row.get::<_, Option<i64>>(3)?) {
            (_, None) => format!("{path} in memory {store} has no content"),
            (noted, Some(found)) if noted != found => {
                format!("{path} in memory {store} has {found} bytes instead of {noted}")
            }
            _ => continue,
        };
        let own_path = if store == memory.as_str() { canonical(&path) } else { None };
        let problem = Problem::new(message);
        problems.push(match own_path {
            Some(path) => problem.with_path(path),
            None => problem,
        });
    }
    Ok(())
}

/// The text of a column of any type.
fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    Ok(String::from_utf8_lossy(row.get_ref(column)?.as_bytes()?).into_owned())
}

/// The rule that the first two columns break: the name of a memory, and a path in it.
fn broken_rule(row: &Row<'_>) -> rusqlite::Result<Option<String>> {
    Ok(match (row.get_ref(0)?.as_str(), row.get_ref(1)?.as_str()) {
        (Ok(store), Ok(path)) => match MemoryName::parse(store) {
            Ok(_) => broken_rule_of_file(path),
            Err(error) => Some(error.to_string()),
        },
        _ => Some("not UTF-8".to_owned()),
    })
}

fn broken_rule_of_file(path: &str) -> Option<String> {
    match path.parse::<StorePath>() {
        Ok(parsed) if parsed.is_root() => Some(format!("a file cannot be {parsed} itself")),
        Ok(parsed) if parsed.as_str() != path => Some("it ends with a slash".to_owned()),
        Ok(_) => None,
        Err(error) => Some(error.to_string()),
    }
}

fn check_directories(snapshot: &Connection, problems: &mut Vec<Problem>) -> Result<(), Failure> {
    const UNDER_FILES: &str = "SELECT upper.memory, upper.path, lower.path \
         FROM file AS upper CROSS JOIN file AS lower ON lower.memory = upper.memory \
         AND lower.path > upper.path || '/' AND lower.path < upper.path || '0'";
    let mut statement = snapshot.prepare(UNDER_FILES)?;
    let found = statement.query_map((), |row| {
        let (store, path, lower) = (text(row, 0)?, text(row, 1)?, text(row, 2)?);
        Ok(Problem::new(format!("{path} in memory {store} is a file, but {lower} is under it")))
    })?;
    for problem in found {
        problems.push(problem?);
    }
    Ok(())
}

fn check_contents(snapshot: &Connection, problems: &mut Vec<Problem>) -> Result<(), Failure> {
    const WITHOUT_FILE: &str = "SELECT id FROM content WHERE id NOT IN (SELECT content_id FROM file)";
    let mut statement = snapshot.prepare(WITHOUT_FILE)?;
    for id in statement.query_map((), |row| row.get::<_, i64>(0))? {
        problems.push(Problem::new(format!("content {} does not belong to any file", id?)));
    }
    Ok(())
}
