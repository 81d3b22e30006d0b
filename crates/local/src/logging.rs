//! The [log](crate::log) of a [`Transaction`]: adds changes, and completes or removes the last one after a crash.

use std::io;

use cap_std::fs::Dir;
use memory_tool_core::{Batch, Change, Node, Stat, StoreError, StorePath, lock};

use crate::applying::{is_in_staging, open_or_create_parent};
use crate::disk::{self, Access};
use crate::failure::{failed, taken_or_failed, unconfirmed};
use crate::layout::Layout;
use crate::log::{self, End, Frame, Log, MAX_RECORD_BYTES};
use crate::name::Name;
use crate::sequence;
use crate::step::Step;
use crate::transaction::{Content, Transaction, flush_file, is_unknown};
use crate::tree::{Location, Tree, version_of};
use crate::undo::{is_at_version, is_conflict};
use crate::usage_cache::UsageCache;

const READING: &str = "reading the log";
const WRITING: &str = "writing the log";

/// The records of a batch, which all are new.
type Records<'a> = Vec<(&'a StorePath, &'a [u8])>;

impl Layout {
    /// Whether all records of the log exist, and its last change is settled. `number` is the present number of changes.
    /// The caller holds the lock.
    pub(crate) fn is_log_complete(&self, private: &Dir, number: Option<u64>) -> Result<bool, StoreError> {
        let is_finished = number.is_some_and(|number| !sequence::is_unfinished(number));
        if is_finished && lock(&self.log).is_complete {
            return Ok(true);
        }
        let (frames, _, has_rest) = log::read(private).map_err(|error| failed(READING, error))?;
        let is_complete = self.has_records_of(&frames)?;
        let mut known = lock(&self.log);
        (known.is_complete, known.has_rest) = (is_complete, has_rest);
        Ok(is_complete)
    }

    fn has_records_of(&self, frames: &[Frame]) -> Result<bool, StoreError> {
        if frames.is_empty() {
            return Ok(true);
        }
        let tree = self.tree().map_err(|error| failed(READING, error))?;
        let mut has_all = frames.iter().all(|frame| frame.is_settled);
        for (path, content) in frames.iter().flat_map(|frame| &frame.records) {
            has_all = has_all && has_record(&tree, path, content)?;
        }
        Ok(has_all)
    }
}

fn has_record(tree: &Tree<'_>, path: &StorePath, content: &[u8]) -> Result<bool, StoreError> {
    Ok(matches!(tree.read(path)?, Node::File(file) if file.content == content))
}

impl Transaction<'_> {
    /// Applies a batch of one change of a file and small new records with three flushes: of the new contents, the log,
    /// and the directory. `None` if the batch is another one, or the disk refused a part, and nothing was changed.
    pub(crate) fn apply_through_log(&self, batch: &Batch, cache: &mut UsageCache) -> Option<Result<(), StoreError>> {
        let (change, records) = logged(batch)?;
        if !self.can_log(change, &records).unwrap_or(false) {
            return None; // the other way reports the error
        }
        self.try_through_log(batch, change, &records, cache).transpose()
    }

    fn try_through_log(
        &self,
        batch: &Batch,
        change: &Change,
        records: &Records<'_>,
        cache: &mut UsageCache,
    ) -> Result<Option<()>, StoreError> {
        self.check_and_plan(batch, cache, false)?;
        let step = self.plan(change, false)?;
        let staged = self.stage(&step, Content::of(change))?;
        staged.iter().try_for_each(flush_file)?;
        let removed = self.removed_version(&step)?;
        let Some((log, start, end)) = self.append(&step, removed.as_deref(), records)? else { return Ok(None) };
        self.files.tree.forget(); // the flushes took time
        let made = cache.note(&self.files.tree, batch.changes()).and_then(|()| self.create_records(records));
        let made = made.and_then(|()| self.perform_logged(&step, removed.as_deref()));
        if is_unknown(&made) {
            return made.map(Some);
        }
        if made.is_err() {
            let paths: Vec<_> = records.iter().map(|(path, _)| *path).collect();
            self.strike(&log, start, &paths).map_err(|error| unconfirmed(WRITING, error))?;
            cache.forget();
            return Ok(None);
        }
        self.files.flush_directories().map_err(|error| unconfirmed("flushing a directory", error))?;
        log.settle(start).map_err(|error| unconfirmed(WRITING, error))?;
        self.note_log_end(end);
        Ok(Some(()))
    }

    /// Whether the file shows later that the change was made, and all records are new.
    fn can_log(&self, change: &Change, records: &Records<'_>) -> Result<bool, StoreError> {
        let tree = &self.files.tree;
        let is_plain = match change {
            Change::Remove { path } => matches!(tree.find(path)?, Location::File { .. }),
            Change::Write { path, content, .. } => match tree.find(path)? {
                Location::File { stamp, .. } if stamp.size == content.len() as u64 => {
                    tree.stat(path)? != Stat::File(version_of(content))
                }
                _ => true,
            },
            Change::Rename { .. } => true,
        };
        let mut is_new = is_plain;
        for (path, _) in records {
            is_new = is_new && tree.is_free(path)?;
        }
        Ok(is_new)
    }

    fn removed_version(&self, step: &Step) -> Result<Option<Vec<u8>>, StoreError> {
        let Step::Remove { path, .. } = step else { return Ok(None) };
        match self.files.tree.stat(path)? {
            Stat::File(version) => Ok(Some(version.as_bytes().to_vec())),
            _ => Err(StoreError::NotFound { path: path.clone() }),
        }
    }

    /// Adds a frame. Returns its place and the next one; `None` if that failed, and the log is as before.
    fn append(
        &self,
        step: &Step,
        removed: Option<&[u8]>,
        records: &Records<'_>,
    ) -> Result<Option<(Log, End, End)>, StoreError> {
        let start = self.log_end()?;
        let log = Log::open(&self.files.lock.private).map_err(|error| failed(WRITING, error))?;
        match log.append(start, step, removed, records) {
            Ok(Some(end)) => Ok(Some((log, start, end))),
            Ok(None) if start.is_empty() => Ok(None),
            Ok(None) => {
                self.clear_log()?;
                self.append(step, removed, records)
            }
            Err(_) => {
                log.strike(start).map_err(|error| unconfirmed(WRITING, error))?;
                Ok(None)
            }
        }
    }

    fn perform_logged(&self, step: &Step, removed: Option<&[u8]>) -> Result<(), StoreError> {
        if let (Step::Remove { path, .. }, Some(version)) = (step, removed)
            && !self.files.tree.is_at_version(path, version, None)?
        {
            return Err(StoreError::VersionMismatch { path: path.clone() });
        }
        step.perform(&self.files)
    }

    fn create_records(&self, records: &Records<'_>) -> Result<(), StoreError> {
        self.files.layout.check_records().map_err(|error| failed("changing a record", error))?;
        records.iter().try_for_each(|(path, content)| self.create_record(path, content))
    }

    fn create_record(&self, path: &StorePath, content: &[u8]) -> Result<(), StoreError> {
        let (_, parent) = open_or_create_parent(&self.files, path)?;
        let created = disk::write_new_file(&parent, Name::of(path)?, content);
        created.map(drop).map_err(|error| taken_or_failed(path, "creating a record", error))
    }

    /// Removes the last frame and its records, whose change was not made.
    fn strike(&self, log: &Log, start: End, records: &[&StorePath]) -> io::Result<()> {
        for path in records {
            let parent = path.parent().map_or(Ok(None), |parent| self.files.tree.open_directory(&parent));
            let Some(parent) = parent.map_err(io::Error::other)? else { continue };
            match parent.remove_file(Name::of(path).map_err(io::Error::other)?) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => disk::sync_directory(&parent)?,
            }
        }
        self.files.tree.forget();
        log.strike(start)
    }

    /// The place for the next frame.
    fn log_end(&self) -> Result<End, StoreError> {
        match lock(&self.files.layout.log).end {
            Some((number, end)) if number == self.last => return Ok(end),
            _ => {}
        }
        let (_, end, _) = log::read(&self.files.lock.private).map_err(|error| failed(READING, error))?;
        self.note_log_end(end);
        Ok(end)
    }

    fn note_log_end(&self, end: End) {
        lock(&self.files.layout.log).end = Some((self.last, end));
    }

    /// Keeps what is known about the log, because the transaction ends with this number.
    pub(crate) fn keep_log_end(&self, number: u64) {
        if let Some((known, _)) = &mut lock(&self.files.layout.log).end
            && *known == self.last
        {
            *known = number;
        }
    }

    /// Flushes the records of the log, and clears it before a change that it does not contain.
    pub(crate) fn clear_log(&self) -> Result<(), StoreError> {
        const OPERATION: &str = "clearing the log";
        if self.log_end()?.is_empty() {
            return Ok(());
        }
        let clear = || {
            let (frames, ..) = log::read(&self.files.lock.private)?;
            let log = Log::open(&self.files.lock.private)?;
            log.flush()?;
            self.flush_records(&frames)?;
            log.clear()
        };
        lock(&self.files.layout.log).end = None;
        clear().map_err(|error| failed(OPERATION, error))?;
        self.note_log_end(End::default());
        Ok(())
    }

    /// Flushes the records and their names.
    fn flush_records(&self, frames: &[Frame]) -> io::Result<()> {
        let mut parents = Vec::new();
        let mut files = Vec::new();
        for (path, _) in frames.iter().flat_map(|frame| &frame.records) {
            let Some(directory) = path.parent() else { continue };
            let parent = self.files.tree.open_directory(&directory).map_err(io::Error::other)?;
            let Some(parent) = parent else { continue };
            let name = Name::of(path).map_err(io::Error::other)?;
            files.extend(disk::open_existing_file(&parent, name, Access::Read)?);
            if !parents.iter().any(|(known, _)| *known == directory) {
                parents.push((directory, parent));
            }
            if let [first, _, _, _, _, ..] = &files[..]
                && disk::sync_file_system_of(first).is_ok()
            {
                return Ok(());
            }
        }
        files.iter().try_for_each(|file| file.sync_all())?;
        parents.iter().try_for_each(|(_, parent)| disk::sync_directory(parent))
    }

    /// Creates missing records of the log. Completes its last change, or removes its frame if it was not made. The
    /// texts of an interrupted change leave the log.
    pub(crate) fn recover_log(&self) -> Result<(), StoreError> {
        let is_complete = self.files.layout.is_log_complete(&self.files.lock.private, Some(self.last))?;
        if is_complete && !lock(&self.files.layout.log).has_rest {
            return Ok(());
        }
        let (frames, mut end, has_rest) =
            log::read(&self.files.lock.private).map_err(|error| failed(READING, error))?;
        let log = Log::open(&self.files.lock.private).map_err(|error| failed(READING, error))?;
        for frame in &frames {
            if !frame.is_settled && !self.is_made(frame)? {
                let paths: Vec<_> = frame.records.iter().map(|(path, _)| path).collect();
                end = frame.start;
                self.strike(&log, end, &paths).map_err(|error| failed(WRITING, error))?;
                break;
            }
            frame.records.iter().try_for_each(|(path, content)| self.recreate(path, content))?;
            if !frame.is_settled {
                let settled = log.settle(frame.start).and_then(|()| log.flush());
                settled.map_err(|error| failed(WRITING, error))?;
            }
        }
        if has_rest {
            log.strike(end).map_err(|error| failed(WRITING, error))?;
        }
        self.note_log_end(end);
        let mut known = lock(&self.files.layout.log);
        (known.is_complete, known.has_rest) = (true, false);
        Ok(())
    }

    /// Whether a change was made. If another program changed the file since, it counts as made.
    fn is_made(&self, frame: &Frame) -> Result<bool, StoreError> {
        match &frame.step {
            Step::Write { path, staged, replaces, .. } => {
                let is_staged = is_in_staging(&self.files, staged, READING)?;
                Ok(!is_staged && !self.is_as_before(path, replaces.as_deref())?)
            }
            Step::Remove { path, .. } => Ok(!self.is_as_before(path, frame.removed.as_deref())?),
            Step::Rename { from, to } => Ok(self.is_as_before(from, None)? || !self.is_as_before(to, None)?),
        }
    }

    /// Whether a path has a version, or is free.
    fn is_as_before(&self, path: &StorePath, version: Option<&[u8]>) -> Result<bool, StoreError> {
        if let Some(version) = version {
            return is_at_version(&self.files, path, version);
        }
        match self.files.tree.find(path) {
            Err(error) if is_conflict(&error) => Ok(false),
            found => Ok(matches!(found?, Location::Absent)),
        }
    }

    /// Creates a record of the log, unless it is on the disk as a whole.
    fn recreate(&self, path: &StorePath, content: &[u8]) -> Result<(), StoreError> {
        self.files.tree.forget();
        if has_record(&self.files.tree, path, content)? {
            return Ok(());
        }
        let (_, parent) = open_or_create_parent(&self.files, path)?;
        match parent.remove_file(Name::of(path)?) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(READING, error)),
            _ => self.create_record(path, content),
        }
    }
}

/// The change of a file and the new records of a batch; `None` if it contains other changes, or is too large.
fn logged(batch: &Batch) -> Option<(&Change, Records<'_>)> {
    let (mut change, mut records, mut bytes) = (None, Records::new(), 0);
    for part in batch.changes() {
        match part {
            Change::Write { path, content, .. } if path.is_record() => {
                bytes += content.len();
                records.push((path, content));
            }
            other if other.is_of_record() || change.replace(other).is_some() => return None,
            _ => {}
        }
    }
    change.filter(|_| !records.is_empty() && bytes <= MAX_RECORD_BYTES).map(|change| (change, records))
}
