//! `memory-tool expire`: removes the files that nobody has used for a time.

use std::io;

use memory_tool_policies::ExpiredFile;
use serde::Serialize;

use crate::arguments::ExpireArguments;
use crate::failure::{Failure, on_one_line};
use crate::output::{count, to_json, write_line};
use crate::policies::{expiring, in_scope};
use crate::run::start_runtime;
use crate::store_url;

/// Removes what is expired, or looks for it, and prints what it is.
pub(crate) fn run(arguments: &ExpireArguments) -> Result<(), Failure> {
    store_url::expect_store(&arguments.store.url)?;
    let outcome = start_runtime()?.block_on(expire(arguments))?;
    let text = if arguments.json { to_json(&outcome)? } else { outcome.to_text().into_bytes() };
    // Whether anybody still read it changes nothing: what was removed is removed.
    write_line(&mut io::stdout().lock(), text).map(|_| ())
}

async fn expire(arguments: &ExpireArguments) -> Result<Outcome, Failure> {
    let store = store_url::open(&arguments.store.url, &arguments.store.encryption).await?;
    let store = in_scope(arguments.scope.as_ref(), store);
    let store = expiring(store, arguments.expire_after, &arguments.pin)?;
    if arguments.dry_run {
        let expired = store.expired().await.map_err(Failure::Sweep)?;
        return Ok(Outcome::Found { expired: expired.into_iter().map(Expired::from).collect() });
    }
    let swept = store.sweep().await.map_err(Failure::Sweep)?;
    Ok(Outcome::Swept { removed: swept.removed.iter().map(ToString::to_string).collect(), kept: swept.kept })
}

/// What is printed.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Outcome {
    Found { expired: Vec<Expired> },
    Swept { removed: Vec<String>, kept: usize },
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
        };
        lines.push(summary);
        lines.join("\n")
    }
}
