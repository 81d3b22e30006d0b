//! [`PublicUrl`]: the address of the server for clients.

use std::fmt;
use std::str::FromStr;

use axum::http::Uri;
use axum::http::uri::{Authority, Scheme};
use serde::{Deserialize, Deserializer};

use crate::options::{ConfigurationError, from_text};

/// The address of the server for clients, such as `https://memory.example`, without a path.
///
/// ```
/// use memory_tool_server::PublicUrl;
///
/// let url: PublicUrl = "https://memory.example/".parse()?;
/// assert_eq!(url.to_string(), "https://memory.example");
/// assert!("http://memory.example".parse::<PublicUrl>().is_err()); // without TLS, only on this machine
/// # Ok::<(), memory_tool_server::ConfigurationError>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PublicUrl {
    scheme: Scheme,
    authority: Authority,
}

impl PublicUrl {
    /// The host, perhaps with a port.
    pub(crate) fn authority(&self) -> &Authority {
        &self.authority
    }
}

impl FromStr for PublicUrl {
    type Err = ConfigurationError;

    fn from_str(given: &str) -> Result<Self, ConfigurationError> {
        let wrong =
            || ConfigurationError::new(format!("expected an address such as https://memory.example, not {given:?}"));
        let parts = given.parse::<Uri>().map_err(|_| wrong())?.into_parts();
        let (Some(scheme), Some(authority)) = (parts.scheme, parts.authority) else { return Err(wrong()) };
        let is_loopback = matches!(authority.host(), "127.0.0.1" | "[::1]" | "localhost");
        let is_safe = scheme == Scheme::HTTPS || scheme == Scheme::HTTP && is_loopback;
        let is_root = parts.path_and_query.is_none_or(|path| path == "/");
        if !is_safe || !is_root || authority.as_str().contains('@') || given.contains('#') {
            return Err(wrong());
        }
        Ok(Self { scheme, authority })
    }
}

impl fmt::Display for PublicUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.authority)
    }
}

impl<'de> Deserialize<'de> for PublicUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_text(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_scheme_and_a_host() {
        for (given, expected) in [
            ("https://memory.example", Some("https://memory.example")),
            ("https://memory.example:8443/", Some("https://memory.example:8443")),
            ("http://127.0.0.1:8809", Some("http://127.0.0.1:8809")),
            ("http://[::1]:8809", Some("http://[::1]:8809")),
            ("http://memory.example", None),
            ("https://memory.example/x", None),
            ("https://memory.example?x", None),
            ("https://memory.example#x", None),
            ("https://a@memory.example", None),
            ("memory.example", None),
            ("ftp://memory.example", None),
        ] {
            assert_eq!(given.parse::<PublicUrl>().ok().map(|url| url.to_string()).as_deref(), expected, "{given}");
        }
    }
}
