//! The check of all paths in a schema.

use deadpool_postgres::Client;
use memory_tool_core::{MemoryName, Problem, StorePath};
use tokio_postgres::Row;

use crate::failure::Failure;
use crate::files::{Statements, canonical};

/// The problems of the rows that the role may read.
pub(crate) async fn problems(
    client: &Client,
    statements: &Statements,
    memory: &MemoryName,
) -> Result<Vec<Problem>, Failure> {
    let mut problems = Vec::new();
    let take = |row: Row| {
        let (store, path, file_above): (&str, &str, Option<&str>) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        if let Some(file) = file_above {
            problems.push(Problem::new(format!("{file} in memory {store} is a file, but {path} is under it")));
            return Ok(());
        }
        let is_root_file = path.parse().is_ok_and(|path: StorePath| path.is_root());
        // The listing of the memory reports its own.
        let is_listed = store == memory.as_str() && (path.starts_with("/memories/") || path.starts_with("/records/"));
        if let Some(reason) = broken_rule(store, path).filter(|_| !is_listed || is_root_file) {
            problems.push(Problem::new(format!("invalid path {path:?} in memory {store:?}: {reason}")));
        }
        Ok(())
    };
    statements.all_paths(client, take).await?;
    Ok(problems)
}

/// The rule that the name of a memory or a path breaks.
fn broken_rule(store: &str, path: &str) -> Option<String> {
    if let Err(error) = MemoryName::parse(store) {
        return Some(error.to_string());
    }
    match path.parse::<StorePath>() {
        Ok(parsed) if parsed.is_root() => Some(format!("a file cannot be {parsed} itself")),
        Ok(_) if canonical(path).is_none() => Some("it ends with a slash".to_owned()),
        Ok(_) => None,
        Err(error) => Some(error.to_string()),
    }
}
