//! The memories of a store: their places, and the option `--all` of commands.

use std::collections::BTreeSet;
use std::{fmt, io};

use memory_tool::policies::{Scope, ScopedStore};
use memory_tool::proposals::Proposals;
use memory_tool::store::{ReadOptions, StorePath};
use memory_tool::{FileEntry, MemoryOptions, OpenOptions, Store, StoreError, StoreUrl};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde::Serialize;

use crate::exit_status::ExitStatus;
use crate::failure::{Context as _, Failure, eprint_error};
use crate::files::eprint;
use crate::memory::{self, Access, open_existing};
use crate::terminal::escapes::on_one_line;
use crate::terminal::interruption::{CLEANUP_TIME, run_until_interrupted};
use crate::terminal::output::{count, write_line};

/// The records of the history outside all scopes.
const HISTORY: &str = "/records/history/";

/// The characters of a name that are encoded in the name of a directory.
const IN_FILE_NAME: &AsciiSet = &CONTROLS
    .add(b'%')
    .add(b'/')
    .add(b'\\')
    .add(b':')
    .add(b'*')
    .add(b'?')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'|')
    .add(b'.');

/// The memory at a URL, or the part of it that belongs to a scope. Displayed as options of a command line.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) url: StoreUrl,
    pub(crate) scope: Option<Scope>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.url)?;
        let name = |scope: &Scope| shlex::try_quote(scope.name()).unwrap_or_default().into_owned();
        self.scope.iter().map(name).try_for_each(|name| write!(f, " --scope {name}"))
    }
}

impl Place {
    /// The name for `forget`, and for the exports and copies of `--all`.
    pub(crate) fn name(&self) -> String {
        let scope = self.scope.as_ref().map(|scope| scope.name().to_owned());
        scope.or_else(|| self.url.name()).unwrap_or_default()
    }
}

/// A memory.
pub(crate) struct Found {
    pub(crate) place: Place,
    /// `None` if it cannot be read.
    pub(crate) files: Option<Vec<FileEntry>>,
    /// The number of files in proposals.
    pub(crate) waiting: usize,
}

impl Found {
    async fn new(
        url: &StoreUrl,
        scope: Option<Scope>,
        files: Vec<FileEntry>,
        store: impl Store,
    ) -> Result<Self, StoreError> {
        let waiting = Proposals::new(store).waiting().await?;
        Ok(Self { place: Place { url: url.clone(), scope }, files: Some(files), waiting })
    }
}

/// Finds all memories: those of a database, the stores at and right under a directory or prefix, and their scopes. A
/// memory that cannot be read is reported and listed without its scopes.
pub(crate) async fn find(url: &StoreUrl, options: &MemoryOptions) -> Result<Vec<Found>, Failure> {
    let mut found = Vec::new();
    for url in find_stores(url, options).await? {
        match find_scopes(&url, options).await {
            Ok(mut memories) => found.append(&mut memories),
            Err(failure) => {
                eprint(&format!("{url} cannot be read"));
                eprint_error(&failure);
                found.push(Found { place: Place { url, scope: None }, files: None, waiting: 0 });
            }
        }
    }
    Ok(found)
}

async fn find_stores(url: &StoreUrl, options: &MemoryOptions) -> Result<Vec<StoreUrl>, Failure> {
    memory::refuse_temporary(url)?;
    let options = options.timeout.into_iter().fold(OpenOptions::new(), OpenOptions::timeout);
    url.memories(options).await.map_err(memory::failure)
}

/// The scopes of a store, and the store itself if it has files or a history outside all scopes, or no scope.
async fn find_scopes(url: &StoreUrl, options: &MemoryOptions) -> Result<Vec<Found>, Failure> {
    const LISTING: &str = "cannot list the memory";
    let store = open_existing(url, options.clone(), Access::Read).await?.store();
    let listed = store.read_opts(&StorePath::memories(), ReadOptions::new()).await.context(LISTING)?;
    let mut rest = listed.into_listing().files;
    let mut found = Vec::new();
    for scope in Scope::list_in(&*store).await.context(LISTING)? {
        let files = rest.extract_if(.., |file| file.path.is_under(scope.directory())).collect();
        let scoped = ScopedStore::new(store.clone(), scope.clone());
        found.push(Found::new(url, Some(scope), files, scoped).await.context(LISTING)?);
    }
    let records = store.read_opts(&StorePath::records(), ReadOptions::new()).await.context(LISTING)?;
    let is_own = |record: &FileEntry| record.path.as_str().starts_with(HISTORY);
    if found.is_empty() || !rest.is_empty() || records.into_listing().files.iter().any(is_own) {
        found.insert(0, Found::new(url, None, rest, store).await.context(LISTING)?);
    }
    Ok(found)
}

/// The stores that `--all` stands for.
pub(crate) fn stores(url: &StoreUrl, options: &MemoryOptions) -> Result<Vec<Place>, Failure> {
    let found = run_until_interrupted(CLEANUP_TIME, find_stores(url, options))?;
    if found.is_empty() {
        return Err(Failure::new(format!("there is no memory at {url}")));
    }
    Ok(found.into_iter().map(|url| Place { url, scope: None }).collect())
}

/// The memories that `--all` stands for. A store with scopes stands for its scopes.
pub(crate) fn scopes(url: &StoreUrl, options: &MemoryOptions) -> Result<Vec<Place>, Failure> {
    let mut found = run_until_interrupted(CLEANUP_TIME, find(url, options))?;
    let scoped: Vec<_> = found.iter().filter(|Found { place, .. }| place.scope.is_some()).collect();
    let with_scopes: BTreeSet<_> = scoped.into_iter().map(|Found { place, .. }| place.url.to_string()).collect();
    found.retain(|Found { place, files, .. }| {
        let is_left_out = place.scope.is_none() && with_scopes.contains(&place.url.to_string());
        if is_left_out {
            let files = count(files.as_ref().map_or(0, Vec::len) as u64, "file");
            eprint(&on_one_line(&format!("{} has {files} outside all scopes, not included here", place.url)));
        }
        !is_left_out
    });
    Ok(found.into_iter().map(|found| found.place).collect())
}

/// The name of a directory for each place, in order.
pub(crate) fn directories(places: &[Place]) -> Result<Vec<String>, Failure> {
    let names: Vec<_> = places.iter().map(Place::name).collect();
    for (number, name) in names.iter().enumerate() {
        if names[..number].contains(name) {
            return Err(Failure::new(format!("several memories are named {name:?}; export them one by one")));
        }
    }
    Ok(names.iter().map(|name| utf8_percent_encode(name, IN_FILE_NAME).to_string()).collect())
}

/// Runs a command for all places, with their names, or for one. A failure does not stop the others.
pub(crate) fn for_each(
    all: Option<Vec<Place>>,
    one: Place,
    as_json: bool,
    mut run: impl FnMut(&Place, Option<String>) -> Result<ExitStatus, Failure>,
) -> Result<ExitStatus, Failure> {
    let Some(places) = all else { return run(&one, None) };
    let mut is_complete = true;
    for place in places {
        let name = place.to_string();
        if !as_json {
            write_line(&mut io::stdout().lock(), format!("{}:", on_one_line(&name)).into_bytes())?;
        }
        match run(&place, Some(name)) {
            Ok(status) => is_complete &= status == ExitStatus::Success,
            Err(failure @ (Failure::Interrupted { .. } | Failure::Output(_))) => return Err(failure),
            Err(failure) => {
                eprint_error(&failure);
                is_complete = false;
            }
        }
    }
    Ok(ExitStatus::of(is_complete))
}

/// A report of one of all memories.
#[derive(Debug, Serialize)]
pub(crate) struct Named<R> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) memory: Option<String>,
    #[serde(flatten)]
    pub(crate) report: R,
}
