//! [`Proxies`]: the client of a request that came through trusted proxies.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::HOST;
use axum::http::{HeaderMap, HeaderValue};

use crate::http::listener::Peer;
use crate::options::Network;

const FORWARDED_HOST: &str = "x-forwarded-host";

/// The values of a header that proxies write, or else of the parameter in `Forwarded` (RFC 7239). Each proxy may append
/// one.
fn hops<'a>(headers: &'a HeaderMap, name: &str, parameter: &str) -> Vec<&'a str> {
    let listed = |name: &str| -> Vec<&'a str> {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).map(str::trim).collect()
    };
    let hops = listed(name);
    if !hops.is_empty() {
        return hops;
    }
    let of_hop = |hop: &'a str| {
        let mut pairs = hop.split(';').filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(name, _)| name.eq_ignore_ascii_case(parameter)).map(|(_, value)| value.trim_matches('"'))
    };
    listed("forwarded").into_iter().filter_map(of_hop).collect()
}

/// The scheme that the client used, which the first proxy knows.
pub(crate) fn scheme(headers: &HeaderMap) -> Option<&str> {
    hops(headers, "x-forwarded-proto", "proto").first().copied()
}

/// An address, which may have a port.
fn address(hop: &str) -> Option<IpAddr> {
    let of_socket = |hop: &str| hop.parse::<SocketAddr>().map(|address| address.ip());
    let unbracketed = hop.trim_start_matches('[').trim_end_matches(']');
    of_socket(hop).or_else(|_| unbracketed.parse()).ok()
}

/// The networks of the proxies whose headers are trusted.
#[derive(Debug)]
pub(crate) struct Proxies(pub(crate) Vec<Network>);

impl Proxies {
    /// The address of the client: the last one that is not of a proxy. A client can invent those before it.
    pub(crate) fn client(&self, peer: Peer, headers: &HeaderMap) -> Option<IpAddr> {
        let mut client = peer.0;
        for hop in hops(headers, "x-forwarded-for", "for").into_iter().rev() {
            if !self.trust(client) {
                break;
            }
            let Some(address) = address(hop) else { break };
            client = Some(address);
        }
        client
    }

    /// Sets `Host` to the name that the client used, if the peer is a proxy. The first proxy knows it.
    pub(crate) fn restore_host(&self, peer: Peer, headers: &mut HeaderMap) {
        if !self.trust(peer.0) {
            return;
        }
        let host = hops(headers, FORWARDED_HOST, "host").first().map(|host| HeaderValue::from_str(host));
        if let Some(Ok(host)) = host {
            headers.insert(HOST, host);
            headers.remove(FORWARDED_HOST);
        }
    }

    /// A peer without an address is at a Unix socket, where only a proxy of this machine sends these headers.
    fn trust(&self, address: Option<IpAddr>) -> bool {
        match address {
            Some(address) => self.0.iter().any(|network| network.contains(address)),
            None => !self.0.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(given: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, "inside".parse().unwrap());
        given.iter().for_each(|(name, value)| _ = headers.append(*name, value.parse().unwrap()));
        headers
    }

    fn peer(address: &str) -> Peer {
        Peer(Some(address.parse().unwrap()))
    }

    #[test]
    fn only_proxies_name_the_client() {
        let proxies = Proxies(vec!["10.0.0.0/8".parse().unwrap()]);
        for (from, forwarded, client) in [
            ("192.0.2.1", &["198.51.100.1"][..], "192.0.2.1"),
            ("10.0.0.1", &["198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", &["203.0.113.9, 198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", &["203.0.113.9", "198.51.100.1, 10.0.0.2"], "198.51.100.1"),
            ("10.0.0.1", &["198.51.100.1:4711, 10.0.0.2:80"], "198.51.100.1"),
            ("10.0.0.1", &["[2001:db8::1]:4711"], "2001:db8::1"),
            ("10.0.0.1", &["198.51.100.1, unknown"], "10.0.0.1"),
            ("10.0.0.1", &[], "10.0.0.1"),
        ] {
            let forwarded: Vec<_> = forwarded.iter().map(|hops| ("x-forwarded-for", *hops)).collect();
            let found = proxies.client(peer(from), &headers(&forwarded));
            assert_eq!(found, Some(client.parse().unwrap()), "{from} {forwarded:?}");
        }
        let forwarded = headers(&[("forwarded", "For=\"[2001:db8::1]:4711\";proto=https, for=10.0.0.2")]);
        assert_eq!(proxies.client(peer("10.0.0.1"), &forwarded), Some("2001:db8::1".parse().unwrap()));
        let forwarded = headers(&[("x-forwarded-for", "198.51.100.1")]);
        assert_eq!(proxies.client(Peer(None), &forwarded), Some("198.51.100.1".parse().unwrap()));
        assert_eq!(Proxies(Vec::new()).client(Peer(None), &forwarded), None);
    }

    #[test]
    fn only_proxies_name_the_host() {
        let proxies = Proxies(vec!["10.0.0.0/8".parse().unwrap()]);
        let name = "memory.example";
        for (from, given, host) in [
            ("192.0.2.1", &[("x-forwarded-host", name)][..], "inside"),
            ("10.0.0.1", &[("x-forwarded-host", name)], name),
            ("10.0.0.1", &[("x-forwarded-host", "memory.example, memory.example")], name),
            ("10.0.0.1", &[("x-forwarded-host", name), ("x-forwarded-host", "inner.example")], name),
            ("10.0.0.1", &[("forwarded", "for=192.0.2.1;host=memory.example;proto=https, for=10.0.0.2")], name),
            ("10.0.0.1", &[("forwarded", "host=other.example"), ("x-forwarded-host", name)], name),
            ("10.0.0.1", &[], "inside"),
        ] {
            let mut headers = headers(given);
            proxies.restore_host(peer(from), &mut headers);
            assert_eq!(headers[HOST], host, "{given:?}");
        }
    }

    #[test]
    fn the_first_proxy_knows_the_scheme() {
        for (name, value, expected) in [
            ("x-forwarded-proto", "https", Some("https")),
            ("x-forwarded-proto", "https, http", Some("https")),
            ("forwarded", "for=192.0.2.1; Proto=https, proto=http", Some("https")),
            ("x-other", "https", None),
        ] {
            assert_eq!(scheme(&headers(&[(name, value)])), expected, "{name}: {value}");
        }
    }
}
