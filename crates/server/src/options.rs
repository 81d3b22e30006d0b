//! [`ServerOptions`]: all settings of a server as data.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;
use memory_tool::{MemoryOptions, StoreUrl, expand_home};
use serde::de::{Deserialize, Deserializer, Error as _};

#[cfg(feature = "mcp")]
use crate::access::issuer::IssuerOptions;
use crate::access::mounts::Groups;
use crate::access::public_url::PublicUrl;
use crate::files::host_path;
use crate::http::tls::TlsFiles;

/// All settings of a server as data, for a command line or a configuration file in TOML.
///
/// In data, times are numbers of seconds, and addresses, paths and URLs are text. Unknown settings are errors.
///
/// ```
/// use memory_tool_server::ServerOptions;
///
/// let options = ServerOptions::from_toml(
///     r#"
///     store = "sqlite:memory.db"
///     tokens = "tokens.json"
///     listen = "127.0.0.1:8809"
///     allow_hosts = ["memory.example"]
///
///     [memory]
///     limits = true
///     "#,
/// )?;
/// assert_eq!(options.max_open_memories, 256);
/// # Ok::<(), memory_tool_server::ConfigurationError>(())
/// ```
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ServerOptions {
    /// The store whose memories are served: the place above them.
    #[serde(deserialize_with = "from_text")]
    pub store: StoreUrl,
    /// The file of the tokens, as `memory-tool token` writes it.
    #[serde(deserialize_with = "host_path")]
    pub tokens: PathBuf,
    /// The address of the server. Default: `127.0.0.1:8809`.
    #[serde(default, deserialize_with = "from_text")]
    pub listen: Listen,
    /// The mode of the Unix socket, as octal text such as `"0660"`, so that a proxy of another user can connect to it.
    /// Default: the umask decides.
    #[serde(default, deserialize_with = "octal")]
    pub socket_mode: Option<u32>,
    /// More names of the server in the header `Host`, which may end with a port. If a proxy replaces `Host`, the page
    /// is accepted at these names too, at the default port or theirs.
    #[serde(default)]
    pub allow_hosts: Vec<String>,
    /// The address of the server for clients, whose host is a name of the server too.
    #[serde(default)]
    pub public_url: Option<PublicUrl>,
    /// The identity provider whose access tokens are accepted at `/mcp`. It needs `public_url`.
    #[cfg(feature = "mcp")]
    #[serde(default)]
    pub issuer: Option<IssuerOptions>,
    /// The networks of proxies, such as `10.0.0.0/8`. Their headers `x-forwarded-for`, `x-forwarded-host` and
    /// `forwarded` are trusted.
    #[serde(default, deserialize_with = "networks")]
    pub proxies: Vec<Network>,
    /// The certificate for TLS. Default: no TLS.
    #[serde(default)]
    pub tls: Option<TlsFiles>,
    /// Whether new memories get a history. Default: true.
    #[serde(default = "yes")]
    pub history: bool,
    /// The memories that stay open without being in use. A memory in use is never closed. Default: 256.
    #[serde(default = "max_open_memories")]
    pub max_open_memories: usize,
    /// Whether MCP offers each command as a separate tool. Default: false.
    #[serde(default)]
    pub separate_tools: bool,
    /// The limits of connections and requests.
    #[serde(default)]
    pub limits: ServerLimits,
    /// The options of each memory. Each day, `expire_after`, `history_age` and `gc_every` take effect on all memories.
    /// With `propose`, the changes of all agents wait in this proposal; people change files at once.
    #[serde(default)]
    pub memory: MemoryOptions,
    /// Other limits of single memories, by their names. `memory` has the limits that are left out.
    #[serde(default)]
    pub quotas: BTreeMap<String, MemoryQuota>,
    /// The memories that members share.
    #[serde(default)]
    pub groups: Groups,
    /// The configuration file. If it is set, a change of its groups has an effect within a second.
    #[serde(skip)]
    pub configuration: Option<PathBuf>,
}

/// The limits of one memory.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MemoryQuota {
    /// The maximum size of a file in bytes.
    pub max_file_bytes: Option<u64>,
    /// The maximum number of files.
    pub max_files: Option<u64>,
    /// The maximum total size in bytes.
    pub max_bytes: Option<u64>,
}

/// The limits of connections and requests.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ServerLimits {
    /// The connections at the same time. Each needs a file descriptor. Default: 2,048.
    pub connections: usize,
    /// The requests at the same time. Default: 256.
    pub requests: usize,
    /// The requests of one token at the same time. Default: 128.
    pub requests_of_token: usize,
    /// The streams of notifications of MCP at the same time. Default: 1,024.
    pub streams: usize,
    /// The streams of one token at the same time. Default: 128.
    pub streams_of_token: usize,
    /// The size of a body in bytes. Default: 16 MiB, for a turn with several large files.
    pub body_bytes: usize,
    /// The time in which a client must send the head of a request. An idle connection is closed after it. Default:
    /// 30 s.
    #[serde(deserialize_with = "seconds")]
    pub head_time: Duration,
    /// The time in which a body must arrive. Default: 60 s.
    #[serde(deserialize_with = "seconds")]
    pub body_time: Duration,
    /// The time for requests to finish when the server ends. Default: 30 s.
    #[serde(deserialize_with = "seconds")]
    pub end_time: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections: 2_048,
            requests: 256,
            requests_of_token: 128,
            streams: 1_024,
            streams_of_token: 128,
            body_bytes: 16 * 1024 * 1024,
            head_time: Duration::from_secs(30),
            body_time: Duration::from_secs(60),
            end_time: Duration::from_secs(30),
        }
    }
}

/// An address to listen on.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Listen {
    /// A port of this machine. Port 0 selects a free one.
    Tcp(SocketAddr),
    /// A socket in the file system, as `unix:PATH`.
    #[cfg(unix)]
    Unix(PathBuf),
}

impl Default for Listen {
    fn default() -> Self {
        Self::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 8_809)))
    }
}

impl FromStr for Listen {
    type Err = ConfigurationError;

    fn from_str(given: &str) -> Result<Self, ConfigurationError> {
        let wrong = || ConfigurationError(format!("expected an address and port or unix:PATH, not {given:?}"));
        #[cfg(unix)]
        if let Some(path) = given.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return expand_home(path).map(Self::Unix).map_err(|error| ConfigurationError(error.to_string()));
        }
        given.parse().map(Self::Tcp).map_err(|_| wrong())
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            #[cfg(unix)]
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A network, or a single address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Network(IpNet);

impl Network {
    pub(crate) fn contains(self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }
}

impl FromStr for Network {
    type Err = ConfigurationError;

    fn from_str(given: &str) -> Result<Self, ConfigurationError> {
        let network = given.parse::<IpAddr>().map(IpNet::from).or_else(|_| given.parse());
        let wrong = |_| ConfigurationError(format!("expected a network such as 10.0.0.0/8, not {given:?}"));
        network.map(Self).map_err(wrong)
    }
}

/// A setting is invalid.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigurationError(String);

impl ConfigurationError {
    pub(crate) fn new(message: impl ToString) -> Self {
        Self(message.to_string())
    }
}

impl ServerOptions {
    /// The default settings.
    pub fn new(store: StoreUrl, tokens: impl Into<PathBuf>) -> Self {
        Self {
            store,
            tokens: tokens.into(),
            listen: Listen::default(),
            socket_mode: None,
            allow_hosts: Vec::new(),
            public_url: None,
            #[cfg(feature = "mcp")]
            issuer: None,
            proxies: Vec::new(),
            tls: None,
            history: true,
            max_open_memories: max_open_memories(),
            separate_tools: false,
            limits: ServerLimits::default(),
            memory: MemoryOptions::new(),
            quotas: BTreeMap::new(),
            groups: Groups::default(),
            configuration: None,
        }
    }

    /// Parses a configuration file.
    ///
    /// # Errors
    /// [`ConfigurationError`] with the line and the mistake.
    pub fn from_toml(text: &str) -> Result<Self, ConfigurationError> {
        let options: Self = toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            ConfigurationError(format!("line {}: {}", before.matches('\n').count() + 1, error.message()))
        })?;
        #[cfg(feature = "mcp")]
        options.resource()?;
        Ok(options)
    }

    /// The public address, and the provider that gives tokens for it.
    #[cfg(feature = "mcp")]
    pub(crate) fn resource(&self) -> Result<Option<(&PublicUrl, &IssuerOptions)>, ConfigurationError> {
        match (&self.public_url, &self.issuer) {
            (Some(url), Some(issuer)) => Ok(Some((url, issuer))),
            (None, Some(_)) => {
                Err(ConfigurationError::new("issuer needs public_url, the address of this server for clients"))
            }
            (_, None) => Ok(None),
        }
    }

    /// The options of each memory, but for its own limits.
    pub(crate) fn memory(&self) -> MemoryOptions {
        let mut options = self.memory.clone();
        options.history |= self.history;
        options
    }
}

fn yes() -> bool {
    true
}

fn max_open_memories() -> usize {
    256
}

pub(crate) fn from_text<'de, T: FromStr<Err: fmt::Display>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

fn networks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Network>, D::Error> {
    let given = Vec::<String>::deserialize(deserializer)?;
    given.iter().map(|network| network.parse().map_err(D::Error::custom)).collect()
}

fn octal<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    let given = String::deserialize(deserializer)?;
    let mode = u32::from_str_radix(&given, 8).ok().filter(|mode| *mode <= 0o777);
    let wrong = || D::Error::custom(format!("expected a mode such as \"0660\", not {given:?}"));
    mode.map(Some).ok_or_else(wrong)
}

fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let given = f64::deserialize(deserializer)?;
    let seconds = Duration::try_from_secs_f64(given).ok().filter(|seconds| !seconds.is_zero());
    seconds.ok_or_else(|| D::Error::custom("expected a number of seconds above 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUIRED: &str = "store = 'sqlite:memory.db'\ntokens = 'tokens.json'\n";

    fn parse(more: &str) -> Result<ServerOptions, ConfigurationError> {
        ServerOptions::from_toml(&format!("{REQUIRED}{more}"))
    }

    #[test]
    fn a_file_has_settings_of_the_server_and_of_its_memories() {
        let options = parse(
            "listen = 'unix:/run/memory.sock'\nsocket_mode = '0660'\nproxies = ['10.0.0.0/8', '::1']\nhistory = false\n\
             [limits]\nrequests = 7\nbody_time = 1.5\n[tls]\ncertificate = 'c.pem'\nkey = 'k.pem'\n\
             [memory]\nlimits = true\nexpire_after = 86400\n",
        )
        .unwrap();
        assert_eq!(
            (options.listen.clone(), options.socket_mode),
            (Listen::Unix("/run/memory.sock".into()), Some(0o660))
        );
        assert!(options.proxies[0].contains("10.1.2.3".parse().unwrap()));
        assert!(options.proxies[0].contains("::ffff:10.1.2.3".parse().unwrap()));
        assert!(!options.proxies[1].contains("::2".parse().unwrap()));
        let limits = ServerLimits { requests: 7, body_time: Duration::from_millis(1_500), ..ServerLimits::default() };
        assert_eq!(options.limits, limits);
        assert!(options.memory().limits && !options.memory().history);
        assert_eq!(options.memory.expire_after, Some(Duration::from_secs(86_400)));
        assert!(parse("").unwrap().memory().history);
    }

    #[test]
    fn mistakes_are_named() {
        let missing = ServerOptions::from_toml("tokens = 't'").unwrap_err().to_string();
        assert!(missing.contains("missing field `store`"), "{missing}");
        for (wrong, named) in [
            ("listen = 'localhost'", "expected an address and port or unix:PATH, not \"localhost\""),
            ("listen = 'unix:'", "expected an address and port or unix:PATH"),
            ("proxies = ['proxy.example']", "expected a network such as 10.0.0.0/8"),
            ("socket_mode = '0980'", "expected a mode such as \"0660\", not \"0980\""),
            ("socket_mode = '1777'", "expected a mode"),
            ("colour = 'red'", "unknown field `colour`"),
            ("[memory]\ncolour = 'red'", "unknown field `colour`"),
            ("[limits]\nbody_time = 0", "expected a number of seconds above 0"),
            ("[limits]\nbody_time = -1", "expected a number of seconds above 0"),
            ("[limits]\nrequests = -1", "expected usize"),
            ("[tls]\ncertificate = 'c.pem'", "missing field `key`"),
            ("tokens = '~nobody/x'", "duplicate key"),
            ("x", "line 3: key with no value"),
        ] {
            let message = parse(wrong).unwrap_err().to_string();
            assert!(message.contains(named), "{wrong}: {message}");
        }
    }
}
