//! [`Location`]: the database, schema and memory that a URL names.

use std::path::PathBuf;

use memory_tool_core::{BoxError, MemoryName, MemoryNameError};
use percent_encoding::percent_decode_str;
use tokio_postgres::Config;

use crate::schema::SchemaName;
use crate::tls::SslMode;

/// The parameters that the driver reads. Others, such as `password` and `options`, are refused.
const OF_THE_DRIVER: [&str; 7] =
    ["application_name", "connect_timeout", "dbname", "host", "port", "target_session_attrs", "user"];

/// An invalid URL. No message contains a part of the URL, except for the name of a memory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// It is not the URL of a PostgreSQL database.
    #[error("write postgres://user@host/database?memory=NAME")]
    Scheme,
    /// The URL contains a password.
    #[error("a URL cannot contain a password: set PGPASSWORD, or write it to the password file ~/.pgpass")]
    Password,
    /// A parameter is unknown, or its value is invalid.
    #[error(
        "unknown parameter or invalid value. The parameters are memory, schema, owner, sslmode (disable, prefer, \
         require, verify-ca or verify-full), sslrootcert, host, port, user, dbname, application_name, connect_timeout \
         and target_session_attrs"
    )]
    Parameter,
    /// The name of the memory is invalid.
    #[error(transparent)]
    Memory(#[from] MemoryNameError),
    /// The name of the schema is invalid.
    #[error("invalid schema name: use a to z, 0 to 9 and _, at most 63 characters, and no digit first")]
    SchemaName,
    /// The driver does not accept the URL.
    #[error("invalid URL of a database")]
    Invalid(#[source] BoxError),
}

/// The parts of a URL. Values that are missing come from the environment.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Location {
    pub(crate) config: Config,
    pub(crate) memory: MemoryName,
    pub(crate) schema: SchemaName,
    /// The trusted owner of the schema.
    pub(crate) owner: Option<String>,
    pub(crate) ssl_mode: Option<SslMode>,
    pub(crate) root_certificates: Option<PathBuf>,
}

impl Location {
    pub(crate) fn parse(url: &str) -> Result<Self, UrlError> {
        let (scheme, rest) = url.split_once("://").ok_or(UrlError::Scheme)?;
        if !["postgres", "postgresql"].contains(&scheme.to_ascii_lowercase().as_str()) {
            return Err(UrlError::Scheme);
        }
        if url.contains('#') {
            return Err(UrlError::Parameter);
        }
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut location = Self::default();
        let mut of_driver = Vec::new();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').ok_or(UrlError::Parameter)?;
            let decoded = percent_decode_str(value).decode_utf8().map_err(|_| UrlError::Parameter)?;
            match name {
                "memory" => location.memory = decoded.parse()?,
                "schema" => location.schema = decoded.parse().map_err(|_| UrlError::SchemaName)?,
                "owner" => location.owner = Some(decoded.into_owned()),
                "sslmode" => location.ssl_mode = Some(decoded.parse().map_err(|_| UrlError::Parameter)?),
                "sslrootcert" => location.root_certificates = Some(PathBuf::from(&*decoded)),
                "password" => return Err(UrlError::Password),
                name if OF_THE_DRIVER.contains(&name) => of_driver.push(parameter),
                _ => return Err(UrlError::Parameter),
            }
        }
        let url = format!("postgres://{place}?{}", of_driver.join("&"));
        location.config = url.parse().map_err(|error: tokio_postgres::Error| UrlError::Invalid(error.into()))?;
        if location.config.get_password().is_some() {
            return Err(UrlError::Password);
        }
        Ok(location)
    }
}

#[cfg(test)]
mod tests {
    use tokio_postgres::config::Host;

    use super::*;

    #[test]
    fn a_url_names_a_database_a_schema_and_a_memory() {
        let location = Location::parse(
            "Postgresql://bob@db.example:6432/app?memory=user%2F42&schema=agents&owner=dba&sslmode=verify-ca&sslrootcert=%2Fca",
        );
        let location = location.unwrap();
        assert_eq!(location.config.get_user(), Some("bob"));
        assert_eq!(location.config.get_hosts(), [Host::Tcp("db.example".to_owned())]);
        assert_eq!(location.config.get_ports(), [6432]);
        assert_eq!(location.config.get_dbname(), Some("app"));
        assert_eq!(location.memory.as_str(), "user/42");
        assert_eq!((location.schema.to_string().as_str(), location.owner.as_deref()), ("agents", Some("dba")));
        assert_eq!(location.ssl_mode, Some(SslMode::VerifyCa));
        assert_eq!(location.root_certificates, Some("/ca".into()));

        let socket = Location::parse("postgres:///app?host=/run/postgresql").unwrap();
        assert_eq!(socket.config.get_hosts(), [Host::Unix("/run/postgresql".into())]);
        assert_eq!(Location::parse("postgres://").unwrap(), Location::default());
    }

    #[test]
    fn invalid_urls_are_refused_without_their_contents() {
        for (url, message) in [
            ("postgres://bob:Secret@host/app", "a URL cannot contain a password"),
            ("postgres://host/app?password=Secret", "a URL cannot contain a password"),
            ("postgres://:Secret@host", "a URL cannot contain a password"),
            ("postgres://host/app?Secret=1", "unknown parameter"),
            ("postgres://host/app?options=-cSecret", "unknown parameter"),
            ("postgres://host/app?sslmode=Secret", "unknown parameter"),
            ("postgres://host/app?Secret", "unknown parameter"),
            ("postgres://host/app#Secret", "unknown parameter"),
            ("postgres://host:Secret/app", "invalid URL"),
            ("postgres://host/app?schema=Secret%22", "invalid schema name"),
            ("postgres://host/app?memory=", "the name of a memory must not be empty"),
            ("mysql://host/Secret", "write postgres://"),
        ] {
            let error = Location::parse(url).unwrap_err();
            assert!(error.to_string().starts_with(message), "{url}: {error}");
            assert!(!format!("{error} {error:?}").contains("Secret"), "{url}: {error:?}");
        }
    }
}
