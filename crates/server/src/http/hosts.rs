//! [`Hosts`]: the names of this server, against DNS rebinding and web pages of other sites.

use axum::http::header::{HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri};

use crate::http::error::ApiError;
use crate::http::proxies;
use crate::options::{Listen, ServerOptions};

/// Monitors reach a server by names and addresses of a cluster. No web page knows their token.
const BY_ANY_NAME: [&str; 2] = ["/readyz", "/metrics"];

/// The letters of a header's value that a refusal repeats.
const MAX_REPEATED: usize = 200;

/// The names of this server.
#[derive(Debug)]
pub(crate) struct Hosts {
    /// The names of this machine, and the address.
    local: Vec<Authority>,
    /// The names in the settings.
    given: Vec<Authority>,
    has_tls: bool,
}

impl Hosts {
    /// The names of this machine, the address, and the ones in the settings, which may end with a port.
    pub(crate) fn new(address: &Listen, options: &ServerOptions) -> Self {
        let mut local = ["localhost", "127.0.0.1", "[::1]"].map(Authority::from_static).to_vec();
        if let Listen::Tcp(address) = address {
            let host = address.to_string();
            local.extend(host.rsplit_once(':').and_then(|(host, _)| host.parse().ok()));
        }
        let given = options.allow_hosts.iter().filter_map(|name| name.parse().ok());
        let given = given.chain(options.public_url.iter().map(|url| url.authority().clone())).collect();
        Self { local, given, has_tls: options.tls.is_some() }
    }

    /// Refuses a request for another server, or from a page of another site. The log and the reply name the header.
    pub(crate) fn check(&self, request: &Parts) -> Result<(), ApiError> {
        self.refusal(request.uri.path(), &request.headers).map_or(Ok(()), |reason| {
            tracing::warn!(reason, "the request was refused");
            Err(ApiError::other_site(reason))
        })
    }

    /// Whether the browser of a request uses TLS, as far as is known. A client that claims it only harms itself.
    pub(crate) fn is_secure(&self, headers: &HeaderMap) -> bool {
        self.has_tls || proxies::scheme(headers).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"))
    }

    /// Whether a host, in lower case and without a port, is a name of this server.
    pub(crate) fn is_own(&self, host: &str) -> bool {
        self.names().any(|name| name.host().eq_ignore_ascii_case(host))
    }

    fn names(&self) -> impl Iterator<Item = &Authority> {
        self.local.iter().chain(&self.given)
    }

    fn refusal(&self, path: &str, headers: &HeaderMap) -> Option<String> {
        let mut hosts = headers.get_all(HOST).iter();
        let given = match (hosts.next(), hosts.next()) {
            (Some(host), None) => repeated(host.as_bytes()),
            (None, _) => return Some("the header Host is missing".to_owned()),
            _ => return Some("there are several headers Host".to_owned()),
        };
        let host = authority(headers);
        let is_name = |host: &Authority| self.names().any(|name| is_same(name, host));
        if !BY_ANY_NAME.contains(&path) && !host.as_ref().is_some_and(is_name) {
            return Some(format!(
                "the header Host is {given:?}, which is not a name of this server: to allow it, start the server with \
                 --allow-host, or add it to allow_hosts"
            ));
        }
        let is_other = |origin: &&axum::http::HeaderValue| {
            !origin.to_str().is_ok_and(|origin| self.has_page(origin, host.as_ref(), headers))
        };
        headers.get_all(ORIGIN).iter().find(is_other).map(|origin| {
            let (origin, scheme) = (repeated(origin.as_bytes()), self.scheme(headers).unwrap_or("http or https"));
            format!(
                "the header Origin is {origin:?}, but the request is for {given:?} with {scheme}: a proxy must pass \
                 Host and x-forwarded-proto on, or start the server with --allow-host and the host of the page, or \
                 add it to allow_hosts"
            )
        })
    }

    fn scheme<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        if self.has_tls { Some("https") } else { proxies::scheme(headers) }
    }

    /// Whether a request can come from this server's page: `Host` or a name in the settings has the same origin.
    fn has_page(&self, origin: &str, host: Option<&Authority>, headers: &HeaderMap) -> bool {
        let Ok(uri) = origin.parse::<Uri>() else { return false };
        let (Some(scheme), Some(page)) = (uri.scheme_str(), uri.authority()) else { return false };
        let default = match scheme {
            "https" => 443,
            "http" => 80,
            _ => return false,
        };
        // Browsers report it for targets with TLS, also if no header names the scheme.
        let is_of_other = headers.get("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none");
        if is_of_other || self.scheme(headers).is_some_and(|known| !known.eq_ignore_ascii_case(scheme)) {
            return false;
        }
        let port = |authority: &Authority| authority.port_u16().unwrap_or(default);
        let is_page = |name: &Authority| name.host().eq_ignore_ascii_case(page.host()) && port(name) == port(page);
        host.is_some_and(is_page) || self.given.iter().any(is_page)
    }
}

/// The host of a request. RFC 9110 allows no user in it.
fn authority(headers: &HeaderMap) -> Option<Authority> {
    let host = headers.get(HOST)?.to_str().ok()?.parse::<Authority>().ok()?;
    (!host.as_str().contains('@')).then_some(host)
}

fn is_same(name: &Authority, given: &Authority) -> bool {
    name.host().eq_ignore_ascii_case(given.host()) && name.port_u16().is_none_or(|port| given.port_u16() == Some(port))
}

fn repeated(value: &[u8]) -> String {
    String::from_utf8_lossy(value).chars().take(MAX_REPEATED).collect()
}

#[cfg(test)]
mod tests {
    use memory_tool::StoreUrl;

    use super::*;
    use crate::http::tls::TlsFiles;

    fn headers(given: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        given.iter().for_each(|(name, value)| _ = headers.append(*name, value.parse().unwrap()));
        headers
    }

    fn hosts(has_tls: bool) -> Hosts {
        let mut options = ServerOptions::new(StoreUrl::InProcess, "tokens.json");
        options.allow_hosts = vec!["other.example:8443".to_owned()];
        options.public_url = Some("https://memory.example".parse().unwrap());
        options.tls = has_tls.then(|| TlsFiles::new("certificate.pem", "key.pem"));
        Hosts::new(&"127.0.0.1:8808".parse().unwrap(), &options)
    }

    #[test]
    fn only_own_names_are_allowed() {
        let hosts = hosts(false);
        for host in ["localhost", "127.0.0.1:8808", "[::1]:8808", "LOCALHOST:1", "memory.example:443"] {
            assert_eq!(hosts.refusal("/", &headers(&[("host", host)])), None, "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "other.example",
            "192.0.2.1",
            "a@b@c",
            "a@localhost",
        ] {
            let refusal = hosts.refusal("/v1", &headers(&[("host", host)])).unwrap();
            assert!(refusal.contains(&format!("{host:?}")) && refusal.contains("--allow-host"), "{refusal}");
        }
        for path in BY_ANY_NAME {
            assert_eq!(hosts.refusal(path, &headers(&[("host", "memory-tool:8809")])), None);
            let page = headers(&[("host", "memory-tool:8809"), ("origin", "http://evil.example")]);
            assert!(hosts.refusal(path, &page).is_some());
        }
        let long = "x".repeat(5_000);
        assert!(hosts.refusal("/", &headers(&[("host", &long)])).unwrap().len() < 500);
        for several in [&[][..], &[("host", "localhost"), ("host", "localhost")]] {
            assert!(hosts.refusal("/", &headers(several)).is_some());
        }
    }

    #[test]
    fn the_log_has_the_reason() {
        let log = memory_tool_test_fixtures::Log::of_this_thread();
        let request = axum::http::Request::builder().header("host", "memory.internal").body(()).unwrap().into_parts().0;
        let error = hosts(false).check(&request).unwrap_err();
        for text in [log.text(), error.to_string()] {
            assert!(text.contains("memory.internal") && text.contains("--allow-host"), "{text}");
        }
    }

    /// The name of a proxy that replaces `Host` is in the settings.
    #[test]
    fn scheme_host_and_port_are_one_origin() {
        let [plain, tls] = [false, true].map(hosts);
        let upstream = "127.0.0.1:8808";
        for (hosts, host, scheme, origin, is_allowed) in [
            (&plain, upstream, None, "http://127.0.0.1:8808", true),
            (&plain, "localhost:8808", None, "http://LOCALHOST:8808", true),
            (&plain, "localhost:9000", None, "http://localhost:9000", true), // a forwarded port
            (&plain, "localhost", None, "http://localhost:80", true),
            (&plain, "localhost:8808", None, "http://127.0.0.1:8808", false),
            (&plain, upstream, None, "http://127.0.0.1:1", false),
            (&plain, upstream, None, "http://localhost.evil.example:8808", false),
            (&plain, upstream, None, "null", false),
            (&plain, upstream, None, "ftp://127.0.0.1:8808", false),
            (&plain, upstream, None, "x", false),
            (&plain, upstream, None, "", false),
            (&tls, upstream, None, "https://127.0.0.1:8808", true),
            (&tls, upstream, None, "http://127.0.0.1:8808", false),
            (&tls, "memory.example", None, "https://memory.example", true),
            (&tls, "memory.example", None, "http://memory.example", false),
            (&tls, "memory.example", None, "https://memory.example:8443", false),
            (&plain, upstream, None, "https://memory.example", true),
            (&plain, upstream, None, "http://memory.example", true),
            (&plain, upstream, Some("https"), "https://memory.example", true),
            (&plain, upstream, Some("https"), "http://memory.example", false),
            (&plain, upstream, Some("https, http"), "https://memory.example", true),
            (&plain, upstream, None, "https://memory.example:8443", false),
            (&plain, "memory.example:8443", None, "https://memory.example:8443", true),
            (&plain, upstream, None, "https://other.example:8443", true),
            (&plain, upstream, None, "https://other.example", false),
        ] {
            let scheme = scheme.map(|scheme| ("x-forwarded-proto", scheme));
            let given: Vec<_> = [("host", host), ("origin", origin)].into_iter().chain(scheme).collect();
            let refusal = hosts.refusal("/", &headers(&given));
            assert_eq!(refusal.is_none(), is_allowed, "{given:?}: {refusal:?}");
            assert!(refusal.is_none_or(|refusal| refusal.contains(&format!("{origin:?}"))));
        }
        for (site, is_allowed) in [("same-origin", true), ("same-site", false), ("cross-site", false)] {
            let given = headers(&[("host", upstream), ("origin", "http://memory.example"), ("sec-fetch-site", site)]);
            assert_eq!(plain.refusal("/", &given).is_none(), is_allowed, "{site}");
        }
    }
}
