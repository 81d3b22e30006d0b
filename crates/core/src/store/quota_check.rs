//! Checks a batch against a quota.

use crate::store::change::Change;
use crate::store::error::StoreError;
use crate::store::quota::{Quota, QuotaKind, Usage};
use crate::store::state::StoreState;
use crate::store::store_path::StorePath;

/// Checks the changes of a batch against the quota of a directory.
pub(crate) fn check(
    quota: &Quota,
    directory: &StorePath,
    changes: &[Change],
    state: &impl StoreState,
) -> Result<(), StoreError> {
    let mut delta = UsageDelta { quota, directory, state, added: Usage::default(), freed: Usage::default() };
    let mut removed = Vec::new();
    for change in changes {
        match change {
            Change::Write { path, content, .. } => delta.write(path, content.len() as u64)?,
            Change::Rename { from, to } => delta.rename(from, to)?,
            Change::Remove { path } => removed.push(path),
        }
    }
    if delta.grows() {
        removed.into_iter().try_for_each(|path| delta.remove(path))?;
    }
    delta.check_totals()
}

/// The files and directories whose usage [`check`] may need.
pub(crate) fn inputs(directory: &StorePath, changes: &[Change]) -> Vec<StorePath> {
    let mut inputs = vec![directory.clone()];
    for change in changes {
        match change {
            Change::Write { path, .. } => inputs.push(path.clone()),
            Change::Remove { path } => inputs.extend(part_within(path, directory).cloned()),
            Change::Rename { from, to } => {
                inputs.extend(part_within(from, directory).cloned());
                inputs.extend(arriving(from, to, directory));
            }
        }
    }
    inputs
}

/// The usage that the changes add and free.
struct UsageDelta<'a, S> {
    quota: &'a Quota,
    directory: &'a StorePath,
    state: &'a S,
    added: Usage,
    freed: Usage,
}

impl<S: StoreState> UsageDelta<'_, S> {
    fn write(&mut self, path: &StorePath, length: u64) -> Result<(), StoreError> {
        if !is_within(path, self.directory) {
            return Ok(());
        }
        let replaced = self.state.usage(path)?;
        self.check_limit(QuotaKind::FileBytes, self.quota.file_bytes, replaced.bytes, length)?;
        let depth_before = if replaced.files == 0 { 0 } else { self.depth_within(path.depth()) };
        self.check_limit(QuotaKind::Depth, self.quota.depth, depth_before, self.depth_within(path.depth()))?;
        self.added.add(Usage::new(1, length, 0));
        self.freed.add(replaced);
        Ok(())
    }

    fn rename(&mut self, from: &StorePath, to: &StorePath) -> Result<(), StoreError> {
        let leaving = part_within(from, self.directory);
        let arriving = arriving(from, to, self.directory);
        let stays_within = leaving.is_some() && leaving == arriving.as_ref();
        if stays_within && (self.quota.depth.is_none() || to.depth() <= from.depth()) {
            return Ok(());
        }
        if let Some(arriving) = arriving {
            let moved = self.state.usage(&arriving)?;
            let depth_before = if stays_within { self.depth_within(moved.depth) } else { 0 };
            let depth_after = self.depth_within((moved.depth + to.depth()).saturating_sub(from.depth()));
            if moved.files > 0 {
                self.check_limit(QuotaKind::Depth, self.quota.depth, depth_before, depth_after)?;
            }
            self.added.add(moved);
            if stays_within {
                self.freed.add(moved);
                return Ok(());
            }
        }
        leaving.map_or(Ok(()), |leaving| self.free(leaving))
    }

    fn remove(&mut self, path: &StorePath) -> Result<(), StoreError> {
        part_within(path, self.directory).map_or(Ok(()), |path| self.free(path))
    }

    fn free(&mut self, path: &StorePath) -> Result<(), StoreError> {
        self.freed.add(self.state.usage(path)?);
        Ok(())
    }

    fn grows(&self) -> bool {
        self.quota.files.is_some() && self.added.files > self.freed.files
            || self.quota.bytes.is_some() && self.added.bytes > self.freed.bytes
    }

    fn check_totals(self) -> Result<(), StoreError> {
        if !self.grows() {
            return Ok(());
        }
        let before = self.state.usage(self.directory)?;
        let after = |before: u64, added: u64, freed: u64| before.saturating_add(added).saturating_sub(freed);
        let files = after(before.files, self.added.files, self.freed.files);
        self.check_limit(QuotaKind::Files, self.quota.files, before.files, files)?;
        let bytes = after(before.bytes, self.added.bytes, self.freed.bytes);
        self.check_limit(QuotaKind::Bytes, self.quota.bytes, before.bytes, bytes)
    }

    fn depth_within(&self, depth_of_file: u64) -> u64 {
        depth_of_file.saturating_sub(self.directory.depth())
    }

    fn check_limit(&self, kind: QuotaKind, limit: Option<u64>, before: u64, requested: u64) -> Result<(), StoreError> {
        match limit {
            Some(limit) if requested > limit && requested > before => {
                let remaining = limit.saturating_sub(before);
                Err(StoreError::OverQuota { path: self.directory.clone(), kind, limit, requested, remaining })
            }
            _ => Ok(()),
        }
    }
}

/// The part of `from` that a rename moves into the directory: all of it, or the part that becomes the directory.
fn arriving(from: &StorePath, to: &StorePath, directory: &StorePath) -> Option<StorePath> {
    if is_within(to, directory) {
        return Some(from.clone());
    }
    // A path that is too long cannot exist.
    if directory.is_under(to) { directory.replace_prefix(to, from).ok() } else { None }
}

/// The part of `path` inside the directory: `path` itself, or the directory if it is under `path`.
fn part_within<'a>(path: &'a StorePath, directory: &'a StorePath) -> Option<&'a StorePath> {
    if is_within(path, directory) {
        return Some(path);
    }
    directory.is_under(path).then_some(directory)
}

fn is_within(path: &StorePath, directory: &StorePath) -> bool {
    path == directory || path.is_under(directory)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::store::batch::Batch;
    use crate::store::node::Stat;

    /// A state in which every path is a file of 5 bytes. It records the paths passed to `usage`.
    #[derive(Default)]
    struct RecordingState(RefCell<Vec<String>>);

    impl StoreState for RecordingState {
        fn stat(&self, _: &StorePath) -> Result<Stat, StoreError> {
            unreachable!("quotas do not use this")
        }

        fn usage(&self, path: &StorePath) -> Result<Usage, StoreError> {
            self.0.borrow_mut().push(path.to_string());
            Ok(Usage::new(1, 5, 3))
        }
    }

    fn path(text: &str) -> StorePath {
        text.parse().unwrap()
    }

    fn usage_calls(quota: Quota, batch: Batch) -> Vec<String> {
        let state = RecordingState::default();
        batch.limit(StorePath::memories(), quota).check(&state).unwrap();
        state.0.into_inner()
    }

    #[test]
    fn the_limited_directory_is_measured_only_if_a_batch_increases_its_usage() {
        let all = Quota::new().with_files(9).with_bytes(90).with_file_bytes(9).with_depth(9);
        let write = |bytes| Batch::new().write(path("/memories/a"), vec![b'x'; bytes]);
        assert_eq!(usage_calls(all, write(5)), ["/memories/a"]);
        assert_eq!(usage_calls(all, write(6)), ["/memories/a", "/memories"]);
        assert_eq!(usage_calls(Quota::new().with_files(9), write(6)), ["/memories/a"]);
        assert_eq!(usage_calls(all, Batch::new().remove(path("/memories/a"))), [""; 0]);
        let rename = |to| Batch::new().rename(path("/memories/a"), path(to));
        assert_eq!(usage_calls(all, rename("/memories/b")), [""; 0]);
        assert_eq!(usage_calls(all, rename("/memories/b/c")), ["/memories/a"]);
        assert_eq!(usage_calls(Quota::new().with_files(9).with_bytes(9), rename("/memories/b/c")), [""; 0]);
    }
}
