//! [`Proxies`]: the client of a request that came through trusted proxies.

use std::net::IpAddr;

use axum::http::HeaderMap;
use axum::http::header::HOST;

use crate::listener::Peer;
use crate::options::Network;

const FORWARDED_FOR: &str = "x-forwarded-for";
const FORWARDED_HOST: &str = "x-forwarded-host";

/// The networks of the proxies whose headers are trusted.
#[derive(Debug)]
pub(crate) struct Proxies(pub(crate) Vec<Network>);

impl Proxies {
    /// The address of the client: the last one that is not of a proxy. A client can invent those before it.
    pub(crate) fn client(&self, peer: Peer, headers: &HeaderMap) -> Option<IpAddr> {
        let mut client = peer.0;
        let values = headers.get_all(FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok());
        let hops: Vec<_> = values.flat_map(|value| value.split(',')).map(str::trim).collect();
        for hop in hops.into_iter().rev() {
            if !self.trust(client) {
                break;
            }
            let Ok(address) = hop.parse() else { break };
            client = Some(address);
        }
        client
    }

    /// Sets `Host` to the name that the client used, if the peer is a proxy.
    pub(crate) fn restore_host(&self, peer: Peer, headers: &mut HeaderMap) {
        if self.trust(peer.0)
            && let Some(host) = headers.remove(FORWARDED_HOST)
        {
            headers.insert(HOST, host);
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

    fn headers(forwarded: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, "inside".parse().unwrap());
        headers.insert(FORWARDED_HOST, "memory.example".parse().unwrap());
        forwarded.iter().for_each(|value| _ = headers.append(FORWARDED_FOR, value.parse().unwrap()));
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
            ("10.0.0.1", &["198.51.100.1, unknown"], "10.0.0.1"),
            ("10.0.0.1", &[], "10.0.0.1"),
        ] {
            let found = proxies.client(peer(from), &headers(forwarded));
            assert_eq!(found, Some(client.parse().unwrap()), "{from} {forwarded:?}");
        }
        assert_eq!(proxies.client(Peer(None), &headers(&["198.51.100.1"])), Some("198.51.100.1".parse().unwrap()));
        assert_eq!(Proxies(Vec::new()).client(Peer(None), &headers(&["198.51.100.1"])), None);
    }

    #[test]
    fn only_proxies_name_the_host() {
        let proxies = Proxies(vec!["10.0.0.0/8".parse().unwrap()]);
        for (from, host) in [("192.0.2.1", "inside"), ("10.0.0.1", "memory.example")] {
            let mut headers = headers(&[]);
            proxies.restore_host(peer(from), &mut headers);
            assert_eq!(headers[HOST], host);
        }
    }
}
