//! [`Hosts`]: the names of this server, against DNS rebinding and web pages of other sites.

use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri};

use crate::options::Listen;

/// The names of this server.
#[derive(Debug)]
pub(crate) struct Hosts {
    names: Vec<Authority>,
    /// How many of them are of this machine.
    local: usize,
    port: Option<u16>,
}

impl Hosts {
    /// The names of this machine, the address, and those given, which may end with a port.
    pub(crate) fn new(address: &Listen, given: &[String]) -> Self {
        let mut names = ["localhost", "127.0.0.1", "[::1]"].map(Authority::from_static).to_vec();
        let port = match address {
            Listen::Tcp(address) => {
                let host = address.to_string();
                names.extend(host.rsplit_once(':').and_then(|(host, _)| host.parse().ok()));
                Some(address.port())
            }
            #[cfg(unix)]
            Listen::Unix(_) => None,
        };
        let local = names.len();
        names.extend(given.iter().filter_map(|name| name.parse().ok()));
        Self { names, local, port }
    }

    /// Whether a request is for this server, and comes from no other web site.
    pub(crate) fn allow(&self, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(HOST).iter();
        let host = match (hosts.next(), hosts.next()) {
            (Some(host), None) => host.to_str().ok().and_then(|host| host.parse::<Authority>().ok()),
            _ => None,
        };
        let host = host.filter(|host| !host.as_str().contains('@')); // RFC 9110 allows no user in it
        let is_own = host.is_some_and(|host| self.names.iter().any(|name| is_same(name, &host)));
        is_own && headers.get_all(ORIGIN).iter().all(|origin| origin.to_str().is_ok_and(|origin| self.has_page(origin)))
    }

    fn has_page(&self, origin: &str) -> bool {
        let Ok(uri) = origin.parse::<Uri>() else { return false };
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else { return false };
        // Another program may serve pages at another port of this machine.
        let is_local = |name: &Authority| {
            scheme == "http"
                && self.port.is_some_and(|port| authority.port_u16() == Some(port))
                && is_same(name, authority)
        };
        let (local, given) = self.names.split_at(self.local);
        local.iter().any(is_local) || given.iter().any(|name| is_same(name, authority))
    }
}

fn is_same(name: &Authority, given: &Authority) -> bool {
    name.host().eq_ignore_ascii_case(given.host()) && name.port_u16().is_none_or(|port| given.port_u16() == Some(port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_names_and_pages_are_allowed() {
        let hosts = Hosts::new(&"127.0.0.1:8808".parse().unwrap(), &["memory.example".to_owned()]);
        let allows = |host: &str, origin: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, host.parse().unwrap());
            origin.into_iter().for_each(|origin| _ = headers.insert(ORIGIN, origin.parse().unwrap()));
            hosts.allow(&headers)
        };
        for host in ["localhost", "127.0.0.1:8808", "[::1]:8808", "LOCALHOST:1", "memory.example:443"] {
            assert!(allows(host, None), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "192.0.2.1",
            "a@b@c",
            "a@localhost",
        ] {
            assert!(!allows(host, None), "{host}");
        }
        for origin in ["http://localhost:8808", "https://memory.example"] {
            assert!(allows("localhost", Some(origin)), "{origin}");
        }
        for origin in ["null", "http://localhost:1", "https://localhost", "http://evil.example", "x", ""] {
            assert!(!allows("localhost", Some(origin)), "{origin}");
        }
    }
}
