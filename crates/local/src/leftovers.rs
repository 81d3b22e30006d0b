//! Contents in `.memory-tool` that the operator must look at.

use std::ffi::OsString;
use std::io;

use memory_tool_core::{Problem, StoreError};

use crate::failure::failed;
use crate::journal::Committed;
use crate::layout::Layout;

/// Reports a stuck journal, files that could not be removed, and contents that were set aside. The caller holds the
/// lock, so no change is being made.
pub(crate) fn problems(layout: &Layout) -> Result<Vec<Problem>, StoreError> {
    const OPERATION: &str = "listing the private directories";
    if let Some(stuck) = layout.stuck_journal().map_err(|error| failed(OPERATION, error))? {
        return Ok(vec![stuck_problem(&stuck)]); // it needs its staged files
    }
    let list = || Ok((unremoved(layout)?, layout.set_aside()?));
    let (staged, set_aside) = list().map_err(|error| failed(OPERATION, error))?;
    let staged = staged.iter().map(|name| {
        let advice = if layout.is_held_open(name).unwrap_or(false) {
            "another program has the removed file open: close it, and open the store again"
        } else {
            "check its owner and permissions, then delete it"
        };
        Problem::new(format!(
            "`.memory-tool/staging/{}` is left of a deletion or a failed write and could not be removed: {advice}",
            name.display()
        ))
    });
    let set_aside = set_aside.iter().map(|name| {
        Problem::new(format!(
            "`.memory-tool/conflicts/{}` contains text that an interrupted change could not put back: move it to a \
             file of your choice, or delete it",
            name.display()
        ))
    });
    Ok(staged.chain(set_aside).collect())
}

/// The leftovers in the staging directory that no opening for writing removes.
fn unremoved(layout: &Layout) -> io::Result<Vec<OsString>> {
    let staged = layout.staged()?;
    if staged.is_empty() || !layout.is_change_unfinished()? {
        return Ok(staged);
    }
    tracing::warn!("a program ended during a change: the next opening of the store for writing removes what it left");
    Ok(Vec::new())
}

/// Reports a change that could be neither completed nor undone.
fn stuck_problem(Committed { steps, stuck }: &Committed) -> Problem {
    /// The number of steps that the message names.
    const MAX_NAMED: usize = 5;
    let named: Vec<_> = steps.iter().take(MAX_NAMED).map(ToString::to_string).collect();
    let others = steps.len().saturating_sub(MAX_NAMED);
    let others = if others > 0 { format!(" and {others} more") } else { String::new() };
    let (place, prints) = match stuck {
        Some(reason) => (format!(" at {reason}"), ""),
        None => (String::new(), ", which prints the cause"), // the disk did not take the note
    };
    Problem::new(format!(
        "an interrupted change can be neither completed nor undone{place}: remove the cause, then run `memory-tool run \
         --store DIR < /dev/null`{prints}. If that is impossible, copy `.memory-tool/staging`, which has the old \
         contents, compare the files of all steps with a backup ({}{others}), then move `.memory-tool/stuck` away",
        named.join(", ")
    ))
}
