//! [`Memories`]: the memories of one store.

pub(crate) mod failure;
mod folded;
mod guard;
pub(crate) mod record;
pub(crate) mod tree;
pub(crate) mod tree_watch;
pub(crate) mod upkeep;
pub(crate) mod visit;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use futures::{StreamExt as _, future, stream};
use memory_tool::command::CommandQueue;
use memory_tool::history::VersionCache;
use memory_tool::proposals::ProposalName;
use memory_tool::store::MemoryName;
use memory_tool::{Memory, MemoryOptions, OpenOptions, OptionsError, Quota, StoreExt as _, StoreUrl, lock};
use tokio::sync::{OnceCell, Semaphore};
use tokio::task::spawn_blocking;

use crate::access::{Caller, Right};
use crate::http::error::ApiError;
use crate::http::offload::PROCESSORS;
use crate::options::{MemoryQuota, ServerOptions};
use folded::has_other_name;

const MAX_VIEWS: usize = 8;
/// The memories whose files are counted at the same time.
const MAX_COUNTED: usize = 16;

/// The memories of one store, by their names. The name is the id of the memory in the API.
#[derive(Debug)]
pub(crate) struct Memories {
    place: StoreUrl,
    options: MemoryOptions,
    /// The options of sessions of proposals, perhaps with the name of a proposal for all commands of the tool.
    proposing: MemoryOptions,
    quotas: BTreeMap<String, MemoryQuota>,
    max_open: usize,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    memories: HashMap<MemoryName, Slot>,
    /// Grows with each use.
    clock: u64,
}

/// A memory that is open or being opened. Concurrent requests wait for the same opening.
#[derive(Debug)]
struct Slot {
    memory: Arc<OnceCell<Arc<OpenMemory>>>,
    last_use: u64,
}

impl Slot {
    fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.memory) > 1 || self.memory.get().is_some_and(|memory| Arc::strong_count(memory) > 1)
    }
}

/// An open memory.
#[derive(Debug)]
pub(crate) struct OpenMemory {
    /// The name, which is also the id.
    pub(crate) name: MemoryName,
    /// The memory, with its policies and history.
    pub(crate) memory: Memory,
    /// The limits of the memory.
    pub(crate) quota: Quota,
    /// Whether unused files expire.
    pub(crate) expires: bool,
    /// The order of the commands of all clients. Without it, many clients that change one file would fail each other's
    /// preconditions until some give up.
    queue: CommandQueue,
    /// The views that run at the same time. Each can read a large file.
    views: Arc<Semaphore>,
    /// The processors for its commands.
    pub(crate) processors: Arc<Semaphore>,
    /// The versions of all files, for the Memory Stores API.
    pub(crate) versions: VersionCache,
    /// The sessions of proposals, which stay open with it.
    sessions: Mutex<HashMap<ProposalName, Arc<OnceCell<Memory>>>>,
}

impl Memories {
    pub(crate) fn new(options: &ServerOptions) -> Self {
        let (place, max_open) = (options.store.clone(), options.max_open_memories);
        let quotas = options.quotas.clone();
        let proposing = options.memory();
        let mut options = proposing.clone();
        (options.propose, options.propose_except, options.propose_over) = (None, Vec::new(), None);
        Self { place, options, proposing, quotas, max_open, open: Mutex::default() }
    }

    /// The proposal in which a caller runs commands of the tool.
    pub(crate) fn proposal_of(&self, caller: &Caller) -> Option<ProposalName> {
        let of_caller = || (caller.tool_right() == Right::Propose).then(|| ProposalName::of_actor(caller.actor()));
        self.proposing.propose.clone().or_else(of_caller)
    }

    /// Opens a session of a proposal over an open memory, or returns the one that is open.
    pub(crate) async fn propose(&self, open: &OpenMemory, proposal: ProposalName) -> Result<Memory, ApiError> {
        let session = Arc::clone(lock(&open.sessions).entry(proposal.clone()).or_default());
        let opening = async || {
            let mut options = self.with_quota(&self.proposing, &open.name);
            (options.propose, options.gc_every) = (Some(proposal), None);
            Ok::<_, ApiError>(options.build(self.place_of(&open.name)?).await?)
        };
        session.get_or_try_init(opening).await.cloned()
    }

    fn place_of(&self, name: &MemoryName) -> Result<StoreUrl, ApiError> {
        self.place.child(name.as_str()).ok_or_else(|| ApiError::no_such_memory(name.as_str()))
    }

    /// The options of one memory.
    fn with_quota(&self, options: &MemoryOptions, name: &MemoryName) -> MemoryOptions {
        let mut options = options.clone();
        if let Some(own) = self.quotas.get(name.as_str()) {
            options.max_file_bytes = own.max_file_bytes.or(options.max_file_bytes);
            options.max_files = own.max_files.or(options.max_files);
            options.max_bytes = own.max_bytes.or(options.max_bytes);
        }
        options.audit_memory = Some(name.to_string());
        options
    }

    /// How much of its fullest limit each open memory uses.
    pub(crate) async fn used_shares(&self) -> Vec<(MemoryName, f64)> {
        let share = async |memory: &OpenMemory| {
            let usage = memory.memory.store().usage().await.ok()?;
            let limits = [(usage.files, memory.quota.files), (usage.bytes, memory.quota.bytes)];
            limits.into_iter().filter_map(|(used, limit)| Some(used as f64 / limit? as f64)).reduce(f64::max)
        };
        self.of_each_open(share).await
    }

    /// How long the oldest proposal of each open memory has waited, in seconds.
    pub(crate) async fn waiting_seconds(&self) -> Vec<(MemoryName, f64)> {
        let waiting = async |memory: &OpenMemory| {
            let listed = memory.memory.proposals()?.list().await.ok()?;
            let oldest =
                listed.iter().filter(|proposal| !proposal.is_damaged).map(|proposal| proposal.created).min()?;
            Some(oldest.elapsed().unwrap_or_default().as_secs_f64())
        };
        self.of_each_open(waiting).await
    }

    /// A figure of each open memory that has one.
    async fn of_each_open(&self, measure: impl AsyncFn(&OpenMemory) -> Option<f64>) -> Vec<(MemoryName, f64)> {
        let open: Vec<_> =
            lock(&self.open).memories.values().filter_map(|slot| slot.memory.get().map(Arc::clone)).collect();
        let figures = open.into_iter().map(async |memory| Some((memory.name.clone(), measure(&memory).await?)));
        stream::iter(figures).buffer_unordered(MAX_COUNTED).filter_map(future::ready).collect().await
    }

    /// The names of all memories, sorted.
    pub(crate) async fn names(&self) -> Result<Vec<MemoryName>, ApiError> {
        let found = match self.place.memories(OpenOptions::new()).await {
            Err(error) if error.is_not_found() => Vec::new(),
            found => found.map_err(OptionsError::from)?,
        };
        // A store at the place itself is also found, but has no name in it.
        let is_child = |url: &StoreUrl, name: &str| self.place.child(name).as_ref() == Some(url);
        let names = found.iter().filter_map(|url| url.name().filter(|name| is_child(url, name))?.parse().ok());
        let mut names: Vec<_> = names.collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Opens a memory that exists.
    pub(crate) async fn open(&self, name: &MemoryName) -> Result<Arc<OpenMemory>, ApiError> {
        self.open_with(name, true).await
    }

    /// Creates a memory, or opens it if it exists.
    pub(crate) async fn create(&self, name: &MemoryName) -> Result<Arc<OpenMemory>, ApiError> {
        self.open_with(name, false).await
    }

    async fn open_with(&self, name: &MemoryName, must_exist: bool) -> Result<Arc<OpenMemory>, ApiError> {
        let place = self.place_of(name)?;
        let cell = self.slot(name);
        let opening = async || {
            refuse_other_names(&place, name).await?;
            let mut options = self.with_quota(&self.options, name);
            options.must_exist |= must_exist;
            let quota = options.quota();
            let memory = options.build(place).await.map_err(|error| match &error {
                OptionsError::Open(open) if open.is_not_found() => ApiError::no_such_memory(name.as_str()),
                _ => error.into(),
            })?;
            Ok(Arc::new(OpenMemory {
                name: name.clone(),
                memory,
                quota,
                expires: self.options.expire_after.is_some(),
                queue: CommandQueue::new(),
                views: Arc::new(Semaphore::new(MAX_VIEWS)),
                processors: Arc::new(Semaphore::new(PROCESSORS)),
                versions: VersionCache::default(),
                sessions: Mutex::default(),
            }))
        };
        let opened = cell.get_or_try_init(opening).await.cloned();
        drop(cell);
        if opened.is_err() {
            self.forget_unopened(name);
        }
        opened
    }

    /// The slot of a memory. Makes room for a new one.
    fn slot(&self, name: &MemoryName) -> Arc<OnceCell<Arc<OpenMemory>>> {
        let mut open = lock(&self.open);
        open.clock += 1;
        let last_use = open.clock;
        if let Some(slot) = open.memories.get_mut(name) {
            slot.last_use = last_use;
            return Arc::clone(&slot.memory);
        }
        // More of them were in use at a time than may stay open.
        while open.memories.len() >= self.max_open {
            let idle = open.memories.iter().filter(|(_, slot)| !slot.is_in_use());
            let oldest = idle.min_by_key(|(_, slot)| slot.last_use).map(|(name, _)| name.clone());
            let Some(oldest) = oldest else { break };
            open.memories.remove(&oldest);
        }
        let memory = Arc::default();
        open.memories.insert(name.clone(), Slot { memory: Arc::clone(&memory), last_use });
        metrics::gauge!("memory_server_open_memories").set(open.memories.len() as f64);
        memory
    }

    fn forget_unopened(&self, name: &MemoryName) {
        let mut open = lock(&self.open);
        if open.memories.get(name).is_some_and(|slot| slot.memory.get().is_none() && !slot.is_in_use()) {
            open.memories.remove(name);
        }
    }
}

/// Refuses a directory of another memory, which a disk finds under this name too.
async fn refuse_other_names(place: &StoreUrl, name: &MemoryName) -> Result<(), ApiError> {
    let (StoreUrl::Local(path) | StoreUrl::TrustedDirectory { path, .. }) = place else { return Ok(()) };
    let path = path.clone();
    let found = spawn_blocking(move || has_other_name(&path)).await.map_err(ApiError::internal)?;
    if found.map_err(ApiError::internal)? { Err(ApiError::no_such_memory(name.as_str())) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use memory_tool_test_fixtures::by_tier;
    use memory_tool_test_fixtures::session::Place;

    use super::*;

    const MAX_OPEN: usize = 256;

    /// Memories in RAM, as the tests open thousands.
    fn memories(place: &Place) -> Memories {
        Memories::new(&options(place))
    }

    fn options(place: &Place) -> ServerOptions {
        ServerOptions::new(StoreUrl::Local(place.outside("memories")), "tokens")
    }

    /// [`memories`]. Few of them stay open.
    fn few_memories(place: &Place, max_open: usize) -> Memories {
        let mut options = options(place);
        options.max_open_memories = max_open;
        Memories::new(&options)
    }

    fn name(text: &str) -> MemoryName {
        text.parse().unwrap()
    }

    #[tokio::test]
    async fn only_children_of_the_place_have_names() {
        let place = Place::in_memory();
        for memory in ["memories", "bob/memories", "alice/memories", "other"] {
            std::fs::create_dir_all(place.outside("memories").join(memory)).unwrap();
        }
        let names = memories(&place).names().await.unwrap();
        assert_eq!(names.iter().map(MemoryName::as_str).collect::<Vec<_>>(), ["alice", "bob"]);
    }

    #[tokio::test]
    async fn the_number_of_open_memories_is_bounded() {
        let place = Place::in_memory();
        let memories = memories(&place);
        let mut opened: Vec<Weak<OpenMemory>> = Vec::new();
        for number in 0..by_tier(600, 10_000) {
            let memory = memories.create(&name(&format!("m{number}"))).await.unwrap();
            opened.push(Arc::downgrade(&memory));
        }
        let open: Vec<_> = opened.iter().map(|memory| memory.strong_count() > 0).collect();
        let (closed, kept) = open.split_at(open.len() - MAX_OPEN);
        assert!(!closed.contains(&true) && !kept.contains(&false), "the last {MAX_OPEN} stay open");
    }

    #[tokio::test]
    async fn the_least_recently_used_memory_is_closed() {
        let place = Place::in_memory();
        let memories = few_memories(&place, 2);
        let open = async |text: &str| Arc::downgrade(&memories.create(&name(text)).await.unwrap());
        let (a, b) = (open("a").await, open("b").await);
        assert!(a.ptr_eq(&open("a").await));
        open("c").await;
        assert_eq!((a.strong_count(), b.strong_count()), (1, 0));
    }

    #[tokio::test]
    async fn a_memory_in_use_is_never_closed() {
        let place = Place::in_memory();
        let memories = few_memories(&place, 2);
        let mut used = Vec::new();
        for number in 0..5 {
            used.push(memories.create(&name(&format!("used{number}"))).await.unwrap());
            memories.create(&name(&format!("other{number}"))).await.unwrap();
        }
        for memory in &used {
            assert!(Arc::ptr_eq(memory, &memories.open(&memory.name).await.unwrap()));
        }
        drop(used);
        memories.create(&name("last")).await.unwrap();
        assert_eq!(lock(&memories.open).memories.len(), 2);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn concurrent_requests_share_one_opening() {
        let place = Place::in_memory();
        let memories = Arc::new(few_memories(&place, 4));
        for round in 0..20 {
            let opening: Vec<_> = (0..64)
                .map(|_| {
                    let memories = Arc::clone(&memories);
                    tokio::spawn(async move { memories.create(&name(&format!("m{round}"))).await.unwrap() })
                })
                .collect();
            let mut opened = Vec::new();
            for opening in opening {
                opened.push(opening.await.unwrap());
            }
            assert!(opened.iter().all(|memory| Arc::ptr_eq(memory, &opened[0])));
        }
    }

    #[tokio::test]
    async fn a_missing_memory_takes_no_place() {
        let place = Place::in_memory();
        let memories = few_memories(&place, 1);
        let kept = Arc::downgrade(&memories.create(&name("kept")).await.unwrap());
        assert!(memories.open(&name("missing")).await.is_err());
        assert_eq!(lock(&memories.open).memories.len() + kept.strong_count(), 0);
    }
}
