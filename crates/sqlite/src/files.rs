//! [`Files`]: the files and records of one memory, in SQL.

use memory_tool_core::{
    Change, ErrorKind, FileEntry, FileTimes, Listing, MAX_PATH_BYTES, MemoryName, Node, NodeKind, Stat, StoreError,
    StorePath, StoreState, StoredFile, UnlistedItem, Usage, Version,
};
use rusqlite::{Connection, Params, Row};

use crate::failure::Failure;

/// The rows under the path `?2`, as a range of the primary key: `0` is the character after `/`.
macro_rules! under {
    () => {
        "memory = ?1 AND path > ?2 || '/' AND path < ?2 || '0'"
    };
}

/// The row of the path `?2` and the rows under it. The range also contains siblings whose names continue with a
/// character before `/`; the second condition excludes them.
macro_rules! at_or_under {
    () => {
        "memory = ?1 AND path >= ?2 AND path < ?2 || '0' AND (path = ?2 OR path > ?2 || '/')"
    };
}

/// The contents of a row. If they are longer than `?3`, SQLite reads only their length.
macro_rules! bytes {
    () => {
        "CASE WHEN length(bytes) <= ?3 THEN bytes END"
    };
}

/// The operation in errors of checks.
const CHECKING: &str = "checking the preconditions";

/// The files and records of one memory, on a connection that only this thread uses.
pub(crate) struct Files<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) memory: &'a Memory,
}

/// A memory in a database.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    pub(crate) name: MemoryName,
    pub(crate) max_file_bytes: u64,
}

impl Files<'_> {
    /// Reads a path. A directory needs two statements, so this must be in a transaction.
    pub(crate) fn read(&self, path: &StorePath) -> Result<Node, Failure> {
        if let Some(node) = self.read_at_once(path)? {
            return Ok(node);
        }
        let listing = self.list(path)?;
        Ok(if listing.files.is_empty() { Node::Absent } else { Node::Directory(listing) })
    }

    /// Reads the root or a file with one statement.
    fn read_at_once(&self, path: &StorePath) -> Result<Option<Node>, Failure> {
        const FILE: &str = concat!(
            "SELECT content_id, revision, length(bytes), ",
            bytes!(),
            " FROM file LEFT JOIN content ON content.id = content_id WHERE memory = ?1 AND path = ?2"
        );
        if path.is_root() {
            return self.list(path).map(Node::Directory).map(Some);
        }
        self.first(FILE, (self.name(), path.as_str(), self.limit()), |row| {
            let version = content_version(row)?;
            let length: i64 = row.get(2)?;
            match row.get(3)? {
                Some(bytes) => Ok(Node::File(StoredFile::new(bytes, version))),
                None => Err(StoreError::too_large_to_read(path, size(length)?, self.memory.max_file_bytes).into()),
            }
        })
    }

    fn name(&self) -> &str {
        self.memory.name.as_str()
    }

    fn limit(&self) -> i64 {
        i64::try_from(self.memory.max_file_bytes).unwrap_or(i64::MAX)
    }

    /// Lists the files under a directory. Rows of other programs with invalid paths are unlisted items.
    fn list(&self, directory: &StorePath) -> Result<Listing, Failure> {
        const LIST: &str = concat!("SELECT path, size, created_at, modified_at FROM file WHERE ", under!());
        let mut statement = self.connection.prepare_cached(LIST)?;
        let mut rows = statement.query((self.name(), directory.as_str()))?;
        let mut listing = Listing::default();
        while let Some(row) = rows.next()? {
            let stored = row.get_ref(0)?;
            let Some(path) = stored.as_str().ok().and_then(canonical) else {
                listing.unlisted.push(UnlistedItem::of_illegal_path(&String::from_utf8_lossy(
                    stored.as_bytes().unwrap_or_default(),
                )));
                continue;
            };
            let entry = match size(row.get(1)?) {
                Ok(size) => FileEntry::new(path, size),
                Err(_) => FileEntry::damaged(path, 0),
            };
            listing.files.push(
                entry.with_created(FileTimes::of_millis(row.get(2)?)).with_modified(FileTimes::of_millis(row.get(3)?)),
            );
        }
        Ok(listing)
    }

    /// Returns what is at the path, without contents.
    fn find(&self, path: &StorePath) -> Result<Stat, Failure> {
        const VERSION: &str = "SELECT content_id, revision FROM file LEFT JOIN content ON content.id = content_id \
             WHERE memory = ?1 AND path = ?2";
        if path.is_root() {
            return Ok(Stat::Directory);
        }
        if let Some(version) = self.first(VERSION, (self.name(), path.as_str()), content_version)? {
            return Ok(Stat::File(version));
        }
        Ok(if self.is_directory(path)? { Stat::Directory } else { Stat::Absent })
    }

    /// The usage at and under the path. One statement, which reads no contents.
    fn count(&self, path: &StorePath) -> Result<Usage, Failure> {
        const USAGE: &str = concat!(
            // Other programs may have written sizes whose sum overflows, which is an error in `sum`.
            "SELECT count(*), CAST(total(max(size, 0)) AS INTEGER), ",
            // The depth is the number of slashes minus one, because the first slash starts `/memories`.
            "coalesce(max(length(path) - length(replace(path, '/', ''))), 1) - 1 FROM file WHERE ",
            at_or_under!()
        );
        let usage = self.first(USAGE, (self.name(), path.as_str()), |row| {
            Ok(Usage::new(size(row.get(0)?)?, size(row.get(1)?)?, size(row.get(2)?)?))
        });
        usage.map(Option::unwrap_or_default) // an aggregate returns one row
    }

    /// Applies one change in a transaction that has the write lock.
    pub(crate) fn change(&self, change: Change) -> Result<(), Failure> {
        change.check(self)?;
        match change {
            Change::Write { path, content, times } => self.write(&path, &content, times),
            Change::Remove { path } => self.remove(&path),
            Change::Rename { from, to } => self.rename(&from, &to),
        }
    }

    fn write(&self, path: &StorePath, content: &[u8], times: FileTimes) -> Result<(), Failure> {
        if self.replace(path, content, times)? { Ok(()) } else { self.insert(path, content, times) }
    }

    /// Replaces the contents of a file. Returns whether it had any.
    fn replace(&self, path: &StorePath, content: &[u8], times: FileTimes) -> Result<bool, Failure> {
        const CONTENT: &str = "UPDATE content SET revision = revision + 1 + abs(random() % 4294967296), bytes = ?3 \
             WHERE id = (SELECT content_id FROM file WHERE memory = ?1 AND path = ?2)";
        const FILE: &str = "UPDATE file \
             SET size = ?3, created_at = min(coalesce(?4, created_at), ?5), modified_at = ?5 \
             WHERE memory = ?1 AND path = ?2";
        if self.execute(CONTENT, (self.name(), path.as_str(), content))? == 0 {
            return Ok(false);
        }
        let (created, modified) = times.to_millis();
        self.execute(FILE, (self.name(), path.as_str(), content.len() as i64, created, modified))?;
        Ok(true)
    }

    /// Creates a file, or restores the contents of a file that has lost them.
    fn insert(&self, path: &StorePath, content: &[u8], times: FileTimes) -> Result<(), Failure> {
        const CONTENT: &str = "INSERT INTO content (revision, bytes) VALUES (abs(random() % 4294967296), ?1)";
        const FILE: &str = "INSERT INTO file (memory, path, size, content_id, created_at, modified_at) \
             VALUES (?1, ?2, ?3, last_insert_rowid(), min(coalesce(?4, ?5), ?5), ?5) ON CONFLICT (memory, path) \
             DO UPDATE SET size = excluded.size, content_id = excluded.content_id, modified_at = excluded.modified_at";
        self.execute(CONTENT, (content,))?;
        let (created, modified) = times.to_millis();
        self.execute(FILE, (self.name(), path.as_str(), content.len() as i64, created, modified))?;
        Ok(())
    }

    fn remove(&self, path: &StorePath) -> Result<(), Failure> {
        const REMOVE: &str = concat!("DELETE FROM file WHERE ", at_or_under!());
        self.execute(REMOVE, (self.name(), path.as_str()))?;
        Ok(())
    }

    fn rename(&self, from: &StorePath, to: &StorePath) -> Result<(), Failure> {
        // Both functions count characters.
        const RENAME: &str =
            concat!("UPDATE file SET path = ?3 || substr(path, length(?2) + 1) WHERE ", at_or_under!());
        self.refuse_too_long(from, to)?;
        self.execute(RENAME, (self.name(), from.as_str(), to.as_str()))?;
        Ok(())
    }

    /// Refuses a rename that makes a path too long. The error names the first such path.
    fn refuse_too_long(&self, from: &StorePath, to: &StorePath) -> Result<(), Failure> {
        const TOO_LONG: &str =
            concat!("SELECT path FROM file WHERE length(CAST(path AS BLOB)) > ?3 AND ", at_or_under!());
        let longest = (MAX_PATH_BYTES + from.as_str().len()).saturating_sub(to.as_str().len());
        let mut statement = self.connection.prepare_cached(TOO_LONG)?;
        let paths = statement.query_map((self.name(), from.as_str(), longest as i64), |row| row.get(0))?;
        let paths = paths.collect::<Result<Vec<String>, _>>()?;
        let first = paths.iter().filter_map(|path| canonical(path)).min();
        first.map_or(Ok(()), |path| Ok(path.replace_prefix(from, to).map(|_| ())?))
    }

    /// Whether the memory has a file or a record.
    pub(crate) fn memory_exists(&self) -> rusqlite::Result<bool> {
        const EXIST: &str = "SELECT 1 FROM file WHERE memory = ?1";
        self.connection.prepare_cached(EXIST)?.exists([self.name()])
    }

    fn is_directory(&self, path: &StorePath) -> Result<bool, Failure> {
        const UNDER: &str = concat!("SELECT 1 FROM file WHERE ", under!());
        Ok(self.first(UNDER, (self.name(), path.as_str()), |_| Ok(()))?.is_some())
    }

    fn first<T>(
        &self,
        sql: &str,
        parameters: impl Params,
        take: impl FnOnce(&Row<'_>) -> Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query(parameters)?;
        rows.next()?.map(take).transpose()
    }

    fn execute(&self, sql: &str, parameters: impl Params) -> Result<usize, Failure> {
        Ok(self.connection.prepare_cached(sql)?.execute(parameters)?)
    }
}

impl StoreState for Files<'_> {
    /// A file without its content exists.
    fn kind(&self, path: &StorePath) -> Result<NodeKind, StoreError> {
        const FILE: &str = "SELECT 1 FROM file WHERE memory = ?1 AND path = ?2";
        let find = || {
            if self.first(FILE, (self.name(), path.as_str()), |_| Ok(()))?.is_some() {
                return Ok(NodeKind::File);
            }
            Ok(if path.is_root() || self.is_directory(path)? { NodeKind::Directory } else { NodeKind::Absent })
        };
        find().map_err(|failure: Failure| failure.during(CHECKING))
    }

    fn stat(&self, path: &StorePath) -> Result<Stat, StoreError> {
        self.find(path).map_err(|failure| failure.during(CHECKING))
    }

    fn usage(&self, path: &StorePath) -> Result<Usage, StoreError> {
        self.count(path).map_err(|failure| failure.during(CHECKING))
    }
}

/// Jumps from one name to the next in the primary key. `SELECT DISTINCT` would read the row of every file.
const MEMORY_NAMES: &str = "WITH RECURSIVE found (name) AS ( \
     SELECT min(memory) FROM file \
     UNION ALL SELECT (SELECT min(memory) FROM file WHERE memory > name) FROM found WHERE name IS NOT NULL \
     ) SELECT name FROM found WHERE name IS NOT NULL";

/// The sorted names of all memories with a file or record. Rows of other programs with invalid names are skipped.
pub(crate) fn memory_names(connection: &Connection) -> rusqlite::Result<Vec<MemoryName>> {
    let mut statement = connection.prepare_cached(MEMORY_NAMES)?;
    let names = statement.query_map((), |row| Ok(row.get_ref(0)?.as_str().ok().and_then(|name| name.parse().ok())))?;
    let names = names.collect::<Result<Vec<Option<MemoryName>>, _>>()?;
    Ok(names.into_iter().flatten().collect())
}

/// The version of a row that starts with the id and the revision of a content.
fn content_version(row: &Row<'_>) -> Result<Version, Failure> {
    let (id, revision): (i64, Option<i64>) = (row.get(0)?, row.get(1)?);
    let missing = || Failure::new(ErrorKind::Damaged, "the content of a file is missing");
    Ok(Version::new([id.to_be_bytes(), revision.ok_or_else(missing)?.to_be_bytes()].concat()))
}

/// The path of a row; `None` if it is invalid.
pub(crate) fn canonical(stored: &str) -> Option<StorePath> {
    stored.parse().ok().filter(|path: &StorePath| path.as_str() == stored)
}

fn size(stored: i64) -> Result<u64, Failure> {
    stored.try_into().map_err(|_| Failure::new(ErrorKind::Damaged, "the size of a file is negative"))
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;
    use crate::schema;

    #[test]
    fn listing_the_memories_does_not_read_every_file() {
        let steps = [10, 1_000].map(|files| {
            let mut connection = Connection::open_in_memory().unwrap();
            schema::create(&mut connection).unwrap();
            for (memory, number) in
                ["a", "b"].into_iter().flat_map(|memory| (0..files).map(move |number| (memory, number)))
            {
                let memory = Memory { name: memory.parse().unwrap(), max_file_bytes: 9 };
                let path = format!("/memories/{number}").parse().unwrap();
                Files { connection: &connection, memory: &memory }.write(&path, b"text", FileTimes::new()).unwrap();
            }
            assert_eq!(memory_names(&connection).unwrap(), ["a".parse().unwrap(), "b".parse().unwrap()]);
            let mut statement = connection.prepare(MEMORY_NAMES).unwrap();
            assert_eq!(statement.query_map((), |_| Ok(())).unwrap().count(), 2);
            statement.get_status(StatementStatus::VmStep)
        });
        assert_eq!(steps[0], steps[1], "the cost depends on the number of files");
    }
}
