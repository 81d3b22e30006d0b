//! [`MemoryBuilder`]: the options and policies of a [`Memory`].

use std::ffi::OsStr;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "encrypted")]
use memory_tool_core::StoreError;
use memory_tool_core::{
    Actor, BoxError, DEFAULT_MAX_VIEW_CHARACTERS, Engine, EngineBuilder, Error, ErrorKind, MemoryTool, OpenError,
    OpenMode, OpenOptions, ReadOnlyStore, Reply, Store, ToolDefinition,
};
#[cfg(feature = "encrypted")]
use memory_tool_encrypted::{EncryptedStore, KeyRing, Padding};
#[cfg(feature = "history")]
use memory_tool_history::{HistoryStore, Limits};

use crate::backend::Backend;
use crate::dry_run::DryRunStore;
#[cfg(feature = "policies")]
use crate::layers::Policies;
use crate::memory::{Inner, Memory, ToolOver};
use crate::notify::{MemoryChange, NotifyingStore, OnChange};
use crate::redaction::redact_credentials;
use crate::store_url::{StoreUrl, StoreUrlError};
#[cfg(feature = "encrypted")]
use crate::unprobed::{KeysRequired, UnprobedStore};
#[cfg(not(feature = "history"))]
use crate::without_history::WithoutHistory;
use crate::wording::{WordedTool, Wording};

pub(crate) type SharedStore = Arc<dyn Store>;
pub(crate) type SharedTool = Arc<dyn MemoryTool>;

/// A builder for a [`Memory`], created by [`Memory::builder`], [`Memory::over`] or from a [`StoreUrl`].
///
/// The order of the calls does not matter. A second call of a method replaces the first, except for `former_label`,
/// `mount` and `pin`.
///
/// Policies are applied to the backend in this order: encryption, observation, scope, history, expiry, limits, mounts,
/// read-only, audit, screening, change notification. The tool is on top, with its own audit and observation. For
/// another order, wrap the stores yourself, and pass the result to [`Memory::over`].
///
/// ```
/// use memory_tool::Memory;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let memory = Memory::builder("in-process:")
///     .on_change(|change| println!("{change:?}"))
///     .create_overwrites(true)
///     .build()
///     .await?;
/// memory.write("/memories/profile.md", "Prefers tea.").await?; // prints the change
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct MemoryBuilder {
    location: Location,
    options: OpenOptions,
    is_dry_run: bool,
    create_overwrites: bool,
    max_view_characters: Option<usize>,
    definition: ToolDefinition,
    actor: Option<Actor>,
    on_change: Option<OnChange>,
    wording: Option<Wording>,
    #[cfg(feature = "history")]
    history: History,
    #[cfg(feature = "encrypted")]
    encryption: Encryption,
    #[cfg(feature = "policies")]
    pub(crate) policies: Policies,
}

enum Location {
    Url(StoreUrl),
    /// An invalid URL, without credentials.
    Invalid(String, StoreUrlError),
    Store(SharedStore),
}

#[cfg(feature = "history")]
#[derive(Default)]
struct History {
    is_kept: bool,
    limits: Option<Limits>,
    /// The layer, if the memory has a history.
    store: Option<HistoryStore<SharedStore>>,
}

#[cfg(feature = "encrypted")]
#[derive(Default)]
struct Encryption {
    keys: Option<KeyRing>,
    padding: Padding,
    label: Option<String>,
    former_labels: Vec<Option<String>>,
}

impl From<StoreUrl> for MemoryBuilder {
    fn from(url: StoreUrl) -> Self {
        Self::new(Location::Url(url))
    }
}

impl MemoryBuilder {
    pub(crate) fn at(url: &OsStr) -> Self {
        match StoreUrl::parse(url) {
            Ok(url) => url.into(),
            Err(error) => Self::new(Location::Invalid(redact_credentials(&url.to_string_lossy()), error)),
        }
    }

    pub(crate) fn over(store: SharedStore) -> Self {
        Self::new(Location::Store(store))
    }

    fn new(location: Location) -> Self {
        Self {
            location,
            options: OpenOptions::new(),
            is_dry_run: false,
            create_overwrites: false,
            max_view_characters: Some(DEFAULT_MAX_VIEW_CHARACTERS),
            definition: ToolDefinition::new(),
            actor: None,
            on_change: None,
            wording: None,
            #[cfg(feature = "history")]
            history: History::default(),
            #[cfg(feature = "encrypted")]
            encryption: Encryption::default(),
            #[cfg(feature = "policies")]
            policies: Policies::default(),
        }
    }

    /// Opens the memory only if it exists, including its scope.
    pub fn must_exist(mut self) -> Self {
        if self.options.mode == OpenMode::Create {
            self.options.mode = OpenMode::Existing;
        }
        self
    }

    /// Refuses every change, including changes of mounted stores. The memory must exist.
    ///
    /// The backend is not written to, and gets no lock file. The only exception are the access times of files that
    /// [expire](Self::expire_after).
    pub fn read_only(mut self) -> Self {
        self.options.mode = OpenMode::ReadOnly;
        self
    }

    /// Simulates changes. Policies check them, but nothing is written to the backend, to mounted stores or to the audit
    /// log.
    ///
    /// A memory that does not exist is treated as empty, unless it [must exist](Self::must_exist). Simulated contents
    /// can be read until they exceed 16 MiB.
    pub fn dry_run(mut self) -> Self {
        self.is_dry_run = true;
        self
    }

    /// Sets the [timeout](OpenOptions::timeout) of operations. Custom stores ignore it.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = timeout;
        self
    }

    /// Sets the [maximum size](OpenOptions::max_file_bytes) of a file that is read or written. Custom stores ignore it.
    pub fn max_file_bytes(mut self, max_file_bytes: u64) -> Self {
        self.options.max_file_bytes = max_file_bytes;
        self
    }

    /// Sets [how often](OpenOptions::gc_interval) the memory collects the garbage of a bucket. Default: never.
    pub fn gc_interval(mut self, interval: impl Into<Option<Duration>>) -> Self {
        self.options.gc_interval = interval.into();
        self
    }

    /// Whether `create` replaces an existing file. See
    /// [`EngineBuilder::create_overwrites`](memory_tool_core::EngineBuilder::create_overwrites).
    pub fn create_overwrites(mut self, create_overwrites: bool) -> Self {
        self.create_overwrites = create_overwrites;
        self
    }

    /// The maximum number of characters that `view` returns; `None` is no limit. See
    /// [`EngineBuilder::max_view_characters`](memory_tool_core::EngineBuilder::max_view_characters).
    pub fn max_view_characters(mut self, max_view_characters: impl Into<Option<usize>>) -> Self {
        self.max_view_characters = max_view_characters.into();
        self
    }

    /// The result of [`MemoryTool::definition`]. Default: [`ToolDefinition::new`].
    pub fn definition(mut self, definition: ToolDefinition) -> Self {
        self.definition = definition;
        self
    }

    /// The actor of all changes by the memory, as in [`Memory::by`]. Default: the actor of the audit log.
    pub fn actor(mut self, actor: Actor) -> Self {
        self.actor = Some(actor);
        self
    }

    /// Encrypts the whole backend with these keys.
    #[cfg(feature = "encrypted")]
    pub fn encrypt(mut self, keys: KeyRing) -> Self {
        self.encryption.keys = Some(keys);
        self
    }

    /// Sets the padding of [encrypted](Self::encrypt) files. Default: [`Padding::None`].
    #[cfg(feature = "encrypted")]
    pub fn padding(mut self, padding: Padding) -> Self {
        self.encryption.padding = padding;
        self
    }

    /// Sets the label of the [encrypted](Self::encrypt) memory. See
    /// [`EncryptedStoreBuilder::label`](memory_tool_encrypted::EncryptedStoreBuilder::label).
    #[cfg(feature = "encrypted")]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.encryption.label = Some(label.into());
        self
    }

    /// Also accepts an [encrypted](Self::encrypt) memory with this label, or without one. See
    /// [`EncryptedStoreBuilder::former_label`](memory_tool_encrypted::EncryptedStoreBuilder::former_label).
    #[cfg(feature = "encrypted")]
    pub fn former_label(mut self, label: Option<&str>) -> Self {
        self.encryption.former_labels.push(label.map(str::to_owned));
        self
    }

    /// Keeps a [history](Memory::history) of all changes. Later openings of the memory continue it without this option.
    ///
    /// Sessions that are open while a history is started notice it with their next change. If files
    /// [expire](Self::expire_after), entries are removed after the same time.
    #[cfg(feature = "history")]
    pub fn history(mut self) -> Self {
        self.history.is_kept = true;
        self
    }

    /// Keeps a [history](Self::history) within these limits.
    #[cfg(feature = "history")]
    pub fn history_limits(mut self, limits: Limits) -> Self {
        self.history.limits = Some(limits);
        self.history()
    }

    /// Calls `on_change` after each change through this memory, and after changes with an unknown outcome. The function
    /// must not block. Changes by other programs and by [`Memory::history`] are not reported; [`Memory::watch`] also
    /// reports these.
    pub fn on_change(mut self, on_change: impl Fn(&MemoryChange) + Send + Sync + 'static) -> Self {
        self.on_change = Some(Box::new(on_change));
        self
    }

    /// Words the replies and the errors of the tool, for example in another language. `None` keeps the text of the
    /// contract. Leave the text of `view` and its line numbers, because Claude relies on them.
    ///
    /// The tool returns [`Reply::Text`], or the [error with the text](Error::with_message). The audit log and metrics
    /// do not depend on it.
    ///
    /// ```
    /// use memory_tool::command::Reply;
    /// use memory_tool::{Error, Memory};
    /// use serde_json::json;
    ///
    /// fn in_german(outcome: &Result<Reply, Error>) -> Option<String> {
    ///     Some(match outcome {
    ///         Ok(Reply::Created { path }) => format!("Datei angelegt: {path}"),
    ///         Err(Error::NotFound { path, .. }) => format!("Fehler: {path} gibt es nicht."),
    ///         _ => return None,
    ///     })
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let memory = Memory::builder("in-process:").wording(in_german).build().await?;
    /// let view = memory.tool().call(json!({"command": "view", "path": "/memories/tee.md"})).await;
    /// assert_eq!(view.unwrap_err().to_string(), "Fehler: /memories/tee.md gibt es nicht.");
    /// # Ok(())
    /// # }
    /// ```
    pub fn wording(
        mut self,
        wording: impl Fn(&Result<Reply, Error>) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.wording = Some(Box::new(wording));
        self
    }

    /// Opens the memory.
    ///
    /// # Errors
    /// The errors of the backend, and [`ErrorKind::Invalid`] for an invalid URL or policy and for an encrypted memory
    /// without keys.
    pub async fn build(mut self) -> Result<Memory, OpenError> {
        let backend = self.open_backend().await?;
        let store = backend.store();
        #[cfg(feature = "encrypted")]
        let (store, encrypted) = self.encrypt_store(&backend, store).await?;
        #[cfg(feature = "policies")]
        self.check_scope_exists(&*store).await?;
        let store = if self.is_dry_run { self.enable_dry_run(store).await? } else { store };
        #[cfg(feature = "transfer")]
        let transfer = crate::transfer::TransferContext {
            location: self.memory_location(),
            is_dry_run: self.is_dry_run,
            #[cfg(feature = "policies")]
            screen: self.policies.screen.clone(),
        };
        let store = self.add_layers(store).map_err(|error| self.error(ErrorKind::Invalid, error))?;
        let feed = Arc::default();
        let store: SharedStore = Arc::new(NotifyingStore::new(store, self.on_change.take(), Arc::clone(&feed)));
        let actor = self.actor.take();
        #[cfg(feature = "policies")]
        let actor = actor.or_else(|| self.policies.audit.as_ref().map(|(_, actor)| actor.clone()));
        #[cfg(feature = "policies")]
        let expiring = self.policies.expiring.take().filter(|_| !self.is_read_only());
        #[cfg(feature = "history")]
        let history = self.history.store.take();
        let tool_over = self.into_tool_over();
        let tool = tool_over(Arc::clone(&store), None);
        let inner = Inner {
            backend,
            #[cfg(feature = "encrypted")]
            encrypted,
            #[cfg(feature = "history")]
            history,
            #[cfg(feature = "policies")]
            expiring,
            feed,
            tool_over,
            #[cfg(feature = "transfer")]
            transfer,
        };
        let memory = Memory { inner: Arc::new(inner), store, tool, actor: None };
        Ok(match actor {
            Some(actor) => memory.by(actor),
            None => memory,
        })
    }

    async fn open_backend(&self) -> Result<Backend, OpenError> {
        let url = match &self.location {
            Location::Url(url) => url,
            Location::Invalid(_, error) => return Err(self.error(ErrorKind::Invalid, error.clone())),
            Location::Store(store) => return Ok(Backend::Custom(Arc::clone(store))),
        };
        match url.open(self.options.mode(self.mode())).await {
            Err(error) if self.is_dry_run && self.creates() && error.is_not_found() => {
                Ok(Backend::InProcess(Arc::default()))
            }
            Err(error) if error.is_not_found() => Err(error.with_place(self.location_name())),
            opened => opened,
        }
    }

    fn mode(&self) -> OpenMode {
        match self.options.mode {
            _ if self.is_dry_run => OpenMode::ReadOnly,
            // Access times are written even if the memory is read-only.
            #[cfg(feature = "policies")]
            OpenMode::ReadOnly if self.policies.idle_time.is_some() => OpenMode::Existing,
            mode => mode,
        }
    }

    fn is_read_only(&self) -> bool {
        self.options.mode == OpenMode::ReadOnly
    }

    /// Whether the memory does not have to exist.
    fn creates(&self) -> bool {
        self.options.mode == OpenMode::Create
    }

    /// Wraps the store in its encryption. Without keys, refuses an encrypted store, because writes would not be
    /// encrypted.
    #[cfg(feature = "encrypted")]
    async fn encrypt_store(
        &mut self,
        backend: &Backend,
        store: SharedStore,
    ) -> Result<(SharedStore, Option<EncryptedStore>), OpenError> {
        let Encryption { keys, padding, label, former_labels } = std::mem::take(&mut self.encryption);
        let Some(keys) = keys else {
            return match EncryptedStore::is_in(&*store).await {
                Ok(false) => Ok((store, None)),
                Ok(true) => Err(self.error(ErrorKind::Invalid, KeysRequired)),
                // The first command will report the failure.
                Err(StoreError::Failure { .. }) => Ok((Arc::new(UnprobedStore::new(store)), None)),
                // An index of an encrypted store is not a symbolic link.
                Err(_) => Ok((store, None)),
            };
        };
        // An in-process memory is always new.
        let creates = self.creates() || matches!(backend, Backend::InProcess(_));
        let mode = if creates { OpenMode::Create } else { self.mode() };
        let mut builder = EncryptedStore::builder(store, keys).options(self.options.mode(mode)).padding(padding);
        if let Some(label) = label {
            builder = builder.label(label);
        }
        for label in &former_labels {
            builder = builder.former_label(label.as_deref());
        }
        let encrypted = builder.open().await.map_err(|error| error.with_place(self.location_name()))?;
        Ok((Arc::new(encrypted.clone()), Some(encrypted)))
    }

    /// Fails if the scope of a memory that must exist is missing. A scope without files can have a history.
    #[cfg(feature = "policies")]
    async fn check_scope_exists(&self, store: &dyn Store) -> Result<(), OpenError> {
        let Some(scope) = self.policies.scope.as_ref().filter(|_| !self.creates()) else { return Ok(()) };
        match scope.exists_in(store).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                let place = format!("for the scope {scope} {}", self.location_name());
                Err(OpenError::new(place, ErrorKind::NotFound, "the scope contains neither files nor a history"))
            }
            Err(error) => Err(self.error(error.kind(), error)),
        }
    }

    /// Wraps the store and every mounted store in a dry run. Simulated changes are not recorded in the audit log and
    /// not reported to `on_change`.
    async fn enable_dry_run(&mut self, store: SharedStore) -> Result<SharedStore, OpenError> {
        self.on_change = None;
        #[cfg(feature = "policies")]
        {
            self.policies.audit = None;
            let mut mounts = std::mem::take(&mut self.policies.mounts);
            for mount in &mut mounts {
                mount.store = self.dry_run_over(Arc::clone(&mount.store)).await?;
            }
            self.policies.mounts = mounts;
        }
        self.dry_run_over(store).await
    }

    async fn dry_run_over(&self, store: SharedStore) -> Result<SharedStore, OpenError> {
        match DryRunStore::over(store).await {
            Ok(dry_run) => Ok(Arc::new(dry_run)),
            Err(error) => Err(self.error(error.kind(), error)),
        }
    }

    /// Adds the layers over the encrypted backend, from the bottom to the top. `docs/production.md` has the reasons for
    /// this order.
    #[cfg_attr(not(feature = "policies"), expect(clippy::unnecessary_wraps, reason = "only policies can be invalid"))]
    fn add_layers(&mut self, store: SharedStore) -> Result<SharedStore, BoxError> {
        #[cfg(feature = "policies")]
        let store = self.policies.restrict_to_scope(self.policies.observe(store));
        let store = self.keep_history(store);
        #[cfg(feature = "policies")]
        let store = {
            let store = self.policies.expire(store)?;
            let store = self.policies.limit(store);
            self.policies.mount(store)?
        };
        let store = if self.is_read_only() { Arc::new(ReadOnlyStore::new(store)) } else { store };
        #[cfg(feature = "policies")]
        let store = {
            let store = self.policies.audit(store);
            self.policies.screen(store)
        };
        Ok(store)
    }

    /// Adds the layer of the history. Any memory at a URL may have one.
    #[cfg(feature = "history")]
    fn keep_history(&mut self, store: SharedStore) -> SharedStore {
        #[cfg(feature = "policies")]
        let age = self.policies.idle_time;
        #[cfg(not(feature = "policies"))]
        let age = None;
        let inner = Arc::clone(&store);
        let kept = match (self.history.limits, self.history.is_kept, &self.location) {
            (Some(limits), ..) => HistoryStore::with_limits(inner, limits),
            (None, true, _) if age.is_some() => HistoryStore::with_limits(inner, Limits::new().age(age)),
            (None, true, _) => HistoryStore::new(inner),
            (None, false, Location::Store(_)) => return store,
            (None, false, _) => HistoryStore::if_present(inner),
        }
        .timeout(self.options.timeout);
        // The handle is below the layer that refuses changes.
        let read_only =
            self.is_read_only().then(|| HistoryStore::new(Arc::new(ReadOnlyStore::new(store)) as SharedStore));
        self.history.store = Some(read_only.unwrap_or_else(|| kept.clone()));
        Arc::new(kept)
    }

    /// Refuses changes of a memory that has a history.
    #[cfg(not(feature = "history"))]
    fn keep_history(&self, store: SharedStore) -> SharedStore {
        match self.location {
            Location::Store(_) => store,
            Location::Url(_) | Location::Invalid(..) => Arc::new(WithoutHistory(store)),
        }
    }

    /// Returns a function that makes the tool over a store.
    fn into_tool_over(self) -> ToolOver {
        let Self { create_overwrites, max_view_characters, definition, wording, .. } = self;
        let wording = wording.map(Arc::new);
        #[cfg(feature = "policies")]
        let policies = self.policies;
        Box::new(move |store, actor| {
            let engine = Engine::builder(store)
                .create_overwrites(create_overwrites)
                .max_view_characters(max_view_characters)
                .definition(definition.clone());
            let engine = actor.cloned().into_iter().fold(engine, EngineBuilder::actor);
            let tool: SharedTool = Arc::new(engine.build());
            #[cfg(feature = "policies")]
            let tool = policies.observe_tool(policies.audit_tool(tool, actor));
            match &wording {
                Some(wording) => Arc::new(WordedTool { inner: tool, wording: Arc::clone(wording) }),
                None => tool,
            }
        })
    }

    /// The location of the files, if the memory has a URL.
    #[cfg(feature = "transfer")]
    pub(crate) fn memory_location(&self) -> Option<crate::transfer::MemoryLocation> {
        let Location::Url(url) = &self.location else { return None };
        #[cfg(feature = "policies")]
        let scope = self
            .policies
            .scope
            .as_ref()
            .map_or_else(memory_tool_core::MemoryPath::root, |scope| scope.directory().clone());
        #[cfg(not(feature = "policies"))]
        let scope = memory_tool_core::MemoryPath::root();
        Some(crate::transfer::MemoryLocation { url: url.clone(), directory: scope })
    }

    fn error(&self, kind: ErrorKind, source: impl Into<BoxError>) -> OpenError {
        OpenError::new(self.location_name(), kind, source)
    }

    fn location_name(&self) -> String {
        match &self.location {
            Location::Url(url) => format!("at {url}"),
            Location::Invalid(given, _) => format!("at {given}"),
            Location::Store(_) => "in a custom store".to_owned(),
        }
    }
}

impl fmt::Debug for MemoryBuilder {
    /// Omits the policies, which can contain keys and functions.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBuilder").field("options", &self.options).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    #[cfg(not(feature = "encrypted"))]
    use memory_tool_core::StoreError;
    use memory_tool_core::{Batch, InMemoryStore, MemoryPath, StoreExt as _, StorePath};
    use serde_json::json;

    use super::*;
    use crate::notify::Operation;

    #[cfg(feature = "history")]
    #[tokio::test]
    async fn a_read_only_memory_shows_its_history_and_takes_nothing_back() {
        let store = Arc::new(InMemoryStore::new());
        let memory = Memory::over(Arc::clone(&store)).history().build().await.unwrap();
        memory.write("/memories/a.txt", "one").await.unwrap();
        memory.write("/memories/a.txt", "two").await.unwrap();
        let history = Memory::over(store).history().read_only().build().await.unwrap().history().unwrap();
        assert_eq!(history.newest().await.unwrap(), 2);
        for refused in [history.undo(1).await.map(drop), history.redact(&[1]).await.map(drop)] {
            assert!(refused.unwrap_err().to_string().contains("read-only"));
        }
        history.clear().await.unwrap_err();
        assert_eq!(memory.read_to_string("/memories/a.txt").await.unwrap(), "two");
    }

    #[tokio::test]
    async fn must_exist_does_not_depend_on_the_order_of_the_calls() {
        assert_eq!(Memory::builder("a").must_exist().mode(), OpenMode::Existing);
        for builder in [Memory::builder("a").must_exist().read_only(), Memory::builder("a").read_only().must_exist()] {
            assert_eq!(builder.mode(), OpenMode::ReadOnly);
        }
        assert_eq!(Memory::builder("a").must_exist().dry_run().mode(), OpenMode::ReadOnly);
        #[cfg(feature = "policies")]
        {
            let expiring = Memory::builder("a").read_only().expire_after(Duration::from_secs(60));
            assert_eq!(expiring.mode(), OpenMode::Existing, "access times are written");
        }
    }

    #[cfg(feature = "local")]
    #[tokio::test]
    async fn a_dry_run_of_a_memory_that_must_exist_fails_if_it_is_missing() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("a");
        assert!(Memory::builder(&missing).dry_run().build().await.is_ok());
        let error = Memory::builder(&missing).dry_run().must_exist().build().await.unwrap_err();
        assert!(error.is_not_found(), "{error}");
    }

    #[tokio::test]
    async fn an_open_error_has_the_location_and_the_cause_without_credentials() {
        let error = Memory::open("sqllite:x").await.unwrap_err().to_string();
        assert!(error.starts_with("cannot open the memory store at sqllite:x: unknown scheme `sqllite:`. "), "{error}");
        for url in [
            "s3://AKIA:Se/cret@bucket",
            "s3://AKIA:Se/cret",
            "az://container/a?sig=Se/cret",
            "https://a.blob.core.windows.net/a?sig=Se/cret",
            "postgres://user:Se/cret@host/db",
            "file://user:Se/cret@host/a",
            "sqlite:a.db?key=Se/cret",
        ] {
            let builder = Memory::builder(url);
            let debugged = format!("{builder:?}");
            let error = builder.build().await.unwrap_err();
            let messages = format!("{error} {error:?} {debugged}");
            assert!(!messages.contains("Se/cret") && !messages.contains("cret@"), "{url}: {messages}");
            assert!(messages.contains("[redacted]"), "{url}: {messages}");
        }
        let bucket = StoreUrl::Bucket { url: "s3://AKIA:Se/cret@bucket".to_owned() };
        let error = MemoryBuilder::from(bucket.clone()).build().await.unwrap_err();
        let messages = format!("{error} {error:?} {bucket} {bucket:?}");
        assert!(!messages.contains("cret@"), "{messages}");
    }

    #[tokio::test]
    #[cfg(not(feature = "gcs"))]
    async fn a_missing_feature_names_the_command_that_adds_it() {
        let error = Memory::open("gs://bucket/a").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().ends_with(": cargo add memory-tool --features gcs"), "{error}");
    }

    #[tokio::test]
    async fn on_change_receives_successful_changes() {
        let reported = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&reported);
        let actor = Actor::from_trusted_name("claude").unwrap();
        let memory = Memory::over(InMemoryStore::new()).actor(actor.clone());
        let memory = memory.on_change(move |change| notes.lock().unwrap().push(change.clone()));
        let memory = memory.build().await.unwrap();
        memory.write("/memories/a", "text").await.unwrap();
        for command in [
            json!({"command": "str_replace", "path": "/memories/a", "old_str": "t", "new_str": "te"}),
            json!({"command": "str_replace", "path": "/memories/a", "old_str": "tex", "new_str": "tree"}),
            json!({"command": "rename", "old_path": "/memories/a", "new_path": "/memories/b"}),
        ] {
            let _ = memory.tool().call(command).await; // the first one is refused
        }
        memory.remove("/memories/none").await.unwrap_err();
        memory.clear().await.unwrap();
        let path = |name: &str| name.parse().unwrap();
        let expected = [
            MemoryChange { size: Some(4), ..MemoryChange::new(Operation::Write, path("/memories/a")) },
            MemoryChange { size: Some(5), ..MemoryChange::new(Operation::Edit, path("/memories/a")) },
            MemoryChange {
                old_path: Some(path("/memories/a")),
                ..MemoryChange::new(Operation::Rename, path("/memories/b"))
            },
            MemoryChange::new(Operation::Remove, MemoryPath::root()),
        ];
        let expected = expected.map(|change| MemoryChange { actor: Some(actor.clone()), ..change });
        assert_eq!(*reported.lock().unwrap(), expected);
    }

    #[tokio::test]
    async fn a_function_words_replies_and_errors() {
        let wording = |outcome: &Result<Reply, Error>| match outcome {
            Ok(Reply::Created { path }) => Some(format!("Datei angelegt: {path}")),
            Ok(Reply::Cleared) => Some("leer".to_owned()),
            Err(Error::Input(_)) => Some("Fehler: Das ist kein Befehl.".to_owned()),
            Err(Error::Storage { kind, .. }) => Some(format!("Fehler: {}", kind.name())),
            _ => None,
        };
        let text =
            |outcome: Result<Reply, Error>| outcome.map_or_else(|error| error.to_string(), |reply| reply.to_string());
        let tool = Memory::over(InMemoryStore::new()).wording(wording).build().await.unwrap().tool();
        let create = json!({"command": "create", "path": "/memories/a", "file_text": "text"});
        assert_eq!(text(tool.call(create.clone()).await), "Datei angelegt: /memories/a");
        assert_eq!(text(tool.call(create).await), "Error: File /memories/a already exists");
        assert_eq!(text(tool.call(json!({"command": "paint"})).await), "Fehler: Das ist kein Befehl.");
        assert_eq!(text(tool.clear_all_memory().await), "leer");

        let failing = Memory::over(Failing).wording(wording).build().await.unwrap().tool();
        let error = failing.call(json!({"command": "view", "path": "/memories"})).await.unwrap_err();
        assert_eq!((error.to_string().as_str(), error.is_retryable()), ("Fehler: busy", true));
        assert!(std::error::Error::source(&error).unwrap().is::<memory_tool_core::StoreError>());
    }

    /// A store that is always busy.
    #[derive(Debug)]
    struct Failing;

    #[async_trait::async_trait]
    impl Store for Failing {
        async fn read_opts(
            &self,
            _: &StorePath,
            _: memory_tool_core::ReadOptions,
        ) -> Result<memory_tool_core::Node, memory_tool_core::StoreError> {
            Err(memory_tool_core::StoreError::failure(ErrorKind::Busy, "reading a path", "it is busy"))
        }

        async fn apply(&self, _: Batch) -> Result<(), memory_tool_core::StoreError> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn writes_with_a_condition_and_appends_lose_no_change() {
        let memory = Memory::over(InMemoryStore::new()).build().await.unwrap();
        memory.write_if("/memories/count", "0", None).await.unwrap();
        let refused = memory.write_if("/memories/count", "1", None).await.unwrap_err();
        assert_eq!(refused.name(), "already_exists");
        for path in ["/memories/count", "/memories/none"] {
            let refused = memory.write_if(path, "1", Some(b"9")).await.unwrap_err();
            assert!(refused.is_conflict() && refused.to_string().starts_with(path), "{refused}");
        }
        assert!(!memory.exists("/memories/none").await.unwrap());
        let work = |memory: Memory| async move {
            for _ in 0..50 {
                memory.append("/memories/log", "x").await.unwrap();
                loop {
                    let read = memory.read_bytes("/memories/count").await.unwrap();
                    tokio::task::yield_now().await;
                    let count: u32 = String::from_utf8_lossy(&read).parse().unwrap();
                    match memory.write_if("/memories/count", (count + 1).to_string(), Some(&read)).await {
                        Ok(()) => break,
                        Err(error) => assert!(error.is_conflict(), "{error}"),
                    }
                }
            }
        };
        tokio::join!(work(memory.clone()), work(memory.clone()));
        assert_eq!(memory.read_to_string("/memories/count").await.unwrap(), "100");
        assert_eq!(memory.read_bytes("/memories/log").await.unwrap(), b"x".repeat(100));
    }

    #[tokio::test]
    async fn a_dry_run_changes_nothing() {
        let inner = Arc::new(InMemoryStore::new());
        inner.write("/memories/a", "old").await.unwrap();
        let memory = Memory::over(Arc::clone(&inner)).dry_run().build().await.unwrap();
        memory.write("/memories/a", "new").await.unwrap();
        assert_eq!(memory.read_to_string("/memories/a").await.unwrap(), "new");
        assert_eq!(inner.read_to_string("/memories/a").await.unwrap(), "old");
    }

    #[tokio::test]
    #[cfg(feature = "policies")]
    async fn a_dry_run_does_not_change_mounted_stores_or_report_changes() {
        let (team, reported) = (Arc::new(InMemoryStore::new()), Arc::new(Mutex::new(0)));
        let count = Arc::clone(&reported);
        let memory = Memory::over(InMemoryStore::new())
            .mount("/memories/team".parse().unwrap(), Arc::clone(&team) as SharedStore)
            .on_change(move |_| *count.lock().unwrap() += 1)
            .dry_run();
        let memory = memory.build().await.unwrap();
        memory.write("/memories/team/a", "text").await.unwrap();
        assert_eq!(memory.read_to_string("/memories/team/a").await.unwrap(), "text");
        assert_eq!(team.list("/memories").await.unwrap(), []);
        assert_eq!(*reported.lock().unwrap(), 0);
    }

    #[tokio::test]
    #[cfg(feature = "policies")]
    async fn a_read_only_memory_refuses_changes_even_with_expiry() {
        let memory = Memory::over(InMemoryStore::new()).read_only().expire_after(Duration::from_secs(60));
        let memory = memory.build().await.unwrap();
        let refused = memory.write("/memories/a", "text").await;
        assert!(matches!(refused, Err(StoreError::Refused { policy: "read-only", .. })), "{refused:?}");
        assert_eq!(memory.expire().await.unwrap(), memory_tool_policies::SweepReport::default());
    }

    #[tokio::test]
    async fn a_read_only_memory_refuses_every_change_of_files_and_records() {
        let inner = Arc::new(InMemoryStore::new());
        let builder = Memory::over(Arc::clone(&inner)).read_only();
        #[cfg(feature = "policies")]
        let builder = builder.mount("/memories/team".parse().unwrap(), Arc::new(InMemoryStore::new()));
        let memory = builder.build().await.unwrap();
        for path in ["/memories/a", "/memories/team/a"] {
            let refused = memory.write(path, "text").await;
            assert!(matches!(refused, Err(StoreError::Refused { policy: "read-only", .. })), "{path}: {refused:?}");
        }
        let record = Batch::new().write("/records/test/record".parse::<StorePath>().unwrap(), "text");
        memory.store().apply(record).await.unwrap_err();
    }

    #[tokio::test]
    async fn the_error_for_an_invalid_url_names_the_url() {
        let error = Memory::open("foo:bar").await.unwrap_err();
        assert_eq!((error.kind(), error.place()), (ErrorKind::Invalid, "at foo:bar"));
    }

    #[tokio::test]
    #[cfg(feature = "local")]
    async fn the_error_for_a_missing_memory_names_its_url() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("none");
        for builder in [Memory::builder(&path).must_exist(), Memory::builder(&path).read_only()] {
            let error = builder.build().await.unwrap_err();
            assert!(
                error.is_not_found() && error.to_string().starts_with("there is no memory store at file:"),
                "{error}"
            );
            let cause = std::error::Error::source(&error).unwrap();
            assert!(cause.downcast_ref::<std::io::Error>().is_some(), "{cause:?}");
        }
        assert!(!path.exists());
    }

    #[tokio::test]
    #[cfg(feature = "policies")]
    async fn the_order_of_the_calls_does_not_matter() {
        use memory_tool_core::Quota;
        use memory_tool_policies::{Scope, SensitiveData};

        let secret = "postgres://app:t7Kq-9vLz2@db.internal/app";
        let scope = || Scope::from_trusted_name("alice").unwrap();
        let team = "/memories/team".parse::<MemoryPath>().unwrap();
        let one_file = Quota::new().with_files(1);
        type Configure = fn(MemoryBuilder, MemoryPath, Scope, Quota) -> MemoryBuilder;
        let orders: [Configure; 2] = [
            |memory, team, scope, quota| {
                let mounted = memory.mount(team, Arc::new(InMemoryStore::new()));
                mounted.screen(SensitiveData::new()).limits(quota).scope(scope)
            },
            |memory, team, scope, quota| {
                let scoped = memory.scope(scope).limits(quota).screen(SensitiveData::new());
                scoped.mount(team, Arc::new(InMemoryStore::new()))
            },
        ];
        for configure in orders {
            let inner = Arc::new(InMemoryStore::new());
            let memory = configure(Memory::over(Arc::clone(&inner)), team.clone(), scope(), one_file);
            let memory = memory.build().await.unwrap();
            memory.write("/memories/a", "text").await.unwrap();
            assert_eq!(inner.read_to_string("/memories/scope-alice/a").await.unwrap(), "text");
            let refused = memory.write("/memories/b", "text").await;
            assert!(matches!(refused, Err(StoreError::Refused { policy: "limits", .. })), "{refused:?}");
            memory.write("/memories/team/b", "text").await.unwrap(); // the limits do not apply to mounted stores
            let refused = memory.write("/memories/team/c", secret).await;
            assert!(matches!(refused, Err(StoreError::Refused { policy: "screening", .. })), "{refused:?}");
        }
    }

    #[tokio::test]
    #[cfg(feature = "encrypted")]
    async fn an_encrypted_memory_is_not_opened_without_keys() {
        use memory_tool_encrypted::RawKey;

        let inner = Arc::new(InMemoryStore::new());
        let keys = KeyRing::new(RawKey::generate().unwrap());
        let memory = Memory::over(Arc::clone(&inner)).encrypt(keys).build().await.unwrap();
        memory.write("/memories/a", "text").await.unwrap();
        let error = Memory::over(Arc::clone(&inner)).build().await.unwrap_err();
        assert!(std::error::Error::source(&error).unwrap().downcast_ref::<KeysRequired>().is_some(), "{error:?}");
        assert_eq!(memory.verify(|_| {}).await.unwrap().problems, []);
        // A damaged object is reported once, with the path of the affected file.
        let object = inner.list("/memories").await.unwrap().into_iter().find(|file| file.size < 200).unwrap();
        inner.write(&object.path, "damaged").await.unwrap();
        let report = memory.verify(|_| {}).await.unwrap();
        assert_eq!(report.problems.len(), 1, "{report:?}");
        assert_eq!(report.problems[0].path, Some("/memories/a".parse().unwrap()));
    }
}
