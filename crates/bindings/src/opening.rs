//! [`Opening`]: the location and the options of a memory. `crates/python/python/memory_tool/options.py` and
//! `crates/node/ts/options.ts` describe the options to editors.

use std::fmt::Display;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use memory_tool::encrypted::{KeyProvider, RawKey};
use memory_tool::store::DEFAULT_TIMEOUT;
use memory_tool::{LogDetail, Memory, MemoryBuilder, MemoryOptions, MemoryPath, OptionsError, Store, StoreUrl};
use serde_json::{Map, Value};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::registry::Registry;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::bounded::Bounded;
use crate::changes::{OnChange, describe_change};
use crate::errors::CallError;

/// A memory to open.
pub struct Opening {
    location: Location,
    options: MemoryOptions,
    /// Stores that are mounted, in addition to the URLs in the options.
    mounts: Vec<(MemoryPath, Location, bool)>,
    on_change: Option<OnChange>,
}

/// The location of a memory.
#[derive(Clone)]
#[expect(clippy::exhaustive_enums, reason = "the bindings create it")]
pub enum Location {
    /// A path or URL.
    Url(PathBuf),
    /// An open memory.
    Memory(Arc<dyn Store>),
    /// A store in another language.
    Store(Arc<dyn Store>),
}

/// The options as a program gives them.
#[expect(clippy::exhaustive_structs, reason = "the bindings create it")]
pub struct Given {
    /// The names and the values in JSON of options that are data.
    pub data: Vec<(String, String)>,
    /// The primary key.
    pub key: Option<Vec<u8>>,
    /// Other keys.
    pub old_keys: Vec<Vec<u8>>,
    /// Mounted memories: the path, the location, and whether it can only be read.
    pub mounts: Vec<(String, Location, bool)>,
    /// Receives each change.
    pub on_change: Option<OnChange>,
    /// How the language writes the name of an option, such as `max_files`.
    pub spelling: fn(&str) -> String,
}

/// A wrong option.
#[derive(Debug, thiserror::Error)]
#[expect(clippy::exhaustive_enums, reason = "the bindings match it")]
pub enum OptionError {
    /// The option is unknown, or its value has the wrong type.
    #[error("{0}")]
    Type(String),
    /// The value is invalid.
    #[error("{0}")]
    Value(String),
}

impl Opening {
    /// Reads the options.
    ///
    /// # Errors
    ///
    /// Fails if an option is unknown, or has an invalid value.
    pub fn parse(location: Location, given: Given) -> Result<Self, OptionError> {
        let spelling = given.spelling;
        let invalid =
            |name: &str, reason: &dyn Display| OptionError::Value(format!("invalid {}: {reason}", spelling(name)));
        let mut options = parse_data(given.data, spelling)?;
        let key = |name, bytes: Vec<u8>| match bytes.try_into() {
            Ok(bytes) => Ok(Arc::new(RawKey::from_bytes(bytes)) as Arc<dyn KeyProvider>),
            Err(bytes) => Err(invalid(name, &format!("expected 32 bytes, got {}", bytes.len()))),
        };
        options.key = given.key.map(|bytes| key("key", bytes)).transpose()?;
        options.old_keys = given.old_keys.into_iter().map(|bytes| key("old_keys", bytes)).collect::<Result<_, _>>()?;
        let mut mounts = Vec::new();
        for (point, location, is_read_only) in given.mounts {
            let name = if is_read_only { "read_only_mounts" } else { "mounts" };
            let point = MemoryPath::parse(&point).map_err(|error| invalid(name, &error))?;
            match location {
                Location::Url(url) => {
                    let url = StoreUrl::parse(url).map_err(|error| invalid(name, &error))?;
                    let urls = if is_read_only { &mut options.read_only_mounts } else { &mut options.mounts };
                    urls.push((point, url));
                }
                location => mounts.push((point, location, is_read_only)),
            }
        }
        options.check().map_err(|error| OptionError::Value(spelled(&error.to_string(), spelling)))?;
        Ok(Self { location, options, mounts, on_change: given.on_change })
    }

    /// Opens the memory.
    ///
    /// # Errors
    ///
    /// Fails if the memory, a mounted one, the audit log or a key cannot be opened.
    pub async fn open(self) -> Result<Memory, CallError> {
        start_log(self.options.log);
        let timeout = self.options.timeout.unwrap_or(DEFAULT_TIMEOUT);
        let mut builder = self.options.configure(self.location.builder(timeout)).await.map_err(failed)?;
        for (point, location, is_read_only) in self.mounts {
            let store = location.builder(timeout).build().await?.store();
            builder = if is_read_only { builder.mount_read_only(point, store) } else { builder.mount(point, store) };
        }
        if let Some(on_change) = self.on_change {
            builder = builder.on_change(move |change| on_change(describe_change(change)));
        }
        Ok(builder.build().await?)
    }
}

impl Location {
    fn builder(self, timeout: Duration) -> MemoryBuilder {
        match self {
            Self::Url(url) => Memory::builder(url),
            Self::Memory(store) => Memory::over(store),
            Self::Store(inner) => Memory::over(Bounded { inner, timeout }),
        }
    }
}

fn parse_data(data: Vec<(String, String)>, spelling: fn(&str) -> String) -> Result<MemoryOptions, OptionError> {
    let mut object = Map::new();
    for (name, json) in data {
        let value = serde_json::from_str(&json).map_err(|error| wrong(&spelling(&name), &error.to_string()))?;
        object.insert(name, value);
    }
    serde_path_to_error::deserialize(Value::Object(object)).map_err(|error| {
        let name = error.path().to_string();
        let name = name.split(['.', '[']).next().unwrap_or_default();
        wrong(&spelling(name), &error.inner().to_string())
    })
}

/// The error of an option. A program can confuse a key and its source, so errors of these options never contain the
/// value.
fn wrong(name: &str, reason: &str) -> OptionError {
    if reason.starts_with("unknown field") {
        return OptionError::Type(format!("unknown option {name}"));
    }
    let is_secret = ["key", "passphrase"].iter().any(|word| name.to_ascii_lowercase().contains(word));
    let Some((given, expected)) =
        reason.strip_prefix("invalid type: ").and_then(|types| types.split_once(", expected "))
    else {
        return OptionError::Value(format!("invalid {name}: {reason}"));
    };
    let expected = match expected {
        "u64" | "usize" => "a whole number, not negative",
        "f64" => "a number",
        expected => expected,
    };
    let got = if is_secret { String::new() } else { format!(", got {given}") };
    OptionError::Type(format!("invalid {name}: expected {expected}{got}"))
}

/// A message about options, in which only their names have underscores.
fn spelled(message: &str, spelling: fn(&str) -> String) -> String {
    message.split(' ').map(spelling).collect::<Vec<_>>().join(" ")
}

fn failed(error: OptionsError) -> CallError {
    match error {
        OptionsError::Open(error) => error.into(),
        error => CallError::Options(error),
    }
}

/// Logs to standard error. The first memory with a log sets the level of the process. Before that, only the warnings of
/// stores in buckets are logged: they are about background work, which no call reports.
fn start_log(detail: Option<LogDetail>) {
    static FILTER: OnceLock<reload::Handle<Targets, Registry>> = OnceLock::new();
    static LEVEL: OnceLock<LevelFilter> = OnceLock::new();

    let filter = FILTER.get_or_init(|| {
        let of_buckets = Targets::new().with_target("memory_tool_bucket", LevelFilter::WARN);
        let (filter, handle) = reload::Layer::new(of_buckets);
        let lines = tracing_subscriber::fmt::layer().json().with_writer(io::stderr).with_target(false);
        drop(tracing_subscriber::registry().with(lines.with_filter(filter)).try_init());
        handle
    });
    if let Some(detail) = detail {
        let level = if detail == LogDetail::Operations { LevelFilter::DEBUG } else { LevelFilter::INFO };
        let level = *LEVEL.get_or_init(|| level);
        drop(filter.modify(|filter| *filter = Targets::new().with_default(level)));
    }
}
