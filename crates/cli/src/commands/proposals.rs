//! `memory-tool proposals`: lists changes that wait for a person's consent.

use std::io;

use clap::Args;
use memory_tool::proposals::ProposalSummary;
use serde_json::json;

use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::files::{Stop, perform};
use crate::memory::Access;
use crate::options::MemoryArgument;
use crate::terminal::output::{rfc3339, to_json, write_line};

#[derive(Args, Debug)]
pub(crate) struct ProposalsArguments {
    /// Print JSON, one value per line
    ///
    /// Its fields are name, files, bytes, created, changed and is_damaged.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) memory: MemoryArgument,
}

pub(crate) fn run(arguments: &ProposalsArguments) -> Result<ExitStatus, Failure> {
    perform(&arguments.memory, "proposals", Access::Read, async |memory| {
        let proposals = memory.proposals().ok_or_else(|| Stop::Wrong(IN_A_PROPOSAL.to_owned()))?;
        let summaries = proposals.list().await?;
        if !(summaries.is_empty() || arguments.json) {
            let heading = format!("{:>6} {:>10}  {:<20}  proposal", "files", "bytes", "last change");
            write_line(&mut io::stdout().lock(), heading.into_bytes())?;
        }
        for summary in &summaries {
            write_line(&mut io::stdout().lock(), line(summary, arguments.json)?)?;
        }
        Ok(ExitStatus::Success)
    })
}

/// A session of a proposal must not decide.
pub(crate) const IN_A_PROPOSAL: &str = "leave out --propose: a session of a proposal does not decide";

fn line(summary: &ProposalSummary, as_json: bool) -> Result<Vec<u8>, Failure> {
    let ProposalSummary { name, files, bytes, created, changed, is_damaged, .. } = summary;
    let changed = rfc3339(*changed);
    if as_json {
        let created = rfc3339(*created);
        let json = json!({
            "name": name, "files": files, "bytes": bytes, "created": created, "changed": changed,
            "is_damaged": is_damaged,
        });
        return to_json(&io::stdout(), &json);
    }
    if *is_damaged {
        return Ok(format!("{:>6} {:>10}  {:<20}  {name}", "-", "-", "damaged").into_bytes());
    }
    Ok(format!("{files:>6} {bytes:>10}  {:<20}  {name}", changed.as_deref().unwrap_or("-")).into_bytes())
}
