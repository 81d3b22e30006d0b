//! [`TransferRequest`]: copies, synchronizes, exports and imports files.

use std::path::PathBuf;

use memory_tool_core::{MemoryPath, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::memory::Memory;
use crate::requests::{Outcome, RequestError};
use crate::transfer::{CopyOptions, Export, Import, SyncOptions};

/// A request that copies, synchronizes, exports or imports files. Its result is the report, with `is_complete`.
#[derive(Debug, Deserialize)]
#[expect(missing_docs, reason = "the fields are the arguments of the methods")]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum TransferRequest {
    /// [`Memory::copy_to`].
    Copy {
        /// Set by [`Request::to`](crate::requests::Request::to).
        #[serde(skip)]
        to: Option<Memory>,
        overwrite: bool,
        /// [`CopyOptions::with_history`].
        #[serde(default)]
        with_history: bool,
    },
    /// [`Memory::sync`].
    Sync {
        /// Set by [`Request::to`](crate::requests::Request::to).
        #[serde(skip)]
        to: Option<Memory>,
        /// [`SyncOptions::names`].
        #[serde(default)]
        names: Option<(String, String)>,
        #[serde(default)]
        allow_empty: bool,
    },
    /// [`Memory::export`].
    Export {
        path: PathBuf,
        overwrite: bool,
        /// The files and directories. None stands for all.
        #[serde(default)]
        within: Vec<String>,
    },
    /// [`Memory::import`].
    Import { path: PathBuf, overwrite: bool },
}

impl TransferRequest {
    pub(super) async fn perform(self, memory: &Memory) -> Result<Outcome, RequestError> {
        match self {
            Self::Copy { to, overwrite, with_history } => {
                let to = to.ok_or_else(no_other_memory)?;
                let options = if overwrite { CopyOptions::new().overwrite() } else { CopyOptions::new() };
                let options = if with_history { options.with_history() } else { options };
                let report = memory.copy_to(&to, options, |_| {}).await?;
                Ok(transferred(report.is_complete(), &report))
            }
            Self::Sync { to, names, allow_empty } => {
                let to = to.ok_or_else(no_other_memory)?;
                let named = |(first, second)| SyncOptions::new().names(first, second);
                let options = names.map_or_else(SyncOptions::new, named);
                let report = memory.sync(&to, if allow_empty { options.allow_empty() } else { options }).await?;
                Ok(transferred(report.is_complete(), &report))
            }
            Self::Export { path, overwrite, within } => {
                let within = within.iter().map(|path| MemoryPath::parse(path)).collect::<Result<Vec<_>, _>>();
                let within = within.map_err(StoreError::from)?;
                let export = within.into_iter().fold(Export::to_path(path), Export::within);
                let report = memory.export(if overwrite { export.overwrite() } else { export }, |_| {}).await?;
                Ok(transferred(report.is_complete(), &report))
            }
            Self::Import { path, overwrite } => {
                let import = Import::from_path(path);
                let report = memory.import(if overwrite { import.overwrite() } else { import }, |_| {}).await?;
                Ok(transferred(report.is_complete(), &report))
            }
        }
    }
}

fn no_other_memory() -> RequestError {
    RequestError::Invalid { field: "to".to_owned(), source: "another memory is required".into() }
}

fn transferred(is_complete: bool, report: &impl Serialize) -> Outcome {
    let mut report = json!(report);
    report["is_complete"] = is_complete.into();
    Outcome::Data(report)
}
