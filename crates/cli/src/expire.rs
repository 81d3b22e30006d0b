//! `memory-tool expire`: removes the files that nobody has used for a time.

use std::io;

use memory_tool::policies::{ExpiredFile, ExpiringStore, ExpiringStoreBuilder};
use memory_tool::{FailureKind, OpenMode, StoreError};
use serde::Serialize;

use crate::arguments::{ExpireArguments, StoreArgument};
use crate::failure::{Failure, on_one_line};
use crate::memory::{self, Access};
use crate::output::{count, to_json, write_line};
use crate::run::start_runtime;

/// What an [`ExpiringStore`] was doing where it fails because of its record.
const READING_ACCESS_TIMES: &str = "reading the access times";

/// Removes what is expired, or looks for it, and prints what it is.
pub(crate) fn run(arguments: &ExpireArguments) -> Result<(), Failure> {
    memory::refuse_temporary(&arguments.store.url)?;
    let outcome = start_runtime()?.block_on(expire(arguments))?;
    let text = if arguments.json { to_json(&outcome)? } else { outcome.to_text().into_bytes() };
    // Whether anybody still read it changes nothing: what was removed is removed.
    write_line(&mut io::stdout().lock(), text).map(|_| ())
}

async fn expire(arguments: &ExpireArguments) -> Result<Outcome, Failure> {
    let ExpireArguments { store: StoreArgument { url, encryption }, scope, .. } = arguments;
    let access = Access::Mode(if arguments.dry_run { OpenMode::ReadOnly } else { OpenMode::Existing });
    let mut builder = memory::builder(url, encryption, access).await?;
    if let Some(scope) = scope {
        builder = builder.scope(scope.clone());
    }
    // By hand, as a search must not record anything.
    let rules = ExpiringStore::builder(memory::open(builder).await?.store(), arguments.expire_after.0);
    let expiring = arguments.pin.iter().cloned().fold(rules, ExpiringStoreBuilder::pin).build();
    let expiring = expiring.map_err(Failure::Expiry)?;
    if arguments.reset {
        expiring.reset_access_times().await.map_err(Failure::Sweep)?;
        return Ok(Outcome::Reset {});
    }
    if arguments.dry_run {
        let expired = expiring.expired().await.map_err(failure)?;
        return Ok(Outcome::Found { expired: expired.into_iter().map(Expired::from).collect() });
    }
    let swept = expiring.sweep().await.map_err(failure)?;
    Ok(Outcome::Swept { removed: swept.removed.iter().map(ToString::to_string).collect(), kept: swept.kept })
}

/// What failed, with what to do where the access times are damaged: as long as they are there, nothing expires.
fn failure(error: StoreError) -> Failure {
    match error {
        StoreError::Failure { kind: FailureKind::Damaged, operation: READING_ACCESS_TIMES, source } => {
            Failure::AccessTimes { cause: source.to_string() }
        }
        error => Failure::Sweep(error),
    }
}

/// What is printed.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Outcome {
    Found { expired: Vec<Expired> },
    Swept { removed: Vec<String>, kept: usize },
    Reset {},
}

#[derive(Debug, Serialize)]
struct Expired {
    path: String,
    size: u64,
    /// In UTC, as RFC 3339 writes it.
    last_access: String,
}

impl From<ExpiredFile> for Expired {
    fn from(file: ExpiredFile) -> Self {
        let last_access = humantime::format_rfc3339_seconds(file.last_access).to_string();
        Self { path: file.path.to_string(), size: file.size, last_access }
    }
}

impl Outcome {
    fn to_text(&self) -> String {
        let (mut lines, summary) = match self {
            Self::Found { expired } => {
                let line = |file: &Expired| {
                    let size = count(file.size, "byte");
                    format!("{}: {size}, last used at {}", on_one_line(&file.path), file.last_access)
                };
                let found = count(expired.len() as u64, "expired file");
                (expired.iter().map(line).collect(), format!("found {found}"))
            }
            Self::Swept { removed, kept } => {
                let lines: Vec<_> = removed.iter().map(|path| on_one_line(path).to_string()).collect();
                let removed = count(removed.len() as u64, "expired file");
                (lines, format!("removed {removed}; kept {}", count(*kept as u64, "file")))
            }
            Self::Reset {} => (Vec::new(), "reset the access times".to_owned()),
        };
        lines.push(summary);
        lines.join("\n")
    }
}
