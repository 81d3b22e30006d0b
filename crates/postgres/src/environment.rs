//! The standard environment variables and the password file, as `libpq` reads them.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use memory_tool_core::{BoxError, refuse_others};
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use crate::tls::SslMode;
use crate::url::Location;

const DEFAULT_PORT: u16 = 5432;

/// The directories where a server on this machine has its socket, unless it is configured otherwise.
const SOCKET_DIRECTORIES: [&str; 3] = ["/var/run/postgresql", "/run/postgresql", "/tmp"];

/// The largest password file that is read, in bytes.
const MAX_PASSWORD_FILE: u64 = 1 << 20;

#[derive(Debug, thiserror::Error)]
enum EnvironmentError {
    #[error("invalid value of the environment variable {0}")]
    Variable(&'static str),
    #[error("cannot read the password file {}", file.display())]
    PasswordFile { file: PathBuf, source: io::Error },
}

/// Completes a location. `variable` returns the value of an environment variable. Blocks.
pub(crate) fn complete(
    location: &mut Location,
    variable: impl Fn(&'static str) -> Option<String>,
) -> Result<(), BoxError> {
    let config = &mut location.config;
    if config.get_ports().is_empty()
        && let Some(port) = variable("PGPORT")
    {
        config.port(port.parse().map_err(|_| EnvironmentError::Variable("PGPORT"))?);
    }
    if config.get_hosts().is_empty() {
        config.host(variable("PGHOST").unwrap_or_else(|| default_host(port(config))));
    }
    if config.get_user().is_none() {
        let user = variable("PGUSER").map_or_else(|| whoami::username().map_err(BoxError::from), Ok)?;
        config.user(user);
    }
    if config.get_dbname().is_none() {
        let name = variable("PGDATABASE").or_else(|| config.get_user().map(str::to_owned));
        config.dbname(name.unwrap_or_default());
    }
    if config.get_application_name().is_none() {
        config.application_name(variable("PGAPPNAME").unwrap_or_else(|| "memory-tool".to_owned()));
    }
    if let Some(password) = variable("PGPASSWORD") {
        config.password(password);
    } else if let Some(password) = password_of_file(config, &variable)? {
        config.password(password);
    }
    if location.ssl_mode.is_none() {
        let mode = variable("PGSSLMODE").map(|mode| mode.parse::<SslMode>()).transpose();
        location.ssl_mode = mode.map_err(|()| EnvironmentError::Variable("PGSSLMODE"))?;
    }
    if location.root_certificates.is_none() {
        location.root_certificates = variable("PGSSLROOTCERT").map(PathBuf::from);
    }
    Ok(())
}

fn port(config: &Config) -> u16 {
    config.get_ports().first().copied().unwrap_or(DEFAULT_PORT)
}

fn default_host(port: u16) -> String {
    let has_socket = |directory: &&str| Path::new(directory).join(format!(".s.PGSQL.{port}")).exists();
    SOCKET_DIRECTORIES.into_iter().find(has_socket).unwrap_or("localhost").to_owned()
}

/// The password of the first line that fits, or `None` without a file.
fn password_of_file(
    config: &Config,
    variable: impl Fn(&'static str) -> Option<String>,
) -> Result<Option<String>, EnvironmentError> {
    let file = variable("PGPASSFILE").map(PathBuf::from);
    let Some(file) = file.or_else(|| Some(std::env::home_dir()?.join(".pgpass"))) else { return Ok(None) };
    let failed = |source| EnvironmentError::PasswordFile { file: file.clone(), source };
    match fs::metadata(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
        Ok(found) if !found.is_file() => return Ok(None), // libpq ignores it too, such as /dev/null
        Ok(found) => refuse_others(&found).map_err(failed)?,
    }
    let mut lines = String::new();
    File::open(&file).and_then(|opened| opened.take(MAX_PASSWORD_FILE).read_to_string(&mut lines)).map_err(failed)?;
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        #[cfg(unix)]
        Some(Host::Unix(directory)) if !SOCKET_DIRECTORIES.iter().any(|default| directory == Path::new(default)) => {
            directory.to_string_lossy().into_owned()
        }
        _ => "localhost".to_owned(),
    };
    let user = config.get_user().unwrap_or_default();
    let wanted = [&host, &port(config).to_string(), config.get_dbname().unwrap_or(user), user];
    Ok(lines.lines().find_map(|line| password_of_line(line, wanted)))
}

/// The password of the line `host:port:database:user:password` if its first four fields fit. `*` fits everything, and a
/// backslash escapes a colon or a backslash.
fn password_of_line(line: &str, wanted: [&str; 4]) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    let mut is_wildcard = Vec::new();
    while let Some(character) = characters.next() {
        let field = fields.last_mut()?;
        match character {
            '\\' => field.extend(characters.next()),
            ':' if is_wildcard.len() < wanted.len() => {
                // An escaped asterisk is one character, too, but no host, database or user has this name.
                is_wildcard.push(field == "*");
                fields.push(String::new());
            }
            character => field.push(character),
        }
    }
    let password = fields.get(wanted.len()).filter(|password| !password.is_empty())?;
    let fits = |((field, is_wildcard), wanted): ((&String, &bool), &str)| *is_wildcard || field == wanted;
    fields.iter().zip(&is_wildcard).zip(wanted).all(fits).then(|| password.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_password_file_names_a_connection() {
        let wanted = ["host", "5432", "app", "bob"];
        for (line, password) in [
            ("host:5432:app:bob:secret", Some("secret")),
            ("*:*:*:*:secret", Some("secret")),
            (r"host:5432:app:bob:a\:b\\c:d", Some(r"a:b\c:d")),
            ("other:5432:app:bob:secret", None),
            ("host:5432:app:bobby:secret", None),
            ("# host:5432:app:bob:secret", None),
            ("host:5432:app:bob", None),
            ("host:5432:app:bob:", None),
            ("", None),
        ] {
            assert_eq!(password_of_line(line, wanted).as_deref(), password, "{line}");
        }
        assert_eq!(password_of_line(r"a\:b:1:c:d:secret", ["a:b", "1", "c", "d"]).as_deref(), Some("secret"));
    }

    fn completed(url: &str, variables: &[(&str, &str)]) -> Result<Location, BoxError> {
        let mut location = Location::parse(url).unwrap();
        let variable = |name| variables.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned());
        complete(&mut location, variable).map(|()| location)
    }

    const NO_FILE: (&str, &str) = ("PGPASSFILE", "/nowhere");

    #[test]
    fn the_environment_completes_the_url() {
        let variables = [
            ("PGHOST", "db"),
            ("PGPORT", "6543"),
            ("PGUSER", "bob"),
            ("PGPASSWORD", "secret"),
            ("PGSSLMODE", "require"),
        ];
        let location = completed("postgres:///app", &variables).unwrap();
        assert_eq!(location.config.get_hosts(), [Host::Tcp("db".to_owned())]);
        assert_eq!((location.config.get_ports(), location.config.get_user()), (&[6543][..], Some("bob")));
        assert_eq!(location.config.get_password(), Some(&b"secret"[..]));
        assert_eq!((location.config.get_dbname(), location.ssl_mode), (Some("app"), Some(SslMode::Require)));
        assert!(!format!("{location:?}").contains("secret"));

        let named = completed("postgres://eve@host:1?sslmode=disable&dbname=b", &variables).unwrap();
        assert_eq!(named.config.get_hosts(), [Host::Tcp("host".to_owned())]);
        assert_eq!((named.config.get_ports(), named.config.get_user()), (&[1][..], Some("eve")));
        assert_eq!((named.config.get_dbname(), named.ssl_mode), (Some("b"), Some(SslMode::Disable)));

        let error = completed("postgres://a@b", &[("PGSSLMODE", "Secret"), NO_FILE]).unwrap_err();
        assert_eq!(error.to_string(), "invalid value of the environment variable PGSSLMODE");
    }

    #[test]
    #[cfg(unix)]
    fn a_password_file_must_be_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pgpass");
        fs::write(&file, "# comment\nother:*:*:*:wrong\nhost:*:app:bob:Secret\n").unwrap();
        let variables = [("PGPASSFILE", file.to_str().unwrap())];
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let location = completed("postgres://bob@host/app", &variables).unwrap();
        assert_eq!(location.config.get_password(), Some(&b"Secret"[..]));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        let error = completed("postgres://bob@host/app", &variables).unwrap_err();
        let reason = error.source().unwrap().to_string();
        assert_eq!(reason, "mode 640 gives other users access: run `chmod 600` on it");
        assert_eq!(completed("postgres://bob@host/app", &[NO_FILE]).unwrap().config.get_password(), None);
    }
}
