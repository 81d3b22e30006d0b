//! The byte-level store: versions, preconditions, batches and listings.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::{join, join_all};
use memory_tool_core::{
    Batch, Change, Expected, FileEntry, Found, MAX_PATH_BYTES, MemoryPath, Node, Store, StoreError, Version,
};
use tokio::task::yield_now;

use crate::case::{Basis, Need};
use crate::cases::CodeCase;
use crate::cases::bytes::{expect_content, path, write};
use crate::failure::{Failure, Stop};
use crate::subject::{Subject, check};

/// The tasks of a race.
const RACERS: usize = 8;
/// How often a race is run.
const ROUNDS: usize = 30;

macro_rules! store_case {
    ($id:literal, $clauses:expr, $reason:literal, $run:ident) => {
        CodeCase {
            id: $id,
            clauses: &$clauses,
            basis: Basis::Project,
            needs: &[Need::Store],
            reason: $reason,
            run: |subject| Box::pin(async move { $run(subject.store()?).await }),
        }
    };
}

pub(crate) const CASES: &[CodeCase] = &[
    store_case!("store.read", ["P5"], "a path is a file, a directory because a file lies beneath it, or nothing", read),
    store_case!(
        "store.read-or-list",
        ["V1"],
        "to read or list at once gives another file, version, directory or nothing than to read and to list",
        read_or_list
    ),
    store_case!(
        "store.read-if",
        ["X3"],
        "a read under preconditions gives what a read gives, or the first precondition that does not hold",
        read_if
    ),
    store_case!("store.any-bytes", ["C1"], "a file is bytes: none is changed, none ends it", any_bytes),
    store_case!("store.large-file", ["C1"], "a file of several MB comes back whole", large_file),
    store_case!(
        "store.version-of-other-content",
        ["X3"],
        "two contents of the same length, written at once, have two versions",
        version_of_other_content
    ),
    store_case!(
        "store.version-is-required",
        ["X3"],
        "a write that requires an old version is refused and changes nothing",
        version_is_required
    ),
    store_case!(
        "store.version-of-what-is-gone",
        ["X3"],
        "no version is required of nothing, nor of a directory",
        version_of_what_is_gone
    ),
    store_case!(
        "store.version-of-another-file",
        ["X3"],
        "a version is one of its file: that of another content does not do",
        version_of_another_file
    ),
    store_case!(
        "store.absence-is-required",
        ["X3", "C2"],
        "a path that is to be free is neither a file nor a directory",
        absence_is_required
    ),
    store_case!(
        "store.preconditions-alone",
        ["X3"],
        "a batch without changes still checks what it requires",
        preconditions_alone
    ),
    store_case!(
        "store.preconditions-of-other-paths",
        ["X3"],
        "what a batch requires of a path that it does not change counts",
        preconditions_of_other_paths
    ),
    store_case!(
        "store.preconditions-in-order",
        ["X3"],
        "the first precondition that does not hold is the error",
        preconditions_in_order
    ),
    store_case!(
        "store.preconditions-come-first",
        ["X3"],
        "preconditions are asked of the state before the batch, and before its changes",
        preconditions_come_first
    ),
    store_case!("store.empty-batch", ["X1"], "a batch of nothing changes nothing, and the store goes on", empty_batch),
    store_case!("store.batch", ["X1"], "all changes of a batch happen", batch),
    store_case!(
        "store.batch-in-one-directory",
        ["X1", "P5"],
        "the last file of a directory may go in the batch that brings another",
        batch_in_one_directory
    ),
    store_case!(
        "store.failed-write-undoes-all",
        ["X1"],
        "where a write of a batch fails, none of its changes happen",
        failed_write_undoes_all
    ),
    store_case!(
        "store.failed-remove-undoes-all",
        ["X1"],
        "where a removal of a batch fails, none of its changes happen",
        failed_remove_undoes_all
    ),
    store_case!(
        "store.failed-rename-undoes-all",
        ["X1"],
        "where a rename of a batch fails, none of its changes happen",
        failed_rename_undoes_all
    ),
    store_case!("store.write-over-directory", ["C2"], "a directory is not replaced by a file", write_over_directory),
    store_case!(
        "store.write-beneath-file",
        ["C3"],
        "a file has nothing beneath it, and the error names it",
        write_beneath_file
    ),
    store_case!("store.remove-nothing", ["D2"], "what is not there cannot be removed", remove_nothing),
    store_case!(
        "store.remove-root",
        ["P5", "D1"],
        "removing the root empties the store, also an empty one",
        remove_root
    ),
    store_case!(
        "store.rename-nothing",
        ["R2"],
        "what is not there cannot be renamed, whatever is at the other end",
        rename_nothing
    ),
    store_case!(
        "store.rename-to-what-is-taken",
        ["R2"],
        "a rename replaces neither a file nor a directory",
        rename_to_what_is_taken
    ),
    store_case!(
        "store.rename-beneath-file",
        ["R3"],
        "nothing is moved beneath a file, and the error names it",
        rename_beneath_file
    ),
    store_case!(
        "store.rename-beyond-the-longest-path",
        ["P2", "X1"],
        "a directory does not move where a path in it would be too long",
        rename_beyond_the_longest_path
    ),
    store_case!("store.list", ["V1", "V2"], "every file beneath, at any depth, once, with its size in bytes", list),
    store_case!(
        "store.list-of-what-is-no-directory",
        ["V1"],
        "nothing lies beneath a file or nothing",
        list_of_what_is_no_directory
    ),
    store_case!(
        "store.list-neighbours",
        ["V1"],
        "a name that begins as the directory's does, or that a pattern would match, is not beneath it",
        list_neighbours
    ),
    store_case!("store.list-many", ["V1"], "a listing of thousands of files is whole", list_many),
    store_case!(
        "store.race-for-a-version",
        ["X3"],
        "of those who replace one version at once, one wins",
        race_for_a_version
    ),
    store_case!(
        "store.race-for-a-path",
        ["X3", "C2"],
        "of those who require a path to be free and write it at once, one wins",
        race_for_a_path
    ),
    store_case!(
        "store.list-is-of-one-moment",
        ["X1", "X3"],
        "a listing never shows one half of a batch",
        list_is_of_one_moment
    ),
    store_case!(
        "store.read-if-is-of-one-moment",
        ["X1", "X3"],
        "a file that is read under the version of another is the one that was written with it",
        read_if_is_of_one_moment
    ),
    CodeCase {
        id: "store.version-in-another-session",
        clauses: &["X3"],
        basis: Basis::Project,
        needs: &[Need::Store, Need::Sessions],
        reason: "a version that one session read is the same to another, and a stale one is stale in both",
        run: |subject| Box::pin(async move { version_in_another_session(&*subject).await }),
    },
    CodeCase {
        id: "store.reopened",
        clauses: &["X2"],
        basis: Basis::Project,
        needs: &[Need::Store, Need::Sessions],
        reason: "what one session wrote, moved and removed is so for the next",
        run: |subject| Box::pin(async move { reopened(&*subject).await }),
    },
];

/// Writes each file, in a batch of its own, with its path as its content.
async fn put(store: &dyn Store, files: &[&str]) -> Result<(), Stop> {
    for file in files {
        store.apply(write(file, *file)?).await?;
    }
    Ok(())
}

async fn version(store: &dyn Store, text: &str) -> Result<Version, Stop> {
    match store.read(&path(text)?).await? {
        Node::File(file) => Ok(file.version),
        other => Err(Failure::new(format!("expected a file at {text}, got {other:?}")).into()),
    }
}

async fn expect_node(store: &dyn Store, text: &str, expected: &Node) -> Result<(), Stop> {
    let got = store.read(&path(text)?).await?;
    check(got == *expected, || format!("{text} reads as {got:?} instead of {expected:?}"))
}

/// Checks that these are all the files, each with its path as its content.
async fn expect_untouched(store: &dyn Store, files: &[&str]) -> Result<(), Stop> {
    let listed: BTreeSet<_> = store.list(&MemoryPath::root()).await?.into_iter().map(|file| file.path).collect();
    let expected = files.iter().map(|file| path(file)).collect::<Result<BTreeSet<_>, _>>()?;
    check(listed == expected, || format!("the store holds {listed:?} instead of {expected:?}"))?;
    for file in files {
        expect_content(store, file, file.as_bytes()).await?;
    }
    Ok(())
}

/// Checks that a batch was refused with this error.
fn expect_refused(outcome: Result<(), StoreError>, expected: &StoreError) -> Result<(), Stop> {
    match outcome {
        Err(error) if error.to_string() == expected.to_string() => Ok(()),
        Err(error) => Err(Failure::new(format!("expected the error \"{expected}\", got \"{error}\"")).into()),
        Ok(()) => Err(Failure::new(format!("expected the error \"{expected}\", and the batch was applied")).into()),
    }
}

async fn read(store: Arc<dyn Store>) -> Result<(), Stop> {
    expect_node(&*store, "/memories", &Node::Directory).await?;
    put(&*store, &["/memories/d/e/file"]).await?;
    for directory in ["/memories", "/memories/d", "/memories/d/e"] {
        expect_node(&*store, directory, &Node::Directory).await?;
    }
    expect_content(&*store, "/memories/d/e/file", b"/memories/d/e/file").await?;
    for absent in ["/memories/x", "/memories/d/e/fil", "/memories/d/e/file2", "/memories/d/e/file/x", "/memories/file"]
    {
        expect_node(&*store, absent, &Node::Absent).await?;
    }
    Ok(())
}

async fn read_or_list(store: Arc<dyn Store>) -> Result<(), Stop> {
    for file in ["/memories/d/a", "/memories/d/e/b", "/memories/d-c"] {
        store.apply(write(file, "text")?).await?;
    }
    for place in ["/memories", "/memories/d", "/memories/d/e", "/memories/d/a", "/memories/none", "/memories/d/a/none"]
    {
        let place = path(place)?;
        let mut found = store.read_or_list(&place).await?;
        let mut expected = match store.read(&place).await? {
            Node::Absent => Found::Absent,
            Node::File(file) => Found::File(file),
            Node::Directory => Found::Directory(store.list(&place).await?),
        };
        for found in [&mut found, &mut expected] {
            if let Found::Directory(files) = found {
                files.sort_by(|left, right| left.path.cmp(&right.path));
            }
        }
        check(found == expected, || format!("{place} is {expected:?}, and {found:?} when read or listed at once"))?;
    }
    Ok(())
}

async fn read_if(store: Arc<dyn Store>) -> Result<(), Stop> {
    store.apply(write("/memories/b", "old")?).await?;
    let [a, b, none] = [path("/memories/d/a")?, path("/memories/b")?, path("/memories/d/none")?];
    let stale = Expected::Version(version(&*store, "/memories/b").await?);
    put(&*store, &["/memories/d/a", "/memories/b"]).await?;
    let held =
        [(b.clone(), Expected::Version(version(&*store, "/memories/b").await?)), (none.clone(), Expected::Absent)];
    for place in [&a, &b, &none, &path("/memories/d")?, &MemoryPath::root()] {
        let expected = store.read(place).await?;
        for held in [&held[..], &held[..1], &[]] {
            let found = store.read_if(place, held).await?;
            check(found == expected, || format!("{place} is {expected:?}, and {found:?} when preconditions hold"))?;
        }
    }
    for (unmet, error) in [
        (vec![(b.clone(), stale.clone())], StoreError::VersionMismatch { path: b.clone() }),
        (vec![(none.clone(), stale.clone())], StoreError::VersionMismatch { path: none.clone() }),
        (vec![(a.clone(), Expected::Absent)], StoreError::AlreadyExists { path: a.clone() }),
        (
            vec![held[0].clone(), (a.clone(), Expected::Absent), (b.clone(), stale)],
            StoreError::AlreadyExists { path: a.clone() },
        ),
    ] {
        for place in [&a, &none] {
            expect_refused(store.read_if(place, &unmet).await.map(|_| ()), &error)?;
        }
    }
    Ok(())
}

async fn any_bytes(store: Arc<dyn Store>) -> Result<(), Stop> {
    let all: Vec<u8> = (0..=u8::MAX).collect();
    for content in [&b""[..], b"\0", b"a\0b", b"\xff\xfe", b"\r\n", b"\n", b" \t", b"\xef\xbb\xbfa", &all] {
        store.apply(write("/memories/file", content)?).await?;
        expect_content(&*store, "/memories/file", content).await?;
    }
    Ok(())
}

async fn large_file(store: Arc<dyn Store>) -> Result<(), Stop> {
    // No power of two, and no byte at the same place of two blocks.
    let content: Vec<u8> = (0..5_000_003_u32).map(|index| (index % 251) as u8).collect();
    store.apply(write("/memories/file", content.clone())?).await?;
    expect_content(&*store, "/memories/file", &content).await
}

async fn version_of_other_content(store: Arc<dyn Store>) -> Result<(), Stop> {
    let mut versions = Vec::new();
    for round in 0..ROUNDS {
        store.apply(write("/memories/file", format!("{round:04}"))?).await?;
        let version = version(&*store, "/memories/file").await?;
        check(!versions.contains(&version), || format!("the version after write {round} was that of another content"))?;
        versions.push(version);
    }
    Ok(())
}

async fn version_is_required(store: Arc<dyn Store>) -> Result<(), Stop> {
    let file = path("/memories/file")?;
    store.apply(write("/memories/file", "one")?).await?;
    let old = version(&*store, "/memories/file").await?;
    store.apply(write("/memories/file", "two")?.require(file.clone(), Expected::Version(old.clone()))).await?;
    expect_content(&*store, "/memories/file", b"two").await?;
    let stale = write("/memories/file", "six")?.require(file.clone(), Expected::Version(old));
    expect_refused(store.apply(stale).await, &StoreError::VersionMismatch { path: file })?;
    expect_content(&*store, "/memories/file", b"two").await
}

async fn version_of_what_is_gone(store: Arc<dyn Store>) -> Result<(), Stop> {
    let file = path("/memories/file")?;
    put(&*store, &["/memories/file", "/memories/keep"]).await?;
    let required = Expected::Version(version(&*store, "/memories/file").await?);
    store.apply(Batch::new().remove(file.clone())?).await?;
    let edit = write("/memories/file", "new")?.require(file.clone(), required.clone());
    expect_refused(store.apply(edit).await, &StoreError::VersionMismatch { path: file.clone() })?;
    put(&*store, &["/memories/file/beneath"]).await?;
    let removal = Batch::new().require(file.clone(), required).remove(file.clone())?;
    expect_refused(store.apply(removal).await, &StoreError::VersionMismatch { path: file })?;
    expect_untouched(&*store, &["/memories/file/beneath", "/memories/keep"]).await
}

async fn version_of_another_file(store: Arc<dyn Store>) -> Result<(), Stop> {
    put(&*store, &["/memories/a", "/memories/b"]).await?;
    let other = Expected::Version(version(&*store, "/memories/b").await?);
    let edit = write("/memories/a", "new")?.require(path("/memories/a")?, other);
    expect_refused(store.apply(edit).await, &StoreError::VersionMismatch { path: path("/memories/a")? })?;
    expect_untouched(&*store, &["/memories/a", "/memories/b"]).await
}

async fn absence_is_required(store: Arc<dyn Store>) -> Result<(), Stop> {
    let create = |text| Ok::<_, Stop>(write(text, text)?.require(path(text)?, Expected::Absent));
    store.apply(create("/memories/file")?).await?;
    store.apply(create("/memories/d/file")?).await?;
    expect_refused(
        store.apply(create("/memories/file")?).await,
        &StoreError::AlreadyExists { path: path("/memories/file")? },
    )?;
    let directory = path("/memories/d")?;
    let only_asked = Batch::new().require(directory.clone(), Expected::Absent);
    expect_refused(store.apply(only_asked).await, &StoreError::AlreadyExists { path: directory })?;
    expect_untouched(&*store, &["/memories/d/file", "/memories/file"]).await
}

async fn preconditions_alone(store: Arc<dyn Store>) -> Result<(), Stop> {
    put(&*store, &["/memories/file"]).await?;
    let (file, free) = (path("/memories/file")?, path("/memories/free")?);
    let required = Expected::Version(version(&*store, "/memories/file").await?);
    store.apply(Batch::new().require(file.clone(), required.clone()).require(free.clone(), Expected::Absent)).await?;
    let taken = Batch::new().require(file.clone(), Expected::Absent);
    expect_refused(store.apply(taken).await, &StoreError::AlreadyExists { path: file })?;
    let gone = Batch::new().require(free.clone(), required);
    expect_refused(store.apply(gone).await, &StoreError::VersionMismatch { path: free })
}

async fn preconditions_of_other_paths(store: Arc<dyn Store>) -> Result<(), Stop> {
    put(&*store, &["/memories/other"]).await?;
    let other = path("/memories/other")?;
    let required = Expected::Version(version(&*store, "/memories/other").await?);
    store.apply(write("/memories/other", "changed")?).await?;
    let batch = write("/memories/file", "new")?.require(other.clone(), required);
    expect_refused(store.apply(batch).await, &StoreError::VersionMismatch { path: other })?;
    expect_node(&*store, "/memories/file", &Node::Absent).await
}

async fn preconditions_in_order(store: Arc<dyn Store>) -> Result<(), Stop> {
    put(&*store, &["/memories/a", "/memories/b"]).await?;
    for (first, second) in [("/memories/a", "/memories/b"), ("/memories/b", "/memories/a")] {
        let batch = Batch::new().require(path("/memories/free")?, Expected::Absent);
        let batch = batch.require(path(first)?, Expected::Absent).require(path(second)?, Expected::Absent);
        expect_refused(store.apply(batch).await, &StoreError::AlreadyExists { path: path(first)? })?;
    }
    Ok(())
}

async fn preconditions_come_first(store: Arc<dyn Store>) -> Result<(), Stop> {
    put(&*store, &["/memories/from"]).await?;
    let (from, to) = (path("/memories/from")?, path("/memories/to")?);
    let required = Expected::Version(version(&*store, "/memories/from").await?);
    let moved = Batch::new().rename(from.clone(), to.clone())?;
    let moved = moved.require(from.clone(), required).require(to.clone(), Expected::Absent);
    store.apply(moved).await?;
    // Both the precondition and the change fail: it is the precondition that is told.
    let again = Batch::new().rename(from, to.clone())?.require(to.clone(), Expected::Absent);
    expect_refused(store.apply(again).await, &StoreError::AlreadyExists { path: to })?;
    expect_content(&*store, "/memories/to", b"/memories/from").await
}

async fn empty_batch(store: Arc<dyn Store>) -> Result<(), Stop> {
    store.apply(Batch::new()).await?;
    put(&*store, &["/memories/file"]).await?;
    store.apply(Batch::new()).await?;
    expect_untouched(&*store, &["/memories/file"]).await
}

async fn batch(store: Arc<dyn Store>) -> Result<(), Stop> {
    put(&*store, &["/memories/gone/a", "/memories/gone/b", "/memories/d/a", "/memories/file", "/memories/keep"])
        .await?;
    let batch = write("/memories/new/a", "one")?;
    let batch = batch.write(path("/memories/file")?, b"two".to_vec())?;
    let batch = batch.remove(path("/memories/gone")?)?;
    let batch = batch.rename(path("/memories/d")?, path("/memories/moved")?)?;
    store.apply(batch).await?;
    expect_content(&*store, "/memories/new/a", b"one").await?;
    expect_content(&*store, "/memories/file", b"two").await?;
    expect_content(&*store, "/memories/moved/a", b"/memories/d/a").await?;
    expect_content(&*store, "/memories/keep", b"/memories/keep").await?;
    expect_node(&*store, "/memories/gone", &Node::Absent).await?;
    expect_node(&*store, "/memories/d", &Node::Absent).await
}

async fn batch_in_one_directory(store: Arc<dyn Store>) -> Result<(), Stop> {
    put(&*store, &["/memories/d/e/old"]).await?;
    let batch = Batch::new().remove(path("/memories/d/e/old")?)?;
    store.apply(batch.write(path("/memories/d/e/new")?, b"/memories/d/e/new".to_vec())?).await?;
    expect_untouched(&*store, &["/memories/d/e/new"]).await?;
    let batch = write("/memories/d/e/newer", "/memories/d/e/newer")?;
    store.apply(batch.rename(path("/memories/d/e/new")?, path("/memories/new")?)?).await?;
    expect_content(&*store, "/memories/new", b"/memories/d/e/new").await?;
    expect_content(&*store, "/memories/d/e/newer", b"/memories/d/e/newer").await
}

/// Applies changes that would each do, and one that fails, with the failing one at each place among them.
async fn expect_all_undone(store: &dyn Store, failing: &Change, error: &StoreError) -> Result<(), Stop> {
    let files = ["/memories/a", "/memories/b", "/memories/d/file", "/memories/taken"];
    put(store, &files).await?;
    for place in 0..=3 {
        let mut batch = Batch::new();
        for step in 0..=3 {
            if step == place {
                batch = match failing.clone() {
                    Change::Write { path, content } => batch.write(path, content)?,
                    Change::Remove { path } => batch.remove(path)?,
                    Change::Rename { from, to } => batch.rename(from, to)?,
                };
            }
            batch = match step {
                0 => batch.write(path("/memories/new/file")?, b"new".to_vec())?,
                1 => batch.remove(path("/memories/a")?)?,
                2 => batch.rename(path("/memories/b")?, path("/memories/moved/b")?)?,
                _ => batch,
            };
        }
        expect_refused(store.apply(batch).await, error)?;
        expect_untouched(store, &files).await?;
        expect_node(store, "/memories/new", &Node::Absent).await?;
        expect_node(store, "/memories/moved", &Node::Absent).await?;
    }
    Ok(())
}

async fn failed_write_undoes_all(store: Arc<dyn Store>) -> Result<(), Stop> {
    let over_directory = Change::Write { path: path("/memories/d")?, content: Vec::new() };
    expect_all_undone(&*store, &over_directory, &StoreError::AlreadyExists { path: path("/memories/d")? }).await
}

async fn failed_remove_undoes_all(store: Arc<dyn Store>) -> Result<(), Stop> {
    let nothing = Change::Remove { path: path("/memories/nothing")? };
    expect_all_undone(&*store, &nothing, &StoreError::NotFound { path: path("/memories/nothing")? }).await
}

async fn failed_rename_undoes_all(store: Arc<dyn Store>) -> Result<(), Stop> {
    let taken = Change::Rename { from: path("/memories/d/file")?, to: path("/memories/taken")? };
    expect_all_undone(&*store, &taken, &StoreError::AlreadyExists { path: path("/memories/taken")? }).await
}

async fn write_over_directory(store: Arc<dyn Store>) -> Result<(), Stop> {
    put(&*store, &["/memories/d/e/file"]).await?;
    for directory in ["/memories/d", "/memories/d/e"] {
        let refused = store.apply(write(directory, "new")?).await;
        expect_refused(refused, &StoreError::AlreadyExists { path: path(directory)? })?;
    }
    expect_untouched(&*store, &["/memories/d/e/file"]).await
}

async fn write_beneath_file(store: Arc<dyn Store>) -> Result<(), Stop> {
    put(&*store, &["/memories/d/file"]).await?;
    for beneath in ["/memories/d/file/x", "/memories/d/file/x/y"] {
        let refused = store.apply(write(beneath, "new")?).await;
        expect_refused(refused, &StoreError::NotADirectory { path: path("/memories/d/file")? })?;
    }
    expect_untouched(&*store, &["/memories/d/file"]).await
}

async fn remove_nothing(store: Arc<dyn Store>) -> Result<(), Stop> {
    put(&*store, &["/memories/d/file"]).await?;
    for nothing in ["/memories/x", "/memories/d/fil", "/memories/d/file/x", "/memories/D"] {
        let refused = store.apply(Batch::new().remove(path(nothing)?)?).await;
        expect_refused(refused, &StoreError::NotFound { path: path(nothing)? })?;
    }
    expect_untouched(&*store, &["/memories/d/file"]).await
}

async fn remove_root(store: Arc<dyn Store>) -> Result<(), Stop> {
    let clear = || Ok::<_, Stop>(Batch::new().remove(MemoryPath::root())?);
    store.apply(clear()?).await?;
    put(&*store, &["/memories/.hidden/file", "/memories/d/file", "/memories/file"]).await?;
    store.apply(clear()?).await?;
    expect_untouched(&*store, &[]).await?;
    expect_node(&*store, "/memories", &Node::Directory).await?;
    put(&*store, &["/memories/d"]).await?;
    expect_untouched(&*store, &["/memories/d"]).await
}

async fn rename_nothing(store: Arc<dyn Store>) -> Result<(), Stop> {
    put(&*store, &["/memories/d/file"]).await?;
    for to in ["/memories/new", "/memories/new/x", "/memories/d", "/memories/d/file", "/memories/d/file/x"] {
        let refused = store.apply(Batch::new().rename(path("/memories/x")?, path(to)?)?).await;
        expect_refused(refused, &StoreError::NotFound { path: path("/memories/x")? })?;
    }
    expect_untouched(&*store, &["/memories/d/file"]).await
}

async fn rename_to_what_is_taken(store: Arc<dyn Store>) -> Result<(), Stop> {
    let files = ["/memories/d/file", "/memories/e/file", "/memories/file"];
    put(&*store, &files).await?;
    for from in ["/memories/file", "/memories/d"] {
        for to in ["/memories/e", "/memories/e/file"] {
            let refused = store.apply(Batch::new().rename(path(from)?, path(to)?)?).await;
            expect_refused(refused, &StoreError::AlreadyExists { path: path(to)? })?;
        }
    }
    expect_untouched(&*store, &files).await
}

async fn rename_beneath_file(store: Arc<dyn Store>) -> Result<(), Stop> {
    let files = ["/memories/d/file", "/memories/file"];
    put(&*store, &files).await?;
    for to in ["/memories/file/x", "/memories/file/x/y"] {
        let refused = store.apply(Batch::new().rename(path("/memories/d")?, path(to)?)?).await;
        expect_refused(refused, &StoreError::NotADirectory { path: path("/memories/file")? })?;
    }
    expect_untouched(&*store, &files).await
}

async fn rename_beyond_the_longest_path(store: Arc<dyn Store>) -> Result<(), Stop> {
    let segment = "x".repeat(200);
    let long = format!("/memories/d{}", format!("/{segment}").repeat(5));
    let files = [long.as_str(), "/memories/d/short"];
    put(&*store, &files).await?;
    let target = format!("/memories/{}", "y".repeat(MAX_PATH_BYTES - long.len() + 2));
    let refused = store.apply(Batch::new().rename(path("/memories/d")?, path(&target)?)?).await;
    check(matches!(refused, Err(StoreError::Path(_))), || format!("expected an error of the path, got {refused:?}"))?;
    expect_untouched(&*store, &files).await
}

async fn list(store: Arc<dyn Store>) -> Result<(), Stop> {
    check(store.list(&MemoryPath::root()).await?.is_empty(), || "an empty store lists files".to_owned())?;
    for (file, content) in [
        ("/memories/a", ""),
        ("/memories/d/b", "é\n"),
        ("/memories/d/e/f/g/c", "0123456789"),
        ("/memories/d/.hidden", "h"),
        ("/memories/node_modules/x", "nm"),
    ] {
        store.apply(write(file, content)?).await?;
    }
    let in_d = [("/memories/d/.hidden", 1), ("/memories/d/b", 3), ("/memories/d/e/f/g/c", 10)];
    expect_listed(&*store, "/memories/d", &in_d).await?;
    expect_listed(&*store, "/memories/d/e", &[("/memories/d/e/f/g/c", 10)]).await?;
    let all = [&[("/memories/a", 0)], in_d.as_slice(), &[("/memories/node_modules/x", 2)]].concat();
    expect_listed(&*store, "/memories", &all).await
}

async fn expect_listed(store: &dyn Store, directory: &str, expected: &[(&str, u64)]) -> Result<(), Stop> {
    let mut listed: Vec<_> = store.list(&path(directory)?).await?;
    listed.sort_by(|left, right| left.path.cmp(&right.path));
    let entry = |&(file, size): &(&str, u64)| Ok(FileEntry::new(path(file)?, size));
    let expected = expected.iter().map(entry).collect::<Result<Vec<_>, Stop>>()?;
    check(listed == expected, || format!("{directory} lists {listed:?} instead of {expected:?}"))
}

async fn list_of_what_is_no_directory(store: Arc<dyn Store>) -> Result<(), Stop> {
    put(&*store, &["/memories/d/file"]).await?;
    for nothing in ["/memories/d/file", "/memories/d/file/x", "/memories/x", "/memories/d/fil"] {
        expect_listed(&*store, nothing, &[]).await?;
    }
    Ok(())
}

async fn list_neighbours(store: Arc<dyn Store>) -> Result<(), Stop> {
    let neighbours = [
        "/memories/a_b-",
        "/memories/a_b.md",
        "/memories/a_b0/x",
        "/memories/a_bc/x",
        "/memories/axb/x",
        "/memories/A_B/x",
    ];
    put(&*store, &neighbours).await?;
    put(&*store, &["/memories/a_b/x", "/memories/a%/x", "/memories/a*/x"]).await?;
    for directory in ["/memories/a_b", "/memories/a%", "/memories/a*"] {
        let only = format!("{directory}/x");
        expect_listed(&*store, directory, &[(&only, only.len() as u64)]).await?;
    }
    Ok(())
}

async fn list_many(store: Arc<dyn Store>) -> Result<(), Stop> {
    const FILES: usize = 2_500; // more than a page of any listing that comes in pages
    let mut batch = Batch::new();
    for number in 0..FILES {
        batch = batch.write(path(&format!("/memories/d/{number}"))?, b"x".to_vec())?;
    }
    store.apply(batch).await?;
    let listed: BTreeSet<_> = store.list(&path("/memories/d")?).await?.into_iter().map(|file| file.path).collect();
    check(listed.len() == FILES, || format!("{} of {FILES} files are listed", listed.len()))
}

async fn race_for_a_version(store: Arc<dyn Store>) -> Result<(), Stop> {
    let file = path("/memories/file")?;
    store.apply(write("/memories/file", "start")?).await?;
    for round in 0..ROUNDS {
        let required = Expected::Version(version(&*store, "/memories/file").await?);
        let edit = |racer| {
            Ok::<_, Stop>(write("/memories/file", format!("{round} {racer}"))?.require(file.clone(), required.clone()))
        };
        one_winner(&*store, edit, |error| matches!(error, StoreError::VersionMismatch { .. })).await?;
    }
    Ok(())
}

async fn race_for_a_path(store: Arc<dyn Store>) -> Result<(), Stop> {
    for round in 0..ROUNDS {
        let file = format!("/memories/{round}/file");
        let create =
            |racer| Ok::<_, Stop>(write(&file, format!("{round} {racer}"))?.require(path(&file)?, Expected::Absent));
        one_winner(&*store, create, |error| matches!(error, StoreError::AlreadyExists { .. })).await?;
    }
    Ok(())
}

/// Applies all batches at once: one must do, and the others fail as expected.
async fn one_winner(
    store: &dyn Store,
    batch: impl Fn(usize) -> Result<Batch, Stop>,
    is_loss: impl Fn(&StoreError) -> bool,
) -> Result<(), Stop> {
    let batches = (0..RACERS).map(batch).collect::<Result<Vec<_>, _>>()?;
    let mut contents = Vec::new();
    let mut file = None;
    for change in batches.iter().flat_map(Batch::changes) {
        if let Change::Write { path, content } = change {
            file = Some(path.clone());
            contents.push(content.clone());
        }
    }
    let outcomes = join_all(batches.into_iter().map(|batch| store.apply(batch))).await;
    let mut winners = Vec::new();
    for (racer, outcome) in outcomes.into_iter().enumerate() {
        match outcome {
            Ok(()) => winners.push(racer),
            Err(error) if is_loss(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let [winner] = winners.as_slice() else {
        return Err(Failure::new(format!("{} of {RACERS} won", winners.len())).into());
    };
    let (Some(file), Some(content)) = (file, contents.get(*winner)) else { return Ok(()) };
    expect_content(store, file.as_str(), content).await
}

async fn list_is_of_one_moment(store: Arc<dyn Store>) -> Result<(), Stop> {
    let of_size = |round: usize| {
        let content = vec![b'x'; round % 100];
        let batch = write("/memories/a/first", content.clone())?;
        Ok(batch.write(path("/memories/z/last")?, content)?)
    };
    let look = || async {
        let listed = store.list(&MemoryPath::root()).await?;
        let sizes: BTreeSet<_> = listed.iter().map(|file| file.size).collect();
        check(listed.len() == 2 && sizes.len() == 1, || format!("one batch wrote both, and a listing shows {listed:?}"))
    };
    look_while_written(&*store, of_size, look).await
}

async fn read_if_is_of_one_moment(store: Arc<dyn Store>) -> Result<(), Stop> {
    let both = |round: usize| {
        let content = round.to_string();
        Ok(write("/memories/a/first", content.clone())?.write(path("/memories/z/last")?, content.into_bytes())?)
    };
    let [first, last] = [path("/memories/a/first")?, path("/memories/z/last")?];
    let look = || async {
        let Node::File(known) = store.read(&first).await? else { return Ok(()) };
        match store.read_if(&last, &[(first.clone(), Expected::Version(known.version))]).await {
            Ok(Node::File(read)) => check(read.content == known.content, || {
                let [known, read] =
                    [known.content, read.content].map(|content| String::from_utf8_lossy(&content).into_owned());
                format!(
                    "batch {known} wrote both files, and under its version of the first the last is of batch {read}"
                )
            }),
            Ok(other) => Err(Failure::new(format!("expected a file at {last}, got {other:?}")).into()),
            Err(StoreError::VersionMismatch { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    };
    look_while_written(&*store, both, look).await
}

/// Looks again and again while a batch for each round is applied.
async fn look_while_written<F>(
    store: &dyn Store,
    batch: impl Fn(usize) -> Result<Batch, Stop>,
    look: impl Fn() -> F,
) -> Result<(), Stop>
where
    F: Future<Output = Result<(), Stop>>,
{
    store.apply(batch(0)?).await?;
    let is_over = AtomicBool::new(false);
    let writing = async {
        let written = async {
            for round in 1..ROUNDS * 4 {
                store.apply(batch(round)?).await?;
                yield_now().await;
            }
            Ok::<_, Stop>(())
        };
        let written = written.await;
        is_over.store(true, Ordering::Relaxed);
        written
    };
    let reading = async {
        while !is_over.load(Ordering::Relaxed) {
            look().await?;
            yield_now().await;
        }
        Ok::<_, Stop>(())
    };
    let (written, read) = join(writing, reading).await;
    written.and(read)
}

async fn version_in_another_session(subject: &dyn Subject) -> Result<(), Stop> {
    let (here, there) = (subject.store()?, subject.another_store().await?);
    let file = path("/memories/file")?;
    here.apply(write("/memories/file", "one")?).await?;
    let read_here = version(&*here, "/memories/file").await?;
    let edit = write("/memories/file", "two")?.require(file.clone(), Expected::Version(read_here.clone()));
    there.apply(edit).await?;
    expect_content(&*here, "/memories/file", b"two").await?;
    for store in [&here, &there] {
        let stale = write("/memories/file", "six")?.require(file.clone(), Expected::Version(read_here.clone()));
        expect_refused(store.apply(stale).await, &StoreError::VersionMismatch { path: file.clone() })?;
    }
    expect_content(&*there, "/memories/file", b"two").await
}

async fn reopened(subject: &dyn Subject) -> Result<(), Stop> {
    let store = subject.store()?;
    put(&*store, &["/memories/gone/file", "/memories/from/file", "/memories/keep"]).await?;
    store.apply(Batch::new().remove(path("/memories/gone")?)?).await?;
    store.apply(Batch::new().rename(path("/memories/from")?, path("/memories/to")?)?).await?;
    let again = subject.another_store().await?;
    expect_listed(&*again, "/memories", &[("/memories/keep", 14), ("/memories/to/file", 19)]).await?;
    expect_content(&*again, "/memories/to/file", b"/memories/from/file").await
}
