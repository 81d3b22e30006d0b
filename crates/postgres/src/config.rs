//! Options for opening a [`PostgresStore`].

use std::sync::Arc;

use deadpool_postgres::Pool;
use memory_tool_core::{BoxError, ErrorKind, MemoryName, OpenError, OpenMode, OpenOptions};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use crate::environment;
use crate::failure::OpenFailure;
use crate::pool::{Connections, Deadline, Settings};
use crate::schema::{self, SchemaName};
use crate::store::PostgresStore;
use crate::tls::SslMode;
use crate::url::{Location, UrlError};

/// The default of [`PostgresStoreBuilder::max_connections`].
const MAX_CONNECTIONS: usize = 8;

/// Options of a [`PostgresStore`]. Created by [`PostgresStore::builder`] and [`from_url`](Self::from_url).
#[derive(Clone, Debug)]
#[must_use]
pub struct PostgresStoreBuilder {
    server: Server,
    pub(crate) memory: MemoryName,
    schema: String,
    pub(crate) owner: Option<String>,
    pub(crate) options: OpenOptions,
}

#[derive(Clone)]
enum Server {
    Pool(Pool),
    Location { location: Box<Location>, url: String, max_connections: usize },
}

impl std::fmt::Debug for Server {
    /// Without the host and the user.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Pool(_) => "Pool",
            Self::Location { .. } => "Location",
        })
    }
}

impl PostgresStoreBuilder {
    pub(crate) fn new(pool: Pool) -> Self {
        Self::with_server(Server::Pool(pool), MemoryName::default(), SchemaName::default())
    }

    fn with_server(server: Server, memory: MemoryName, schema: SchemaName) -> Self {
        Self { server, memory, schema: schema.to_string(), owner: None, options: OpenOptions::new() }
    }

    /// Reads a URL such as `postgres://user@host/database?memory=alice`. [Opening](Self::open) takes missing parts from
    /// the environment variables of `libpq`, and the password from `PGPASSWORD` or the password file.
    ///
    /// All stores of a tokio runtime with the same server, user and settings share their connections.
    ///
    /// ```
    /// use memory_tool_postgres::PostgresStoreBuilder;
    ///
    /// let builder = PostgresStoreBuilder::from_url("postgres://bob@db.example/app?memory=alice&schema=agents")?;
    /// # let _ = builder;
    /// assert!(PostgresStoreBuilder::from_url("postgres://bob:password@db.example/app").is_err());
    /// # Ok::<(), memory_tool_postgres::UrlError>(())
    /// ```
    ///
    /// # Errors
    /// [`UrlError`], in particular if the URL contains a password.
    pub fn from_url(url: &str) -> Result<Self, UrlError> {
        let location = Location::parse(url)?;
        let (memory, schema, owner) = (location.memory.clone(), location.schema.clone(), location.owner.clone());
        let url = url.to_owned();
        let server = Server::Location { location: Box::new(location), url, max_connections: MAX_CONNECTIONS };
        Ok(Self { owner, ..Self::with_server(server, memory, schema) })
    }

    /// Sets the memory to open. Default: `default`.
    pub fn memory(mut self, memory: MemoryName) -> Self {
        self.memory = memory;
        self
    }

    /// Sets the schema that contains the tables: `a` to `z`, `0` to `9` and `_`. Default: `memory_tool`.
    pub fn schema(mut self, name: impl Into<String>) -> Self {
        self.schema = name.into();
        self
    }

    /// Trusts a role that owns the schema. Always trusted are this role, the owner of the database and superusers.
    /// The owner of a schema can replace its functions, which run with the rights of this role.
    pub fn owner(mut self, role: impl Into<String>) -> Self {
        self.owner = Some(role.into());
        self
    }

    /// Sets the options that every backend takes.
    ///
    /// Every database contains the memory `default`. Any other memory exists while it has a file. The mode
    /// [`ReadOnly`](memory_tool_core::OpenMode::ReadOnly) also works on a replica.
    pub fn options(mut self, options: OpenOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets the largest number of connections that a store of a URL opens, at least one. A pool has its own limit.
    /// Default: 8.
    pub fn max_connections(mut self, limit: usize) -> Self {
        if let Server::Location { max_connections, .. } = &mut self.server {
            *max_connections = limit.max(1);
        }
        self
    }

    /// Opens the store. In the mode [`Create`](memory_tool_core::OpenMode::Create), the schema and its tables are
    /// created or upgraded if necessary.
    ///
    /// # Errors
    /// [`OpenError`] with an [`OpenFailure`] as its source.
    pub async fn open(self) -> Result<PostgresStore, OpenError> {
        let place = self.place();
        PostgresStore::open_with(self).await.map_err(|failure| open_error(place, failure))
    }

    /// Creates or upgrades the tables, as a role that may do so, and returns their version. Stores then open with fewer
    /// rights.
    ///
    /// # Errors
    /// [`OpenError`] with an [`OpenFailure`] as its source.
    pub async fn migrate(self) -> Result<u32, OpenError> {
        let place = self.place();
        let mut deadline = Deadline::after(self.options.timeout);
        let migrating = async {
            let (connections, schema) = self.connect().await?;
            schema::prepare(&connections, &schema, self.owner.as_deref(), OpenMode::Create, &mut deadline).await
        };
        migrating.await.map_err(|failure| open_error(place, failure))?;
        Ok(schema::NEWEST)
    }

    /// Reads the environment, and creates the pool. Connections are opened later.
    pub(crate) async fn connect(&self) -> Result<(Arc<Connections>, SchemaName), OpenFailure> {
        let schema = self.schema.parse()?;
        let (mut location, max_connections) = match &self.server {
            Server::Pool(pool) => return Ok((Connections::new(pool.clone())?, schema)),
            Server::Location { location, max_connections, .. } => (location.clone(), *max_connections),
        };
        let runtime = Handle::current();
        let connecting = spawn_blocking(move || {
            environment::complete(&mut location, |name| std::env::var(name).ok().filter(|value| !value.is_empty()))?;
            let Location { config, ssl_mode, root_certificates, .. } = *location;
            let ssl_mode = ssl_mode.unwrap_or_else(|| SslMode::of_hosts(config.get_hosts()));
            Settings { config, ssl_mode, root_certificates, max_connections }.connections(&runtime)
        });
        let connections: Result<_, BoxError> = connecting.await.unwrap_or_else(|error| Err(error.into()));
        Ok((connections.map_err(OpenFailure::Settings)?, schema))
    }

    fn place(&self) -> String {
        match &self.server {
            Server::Pool(_) => format!("in the PostgreSQL schema {}", self.schema.escape_debug()),
            Server::Location { url, .. } => format!("at {url}"),
        }
    }
}

fn open_error(place: String, failure: OpenFailure) -> OpenError {
    let kind: ErrorKind = failure.kind();
    OpenError::new(place, kind, failure)
}
