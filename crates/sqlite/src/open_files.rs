//! [`OpenFiles`]: detects that the files of an open database were removed or replaced.
//!
//! SQLite continues to write to a removed file, and acknowledges it. All connections of a process to one
//! database share the files, also the shared memory. Therefore a process opens the file that took the place of another
//! only after its last connection to the other is closed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use memory_tool_core::lock;

use crate::sidecar::{self, FileNumber, LOG, SHARED_MEMORY, beside};

/// The files of each database that this process has open.
static ALL: Mutex<Vec<Weak<OpenFiles>>> = Mutex::new(Vec::new());

/// The database, its log and its shared memory, as all connections of this process have them open.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    paths: [PathBuf; 3],
    /// Unset until the log is open.
    numbers: OnceLock<[FileNumber; 3]>,
}

impl OpenFiles {
    /// The files of a database, given as a path without links, as long as a connection has them open.
    pub(crate) fn of(database: &Path) -> Arc<Self> {
        let mut all = lock(&ALL);
        all.retain(|files| files.strong_count() > 0);
        if let Some(known) = all.iter().filter_map(Weak::upgrade).find(|files| files.paths[0] == database) {
            return known;
        }
        let paths = ["", LOG, SHARED_MEMORY].map(|ending| beside(database, ending));
        let files = Arc::new(Self { paths, numbers: OnceLock::new() });
        all.push(Arc::downgrade(&files));
        files
    }

    /// The path of the log.
    pub(crate) fn log(&self) -> &Path {
        &self.paths[1]
    }

    /// Whether the paths still have the open files. Blocks.
    pub(crate) fn are_in_place(&self) -> bool {
        match self.at_paths() {
            Ok(Some(found)) => *self.numbers.get_or_init(|| found) == found,
            Ok(None) => self.numbers.get().is_none(),
            Err(_) => true, // whether they were replaced is unknown, and the next access reports the failure
        }
    }

    /// The files at the paths; `None` if one is missing.
    fn at_paths(&self) -> io::Result<Option<[FileNumber; 3]>> {
        let mut numbers = [FileNumber::default(); 3];
        for (number, path) in numbers.iter_mut().zip(&self.paths) {
            let Some(found) = sidecar::metadata(path)? else { return Ok(None) };
            *number = FileNumber::of(&found);
        }
        Ok(Some(numbers))
    }
}
