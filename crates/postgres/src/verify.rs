//! The check of all paths in a schema.

use deadpool_postgres::Client;
use memory_tool_core::{MemoryName, Problem, StorePath};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::failure::Failure;
use crate::files::{Statements, canonical};
use crate::schema::SchemaName;

/// The tables that lack what a dump restores last. Without the keys, changes fail, and a path can have several rows.
pub(crate) async fn half_restored(client: &Client, schema: &SchemaName) -> Result<Vec<Problem>, Failure> {
    const TABLES: &str = "SELECT relname::pg_catalog.text, pg_catalog.clock_timestamp() \
         FROM pg_catalog.pg_class AS found JOIN pg_catalog.pg_namespace AS schema \
         ON schema.oid OPERATOR(pg_catalog.=) relnamespace WHERE nspname OPERATOR(pg_catalog.=) $1 \
         AND (relname OPERATOR(pg_catalog.=) 'writer' AND NOT relrowsecurity \
         OR relname OPERATOR(pg_catalog.=) ANY (ARRAY['file', 'writer']::pg_catalog.name[]) AND NOT EXISTS \
         (SELECT FROM pg_catalog.pg_index WHERE indrelid OPERATOR(pg_catalog.=) found.oid AND indisprimary)) \
         ORDER BY relname";
    let problem = |row: Row| {
        let table: &str = row.try_get(0)?;
        let lost = format!("the table {table} of {schema} lacks its primary key or its row security");
        Ok(Problem::new(format!("{lost}: it was not restored completely; restore the dump again, in an empty schema")))
    };
    client.query_typed(TABLES, &[(&schema.to_string(), Type::TEXT)]).await?.into_iter().map(problem).collect()
}

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
            // An invalid path is reported once, not with each path under it.
            if broken_rule(store, file).is_some() {
                return Ok(());
            }
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
