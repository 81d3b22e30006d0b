//! The schema of the database: its name, checking it, and creating or upgrading its tables.

use std::fmt;
use std::str::FromStr;

use deadpool_postgres::Client;
use memory_tool_core::OpenMode;
use tokio_postgres::types::Type;

use crate::failure::{Failure, OLDEST, OpenFailure};
use crate::pool::{Connections, Deadline, Held};
use crate::transaction::{lock_number, take_lock};

/// Script `n` upgrades the tables from version `n` to the next. Released scripts never change.
const MIGRATIONS: &[&str] = &[include_str!("../migrations/0001_files.sql")];

/// The newest version of the tables.
pub(crate) const NEWEST: u32 = MIGRATIONS.len() as u32;

/// PostgreSQL cuts longer names.
const MAX_NAME: usize = 63;

/// The name of a schema, which is the same with and without quotes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct SchemaName(String);

impl Default for SchemaName {
    fn default() -> Self {
        Self("memory_tool".to_owned())
    }
}

impl FromStr for SchemaName {
    type Err = OpenFailure;

    fn from_str(name: &str) -> Result<Self, OpenFailure> {
        let is_legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let is_name = (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_legal);
        if is_name && !name.starts_with(|first: char| first.is_ascii_digit()) {
            Ok(Self(name.to_owned()))
        } else {
            Err(OpenFailure::SchemaName)
        }
    }
}

impl fmt::Display for SchemaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl SchemaName {
    /// Writes the quoted name into a statement.
    pub(crate) fn within(&self, sql: &str) -> String {
        sql.replace("{schema}", &format!("\"{}\"", self.0))
    }
}

/// Checks the server and the tables. Creates or upgrades them if the mode allows it.
pub(crate) async fn prepare(
    connections: &Connections,
    schema: &SchemaName,
    mode: OpenMode,
    deadline: &Deadline,
) -> Result<(), OpenFailure> {
    let client = connections.take(deadline).await?;
    let server = deadline.limit(Server::ask(&client, schema)).await??;
    server.check(mode)?;
    match server.version {
        Some(found) if found > NEWEST => Err(OpenFailure::NewerSchema { found, known: NEWEST }),
        Some(NEWEST) => Ok(()),
        _ if mode == OpenMode::Create => migrate(client, schema, deadline).await,
        Some(found) => Err(OpenFailure::OlderSchema { found, known: NEWEST }),
        None => Err(OpenFailure::NotFound),
    }
}

/// The properties of a server that are checked.
struct Server {
    version_number: i32,
    encoding: String,
    is_replica: bool,
    has_schema: bool,
    /// The version of the tables.
    version: Option<u32>,
}

impl Server {
    async fn ask(client: &Client, schema: &SchemaName) -> Result<Self, Failure> {
        const SERVER: &str = "SELECT current_setting('server_version_num')::int4, current_setting('server_encoding'), \
             pg_catalog.pg_is_in_recovery(), \
             EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1), \
             EXISTS (SELECT FROM pg_catalog.pg_tables WHERE schemaname = $1 AND tablename = 'schema_version')";
        let row = client.query_typed_one(SERVER, &[(&schema.0, Type::TEXT)]).await?;
        let version = if row.try_get(4)? {
            let version = schema.within("SELECT number FROM {schema}.schema_version");
            let row = client.query_typed_one(&version, &[]).await?;
            Some(row.try_get::<_, i32>(0)?.try_into().unwrap_or_default())
        } else {
            None
        };
        Ok(Self {
            version_number: row.try_get(0)?,
            encoding: row.try_get(1)?,
            is_replica: row.try_get(2)?,
            has_schema: row.try_get(3)?,
            version,
        })
    }

    fn check(&self, mode: OpenMode) -> Result<(), OpenFailure> {
        let major = u32::try_from(self.version_number / 10_000).unwrap_or_default();
        if major < OLDEST {
            return Err(OpenFailure::OldServer { major });
        }
        if self.encoding != "UTF8" {
            return Err(OpenFailure::Encoding { encoding: self.encoding.clone() });
        }
        if self.is_replica && mode != OpenMode::ReadOnly { Err(OpenFailure::Replica) } else { Ok(()) }
    }
}

/// Runs the missing scripts in one transaction with a lock.
async fn migrate(client: Client, schema: &SchemaName, deadline: &Deadline) -> Result<(), OpenFailure> {
    let held = Held::new(client);
    let client = held.client()?;
    let lock = take_lock(lock_number(&["schema", &schema.0]), deadline);
    deadline.limit(client.batch_execute(&lock)).await?.map_err(Failure::from)?;
    let server = Server::ask(client, schema).await?; // another process may have been faster
    let mut script = String::new();
    if !server.has_schema {
        script += "CREATE SCHEMA {schema};";
    }
    if server.version.is_none() {
        script += "CREATE TABLE {schema}.schema_version (number integer NOT NULL);\
                   INSERT INTO {schema}.schema_version VALUES (0);";
    }
    for migration in MIGRATIONS.iter().skip(server.version.unwrap_or_default() as usize) {
        script += migration;
    }
    script += &format!("UPDATE {{schema}}.schema_version SET number = {NEWEST};COMMIT");
    match client.batch_execute(&schema.within(&script)).await {
        Ok(()) => {
            held.release();
            Ok(())
        }
        Err(error) if error.code().is_some_and(|code| code.code() == "42501") => {
            Err(OpenFailure::MayNotMigrate { source: error.into() })
        }
        Err(error) => Err(Failure::from(error).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_schema_needs_no_quotes() {
        for name in ["memory_tool", "a", "_1"] {
            assert_eq!(name.parse::<SchemaName>().unwrap().to_string(), name);
        }
        let long = "a".repeat(64);
        for name in ["", "1a", "A", "a b", "a\"b", "é", "a;b", &long] {
            assert!(name.parse::<SchemaName>().is_err(), "{name}");
        }
    }
}
