//! [`MemoryBuilder`]: the options and policies of a [`Memory`].

use std::ffi::OsStr;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use memory_tool_core::{
    Actor, BoxError, DEFAULT_MAX_VIEW_CHARACTERS, Engine, EngineBuilder, Error, ErrorKind, OpenError, OpenMode,
    OpenOptions, Reply, Store, ToolDefinition,
};

use crate::backend::Backend;
use crate::change::MemoryChange;
use crate::dry_run::DryRunStore;
use crate::memory::{Inner, Memory, ToolOver};
use crate::named_store::SharedStore;
use crate::notify::{NotifyingStore, OnChange};
use crate::options::MemoryOptions;
use crate::redaction::redact_credentials;
use crate::store_url::{StoreUrl, StoreUrlError};
use crate::wording::{SharedTool, WordedTool, Wording};

/// A builder for a [`Memory`], created by [`Memory::builder`], [`Memory::over`] or from a [`StoreUrl`].
///
/// The order of the calls does not matter. A second call of a method replaces the first, except for `former_label`,
/// `mount` and `pin`.
///
/// Policies are applied to the backend in this order: encryption, observation, scope, history, proposal, expiry,
/// limits, mounts, read-only, audit, screening, change notification. The tool is on top, with its own audit and
/// observation. For another order, wrap the stores yourself, and pass the result to [`Memory::over`].
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
    pub(crate) location: Location,
    /// All options that are data.
    pub(crate) options: MemoryOptions,
    /// The layers that are no data.
    #[cfg(feature = "layers")]
    pub(crate) layers: crate::layers::Layers,
    max_file_bytes: Option<u64>,
    definition: ToolDefinition,
    pub(crate) on_change: Option<OnChange>,
    wording: Option<Arc<Wording>>,
}

pub(crate) enum Location {
    Url(StoreUrl),
    /// An invalid URL, without credentials.
    Invalid(String, StoreUrlError),
    Store(SharedStore),
}

impl Memory {
    /// Opens the memory at a path or [`StoreUrl`](crate::StoreUrl), and creates it if it does not exist.
    ///
    /// # Errors
    /// [`OpenError`] if the URL is invalid or the backend cannot open the memory.
    pub async fn open(url: impl AsRef<OsStr>) -> Result<Self, OpenError> {
        Self::builder(url).build().await
    }

    /// Returns a builder for the memory at a path or [`StoreUrl`](crate::StoreUrl), with options and policies.
    pub fn builder(url: impl AsRef<OsStr>) -> MemoryBuilder {
        MemoryBuilder::at(url.as_ref())
    }

    /// Returns a builder for a memory in a custom store, with options and policies.
    pub fn over(store: impl Store) -> MemoryBuilder {
        MemoryBuilder::over(Arc::new(store))
    }
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
            options: MemoryOptions::default(),
            #[cfg(feature = "layers")]
            layers: crate::layers::Layers::default(),
            max_file_bytes: None,
            definition: ToolDefinition::new(),
            on_change: None,
            wording: None,
        }
    }

    /// Opens the memory only if it exists, including its scope.
    pub fn must_exist(mut self) -> Self {
        self.options.must_exist = true;
        self
    }

    /// Refuses every change, including changes of mounted stores. The memory must exist.
    ///
    /// The backend is not written to, and gets no lock file. The only exception are the access times of files that
    /// [expire](Self::expire_after).
    pub fn read_only(mut self) -> Self {
        self.options.read_only = true;
        self
    }

    /// Simulates changes. Policies check them, but nothing is written to the backend, to mounted stores or to the audit
    /// log.
    ///
    /// A memory that does not exist is treated as empty, unless it [must exist](Self::must_exist). Simulated contents
    /// can be read until they exceed 16 MiB.
    pub fn dry_run(mut self) -> Self {
        self.options.dry_run = true;
        self
    }

    /// Sets the [timeout](OpenOptions::timeout) of operations. Custom stores ignore it.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }

    /// Sets the [maximum size](OpenOptions::max_file_bytes) of a file that is read or written. Custom stores ignore it.
    pub fn max_file_bytes(mut self, max_file_bytes: u64) -> Self {
        self.max_file_bytes = Some(max_file_bytes);
        self
    }

    /// Sets [how often](OpenOptions::gc_interval) the memory collects the garbage of a bucket. Default: never.
    pub fn gc_interval(mut self, interval: impl Into<Option<Duration>>) -> Self {
        self.options.gc_every = interval.into();
        self
    }

    /// Whether `create` replaces an existing file. See
    /// [`EngineBuilder::create_overwrites`](memory_tool_core::EngineBuilder::create_overwrites).
    pub fn create_overwrites(mut self, create_overwrites: bool) -> Self {
        self.options.create_overwrites = create_overwrites;
        self
    }

    /// The maximum number of characters that `view` returns; `None` is no limit. See
    /// [`EngineBuilder::max_view_characters`](memory_tool_core::EngineBuilder::max_view_characters).
    pub fn max_view_characters(mut self, max_view_characters: impl Into<Option<usize>>) -> Self {
        self.options.max_view_characters = Some(max_view_characters.into());
        self
    }

    /// The result of [`definition`](memory_tool_core::MemoryTool::definition). Default: [`ToolDefinition::new`].
    pub fn definition(mut self, definition: ToolDefinition) -> Self {
        self.definition = definition;
        self
    }

    /// The actor of all changes by the memory, as in [`Memory::by`]. Default: the actor of the audit log.
    pub fn actor(mut self, actor: Actor) -> Self {
        self.options.actor = Some(actor);
        self
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
        self.wording = Some(Arc::new(Box::new(wording)));
        self
    }

    /// Opens the memory.
    ///
    /// # Errors
    /// The errors of the backend, and [`ErrorKind::Invalid`] for an invalid URL or policy and for an encrypted memory
    /// without keys.
    pub async fn build(mut self) -> Result<Memory, OpenError> {
        let backend = self.open_backend().await?;
        #[cfg(feature = "layers")]
        let (store, layers) = self.add_layers(&backend).await?;
        #[cfg(not(feature = "layers"))]
        let store = self.guard(&backend).await?;
        let feed = Arc::default();
        let store: SharedStore = Arc::new(NotifyingStore::new(store, self.on_change.take(), Arc::clone(&feed)));
        let actor = self.actor_of_changes();
        let tool_over = self.into_tool_over();
        let tool = tool_over(Arc::clone(&store), None);
        let inner = Inner {
            backend,
            #[cfg(feature = "layers")]
            layers,
            feed,
            tool_over,
        };
        let memory = Memory { inner: Arc::new(inner), store, tool, actor: None };
        Ok(actor.into_iter().fold(memory, |memory, actor| memory.by(actor)))
    }

    async fn open_backend(&self) -> Result<Backend, OpenError> {
        let url = match &self.location {
            Location::Url(url) => url,
            Location::Invalid(_, error) => return Err(self.error(ErrorKind::Invalid, error.clone())),
            Location::Store(store) => return Ok(Backend::Custom(Arc::clone(store))),
        };
        match url.open(self.open_options(self.mode())).await {
            Err(error) if self.options.dry_run && self.creates() && error.is_not_found() => {
                Ok(Backend::InProcess(Arc::default()))
            }
            Err(error) if error.is_not_found() => Err(error.with_place(self.location_name())),
            opened => opened,
        }
    }

    pub(crate) fn open_options(&self, mode: OpenMode) -> OpenOptions {
        let mut options = OpenOptions::new().mode(mode).gc_interval(self.options.gc_every);
        options.timeout = self.options.timeout.unwrap_or(options.timeout);
        options.max_file_bytes = self.max_file_bytes.unwrap_or(options.max_file_bytes);
        options
    }

    pub(crate) fn mode(&self) -> OpenMode {
        #[cfg(feature = "layers")]
        let writes_access_times = self.options.expire_after.is_some(); // even if the memory is read-only
        #[cfg(not(feature = "layers"))]
        let writes_access_times = false;
        match (self.options.read_only, self.options.must_exist) {
            _ if self.options.dry_run => OpenMode::ReadOnly,
            (true, _) if !writes_access_times => OpenMode::ReadOnly,
            (false, false) => OpenMode::Create,
            _ => OpenMode::Existing,
        }
    }

    /// Whether the memory does not have to exist.
    pub(crate) fn creates(&self) -> bool {
        !self.options.must_exist && !self.options.read_only
    }

    pub(crate) async fn dry_run_over(&self, store: SharedStore) -> Result<SharedStore, OpenError> {
        let dry_run = DryRunStore::over(store).await.map_err(|error| self.error(error.kind(), error))?;
        Ok(Arc::new(dry_run))
    }

    fn actor_of_changes(&self) -> Option<Actor> {
        #[cfg(feature = "layers")]
        let of_log = self.layers.audit.as_ref().map(|(_, actor)| actor.clone());
        #[cfg(not(feature = "layers"))]
        let of_log = None;
        self.options.actor.clone().or(of_log)
    }

    /// Returns a function that makes the tool over a store.
    fn into_tool_over(self) -> ToolOver {
        let max_view_characters = self.options.max_view_characters.unwrap_or(Some(DEFAULT_MAX_VIEW_CHARACTERS));
        Box::new(move |store, actor| {
            let engine = Engine::builder(store)
                .create_overwrites(self.options.create_overwrites)
                .max_view_characters(max_view_characters)
                .definition(self.definition.clone());
            let engine = actor.cloned().into_iter().fold(engine, EngineBuilder::actor);
            let tool: SharedTool = Arc::new(engine.build());
            #[cfg(feature = "layers")]
            let tool = self.observe_tool(self.audit_tool(tool, actor));
            let Some(wording) = &self.wording else { return tool };
            Arc::new(WordedTool { inner: tool, wording: Arc::clone(wording) })
        })
    }

    pub(crate) fn error(&self, kind: ErrorKind, source: impl Into<BoxError>) -> OpenError {
        OpenError::new(self.location_name(), kind, source)
    }

    pub(crate) fn location_name(&self) -> String {
        match &self.location {
            Location::Url(url) => format!("at {url}"),
            Location::Invalid(given, _) => format!("at {given}"),
            Location::Store(_) => "in a custom store".to_owned(),
        }
    }
}

impl fmt::Debug for MemoryBuilder {
    /// Omits the layers, which can contain keys and functions.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBuilder").field("options", &self.open_options(self.mode())).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use memory_tool_core::{Batch, InMemoryStore, MemoryPath, Node, ReadOptions, StoreError, StoreExt as _, StorePath};
    use serde_json::json;

    use super::*;
    use crate::change::Operation;

    #[cfg(feature = "layers")]
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
        #[cfg(feature = "layers")]
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

        let failing = Memory::over(Failing::default()).wording(wording).build().await.unwrap().tool();
        let error = failing.call(json!({"command": "view", "path": "/memories"})).await.unwrap_err();
        assert_eq!((error.to_string().as_str(), error.is_retryable()), ("Fehler: busy", true));
        assert!(std::error::Error::source(&error).unwrap().is::<memory_tool_core::StoreError>());
    }

    /// A store that is busy for `/memories`, and whose layer has a record that is never the required one.
    #[derive(Debug, Default)]
    struct Failing(AtomicUsize);

    #[async_trait::async_trait]
    impl Store for Failing {
        async fn read_opts(&self, path: &StorePath, _: ReadOptions) -> Result<Node, StoreError> {
            let busy = || StoreError::failure(ErrorKind::Busy, "reading a path", "it is busy");
            if path.is_root() { Err(busy()) } else { Ok(Node::Absent) }
        }

        async fn apply(&self, _: Batch) -> Result<(), StoreError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Err(StoreError::AlreadyExists { path: StorePath::records().join("layer").unwrap() })
        }
    }

    /// Another attempt would not help, and a caller that repeats the whole change would never end.
    #[tokio::test]
    async fn a_conflict_at_another_path_is_not_tried_again() {
        let store = Arc::new(Failing::default());
        let memory = Memory::over(Arc::clone(&store)).build().await.unwrap();
        let refused = memory.append("/memories/a", "text").await.unwrap_err();
        assert!(refused.to_string().contains("/records/layer"), "{refused}");
        assert_eq!(store.0.load(Ordering::Relaxed), 1);
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

    #[cfg(feature = "layers")]
    #[tokio::test]
    async fn a_handle_names_the_actor_and_the_command_of_its_changes() {
        let memory = Memory::over(InMemoryStore::new()).history().build().await.unwrap();
        let by_ada = memory.by(Actor::from_trusted_name("ada").unwrap()).for_command("tidy");
        by_ada.update("/memories/a", |found| Ok(found.unwrap_or_else(|| b"new".to_vec()))).await.unwrap();
        let create = json!({"command": "create", "path": "/memories/b", "file_text": "text"});
        by_ada.tool().call(create).await.unwrap();
        memory.update("/memories/a", |found| Ok([found.unwrap(), b"er".to_vec()].concat())).await.unwrap();
        assert_eq!(memory.read_to_string("/memories/a").await.unwrap(), "newer");
        let entries = memory.history().unwrap().entries(&memory_tool_history::LogFilter::new()).await.unwrap();
        let named: Vec<_> = entries.iter().map(|entry| (entry.actor.as_deref(), entry.command.as_deref())).collect();
        assert_eq!(named, [(None, None), (Some("ada"), Some("create")), (Some("ada"), Some("tidy"))]);
        let refused = memory.update("/memories", |_| Ok(Vec::new())).await.unwrap_err();
        assert_eq!(refused.name(), "not_a_file");
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
    #[cfg(feature = "layers")]
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
    #[cfg(feature = "layers")]
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
        #[cfg(feature = "layers")]
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
    #[cfg(feature = "layers")]
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
    #[cfg(feature = "layers")]
    async fn an_encrypted_memory_is_not_opened_without_keys() {
        use memory_tool_encrypted::{KeyRing, RawKey};

        use crate::KeysRequired;

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
