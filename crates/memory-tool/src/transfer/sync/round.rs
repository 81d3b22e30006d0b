//! [`Round`]: brings two memories to the same state.

use std::collections::{BTreeSet, HashMap};
use std::time::SystemTime;

use memory_tool_core::{
    Actor, Batch, Change, ErrorKind, FileTimes, Node, Precondition, Problem, StoreError, StorePath, StoredFile,
};
use memory_tool_history::{Digest, Id, merge};

use crate::transfer::error::TransferError;
use crate::transfer::report::{FileProblem, add};
use crate::transfer::source::is_about_one_file;
use crate::transfer::sync::conflict_name::{conflict_path, is_conflict_copy, is_conflict_copy_of};
use crate::transfer::sync::decision::{Decision, Which, decide};
use crate::transfer::sync::is_of_table;
use crate::transfer::sync::report::{COMMAND, SyncReport, SyncedSide};
use crate::transfer::sync::side::{Side, View, as_known};
use crate::transfer::sync::table::{self, Base, Key, Noted, NotedFile, State, key_of};
use crate::transfer::sync::texts::Texts;

/// The most files and bytes of a batch.
const MAX_FILES: usize = 1_000;
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// The renames of one file that are followed.
const MAX_RENAMES: usize = 10;

/// The reason why a file that others change is left.
const KEEPS_CHANGING: &str = "others keep changing it, or the storage has a file of almost the same name";

/// The attempts to find a free name.
const MAX_NUMBER: usize = 100;

/// Brings two memories to the same state.
pub(super) struct Round<'a> {
    sides: [&'a Side; 2],
    views: [View; 2],
    report: &'a mut SyncReport,
    /// Whether files that keep changing are reported, and not left to the next round.
    is_last: bool,
    /// Whether another program changed a file at the same time.
    is_disturbed: bool,
    /// The files that wait for their rename.
    held: BTreeSet<Key>,
    /// The new paths of renames that wait for another file, and the side that has made the rename.
    blocked: Vec<(Which, StorePath)>,
    units: [Vec<Unit>; 2],
}

/// Changes of one side that belong together.
#[derive(Debug)]
struct Unit {
    path: StorePath,
    batch: Batch,
    /// The states after the change, with the contents to keep.
    notes: Vec<(Key, Noted, Option<Vec<u8>>)>,
    is_redacted: bool,
    is_merge: bool,
    /// The path of the older text of a conflict.
    copy: Option<StorePath>,
}

impl Unit {
    fn of(path: &StorePath) -> Self {
        let notes = Vec::new();
        let (is_redacted, is_merge, copy) = (false, false, None);
        Self { path: path.clone(), batch: Batch::new(), notes, is_redacted, is_merge, copy }
    }

    fn bytes(&self) -> usize {
        (0..self.batch.changes().len()).map(|number| self.batch.content(number).len()).sum()
    }
}

impl<'a> Round<'a> {
    pub(super) fn new(sides: [&'a Side; 2], views: [View; 2], report: &'a mut SyncReport, is_last: bool) -> Self {
        let (held, blocked, units) = (BTreeSet::new(), Vec::new(), [Vec::new(), Vec::new()]);
        Self { sides, views, report, is_last, is_disturbed: false, held, blocked, units }
    }

    /// Returns whether both memories have the same state now, apart from files that were refused.
    pub(super) async fn run(mut self) -> Result<bool, TransferError> {
        for which in Which::BOTH {
            self.follow_renames(which).await?;
        }
        let (mut removals, mut others) = (Vec::new(), Vec::new());
        for (key, path, decision) in self.plan() {
            let is_removal = match decision {
                Decision::Of(which) => self.noted(which, &key).is_some_and(|noted| noted.file().is_none()),
                Decision::Same | Decision::Both => false,
            };
            if is_removal { &mut removals } else { &mut others }.push((key, path, decision));
        }
        for (key, path, decision) in removals {
            self.prepare(key, path, decision).await?;
        }
        self.flush().await?;
        if self.move_files_in_place_of_directories(&others).await? {
            return Ok(false);
        }
        for (key, path, decision) in others {
            self.prepare(key, path, decision).await?;
            let is_full = |units: &Vec<Unit>| {
                units.len() >= MAX_FILES || units.iter().map(Unit::bytes).sum::<usize>() >= MAX_BYTES
            };
            if self.units.iter().any(is_full) {
                self.flush().await?;
            }
        }
        self.flush().await?;
        for (key, _, decision) in self.plan() {
            if decision == Decision::Same {
                self.agree(key, decision);
            }
        }
        for which in Which::BOTH {
            let (side, view) = (self.sides[which as usize], &mut self.views[which as usize]);
            let texts = side.collect_texts(view).await;
            let saved = async { side.save(view, &texts?).await }.await;
            self.check_saved(which, saved)?;
        }
        if self.is_disturbed && !self.is_last {
            return Ok(false);
        }
        self.report_rest();
        Ok(true)
    }

    /// Another synchronization may have written the table.
    fn check_saved(&mut self, which: Which, saved: Result<(), StoreError>) -> Result<(), TransferError> {
        match saved {
            Err(error) if is_of_table(&error) && !self.is_last => {
                self.is_disturbed = true;
                Ok(())
            }
            saved => saved.map_err(|error| self.failed(which, error)),
        }
    }

    fn failed(&self, which: Which, source: StoreError) -> TransferError {
        self.sides[which as usize].failed(source)
    }

    fn noted(&self, which: Which, key: &Key) -> Option<&Noted> {
        self.views[which as usize].noted(key)
    }

    fn side_of_report(&mut self, which: Which) -> &mut SyncedSide {
        match which {
            Which::First => &mut self.report.first,
            Which::Second => &mut self.report.second,
        }
    }

    /// The files whose states differ, with their paths if one side has them.
    fn plan(&self) -> Vec<(Key, Option<StorePath>, Decision)> {
        let paths: HashMap<Key, &StorePath> =
            self.views.iter().flat_map(|view| view.files.keys()).map(|path| (key_of(path), path)).collect();
        let is_unreadable = |path: &StorePath| self.views.iter().any(|view| view.unreadable.contains_key(path));
        let keys: BTreeSet<_> = self.views.iter().flat_map(|view| view.table.files.keys().copied()).collect();
        let mut plan = Vec::new();
        for key in keys.difference(&self.held) {
            let (first, second) = (self.noted(Which::First, key), self.noted(Which::Second, key));
            let is_agreed = first
                .zip(second)
                .is_some_and(|(first, second)| first.id == second.id && first.base.is_none() && second.base.is_none());
            let path = paths.get(key).copied();
            // It is in a directory that cannot be read.
            let is_hidden = path.is_none() && [first, second].into_iter().flatten().any(|noted| noted.file().is_some());
            if !is_agreed && !is_hidden && !path.is_some_and(is_unreadable) {
                plan.push((*key, path.cloned(), decide(first, second)));
            }
        }
        plan.sort_by(|(_, one, _), (_, other, _)| one.cmp(other));
        plan
    }

    /// Makes the renames of one side in the other one, so that changes of a file go along with it.
    async fn follow_renames(&mut self, of: Which) -> Result<(), TransferError> {
        let to = of.other();
        let renames: Vec<_> =
            self.views[of as usize].table.files.keys().filter_map(|old| self.rename_of(of, *old)).collect();
        let paths = |which: Which| -> HashMap<Key, StorePath> {
            self.views[which as usize].files.keys().map(|path| (key_of(path), path.clone())).collect()
        };
        let [sources, targets] =
            if renames.is_empty() { [HashMap::new(), HashMap::new()] } else { [to, of].map(paths) };
        let mut moved = Vec::new();
        for (old, new, gone, theirs) in renames {
            let (Some(from), Some(target)) = (sources.get(&old), targets.get(&new)) else { continue };
            moved.push(old);
            if self.in_the_way(of, target).is_some() {
                self.blocked.push((of, target.clone()));
                continue;
            }
            let Some(file) = self.read(to, from).await? else { continue };
            let mut unit = Unit::of(from);
            unit.batch = unit.batch.require(from.clone(), Precondition::Version(file.version.clone()));
            unit.batch = unit.batch.require(target.clone(), Precondition::Absent).rename(from.clone(), target.clone());
            unit.notes = vec![(old, gone, None), (new, theirs, None)];
            self.units[to as usize].push(unit);
        }
        self.flush().await?;
        // A file that was not renamed waits: it must not be removed before it has its new name.
        let waiting: Vec<_> = moved.into_iter().filter_map(|old| self.rename_of(of, old)).collect();
        self.held.extend(waiting.into_iter().flat_map(|(old, new, ..)| [old, new]));
        Ok(())
    }

    /// The rename of a file that the other side has not made: the old and the new path, and the states there.
    fn rename_of(&self, of: Which, old: Key) -> Option<(Key, Key, Noted, Noted)> {
        let tombstone = self.noted(of, &old)?;
        let mut new = tombstone.renamed_to()?;
        for _ in 0..MAX_RENAMES {
            new = self.noted(of, &new).and_then(Noted::renamed_to).unwrap_or(new);
        }
        let theirs = self.noted(of.other(), &old).filter(|noted| noted.file().is_some())?;
        let is_free = self.noted(of.other(), &new).is_none_or(|noted| noted.file().is_none());
        let is_file = self.noted(of, &new).is_some_and(|noted| noted.file().is_some());
        let is_of_it = !theirs.includes(tombstone.id) && tombstone.shares_a_state_with(theirs);
        let gone = tombstone.with_known([theirs]).agreed();
        (is_free && is_file && is_of_it).then(|| (old, new, gone, theirs.clone()))
    }

    /// Reads a file that is about to be changed or copied. `None` if another program has changed it.
    async fn read(&mut self, which: Which, path: &StorePath) -> Result<Option<StoredFile>, TransferError> {
        let (side, view) = (self.sides[which as usize], &mut self.views[which as usize]);
        match side.read_noted(view, path).await {
            Ok(Some(file)) => Ok(Some(file)),
            Ok(None) => {
                self.is_disturbed = true;
                view.read_again(path);
                if self.is_last {
                    self.side_of_report(which).add_refused(path, KEEPS_CHANGING);
                }
                Ok(None)
            }
            Err(error) if is_about_one_file(&error) => {
                self.side_of_report(which).add_unreadable(path, Problem::of(&error).message);
                Ok(None)
            }
            Err(error) => Err(self.failed(which, error)),
        }
    }

    /// Prepares the changes of a file.
    async fn prepare(&mut self, key: Key, path: Option<StorePath>, decision: Decision) -> Result<(), TransferError> {
        match (decision, path) {
            (Decision::Both, Some(path)) => self.prepare_both(key, &path).await,
            (Decision::Of(from), Some(path)) => self.prepare_copy(key, &path, from).await,
            // The file is absent on both sides, or has the same text.
            (decision, _) => {
                self.agree(key, decision);
                Ok(())
            }
        }
    }

    /// Gives both sides the same identity for the state that both have.
    fn agree(&mut self, key: Key, decision: Decision) {
        let [first, second] = Which::BOTH.map(|which| self.noted(which, &key).cloned());
        let one = match decision {
            Decision::Of(Which::Second) => second.as_ref(),
            Decision::Of(Which::First) => first.as_ref(),
            Decision::Same | Decision::Both => first.iter().chain(&second).max_by_key(|noted| noted.id),
        };
        let Some(id) = one.map(|noted| noted.id) else { return };
        for (which, noted) in Which::BOTH.into_iter().zip([&first, &second]) {
            let Some(state) = noted.as_ref().or(one) else { continue };
            let agreed = state.with_known(first.iter().chain(&second)).with_id(id).agreed();
            if noted.as_ref() != Some(&agreed) {
                self.views[which as usize].note(key, agreed);
            }
        }
    }

    /// Prepares that the other side gets the state of this one.
    async fn prepare_copy(&mut self, key: Key, path: &StorePath, from: Which) -> Result<(), TransferError> {
        let to = from.other();
        let (Some(ours), theirs) = (self.noted(from, &key).cloned(), self.noted(to, &key).cloned()) else {
            return Ok(());
        };
        let their_digest = theirs.as_ref().and_then(Noted::file).map(|file| file.digest);
        if their_digest == ours.file().map(|file| file.digest) {
            self.agree(key, Decision::Of(from));
            return Ok(());
        }
        let mut unit = Unit::of(path);
        let agreed = ours.with_known(&theirs).agreed();
        // It is saved with the next batch of this side. If the other one refuses the file, that one keeps the base.
        self.views[from as usize].note(key, agreed.clone());
        let required = match their_digest {
            Some(_) => {
                let Some(file) = self.read(to, path).await? else { return Ok(()) };
                Precondition::Version(file.version)
            }
            None => Precondition::Absent,
        };
        unit.batch = unit.batch.require(path.clone(), required);
        if ours.file().is_some() {
            let Some(file) = self.read(from, path).await? else { return Ok(()) };
            let times = self.times(from, path);
            self.write(to, &mut unit, path, file.content, times, agreed);
        } else if self.is_absent(from, path).await? {
            unit.batch = unit.batch.remove(path.clone());
            unit.notes.push((key, agreed, None));
        } else {
            return Ok(());
        }
        self.units[to as usize].push(unit);
        Ok(())
    }

    /// Whether a file was deleted. A link in its place is reported, and was perhaps made to move the file.
    async fn is_absent(&mut self, which: Which, path: &StorePath) -> Result<bool, TransferError> {
        match self.sides[which as usize].store.read_opts(path, as_known()).await {
            Ok(Node::Absent | Node::Directory(_)) => Ok(true),
            Ok(Node::File(_)) => {
                self.is_disturbed = true;
                Ok(false)
            }
            Err(error) if is_about_one_file(&error) => {
                self.side_of_report(which).add_unreadable(path, Problem::of(&error).message);
                Ok(false)
            }
            Err(error) => Err(self.failed(which, error)),
        }
    }

    fn times(&self, which: Which, path: &StorePath) -> FileTimes {
        self.views[which as usize].files.get(path).map(memory_tool_core::FileEntry::times).unwrap_or_default()
    }

    /// Adds a write to the changes of a side, with the state after it.
    fn write(&self, to: Which, unit: &mut Unit, path: &StorePath, content: Vec<u8>, times: FileTimes, noted: Noted) {
        let redacted = self.sides[to as usize].redacted(&content);
        unit.is_redacted |= redacted.is_some();
        let content = redacted.unwrap_or(content);
        let state = State::File(NotedFile::new(Digest::of(&content), times.modified));
        unit.notes.push((key_of(path), Noted { state, ..noted }, Some(content.clone())));
        unit.batch = std::mem::take(&mut unit.batch).write_with_times(path.clone(), content, times);
    }

    /// Prepares the merge of two changes of a file, or keeps both texts.
    async fn prepare_both(&mut self, key: Key, path: &StorePath) -> Result<(), TransferError> {
        let [Some(first), Some(second)] = Which::BOTH.map(|which| self.noted(which, &key).cloned()) else {
            return Ok(());
        };
        let Some(one) = self.read(Which::First, path).await? else { return Ok(()) };
        let Some(other) = self.read(Which::Second, path).await? else { return Ok(()) };
        if let Some(merged) = self.merged(path, [&first, &second], [&one, &other]).await? {
            let id = Id::random().map_err(|error| self.failed(Which::First, error))?;
            let noted = first.with_known([&second]).with_id(id).agreed();
            let times = self.times(Which::First, path).modified(SystemTime::now());
            let is_merge = [&one, &other].iter().all(|file| file.content != merged.as_bytes());
            for (which, (file, own)) in Which::BOTH.into_iter().zip([(&one, &first), (&other, &second)]) {
                let mut unit = Unit { is_merge, ..Unit::of(path) };
                unit.batch = unit.batch.require(path.clone(), Precondition::Version(file.version.clone()));
                if file.content == merged.as_bytes() {
                    let noted = Noted { state: own.state.clone(), ..noted.clone() };
                    unit.notes.push((key, noted, Some(file.content.clone())));
                } else {
                    self.write(which, &mut unit, path, merged.clone().into_bytes(), times, noted.clone());
                }
                self.units[which as usize].push(unit);
            }
            return Ok(());
        }
        let files = [(first, one), (second, other)];
        self.keep_both(path, files).await
    }

    /// The text with the changes of both sides.
    async fn merged(
        &self,
        path: &StorePath,
        noted: [&Noted; 2],
        files: [&StoredFile; 2],
    ) -> Result<Option<String>, TransferError> {
        let [Ok(one), Ok(other)] = files.map(|file| std::str::from_utf8(&file.content)) else { return Ok(None) };
        for which in Which::BOTH {
            let [ours, theirs] = [noted[which as usize], noted[which.other() as usize]];
            let Some(base) = ours.base.as_ref().filter(|base| theirs.includes(base.id)) else { continue };
            if let Some(before) = self.earlier_text(path, base).await? {
                return Ok(merge(&before, one, other));
            }
        }
        Ok(None)
    }

    async fn earlier_text(&self, path: &StorePath, base: &Base) -> Result<Option<String>, TransferError> {
        for which in Which::BOTH {
            let found = self.sides[which as usize].earlier_text(path, base).await;
            if let Some(text) = found.map_err(|error| self.failed(which, error))? {
                return Ok(Some(text));
            }
        }
        Ok(None)
    }

    /// Keeps the newer text under its name, and the older one beside it, on both sides.
    async fn keep_both(&mut self, path: &StorePath, files: [(Noted, StoredFile); 2]) -> Result<(), TransferError> {
        let modified = Which::BOTH.map(|which| self.times(which, path).modified);
        let rank =
            |which: Which| (modified[which as usize], files[which as usize].0.file().map(|file| file.digest.sha256));
        let newer = Which::BOTH.into_iter().max_by_key(|which| rank(*which)).unwrap_or(Which::First);
        let older = newer.other();
        let (winner, loser) = (&files[newer as usize], &files[older as usize]);
        let agreed = winner.0.with_known([&loser.0]).agreed();
        let (copy, of_copy) = match self.found_copy(path, &loser.1.content) {
            Some(found) => found,
            None => {
                let Some(copy) = self.free_copy(path, older) else {
                    let reason = "both sides changed it, and no name for a copy is free";
                    self.side_of_report(older).add_refused(path, reason);
                    return Ok(());
                };
                (copy, Noted::new(table::deleted(None)).map_err(|error| self.failed(newer, error))?)
            }
        };
        let mut units = Vec::new();
        for which in Which::BOTH {
            let mut unit = Unit { copy: Some(copy.clone()), ..Unit::of(path) };
            let version = files[which as usize].1.version.clone();
            unit.batch = unit.batch.require(path.clone(), Precondition::Version(version));
            if which == newer {
                unit.notes.push((key_of(path), agreed.clone(), Some(winner.1.content.clone())));
            } else {
                let times = self.times(newer, path);
                self.write(which, &mut unit, path, winner.1.content.clone(), times, agreed.clone());
            }
            if self.noted(which, &key_of(&copy)).is_some_and(|noted| noted.file().is_some()) {
                let Some(file) = self.read(which, &copy).await? else { return Ok(()) };
                unit.batch = unit.batch.require(copy.clone(), Precondition::Version(file.version));
            } else {
                unit.batch = unit.batch.require(copy.clone(), Precondition::Absent);
                self.write(which, &mut unit, &copy, loser.1.content.clone(), self.times(older, path), of_copy.clone());
            }
            units.push(unit);
        }
        for (which, unit) in Which::BOTH.into_iter().zip(units) {
            self.units[which as usize].push(unit);
        }
        Ok(())
    }

    /// The file that already has the older text of a conflict, with its state, if no side has another state of it. In a
    /// ring of memories, each pair finds the conflict.
    fn found_copy(&self, path: &StorePath, content: &[u8]) -> Option<(StorePath, Noted)> {
        let digest = Digest::of(content);
        let copies = self.views.iter().flat_map(|view| view.files.keys().map(move |copy| (view, copy)));
        let copies = copies.filter(|(_, copy)| is_conflict_copy_of(copy, path));
        let mut found = copies.filter_map(|(view, copy)| Some((copy.clone(), view.noted(&key_of(copy))?.clone())));
        found.find(|(copy, noted)| {
            let is_same = |view: &View| view.noted(&key_of(copy)).is_none_or(|other| other.id == noted.id);
            noted.file().is_some_and(|file| file.digest == digest) && self.views.iter().all(is_same)
        })
    }

    /// The path for the older text of a conflict. `None` if no name is free.
    fn free_copy(&self, path: &StorePath, older: Which) -> Option<StorePath> {
        let written = self.times(older, path).modified.unwrap_or_else(SystemTime::now);
        let notes = self.units.iter().flatten().flat_map(|unit| &unit.notes);
        let planned: BTreeSet<_> = notes.map(|(key, ..)| *key).collect();
        let is_free = |copy: &StorePath| {
            !planned.contains(&key_of(copy)) && self.views.iter().all(|view| !view.files.contains_key(copy))
        };
        let side = &self.sides[older as usize].name;
        (1..=MAX_NUMBER).filter_map(|number| conflict_path(path, written, side, number)).find(is_free)
    }

    /// The file, with the number of its side, that cannot be beside a file of one side at this path.
    fn in_the_way(&self, from: Which, path: &StorePath) -> Option<(usize, StorePath)> {
        let there = &self.views[from.other() as usize].files;
        if let Some(above) = path.parents().find(|above| there.contains_key(above)) {
            return Some((from.other() as usize, above));
        }
        let (below, _) = there.range(path..).nth(usize::from(there.contains_key(path)))?;
        below.is_under(path).then(|| (from as usize, path.clone()))
    }

    /// Renames files that are in place of a directory of the other side. Returns whether there were any.
    async fn move_files_in_place_of_directories(
        &mut self,
        plan: &[(Key, Option<StorePath>, Decision)],
    ) -> Result<bool, TransferError> {
        let of_plan = plan.iter().filter_map(|(_, path, decision)| match decision {
            Decision::Of(from) => Some((*from, path.as_ref()?)),
            Decision::Same | Decision::Both => None,
        });
        let wanted = of_plan.chain(self.blocked.iter().map(|(from, path)| (*from, path)));
        let in_the_way: BTreeSet<_> = wanted.filter_map(|(from, path)| self.in_the_way(from, path)).collect();
        let is_any = !(in_the_way.is_empty() && self.blocked.is_empty());
        for (side, path) in in_the_way {
            let which = Which::BOTH[side];
            let Some(file) = self.read(which, &path).await? else { continue };
            let Some(copy) = self.free_copy(&path, which).filter(|_| !self.is_last) else {
                self.side_of_report(which).add_refused(&path, "the other side has a directory in its place");
                continue;
            };
            let mut unit = Unit::of(&path);
            unit.batch = unit.batch.require(path.clone(), Precondition::Version(file.version));
            unit.batch = unit.batch.require(copy.clone(), Precondition::Absent).rename(path.clone(), copy.clone());
            unit.copy = Some(copy);
            self.units[side].push(unit);
        }
        self.flush().await?;
        Ok(is_any && !self.is_last)
    }

    /// Applies the prepared changes.
    async fn flush(&mut self) -> Result<(), TransferError> {
        for which in Which::BOTH {
            let mut groups = groups(std::mem::take(&mut self.units[which as usize]));
            while let Some(mut units) = groups.pop() {
                let error = match self.apply(which, &units).await {
                    Ok(()) => continue,
                    Err(error) => error,
                };
                if is_of_table(&error) && !self.is_last {
                    self.is_disturbed = true;
                    return Ok(());
                }
                if is_of_table(&error) || !is_about_one_file(&error) {
                    return Err(self.failed(which, error));
                }
                if units.len() > 1 {
                    let half = units.split_off(units.len() / 2);
                    groups.extend([half, units]);
                    continue;
                }
                let Some(unit) = units.pop() else { continue };
                match error.kind() {
                    ErrorKind::AlreadyExists | ErrorKind::NotFound | ErrorKind::Conflict if !self.is_last => {
                        self.is_disturbed = true;
                    }
                    ErrorKind::AlreadyExists | ErrorKind::NotFound | ErrorKind::Conflict => {
                        self.side_of_report(which).add_refused(&unit.path, KEEPS_CHANGING);
                    }
                    _ => self.side_of_report(which).add_refused(&unit.path, reason_of(&error)),
                }
            }
        }
        Ok(())
    }

    /// Applies changes of one side in one batch with their states.
    async fn apply(&mut self, which: Which, units: &[Unit]) -> Result<(), StoreError> {
        let [side, other] = [which, which.other()].map(|which| self.sides[which as usize]);
        let keeps_texts = side.kept_history().await?.is_none();
        let view = &mut self.views[which as usize];
        let (mut table, mut texts, mut batch, mut authors) =
            (view.table.clone(), Texts::new()?, Batch::new(), BTreeSet::new());
        for unit in units {
            for (key, noted, content) in &unit.notes {
                let mut noted = noted.clone();
                if let (State::File(file), Some(content), true) = (&mut noted.state, content, keeps_texts) {
                    file.texts = texts.add(file.digest, content);
                }
                table.files.insert(*key, noted);
            }
            batch = batch.require_all(unit.batch.preconditions().iter().cloned());
            batch = unit.batch.changes().iter().cloned().fold(batch, Batch::change);
            authors.extend(self.authors_of(which.other(), &unit.path));
        }
        let reason = format!("from {}", other.name);
        let actor = side.actor.clone().or_else(|| Actor::from_trusted_name(COMMAND).ok());
        batch = actor.map(|actor| actor.because(&reason)).into_iter().fold(batch, Batch::by);
        let authors = authors.iter().filter_map(|name| Some(Actor::from_trusted_name(name).ok()?.because(&reason)));
        batch = batch.written_by(authors);
        let view = &mut self.views[which as usize];
        let batch = side.batch_with(&mut table, view, &texts, batch).await?;
        side.store.apply(batch).await?;
        side.saved(view, table, &texts).await?;
        for unit in units {
            self.views[which as usize].apply(&unit.batch);
            let report = match which {
                Which::First => &mut self.report.first,
                Which::Second => &mut self.report.second,
            };
            report.count(unit.batch.changes());
            if unit.is_redacted {
                report.add_redacted(unit.path.clone());
            }
            if unit.is_merge {
                self.report.add_merged(&unit.path);
            }
            if let Some(copy) = &unit.copy {
                self.report.add_conflict(&unit.path, copy);
            }
        }
        Ok(())
    }

    fn authors_of(&self, which: Which, path: &StorePath) -> BTreeSet<String> {
        self.views[which as usize].authors.get(path).cloned().unwrap_or_default()
    }

    /// Reports what was not changed.
    fn report_rest(self) {
        let [first, second] = &self.views;
        for (report, view) in [(&mut self.report.first, first), (&mut self.report.second, second)] {
            report.is_partial = view.is_partial;
            for item in &view.unlisted {
                add(FileProblem::of_unlisted(item), &mut report.unreadable, &mut report.more_unreadable);
            }
            for (path, reason) in &view.unreadable {
                report.add_unreadable(path, reason);
            }
        }
        let copies: BTreeSet<_> =
            self.views.iter().flat_map(|view| view.files.keys()).filter(|path| is_conflict_copy(path)).collect();
        for copy in copies {
            self.report.add_conflict_copy(copy.clone());
        }
    }
}

/// Why a memory refused a change.
fn reason_of(error: &StoreError) -> String {
    match error {
        StoreError::Refused { reason, .. } => reason.clone(),
        error => Problem::of(error).message,
    }
}

/// Divides changes into batches, whose paths do not overlap. The first batch is the last of the list.
fn groups(units: Vec<Unit>) -> Vec<Vec<Unit>> {
    let (mut groups, mut paths, mut bytes) = (Vec::<Vec<_>>::new(), BTreeSet::new(), 0);
    for unit in units {
        let changed = || unit.batch.changes().iter().flat_map(Change::paths);
        let overlaps = |path: &StorePath| {
            let neighbors =
                paths.range::<StorePath, _>(..path).next_back().into_iter().chain(paths.range(path..).next());
            neighbors.into_iter().any(|other: &StorePath| other.overlaps(path))
        };
        bytes += unit.bytes();
        let is_full = groups.last().is_none_or(|group| group.len() >= MAX_FILES) || bytes > MAX_BYTES;
        if is_full || changed().any(overlaps) {
            groups.push(Vec::new());
            paths.clear();
            bytes = unit.bytes();
        }
        paths.extend(changed().cloned());
        if let Some(group) = groups.last_mut() {
            group.push(unit);
        }
    }
    groups.reverse();
    groups
}
