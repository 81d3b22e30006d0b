//! [`StoreUrl`]: how a store is named on the command line, and how the named one is opened.
//!
//! A store is a plain path, or a URL: a scheme with an absolute or relative path in which `%` and two digits stand for a
//! byte. The `url` crate is no help with the latter: to the URL standard a `file:` URL is always absolute, so `file:notes`
//! would silently become `/notes`.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use memory_tool_core::{InMemoryStore, Store};
use memory_tool_local::LocalStore;
use memory_tool_object_store::{BucketStore, BucketStoreBuilder};
use memory_tool_sqlite::{SqliteStore, StoreName, StoreNameError};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, percent_decode, percent_encode};

use crate::encryption::Encryption;
use crate::failure::Failure;

/// A store, as it is named on the command line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum StoreUrl {
    /// A directory on this machine.
    Local(PathBuf),
    /// One of the memories in a SQLite database.
    Sqlite {
        /// The file.
        path: PathBuf,
        /// Which of the memories in it.
        store: StoreName,
    },
    /// A memory beneath a prefix in a bucket.
    Bucket {
        /// The scheme of the cloud, the bucket, and the prefix, as they were given.
        url: String,
    },
}

/// Opens the store, decrypted where it is encrypted.
pub(crate) async fn open(url: &StoreUrl, encryption: &Encryption) -> Result<Box<dyn Store>, Failure> {
    let keys = encryption.key_ring().await?; // first, so that nothing is made where there is none
    encryption.over(open_as_stored(url).await?, keys).await
}

/// Opens the store, decrypted where it is encrypted; where there is none, one without files that nothing is kept of.
pub(crate) async fn open_or_pretend(url: &StoreUrl, encryption: &Encryption) -> Result<Box<dyn Store>, Failure> {
    let keys = encryption.key_ring().await?;
    let store: Box<dyn Store> = match url.expect_store() {
        Ok(()) => open_as_stored(url).await?,
        Err(Failure::NoStore { source, .. }) if source.kind() == ErrorKind::NotFound => Box::new(InMemoryStore::new()),
        Err(failure) => return Err(failure),
    };
    encryption.over(store, keys).await
}

/// Opens the store as it lies there: where it is encrypted, it holds ciphertexts.
pub(crate) async fn open_as_stored(url: &StoreUrl) -> Result<Box<dyn Store>, Failure> {
    Ok(match url {
        StoreUrl::Local(path) => Box::new(LocalStore::open(path).await.map_err(|error| Failure::Store(error.into()))?),
        StoreUrl::Sqlite { path, store } => Box::new(open_sqlite(path, store).await?),
        StoreUrl::Bucket { url } => Box::new(open_bucket(url).await?),
    })
}

/// Opens a memory in a SQLite database.
pub(crate) async fn open_sqlite(path: &Path, store: &StoreName) -> Result<SqliteStore, Failure> {
    let opened = SqliteStore::builder(path).store(store.clone()).open().await;
    opened.map_err(|error| Failure::Store(error.into()))
}

/// Opens a memory in a bucket.
pub(crate) async fn open_bucket(url: &str) -> Result<BucketStore, Failure> {
    bucket(url)?.open().await.map_err(|error| Failure::Store(error.into()))
}

/// A client of a bucket, made of the settings in the environment. It has sent nothing yet.
pub(crate) fn bucket(url: &str) -> Result<BucketStoreBuilder, Failure> {
    BucketStoreBuilder::from_url(url).map_err(|source| Failure::Bucket { url: url.to_owned(), source })
}

impl StoreUrl {
    /// What to give for `--store`, so that another process parses it as this.
    pub(crate) fn to_argument(&self) -> OsString {
        match self {
            // What starts with a dot or a slash has no scheme.
            Self::Local(path) => Path::new(".").join(path).into_os_string(),
            Self::Sqlite { path, store } => {
                let path = path.as_os_str().as_encoded_bytes();
                // With a host, though an empty one: a path that begins with two slashes would seem to have another.
                let host = if path.starts_with(b"/") { "//" } else { "" };
                format!("sqlite:{host}{}?store={}", escape(path), escape(store.as_str().as_bytes())).into()
            }
            Self::Bucket { url } => url.into(),
        }
    }

    /// Fails where there is no store: opening would make one, and a mistyped name would seem to be that of a store in which all is
    /// well.
    pub(crate) fn expect_store(&self) -> Result<(), Failure> {
        let path = match self {
            Self::Local(directory) => directory.join("memories"),
            Self::Sqlite { path, .. } => path.clone(),
            // Beneath any prefix there is a store, if only one without files, and looking there makes none.
            Self::Bucket { .. } => return Ok(()),
        };
        fs::metadata(&path).map(|_| ()).map_err(|source| Failure::NoStore { path, source })
    }

    /// Parses what was given for `--store`.
    pub(crate) fn parse(given: &OsStr) -> Result<Self, StoreUrlError> {
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
            _ => {
                let given = given.to_string_lossy().into_owned();
                Err(StoreUrlError::UnknownScheme { scheme: scheme.to_owned(), given })
            }
        }
    }
}

/// Why no store can be meant by what was given.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum StoreUrlError {
    /// Nothing was given, or nothing but a scheme.
    #[error("it names no directory or file")]
    Empty,
    /// There is no backend of that name.
    #[error(
        "unknown scheme `{scheme}:`. A store is a path, or a URL that begins with file:, sqlite:, s3:, gs: or az:; write \
         ./{given} for a path of that name"
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
        "unknown parameter `{name}`. A sqlite: URL may have ?store=NAME; write %3F and %26 for `?` and `&` themselves"
    )]
    UnknownParameter {
        /// The parameter.
        name: String,
    },
    /// The query names several stores.
    #[error("the parameter `store` is given more than once")]
    RepeatedStore,
    /// The decoded name of the store is no text.
    #[error("the decoded name of the store is not UTF-8 text")]
    StoreNameEncoding,
    /// The name of the store is none.
    #[error(transparent)]
    StoreName(#[from] StoreNameError),
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
        store: query.map_or_else(|| Ok(StoreName::default()), parse_query)?,
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

/// Refuses a prefix that would be another one when it is read as a URL: there `a/../b` is `b`, and a line feed is nothing.
fn check_prefix(prefix: &[u8]) -> Result<(), StoreUrlError> {
    let refused = |reason: String| StoreUrlError::Prefix { reason };
    let prefix = String::from_utf8(prefix.to_vec()).map_err(|error| refused(error.to_string()))?;
    decode(prefix.as_bytes())?;
    if prefix.contains(|character: char| character.is_control() || character.is_whitespace()) {
        return Err(refused("it has a blank or a control character. Write %20 for a blank".to_owned()));
    }
    object_store::path::Path::from_url_path(format!("/{prefix}")).map(drop).map_err(|error| refused(error.to_string()))
}

/// The store that a query names.
fn parse_query(query: &[u8]) -> Result<StoreName, StoreUrlError> {
    let mut store = None;
    for parameter in query.split(|&byte| byte == b'&') {
        let (name, value) = split_at(parameter, b'=');
        if name != b"store" {
            return Err(StoreUrlError::UnknownParameter { name: String::from_utf8_lossy(name).into_owned() });
        }
        let value = String::from_utf8(decode(value.unwrap_or_default())?);
        let value = value.map_err(|_| StoreUrlError::StoreNameEncoding)?;
        if store.replace(StoreName::parse(&value)?).is_some() {
            return Err(StoreUrlError::RepeatedStore);
        }
    }
    Ok(store.unwrap_or_default())
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
        match StoreUrl::parse(OsStr::new(given))? {
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
        let database = StoreUrl::Sqlite { path: path.into(), store: StoreName::default() };
        assert_eq!(StoreUrl::parse(&database.to_argument()), Ok(database));
    }

    #[test]
    fn an_argument_is_parsed_as_the_same_store() {
        for path in ["a", "/a b", "foo:bar", "a%20b?#", ""] {
            let parsed = StoreUrl::parse(&StoreUrl::Local(path.into()).to_argument()).unwrap();
            let StoreUrl::Local(parsed) = parsed else { panic!("{parsed:?}") };
            let expected = Path::new(".").join(path);
            assert_eq!(std::path::absolute(parsed).unwrap(), std::path::absolute(expected).unwrap());
        }
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
            "?store=b",
            "//localhost/",
        ];
        for odd in odd.into_iter().map(str::to_owned).chain((' '..='~').map(String::from)) {
            for text in
                [odd.clone(), format!("a{odd}"), format!("{odd}a"), format!("/{odd}"), format!("a/{odd}/{odd}b")]
            {
                let url = sqlite(&text, &text);
                assert_eq!(StoreUrl::parse(&url.to_argument()), Ok(url));
            }
        }
    }

    fn sqlite(path: &str, store: &str) -> StoreUrl {
        StoreUrl::Sqlite { path: path.into(), store: store.parse().unwrap() }
    }

    #[test]
    fn a_sqlite_url_is_a_path_and_the_name_of_a_store() {
        for (url, path, store) in [
            ("sqlite:a.db", "a.db", "default"),
            ("SQLite:///a%20b/c.db?store=alice", "/a b/c.db", "alice"),
            ("sqlite://localhost/a?store=default", "/a", "default"),
            ("sqlite:a%3Fb%23c%26d?store=user/42", "a?b#c&d", "user/42"),
            ("sqlite:a&b=c?store=%C3%A9%26%3D%25+?=é", "a&b=c", "é&=%+?=é"),
            ("sqlite::memory:", ":memory:", "default"),
        ] {
            assert_eq!(StoreUrl::parse(OsStr::new(url)), Ok(sqlite(path, store)), "{url}");
        }
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
            let parsed = StoreUrl::parse(OsStr::new(url)).unwrap();
            assert_eq!(parsed, StoreUrl::Bucket { url: url.to_owned() });
            assert_eq!(parsed.to_argument(), url);
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
            assert_eq!(StoreUrl::parse(OsStr::new(given)), Err(error), "{given}");
        }
        for prefix in ["a//b", "/a", "a//", "a/../b", "..", ".", "%2e%2E/a", "a b", "a ", "a\n", "a%0Ab", "a%00", "%ff"]
        {
            let parsed = StoreUrl::parse(OsStr::new(&format!("s3://bucket/{prefix}")));
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
            ("sqlite://?store=a", StoreUrlError::Empty),
            ("sqlite://elsewhere/a", StoreUrlError::Host { host: "elsewhere".to_owned() }),
            ("sqlite:100%", StoreUrlError::Percent),
            ("sqlite:a?store=100%", StoreUrlError::Percent),
            ("sqlite:a#b", StoreUrlError::QueryOrFragment),
            ("sqlite:a?store=b#c", StoreUrlError::QueryOrFragment),
            ("sqlite:a%00b", StoreUrlError::UnsupportedPath),
            ("sqlite:a?", StoreUrlError::UnknownParameter { name: String::new() }),
            ("sqlite:a?Store=b", StoreUrlError::UnknownParameter { name: "Store".to_owned() }),
            ("sqlite:a?store=b&mode=ro", StoreUrlError::UnknownParameter { name: "mode".to_owned() }),
            ("sqlite:a?store=b&store=b", StoreUrlError::RepeatedStore),
            ("sqlite:a?store=%ff", StoreUrlError::StoreNameEncoding),
            ("sqlite:a?store", StoreNameError::Empty.into()),
            ("sqlite:a?store=", StoreNameError::Empty.into()),
            ("sqlite:a?store=%0A", StoreNameError::ControlCharacter { character: '\n' }.into()),
        ] {
            assert_eq!(parse(given), Err(error), "{given}");
        }
        for given in ["foo:bar", "s3a://bucket", "https://bucket", "ab+c-d.e1:x"] {
            assert!(matches!(parse(given), Err(StoreUrlError::UnknownScheme { .. })), "{given}");
        }
    }
}
