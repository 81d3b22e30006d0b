//! [`Statements`]: the SQL of files and records, and the conversion of rows.

use deadpool_postgres::Client;
use memory_tool_core::{
    Batch, Change, CheckInputs, ErrorKind, FileEntry, FileTimes, Listing, MAX_PATH_BYTES, MemoryName, Node,
    Precondition, Snapshot, Stat, StoreError, StorePath, StoredFile, UnlistedItem, Usage, Version,
};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::failure::Failure;
use crate::schema::SchemaName;

/// The row of a path and the rows under it, as a range of the primary key: `0` is the character after `/`. The range
/// also contains siblings whose names continue with a character before `/`; the last condition excludes them.
macro_rules! at_or_under {
    ($path:literal) => {
        concat!(
            "memory = $1 AND path >= ",
            $path,
            " AND path < ",
            $path,
            " || '0' AND (path = ",
            $path,
            " OR path > ",
            $path,
            " || '/')"
        )
    };
}

const READ: &str = "SELECT * FROM {schema}.read_path($1, $2, $3)";

const STAT: &str = "SELECT * FROM {schema}.stat_paths($1, $2)";

const WRITE: &str = "SELECT {schema}.write_files($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";

/// The depth is the number of slashes minus one, because the first slash starts `/memories`.
const USAGE: &str = concat!(
    "SELECT wanted.path, used.files, used.bytes, used.depth FROM unnest($2) AS wanted (path), \
     LATERAL (SELECT count(*) AS files, coalesce(sum(octet_length(content)), 0)::int8 AS bytes, \
     coalesce(max(length(path) - length(replace(path, '/', ''))), 1) - 1 AS depth FROM {schema}.file WHERE ",
    at_or_under!("wanted.path"),
    ") AS used"
);

/// The paths that a rename makes too long.
const TOO_LONG: &str = concat!(
    "SELECT path FROM {schema}.file, unnest($2, $3) AS moved (old, longest) WHERE octet_length(path) > longest AND ",
    at_or_under!("moved.old")
);

const REMOVE: &str =
    concat!("DELETE FROM {schema}.file USING unnest($2) AS removed (top) WHERE ", at_or_under!("removed.top"));

const RENAME: &str = concat!(
    "UPDATE {schema}.file SET path = moved.new || substr(path, length(moved.old) + 1) \
     FROM unnest($2, $3) AS moved (old, new) WHERE ",
    at_or_under!("moved.old")
);

/// Jumps from one name to the next in the primary key. `SELECT DISTINCT` would read the row of every file.
const MEMORY_NAMES: &str = "WITH RECURSIVE found (name) AS ( \
     SELECT min(memory) FROM {schema}.file \
     UNION ALL SELECT (SELECT min(memory) FROM {schema}.file WHERE memory > name) FROM found WHERE name IS NOT NULL \
     ) SELECT name FROM found WHERE name IS NOT NULL";

const MEMORY_EXISTS: &str = "SELECT EXISTS (SELECT FROM {schema}.file WHERE memory = $1)";

/// The paths of all memories that no store writes: files under files.
pub(crate) const FILES_UNDER_FILES: &str = "SELECT upper.memory, upper.path, lower.path FROM {schema}.file AS upper \
     JOIN {schema}.file AS lower ON lower.memory = upper.memory \
     AND lower.path > upper.path || '/' AND lower.path < upper.path || '0'";

pub(crate) const ALL_PATHS: &str = "SELECT memory, path FROM {schema}.file";

/// The statements with the name of the schema. They are sent without a name and with the types of their parameters,
/// which takes one round trip and leaves nothing on the server: behind a pooler, another client may get the connection.
#[derive(Debug)]
pub(crate) struct Statements {
    read: String,
    stat: String,
    usage: String,
    too_long: String,
    remove: String,
    rename: String,
    write: String,
    memory_names: String,
    memory_exists: String,
    pub(crate) all_paths: String,
    pub(crate) files_under_files: String,
}

/// A parameter and its type.
type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

impl Statements {
    pub(crate) fn new(schema: &SchemaName) -> Self {
        Self {
            read: schema.within(READ),
            stat: schema.within(STAT),
            usage: schema.within(USAGE),
            too_long: schema.within(TOO_LONG),
            remove: schema.within(REMOVE),
            rename: schema.within(RENAME),
            write: schema.within(WRITE),
            memory_names: schema.within(MEMORY_NAMES),
            memory_exists: schema.within(MEMORY_EXISTS),
            all_paths: schema.within(ALL_PATHS),
            files_under_files: schema.within(FILES_UNDER_FILES),
        }
    }

    /// Reads a path with one statement, and thus in one snapshot.
    pub(crate) async fn read(&self, client: &Client, memory: &Memory, path: &StorePath) -> Result<Node, Failure> {
        let limit = i64::try_from(memory.max_file_bytes).unwrap_or(i64::MAX);
        let parameters: [Parameter<'_>; 3] =
            [(&memory.name(), Type::TEXT), (&path.as_str(), Type::TEXT), (&limit, Type::INT8)];
        let rows = client.query_typed(&self.read, &parameters).await?;
        node(memory, path, &rows)
    }

    /// Reads the values that the checks of a batch or a read need.
    pub(crate) async fn snapshot(
        &self,
        client: &Client,
        memory: &Memory,
        inputs: &CheckInputs,
    ) -> Result<Snapshot, Failure> {
        let name = memory.name();
        let paths: Vec<_> = inputs.paths.iter().map(StorePath::as_str).collect();
        let usages: Vec<_> = inputs.usages.iter().map(StorePath::as_str).collect();
        let found_paths = self.rows_of(client, &self.stat, [(&name, Type::TEXT), (&paths, Type::TEXT_ARRAY)]);
        let found_usages = self.rows_of(client, &self.usage, [(&name, Type::TEXT), (&usages, Type::TEXT_ARRAY)]);
        let (found_paths, found_usages) = match (paths.is_empty(), usages.is_empty()) {
            (_, true) => (found_paths.await?, Vec::new()),
            (true, _) => (Vec::new(), found_usages.await?),
            _ => futures::try_join!(found_paths, found_usages)?, // sent together
        };
        let mut snapshot = Snapshot::new();
        for row in found_paths {
            let (path, version, is_directory): (&str, Option<Vec<u8>>, bool) =
                (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            let path: StorePath = path.parse()?;
            let stat = match version {
                Some(version) => Stat::File(Version::new(version)),
                None if is_directory || path.is_root() => Stat::Directory,
                None => Stat::Absent,
            };
            snapshot = snapshot.with_stat(path, stat);
        }
        for row in found_usages {
            let number = |column| Ok::<_, Failure>(u64::try_from(row.try_get::<_, i64>(column)?).unwrap_or_default());
            let depth = u64::try_from(row.try_get::<_, i32>(3)?).unwrap_or_default();
            let path: &str = row.try_get(0)?;
            snapshot = snapshot.with_usage(path.parse()?, Usage::new(number(1)?, number(2)?, depth));
        }
        Ok(snapshot)
    }

    async fn rows_of<const N: usize>(
        &self,
        client: &Client,
        statement: &str,
        parameters: [Parameter<'_>; N],
    ) -> Result<Vec<Row>, Failure> {
        Ok(client.query_typed(statement, &parameters).await?)
    }

    /// Refuses renames that make a path too long. The error names the first such path.
    pub(crate) async fn refuse_too_long(
        &self,
        client: &Client,
        memory: &Memory,
        changes: &Changes<'_>,
    ) -> Result<(), Failure> {
        if changes.renamed.is_empty() {
            return Ok(());
        }
        let longest = |(from, to): &(&StorePath, &StorePath)| {
            (MAX_PATH_BYTES + from.as_str().len()).saturating_sub(to.as_str().len()) as i32
        };
        let old: Vec<_> = changes.renamed.iter().map(|(from, _)| from.as_str()).collect();
        let longest: Vec<_> = changes.renamed.iter().map(longest).collect();
        let parameters: [Parameter<'_>; 3] =
            [(&memory.name(), Type::TEXT), (&old, Type::TEXT_ARRAY), (&longest, Type::INT4_ARRAY)];
        let rows = client.query_typed(&self.too_long, &parameters).await?;
        let paths = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<&str>, _>>()?;
        let Some(first) = paths.iter().filter_map(|path| canonical(path)).min() else { return Ok(()) };
        changes.renamed.iter().try_for_each(|(from, to)| Ok(first.replace_prefix(from, to).map(|_| ())?))
    }

    pub(crate) async fn remove(&self, client: &Client, memory: &Memory, changes: &Changes<'_>) -> Result<(), Error> {
        if changes.removed.is_empty() {
            return Ok(());
        }
        let parameters: [Parameter<'_>; 2] = [(&memory.name(), Type::TEXT), (&changes.removed, Type::TEXT_ARRAY)];
        client.execute_typed(&self.remove, &parameters).await.map(|_| ())
    }

    pub(crate) async fn rename(&self, client: &Client, memory: &Memory, changes: &Changes<'_>) -> Result<(), Error> {
        if changes.renamed.is_empty() {
            return Ok(());
        }
        let (old, new): (Vec<_>, Vec<_>) =
            changes.renamed.iter().map(|(from, to)| (from.as_str(), to.as_str())).unzip();
        let parameters: [Parameter<'_>; 3] =
            [(&memory.name(), Type::TEXT), (&old, Type::TEXT_ARRAY), (&new, Type::TEXT_ARRAY)];
        client.execute_typed(&self.rename, &parameters).await.map(|_| ())
    }

    /// Writes if the condition holds. Returns whether it did.
    pub(crate) async fn write(
        &self,
        client: &Client,
        memory: &Memory,
        changes: &Changes<'_>,
        condition: &Condition<'_>,
    ) -> Result<bool, Error> {
        let Written { paths, versions, created, modified, contents } = &changes.written;
        if paths.is_empty() {
            return Ok(true);
        }
        let parameters: [Parameter<'_>; 10] = [
            (&memory.name(), Type::TEXT),
            (paths, Type::TEXT_ARRAY),
            (versions, Type::BYTEA_ARRAY),
            (created, Type::INT8_ARRAY),
            (modified, Type::INT8_ARRAY),
            (contents, Type::BYTEA_ARRAY),
            (&condition.paths, Type::TEXT_ARRAY),
            (&condition.versions, Type::BYTEA_ARRAY),
            (&condition.leaves, Type::TEXT_ARRAY),
            (&condition.parents, Type::TEXT_ARRAY),
        ];
        client.query_typed_one(&self.write, &parameters).await?.try_get(0)
    }

    /// The sorted names of all memories with a file or record. Rows of other programs with invalid names are skipped.
    pub(crate) async fn memory_names(&self, client: &Client) -> Result<Vec<MemoryName>, Failure> {
        let rows = client.query_typed(&self.memory_names, &[]).await?;
        let names = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<&str>, _>>()?;
        Ok(names.into_iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// Whether the memory has a file or a record.
    pub(crate) async fn memory_exists(&self, client: &Client, name: &MemoryName) -> Result<bool, Failure> {
        let row = client.query_typed_one(&self.memory_exists, &[(&name.as_str(), Type::TEXT)]).await?;
        Ok(row.try_get(0)?)
    }
}

type Error = tokio_postgres::Error;

/// A memory in a database.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    pub(crate) name: MemoryName,
    pub(crate) max_file_bytes: u64,
    /// The number of the lock of its writers.
    pub(crate) lock: i64,
}

impl Memory {
    fn name(&self) -> &str {
        self.name.as_str()
    }
}

/// The changes of a batch, by kind. Their order is irrelevant, because their paths are disjoint.
#[derive(Debug, Default)]
pub(crate) struct Changes<'a> {
    removed: Vec<&'a str>,
    renamed: Vec<(&'a StorePath, &'a StorePath)>,
    pub(crate) written: Written<'a>,
}

/// The written files, as columns.
#[derive(Debug, Default)]
pub(crate) struct Written<'a> {
    pub(crate) paths: Vec<&'a str>,
    pub(crate) versions: Vec<Vec<u8>>,
    created: Vec<Option<i64>>,
    modified: Vec<i64>,
    contents: Vec<&'a [u8]>,
}

impl<'a> Changes<'a> {
    /// Sorts the changes. `first_version` is random; each written file gets its own version from there on.
    pub(crate) fn of(batch: &'a Batch, first_version: u128) -> Self {
        let mut changes = Self::default();
        for change in batch.changes() {
            match change {
                Change::Remove { path } => changes.removed.push(path.as_str()),
                Change::Rename { from, to } => changes.renamed.push((from, to)),
                Change::Write { path, content, times } => {
                    let written = &mut changes.written;
                    let version = first_version.wrapping_add(written.paths.len() as u128);
                    let (created, modified) = times.to_millis();
                    written.paths.push(path.as_str());
                    written.versions.push(version.to_be_bytes().to_vec());
                    written.created.push(created);
                    written.modified.push(modified);
                    written.contents.push(content);
                }
            }
        }
        changes
    }
}

/// The condition of a batch of writes. The default always holds.
#[derive(Debug, Default)]
pub(crate) struct Condition<'a> {
    /// The required paths and their versions.
    paths: Vec<&'a str>,
    versions: Vec<Option<&'a [u8]>>,
    /// Paths that must not be directories.
    leaves: Vec<&'a str>,
    /// Paths that must not be files.
    parents: Vec<String>,
}

impl<'a> Condition<'a> {
    /// The condition of a batch that one statement can check and apply. Returns `None` for other batches, and for a
    /// batch that replaces no file of a known version: after a lost connection, this version tells whether the batch
    /// was applied.
    pub(crate) fn of(batch: &'a Batch) -> Option<Self> {
        let mut condition = Self::default();
        let mut replaces_version = false;
        for change in batch.changes() {
            let Change::Write { path, .. } = change else { return None };
            condition.leaves.push(path.as_str());
            condition.parents.extend(path.parents().map(|parent| parent.as_str().to_owned()));
        }
        for (path, precondition) in batch.preconditions() {
            let version = match precondition {
                Precondition::Absent => {
                    condition.leaves.push(path.as_str());
                    None
                }
                Precondition::Version(version) => {
                    replaces_version |= condition.leaves.contains(&path.as_str());
                    Some(version.as_bytes())
                }
            };
            condition.paths.push(path.as_str());
            condition.versions.push(version);
        }
        (replaces_version && batch.quotas().is_empty()).then_some(condition)
    }
}

fn node(memory: &Memory, path: &StorePath, rows: &[Row]) -> Result<Node, Failure> {
    let mut listing = Listing::default();
    for row in rows {
        let (found, size): (&str, i32) = (row.try_get(0)?, row.try_get(2)?);
        let size = u64::try_from(size).unwrap_or_default();
        if found == path.as_str() && !path.is_root() {
            let version = Version::new(row.try_get::<_, Vec<u8>>(1)?);
            return match row.try_get(5)? {
                Some(content) => Ok(Node::File(StoredFile::new(content, version))),
                None => Err(StoreError::too_large_to_read(path, size, memory.max_file_bytes).into()),
            };
        }
        match canonical(found) {
            Some(path) => {
                let entry = FileEntry::new(path, size);
                listing.files.push(
                    entry
                        .with_created(FileTimes::of_millis(row.try_get(3)?))
                        .with_modified(FileTimes::of_millis(row.try_get(4)?)),
                );
            }
            None if found == path.as_str() => {} // another program wrote a file in place of a root
            None => listing.unlisted.push(UnlistedItem::of_illegal_path(found)),
        }
    }
    let is_directory = path.is_root() || !listing.files.is_empty();
    Ok(if is_directory { Node::Directory(listing) } else { Node::Absent })
}

/// The path of a row; `None` if it is invalid.
pub(crate) fn canonical(stored: &str) -> Option<StorePath> {
    stored.parse().ok().filter(|path: &StorePath| path.as_str() == stored && !path.is_root())
}

/// A random number, from which on versions are chosen. No version is used twice.
pub(crate) fn random_version() -> Result<u128, Failure> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| Failure::new(ErrorKind::Other, error))?;
    Ok(u128::from_be_bytes(bytes))
}
