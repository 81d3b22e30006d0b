//! [`Files`]: the files of one store, in SQL.

use std::time::{SystemTime, UNIX_EPOCH};

use memory_tool_core::{
    Change, FailureKind, FileEntry, MAX_PATH_BYTES, MemoryPath, Node, StoreError, StoredFile, Usage, Version,
};
use rusqlite::{Connection, Params, Row};

use crate::failure::Failure;
use crate::name::StoreName;

/// The rows beneath the path `?2`: `0` is the character after `/`, so a range of the primary key holds them all.
macro_rules! beneath {
    () => {
        "store = ?1 AND path > ?2 || '/' AND path < ?2 || '0'"
    };
}

/// The row of the path `?2` and those beneath it. The range that SQLite scans for them also holds such siblings of the path as
/// begin with its name and a character before `/`: the second condition leaves them out.
macro_rules! at_or_beneath {
    () => {
        "store = ?1 AND path >= ?2 AND path < ?2 || '0' AND (path = ?2 OR path > ?2 || '/')"
    };
}

/// The file at the path `?2`, with these bytes.
macro_rules! file {
    ($bytes:literal) => {
        concat!(
            "SELECT content_id, revision, ",
            $bytes,
            " FROM file JOIN content ON content.id = content_id WHERE store = ?1 AND path = ?2"
        )
    };
}

/// The files of one store, on a connection that this thread has to itself.
pub(crate) struct Files<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) store: &'a StoreName,
}

impl Files<'_> {
    /// What is at the path.
    pub(crate) fn read(&self, path: &MemoryPath) -> Result<Node, Failure> {
        self.node(file!("bytes"), path)
    }

    /// What is at the path, for a look at its version: a file comes without its bytes.
    pub(crate) fn read_version(&self, path: &MemoryPath) -> Result<Node, Failure> {
        self.node(file!("x''"), path)
    }

    fn node(&self, file: &str, path: &MemoryPath) -> Result<Node, Failure> {
        if path.is_root() {
            return Ok(Node::Directory);
        }
        match self.first(file, path, stored_file)? {
            Some(file) => Ok(Node::File(file)),
            None => self.read_again(path),
        }
    }

    /// What is at a path that held no file a moment ago. One statement, so that what it finds is of one moment.
    fn read_again(&self, path: &MemoryPath) -> Result<Node, Failure> {
        const FILE_OR_DIRECTORY: &str = concat!(
            "SELECT content_id, revision, bytes FROM file LEFT JOIN content ON content.id = content_id ",
            "WHERE store = ?1 AND path = ?2 ",
            "UNION ALL SELECT NULL, NULL, NULL WHERE EXISTS (SELECT 1 FROM file WHERE ",
            beneath!(),
            ")"
        );
        let found = self.first(FILE_OR_DIRECTORY, path, |row| {
            let is_file = row.get::<_, Option<i64>>(0)?.is_some();
            if is_file { stored_file(row).map(Node::File) } else { Ok(Node::Directory) }
        });
        Ok(found?.unwrap_or(Node::Absent))
    }

    /// The files beneath the directory; a row whose path is no [`MemoryPath`], put there by others, is left out.
    pub(crate) fn list(&self, directory: &MemoryPath) -> Result<Vec<FileEntry>, Failure> {
        const LIST: &str = concat!("SELECT path, size FROM file WHERE ", beneath!());
        let mut statement = self.connection.prepare_cached(LIST)?;
        let mut rows = statement.query((self.store.as_str(), directory.as_str()))?;
        let mut entries = Vec::new();
        while let Some(row) = rows.next()? {
            if let Some(path) = row.get_ref(0)?.as_str().ok().and_then(canonical) {
                entries.push(FileEntry::new(path, size(row.get(1)?)?));
            }
        }
        Ok(entries)
    }

    /// How much is at or beneath the path. One statement, which reads no content.
    pub(crate) fn usage(&self, path: &MemoryPath) -> Result<Usage, Failure> {
        const USAGE: &str = concat!(
            "SELECT count(*), coalesce(sum(size), 0), ",
            // The names of a path are what its slashes begin, but the first, which begins `/memories`.
            "coalesce(max(length(path) - length(replace(path, '/', ''))), 1) - 1 FROM file WHERE ",
            at_or_beneath!()
        );
        let mut statement = self.connection.prepare_cached(USAGE)?;
        let mut rows = statement.query((self.store.as_str(), path.as_str()))?;
        match rows.next()? {
            Some(row) => Ok(Usage::new(size(row.get(0)?)?, size(row.get(1)?)?, size(row.get(2)?)?)),
            None => Ok(Usage::default()), // never: an aggregate is one row
        }
    }

    /// Makes one change, within a transaction that holds the write lock.
    pub(crate) fn change(&self, change: Change) -> Result<(), Failure> {
        match change {
            Change::Write { path, content } => self.write(path, &content),
            Change::Remove { path } => self.remove(path),
            Change::Rename { from, to } => self.rename(from, to),
        }
    }

    fn write(&self, path: MemoryPath, content: &[u8]) -> Result<(), Failure> {
        if self.replace(&path, content)? {
            return Ok(());
        }
        self.refuse_file_above(&path)?;
        if self.is_directory(&path)? {
            return Err(StoreError::AlreadyExists { path }.into());
        }
        self.insert(&path, content)
    }

    /// Replaces the contents of the file; whether it has some.
    fn replace(&self, path: &MemoryPath, content: &[u8]) -> Result<bool, Failure> {
        const CONTENT: &str = "UPDATE content SET revision = revision + 1, modified_at = ?4, bytes = ?3 \
             WHERE id = (SELECT content_id FROM file WHERE store = ?1 AND path = ?2)";
        const FILE: &str = "UPDATE file SET size = ?3 WHERE store = ?1 AND path = ?2 AND size <> ?3";
        if self.execute(CONTENT, (self.store.as_str(), path.as_str(), content, now()))? == 0 {
            return Ok(false);
        }
        self.execute(FILE, (self.store.as_str(), path.as_str(), content.len() as i64))?;
        Ok(true)
    }

    /// Makes the file. One whose content was lost gets this one: there was nothing to replace.
    fn insert(&self, path: &MemoryPath, content: &[u8]) -> Result<(), Failure> {
        const CONTENT: &str = "INSERT INTO content (modified_at, bytes) VALUES (?1, ?2)";
        const FILE: &str = "INSERT INTO file (store, path, size, content_id, created_at) \
             VALUES (?1, ?2, ?3, last_insert_rowid(), ?4) \
             ON CONFLICT (store, path) DO UPDATE SET size = excluded.size, content_id = excluded.content_id";
        let now = now();
        self.execute(CONTENT, (now, content))?;
        self.execute(FILE, (self.store.as_str(), path.as_str(), content.len() as i64, now))?;
        Ok(())
    }

    fn remove(&self, path: MemoryPath) -> Result<(), Failure> {
        const REMOVE: &str = concat!("DELETE FROM file WHERE ", at_or_beneath!());
        let removed = self.execute(REMOVE, (self.store.as_str(), path.as_str()))?;
        if removed == 0 && !path.is_root() {
            return Err(StoreError::NotFound { path }.into());
        }
        Ok(())
    }

    fn rename(&self, from: MemoryPath, to: MemoryPath) -> Result<(), Failure> {
        // Both functions count characters.
        const RENAME: &str =
            concat!("UPDATE file SET path = ?3 || substr(path, length(?2) + 1) WHERE ", at_or_beneath!());
        if !self.is_anything(&from)? {
            return Err(StoreError::NotFound { path: from }.into());
        }
        self.refuse_file_above(&to)?;
        if self.is_anything(&to)? {
            return Err(StoreError::AlreadyExists { path: to }.into());
        }
        self.refuse_too_long(&from, &to)?;
        self.execute(RENAME, (self.store.as_str(), from.as_str(), to.as_str()))?;
        Ok(())
    }

    fn refuse_file_above(&self, path: &MemoryPath) -> Result<(), Failure> {
        for path in path.parents().filter(|above| !above.is_root()) {
            if self.is_file(&path)? {
                return Err(StoreError::NotADirectory { path }.into());
            }
        }
        Ok(())
    }

    /// Refuses a rename that makes a path too long: of several, the first in their order.
    fn refuse_too_long(&self, from: &MemoryPath, to: &MemoryPath) -> Result<(), Failure> {
        const TOO_LONG: &str =
            concat!("SELECT path FROM file WHERE length(CAST(path AS BLOB)) > ?3 AND ", at_or_beneath!());
        let longest = (MAX_PATH_BYTES + from.as_str().len()).saturating_sub(to.as_str().len());
        let mut statement = self.connection.prepare_cached(TOO_LONG)?;
        let paths = statement.query_map((self.store.as_str(), from.as_str(), longest as i64), |row| row.get(0))?;
        let paths = paths.collect::<Result<Vec<String>, _>>()?;
        let first = paths.iter().filter_map(|path| canonical(path)).min();
        first.map_or(Ok(()), |path| Ok(path.rebase(from, to).map(|_| ())?))
    }

    /// Whether the store holds a file.
    pub(crate) fn exist(&self) -> rusqlite::Result<bool> {
        self.connection.prepare_cached("SELECT 1 FROM file WHERE store = ?1")?.exists([self.store.as_str()])
    }

    fn is_file(&self, path: &MemoryPath) -> Result<bool, Failure> {
        self.finds("SELECT 1 FROM file WHERE store = ?1 AND path = ?2", path)
    }

    fn is_directory(&self, path: &MemoryPath) -> Result<bool, Failure> {
        self.finds(concat!("SELECT 1 FROM file WHERE ", beneath!()), path)
    }

    fn is_anything(&self, path: &MemoryPath) -> Result<bool, Failure> {
        self.finds(concat!("SELECT 1 FROM file WHERE ", at_or_beneath!()), path)
    }

    fn finds(&self, sql: &str, path: &MemoryPath) -> Result<bool, Failure> {
        Ok(self.first(sql, path, |_| Ok(()))?.is_some())
    }

    /// The first row that a statement about a path of this store gives.
    fn first<T>(
        &self,
        sql: &str,
        path: &MemoryPath,
        take: impl FnOnce(&Row<'_>) -> Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query((self.store.as_str(), path.as_str()))?;
        rows.next()?.map(take).transpose()
    }

    fn execute(&self, sql: &str, parameters: impl Params) -> Result<usize, Failure> {
        Ok(self.connection.prepare_cached(sql)?.execute(parameters)?)
    }
}

/// The file of a row of its content's id, revision and bytes.
fn stored_file(row: &Row<'_>) -> Result<StoredFile, Failure> {
    let (Some(id), Some(revision), Some(bytes)): (Option<i64>, Option<i64>, _) =
        (row.get(0)?, row.get(1)?, row.get(2)?)
    else {
        return Err(Failure::new(FailureKind::Damaged, "the content of a file is missing"));
    };
    Ok(StoredFile::new(bytes, Version::new([id.to_be_bytes(), revision.to_be_bytes()].concat())))
}

/// The path of a row, where that is one.
pub(crate) fn canonical(stored: &str) -> Option<MemoryPath> {
    stored.parse().ok().filter(|path: &MemoryPath| path.as_str() == stored)
}

fn size(stored: i64) -> Result<u64, Failure> {
    stored.try_into().map_err(|_| Failure::new(FailureKind::Damaged, "the size of a file is negative"))
}

/// The time in milliseconds since 1970, as far as the clock of the machine knows it.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
