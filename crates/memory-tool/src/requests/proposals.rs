//! [`ProposalRequest`]: reads proposals, or decides about them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use memory_tool_core::{Actor, Store, StoreError, StorePath};
use memory_tool_history::Id;
use memory_tool_proposals::{Proposal, ProposalError, ProposalName, Proposals, ProposedChange, Selection};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::memory::Memory;
use crate::requests::history::parse;
use crate::requests::{self, RequestError};

/// A request to the proposals: a method of [`Proposals`]. With a revision, it fails if the proposal has another one.
/// Paths are checked when it is performed.
#[derive(Debug, Deserialize)]
#[expect(missing_docs, reason = "the fields are the arguments of the methods")]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum ProposalRequest {
    /// [`Proposals::list`].
    List {},
    /// [`Proposals::get`].
    Get { name: ProposalName },
    /// [`Proposals::take`] of files and directories, or of all.
    Take {
        name: ProposalName,
        paths: Option<Vec<String>>,
        parts: Option<BTreeMap<String, Vec<usize>>>,
        revision: Option<Id>,
    },
    /// [`Proposals::edit`].
    Edit { name: ProposalName, path: String, text: String, revision: Option<Id> },
    /// [`Proposals::drop`] of files and directories, or of all.
    Drop { name: ProposalName, paths: Option<Vec<String>>, revision: Option<Id> },
}

impl ProposalRequest {
    pub(super) async fn perform(self, memory: &Memory) -> Result<requests::Outcome, RequestError> {
        let decides = "a session of a proposal does not decide";
        let proposals = memory.proposals().ok_or_else(|| RequestError::Proposal(decides.to_owned()))?;
        match self {
            Self::List {} => {
                let summary = |summary: memory_tool_proposals::ProposalSummary| {
                    json!({
                        "name": summary.name, "files": summary.files, "bytes": summary.bytes,
                        "created": millis(summary.created), "changed": millis(summary.changed),
                        "is_damaged": summary.is_damaged,
                    })
                };
                let listed: Vec<_> = proposals.list().await?.into_iter().map(summary).collect();
                return Ok(requests::Outcome::Data(listed.into()));
            }
            Self::Get { name } => return Ok(requests::Outcome::Data(in_data(&proposals.get(&name).await?))),
            Self::Take { name, paths, parts, revision } => {
                let proposal = current(&proposals, &name, revision).await?;
                let parts = parts.unwrap_or_default();
                let selection = if paths.is_none() && parts.is_empty() {
                    if revision.is_none() && proposals.removes_much(&proposal).await? {
                        return Err(ProposalError::RemovesMuch.into());
                    }
                    Selection::all(&proposal)
                } else {
                    files_at(&proposal, paths)?.into_iter().fold(Selection::new(), Selection::file)
                };
                let add = |selection: Result<Selection, StoreError>, (path, parts): (String, _)| {
                    Ok(selection?.parts(parse(&path)?, parts))
                };
                proposals.take(&proposal, &parts.into_iter().fold(Ok(selection), add)?).await?;
            }
            Self::Edit { name, path, text, revision } => {
                let proposal = current(&proposals, &name, revision).await?;
                proposals.edit(&proposal, &parse(&path)?, text, memory.actor.as_ref()).await?;
            }
            Self::Drop { name, paths: None, revision: None } => _ = proposals.clear(&name).await?,
            Self::Drop { name, paths, revision } => {
                let proposal = current(&proposals, &name, revision).await?;
                let all = || proposal.paths().cloned().collect();
                let files = if paths.is_none() { all() } else { files_at(&proposal, paths)? };
                proposals.drop(&proposal, &files).await?;
            }
        }
        Ok(requests::Outcome::Done)
    }
}

/// The proposal, if it has this revision.
async fn current(
    proposals: &Proposals<Arc<dyn Store>>,
    name: &ProposalName,
    revision: Option<Id>,
) -> Result<Proposal, ProposalError> {
    let proposal = proposals.get(name).await?;
    if revision.is_none_or(|revision| revision == proposal.revision) {
        Ok(proposal)
    } else {
        Err(ProposalError::Changed)
    }
}

fn in_data(proposal: &Proposal) -> Value {
    let Proposal { name, revision, created, changes, .. } = proposal;
    let changes: Vec<_> = changes.iter().map(change_in_data).collect();
    json!({"name": name, "revision": revision, "created": millis(*created), "changes": changes})
}

fn change_in_data(change: &ProposedChange) -> Value {
    let text = |content: &Option<Vec<u8>>| content.as_ref().and_then(|content| String::from_utf8(content.clone()).ok());
    let authors: Vec<_> = change.authors.iter().map(Actor::name).collect();
    json!({
        "path": change.path.as_str(),
        "before": text(&change.before), "after": text(&change.after), "present": text(&change.present),
        "renamed_from": change.renamed_from.as_ref().map(StorePath::as_str),
        "authors": authors, "reason": change.reason(), "modified": millis(change.modified), "outcome": change.effect(),
        "diff": change.diff().unified(), "parts": change.parts(),
    })
}

fn millis(time: SystemTime) -> u64 {
    u64::try_from(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

/// The files of a proposal at these paths.
fn files_at(proposal: &Proposal, paths: Option<Vec<String>>) -> Result<Vec<StorePath>, ProposalError> {
    let paths: Vec<_> = paths.iter().flatten().map(|path| parse(path)).collect::<Result<_, _>>()?;
    if paths.is_empty() { Ok(Vec::new()) } else { proposal.files_at(&paths) }
}

impl From<ProposalError> for RequestError {
    fn from(error: ProposalError) -> Self {
        match error {
            ProposalError::Store(error) => Self::Store(error),
            error => Self::Proposal(error.to_string()),
        }
    }
}
