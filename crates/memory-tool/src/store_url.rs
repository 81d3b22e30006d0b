//! [`StoreUrl`]: how a store is named.
//!
//! The `url` crate is no help with paths: to the URL standard a `file:` URL is always absolute, so `file:notes` would silently
//! become `/notes`.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, percent_decode, percent_encode};

/// The memory in a SQLite database whose URL names none.
const DEFAULT_MEMORY: &str = "default";

/// A store, as it is named by a plain path or a URL.
///
/// | named by | is |
/// |---|---|
/// | `memory`, `/srv/memory`, `./a:b` | a directory on this machine |
/// | `file:memory`, `file:///srv/my%20memory` | the same as a URL |
/// | `sqlite:memory.db`, `sqlite:///srv/memory.db?memory=alice` | one of the memories in a SQLite database; without `?memory=`, the one named `default` |
/// | `s3://bucket/prefix` | beneath a prefix in a bucket of Amazon S3, or of what speaks it |
/// | `gs://bucket/prefix` | beneath a prefix in a bucket of Google Cloud Storage |
/// | `az://container/prefix` | beneath a prefix in a container of Azure Blob Storage |
/// | `in-process:` | a temporary memory in this process |
///
/// In the path and the name of a URL, `%` and two hexadecimal digits stand for a byte: write `%3F` for `?`, `%23` for `#`, `%25` for
/// `%`, and in a name `%26` for `&`. What starts with a word and a colon is a URL: a path of such a name is written with `./` before
/// it. A single letter before the colon is a drive of Windows.
///
/// # Behavior
/// 1. What is parsed does not depend on the features of this crate: those decide what can be [opened](Self::open).
/// 2. Parsing looks at nothing but the text. Whether there is such a place is seen when it is opened.
/// 3. `Display` gives a URL of the same store. Parsed, it is equal to this one, but for a path that is empty, which is `.` then,
///    and on Windows one that is not Unicode, which no URL can hold.
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
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum StoreUrl {
    /// A directory on this machine. Needs the feature `local`.
    Local(PathBuf),
    /// One of the memories in a SQLite database. Needs the feature `sqlite`.
    Sqlite {
        /// The file.
        path: PathBuf,
        /// Which of the memories in it. A name that no memory can have is refused when it is opened.
        memory: String,
    },
    /// A memory beneath a prefix in a bucket. Needs the feature `s3`, `gcs` or `azure`.
    Bucket {
        /// The scheme of the cloud, the bucket, and the prefix, as they were given. What parsing refuses is refused when it is
        /// opened as well.
        url: String,
    },
    /// A temporary memory in this process. Each opening makes a new one.
    InProcess,
}

impl StoreUrl {
    /// Parses a plain path or a URL. A path need not be UTF-8.
    ///
    /// # Errors
    /// [`StoreUrlError`] says what is wrong with it.
    pub fn parse(given: impl AsRef<OsStr>) -> Result<Self, StoreUrlError> {
        let given = given.as_ref();
        if given.is_empty() {
            return Err(StoreUrlError::Empty);
        }
        let Some((scheme, location)) = split_scheme(given.as_encoded_bytes()) else {
            return Ok(Self::Local(given.into()));
        };
        match scheme.to_ascii_lowercase().as_str() {
            "file" => parse_file_url(location),
            "sqlite" => parse_sqlite_url(location),
            "s3" | "gs" | "az" => parse_bucket_url(scheme, location),
            "in-process" => parse_in_process_url(location),
            _ => {
                let given = given.to_string_lossy().into_owned();
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
            Self::Sqlite { path, memory } => {
                write!(f, "sqlite:{}?memory={}", PathInUrl(path.as_os_str()), escape(memory.as_bytes()))
            }
            Self::Bucket { url } => f.write_str(url),
            Self::InProcess => f.write_str("in-process:"),
        }
    }
}

/// A path as [`parse_path`] takes it.
struct PathInUrl<'a>(&'a OsStr);

impl fmt::Display for PathInUrl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.0.as_encoded_bytes();
        // With a host, though an empty one: a path that begins with two slashes would seem to have another.
        let host = if path.starts_with(b"/") { "//" } else { "" };
        write!(f, "{host}{}", escape(path))
    }
}

/// Why no store can be meant by what was given.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreUrlError {
    /// Nothing was given, or nothing but a scheme.
    #[error("it names no directory or file")]
    Empty,
    /// There is no backend of that name.
    #[error(
        "unknown scheme `{scheme}:`{}. A store is a path, or a URL that begins with file:, sqlite:, s3:, gs:, az: or in-process:; \
         write ./{given} for a path of that name",
        hint(scheme)
    )]
    UnknownScheme {
        /// The scheme.
        scheme: String,
        /// All that was given.
        given: String,
    },
    /// The URL names another machine.
    #[error(
        "the URL cannot name the host `{host}`. Write three slashes before an absolute path, or none before a relative one"
    )]
    Host {
        /// The host.
        host: String,
    },
    /// A `%` is not followed by two hexadecimal digits.
    #[error("`%` must be followed by two hexadecimal digits in a URL. Write %25 for the character itself")]
    Percent,
    /// A `?` or `#` would start a query or fragment, which the URL has no use for.
    #[error("`?` and `#` have a meaning of their own in a URL. Write %3F or %23 for the character itself")]
    QueryOrFragment,
    /// The decoded path is none that this system can hold.
    #[error("the decoded path is not one that this system can hold")]
    UnsupportedPath,
    /// The URL of a bucket is none.
    #[error("it names no bucket. Write it as {scheme}://bucket/prefix")]
    NoBucket {
        /// The scheme.
        scheme: String,
    },
    /// The name can be that of no bucket.
    #[error("`{name}` cannot be the name of a bucket. It is the part between the second slash and the third")]
    BucketName {
        /// The name.
        name: String,
    },
    /// The prefix of a bucket's URL cannot be one.
    #[error("the prefix cannot be a part of a key: {reason}")]
    Prefix {
        /// What is wrong with it.
        reason: String,
    },
    /// The query has a parameter that means nothing.
    #[error(
        "unknown parameter `{name}`. A sqlite: URL may have ?memory=NAME; write %3F and %26 for `?` and `&` themselves"
    )]
    UnknownParameter {
        /// The parameter.
        name: String,
    },
    /// The query names several memories.
    #[error("the parameter `memory` is given more than once")]
    RepeatedMemory,
    /// The decoded name of the memory is not text.
    #[error("the decoded name of the memory is not UTF-8 text")]
    MemoryNameEncoding,
    /// Something follows `in-process:`.
    #[error("nothing can follow in-process:, since a memory in this process has no name")]
    NamedInProcess,
}

/// What may be meant by an unknown scheme.
fn hint(scheme: &str) -> &'static str {
    if scheme.eq_ignore_ascii_case("memory") { " (did you mean in-process:?)" } else { "" }
}

/// What stands before the colon of a URL.
pub(crate) fn scheme_of(url: &str) -> String {
    url.split(':').next().unwrap_or_default().to_ascii_lowercase()
}

/// What stands before the first colon, if that is a scheme, and what follows. A single letter is a drive of Windows.
fn split_scheme(given: &[u8]) -> Option<(&str, &[u8])> {
    let (scheme, location) = split_at(given, b':');
    let scheme = str::from_utf8(scheme).ok()?;
    let continues = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    let is_scheme = scheme.len() >= 2
        && scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(continues);
    location.filter(|_| is_scheme).map(|location| (scheme, location))
}

/// What stands before the first such byte, and what follows it if it is there.
fn split_at(bytes: &[u8], separator: u8) -> (&[u8], Option<&[u8]>) {
    let mut parts = bytes.splitn(2, |&byte| byte == separator);
    (parts.next().unwrap_or_default(), parts.next())
}

/// Parses what follows `file:`.
fn parse_file_url(location: &[u8]) -> Result<StoreUrl, StoreUrlError> {
    refuse_reserved(location, b"?#")?;
    parse_path(location).map(StoreUrl::Local)
}

/// Parses what follows `sqlite:`.
fn parse_sqlite_url(location: &[u8]) -> Result<StoreUrl, StoreUrlError> {
    refuse_reserved(location, b"#")?;
    let (path, query) = split_at(location, b'?');
    Ok(StoreUrl::Sqlite {
        path: parse_path(path)?,
        memory: query.map_or_else(|| Ok(DEFAULT_MEMORY.to_owned()), parse_query)?,
    })
}

/// Parses what follows `s3:`, `gs:` or `az:`. Whether there is such a bucket is seen when it is opened.
fn parse_bucket_url(scheme: &str, location: &[u8]) -> Result<StoreUrl, StoreUrlError> {
    refuse_reserved(location, b"?#")?;
    let no_bucket = || StoreUrlError::NoBucket { scheme: scheme.to_ascii_lowercase() };
    let (bucket, prefix) = split_at(location.strip_prefix(b"//").ok_or_else(no_bucket)?, b'/');
    if bucket.is_empty() {
        return Err(no_bucket());
    }
    check_bucket_name(bucket)?;
    check_prefix(prefix.unwrap_or_default())?;
    // All of it is text, as its parts are.
    Ok(StoreUrl::Bucket { url: format!("{scheme}:{}", String::from_utf8_lossy(location)) })
}

/// Refuses what a URL may have in that place, but no cloud in a name: a user, a port, an escaped character.
fn check_bucket_name(name: &[u8]) -> Result<(), StoreUrlError> {
    let can_be_in_a_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._$".contains(byte);
    if name.iter().all(can_be_in_a_name) {
        Ok(())
    } else {
        Err(StoreUrlError::BucketName { name: String::from_utf8_lossy(name).into_owned() })
    }
}

/// Refuses a prefix that would be another one when it is read as a URL: there `a/../b` is `b`, and a line feed is nothing. Then
/// refuses what the clients of the clouds take for no prefix of keys.
fn check_prefix(prefix: &[u8]) -> Result<(), StoreUrlError> {
    let refused = |reason: String| Err(StoreUrlError::Prefix { reason });
    let decoded = decode(prefix)?;
    let (Ok(prefix), Ok(decoded)) = (str::from_utf8(prefix), str::from_utf8(&decoded)) else {
        return refused("it is not UTF-8 text".to_owned());
    };
    if prefix.contains(|character: char| character.is_control() || character.is_whitespace()) {
        return refused("it has a blank or a control character. Write %20 for a blank".to_owned());
    }
    if decoded.contains(|character: char| character.is_ascii_control()) {
        return refused("it has a control character".to_owned());
    }
    let names = decoded.strip_suffix('/').unwrap_or(decoded);
    match names.split('/').find(|name| ["", ".", ".."].contains(name)) {
        _ if decoded.is_empty() => Ok(()),
        Some("") => refused("it has nothing between two slashes".to_owned()),
        Some(name) => refused(format!("no name in it can be `{name}`")),
        None => Ok(()),
    }
}

/// Parses what follows `in-process:`.
fn parse_in_process_url(location: &[u8]) -> Result<StoreUrl, StoreUrlError> {
    if location.is_empty() { Ok(StoreUrl::InProcess) } else { Err(StoreUrlError::NamedInProcess) }
}

/// The memory that a query names.
fn parse_query(query: &[u8]) -> Result<String, StoreUrlError> {
    let mut memory = None;
    for parameter in query.split(|&byte| byte == b'&') {
        let (name, value) = split_at(parameter, b'=');
        if name != b"memory" {
            return Err(StoreUrlError::UnknownParameter { name: String::from_utf8_lossy(name).into_owned() });
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

/// The path in a URL, which may have a host before it.
fn parse_path(location: &[u8]) -> Result<PathBuf, StoreUrlError> {
    let path = decode(without_host(location)?)?;
    if path.is_empty() {
        return Err(StoreUrlError::Empty);
    }
    native_path(path)
}

/// The path of `//host/path`, whose host must be empty or this one; anything else is a path already.
fn without_host(location: &[u8]) -> Result<&[u8], StoreUrlError> {
    let Some(authority) = location.strip_prefix(b"//") else { return Ok(location) };
    let end = authority.iter().position(|&byte| byte == b'/').unwrap_or(authority.len());
    let (host, path) = authority.split_at(end);
    if host.is_empty() || host.eq_ignore_ascii_case(b"localhost") {
        Ok(path)
    } else {
        Err(StoreUrlError::Host { host: String::from_utf8_lossy(host).into_owned() })
    }
}

/// The bytes with each `%` and the two digits after it replaced by the byte that they stand for.
fn decode(escaped: &[u8]) -> Result<Vec<u8>, StoreUrlError> {
    let mut after_percent = escaped.split(|&byte| byte == b'%').skip(1);
    let whole = after_percent.all(|rest| rest.len() >= 2 && rest[..2].iter().all(u8::is_ascii_hexdigit));
    if whole { Ok(percent_decode(escaped).collect()) } else { Err(StoreUrlError::Percent) }
}

/// The bytes as [`decode`] takes them, with nothing in them that has a meaning in a URL.
fn escape(bytes: &[u8]) -> PercentEncode<'_> {
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
    fn what_has_no_scheme_is_a_path_as_it_stands() {
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
    #[cfg(unix)]
    fn a_path_need_not_be_utf8() {
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
    fn what_is_displayed_is_parsed_as_the_same_store() {
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
    fn a_memory_in_this_process_has_no_name() {
        for url in ["in-process:", "IN-Process:"] {
            assert_eq!(StoreUrl::parse(url), Ok(StoreUrl::InProcess));
        }
        assert_eq!(StoreUrl::InProcess.to_string(), "in-process:");
        assert_eq!(parse("in-process"), Ok("in-process".into()));
    }

    #[test]
    fn what_may_be_meant_by_the_scheme_memory_is_suggested() {
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
    fn the_url_of_a_bucket_is_kept_as_it_was_given() {
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
    fn what_names_no_bucket_is_refused() {
        let name = |name: &str| StoreUrlError::BucketName { name: name.to_owned() };
        for (given, error) in [
            ("s3:", StoreUrlError::NoBucket { scheme: "s3".to_owned() }),
            ("s3:bucket", StoreUrlError::NoBucket { scheme: "s3".to_owned() }),
            ("GS:/bucket", StoreUrlError::NoBucket { scheme: "gs".to_owned() }),
            ("az://", StoreUrlError::NoBucket { scheme: "az".to_owned() }),
            ("az:///prefix", StoreUrlError::NoBucket { scheme: "az".to_owned() }),
            ("s3://user:secret@bucket/a", name("user:secret@bucket")),
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
    fn what_names_no_store_is_refused() {
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
