//! The schema of the database: its name, checking it, and creating or upgrading its tables.

use std::fmt;
use std::str::FromStr;

use deadpool_postgres::Client;
use memory_tool_core::{ErrorKind, OpenMode};
use sha2::{Digest as _, Sha256};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};

use crate::failure::{Failure, OLDEST, OpenFailure};
use crate::pool::{Connections, Deadline, Held};

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

/// Checks the server and the tables until the deadline. Creates or upgrades the tables if the mode allows it.
pub(crate) async fn prepare(
    connections: &Connections,
    schema: &SchemaName,
    owner: Option<&str>,
    mode: OpenMode,
    deadline: &mut Deadline,
) -> Result<(), OpenFailure> {
    let mut cause = None;
    loop {
        let Err(failure) = prepare_once(connections, schema, owner, mode, deadline).await else { return Ok(()) };
        let is_busy = matches!(failure, OpenFailure::Failed { kind: ErrorKind::Busy, .. });
        match deadline.pause(is_busy).await {
            Some(()) => cause = Some(failure),
            // An earlier failure explains a timeout.
            None => return Err(cause.filter(|_| is_busy).unwrap_or(failure)),
        }
    }
}

async fn prepare_once(
    connections: &Connections,
    schema: &SchemaName,
    owner: Option<&str>,
    mode: OpenMode,
    deadline: &Deadline,
) -> Result<(), OpenFailure> {
    let held = Held::new(connections.take(deadline).await?);
    let client = held.client()?;
    let server = deadline.limit(Server::ask(client, schema)).await??;
    server.check(mode)?;
    check_isolation(client, &server.isolation, mode).await?;
    check_owners(client, schema, owner).await?;
    match server.tables {
        Some(found) if found > NEWEST => return Err(OpenFailure::NewerSchema { found, known: NEWEST }),
        Some(NEWEST) => {}
        _ if mode == OpenMode::Create => {
            migrate(client, schema, deadline).await?;
            check_owners(client, schema, owner).await?; // another role may have been faster
        }
        Some(found) => return Err(OpenFailure::OlderSchema { found, known: NEWEST }),
        None => return Err(OpenFailure::NotFound),
    }
    held.release();
    Ok(())
}

/// The properties of a server that are checked.
struct Server {
    version: String,
    version_number: i32,
    encoding: String,
    isolation: String,
    is_replica: bool,
    /// The version of the tables.
    tables: Option<u32>,
}

impl Server {
    async fn ask(client: &Client, schema: &SchemaName) -> Result<Self, Failure> {
        // Proxies send statements with a volatile function, here `clock_timestamp`, to the primary.
        const SERVER: &str = "SELECT pg_catalog.version(), pg_catalog.current_setting('server_version_num'), \
             pg_catalog.current_setting('server_encoding'), pg_catalog.current_setting('transaction_isolation'), \
             pg_catalog.pg_is_in_recovery(), EXISTS (SELECT FROM pg_catalog.pg_tables WHERE \
             schemaname OPERATOR(pg_catalog.=) $1 AND tablename OPERATOR(pg_catalog.=) 'schema_version'), \
             pg_catalog.clock_timestamp()";
        let row = client.query_typed_one(SERVER, &[(&schema.0, Type::TEXT)]).await?;
        let tables = if row.try_get(5)? {
            let version = schema.within("SELECT number, pg_catalog.clock_timestamp() FROM {schema}.schema_version");
            let row = client.query_typed_one(&version, &[]).await?;
            Some(row.try_get::<_, i32>(0)?.try_into().unwrap_or_default())
        } else {
            None
        };
        Ok(Self {
            version: row.try_get(0)?,
            version_number: row.try_get::<_, &str>(1)?.parse().unwrap_or_default(),
            encoding: row.try_get(2)?,
            isolation: row.try_get(3)?,
            is_replica: row.try_get(4)?,
            tables,
        })
    }

    fn check(&self, mode: OpenMode) -> Result<(), OpenFailure> {
        // PGlite has one session for all connections. Others have no locks.
        if !self.version.starts_with("PostgreSQL ") || self.version.contains("PGlite") {
            return Err(OpenFailure::Server { version: self.version.clone() });
        }
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

/// With another isolation, changes need a transaction of several statements, which statement pooling refuses.
async fn check_isolation(client: &Client, isolation: &str, mode: OpenMode) -> Result<(), OpenFailure> {
    if isolation == "read committed" || mode == OpenMode::ReadOnly {
        return Ok(());
    }
    match client.batch_execute("BEGIN").await {
        Ok(()) => Ok(client.batch_execute("COMMIT").await.map_err(Failure::from)?),
        Err(error) if error.as_db_error().is_some_and(|error| error.message().contains("statement pooling")) => {
            Err(OpenFailure::StatementPooling { isolation: isolation.to_owned() })
        }
        Err(error) => Err(Failure::from(error).into()),
    }
}

/// Refuses a schema in which a role that is not trusted can replace a function.
async fn check_owners(client: &Client, schema: &SchemaName, owner: Option<&str>) -> Result<(), OpenFailure> {
    const STRANGERS: &str = "SELECT pg_catalog.pg_get_userbyid(owner)::pg_catalog.text, pg_catalog.clock_timestamp() \
         FROM pg_catalog.pg_namespace AS schema, LATERAL (SELECT nspowner \
         UNION SELECT relowner FROM pg_catalog.pg_class WHERE relnamespace OPERATOR(pg_catalog.=) schema.oid \
         UNION SELECT proowner FROM pg_catalog.pg_proc WHERE pronamespace OPERATOR(pg_catalog.=) schema.oid \
         ) AS owned (owner) JOIN pg_catalog.pg_roles AS role ON role.oid OPERATOR(pg_catalog.=) owner \
         WHERE nspname OPERATOR(pg_catalog.=) $1 AND NOT (rolsuper OR rolname OPERATOR(pg_catalog.=) current_user \
         OR rolname OPERATOR(pg_catalog.=) $2 OR owner OPERATOR(pg_catalog.=) (SELECT datdba FROM \
         pg_catalog.pg_database WHERE datname OPERATOR(pg_catalog.=) pg_catalog.current_database())) LIMIT 1";
    let parameters: [(&(dyn ToSql + Sync), Type); 2] =
        [(&schema.0, Type::TEXT), (&owner.unwrap_or_default(), Type::TEXT)];
    let strangers = client.query_typed(STRANGERS, &parameters).await.map_err(Failure::from)?;
    let Some(stranger) = strangers.first() else { return Ok(()) };
    Err(OpenFailure::Owner { owner: stranger.try_get(0).map_err(Failure::from)? })
}

/// Runs the missing scripts with a lock, as one message.
async fn migrate(client: &Client, schema: &SchemaName, deadline: &Deadline) -> Result<(), OpenFailure> {
    let name = &schema.0;
    let (milliseconds, lock) = (deadline.milliseconds(), lock_number(&["schema", name]));
    let mut script = format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED; DO $migration$ BEGIN \
         PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true), \
         pg_catalog.set_config('lock_timeout', '{milliseconds}', true), \
         pg_catalog.set_config('synchronous_commit', 'on', true); \
         PERFORM pg_advisory_xact_lock({lock}); \
         IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = '{name}') THEN CREATE SCHEMA {{schema}}; END IF; \
         IF NOT EXISTS (SELECT FROM pg_tables WHERE schemaname = '{name}' AND tablename = 'schema_version') THEN \
         CREATE TABLE {{schema}}.schema_version (number integer NOT NULL); \
         INSERT INTO {{schema}}.schema_version VALUES (0); END IF;\n"
    );
    for (number, migration) in MIGRATIONS.iter().enumerate() {
        script += &format!("IF (SELECT number = {number} FROM {{schema}}.schema_version) THEN\n{migration}\n");
        script += &format!("UPDATE {{schema}}.schema_version SET number = {}; END IF;\n", number + 1);
    }
    script += "END $migration$; COMMIT";
    match client.batch_execute(&schema.within(&script)).await {
        Ok(()) => Ok(()),
        Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            Err(OpenFailure::MayNotMigrate { source: error.into() })
        }
        Err(error) => Err(Failure::from(error).into()),
    }
}

/// The number of a lock. The locks of other programs in the same database have other numbers, most likely; if not, the
/// two wait for each other.
pub(crate) fn lock_number(names: &[&str]) -> i64 {
    let digest = names.iter().fold(Sha256::new(), |hash, name| hash.chain_update(name).chain_update([0]));
    let first = digest.finalize().first_chunk().copied().unwrap_or_default();
    i64::from_be_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_products_are_refused() {
        let server = |version: &str| Server {
            version: version.to_owned(),
            version_number: 170_005,
            encoding: "UTF8".to_owned(),
            isolation: "read committed".to_owned(),
            is_replica: false,
            tables: None,
        };
        assert!(server("PostgreSQL 17.5 (Debian 17.5-1) on x86_64-pc-linux-gnu").check(OpenMode::Create).is_ok());
        for version in ["PostgreSQL 17.5 (PGlite 0.3.14) on wasm32", "CockroachDB CCL v25.1.0"] {
            let refused = server(version).check(OpenMode::ReadOnly);
            assert!(matches!(refused, Err(OpenFailure::Server { .. })), "{version}");
        }
    }

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
