//! The changes since a known end of the log.

use memory_tool_core::{Node, ReadOptions, Store, StoreError, StorePath};

use crate::entry::{Entry, Origin};
use crate::log::Log;
use crate::past::Backwards;
use crate::records::{self, damaged};
use crate::tip::{KnownEnd, Tip, is_chain};
use crate::versions::{Births, Versions};

impl<S: Store> Log<S> {
    /// The entries after a known end of the log, oldest first. `None` if this log does not continue it, or if entries
    /// were removed or redacted since.
    pub(crate) async fn since(&self, tip: &Tip, known: KnownEnd) -> Result<Option<Vec<Entry>>, StoreError> {
        if known.history != tip.head.id || known.first != tip.head.first || known.number > tip.newest() {
            return Ok(None);
        }
        let new = Backwards::since(self, tip, known.number).await?;
        let last = new.last().map_or(known.id, |entry| entry.id);
        let redacts = |entry: &Entry| matches!(entry.origin, Origin::Redaction(_));
        let is_continued = is_chain(known.id, &new) && last == tip.last_id() && !new.iter().any(redacts);
        Ok(is_continued.then_some(new))
    }

    /// The files and their versions in the log, with the files of other programs.
    pub(crate) async fn versions(&self, tip: &Tip) -> Result<Versions, StoreError> {
        let versions = Versions::new(tip.head.id, self.births(tip.require_in_read()).await?, tip.head.first);
        self.continued(versions, tip).await
    }

    /// The files and their versions since the last record of the births, which suffices for the next one.
    pub(crate) async fn recent_versions(&self, tip: &Tip) -> Result<Versions, StoreError> {
        let births = self.births(tip.require_in_read()).await?;
        let after = births.as_ref().map_or(0, |births| births.after).clamp(tip.head.first - 1, tip.newest());
        self.continued(Versions::new(tip.head.id, births, after + 1), tip).await
    }

    async fn continued(&self, mut versions: Versions, tip: &Tip) -> Result<Versions, StoreError> {
        for entry in Backwards::since(self, tip, versions.last.0).await? {
            versions.add(&entry);
        }
        let options = tip.require_in_read();
        versions.observe(&self.store.read_opts(&StorePath::memories(), options).await?.into_listing().files);
        Ok(versions)
    }

    pub(crate) async fn births(&self, options: ReadOptions) -> Result<Option<Births>, StoreError> {
        match self.store.read_opts(&records::births(), options).await? {
            Node::File(file) => serde_json::from_slice(&file.content).map(Some).map_err(damaged),
            _ => Ok(None),
        }
    }
}
