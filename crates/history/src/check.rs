//! [`HistoryReport`]: the result of checking a history.

use std::sync::Arc;

use memory_tool_core::{ErrorKind, Store, StoreError, StorePath};

use crate::entry::{Digest, Entry, FileChange};
use crate::log::{Log, Tip, is_outdated};
use crate::past::{Backwards, Files, Source, differing_contents};

/// The result of [`History::verify`](crate::History::verify).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct HistoryReport {
    /// The number of entries that were read.
    pub entries: u64,
    /// The number of kept contents that were checked.
    pub contents: u64,
    /// Damage, in words.
    pub damage: Vec<String>,
    /// Files that another program changed or removed since their newest entry. This is not damage.
    pub changed_by_others: Vec<StorePath>,
}

/// Checks all entries, newest first.
///
/// # Errors
/// The errors of the store other than damage.
pub(crate) async fn verify<S: Store>(log: &Log<S>, tip: &Arc<Tip>) -> Result<HistoryReport, StoreError> {
    let mut report = HistoryReport::default();
    let mut files = Files::present(log, tip).await?;
    let index = match log.index(tip).await {
        Err(error) if is_damage(&error) || is_missing(log, tip, &error).await? => {
            report.damage.push(format!("the index: {}", message(&error)));
            Vec::new()
        }
        index => index?,
    };
    let mut reader = Backwards::from(log, tip, tip.newest());
    loop {
        let number = reader.number();
        let checked = match reader.next().await {
            Ok(None) => return Ok(report),
            Ok(Some(entry)) => {
                report.entries += 1;
                let block = index.iter().rfind(|block| (block.first..tip.head.blocks_end).contains(&number));
                if block.is_some_and(|block| !block.has(&entry)) {
                    report.damage.push(format!("entry {number}: the index lacks it"));
                }
                compare(log, tip, &files, &entry, &mut report).await?;
                files.take_back(&entry);
                check_contents(log, tip, &entry, &mut report).await
            }
            Err(error) => Err(error),
        };
        match checked {
            Err(error) if is_damage(&error) || is_missing(log, tip, &error).await? => {
                report.damage.push(format!("entry {number}: {}", message(&error)));
                let is_in_block = number < tip.head.blocks_end;
                reader.skip_to(if is_in_block { tip.head.block_of(number) } else { number } - 1);
            }
            checked => checked?,
        }
    }
}

/// Whether a record is missing although the log has not changed.
async fn is_missing<S: Store>(log: &Log<S>, tip: &Tip, error: &StoreError) -> Result<bool, StoreError> {
    Ok(matches!(error, StoreError::NotFound { .. }) && log.load().await?.is_same(tip))
}

fn is_damage(error: &StoreError) -> bool {
    error.kind() == ErrorKind::Damaged
}

fn message(error: &StoreError) -> String {
    match error {
        StoreError::Failure { source, .. } => source.to_string(),
        error => error.to_string(),
    }
}

async fn check_contents<S: Store>(
    log: &Log<S>,
    tip: &Arc<Tip>,
    entry: &Entry,
    report: &mut HistoryReport,
) -> Result<(), StoreError> {
    if entry.kept_bytes() == 0 {
        return Ok(());
    }
    let contents = log.contents(&*log.entry(tip, entry.number).await?).await?;
    for kept in entry.kept() {
        report.contents += 1;
        if kept.of(&contents).is_none() {
            report.damage.push(message(&differing_contents(entry.number)));
        }
    }
    Ok(())
}

/// Compares the present files with the newest change of each.
async fn compare<S: Store>(
    log: &Log<S>,
    tip: &Tip,
    files: &Files,
    entry: &Entry,
    report: &mut HistoryReport,
) -> Result<(), StoreError> {
    for change in &entry.changes {
        let FileChange::Write { path, after, .. } = change else { continue };
        let is_same = match files.0.get(path) {
            Some(Source::Past(..)) => continue,
            Some(Source::Present(file)) if file.size == after.size => {
                match log.store.read_opts(&file.path, tip.require_in_read()).await {
                    Ok(node) => node.into_file().is_some_and(|file| Digest::of(&file.content) == *after),
                    Err(error) if is_outdated(&error) => return Err(error),
                    // The check of the store reports a file that cannot be read.
                    Err(_) => true,
                }
            }
            Some(Source::Present(_)) | None => false,
        };
        if !is_same {
            report.changed_by_others.push(path.clone());
        }
    }
    Ok(())
}
