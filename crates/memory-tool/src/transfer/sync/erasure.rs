//! [`ErasingStore`]: an erasure in a history also erases records of synchronizations.

use async_trait::async_trait;
use memory_tool_core::{Batch, Node, Precondition, ReadOptions, Store, StoreError, StorePath};

use crate::named_store::SharedStore;
use crate::transfer::sync::table::{self, Table};

/// The command of all erasures.
const ERASURE: &str = "redact";

/// A wrapper that also erases the digests and texts in the records of synchronizations, in the same step.
#[derive(Debug)]
pub(crate) struct ErasingStore(pub(crate) SharedStore);

#[async_trait]
impl Store for ErasingStore {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        self.0.read_opts(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        if batch.command() != Some(ERASURE) {
            return self.0.apply(batch).await;
        }
        let Node::File(file) = self.0.read_opts(&table::record(), ReadOptions::new()).await? else {
            return self.0.apply(batch).await;
        };
        let batch = batch.require(table::record(), Precondition::Version(file.version));
        let Ok(mut table) = Table::parse(&file.content) else {
            return self.0.apply(batch.remove(table::root())).await; // it is damaged
        };
        table.erase_contents();
        let texts = self.0.read_opts(&table::root_of_texts(), ReadOptions::new()).await?;
        let batch = if matches!(texts, Node::Absent) { batch } else { batch.remove(table::root_of_texts()) };
        self.0.apply(batch.write(table::record(), table.next_record()?)).await
    }
}
