//! [`StoreUrl`]: how a store is named on the command line, and how the named one is opened.
//!
//! A store is a plain path, or `file:` with an absolute or relative path in which `%` and two digits stand for a byte.
//! The `url` crate is no help with the latter: to the URL standard a `file:` URL is always absolute, so `file:notes`
//! would silently become `/notes`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use memory_tool_core::Store;
use memory_tool_local::LocalStore;
use percent_encoding::percent_decode;

use crate::failure::Failure;

/// A store, as it is named on the command line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum StoreUrl {
    /// A directory on this machine.
    Local(PathBuf),
}

/// Opens the store.
pub(crate) async fn open(url: &StoreUrl) -> Result<Box<dyn Store>, Failure> {
    let opened = match url {
        StoreUrl::Local(path) => LocalStore::open(path).await,
    };
    opened.map(|store| Box::new(store) as Box<dyn Store>).map_err(|error| Failure::Store(error.into()))
}

impl StoreUrl {
    /// What to give for `--store`, so that another process parses it as this.
    pub(crate) fn to_argument(&self) -> OsString {
        match self {
            // What starts with a dot or a slash has no scheme.
            Self::Local(path) => Path::new(".").join(path).into_os_string(),
        }
    }

    /// Parses what was given for `--store`.
    pub(crate) fn parse(given: &OsStr) -> Result<Self, StoreUrlError> {
        if given.is_empty() {
            return Err(StoreUrlError::Empty);
        }
        match split_scheme(given.as_encoded_bytes()) {
            None => Ok(Self::Local(given.into())),
            Some((scheme, location)) if scheme.eq_ignore_ascii_case("file") => parse_file_url(location),
            Some((scheme, _)) => Err(StoreUrlError::UnknownScheme {
                scheme: scheme.to_owned(),
                given: given.to_string_lossy().into_owned(),
            }),
        }
    }
}

/// Why no store can be meant by what was given.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum StoreUrlError {
    /// Nothing was given, or nothing but a scheme.
    #[error("it names no directory")]
    Empty,
    /// There is no backend of that name.
    #[error("unknown scheme `{scheme}:`. A store is a path or a file: URL; write ./{given} for a path of that name")]
    UnknownScheme {
        /// The scheme.
        scheme: String,
        /// All that was given.
        given: String,
    },
    /// A `file:` URL names another machine.
    #[error("a file: URL cannot name the host `{host}`. Write file:///absolute/path or file:relative/path")]
    Host {
        /// The host.
        host: String,
    },
    /// A `%` is not followed by two hexadecimal digits.
    #[error("`%` must be followed by two hexadecimal digits in a file: URL. Write %25 for the character itself")]
    Percent,
    /// A `?` or `#` would start a query or fragment, which a `file:` URL has no use for.
    #[error("`?` and `#` have a meaning of their own in a URL. Write %3F or %23 for the character itself")]
    QueryOrFragment,
    /// The decoded path is none that this system can hold.
    #[error("the decoded path is not one that this system can hold")]
    UnsupportedPath,
}

/// What stands before the first colon, if that is a scheme, and what follows. A single letter is a drive of Windows.
fn split_scheme(given: &[u8]) -> Option<(&str, &[u8])> {
    let colon = given.iter().position(|&byte| byte == b':')?;
    let scheme = str::from_utf8(&given[..colon]).ok()?;
    let continues = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    let is_scheme = scheme.len() >= 2
        && scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(continues);
    is_scheme.then_some((scheme, &given[colon + 1..]))
}

/// Parses what follows `file:`.
fn parse_file_url(location: &[u8]) -> Result<StoreUrl, StoreUrlError> {
    if location.iter().any(|byte| matches!(byte, b'?' | b'#')) {
        return Err(StoreUrlError::QueryOrFragment);
    }
    let path = without_host(location)?;
    refuse_broken_escapes(path)?;
    let path: Vec<u8> = percent_decode(path).collect();
    if path.is_empty() {
        return Err(StoreUrlError::Empty);
    }
    native_path(path).map(StoreUrl::Local)
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

fn refuse_broken_escapes(path: &[u8]) -> Result<(), StoreUrlError> {
    let mut after_percent = path.split(|&byte| byte == b'%').skip(1);
    let whole = after_percent.all(|rest| rest.len() >= 2 && rest[..2].iter().all(u8::is_ascii_hexdigit));
    if whole { Ok(()) } else { Err(StoreUrlError::Percent) }
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
        StoreUrl::parse(OsStr::new(given)).map(|StoreUrl::Local(path)| path)
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
    }

    #[test]
    fn an_argument_is_parsed_as_the_same_store() {
        for path in ["a", "/a b", "foo:bar", "a%20b?#", ""] {
            let argument = StoreUrl::Local(path.into()).to_argument();
            let StoreUrl::Local(parsed) = StoreUrl::parse(&argument).unwrap();
            assert_eq!(std::path::absolute(parsed).unwrap(), std::path::absolute(Path::new(".").join(path)).unwrap());
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
        ] {
            assert_eq!(parse(given), Err(error), "{given}");
        }
        for given in ["foo:bar", "s3://bucket", "ab+c-d.e1:x"] {
            assert!(matches!(parse(given), Err(StoreUrlError::UnknownScheme { .. })), "{given}");
        }
    }
}
