//! Opens states of the disk as stores, and compares their contents with the acknowledged batches.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Debug;
use std::path::Path;
use std::time::{Duration, SystemTime};

use memory_tool_core::{Batch, InMemoryStore, Node, ReadOptions, Store, StoreExt, StorePath};
use memory_tool_local::LocalStore;
use memory_tool_test_fixtures::faults::block_on;
use memory_tool_test_fixtures::{directory_in_ram, record};

use super::crash::{Crash, State};
use super::model::{Effect, Recording, Tree};
use super::{BASE_NAME, RECORDS};

/// The contents of the files and records of a store, by path or name.
pub(super) type Contents = BTreeMap<String, String>;

/// Named batches in rounds. The batches of a round are independent and may be concurrent.
pub(super) type Script = Vec<Vec<(String, Batch)>>;

/// Checks states. Equal ones are opened once.
#[derive(Clone, Default)]
pub(super) struct Checker {
    pub(super) states: usize,
    pub(super) left_out: usize,
    /// The states that differ, in the order in which they were found.
    pub(super) distinct: Vec<Tree>,
    outcomes: HashMap<Tree, Result<Contents, String>>,
}

impl Checker {
    /// Checks every state that a loss of power can leave during the recorded programs, from the operation with the
    /// number `from`. The first program found a store with the contents `start`.
    ///
    /// # Errors
    /// The first state that breaks the contract.
    pub(super) fn check(
        &mut self,
        recording: &Recording,
        from: usize,
        start: &Contents,
        script: &Script,
    ) -> Result<(), String> {
        let mut crash = Crash::new(recording);
        let mut acknowledged = BTreeSet::new();
        let mut allowed = allowed(start, script, &acknowledged);
        for operation in &recording.operations {
            crash.advance(operation);
            if let Some(batch) = operation.acknowledged() {
                acknowledged.insert(batch);
                allowed = self::allowed(start, script, &acknowledged);
            }
            // A flush only makes states impossible.
            if operation.number >= from && !matches!(operation.effect, Effect::Flush { .. }) {
                self.check_instant(&crash, &allowed).map_err(|problem| {
                    let (number, last) = (operation.number, &operation.description);
                    format!("after {number}, {last}, with {} batches acknowledged, {problem}", acknowledged.len())
                })?;
            }
        }
        Ok(())
    }

    fn check_instant(&mut self, crash: &Crash<'_>, allowed: &BTreeSet<Contents>) -> Result<(), String> {
        for level in crash.levels() {
            self.left_out += level.left_out;
            for state in level.sets.iter().flat_map(|missing| crash.states(missing)) {
                self.states += 1;
                self.check_state(state, allowed)?;
            }
        }
        Ok(())
    }

    fn check_state(&mut self, State { tree, missing }: State, allowed: &BTreeSet<Contents>) -> Result<(), String> {
        let problem = match self.outcome(tree) {
            Ok(found) if allowed.contains(found) => return Ok(()),
            Ok(found) => {
                let allowed: Vec<_> = allowed.iter().map(shorten).collect();
                format!("the store contains {}, expected {}", shorten(found), allowed.join(" or "))
            }
            Err(problem) => problem.clone(),
        };
        Err(format!("without [{missing}]: {problem}"))
    }

    /// The contents that a store recovers from a state, or why it cannot be used.
    pub(super) fn outcome(&mut self, tree: Tree) -> &Result<Contents, String> {
        self.outcomes.entry(tree).or_insert_with_key(|tree| {
            self.distinct.push(tree.clone());
            block_on(recover(tree))
        })
    }
}

fn shorten(contents: &Contents) -> String {
    let files =
        contents.iter().map(|(name, content)| format!("{name} {:?}", content.chars().take(40).collect::<String>()));
    format!("[{}]", files.collect::<Vec<_>>().join(", "))
}

/// The contents that a store may have: with all acknowledged batches, and with any others of the first round that is
/// incomplete.
fn allowed(start: &Contents, script: &Script, acknowledged: &BTreeSet<&str>) -> BTreeSet<Contents> {
    let is_acknowledged = |(name, _): &(String, Batch)| acknowledged.contains(&**name);
    let complete = script.iter().take_while(|round| round.iter().all(is_acknowledged)).count();
    let current = script.get(complete).map_or(&[][..], Vec::as_slice);
    let contents = |chosen: usize| {
        let is_chosen = |(bit, batch): &(usize, &(String, Batch))| is_acknowledged(batch) || chosen >> bit & 1 == 1;
        let some = current.iter().enumerate().filter(is_chosen).map(|(_, batch)| batch);
        let batches = script[..complete].iter().flatten().chain(some);
        block_on(apply_all(start, batches.map(|(_, batch)| batch.clone())))
    };
    (0..1 << current.len()).map(contents).collect()
}

async fn apply_all(start: &Contents, batches: impl Iterator<Item = Batch>) -> Contents {
    let store = InMemoryStore::new();
    let start = start.iter().map(|(name, content)| match name.parse::<StorePath>() {
        Ok(path) => Batch::new().write(path, content.clone()),
        Err(_) => Batch::new().write(record(name), content.clone()),
    });
    for batch in start.chain(batches) {
        store.apply(batch).await.unwrap();
    }
    contents(&store).await.unwrap()
}

/// Creates the files of a state, opens and uses the store, and returns the contents that it had at first.
async fn recover(tree: &Tree) -> Result<Contents, String> {
    const LATER: &str = "/memories/later/file";
    let directory = directory_in_ram().unwrap();
    create(directory.path(), tree);
    let base = directory.path().join(BASE_NAME);
    let store = LocalStore::open(&base).await.map_err(|error| format!("opening fails: {error:?}"))?;
    let found = contents(&store).await?;
    let report = store.verify(|_| {}).await.map_err(|error| format!("verifying fails: {error:?}"))?;
    expect("problems", &report.problems, &Vec::new())?;
    store.write(LATER, "later").await.map_err(|error| format!("writing fails: {error:?}"))?;
    let mut later = found.clone();
    later.insert(LATER.to_owned(), "later".to_owned());
    let store = LocalStore::open(&base).await.map_err(|error| format!("opening again fails: {error:?}"))?;
    expect("contents after a write", &contents(&store).await?, &later)?;
    expect("leftovers", &crate::support::tree(&base.join(".memory-tool/staging")), &Vec::new())?;
    let plain = crate::support::tree(&base.join("memories")).into_iter().filter_map(|(path, content)| {
        content.map(|content| (format!("/memories/{}", path.to_str().unwrap()), text(&content)))
    });
    later.retain(|name, _| name.starts_with('/'));
    expect("plain files", &plain.collect(), &later)?;
    Ok(found)
}

fn expect<T: PartialEq + Debug>(name: &str, found: &T, expected: &T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{name}: found {found:?}, expected {expected:?}")) }
}

/// Creates the files of a state in an empty directory.
pub(super) fn create(directory: &Path, tree: &Tree) {
    for (path, content) in tree {
        let path = directory.join(path);
        match content {
            Some(content) => write_before_the_loss(&path, content),
            None => create_directory(&path),
        }
    }
}

/// The last write was in another run of the kernel, a while ago.
fn write_before_the_loss(path: &Path, content: &[u8]) {
    let restart = Duration::from_secs(60);
    std::fs::write(path, content).unwrap();
    let file = std::fs::File::options().write(true).open(path).unwrap();
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    file.set_modified(SystemTime::now() - restart).unwrap();
}

fn create_directory(path: &Path) {
    std::fs::create_dir(path).unwrap();
    #[cfg(unix)]
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
}

async fn contents(store: &impl Store) -> Result<Contents, String> {
    let mut contents = Contents::new();
    for file in store.list("/memories").await.map_err(|error| format!("listing fails: {error:?}"))? {
        match store.read(&file.path).await.map_err(|error| format!("reading {} fails: {error:?}", file.path))? {
            Node::File(stored) => contents.insert(file.path.to_string(), text(&stored.content)),
            other => return Err(format!("{} is listed, but {other:?}", file.path)),
        };
    }
    for name in RECORDS {
        let stored = store.read_opts(&record(name), ReadOptions::new()).await.map(Node::into_file);
        let stored = stored.map_err(|error| format!("reading the record {name} fails: {error:?}"))?;
        contents.extend(stored.map(|stored| (name.to_owned(), text(&stored.content))));
    }
    Ok(contents)
}

fn text(content: &[u8]) -> String {
    String::from_utf8_lossy(content).into_owned()
}
