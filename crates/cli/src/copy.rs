//! `memory-tool copy`: copies all files of one store into another.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;

use memory_tool_core::{MemoryPath, Version};
use serde::Serialize;

use crate::arguments::CopyArguments;
use crate::failure::{Failure, on_one_line};
use crate::output::{to_json, write_line};
use crate::progress_line::{ProgressLine, bar};
use crate::run::start_runtime;
use crate::transfer::{Completeness, Destination, Listed, Source, Told, Written, tell_of_no_file};

/// How often the source is gone through while others change it.
const ROUNDS: usize = 5;

/// Copies, and prints what became of the files.
pub(crate) fn run(arguments: &CopyArguments) -> Result<Completeness, Failure> {
    arguments.refuse_itself()?;
    let copied = start_runtime()?.block_on(copy(arguments))?;
    if copied.nothing_found {
        tell_of_no_file(&arguments.source, arguments.source_scope.as_ref());
    }
    let text = if arguments.json { to_json(&copied)? } else { copied.to_text().into_bytes() };
    // Whether anybody still read it changes nothing: what was copied is copied.
    write_line(&mut io::stdout().lock(), text)?;
    Ok(Completeness::of(copied.is_complete()))
}

async fn copy(arguments: &CopyArguments) -> Result<Copied, Failure> {
    let CopyArguments { source, source_scope, source_encryption, destination, encryption, policies, writing, .. } =
        arguments;
    // All keys first, so that nothing is made where one is missing.
    encryption.key_ring().await?;
    let source = Source::open(source, &source_encryption.to_encryption(), source_scope.as_ref()).await?;
    let destination = Destination::open(destination, encryption, policies, *writing).await?;
    let rounds = if writing.dry_run { 1 } else { ROUNDS };
    Copying::between(source, destination).run(rounds).await
}

/// A copy under way.
struct Copying {
    source: Source,
    destination: Destination,
    /// The state in which each file of the source was seen last; `None` where it could not be read.
    seen: HashMap<MemoryPath, Option<Version>>,
    unreadable: BTreeMap<MemoryPath, String>,
}

impl Copying {
    fn between(source: Source, destination: Destination) -> Self {
        Self { source, destination, seen: HashMap::new(), unreadable: BTreeMap::new() }
    }

    /// Goes through the source until it is as it was the time before.
    async fn run(mut self, rounds: usize) -> Result<Copied, Failure> {
        let mut line = ProgressLine::of_standard_error();
        let mut listed = Vec::new();
        let mut goes_on_changing = false;
        for round in 0..rounds {
            listed = self.source.list().await?;
            let is_new = self.copy_files(&listed, &mut line).await?;
            goes_on_changing = is_new && round > 0;
            if !is_new {
                break;
            }
        }
        let listed: HashSet<_> = listed.into_iter().collect();
        let gone = self.destination.there().filter(|path| !listed.contains(path)).map(ToString::to_string).collect();
        let told = |(path, reason): (MemoryPath, String)| Told { path: path.to_string(), reason };
        let unreadable = self.unreadable.into_iter().filter(|(path, _)| listed.contains(path)).map(told).collect();
        let nothing_found = listed.is_empty() && self.seen.is_empty();
        let written = self.destination.report(|path| listed.contains(path)).await?;
        Ok(Copied { written, unreadable, gone, goes_on_changing, nothing_found })
    }

    /// Copies what has changed since it was seen; whether there was any such file.
    async fn copy_files(
        &mut self,
        listed: &[MemoryPath],
        line: &mut Option<ProgressLine<io::Stderr>>,
    ) -> Result<bool, Failure> {
        let mut is_new = false;
        for (done, path) in listed.iter().enumerate() {
            if let Some(line) = line {
                line.show(&bar(done, listed.len()));
            }
            let state = match self.source.read(path).await? {
                Listed::File(file) => {
                    self.unreadable.remove(path);
                    if self.seen.get(path) != Some(&Some(file.version.clone())) {
                        self.destination.put(path, &file.content).await?;
                    }
                    Some(file.version)
                }
                Listed::Gone => {
                    is_new = true;
                    continue;
                }
                Listed::Unreadable { reason } => {
                    self.unreadable.insert(path.clone(), reason);
                    None
                }
            };
            is_new |= self.seen.get(path) != Some(&state);
            self.seen.insert(path.clone(), state);
        }
        Ok(is_new)
    }
}

/// What is printed.
#[derive(Debug, Serialize)]
struct Copied {
    #[serde(flatten)]
    written: Written,
    /// Files of the source that cannot be read.
    unreadable: Vec<Told>,
    /// Files that were removed from the source after they were copied.
    gone: Vec<String>,
    goes_on_changing: bool,
    /// The source holds no file. That is told on the standard error.
    #[serde(skip)]
    nothing_found: bool,
}

impl Copied {
    fn is_complete(&self) -> bool {
        let is_whole = self.unreadable.is_empty() && self.gone.is_empty() && !self.goes_on_changing;
        self.written.is_complete() && is_whole && !self.nothing_found
    }

    fn to_text(&self) -> String {
        let unreadable = self.unreadable.iter().map(|told| told.line("cannot be read"));
        let gone = self.gone.iter().map(|path| on_one_line(&format!("{path} was removed from the source meanwhile")));
        let changing = self.goes_on_changing.then(|| "the source goes on changing: run the copy again".to_owned());
        let lines = self.written.problems().chain(unreadable).chain(gone).chain(changing);
        lines.chain([self.written.summary("copied")]).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use memory_tool_core::{Batch, FileEntry, InMemoryStore, Node, Store, StoreError};

    use super::*;
    use crate::arguments::WritingArgument;

    /// A store that somebody changes before each listing: by the change of that number, as long as there is one.
    #[derive(Debug)]
    struct Changing {
        inner: InMemoryStore,
        listings: AtomicUsize,
        changes: fn(usize) -> Batch,
    }

    #[async_trait]
    impl Store for Changing {
        async fn read(&self, path: &MemoryPath) -> Result<Node, StoreError> {
            self.inner.read(path).await
        }

        async fn list(&self, directory: &MemoryPath) -> Result<Vec<FileEntry>, StoreError> {
            let listing = self.listings.fetch_add(1, Ordering::Relaxed);
            self.inner.apply((self.changes)(listing)).await?;
            self.inner.list(directory).await
        }

        async fn apply(&self, _: Batch) -> Result<(), StoreError> {
            unreachable!("a source is never changed")
        }
    }

    fn write(name: &str, text: &str) -> Batch {
        let path = MemoryPath::root().child(name).unwrap();
        Batch::new().write(path, text.as_bytes().to_vec()).unwrap()
    }

    /// Copies such a source into an empty store: what is told, and what is there.
    fn copy(changes: fn(usize) -> Batch) -> (Copied, Vec<(String, String)>) {
        let source = Changing { inner: InMemoryStore::new(), listings: AtomicUsize::new(0), changes };
        let store = Arc::new(InMemoryStore::new());
        let destination = Destination::new(Box::new(Arc::clone(&store)), None, WritingArgument::default());
        start_runtime().unwrap().block_on(async {
            let copied = Copying::between(Source::of(source), destination).run(ROUNDS).await.unwrap();
            let mut files = Vec::new();
            for entry in store.list(&MemoryPath::root()).await.unwrap() {
                let Node::File(file) = store.read(&entry.path).await.unwrap() else { panic!("{}", entry.path) };
                files.push((entry.path.to_string(), String::from_utf8(file.content).unwrap()));
            }
            (copied, files)
        })
    }

    fn file(path: &str, text: &str) -> (String, String) {
        (path.to_owned(), text.to_owned())
    }

    #[test]
    fn what_changes_and_comes_meanwhile_is_copied_as_well() {
        let (copied, files) = copy(|listing| match listing {
            0 => write("a", "one"),
            1 => write("a", "two"), // of the same size
            2 => write("b", "new"),
            _ => Batch::new(),
        });
        assert!(copied.is_complete(), "{copied:?}");
        assert_eq!(copied.to_text(), "2 files copied, 0 overwritten, 6 bytes; 0 already there, 0 besides");
        assert_eq!(files, [file("/memories/a", "two"), file("/memories/b", "new")]);
    }

    #[test]
    fn a_source_that_never_rests_is_told() {
        let (copied, files) = copy(|listing| write("a", &listing.to_string()));
        assert!(copied.goes_on_changing && !copied.is_complete());
        assert_eq!(files, [file("/memories/a", &(ROUNDS - 1).to_string())]);
    }

    #[test]
    fn what_goes_meanwhile_is_told_and_stays() {
        let (copied, files) = copy(|listing| match listing {
            0 => write("a", "one"),
            1 => Batch::new().remove("/memories/a".parse().unwrap()).unwrap(),
            _ => Batch::new(),
        });
        assert_eq!((copied.gone.as_slice(), copied.is_complete()), (&["/memories/a".to_owned()][..], false));
        assert_eq!(files, [file("/memories/a", "one")]);
    }
}
