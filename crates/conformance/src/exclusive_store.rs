//! [`ExclusiveStore`]: a store that only one process can open, such as an embedded database.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_core::{Batch, ErrorKind, Node, ReadOptions, Store, StoreError, StorePath};
use tokio::sync::Mutex;

use crate::access::{Access, Opened};
use crate::failure::CaseError;
use crate::fixture::FixtureError;
use crate::session::Session;

/// A store that is closed before a program opens it. The next call kills that program and opens the store again.
pub(crate) struct ExclusiveStore {
    user: Mutex<User>,
    access: Arc<dyn Access>,
}

enum User {
    Here(Arc<dyn Store>),
    Program(Arc<dyn Session>),
    Nobody,
}

impl ExclusiveStore {
    pub(crate) fn new(store: Arc<dyn Store>, access: Arc<dyn Access>) -> Self {
        Self { user: Mutex::new(User::Here(store)), access }
    }

    /// Lets a program open the store.
    pub(crate) async fn lend(
        &self,
        start: impl FnOnce() -> Result<Arc<dyn Session>, CaseError>,
    ) -> Result<Arc<dyn Session>, CaseError> {
        let mut user = self.user.lock().await;
        user.end().await;
        let session = start()?;
        *user = User::Program(Arc::clone(&session));
        Ok(session)
    }

    /// Closes the store and opens it again.
    pub(crate) async fn reopen(&self) -> Result<(), FixtureError> {
        self.user.lock().await.end().await;
        self.opened().await.map(drop)
    }

    async fn opened(&self) -> Result<Arc<dyn Store>, FixtureError> {
        let mut user = self.user.lock().await;
        if let User::Here(store) = &*user {
            return Ok(Arc::clone(store));
        }
        user.end().await;
        let Opened::Store(store) = self.access.reopen().await? else {
            return Err(FixtureError::unsupported("the fixture opens no store"));
        };
        *user = User::Here(Arc::clone(&store));
        Ok(store)
    }

    async fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
        let failed = |error| StoreError::failure(ErrorKind::Other, "opening the store again", error);
        self.opened().await.map_err(failed)
    }
}

impl User {
    async fn end(&mut self) {
        if let Self::Program(session) = std::mem::replace(self, Self::Nobody) {
            let _ = session.kill().await; // fails if it has already ended
        }
    }
}

impl fmt::Debug for ExclusiveStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExclusiveStore").finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for ExclusiveStore {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        self.open().await?.read_opts(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.open().await?.apply(batch).await
    }
}
