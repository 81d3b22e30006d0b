//! [`Session`]: an opened store of a process.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory_tool_bucket::{BucketStore, BucketStoreBuilder};
use memory_tool_core::{Actor, Batch, Node, OpenError, OpenOptions, ReadOptions, Store, StoreError, StorePath};
use memory_tool_history::HistoryStore;
use memory_tool_test_fixtures::linearizability::Mistake;

use crate::bucket::{Client, Connection};

/// The prefix of the store.
pub(crate) const PREFIX: &str = "memory";

/// An opened store.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) client: Arc<Client>,
    pub(crate) bucket: BucketStore,
    pub(crate) history: Option<HistoryStore<BucketStore>>,
    /// The store with all layers, and with a mistake if there is one.
    store: Arc<dyn Store>,
}

/// The options of a session of a client.
pub(crate) fn builder(client: &Arc<Client>, timeout: Duration) -> BucketStoreBuilder {
    let connection = Arc::new(Connection(Arc::clone(client)));
    BucketStore::builder(connection, PREFIX.into()).options(OpenOptions::new().timeout(timeout))
}

impl Session {
    pub(crate) async fn open(
        client: Arc<Client>,
        timeout: Duration,
        has_history: bool,
        mistake: Option<Mistake>,
    ) -> Result<Self, OpenError> {
        let bucket = builder(&client, timeout).open().await?;
        let history = has_history.then(|| HistoryStore::new(bucket.clone()).timeout(timeout));
        let store: Arc<dyn Store> = match &history {
            Some(history) => Arc::new(history.clone()),
            None => Arc::new(bucket.clone()),
        };
        let store = mistake.map_or(Arc::clone(&store), |mistake| mistake.wrap(store).into());
        Ok(Self { client, bucket, history, store })
    }

    /// The store with all layers.
    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// The store, with the number of a call as the actor of its changes.
    pub(crate) fn for_call(&self, number: usize) -> impl Store + use<> {
        ForCall { session: self.clone(), actor: Actor::from_trusted_name(&number.to_string()).unwrap() }
    }
}

#[derive(Debug)]
struct ForCall {
    session: Session,
    actor: Actor,
}

#[async_trait]
impl Store for ForCall {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        self.session.store().read_opts(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.session.store().apply(batch.by(self.actor.clone())).await
    }
}
