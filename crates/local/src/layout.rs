//! The layout of the base directory:
//!
//! ```text
//! {base}/memories/                 the files, which people may read and edit; nothing else
//! {base}/.memory-tool/lock         locked in shared mode by readers, exclusively by writers
//! {base}/.memory-tool/turnstile    locked while waiting for `lock`, so that readers cannot starve a writer
//! {base}/.memory-tool/staging/     new contents before they are moved into place, and what a batch replaced or removed
//! {base}/.memory-tool/log          the last changes of one file with new records, which may not be flushed yet
//! {base}/.memory-tool/journal      a committed batch of several changes that may not be complete
//! {base}/.memory-tool/stuck        a journal that a process could neither complete nor undo
//! {base}/.memory-tool/records/     the records of wrappers, as files
//! {base}/.memory-tool/sequence     the number of changes, odd while one is made
//! {base}/.memory-tool/conflicts/   what an undone batch could not put back because of another program
//! ```
//!
//! Write access to `.memory-tool` gives control over the files. Therefore it and its directories must belong to this
//! user, without write access for others, and others must not be able to replace or add files in the base and in
//! `memories`. The contents of `.memory-tool` are not trusted either, because a store may be a copy from an unknown
//! source.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::iter;
use std::path::Path;
use std::sync::{Arc, Mutex};

use cap_std::fs::Dir;
use memory_tool_core::{Node, OpenMode, OpenOptions, Precondition, StoreError, StorePath, lock};

use crate::cached_read::CachedReader;
use crate::directories::{
    MEMORIES, PRIVATE, RECORDS, above_root, create_base, directory, directory_or_create, refuse_mount,
};
use crate::disk::{self, Access, Rule, move_to_free};
use crate::failure::{failed, taken_or_failed, unconfirmed};
use crate::file_system;
use crate::handles::Handles;
use crate::journal::{self, Committed};
use crate::log::KnownLog;
use crate::name::{Name, is_remnant};
use crate::open_files::OpenFiles;
use crate::probe;
use crate::removal;
use crate::sequence::{Sequence, is_unfinished};
use crate::tree::Tree;
use crate::version_cache::VersionCache;

const MEMORIES_IN_CAPITALS: Name<'_> = Name::constant("MEMORIES");
const STAGING: Name<'_> = Name::constant("staging");
const CONFLICTS: Name<'_> = Name::constant("conflicts");

/// The path of the lock file relative to the base directory.
const LOCK_PATH: &str = ".memory-tool/lock";

/// The number of directories that are remembered as flushed.
const MAX_FLUSHED: usize = 1_000;

/// The requirements that an operator waives.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trust {
    pub(crate) other_users: bool,
    pub(crate) file_system: bool,
}

/// The base directory. Each operation looks everything else up by name, so another program may remove and recreate
/// directories.
#[derive(Debug)]
pub(crate) struct Layout {
    files: Arc<OpenFiles>,
    versions: VersionCache,
    /// Directories that are on the disk, with those above them.
    flushed: Mutex<HashSet<StorePath>>,
    cached_reader: CachedReader,
    pub(crate) log: Mutex<KnownLog>,
    pub(crate) is_writable: bool,
    trust: Trust,
    pub(crate) max_file_bytes: u64,
    /// Whether the file system is case-insensitive, the default on macOS and Windows.
    ignores_case: bool,
}

impl Layout {
    /// Opens the base directory. In the mode [`OpenMode::Create`], creates it and its directories if they are missing.
    pub(crate) fn open(base: &Path, options: OpenOptions, trust: Trust) -> io::Result<Self> {
        let is_new = options.mode == OpenMode::Create && create_base(base)?;
        let opened = Self::open_base(base, options, trust);
        if opened.is_err() && is_new {
            let _ = std::fs::remove_dir(base); // fails if it contains a store
        }
        opened
    }

    fn open_base(base: &Path, options: OpenOptions, trust: Trust) -> io::Result<Self> {
        let mut layout = Self {
            files: OpenFiles::open(base)?,
            versions: VersionCache::default(),
            flushed: Mutex::default(),
            cached_reader: CachedReader::default(),
            log: Mutex::default(),
            is_writable: matches!(options.mode, OpenMode::Create | OpenMode::Existing),
            trust,
            max_file_bytes: options.max_file_bytes,
            ignores_case: false,
        };
        if layout.is_writable && !trust.file_system {
            file_system::check(&*layout.base()?)?;
        }
        if options.mode == OpenMode::Create {
            layout.create()?;
        }
        layout.check()?;
        let base = layout.base()?;
        layout.ignores_case =
            disk::metadata(&base, MEMORIES_IN_CAPITALS)?.is_some() && !disk::lists(&base, MEMORIES_IN_CAPITALS)?;
        Ok(layout)
    }

    /// Creates missing directories. Tries what a new store needs from its file system.
    fn create(&self) -> io::Result<()> {
        let is_new = self.existing_private()?.is_none();
        let staging = self.staging_in(&self.private()?)?;
        let memories = self.root_or_create(&StorePath::memories())?;
        if is_new { refuse_mount(&staging, &memories).and_then(|()| probe::probe(&staging, &memories)) } else { Ok(()) }
    }

    /// Checks that there is a store and, for writing, that its directories are on the same mount and under the control
    /// of this user.
    fn check(&self) -> io::Result<()> {
        let base = self.base()?;
        let (private, memories) = (self.existing_private()?, directory(&base, MEMORIES)?);
        if private.is_none() && memories.is_none() {
            let message = "not a memory store: the directory `memories` is missing";
            return Err(io::Error::new(io::ErrorKind::NotFound, message));
        }
        if !self.is_writable {
            return Ok(());
        }
        if let Some(memories) = memories {
            let staging = private.as_ref().map_or(Ok(None), |private| directory(private, STAGING))?;
            // Before the first change, `.memory-tool` may be missing.
            refuse_mount(staging.or(private).as_ref().unwrap_or(&base), &memories)?;
        }
        self.refuse_other_writers()
    }

    /// Checks that no other user can replace or add files, unless they are trusted.
    pub(crate) fn refuse_other_writers(&self) -> io::Result<()> {
        if self.trust.other_users {
            return Ok(());
        }
        let base = self.base()?;
        disk::refuse_other_users(&base, "the directory of the store", Rule::Base)?;
        if let Some(memories) = directory(&base, MEMORIES)? {
            disk::refuse_other_users(&memories, "`memories`", Rule::Memories)?;
        }
        self.check_records()
    }

    /// Checks that no other user can replace or add records.
    pub(crate) fn check_records(&self) -> io::Result<()> {
        match self.existing_private()? {
            Some(private) => self.existing_private_directory(&private, RECORDS).map(drop),
            None => Ok(()),
        }
    }

    /// A journal that can be neither completed nor undone.
    pub(crate) fn stuck_journal(&self) -> io::Result<Option<Committed>> {
        match self.existing_private()? {
            Some(private) if journal::is_stuck(&private)? => journal::read(&private),
            _ => Ok(None),
        }
    }

    /// Whether a program ended during the last change. The caller holds the lock.
    pub(crate) fn is_change_unfinished(&self) -> io::Result<bool> {
        let Some(private) = self.existing_private()? else { return Ok(false) };
        let sequence = Sequence::open(&private, Access::Read)?;
        sequence.map_or(Ok(true), |sequence| sequence.read().map(is_unfinished))
    }

    /// The names in the staging directory.
    pub(crate) fn staged(&self) -> io::Result<Vec<OsString>> {
        self.names_in(STAGING)
    }

    /// Whether a name in the staging directory is left because another program has a removed file open.
    pub(crate) fn is_held_open(&self, staged: &OsStr) -> io::Result<bool> {
        let Some(private) = self.existing_private()? else { return Ok(false) };
        let staging = self.existing_private_directory(&private, STAGING)?;
        staging.map_or(Ok(false), |staging| disk::holds_remnant(&staging, staged))
    }

    /// The names in the directory of contents that were set aside for the operator.
    pub(crate) fn set_aside(&self) -> io::Result<Vec<OsString>> {
        self.names_in(CONFLICTS)
    }

    fn names_in(&self, name: Name<'_>) -> io::Result<Vec<OsString>> {
        let Some(private) = self.existing_private()? else { return Ok(Vec::new()) };
        let Some(directory) = self.existing_private_directory(&private, name)? else { return Ok(Vec::new()) };
        Ok(disk::entries(&directory)?.into_iter().map(|entry| entry.name).collect())
    }

    pub(crate) fn base(&self) -> io::Result<Arc<Dir>> {
        self.files.base()
    }

    /// Handles that no operation uses.
    pub(crate) fn idle_handles(&self) -> Option<Arc<Handles>> {
        self.files.take_handles()
    }

    /// Keeps the handles of an operation that ended.
    pub(crate) fn keep(&self, handles: Arc<Handles>) {
        self.files.keep_handles(handles);
    }

    /// Whether a directory and those above it are known to be on the disk.
    pub(crate) fn is_flushed(&self, path: &StorePath) -> bool {
        lock(&self.flushed).contains(path)
    }

    /// Notes that a directory and those above it are on the disk.
    pub(crate) fn note_flushed(&self, path: &StorePath) {
        let mut flushed = lock(&self.flushed);
        if flushed.len() >= MAX_FLUSHED {
            flushed.clear();
        }
        flushed.extend(iter::successors(Some(path.clone()), StorePath::parent));
    }

    /// Forgets which directories are on the disk, because one was moved or removed.
    pub(crate) fn forget_flushed(&self) {
        lock(&self.flushed).clear();
    }

    /// Flushes the names above the root of a path.
    pub(crate) fn sync_above_root(&self, path: &StorePath) -> io::Result<()> {
        if path.is_record() {
            disk::sync_directory(&self.private()?)?;
        }
        disk::sync_directory(&*self.base()?)
    }

    /// Whether other processes find the lock file of these handles.
    pub(crate) fn holds_lock_of(&self, handles: &Handles) -> io::Result<bool> {
        Ok(disk::identity_at(&*self.base()?, LOCK_PATH)? == Some(handles.lock_identity))
    }

    pub(crate) fn has_lock_file(&self) -> io::Result<bool> {
        Ok(disk::identity_at(&*self.base()?, LOCK_PATH)?.is_some())
    }

    /// Reads a file or an absent record without a lock and without waiting for the disk; `None` if that is not
    /// possible, or a precondition does not hold.
    pub(crate) fn read_cached(&self, path: &StorePath, required: &[(StorePath, Precondition)]) -> Option<Node> {
        let is_remnant = |path: &StorePath| path.file_name().is_some_and(|name| is_remnant(OsStr::new(name)));
        if self.ignores_case || is_remnant(path) || required.iter().any(|(path, _)| is_remnant(path)) {
            return None;
        }
        self.cached_reader.read(&self.files, path, required, self.max_file_bytes, &self.versions)
    }

    /// Allows reads without a lock for a while, because a holder of the lock found the store consistent.
    pub(crate) fn allow_cached_reads(&self, handles: &Handles) {
        if let Ok(Some(sequence)) = handles.sequence() {
            self.files.allow_reads(sequence);
        }
    }

    /// The files and the records.
    pub(crate) fn tree(&self) -> io::Result<Tree<'_>> {
        Ok(Tree::new(self.base()?, &self.versions, self.ignores_case, self.max_file_bytes))
    }

    /// The directory of the root of a path, created if it is missing.
    pub(crate) fn root_or_create(&self, path: &StorePath) -> io::Result<Dir> {
        if path.is_record() {
            self.private_directory(&self.private()?, RECORDS)
        } else {
            directory_or_create(&*self.base()?, MEMORIES)
        }
    }

    /// Checks that everything under a root can be removed.
    pub(crate) fn check_root_removable(&self, root: &StorePath) -> io::Result<()> {
        match above_root(&*self.base()?, root)? {
            Some((parent, name)) => removal::check(&parent, name),
            None => Ok(()),
        }
    }

    /// Moves the directory of a root to `name` in `staging`, and creates a new one.
    pub(crate) fn remove_root(&self, root: &StorePath, staging: &Dir, name: Name<'_>) -> Result<(), StoreError> {
        const OPERATION: &str = "removing all files";
        let above = self.base().and_then(|base| above_root(&base, root)).map_err(|error| failed(OPERATION, error))?;
        let Some((parent, root_name)) = above else { return Ok(()) };
        match disk::rename_new(&parent, root_name, staging, name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && root.is_record() => return Ok(()),
            moved => moved.map_err(|error| failed(OPERATION, error))?,
        }
        disk::sync_directory(&parent).map_err(|error| unconfirmed(OPERATION, error))?;
        // A failure here is harmless: a missing directory is empty, and the next change creates it.
        let _ = self.root_or_create(root);
        Ok(())
    }

    /// Moves the directory of a root back from `staging`, unless files were created since it was removed.
    pub(crate) fn put_root_back(&self, root: &StorePath, staging: &Dir, name: Name<'_>) -> Result<(), StoreError> {
        const OPERATION: &str = "restoring all files";
        let above = self.base().and_then(|base| above_root(&base, root)).map_err(|error| failed(OPERATION, error))?;
        let Some((parent, root_name)) = above else { return Ok(()) };
        let moved = move_to_free(staging, staging, name, &parent, root_name);
        moved.map_err(|error| taken_or_failed(root, OPERATION, error))?;
        disk::sync_directory(&parent).map_err(|error| failed(OPERATION, error))
    }

    /// The directory of the lock and the journal.
    pub(crate) fn private(&self) -> io::Result<Dir> {
        self.private_directory(&*self.base()?, PRIVATE)
    }

    /// The same directory; `None` if it does not exist. Owner and mode are checked only if the store is writable,
    /// because a reader trusts it no more than the files.
    pub(crate) fn existing_private(&self) -> io::Result<Option<Dir>> {
        self.existing_private_directory(&*self.base()?, PRIVATE)
    }

    /// The directory of contents that were set aside for the operator.
    pub(crate) fn conflicts(&self) -> io::Result<Dir> {
        self.private_directory(&self.private()?, CONFLICTS)
    }

    /// The directory of new contents and removed directories.
    pub(crate) fn staging_in(&self, private: &Dir) -> io::Result<Dir> {
        self.private_directory(private, STAGING)
    }

    fn private_directory(&self, parent: &Dir, name: Name<'_>) -> io::Result<Dir> {
        if let Some(found) = directory(parent, name)? {
            self.refuse_other_users(&found, name)?;
            return Ok(found);
        }
        let created = directory_or_create(parent, name)?;
        match self.refuse_other_users(&created, name) {
            Err(_) if !disk::keeps_modes(&created)? => {
                let _ = parent.remove_dir(name);
                Err(disk::without_modes())
            }
            checked => checked.map(|()| created),
        }
    }

    fn existing_private_directory(&self, parent: &Dir, name: Name<'_>) -> io::Result<Option<Dir>> {
        let found = directory(parent, name)?;
        if let Some(found) = found.as_ref().filter(|_| self.is_writable) {
            self.refuse_other_users(found, name)?;
        }
        Ok(found)
    }

    fn refuse_other_users(&self, directory: &Dir, name: Name<'_>) -> io::Result<()> {
        if self.trust.other_users {
            return Ok(());
        }
        disk::refuse_other_users(directory, &format!("`{name}`"), Rule::Private)
    }
}
