//! [`CareRequest`]: maintains a memory.

use memory_tool_core::{MemoryPath, StoreError};
use memory_tool_policies::SweepReport;
use serde::Deserialize;
use serde_json::json;

use crate::lint::{LintOptions, LintRule};
use crate::memory::Memory;
use crate::requests::Outcome;

/// A request that maintains a memory: a method of [`Memory`].
#[derive(Debug, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum CareRequest {
    /// [`Memory::usage`].
    Usage {},
    /// [`Memory::scopes`].
    Scopes {},
    /// [`Memory::expire`]. Returns the removed paths.
    Expire {},
    /// [`Memory::expire_all`]. Returns the removed paths.
    ExpireAll {},
    /// [`Memory::forget`].
    Forget {},
    /// [`Memory::verify`].
    Verify {},
    /// [`Memory::lint`], with its rules and places.
    Lint {
        /// The rules, or else all.
        #[serde(default)]
        only: Vec<LintRule>,
        /// The rules to leave out.
        #[serde(default)]
        off: Vec<LintRule>,
        /// The files and directories, or else all.
        #[serde(default)]
        within: Vec<MemoryPath>,
    },
}

impl CareRequest {
    pub(super) async fn perform(self, memory: &Memory) -> Result<Outcome, StoreError> {
        Ok(match self {
            Self::Usage {} => Outcome::Usage(memory.usage().await?),
            Self::Scopes {} => Outcome::Data(memory.scopes().await?.iter().map(|scope| scope.name()).collect()),
            Self::Expire {} => removed(&memory.expire().await?),
            Self::ExpireAll {} => removed(&memory.expire_all().await?),
            Self::Forget {} => {
                memory.forget().await?;
                Outcome::Done
            }
            Self::Verify {} => Outcome::Data(json!(memory.verify(|_| {}).await?)),
            Self::Lint { only, off, within } => {
                let options = only.into_iter().fold(LintOptions::new(), LintOptions::only);
                let options = off.into_iter().fold(options, LintOptions::off);
                let options = within.into_iter().fold(options, LintOptions::within);
                Outcome::Data(json!(memory.lint(&options).await?))
            }
        })
    }
}

fn removed(swept: &SweepReport) -> Outcome {
    Outcome::Data(swept.removed.iter().map(|path| path.as_str()).collect())
}
