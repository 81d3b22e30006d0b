//! [`Statements`]: the SQL of files and records, and the conversion of rows.

use std::collections::BTreeMap;
use std::mem::take;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};

use deadpool_postgres::Client;
use futures::TryStreamExt as _;
use futures::future::join3;
use memory_tool_core::{
    Batch, Change, CheckInputs, ErrorKind, FileEntry, FileTimes, Listing, MAX_PATH_BYTES, MemoryName, Node,
    Precondition, Snapshot, Stat, StoreError, StorePath, StoredFile, UnlistedItem, Usage, Version,
};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::failure::{Broken, Failure};
use crate::schema::SchemaName;

const READ: &str = "SELECT * FROM {schema}.read_path($1, $2, $3, $4)";
const STATE: &str = "SELECT * FROM {schema}.state($1, $2, $3, $4)";
const APPLY: &str = "SELECT * FROM {schema}.apply_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, \
     $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25)";
const MEMORY_NAMES: &str = "SELECT {schema}.memory_names($1)";
const ALL_PATHS: &str = "SELECT * FROM {schema}.all_paths($1)";

/// Statements that surround a call in a transaction with the isolation that the functions need.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
const COMMIT: &str = "COMMIT";

/// The statements with the name of the schema. Each calls a function, which the server plans once per connection. They
/// are sent without a name and with the types of their parameters, which takes one round trip and leaves nothing on the
/// server: behind a pooler, another client may get the connection.
#[derive(Debug)]
pub(crate) struct Statements {
    read: String,
    state: String,
    apply: String,
    memory_names: String,
    all_paths: String,
    /// Whether a replica may respond.
    may_lag: bool,
    /// Whether calls are surrounded by a transaction: the default isolation of the role is another one, or a proxy
    /// sends other calls to a replica.
    in_transaction: AtomicBool,
}

/// A parameter and its type.
type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

impl Statements {
    pub(crate) fn new(schema: &SchemaName, may_lag: bool) -> Self {
        Self {
            read: schema.within(READ),
            state: schema.within(STATE),
            apply: schema.within(APPLY),
            memory_names: schema.within(MEMORY_NAMES),
            all_paths: schema.within(ALL_PATHS),
            may_lag,
            in_transaction: AtomicBool::new(false),
        }
    }

    /// Calls a function. Repeats a call on an unsuitable server within a transaction, which a proxy sends to the
    /// primary.
    async fn call(
        &self,
        client: &Client,
        statement: &str,
        parameters: &[Parameter<'_>],
        take: &mut (impl FnMut(Row) -> Result<(), Error> + Send),
    ) -> Result<(), Broken> {
        if !self.in_transaction.load(Ordering::Relaxed) {
            match each(client, statement, parameters, take).await {
                Err(broken) if broken.is_unsuitable() => self.in_transaction.store(true, Ordering::Relaxed),
                called => return called,
            }
        }
        let call = each(client, statement, parameters, take);
        let (began, called, committed) = join3(client.batch_execute(BEGIN), call, client.batch_execute(COMMIT)).await;
        if called.as_ref().is_err_and(Broken::is_unsuitable) {
            self.in_transaction.store(false, Ordering::Relaxed);
        }
        began.map_err(|error| Broken { error, had_rows: false })?;
        called?;
        committed.map_err(|error| Broken { error, had_rows: true })
    }

    async fn rows(&self, client: &Client, statement: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Broken> {
        let mut rows = Vec::new();
        let mut take = |row| {
            rows.push(row);
            Ok(())
        };
        self.call(client, statement, parameters, &mut take).await?;
        Ok(rows)
    }

    /// Reads a path with one statement, and thus in one snapshot.
    pub(crate) async fn read(&self, client: &Client, memory: &Memory, path: &StorePath) -> Result<Node, Failure> {
        let limit = i64::try_from(memory.max_file_bytes).unwrap_or(i64::MAX);
        let parameters: [Parameter<'_>; 4] = [
            (&memory.name(), Type::TEXT),
            (&path.as_str(), Type::TEXT),
            (&limit, Type::INT8),
            (&self.may_lag, Type::BOOL),
        ];
        node(memory, path, &self.rows(client, &self.read, &parameters).await?)
    }

    /// Reads the values that the checks of a batch or a read need.
    pub(crate) async fn snapshot(
        &self,
        client: &Client,
        memory: &Memory,
        inputs: &CheckInputs,
    ) -> Result<Snapshot, Failure> {
        let paths: Vec<_> = inputs.paths.iter().map(StorePath::as_str).collect();
        let usages: Vec<_> = inputs.usages.iter().map(StorePath::as_str).collect();
        let rows = self.state(client, memory.name(), &paths, &usages).await?;
        Ok(State::of(&rows)?.snapshot)
    }

    async fn state(&self, client: &Client, name: &str, paths: &[&str], measured: &[&str]) -> Result<Vec<Row>, Failure> {
        let parameters: [Parameter<'_>; 4] = [
            (&name, Type::TEXT),
            (&paths, Type::TEXT_ARRAY),
            (&measured, Type::TEXT_ARRAY),
            (&self.may_lag, Type::BOOL),
        ];
        Ok(self.rows(client, &self.state, &parameters).await?)
    }

    /// Applies a batch if its condition holds, or otherwise returns the state.
    pub(crate) async fn apply(
        &self,
        client: &Client,
        memory: &Memory,
        call: &Call,
        condition: &Condition,
        changes: &Changes<'_>,
    ) -> Result<Option<State>, Failure> {
        let Condition { paths, no_file, no_directory, something, versioned, versions, .. } = condition;
        let Condition { measured, files, bytes, depths, .. } = condition;
        let Changes { removed, renamed, targets, longest, written } = changes;
        let parameters: [Parameter<'_>; 25] = [
            (&memory.name(), Type::TEXT),
            (&memory.lock, Type::INT8),
            (&call.lock_timeout, Type::INT4),
            (&&call.writer[..], Type::BYTEA),
            (&call.first, Type::INT8),
            (&call.number, Type::INT8),
            (&array(paths), Type::TEXT_ARRAY),
            (&array(no_file), Type::TEXT_ARRAY),
            (&array(no_directory), Type::TEXT_ARRAY),
            (&array(something), Type::TEXT_ARRAY),
            (&array(versioned), Type::TEXT_ARRAY),
            (&array(versions), Type::BYTEA_ARRAY),
            (&array(measured), Type::TEXT_ARRAY),
            (&array(files), Type::INT8_ARRAY),
            (&array(bytes), Type::INT8_ARRAY),
            (&array(depths), Type::INT4_ARRAY),
            (&array(removed), Type::TEXT_ARRAY),
            (&array(renamed), Type::TEXT_ARRAY),
            (&array(targets), Type::TEXT_ARRAY),
            (&array(longest), Type::INT4_ARRAY),
            (&array(&written.paths), Type::TEXT_ARRAY),
            (&array(&written.versions), Type::BYTEA_ARRAY),
            (&array(&written.created), Type::INT8_ARRAY),
            (&array(&written.modified), Type::INT8_ARRAY),
            (&array(&written.contents), Type::BYTEA_ARRAY),
        ];
        let rows = self.rows(client, &self.apply, &parameters).await.map_err(Failure::of_change)?;
        let is_applied = matches!(rows.as_slice(), [row] if row.try_get::<_, Option<&str>>(0)?.is_none());
        if is_applied { Ok(None) } else { State::of(&rows).map(Some) }
    }

    /// The sorted names of all memories with a file or record. Rows of other programs with invalid names are skipped.
    pub(crate) async fn memory_names(&self, client: &Client) -> Result<Vec<MemoryName>, Failure> {
        let rows = self.rows(client, &self.memory_names, &[(&self.may_lag, Type::BOOL)]).await?;
        let names = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<&str>, _>>()?;
        Ok(names.into_iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// Whether the memory has a file or a record.
    pub(crate) async fn memory_exists(&self, client: &Client, name: &MemoryName) -> Result<bool, Failure> {
        let roots = [StorePath::memories(), StorePath::records()];
        let roots = roots.each_ref().map(StorePath::as_str);
        let rows = self.state(client, name.as_str(), &roots, &[]).await?;
        let found = rows.iter().map(|row| row.try_get(2)).collect::<Result<Vec<bool>, _>>()?;
        Ok(found.contains(&true))
    }

    /// Takes all memories and paths, and again each path under a file, with that file.
    pub(crate) async fn all_paths(
        &self,
        client: &Client,
        mut take: impl FnMut(Row) -> Result<(), Error> + Send,
    ) -> Result<(), Failure> {
        Ok(self.call(client, &self.all_paths, &[(&self.may_lag, Type::BOOL)], &mut take).await?)
    }
}

/// An array, which is null if it is empty, because the server converts each other one.
fn array<T>(values: &[T]) -> Option<&[T]> {
    (!values.is_empty()).then_some(values)
}

/// Takes each row of a call.
async fn each(
    client: &Client,
    statement: &str,
    parameters: &[Parameter<'_>],
    take: &mut (impl FnMut(Row) -> Result<(), Error> + Send),
) -> Result<(), Broken> {
    let mut had_rows = false;
    let rows = client.query_typed_raw(statement, parameters.iter().cloned()).await;
    let mut rows = pin!(rows.map_err(|error| Broken { error, had_rows })?);
    while let Some(row) = rows.try_next().await.map_err(|error| Broken { error, had_rows })? {
        had_rows = true;
        take(row).map_err(|error| Broken { error, had_rows })?;
    }
    Ok(())
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

/// A call that applies a batch.
pub(crate) struct Call {
    /// The writer, which makes one call at a time.
    pub(crate) writer: [u8; 16],
    /// The number of this call of the writer.
    pub(crate) number: i64,
    /// The number of the first call with the same batch.
    pub(crate) first: i64,
    /// How long the server waits for the lock, in milliseconds.
    pub(crate) lock_timeout: i32,
}

/// The changes of a batch, by kind. Their order is irrelevant, because their paths are disjoint.
#[derive(Debug, Default)]
pub(crate) struct Changes<'a> {
    removed: Vec<&'a str>,
    renamed: Vec<&'a str>,
    targets: Vec<&'a str>,
    /// The longest path under each renamed path that does not get too long, in bytes.
    longest: Vec<i32>,
    written: Written<'a>,
}

/// The written files, as columns.
#[derive(Debug, Default)]
struct Written<'a> {
    paths: Vec<&'a str>,
    versions: Vec<Vec<u8>>,
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
                Change::Rename { from, to } => {
                    let (from, to) = (from.as_str(), to.as_str());
                    changes.renamed.push(from);
                    changes.targets.push(to);
                    changes.longest.push((MAX_PATH_BYTES + from.len()).saturating_sub(to.len()) as i32);
                }
                Change::Write { path, content, times } => {
                    let written = &mut changes.written;
                    let version = version(first_version, written.paths.len());
                    let (created, modified) = times.to_millis();
                    written.paths.push(path.as_str());
                    written.versions.push(version.as_bytes().to_vec());
                    written.created.push(created);
                    written.modified.push(modified);
                    written.contents.push(content);
                }
            }
        }
        changes
    }
}

/// The version of a written file of a batch.
pub(crate) fn version(first_version: u128, number: usize) -> Version {
    Version::new(first_version.wrapping_add(number as u128).to_be_bytes())
}

/// The possible states of a path, as bits.
const ABSENT: i32 = 1;
const DIRECTORY: i32 = 2;
const FILE: i32 = 4;
const ANYTHING: i32 = ABSENT | DIRECTORY | FILE;

/// The condition under which the server applies a batch.
#[derive(Debug, Default)]
pub(crate) struct Condition {
    /// The inputs of the checks.
    paths: Vec<String>,
    /// The paths at which no file may be, at which no directory may be, and at which one of them must be.
    no_file: Vec<String>,
    no_directory: Vec<String>,
    something: Vec<String>,
    /// The files with a required version.
    versioned: Vec<String>,
    versions: Vec<Vec<u8>>,
    /// The paths whose usage the checks depend on. An unknown usage makes the server return the state.
    measured: Vec<String>,
    files: Vec<Option<i64>>,
    bytes: Vec<Option<i64>>,
    depths: Vec<Option<i32>>,
}

impl Condition {
    /// The condition under which the checks of core succeed. With a quota, they also depend on unknown usages.
    pub(crate) fn of(batch: &Batch) -> Self {
        let inputs = batch.inputs();
        let mut nodes: BTreeMap<_, _> = inputs.paths.iter().map(|path| (path.clone(), Required::default())).collect();
        let mut require = |path: &StorePath, required: &dyn Fn(&mut Required)| {
            nodes.get_mut(path).map(required).unwrap_or_default();
        };
        for (path, precondition) in batch.preconditions() {
            require(path, &|node| node.require(precondition));
        }
        for change in batch.changes() {
            match change {
                Change::Write { path, .. } => {
                    require(path, &|node| node.restrict(ABSENT | FILE));
                    path.parents().for_each(|parent| require(&parent, &|node| node.restrict(ABSENT | DIRECTORY)));
                }
                Change::Remove { path } if path.is_root() => {}
                Change::Remove { path } => require(path, &|node| node.restrict(DIRECTORY | FILE)),
                Change::Rename { from, to } => {
                    require(from, &|node| node.restrict(DIRECTORY | FILE));
                    require(to, &|node| node.restrict(ABSENT));
                    to.parents().for_each(|parent| require(&parent, &|node| node.restrict(ABSENT | DIRECTORY)));
                }
            }
        }
        let mut condition = Self::default();
        nodes.into_iter().for_each(|(path, node)| condition.add_node(&path, node));
        inputs.usages.iter().for_each(|path| condition.add_usage(path.as_str(), [None; 2], None));
        condition
    }

    fn add_node(&mut self, path: &StorePath, node: Required) {
        let forbidden = [(FILE, &mut self.no_file), (DIRECTORY, &mut self.no_directory), (ABSENT, &mut self.something)];
        for (state, paths) in forbidden {
            if node.allowed & state == 0 {
                paths.push(path.as_str().to_owned());
            }
        }
        if let Some(version) = node.version {
            self.versioned.push(path.as_str().to_owned());
            self.versions.push(version);
        }
        self.paths.push(path.as_str().to_owned());
    }

    fn add_usage(&mut self, path: &str, [files, bytes]: [Option<i64>; 2], depth: Option<i32>) {
        self.measured.push(path.to_owned());
        self.files.push(files);
        self.bytes.push(bytes);
        self.depths.push(depth);
    }
}

/// The requirements on a path.
struct Required {
    allowed: i32,
    version: Option<Vec<u8>>,
}

impl Default for Required {
    fn default() -> Self {
        Self { allowed: ANYTHING, version: None }
    }
}

impl Required {
    fn require(&mut self, precondition: &Precondition) {
        match precondition {
            Precondition::Absent => self.allowed &= ABSENT,
            Precondition::Version(version) => match &self.version {
                Some(other) if other != version.as_bytes() => self.allowed = 0,
                _ => self.version = Some(version.as_bytes().to_vec()),
            },
        }
    }

    /// A file with a version needs no other check.
    fn restrict(&mut self, allowed: i32) {
        if self.version.is_none() || allowed & FILE == 0 {
            self.allowed &= allowed;
        }
    }
}

/// The state that a batch was checked against, if it was not applied.
pub(crate) struct State {
    pub(crate) snapshot: Snapshot,
    /// The condition that this state is unchanged.
    pub(crate) unchanged: Condition,
    /// The paths that a rename makes too long.
    too_long: Vec<String>,
}

impl State {
    fn of(rows: &[Row]) -> Result<Self, Failure> {
        let mut state = Self { snapshot: Snapshot::new(), unchanged: Condition::default(), too_long: Vec::new() };
        for row in rows {
            let (path, is_directory, files): (&str, Option<bool>, Option<i64>) =
                (row.try_get(0)?, row.try_get(2)?, row.try_get(3)?);
            match (is_directory, files) {
                (Some(is_directory), _) => state.add_node(path.parse()?, row.try_get(1)?, is_directory),
                (None, Some(files)) => state.add_usage(path.parse()?, files, row.try_get(4)?, row.try_get(5)?),
                (None, None) => state.too_long.push(path.to_owned()),
            }
        }
        Ok(state)
    }

    fn add_node(&mut self, path: StorePath, version: Option<Vec<u8>>, is_directory: bool) {
        let (stat, allowed) = match &version {
            Some(version) => (Stat::File(Version::new(version.clone())), ANYTHING),
            None if path.is_root() => (Stat::Directory, ANYTHING),
            None if is_directory => (Stat::Directory, DIRECTORY),
            None => (Stat::Absent, ABSENT),
        };
        self.unchanged.add_node(&path, Required { allowed, version });
        self.snapshot = take(&mut self.snapshot).with_stat(path, stat);
    }

    fn add_usage(&mut self, path: StorePath, files: i64, bytes: i64, depth: i32) {
        self.unchanged.add_usage(path.as_str(), [Some(files), Some(bytes)], Some(depth));
        let depth_of = u64::try_from(depth).unwrap_or_default();
        let [files, bytes] = [files, bytes].map(|number| u64::try_from(number).unwrap_or_default());
        self.snapshot = take(&mut self.snapshot).with_usage(path, Usage::new(files, bytes, depth_of));
    }

    /// Checks a batch as core does, and the lengths of new paths. The error names the first path that gets too long.
    pub(crate) fn check(&self, batch: &Batch) -> Result<(), Failure> {
        batch.check(&self.snapshot)?;
        batch.changes().iter().try_for_each(|change| change.check(&self.snapshot))?;
        let Some(first) = self.too_long.iter().min() else { return Ok(()) };
        let path: StorePath = first.parse()?;
        for change in batch.changes() {
            if let Change::Rename { from, to } = change {
                path.replace_prefix(from, to)?;
            }
        }
        Err(Failure::new(ErrorKind::Other, "a renamed path of another program would be too long"))
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
