//! [`Opening`]: the location and the options of a memory. `crates/python/python/memory_tool/options.py` and
//! `crates/node/ts/options.ts` describe the options to editors.

use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use memory_tool_core::{DEFAULT_TIMEOUT, ErrorKind, MemoryPath, OpenError, OpenOptions, Store};
use memory_tool_encrypted::{KeyProvider, RawKey};
use serde_json::{Map, Value, json};

use crate::bounded::Bounded;
use crate::builder::MemoryBuilder;
use crate::memory::Memory;
use crate::options::{LogDetail, MemoryOptions, OptionsError};
use crate::requests::given::{Data, Mismatch, OptionError};
use crate::requests::{OnChange, RequestError};
use crate::store_url::StoreUrl;

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
#[expect(clippy::exhaustive_enums, reason = "fronts create it")]
pub enum Location {
    /// A path or URL.
    Url(PathBuf),
    /// An open memory.
    Memory(Arc<dyn Store>),
    /// A store in another language.
    Store(Arc<dyn Store>),
}

/// The options as a program gives them.
#[expect(clippy::exhaustive_structs, reason = "fronts create it")]
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

impl Opening {
    /// Reads the options.
    ///
    /// # Errors
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
        options.check().map_err(|error| OptionError::Value(error.spelled(spelling)))?;
        Ok(Self { location, options, mounts, on_change: given.on_change })
    }

    /// The detail of the log, which the program starts before it opens the memory.
    pub fn log(&self) -> Option<LogDetail> {
        self.options.log
    }

    /// Opens the memory.
    ///
    /// # Errors
    /// Fails if the memory, a mounted one, the audit log or a key cannot be opened.
    pub async fn open(self) -> Result<Memory, RequestError> {
        let timeout = self.options.timeout.unwrap_or(DEFAULT_TIMEOUT);
        let mut builder = self.options.configure(self.location.builder(timeout)).await.map_err(failed)?;
        for (point, location, is_read_only) in self.mounts {
            let store = location.builder(timeout).build().await?.store();
            builder = if is_read_only { builder.mount_read_only(point, store) } else { builder.mount(point, store) };
        }
        if let Some(on_change) = self.on_change {
            builder = builder.on_change(move |change| on_change(json!(change)));
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
        let value = serde_json::from_str(&json);
        let value = value.map_err(|error| Mismatch::Value(error.to_string()).of_option(&spelling(&name)))?;
        object.insert(name, value);
    }
    serde_path_to_error::deserialize(Data(Value::Object(object))).map_err(|error| {
        let name = error.path().to_string();
        let name = spelling(name.split(['.', '[']).next().unwrap_or_default());
        error.into_inner().of_option(&name)
    })
}

fn failed(error: OptionsError) -> RequestError {
    match error {
        OptionsError::Open(error) => error.into(),
        error => RequestError::Options(error),
    }
}

/// The URLs of the memories of a database, or of those at and right under a directory or prefix.
///
/// # Errors
/// Fails if the URL is invalid or cannot be read.
pub async fn memories(url: PathBuf) -> Result<Vec<String>, RequestError> {
    let invalid = |error| OpenError::new(format!("at {}", url.display()), ErrorKind::Invalid, error);
    let url = StoreUrl::parse(&url).map_err(invalid)?;
    Ok(url.memories(OpenOptions::new()).await?.iter().map(ToString::to_string).collect())
}
