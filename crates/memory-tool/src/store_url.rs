//! [`StoreUrl`]: the path or URL of a store.
//!
//! This module does not use the `url` crate, because `file:` URLs are always absolute in the URL standard: `file:notes`
//! would silently become `/notes`.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, percent_decode, percent_encode};

use crate::home::{HomeError, dollar_variable, expand_home, expand_tilde, percent_variable, refuse_variable};
use crate::redaction::{redact_credentials, redact_host, redact_parameter};

/// The name of the memory in a database if the URL contains no name.
pub(crate) const DEFAULT_MEMORY: &str = "default";

/// The parameters of a `file:` URL.
const TRUST_USERS: &str = "trust_other_users=true";
const TRUST_FILE_SYSTEM: &str = "trust_file_system=true";

/// The path or URL of a store.
///
/// | path or URL | store |
/// |---|---|
/// | `memory`, `/srv/memory`, `./a:b` | a local directory |
/// | `file:memory`, `file:///srv/my%20memory` | a local directory |
/// | `file:///srv/team?trust_other_users=true` | a local directory that other users can write to |
/// | `file:///mnt/nas?trust_file_system=true` | a directory on a network file system, which this machine alone uses |
/// | `sqlite:memory.db`, `sqlite:///srv/memory.db?memory=alice` | a memory in a SQLite database, by default `default` |
/// | `postgres://user@host/database?memory=alice` | a memory in a PostgreSQL database, by default `default` |
/// | `s3://bucket/prefix` | a prefix in a bucket of Amazon S3 or a compatible service |
/// | `gs://bucket/prefix` | a prefix in a bucket of Google Cloud Storage |
/// | `az://container/prefix` | a prefix in a container of Azure Blob Storage |
/// | `in-process:` | a temporary memory in this process |
///
/// URLs use percent-encoding. In paths and names, write `%3F` for `?`, `%23` for `#` and `%25` for `%`. In names, also
/// write `%26` for `&`. A word followed by a colon is a URL scheme, so write `./a:b` for a path such as `a:b`. A single
/// letter followed by a colon is a drive on Windows.
///
/// A path that starts with `~/` is in the home directory of the user. Other forms that a shell expands are
/// [refused](expand_home), such as `~alice` and `$HOME`. For a directory of that name, write `./~` or `file:%24HOME`.
///
/// # Behavior
/// 1. Parsing does not depend on the features of this crate. [Opening](Self::open) does.
/// 2. Parsing does not access the store. For `~`, it reads the environment.
/// 3. `Display` returns an equivalent URL. An empty path is displayed as `.`. On Windows, the URL of a path that is not
///    Unicode cannot be parsed.
/// 4. A URL has no place for credentials. If there are some in an invalid URL, no error contains them.
///
/// ```
/// use std::path::Path;
///
/// use memory_tool::StoreUrl;
///
/// let url: StoreUrl = "sqlite:my%20memory.db?memory=alice".parse()?;
/// assert_eq!(url, StoreUrl::Sqlite { path: "my memory.db".into(), memory: "alice".to_owned() });
/// assert_eq!(url.to_string(), "sqlite:my%20memory.db?memory=alice");
///
/// assert_eq!(StoreUrl::parse(Path::new("./memory"))?, StoreUrl::Local("./memory".into()));
/// # Ok::<(), memory_tool::StoreUrlError>(())
/// ```
#[derive(Clone, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum StoreUrl {
    /// A local directory. Requires the `local` feature.
    Local(PathBuf),
    /// A local directory that does not meet all requirements. Requires the `local` feature.
    TrustedDirectory {
        /// The directory.
        path: PathBuf,
        /// Whether other users may own it or write to it.
        other_users: bool,
        /// Whether it may be on a network file system.
        file_system: bool,
    },
    /// A memory in a SQLite database. Requires the `sqlite` feature.
    Sqlite {
        /// The path of the database.
        path: PathBuf,
        /// The name of the memory. Opening checks its validity.
        memory: String,
    },
    /// A memory in a PostgreSQL database. Requires the `postgres` feature.
    Postgres {
        /// The URL without the memory. Opening checks it in the same way as parsing.
        url: String,
        /// The name of the memory. Opening checks its validity.
        memory: String,
    },
    /// A memory under a prefix in a bucket. Requires the `s3`, `gcs` or `azure` feature.
    Bucket {
        /// The complete URL. Opening checks it in the same way as parsing.
        url: String,
    },
    /// A temporary memory in this process. Each opening creates a new one.
    InProcess,
}

impl StoreUrl {
    /// Parses a path or URL. A path does not have to be UTF-8.
    ///
    /// # Errors
    /// [`StoreUrlError`] if it is invalid.
    pub fn parse(given: impl AsRef<OsStr>) -> Result<Self, StoreUrlError> {
        let given = given.as_ref();
        if given.is_empty() {
            return Err(StoreUrlError::Empty);
        }
        let Some((scheme, location)) = split_scheme(given.as_encoded_bytes()) else {
            return Ok(Self::Local(expand_home(given)?));
        };
        match scheme.to_ascii_lowercase().as_str() {
            "file" => parse_file_url(location),
            "sqlite" => parse_sqlite_url(location),
            "postgres" | "postgresql" => parse_postgres_url(location),
            "s3" | "gs" | "az" => parse_bucket_url(scheme, location),
            "in-process" if location.is_empty() => Ok(Self::InProcess),
            "in-process" => Err(StoreUrlError::NamedInProcess),
            _ => {
                let given = redact_credentials(&given.to_string_lossy());
                Err(StoreUrlError::UnknownScheme { scheme: scheme.to_owned(), given })
            }
        }
    }
}

impl FromStr for StoreUrl {
    type Err = StoreUrlError;

    fn from_str(given: &str) -> Result<Self, StoreUrlError> {
        Self::parse(given)
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(path) if path.as_os_str().is_empty() => f.write_str("file:."),
            Self::Local(path) => write!(f, "file:{}", PathInUrl(path.as_os_str())),
            Self::TrustedDirectory { path, other_users, file_system } => {
                let trusted = [(*other_users, TRUST_USERS), (*file_system, TRUST_FILE_SYSTEM)];
                let query: Vec<_> =
                    trusted.iter().filter(|(is_trusted, _)| *is_trusted).map(|(_, text)| *text).collect();
                let separator = if query.is_empty() { "" } else { "?" };
                write!(f, "{}{separator}{}", Self::Local(path.clone()), query.join("&"))
            }
            Self::Sqlite { path, memory } => {
                write!(f, "sqlite:{}?memory={}", PathInUrl(path.as_os_str()), escape(memory.as_bytes()))
            }
            Self::Postgres { url, memory } => {
                // The variant can be built without parsing.
                let url = if Self::parse(url).is_ok() { url.clone() } else { redact_credentials(url) };
                let separator = if url.contains('?') { '&' } else { '?' };
                write!(f, "{url}{separator}memory={}", escape(memory.as_bytes()))
            }
            Self::Bucket { url } => f.write_str(&redact_credentials(url)),
            Self::InProcess => f.write_str("in-process:"),
        }
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

/// Displays a path in the format of [`parse_path`].
struct PathInUrl<'a>(&'a OsStr);

impl fmt::Display for PathInUrl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.0.as_encoded_bytes();
        // The empty host prevents a path that starts with two slashes from being parsed as a host.
        let host = if path.starts_with(b"/") { "//" } else { "" };
        write!(f, "{host}{}", escape(path))
    }
}

/// An invalid path or URL of a store.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreUrlError {
    /// The path is missing.
    #[error("the path is missing")]
    Empty,
    /// The path has a form that only a shell expands, or the home directory is unknown.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The scheme is unknown.
    #[error(
        "unknown scheme `{scheme}:`{}. A store is a path, or a URL that begins with file:, sqlite:, postgres:, s3:, \
         gs:, az: or in-process:; write ./{given} for a path of that name",
        hint(scheme)
    )]
    UnknownScheme {
        /// The scheme.
        scheme: String,
        /// The complete URL, without [credentials](redact_credentials).
        given: String,
    },
    /// The URL contains the name of another machine.
    #[error(
        "the URL cannot name the host `{host}`. Write three slashes before an absolute path, and no slashes before a \
         relative path"
    )]
    Host {
        /// The host, without [credentials](redact_credentials).
        host: String,
    },
    /// A `%` is not followed by two hexadecimal digits.
    #[error("`%` must be followed by two hexadecimal digits in a URL. Write %25 for the character itself")]
    Percent,
    /// The URL contains an unsupported query or fragment.
    #[error("`?` and `#` are reserved in a URL. Write %3F or %23 for the character itself")]
    QueryOrFragment,
    /// The system does not support the decoded path.
    #[error("the decoded path is not supported on this system")]
    UnsupportedPath,
    /// The URL contains no bucket.
    #[error("the bucket is missing. Write {scheme}://bucket/prefix")]
    NoBucket {
        /// The scheme.
        scheme: String,
    },
    /// The bucket name is invalid.
    #[error(
        "invalid bucket name `{name}`. The bucket is the part between the second and the third slash; credentials are \
         read from the environment"
    )]
    BucketName {
        /// The name, without [credentials](redact_credentials).
        name: String,
    },
    /// The prefix is invalid.
    #[error("invalid prefix: {reason}")]
    Prefix {
        /// The reason.
        reason: String,
    },
    /// The query contains an unknown parameter.
    #[error(
        "unknown parameter `{name}`. A sqlite: or postgres: URL may have ?memory=NAME; write %3F and %26 for `?` and \
         `&` themselves"
    )]
    UnknownParameter {
        /// The parameter.
        name: String,
    },
    /// The place of a database is missing.
    #[error("write postgres://user@host/database, or postgres:///database for a server on this machine")]
    NoServer,
    /// The URL of a server contains a password.
    #[error("a URL cannot contain a password: set PGPASSWORD, or write it to the password file ~/.pgpass")]
    Password,
    /// The query contains several names.
    #[error("the parameter `memory` is given more than once")]
    RepeatedMemory,
    /// The decoded name of the memory is not UTF-8.
    #[error("the decoded name of the memory is not UTF-8 text")]
    MemoryNameEncoding,
    /// `in-process:` is followed by more text.
    #[error("nothing can follow in-process:, since a memory in this process has no name")]
    NamedInProcess,
}

fn hint(scheme: &str) -> &'static str {
    if scheme.eq_ignore_ascii_case("memory") { " (did you mean in-process:?)" } else { "" }
}

/// The scheme of a URL, in lower case.
pub(crate) fn scheme_of(url: &str) -> String {
    url.split(':').next().unwrap_or_default().to_ascii_lowercase()
}

/// Splits a URL at its scheme. Returns `None` for a path. A single letter is a drive on Windows.
fn split_scheme(given: &[u8]) -> Option<(&str, &[u8])> {
    let (scheme, location) = split_at(given, b':');
    let scheme = str::from_utf8(scheme).ok()?;
    let continues = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    let is_scheme = scheme.len() >= 2
        && scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(continues);
    location.filter(|_| is_scheme).map(|location| (scheme, location))
}

/// Splits bytes at the first separator. The second part is `None` if there is no separator.
fn split_at(bytes: &[u8], separator: u8) -> (&[u8], Option<&[u8]>) {
    let mut parts = bytes.splitn(2, |&byte| byte == separator);
    (parts.next().unwrap_or_default(), parts.next())
}

/// Parses the part after `file:`.
fn parse_file_url(location: &[u8]) -> Result<StoreUrl, StoreUrlError> {
    refuse_reserved(location, b"#")?;
    match split_at(location, b'?') {
        (path, None) => parse_path(path).map(StoreUrl::Local),
        (path, Some(query)) => parse_trust(parse_path(path)?, query),
    }
}

/// Parses the query of a `file:` URL.
fn parse_trust(path: PathBuf, query: &[u8]) -> Result<StoreUrl, StoreUrlError> {
    let (mut other_users, mut file_system) = (false, false);
    for parameter in query.split(|&byte| byte == b'&') {
        let trusted = match str::from_utf8(parameter) {
            Ok(TRUST_USERS) => &mut other_users,
            Ok(TRUST_FILE_SYSTEM) => &mut file_system,
            _ => return Err(StoreUrlError::QueryOrFragment),
        };
        *trusted = true;
    }
    Ok(StoreUrl::TrustedDirectory { path, other_users, file_system })
}

/// Parses the part after `sqlite:`.
fn parse_sqlite_url(location: &[u8]) -> Result<StoreUrl, StoreUrlError> {
    refuse_reserved(location, b"#")?;
    let (path, query) = split_at(location, b'?');
    Ok(StoreUrl::Sqlite {
        path: parse_path(path)?,
        memory: query.map_or_else(|| Ok(DEFAULT_MEMORY.to_owned()), parse_query)?,
    })
}

/// The parameters of the connection in a `postgres:` URL. Others, such as `password`, are refused.
const POSTGRES_PARAMETERS: [&str; 10] = [
    "application_name",
    "connect_timeout",
    "dbname",
    "host",
    "port",
    "schema",
    "sslmode",
    "sslrootcert",
    "target_session_attrs",
    "user",
];

/// Parses the part after `postgres:`, and takes the memory out of its query.
fn parse_postgres_url(location: &[u8]) -> Result<StoreUrl, StoreUrlError> {
    refuse_reserved(location, b"#")?;
    let location = str::from_utf8(location).map_err(|_| StoreUrlError::UnsupportedPath)?;
    let (place, query) = location.split_once('?').unwrap_or((location, ""));
    let server = place.strip_prefix("//").ok_or(StoreUrlError::NoServer)?;
    if server.rsplit_once('@').is_some_and(|(user, _)| user.contains([':', '/'])) {
        return Err(StoreUrlError::Password);
    }
    // A password without `@` is in the place of the port.
    let authority = server.split('/').next().unwrap_or_default();
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit() || b",.:]-".contains(&byte));
    if authority.split_once(':').is_some_and(|(host, port)| !host.starts_with('[') && !is_port(port)) {
        return Err(StoreUrlError::Password);
    }
    decode(place.as_bytes())?;
    let mut memory = None;
    let mut kept = Vec::new();
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        match name {
            "memory" if memory.is_some() => return Err(StoreUrlError::RepeatedMemory),
            "memory" => {
                let value = String::from_utf8(decode(value.as_bytes())?);
                memory = Some(value.map_err(|_| StoreUrlError::MemoryNameEncoding)?);
            }
            "password" => return Err(StoreUrlError::Password),
            name if POSTGRES_PARAMETERS.contains(&name) => kept.push(parameter),
            _ => return Err(StoreUrlError::UnknownParameter { name: redact_parameter(parameter).to_owned() }),
        }
    }
    let separator = if kept.is_empty() { "" } else { "?" };
    let url = format!("postgres:{place}{separator}{}", kept.join("&"));
    Ok(StoreUrl::Postgres { url, memory: memory.unwrap_or_else(|| DEFAULT_MEMORY.to_owned()) })
}

/// Parses the part after `s3:`, `gs:` or `az:`.
fn parse_bucket_url(scheme: &str, location: &[u8]) -> Result<StoreUrl, StoreUrlError> {
    refuse_reserved(location, b"?#")?;
    let no_bucket = || StoreUrlError::NoBucket { scheme: scheme.to_ascii_lowercase() };
    let (bucket, prefix) = split_at(location.strip_prefix(b"//").ok_or_else(no_bucket)?, b'/');
    if bucket.is_empty() {
        return Err(no_bucket());
    }
    check_bucket_name(bucket, location)?;
    check_prefix(prefix.unwrap_or_default())?;
    // Both parts are UTF-8, so this conversion is lossless.
    Ok(StoreUrl::Bucket { url: format!("{scheme}:{}", String::from_utf8_lossy(location)) })
}

/// Refuses parts of a URL that are not valid in the name of a bucket: a user, a port and percent-encoding.
fn check_bucket_name(name: &[u8], location: &[u8]) -> Result<(), StoreUrlError> {
    let can_be_in_a_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._$".contains(byte);
    if name.iter().all(can_be_in_a_name) {
        Ok(())
    } else {
        // The secret of a key may contain slashes.
        let location = String::from_utf8_lossy(location);
        Err(StoreUrlError::BucketName { name: redact_host(location.trim_start_matches('/')) })
    }
}

/// Refuses a prefix that URL parsers would change (`a/../b` becomes `b`, and line feeds are removed), and a prefix that
/// the clients of cloud storage reject.
fn check_prefix(prefix: &[u8]) -> Result<(), StoreUrlError> {
    let refused = |reason: String| Err(StoreUrlError::Prefix { reason });
    let decoded = decode(prefix)?;
    let (Ok(prefix), Ok(decoded)) = (str::from_utf8(prefix), str::from_utf8(&decoded)) else {
        return refused("it is not UTF-8 text".to_owned());
    };
    if prefix.contains(|character: char| character.is_control() || character.is_whitespace()) {
        return refused("it contains a space or a control character. Write %20 for a space".to_owned());
    }
    if decoded.contains(|character: char| character.is_ascii_control()) {
        return refused("it contains a control character".to_owned());
    }
    let names = decoded.strip_suffix('/').unwrap_or(decoded);
    match names.split('/').find(|name| ["", ".", ".."].contains(name)) {
        _ if decoded.is_empty() => Ok(()),
        Some("") => refused("it contains an empty segment".to_owned()),
        Some(name) => refused(format!("it contains the segment `{name}`")),
        None => Ok(()),
    }
}

fn parse_query(query: &[u8]) -> Result<String, StoreUrlError> {
    let mut memory = None;
    for parameter in query.split(|&byte| byte == b'&') {
        let (name, value) = split_at(parameter, b'=');
        if name != b"memory" {
            let name = redact_parameter(&String::from_utf8_lossy(parameter)).to_owned();
            return Err(StoreUrlError::UnknownParameter { name });
        }
        let value = String::from_utf8(decode(value.unwrap_or_default())?);
        let value = value.map_err(|_| StoreUrlError::MemoryNameEncoding)?;
        if memory.replace(value).is_some() {
            return Err(StoreUrlError::RepeatedMemory);
        }
    }
    Ok(memory.unwrap_or_else(|| DEFAULT_MEMORY.to_owned()))
}

fn refuse_reserved(location: &[u8], reserved: &[u8]) -> Result<(), StoreUrlError> {
    let has_reserved = location.iter().any(|byte| reserved.contains(byte));
    if has_reserved { Err(StoreUrlError::QueryOrFragment) } else { Ok(()) }
}

/// Parses the path of a URL, with an optional host before it. `~` and `$` have their meaning only if they are not
/// percent-encoded.
fn parse_path(location: &[u8]) -> Result<PathBuf, StoreUrlError> {
    let escaped = without_host(location)?;
    let text = String::from_utf8_lossy(escaped);
    refuse_variable(dollar_variable(&text))?;
    let Ok(path) = decode(escaped) else {
        refuse_variable(percent_variable(&text))?;
        return Err(StoreUrlError::Percent);
    };
    if path.is_empty() {
        return Err(StoreUrlError::Empty);
    }
    let path = native_path(path)?;
    if text.starts_with(['~', '/']) && text.contains('~') { Ok(expand_tilde(&path)?) } else { Ok(path) }
}

/// Removes the host of `//host/path`, which must be empty or `localhost`. Other input is already a path.
fn without_host(location: &[u8]) -> Result<&[u8], StoreUrlError> {
    let Some(authority) = location.strip_prefix(b"//") else { return Ok(location) };
    let end = authority.iter().position(|&byte| byte == b'/').unwrap_or(authority.len());
    let (host, path) = authority.split_at(end);
    if host.is_empty() || host.eq_ignore_ascii_case(b"localhost") {
        Ok(path)
    } else {
        Err(StoreUrlError::Host { host: redact_host(&String::from_utf8_lossy(authority)) })
    }
}

fn decode(escaped: &[u8]) -> Result<Vec<u8>, StoreUrlError> {
    let mut after_percent = escaped.split(|&byte| byte == b'%').skip(1);
    let whole = after_percent.all(|rest| rest.len() >= 2 && rest[..2].iter().all(u8::is_ascii_hexdigit));
    if whole { Ok(percent_decode(escaped).collect()) } else { Err(StoreUrlError::Percent) }
}

/// Percent-encodes all characters that are reserved in a URL.
pub(crate) fn escape(bytes: &[u8]) -> PercentEncode<'_> {
    const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'-').remove(b'_');
    percent_encode(bytes, ESCAPED)
}

fn native_path(path: Vec<u8>) -> Result<PathBuf, StoreUrlError> {
    if path.contains(&0) {
        return Err(StoreUrlError::UnsupportedPath);
    }
    native_name(path).map(PathBuf::from)
}

#[cfg(unix)]
fn native_name(path: Vec<u8>) -> Result<OsString, StoreUrlError> {
    use std::os::unix::ffi::OsStringExt as _;
    Ok(OsString::from_vec(path))
}

#[cfg(not(unix))]
fn native_name(path: Vec<u8>) -> Result<OsString, StoreUrlError> {
    let path = String::from_utf8(path).map_err(|_| StoreUrlError::UnsupportedPath)?;
    // `file:///C:/memory` means `C:/memory`.
    let drive = path.strip_prefix('/').filter(|path| path.get(1..2) == Some(":"));
    Ok(drive.unwrap_or(&path).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(given: &str) -> Result<PathBuf, StoreUrlError> {
        match StoreUrl::parse(given)? {
            StoreUrl::Local(path) => Ok(path),
            other => panic!("{given} names {other:?}"),
        }
    }

    #[test]
    fn input_without_a_scheme_is_a_path() {
        for path in ["a", "/a b", "./foo:bar", "a/foo:bar", r"C:\memory", "c:memory", "1a:b", "a_b:c", ":a", "a%20b?#"]
        {
            assert_eq!(parse(path), Ok(PathBuf::from(path)));
        }
    }

    #[test]
    fn a_file_url_is_an_absolute_or_relative_path() {
        for (url, path) in [
            ("file:///a/b", "/a/b"),
            ("file:/a/b", "/a/b"),
            ("file:a/b", "a/b"),
            ("file:../a", "../a"),
            ("FILE:a", "a"),
            ("file://localhost/a", "/a"),
            ("file:///a%20b/100%25/%C3%A9/é", "/a b/100%/é/é"),
            ("file:a%3Fb%23c", "a?b#c"),
            ("file:b:c", "b:c"),
        ] {
            assert_eq!(parse(url), Ok(PathBuf::from(path)), "{url}");
        }
    }

    #[test]
    fn a_tilde_is_the_home_directory_and_other_forms_of_a_shell_are_refused() {
        let home = std::env::home_dir().unwrap();
        for given in ["~/a b", "file:~/a%20b", "FILE:~/a b", "file:~%2Fa b"] {
            assert_eq!(parse(given), Ok(home.join("a b")), "{given}");
        }
        assert_eq!(parse("~"), Ok(home.join("")));
        let database = StoreUrl::Sqlite { path: home.join("a.db"), memory: "$B".to_owned() };
        assert_eq!(StoreUrl::parse("sqlite:~/a.db?memory=$B"), Ok(database));
        for given in [
            "~a/b",
            "$HOME/a",
            "${HOME}/a",
            "%USERPROFILE%",
            "file:~a/b",
            "file:$HOME/a",
            "file:///$HOME/a",
            "file:///~/a",
            "file:%USERPROFILE%",
            "sqlite:~a/b.db",
            "sqlite:$HOME/a.db",
            "sqlite:${HOME}/a.db?memory=b",
            "sqlite:///~/a.db",
            "sqlite:%USERPROFILE%\\a.db",
        ] {
            let parsed = StoreUrl::parse(given);
            assert!(matches!(parsed, Err(StoreUrlError::Home(_))), "{given}: {parsed:?}");
        }
        for (given, path) in [
            ("./~/a", "./~/a"),
            ("./$a", "./$a"),
            ("file:%7E/a", "~/a"),
            ("file:%7Ea", "~a"),
            ("file:%24HOME/a", "$HOME/a"),
            ("file:%25TEMP%25", "%TEMP%"),
            ("file:a/~", "a/~"),
            ("file:%C3%A9", "é"),
        ] {
            assert_eq!(parse(given), Ok(path.into()), "{given}");
        }
        assert_eq!(StoreUrl::parse("az://$ROOT/~"), Ok(StoreUrl::Bucket { url: "az://$ROOT/~".to_owned() }));
    }

    #[test]
    fn no_form_of_an_error_contains_credentials() {
        const SECRET: &str = "wJalr/XUtn+FEMI=K7MDENG";
        for (before, after) in [
            ("s3://AKIA:", "@bucket/a"),
            ("s3://:", "@bucket"),
            ("s3://AKIA:", ""),
            ("s3:AKIA:", "@bucket"),
            ("gs://bucket?key=", ""),
            ("az://container/a?sig=", "&se=1"),
            ("az://container/a#", ""),
            ("https://a.blob.core.windows.net/a?sig=", ""),
            ("postgres://user:", "@host/db"),
            ("postgres://user:", ""),
            ("postgres://:", "@host"),
            ("postgresql://host/db?password=", ""),
            ("postgres://host/db?", ""),
            ("postgres://host/db#", ""),
            ("postgres:user:", "@host"),
            ("file://user:", "@host/a"),
            ("sqlite:a.db?key=", ""),
            ("sqlite:a.db?", ""),
            ("sqlite://user:", "@host/a.db"),
            ("user:", "@host"),
        ] {
            let error = StoreUrl::parse(format!("{before}{SECRET}{after}")).unwrap_err();
            let messages = format!("{error} {error:?}");
            assert!(!messages.contains("FEMI") && !messages.contains("K7MDENG"), "{before}: {messages}");
        }
        let bucket = StoreUrl::Bucket { url: format!("s3://AKIA:{SECRET}@bucket") };
        assert_eq!(format!("{bucket} {bucket:?}"), "s3://[redacted]@bucket StoreUrl(s3://[redacted]@bucket)");
        let url = format!("postgres://user:{SECRET}@host/db");
        let database = StoreUrl::Postgres { url, memory: "a".to_owned() };
        assert_eq!(database.to_string(), "postgres://[redacted]@host/db?memory=a");
    }

    #[test]
    #[cfg(unix)]
    fn a_path_does_not_have_to_be_utf8() {
        use std::os::unix::ffi::OsStrExt as _;
        let path = OsStr::from_bytes(b"a\xff:");
        assert_eq!(StoreUrl::parse(path), Ok(StoreUrl::Local(path.into())));
        for url in [b"file:a%ff:".as_slice(), b"file:a\xff:"] {
            assert_eq!(StoreUrl::parse(OsStr::from_bytes(url)), Ok(StoreUrl::Local(path.into())));
        }
        let database = StoreUrl::Sqlite { path: path.into(), memory: "a".to_owned() };
        for url in [StoreUrl::Local(path.into()), database] {
            assert_eq!(url.to_string().parse(), Ok(url));
        }
    }

    #[test]
    fn display_round_trips() {
        for (other_users, file_system, query) in [
            (true, false, "trust_other_users=true"),
            (false, true, "trust_file_system=true"),
            (true, true, "trust_other_users=true&trust_file_system=true"),
        ] {
            let trusted = StoreUrl::TrustedDirectory { path: "/srv/a?b".into(), other_users, file_system };
            assert_eq!(trusted.to_string(), format!("file:///srv/a%3Fb?{query}"));
            assert_eq!(trusted.to_string().parse(), Ok(trusted));
        }
        assert_eq!(StoreUrl::Local(PathBuf::new()).to_string().parse(), Ok(StoreUrl::Local(".".into())));
        let odd = [
            " ",
            "%",
            "%41",
            "?",
            "#",
            "&",
            "=",
            "é",
            "//",
            "\"",
            "'",
            "\\",
            ":",
            "+",
            ";",
            "?memory=b",
            "//localhost/",
        ];
        for odd in odd.into_iter().map(str::to_owned).chain((' '..='~').map(String::from)) {
            for text in
                [odd.clone(), format!("a{odd}"), format!("{odd}a"), format!("/{odd}"), format!("a/{odd}/{odd}b")]
            {
                for url in [StoreUrl::Local(PathBuf::from(&text)), sqlite(&text, &text)] {
                    assert_eq!(url.to_string().parse(), Ok(url));
                }
            }
        }
    }

    fn sqlite(path: &str, memory: &str) -> StoreUrl {
        StoreUrl::Sqlite { path: path.into(), memory: memory.to_owned() }
    }

    #[test]
    fn a_sqlite_url_is_a_path_and_the_name_of_a_memory() {
        for (url, path, memory) in [
            ("sqlite:a.db", "a.db", "default"),
            ("SQLite:///a%20b/c.db?memory=alice", "/a b/c.db", "alice"),
            ("sqlite://localhost/a?memory=default", "/a", "default"),
            ("sqlite:a%3Fb%23c%26d?memory=user/42", "a?b#c&d", "user/42"),
            ("sqlite:a&b=c?memory=%C3%A9%26%3D%25+?=é", "a&b=c", "é&=%+?=é"),
            ("sqlite::memory:", ":memory:", "default"),
        ] {
            assert_eq!(StoreUrl::parse(url), Ok(sqlite(path, memory)), "{url}");
        }
    }

    #[test]
    fn a_postgres_url_is_kept_except_for_the_memory() {
        for (given, url, memory) in [
            ("postgres://bob@host:5432/app", "postgres://bob@host:5432/app", "default"),
            (
                "PostgreSQL://a,b:1/app?memory=user/42&sslmode=require",
                "postgres://a,b:1/app?sslmode=require",
                "user/42",
            ),
            ("postgres://", "postgres://", "default"),
            ("postgres:///app?host=/run&memory=%C3%A9%26&port=1", "postgres:///app?host=/run&port=1", "é&"),
            ("postgres://bob@%2Fsocket:5432/app", "postgres://bob@%2Fsocket:5432/app", "default"),
            ("postgres://[::1]:5432/app", "postgres://[::1]:5432/app", "default"),
        ] {
            let parsed = StoreUrl::parse(given).unwrap();
            assert_eq!(parsed, StoreUrl::Postgres { url: url.to_owned(), memory: memory.to_owned() }, "{given}");
            assert_eq!(parsed.to_string().parse(), Ok(parsed));
        }
        assert_eq!(StoreUrl::parse("postgres:bob"), Err(StoreUrlError::NoServer));
        assert_eq!(StoreUrl::parse("postgres://a?memory=b&memory=c"), Err(StoreUrlError::RepeatedMemory));
        let options = StoreUrlError::UnknownParameter { name: "options".to_owned() };
        assert_eq!(StoreUrl::parse("postgres://a?options=-c"), Err(options));
    }

    #[test]
    fn a_memory_in_this_process_has_no_name() {
        for url in ["in-process:", "IN-Process:"] {
            assert_eq!(StoreUrl::parse(url), Ok(StoreUrl::InProcess));
        }
        assert_eq!(StoreUrl::InProcess.to_string(), "in-process:");
        assert_eq!(parse("in-process"), Ok("in-process".into()));
    }

    #[test]
    fn the_error_for_the_scheme_memory_suggests_in_process() {
        for (given, scheme) in [("memory:", "memory"), ("Memory:a", "Memory")] {
            let error = parse(given).unwrap_err();
            assert_eq!(error, StoreUrlError::UnknownScheme { scheme: scheme.to_owned(), given: given.to_owned() });
            let suggestion = format!("unknown scheme `{scheme}:` (did you mean in-process:?). A store is a path, ");
            assert!(error.to_string().starts_with(&suggestion), "{error}");
        }
        let error = parse("foo:bar").unwrap_err().to_string();
        assert!(error.starts_with("unknown scheme `foo:`. A store is a path, "), "{error}");
    }

    #[test]
    fn the_url_of_a_bucket_is_kept_unchanged() {
        for url in [
            "s3://bucket",
            "s3://bucket/",
            "S3://my.bucket-1/a/b/",
            "gs://my_bucket/a%20b/%3F/%25/é",
            "az://container/users/alice",
            "az://$root/a",
        ] {
            let parsed = StoreUrl::parse(url).unwrap();
            assert_eq!(parsed, StoreUrl::Bucket { url: url.to_owned() });
            assert_eq!(parsed.to_string(), url);
        }
    }

    #[test]
    fn invalid_bucket_urls_are_refused() {
        let name = |name: &str| StoreUrlError::BucketName { name: name.to_owned() };
        for (given, error) in [
            ("s3:", StoreUrlError::NoBucket { scheme: "s3".to_owned() }),
            ("s3:bucket", StoreUrlError::NoBucket { scheme: "s3".to_owned() }),
            ("GS:/bucket", StoreUrlError::NoBucket { scheme: "gs".to_owned() }),
            ("az://", StoreUrlError::NoBucket { scheme: "az".to_owned() }),
            ("az:///prefix", StoreUrlError::NoBucket { scheme: "az".to_owned() }),
            ("s3://user:secret@bucket/a", name("[redacted]@bucket")),
            ("s3://user:a/secret@bucket/a", name("[redacted]@bucket")),
            ("s3://user:secret", name("user:[redacted]")),
            ("s3://bucket:80/a", name("bucket:80")),
            ("gs://a%20b", name("a%20b")),
            ("gs://a b/c", name("a b")),
            ("s3://bucket/a?region=b", StoreUrlError::QueryOrFragment),
            ("s3://bucket#a", StoreUrlError::QueryOrFragment),
            ("s3://bucket/100%", StoreUrlError::Percent),
        ] {
            assert_eq!(StoreUrl::parse(given), Err(error), "{given}");
        }
        for prefix in ["a//b", "/a", "a//", "a/../b", "..", ".", "%2e%2E/a", "a b", "a ", "a\n", "a%0Ab", "a%00", "%ff"]
        {
            let parsed = StoreUrl::parse(format!("s3://bucket/{prefix}"));
            assert!(matches!(parsed, Err(StoreUrlError::Prefix { .. })), "{prefix:?}: {parsed:?}");
        }
    }

    #[test]
    fn invalid_urls_are_refused() {
        for (given, error) in [
            ("", StoreUrlError::Empty),
            ("file:", StoreUrlError::Empty),
            ("file://", StoreUrlError::Empty),
            ("file://localhost", StoreUrlError::Empty),
            ("file://relative/a", StoreUrlError::Host { host: "relative".to_owned() }),
            ("file:100%", StoreUrlError::Percent),
            ("file:a%2", StoreUrlError::Percent),
            ("file:a%zz", StoreUrlError::Percent),
            ("file:a%%41", StoreUrlError::Percent),
            ("file:a?b", StoreUrlError::QueryOrFragment),
            ("file:a?trust_other_users=false", StoreUrlError::QueryOrFragment),
            ("file:a?trust_other_users=true&b", StoreUrlError::QueryOrFragment),
            ("file:?trust_other_users=true", StoreUrlError::Empty),
            ("file:a#b", StoreUrlError::QueryOrFragment),
            ("file:a%00b", StoreUrlError::UnsupportedPath),
            ("sqlite:", StoreUrlError::Empty),
            ("sqlite://?memory=a", StoreUrlError::Empty),
            ("sqlite://elsewhere/a", StoreUrlError::Host { host: "elsewhere".to_owned() }),
            ("sqlite:100%", StoreUrlError::Percent),
            ("sqlite:a?memory=100%", StoreUrlError::Percent),
            ("sqlite:a#b", StoreUrlError::QueryOrFragment),
            ("sqlite:a?memory=b#c", StoreUrlError::QueryOrFragment),
            ("sqlite:a%00b", StoreUrlError::UnsupportedPath),
            ("sqlite:a?", StoreUrlError::UnknownParameter { name: String::new() }),
            ("sqlite:a?Memory=b", StoreUrlError::UnknownParameter { name: "Memory".to_owned() }),
            ("sqlite:a?memory=b&mode=ro", StoreUrlError::UnknownParameter { name: "mode".to_owned() }),
            ("sqlite:a?memory=b&memory=b", StoreUrlError::RepeatedMemory),
            ("sqlite:a?store=b", StoreUrlError::UnknownParameter { name: "store".to_owned() }),
            ("sqlite:a?memory=%ff", StoreUrlError::MemoryNameEncoding),
            ("in-process:a", StoreUrlError::NamedInProcess),
            ("in-process://", StoreUrlError::NamedInProcess),
        ] {
            assert_eq!(parse(given), Err(error), "{given}");
        }
        for given in ["foo:bar", "s3a://bucket", "https://bucket", "ab+c-d.e1:x"] {
            assert!(matches!(parse(given), Err(StoreUrlError::UnknownScheme { .. })), "{given}");
        }
    }
}
