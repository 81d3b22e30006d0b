//! [`MemoryOptions`]: all options of a memory as data.

mod build;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use memory_tool_core::{Actor, MemoryPath, OpenError, Quota};
use memory_tool_encrypted::{KeyProvider, KeyRing, KeySourceError, Padding, Passphrase, RawKey};
use memory_tool_policies::{AuditError, Detector, Scope, default_quota};
use memory_tool_proposals::ProposalName;
use serde::de::{Deserialize, Deserializer, Error as _};

use crate::home::expand_home;
use crate::store_url::StoreUrl;

/// All options of a memory as data, for a command line, a configuration file or a program in another language.
///
/// In data, times are numbers of seconds, and paths and URLs are text. `~` is the home directory in paths of the host.
/// Unknown options are errors.
///
/// ```
/// use memory_tool::{MemoryOptions, StoreUrl};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let options: MemoryOptions = serde_json::from_str(r#"{"scope": "alice", "limits": true, "expire_after": 86400}"#)?;
/// let memory = options.build(StoreUrl::InProcess).await?;
/// memory.write("/memories/profile.md", "Prefers tea.").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MemoryOptions {
    /// Opens the memory only if it exists.
    pub must_exist: bool,
    /// Refuses every change.
    pub read_only: bool,
    /// Simulates changes. The audit log is not written.
    pub dry_run: bool,
    /// How long an operation waits for other processes and for requests.
    #[serde(deserialize_with = "seconds")]
    pub timeout: Option<Duration>,
    /// How often the garbage of a bucket is collected.
    #[serde(deserialize_with = "seconds")]
    pub gc_every: Option<Duration>,

    /// Whether `create` replaces an existing file.
    pub create_overwrites: bool,
    /// The most characters that `view` returns. `None` is the default, `Some(None)` is no limit, `null` in data.
    #[serde(deserialize_with = "nullable")]
    pub max_view_characters: Option<Option<usize>>,

    /// The tenant whose part of the storage the memory is. Take the name from a trusted source.
    #[serde(deserialize_with = "scope")]
    pub scope: Option<Scope>,
    /// Other memories, by their paths, in data a list of pairs. They have the same timeout, collections and keys.
    #[serde(deserialize_with = "mounts")]
    pub mounts: Vec<(MemoryPath, StoreUrl)>,
    /// Other memories that can only be read.
    #[serde(deserialize_with = "mounts")]
    pub read_only_mounts: Vec<(MemoryPath, StoreUrl)>,

    /// Limits the memory to the [sizes that suit an agent](default_quota). The four options below
    /// replace or add single limits.
    pub limits: bool,
    /// The largest file in bytes.
    pub max_file_bytes: Option<u64>,
    /// The most files.
    pub max_files: Option<u64>,
    /// The most bytes of all files together.
    pub max_bytes: Option<u64>,
    /// The most levels of directories and files.
    pub max_depth: Option<u64>,

    /// Keeps a history of all changes. Later openings of the memory continue it without this option.
    pub history: bool,
    /// Starts a history too, and removes its entries after this time, 64 at once.
    #[serde(deserialize_with = "seconds")]
    pub history_age: Option<Duration>,

    /// Makes all changes in the proposal of this name, where they wait for a person's consent. It makes mounted
    /// memories read-only, and no file expires.
    pub propose: Option<ProposalName>,
    /// Files and directories whose changes count at once, although others wait.
    pub propose_except: Vec<MemoryPath>,
    /// The number of lines of a file that can change at once. Larger changes, and removed and renamed files, wait.
    /// Default: all changes wait.
    pub propose_over: Option<usize>,

    /// Hides files that are not read or written for this time.
    #[serde(deserialize_with = "seconds")]
    pub expire_after: Option<Duration>,
    /// Files and directories that never expire.
    pub pins: Vec<MemoryPath>,

    /// Refuses texts with passwords, tokens, keys and payment card numbers, or redacts those.
    pub screen: Option<Screening>,
    /// More data to screen, in data by their [kinds](Detector::of_kind).
    #[serde(deserialize_with = "detectors")]
    pub screen_also: Vec<Detector>,

    /// A file that records each change before and after it is made. Requires `actor`.
    #[serde(deserialize_with = "host_path")]
    pub audit_log: Option<PathBuf>,
    /// The name of the user or agent in the audit log and the history.
    #[serde(deserialize_with = "actor")]
    pub actor: Option<Actor>,
    /// Records views too.
    pub audit_views: bool,
    /// Waits until each audit record is on the disk.
    pub audit_sync: bool,
    /// The name of the memory in the audit log, if the file has records of several memories. A server sets it.
    #[serde(skip)]
    pub audit_memory: Option<String>,

    /// Emits events for each command and operation of the store. The program decides where they go, and at which level.
    pub log: Option<LogDetail>,
    /// Adds paths to the events.
    pub log_paths: bool,

    /// A key of the program that encrypts the memory. It cannot be in data.
    #[serde(skip)]
    pub key: Option<Arc<dyn KeyProvider>>,
    /// Keys of the program that only decrypt.
    #[serde(skip)]
    pub old_keys: Vec<Arc<dyn KeyProvider>>,
    /// A file with the key that encrypts the memory.
    #[serde(deserialize_with = "host_path")]
    pub key_file: Option<PathBuf>,
    /// An environment variable with the key.
    pub key_env: Option<String>,
    /// A file with a passphrase, from which the key is derived.
    #[serde(deserialize_with = "host_path")]
    pub passphrase_file: Option<PathBuf>,
    /// Files with keys that only decrypt.
    #[serde(deserialize_with = "host_paths")]
    pub old_key_files: Vec<PathBuf>,
    /// Environment variables with keys that only decrypt.
    pub old_key_envs: Vec<String>,
    /// Files with passphrases that only decrypt.
    #[serde(deserialize_with = "host_paths")]
    pub old_passphrase_files: Vec<PathBuf>,
    /// Hides the sizes of files. In data, `padme` or a number of bytes.
    #[serde(deserialize_with = "padding")]
    pub padding: Option<Padding>,
    /// The label of the encrypted memory. A memory with another label is refused.
    pub label: Option<String>,
    /// Labels that are accepted too.
    pub old_labels: Vec<String>,
    /// Whether a memory without a label is accepted too. Requires `label`.
    pub was_unlabeled: bool,
}

/// The treatment of sensitive data.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "lowercase")]
pub enum Screening {
    /// Text that contains some is refused.
    Refuse,
    /// It is replaced by a mark.
    Redact,
}

/// The detail of a log.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "lowercase")]
pub enum LogDetail {
    /// Commands of the tool.
    Commands,
    /// Commands, and operations of the store.
    Operations,
}

/// The options cannot be used, or the memory cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// An option is set without one that it needs.
    #[error("{}", self.spelled(str::to_owned))]
    Requires {
        /// The option.
        option: &'static str,
        /// The option that it needs.
        needed: &'static str,
    },
    /// There are several primary keys.
    #[error("{}", self.spelled(str::to_owned))]
    SeveralKeys,
    /// A key cannot be used.
    #[error("cannot use the key")]
    Key(#[source] KeySourceError),
    /// The audit log cannot be opened.
    #[error("cannot open the audit log")]
    AuditLog(#[source] AuditError),
    /// The memory or a mounted one cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
}

impl OptionsError {
    /// The message, with the names of options as a front writes them, such as `maxFiles` for `max_files`.
    pub fn spelled(&self, spelling: impl Fn(&str) -> String) -> String {
        match self {
            Self::Requires { option, needed } => format!("{} requires {}", spelling(option), spelling(needed)),
            Self::SeveralKeys => {
                let [key, file, env, passphrase] = ["key", "key_file", "key_env", "passphrase_file"].map(spelling);
                format!("set only one of {key}, {file}, {env} and {passphrase}")
            }
            error => error.to_string(),
        }
    }
}

impl MemoryOptions {
    /// Creates the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the keys. Returns `None` without encryption.
    ///
    /// # Errors
    /// [`OptionsError::SeveralKeys`] and [`OptionsError::Key`].
    pub async fn key_ring(&self) -> Result<Option<KeyRing>, OptionsError> {
        let Self { key_file, key_env, passphrase_file, .. } = self;
        let ring = match (&self.key, key_file, key_env, passphrase_file) {
            (None, None, None, None) => return Ok(None),
            (Some(key), None, None, None) => Ok(KeyRing::new(Arc::clone(key))),
            (None, Some(file), None, None) => RawKey::from_file(file).await.map(KeyRing::new),
            (None, None, Some(name), None) => RawKey::from_environment(name).map(KeyRing::new),
            (None, None, None, Some(file)) => Passphrase::from_file(file).await.map(KeyRing::new),
            _ => return Err(OptionsError::SeveralKeys),
        };
        let ring = self.with_old_keys(ring.map_err(OptionsError::Key)?).await;
        ring.map(Some).map_err(OptionsError::Key)
    }

    async fn with_old_keys(&self, mut ring: KeyRing) -> Result<KeyRing, KeySourceError> {
        ring = self.old_keys.iter().cloned().fold(ring, KeyRing::with);
        for file in &self.old_key_files {
            ring = ring.with(RawKey::from_file(file).await?);
        }
        for name in &self.old_key_envs {
            ring = ring.with(RawKey::from_environment(name)?);
        }
        for file in &self.old_passphrase_files {
            ring = ring.with(Passphrase::from_file(file).await?);
        }
        Ok(ring)
    }

    /// Fails if an option is set without one that it needs. [`configure`](Self::configure) checks that too.
    ///
    /// # Errors
    /// [`OptionsError::Requires`] and [`OptionsError::SeveralKeys`].
    pub fn check(&self) -> Result<(), OptionsError> {
        let has_log = self.audit_log.is_some();
        let Self { key, key_file, key_env, passphrase_file, .. } = self;
        let keys = [key.is_some(), key_file.is_some(), key_env.is_some(), passphrase_file.is_some()];
        let keys = keys.into_iter().filter(|is_set| *is_set).count();
        if keys > 1 {
            return Err(OptionsError::SeveralKeys);
        }
        let has_key = keys == 1;
        let needs = [
            ("pins", !self.pins.is_empty(), "expire_after", self.expire_after.is_some()),
            ("propose_except", !self.propose_except.is_empty(), "propose", self.propose.is_some()),
            ("propose_over", self.propose_over.is_some(), "propose", self.propose.is_some()),
            ("screen_also", !self.screen_also.is_empty(), "screen", self.screen.is_some()),
            ("audit_log", has_log, "actor", self.actor.is_some()),
            ("audit_views", self.audit_views, "audit_log", has_log),
            ("audit_sync", self.audit_sync, "audit_log", has_log),
            ("log_paths", self.log_paths, "log", self.log.is_some()),
            ("old_keys", !self.old_keys.is_empty(), "a key", has_key),
            ("old_key_files", !self.old_key_files.is_empty(), "a key", has_key),
            ("old_key_envs", !self.old_key_envs.is_empty(), "a key", has_key),
            ("old_passphrase_files", !self.old_passphrase_files.is_empty(), "a key", has_key),
            ("padding", self.padding.is_some(), "a key", has_key),
            ("label", self.label.is_some(), "a key", has_key),
            ("old_labels", !self.old_labels.is_empty(), "a key", has_key),
            ("was_unlabeled", self.was_unlabeled, "label", self.label.is_some()),
        ];
        let unmet = needs.into_iter().find(|(_, is_set, _, is_met)| *is_set && !*is_met);
        unmet.map_or(Ok(()), |(option, _, needed, _)| Err(OptionsError::Requires { option, needed }))
    }

    /// The limits of the memory. Without limits, all are `None`.
    pub fn quota(&self) -> Quota {
        let mut quota = if self.limits { default_quota() } else { Quota::new() };
        quota.file_bytes = self.max_file_bytes.or(quota.file_bytes);
        quota.files = self.max_files.or(quota.files);
        quota.bytes = self.max_bytes.or(quota.bytes);
        quota.depth = self.max_depth.or(quota.depth);
        quota
    }
}

fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let seconds = Option::<f64>::deserialize(deserializer)?.map(Duration::try_from_secs_f64).transpose();
    seconds.map_err(|_| D::Error::custom("expected a number of seconds, not negative"))
}

fn nullable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<usize>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

fn scope<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Scope>, D::Error> {
    let name = Option::<String>::deserialize(deserializer)?;
    name.map(|name| Scope::from_trusted_name(&name)).transpose().map_err(D::Error::custom)
}

fn actor<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Actor>, D::Error> {
    let name = Option::<String>::deserialize(deserializer)?;
    name.map(|name| Actor::from_trusted_name(&name)).transpose().map_err(D::Error::custom)
}

fn mounts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(MemoryPath, StoreUrl)>, D::Error> {
    let mounts = Vec::<(MemoryPath, String)>::deserialize(deserializer)?.into_iter();
    mounts.map(|(point, url)| Ok((point, url.parse().map_err(D::Error::custom)?))).collect()
}

fn detectors<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Detector>, D::Error> {
    let kinds = Vec::<String>::deserialize(deserializer)?;
    let detectors: Result<Vec<_>, _> = kinds.iter().map(|kind| Detector::of_kind(kind)).collect();
    Ok(detectors.map_err(D::Error::custom)?.concat())
}

fn padding<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Padding>, D::Error> {
    #[derive(serde::Deserialize)]
    #[serde(untagged, expecting = "expected padme, or a number of bytes from 1 up")]
    enum Given {
        Bytes(u64),
        Name(String),
    }

    let padding = Option::<Given>::deserialize(deserializer)?.map(|given| match given {
        Given::Bytes(bytes) => bytes.to_string().parse(),
        Given::Name(name) => name.parse(),
    });
    padding.transpose().map_err(D::Error::custom)
}

fn host_path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
    Option::<PathBuf>::deserialize(deserializer)?.map(expand_home).transpose().map_err(D::Error::custom)
}

fn host_paths<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
    let paths = Vec::<PathBuf>::deserialize(deserializer)?.into_iter();
    paths.map(expand_home).collect::<Result<_, _>>().map_err(D::Error::custom)
}
