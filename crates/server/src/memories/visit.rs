//! [`Door`] and [`Visit`]: the way of all fronts to a memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use memory_tool::command::{CommandName, TurnGuard};
use memory_tool::policies::SweepReport;
use memory_tool::store::{MemoryName, Precondition, ReadOnlyStore};
use memory_tool::{Actor, Memory, MemoryPath, StoreError};
use serde_json::{Map, Value};
use tokio::sync::OwnedSemaphorePermit;
use tracing::Span;

use super::guard::{GuardedStore, has_files};
use super::record::StoreRecord;
use super::tree::{Audience, Tree};
use super::{Memories, OpenMemory};
use crate::access::{Caller, Right};
use crate::http::error::ApiError;

/// The purpose of a visit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// Reads at any time.
    Look,
    /// Runs a command in its turn. An archived memory refuses each command that can change it.
    Run(Option<CommandName>),
    /// Removes in its turn, also from an archived memory.
    Remove,
}

impl Purpose {
    /// Changes in its turn. An archived memory refuses it.
    pub(crate) const CHANGE: Self = Self::Run(None);
}

/// A memory that a caller may use.
#[derive(Clone, Debug)]
pub(crate) struct Door {
    pub(crate) open: Arc<OpenMemory>,
    /// The memory, or a session of a proposal over it.
    pub(crate) memory: Memory,
    actor: Option<Actor>,
    /// Whether a command creates the memory.
    creates: bool,
    /// Whether the caller can only look into it.
    is_read_only: bool,
    /// The shared memories in it.
    tree: Tree,
    /// The shared memories that a command changes.
    touched: Vec<MemoryName>,
}

impl Door {
    /// The memory with this id, if the caller has a right in it.
    ///
    /// # Errors
    /// [`ApiError`] 404 if the caller cannot see it, 403 if the right is missing, or the error of the storage.
    pub(crate) async fn find(
        memories: &Arc<Memories>,
        caller: &Caller,
        id: &str,
        right: Right,
    ) -> Result<Self, ApiError> {
        let name = named(id)?;
        Self::reach(memories, caller, &name, right, Audience::Person).await
    }

    /// The memory with this id for commands of the tool, or the session of a proposal over it. A caller that may create
    /// it does so with its commands.
    ///
    /// # Errors
    /// The errors of [`find`](Self::find).
    pub(crate) async fn for_tool(memories: &Arc<Memories>, caller: &Caller, id: &str) -> Result<Self, ApiError> {
        let name = named(id)?;
        Self::reach(memories, caller, &name, caller.tool_right(), Audience::Agent).await
    }

    /// A memory in which the caller has a right, also in another one.
    pub(super) async fn reach(
        memories: &Arc<Memories>,
        caller: &Caller,
        name: &MemoryName,
        right: Right,
        audience: Audience,
    ) -> Result<Self, ApiError> {
        caller.check(right, Some(name))?;
        let door = Self::new(memories, caller, name, audience).await?;
        let proposal = memories.proposal_of(caller).filter(|_| audience == Audience::Agent);
        let Some(proposal) = proposal else { return Ok(door) };
        Ok(Self { memory: memories.propose(&door.open, proposal).await?, ..door })
    }

    /// A memory that the first change creates. The caller may create all memories.
    pub(crate) async fn create(memories: &Arc<Memories>, caller: &Caller, name: &MemoryName) -> Result<Self, ApiError> {
        Span::current().record("memory", name.as_str());
        Self::new(memories, caller, name, Audience::Creator).await
    }

    /// A memory for the upkeep, which no request asks for.
    pub(crate) async fn of_upkeep(memories: &Arc<Memories>, name: &MemoryName) -> Result<Self, ApiError> {
        let open = memories.open(name).await?;
        let (memory, tree) = (open.memory.clone(), Tree::default());
        Ok(Self { memory, open, actor: None, creates: false, is_read_only: false, tree, touched: Vec::new() })
    }

    async fn new(
        memories: &Arc<Memories>,
        caller: &Caller,
        name: &MemoryName,
        audience: Audience,
    ) -> Result<Self, ApiError> {
        let creates = match audience {
            Audience::Person => false,
            Audience::Agent => caller.creates() && caller.can_change(name),
            Audience::Creator => true,
        };
        let open = if creates { memories.create(name).await? } else { memories.open(name).await? };
        Ok(Self {
            memory: open.memory.clone(),
            open,
            actor: Some(caller.actor().clone()),
            creates,
            is_read_only: !caller.can_change(name),
            tree: Tree::new(memories, caller, name, audience),
            touched: Vec::new(),
        })
    }

    /// For commands at these paths. They also wait for their turn in the shared memories that they change.
    pub(crate) fn touching<'a>(mut self, paths: impl Iterator<Item = &'a str>) -> Self {
        let paths = paths.filter_map(|path| MemoryPath::parse(path).ok());
        self.touched = paths.filter_map(|path| self.tree.owner(&path).map(|mount| mount.memory.clone())).collect();
        self
    }

    /// The shared memories in it.
    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Enters once it is the turn of the visit.
    ///
    /// # Errors
    /// [`ApiError`] 404 if the memory does not exist, 400 if it is archived, or the error of the storage.
    pub(crate) async fn enter(&self, purpose: Purpose) -> Result<Visit, ApiError> {
        let turns = match purpose {
            Purpose::Look => Vec::new(),
            Purpose::Run(command) => self.enter_queues(command).await,
            Purpose::Remove => self.enter_queues(None).await,
        };
        let (record, state) = StoreRecord::read(&*self.memory.store()).await?;
        // Something can remain in the storage of a memory that was deleted.
        if record.is_none() && !self.creates && !self.open.is_begun().await? {
            return Err(ApiError::no_such_memory(self.open.name.as_str()));
        }
        let can_change = matches!(purpose, Purpose::Run(command) if command != Some(CommandName::View));
        if can_change {
            record.as_ref().map_or(Ok(()), StoreRecord::refuse_archived)?;
        }
        let (creates, removes) = (self.creates, matches!(purpose, Purpose::Remove));
        let created_at = record.as_ref().map(|record| record.created_at);
        let memory = self.actor.iter().fold(self.memory.clone(), |memory, actor| memory.by(actor.clone()));
        let memory = memory.layered(|inner| Arc::new(GuardedStore { inner, creates, removes, created_at }));
        let memory =
            if self.is_read_only { memory.layered(|inner| Arc::new(ReadOnlyStore::new(inner))) } else { memory };
        Ok(Visit { open: Arc::clone(&self.open), memory, record, state, tree: self.tree.clone(), turns })
    }

    /// Waits for the turn in each memory that a command changes, in one order for all callers.
    async fn enter_queues(&self, command: Option<CommandName>) -> Vec<Turn> {
        let mut memories = BTreeMap::from([(&self.open.name, Arc::clone(&self.open))]);
        for name in &self.touched {
            // Its store reports a failure.
            if let Some(open) = self.tree.open(name).await {
                memories.insert(name, open);
            }
        }
        let mut turns = Vec::new();
        for open in memories.into_values() {
            turns.push(open.enter(command).await);
        }
        turns
    }
}

/// The name of the memory of a request, which lines of the log have.
fn named(id: &str) -> Result<MemoryName, ApiError> {
    let name: MemoryName = id.parse().map_err(|_| ApiError::no_such_memory(id))?;
    Span::current().record("memory", name.as_str());
    Ok(name)
}

/// The paths in the input of a command.
pub(crate) fn paths_in(input: &Map<String, Value>) -> impl Iterator<Item = &str> {
    ["path", "old_path", "new_path"].into_iter().filter_map(|field| input.get(field)?.as_str())
}

type Turn = (TurnGuard, Option<OwnedSemaphorePermit>);

/// The use of a memory by one request.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) open: Arc<OpenMemory>,
    /// The memory for the caller. Each change requires that the memory is still the same one, and that it is not
    /// archived, because another server can delete or archive it at any time.
    pub(crate) memory: Memory,
    /// The record of the memory, if it has one.
    pub(crate) record: Option<StoreRecord>,
    state: Precondition,
    tree: Tree,
    #[expect(dead_code, reason = "held, so that other changes wait")]
    turns: Vec<Turn>,
}

impl Visit {
    /// The name of the memory, which is also its id.
    pub(crate) fn name(&self) -> &str {
        self.open.name.as_str()
    }

    /// The memory with the shared memories in it, as one tree.
    ///
    /// # Errors
    /// [`ApiError`] 500 if two are at one place.
    pub(crate) fn whole(&self) -> Result<Memory, ApiError> {
        self.tree.over(&self.memory)
    }

    /// The memory without the shared memories, and without the own files that they hide.
    ///
    /// # Errors
    /// [`ApiError`] 500 if two are at one place.
    pub(crate) fn own(&self) -> Result<Memory, ApiError> {
        self.tree.beside(&self.memory)
    }

    /// Removes expired files, unless the record has changed.
    pub(crate) async fn expire(&self) -> Result<SweepReport, StoreError> {
        self.open.memory.expire_if(StoreRecord::path(), self.state.clone()).await
    }
}

impl OpenMemory {
    /// Whether the memory has a history, files or changes that wait.
    async fn is_begun(&self) -> Result<bool, ApiError> {
        if let Some(history) = self.memory.history()
            && history.is_started().await?
        {
            return Ok(true);
        }
        Ok(has_files(&self.memory.store()).await?)
    }

    /// Waits until earlier commands of all clients have ended, and few views run.
    async fn enter(&self, command: Option<CommandName>) -> Turn {
        let turn = self.queue.enter(command).await;
        let view = match command {
            Some(CommandName::View) => Arc::clone(&self.views).acquire_owned().await.ok(),
            _ => None,
        };
        (turn, view)
    }
}

#[cfg(test)]
mod tests {
    use memory_tool::StoreUrl;
    use memory_tool::store::Batch;
    use memory_tool_test_fixtures::session::Place;

    use super::*;
    use crate::ServerOptions;
    use crate::access::Grant;

    const ID: &str = "alice";

    /// Two servers on one directory.
    async fn servers(place: &Place) -> [Arc<Memories>; 2] {
        let options = || {
            let mut options = ServerOptions::new(StoreUrl::Local(place.outside("memories")), "tokens");
            options.memory.history = true;
            options.memory.expire_after = Some(std::time::Duration::from_secs(3_600));
            options
        };
        [(); 2].map(|()| Arc::new(Memories::new(&options())))
    }

    fn caller() -> Caller {
        Caller::new(Actor::from_trusted_name("key").unwrap(), vec![Grant::All], Right::ALL.to_vec())
    }

    async fn visit(memories: &Arc<Memories>, right: Right, purpose: Purpose) -> Result<Visit, ApiError> {
        Door::find(memories, &caller(), ID, right).await?.enter(purpose).await
    }

    async fn write_record(visit: &Visit, created_at: u64, archived_at: Option<u64>) {
        let record = StoreRecord { created_at, archived_at, ..StoreRecord::default() };
        let batch = Batch::new().write(StoreRecord::path(), serde_json::to_vec(&record).unwrap());
        visit.open.memory.store().apply(batch).await.unwrap();
    }

    #[tokio::test]
    async fn a_visit_changes_only_the_memory_that_it_entered() {
        for (has_record, is_deleted) in [(true, true), (false, true), (true, false), (false, false)] {
            let place = Place::in_memory();
            let [one, other] = servers(&place).await;
            let new = Door::create(&one, &caller(), &ID.parse().unwrap()).await.unwrap();
            let new = new.enter(Purpose::CHANGE).await.unwrap();
            new.memory.write("/memories/a", "old").await.unwrap();
            if has_record {
                write_record(&new, 1, None).await;
            }
            drop(new);
            let entered = visit(&one, Right::Write, Purpose::CHANGE).await.unwrap();
            // The second server is faster.
            let faster = visit(&other, Right::Admin, Purpose::Remove).await.unwrap();
            if is_deleted {
                faster.memory.forget().await.unwrap();
                if has_record {
                    write_record(&faster, 2, None).await;
                }
            } else {
                write_record(&faster, 1, Some(1)).await;
            }
            let late = entered.memory.write("/memories/b", "late").await;
            assert!(late.is_err(), "{has_record} {is_deleted}");
            assert!(entered.memory.history().unwrap().undo(1).await.is_err());
            drop(entered);
            let now = visit(&one, Right::Write, Purpose::CHANGE).await.map(drop);
            let expected = if is_deleted && has_record { None } else { Some(if is_deleted { 404 } else { 400 }) };
            assert_eq!(now.err().map(|error| error.status().as_u16()), expected);
        }
    }

    #[tokio::test]
    async fn each_purpose_has_its_rules() {
        let place = Place::in_memory();
        let [memories, _] = servers(&place).await;
        for right in Right::ALL {
            let missing = visit(&memories, right, Purpose::Look).await.unwrap_err();
            assert_eq!(missing.status(), 404);
        }
        let new = Door::create(&memories, &caller(), &ID.parse().unwrap()).await.unwrap();
        let new = new.enter(Purpose::CHANGE).await.unwrap();
        new.memory.write("/memories/a", "old").await.unwrap();
        write_record(&new, 1, Some(1)).await;
        drop(new);
        for (purpose, is_allowed) in [
            (Purpose::Look, true),
            (Purpose::Run(Some(CommandName::View)), true),
            (Purpose::Run(Some(CommandName::Create)), false),
            (Purpose::CHANGE, false),
            (Purpose::Remove, true),
        ] {
            let entered = visit(&memories, Right::Write, purpose).await;
            assert_eq!(
                entered.as_ref().err().map(ApiError::status),
                (!is_allowed).then_some(axum::http::StatusCode::BAD_REQUEST)
            );
            let Ok(entered) = entered else { continue };
            let changed = entered.memory.write("/memories/b", "new").await;
            assert_eq!(changed.is_ok(), matches!(purpose, Purpose::Remove), "{purpose:?}");
        }
        let reader = Caller::new(Actor::from_trusted_name("key").unwrap(), vec![Grant::All], vec![Right::Read]);
        assert_eq!(Door::find(&memories, &reader, ID, Right::Write).await.unwrap_err().status(), 403);
    }
}
