//! [`SearchRequest`]: a search of the memory, or of an earlier state.

use memory_tool_core::Search;
use serde::Deserialize;
use serde_json::json;

use crate::memory::Memory;
use crate::requests::history::required;
use crate::requests::{Outcome, RequestError};

/// A search. Its result is the [`SearchReport`](crate::search::SearchReport), with its `text` for a model.
#[derive(Debug, Deserialize)]
#[non_exhaustive]
#[serde(deny_unknown_fields)]
pub struct SearchRequest {
    /// The search.
    #[serde(flatten)]
    pub search: Search,
    /// Searches the memory after this entry of its history. Default: now.
    #[serde(default)]
    pub at: Option<u64>,
}

impl SearchRequest {
    pub(super) async fn perform(self, memory: &Memory) -> Result<Outcome, RequestError> {
        let report = match self.at {
            None => memory.search(&self.search).await?,
            Some(entry) => self.search.run(&required(memory)?.at(entry).await?).await?,
        };
        let mut data = json!(report);
        data["text"] = report.to_string().into();
        Ok(Outcome::Data(data))
    }
}
