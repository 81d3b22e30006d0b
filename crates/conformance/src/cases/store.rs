//! The `Store` trait: versions, preconditions, batches and listings.

use std::collections::BTreeSet;
use std::sync::Arc;

use memory_tool_core::{
    Batch, Change, FileTimes, InvalidBatch, MAX_PATH_BYTES, Node, Precondition, ReadOptions, Stat, Store, StoreError,
    StoreExt, StorePath,
};

use crate::cases::bytes::{
    ROUNDS, expect_content, expect_mismatch, expect_refused, expect_taken, one_winner, path, put,
    race_for_a_version_of, remove, rename, unchanged, version, write,
};
use crate::cases::listings::expect_listed;
use crate::failure::{CaseError, check};
use crate::target::Target;

/// The file in most cases.
const FILE: &str = "/memories/file";
/// A record that behaves like it.
const RECORD: &str = "/records/suite/state";
cases! {
    |target| &target.store()?;
    read, read_under_preconditions, any_bytes, large_file, version_of_other_content, version_of_long_content,
    version_is_required,
    version_of_missing_path, version_of_another_file, absence_is_required, preconditions_alone,
    preconditions_of_other_paths, preconditions_in_order, preconditions_come_first, version_after_recreation,
    version_after_rename, invalid_batch, empty_batch, batch, batch_in_one_directory, failed_write_undoes_all,
    failed_remove_undoes_all, failed_rename_undoes_all, write_over_directory, write_under_file, remove_nothing,
    remove_root, rename_nothing, rename_to_existing_path, rename_under_file, rename_beyond_the_longest_path,
    race_for_a_version, race_for_a_path;
    version_in_another_session = |target| version_in_another_session(&target);
    version_after_recreation_in_another_session = |target| version_after_recreation_in_another_session(&target);
    reopened = |target| reopened(&target);
    after_a_refused_batch = |target| after_a_refused_batch(&target);
}

async fn expect_stat(store: &dyn Store, text: &str, expected: &Stat) -> Result<(), CaseError> {
    let got = store.read(path(text)?).await?;
    check(got.stat() == *expected, || format!("{text} reads as {got:?} instead of {expected:?}"))
}

/// Checks that exactly these files exist, each with its path as its content.
async fn expect_untouched(store: &dyn Store, files: &[&str]) -> Result<(), CaseError> {
    let listed: BTreeSet<_> = store.list(StorePath::memories()).await?.into_iter().map(|file| file.path).collect();
    let expected = files.iter().map(|file| path(file)).collect::<Result<BTreeSet<_>, _>>()?;
    check(listed == expected, || format!("the store contains {listed:?} instead of {expected:?}"))?;
    for file in files {
        expect_content(store, file, file.as_bytes()).await?;
    }
    Ok(())
}

async fn read(store: &dyn Store) -> Result<(), CaseError> {
    expect_stat(store, "/memories", &Stat::Directory).await?;
    put(store, &["/memories/d/e/file"]).await?;
    for directory in ["/memories", "/memories/d", "/memories/d/e"] {
        expect_stat(store, directory, &Stat::Directory).await?;
    }
    expect_content(store, "/memories/d/e/file", b"/memories/d/e/file").await?;
    for absent in ["/memories/x", "/memories/d/e/fil", "/memories/d/e/file2", "/memories/d/e/file/x", FILE] {
        expect_stat(store, absent, &Stat::Absent).await?;
    }
    Ok(())
}

/// The node at a path, with listings sorted.
fn sorted(mut node: Node) -> Node {
    if let Node::Directory(listing) = &mut node {
        listing.files.sort_by(|left, right| left.path.cmp(&right.path));
    }
    node
}

async fn read_under_preconditions(store: &dyn Store) -> Result<(), CaseError> {
    store.apply(write("/memories/b", "old")?).await?;
    let [a, b, d, none] =
        [path("/memories/d/a")?, path("/memories/b")?, path("/memories/d")?, path("/memories/d/none")?];
    let stale = unchanged(store, "/memories/b").await?;
    put(store, &["/memories/d/a", "/memories/d/e/f", "/memories/b"]).await?;
    let current = unchanged(store, "/memories/b").await?;
    let held = [(b.clone(), current), (none.clone(), Precondition::Absent)];
    for place in [&a, &b, &none, &d, &StorePath::memories()] {
        let expected = sorted(store.read(place).await?);
        for held in [&held[..], &held[..1], &[]] {
            let found = sorted(store.read_opts(place, ReadOptions::new().require_all(held.to_vec())).await?);
            check(found == expected, || {
                format!("{place} is {expected:?}, but reads as {found:?} under preconditions that hold")
            })?;
        }
    }
    for (unmet, error) in [
        (vec![(b.clone(), stale.clone())], StoreError::VersionMismatch { path: b.clone() }),
        (vec![(none.clone(), stale.clone())], StoreError::VersionMismatch { path: none.clone() }),
        (vec![(d.clone(), stale.clone())], StoreError::VersionMismatch { path: d.clone() }),
        (vec![(a.clone(), Precondition::Absent)], StoreError::AlreadyExists { path: a.clone() }),
        (vec![(d.clone(), Precondition::Absent)], StoreError::AlreadyExists { path: d.clone() }),
        (
            vec![held[0].clone(), (a.clone(), Precondition::Absent), (b.clone(), stale)],
            StoreError::AlreadyExists { path: a.clone() },
        ),
    ] {
        for place in [&a, &d, &none] {
            expect_refused(store.read_opts(place, ReadOptions::new().require_all(unmet.clone())).await, &error)?;
        }
    }
    Ok(())
}

async fn any_bytes(store: &dyn Store) -> Result<(), CaseError> {
    let all: Vec<u8> = (0..=u8::MAX).collect();
    let long: Vec<u8> = all.iter().copied().cycle().take(200_003).collect();
    for place in [FILE, RECORD] {
        for content in
            [&b""[..], b"\0", b"a\0b", b"\xff\xfe", b"\r\n", b"\n", b" \t", b"\xef\xbb\xbfa", &all, &long, b"short"]
        {
            store.apply(write(place, content)?).await?;
            expect_content(store, place, content).await?;
        }
    }
    Ok(())
}

async fn large_file(store: &dyn Store) -> Result<(), CaseError> {
    // Not a power of two, and no two blocks are alike.
    let content: Vec<u8> = (0..5_000_003_u32).map(|index| (index % 251) as u8).collect();
    store.apply(write(FILE, content.clone())?).await?;
    expect_content(store, FILE, &content).await?;
    // On both sides of the sizes of blocks.
    for size in [1 << 16, 1 << 20].into_iter().flat_map(|block| [block - 1, block, block + 1]) {
        for place in [FILE, RECORD] {
            store.apply(write(place, &content[..size])?).await?;
            expect_content(store, place, &content[..size]).await?;
        }
    }
    Ok(())
}

/// Applies the batches of each round, after which the file must have a version that belonged to no content before.
async fn expect_new_versions(
    store: &dyn Store,
    file: &str,
    batches: impl Fn(String) -> Result<Vec<Batch>, CaseError>,
) -> Result<(), CaseError> {
    put(store, &[file]).await?;
    let mut versions = vec![version(store, file).await?];
    for round in 0..ROUNDS {
        for batch in batches(format!("{round:04}"))? {
            store.apply(batch).await?;
        }
        let version = version(store, file).await?;
        check(!versions.contains(&version), || {
            format!("the version of {file} after write {round} belonged to another content before")
        })?;
        versions.push(version);
    }
    Ok(())
}

async fn version_of_other_content(store: &dyn Store) -> Result<(), CaseError> {
    expect_new_versions(store, FILE, |content| Ok(vec![write(FILE, content)?])).await?;
    // A counter of 8 or 10 bits wraps around.
    let mut versions = Vec::new();
    for round in 0..1_100 {
        store.apply(write(FILE, format!("{round:05}"))?).await?;
        if round % 256 < 6 {
            let version = version(store, FILE).await?;
            check(!versions.contains(&version), || {
                format!("the version after {round} writes belonged to another content before")
            })?;
            versions.push(version);
        }
    }
    Ok(())
}

/// A digest of a part, or of samples, is the same for long contents that differ elsewhere.
async fn version_of_long_content(store: &dyn Store) -> Result<(), CaseError> {
    const LENGTH: usize = 300_001;
    for place in [FILE, RECORD] {
        let mut versions = Vec::new();
        for position in [0, 700, 5_000, LENGTH / 2, LENGTH - 70_000, LENGTH - 5_000, LENGTH - 1] {
            let mut content = vec![b'x'; LENGTH];
            content[position] = b'y';
            store.apply(write(place, content)?).await?;
            let version = version(store, place).await?;
            check(!versions.contains(&version), || {
                format!("a content of {LENGTH} bytes that differs at byte {position} has an earlier version")
            })?;
            versions.push(version);
        }
    }
    Ok(())
}

async fn version_after_recreation(store: &dyn Store) -> Result<(), CaseError> {
    for place in [FILE, RECORD] {
        expect_new_versions(store, place, |content| Ok(vec![remove(place)?, write(place, content)?])).await?;
        let stale = unchanged(store, place).await?;
        store.apply(remove(place)?).await?;
        store.apply(write(place, "again")?).await?;
        expect_mismatch(store, remove(place)?.require(path(place)?, stale), place).await?;
    }
    Ok(())
}

async fn version_after_rename(store: &dyn Store) -> Result<(), CaseError> {
    let batches = |content| {
        let aside = write("/memories/aside", content)?;
        Ok(vec![aside, remove(FILE)?, rename("/memories/aside", FILE)?])
    };
    expect_new_versions(store, FILE, batches).await
}

async fn version_is_required(store: &dyn Store) -> Result<(), CaseError> {
    store.apply(write(FILE, "one")?).await?;
    let old = unchanged(store, FILE).await?;
    store.apply(write(FILE, "two")?.require(path(FILE)?, old.clone())).await?;
    expect_content(store, FILE, b"two").await?;
    expect_mismatch(store, write(FILE, "six")?.require(path(FILE)?, old), FILE).await?;
    expect_content(store, FILE, b"two").await
}

async fn version_of_missing_path(store: &dyn Store) -> Result<(), CaseError> {
    put(store, &[FILE, "/memories/keep"]).await?;
    let required = unchanged(store, FILE).await?;
    store.apply(remove(FILE)?).await?;
    expect_mismatch(store, write(FILE, "new")?.require(path(FILE)?, required.clone()), FILE).await?;
    put(store, &["/memories/file/below"]).await?;
    expect_mismatch(store, remove(FILE)?.require(path(FILE)?, required), FILE).await?;
    expect_untouched(store, &["/memories/file/below", "/memories/keep"]).await
}

async fn version_of_another_file(store: &dyn Store) -> Result<(), CaseError> {
    put(store, &["/memories/a", "/memories/b"]).await?;
    let other = unchanged(store, "/memories/b").await?;
    expect_mismatch(store, write("/memories/a", "new")?.require(path("/memories/a")?, other), "/memories/a").await?;
    expect_untouched(store, &["/memories/a", "/memories/b"]).await
}

async fn absence_is_required(store: &dyn Store) -> Result<(), CaseError> {
    let create = |text| Ok::<_, CaseError>(write(text, text)?.require(path(text)?, Precondition::Absent));
    store.apply(create(FILE)?).await?;
    store.apply(create("/memories/d/file")?).await?;
    expect_taken(store, create(FILE)?, FILE).await?;
    expect_taken(store, Batch::new().require(path("/memories/d")?, Precondition::Absent), "/memories/d").await?;
    expect_untouched(store, &["/memories/d/file", FILE]).await
}

async fn preconditions_alone(store: &dyn Store) -> Result<(), CaseError> {
    put(store, &[FILE]).await?;
    let (file, free) = (path(FILE)?, path("/memories/free")?);
    let required = unchanged(store, FILE).await?;
    let both = Batch::new().require(file.clone(), required.clone()).require(free.clone(), Precondition::Absent);
    store.apply(both).await?;
    expect_taken(store, Batch::new().require(file, Precondition::Absent), FILE).await?;
    expect_mismatch(store, Batch::new().require(free, required), "/memories/free").await
}

async fn preconditions_of_other_paths(store: &dyn Store) -> Result<(), CaseError> {
    put(store, &["/memories/other"]).await?;
    let required = unchanged(store, "/memories/other").await?;
    store.apply(write("/memories/other", "changed")?).await?;
    expect_mismatch(store, write(FILE, "new")?.require(path("/memories/other")?, required), "/memories/other").await?;
    expect_stat(store, FILE, &Stat::Absent).await
}

async fn preconditions_in_order(store: &dyn Store) -> Result<(), CaseError> {
    put(store, &["/memories/a", "/memories/b"]).await?;
    for (first, second) in [("/memories/a", "/memories/b"), ("/memories/b", "/memories/a")] {
        let batch = Batch::new().require(path("/memories/free")?, Precondition::Absent);
        let batch = batch.require(path(first)?, Precondition::Absent).require(path(second)?, Precondition::Absent);
        expect_taken(store, batch, first).await?;
    }
    // A store can know the version of the file that it replaces without a look at other files.
    let (a, b) = (path("/memories/a")?, path("/memories/b")?);
    let outdated = unchanged(store, "/memories/a").await?;
    store.apply(write("/memories/a", "changed")?).await?;
    let new = || write("/memories/a", "new");
    let last = new()?.require(b.clone(), Precondition::Absent).require(a.clone(), outdated.clone());
    expect_taken(store, last, "/memories/b").await?;
    let first = new()?.require(a, outdated).require(b, Precondition::Absent);
    expect_mismatch(store, first, "/memories/a").await?;
    expect_content(store, "/memories/a", b"changed").await
}

async fn preconditions_come_first(store: &dyn Store) -> Result<(), CaseError> {
    put(store, &["/memories/from"]).await?;
    let move_to_free = || {
        Ok::<_, CaseError>(
            rename("/memories/from", "/memories/to")?.require(path("/memories/to")?, Precondition::Absent),
        )
    };
    let required = unchanged(store, "/memories/from").await?;
    store.apply(move_to_free()?.require(path("/memories/from")?, required)).await?;
    // Both the precondition and the change fail, and the error is for the precondition.
    expect_taken(store, move_to_free()?, "/memories/to").await?;
    expect_content(store, "/memories/to", b"/memories/from").await
}

async fn invalid_batch(store: &dyn Store) -> Result<(), CaseError> {
    let files = ["/memories/d/a", "/memories/d/b", FILE];
    put(store, &files).await?;
    let [d, d_a, file, root] = [path("/memories/d")?, path("/memories/d/a")?, path(FILE)?, StorePath::memories()];
    let record = path(RECORD)?;
    let overlap =
        |path: &StorePath, other: &StorePath| InvalidBatch::Overlap { path: path.clone(), other: other.clone() };
    let good = || write("/memories/new", "new");
    for (batch, mistake) in [
        (good()?.write(file.clone(), "one").write(file.clone(), "two"), overlap(&file, &file)),
        (good()?.write(file.clone(), "one").remove(file.clone()), overlap(&file, &file)),
        (good()?.remove(d.clone()).write(d_a.clone(), "one"), overlap(&d_a, &d)),
        (good()?.rename(d_a.clone(), path("/memories/moved")?).remove(d.clone()), overlap(&d, &d_a)),
        (good()?.rename(d.clone(), path("/memories/d/a/moved")?), overlap(&path("/memories/d/a/moved")?, &d)),
        (good()?.remove(root.clone()), overlap(&root, &path("/memories/new")?)),
        (good()?.write(root.clone(), "one"), InvalidBatch::Root),
        (good()?.rename(d.clone(), root.clone()), InvalidBatch::Root),
        (good()?.write(record.clone(), "one").remove(record.clone()), overlap(&record, &record)),
        (
            good()?.rename(file.clone(), record.clone()),
            InvalidBatch::TwoRoots { from: file.clone(), to: record.clone() },
        ),
    ] {
        // The batch is refused as invalid even if it also fails for another reason.
        for batch in [batch.clone(), batch.require(file.clone(), Precondition::Absent)] {
            let shown = format!("{batch:?}");
            let outcome = store.apply(batch).await;
            check(matches!(&outcome, Err(StoreError::InvalidBatch(found)) if *found == mistake), || {
                format!("{shown} is invalid because {mistake}, but returned {outcome:?}")
            })?;
        }
        expect_untouched(store, &files).await?;
        let record = store.read_opts(&record, ReadOptions::new()).await?.into_file();
        check(record.is_none(), || "an invalid batch wrote a record".to_owned())?;
    }
    Ok(())
}

async fn empty_batch(store: &dyn Store) -> Result<(), CaseError> {
    store.apply(Batch::new()).await?;
    put(store, &[FILE]).await?;
    store.apply(Batch::new()).await?;
    expect_untouched(store, &[FILE]).await
}

async fn batch(store: &dyn Store) -> Result<(), CaseError> {
    put(store, &["/memories/gone/a", "/memories/gone/b", "/memories/d/a", FILE, "/memories/keep"]).await?;
    let batch = write("/memories/new/a", "one")?;
    let batch = batch.write(path(FILE)?, b"two");
    let batch = batch.remove(path("/memories/gone")?);
    let batch = batch.rename(path("/memories/d")?, path("/memories/moved")?);
    store.apply(batch).await?;
    expect_content(store, "/memories/new/a", b"one").await?;
    expect_content(store, FILE, b"two").await?;
    expect_content(store, "/memories/moved/a", b"/memories/d/a").await?;
    expect_content(store, "/memories/keep", b"/memories/keep").await?;
    expect_stat(store, "/memories/gone", &Stat::Absent).await?;
    expect_stat(store, "/memories/d", &Stat::Absent).await
}

async fn batch_in_one_directory(store: &dyn Store) -> Result<(), CaseError> {
    put(store, &["/memories/d/e/old"]).await?;
    let batch = remove("/memories/d/e/old")?;
    store.apply(batch.write(path("/memories/d/e/new")?, b"/memories/d/e/new")).await?;
    expect_untouched(store, &["/memories/d/e/new"]).await?;
    let batch = write("/memories/d/e/newer", "/memories/d/e/newer")?;
    store.apply(batch.rename(path("/memories/d/e/new")?, path("/memories/new")?)).await?;
    expect_content(store, "/memories/new", b"/memories/d/e/new").await?;
    expect_content(store, "/memories/d/e/newer", b"/memories/d/e/newer").await
}

/// Applies valid changes together with a failing one, which takes each position among them in turn.
async fn expect_all_undone(store: &dyn Store, failing: &Change, error: &StoreError) -> Result<(), CaseError> {
    let files = ["/memories/a", "/memories/b", "/memories/d/file", "/memories/taken"];
    put(store, &files).await?;
    for place in 0..=3 {
        let mut batch = Batch::new();
        for step in 0..=3 {
            if step == place {
                batch = batch.change(failing.clone());
            }
            batch = match step {
                0 => batch.write(path("/memories/new/file")?, b"new"),
                1 => batch.remove(path("/memories/a")?),
                2 => batch.rename(path("/memories/b")?, path("/memories/moved/b")?),
                _ => batch,
            };
        }
        expect_refused(store.apply(batch).await, error)?;
        expect_untouched(store, &files).await?;
        expect_stat(store, "/memories/new", &Stat::Absent).await?;
        expect_stat(store, "/memories/moved", &Stat::Absent).await?;
    }
    Ok(())
}

async fn failed_write_undoes_all(store: &dyn Store) -> Result<(), CaseError> {
    let over_directory = Change::Write { path: path("/memories/d")?, content: Arc::default(), times: FileTimes::new() };
    expect_all_undone(store, &over_directory, &StoreError::AlreadyExists { path: path("/memories/d")? }).await
}

async fn failed_remove_undoes_all(store: &dyn Store) -> Result<(), CaseError> {
    let nothing = Change::Remove { path: path("/memories/nothing")? };
    expect_all_undone(store, &nothing, &StoreError::NotFound { path: path("/memories/nothing")? }).await
}

async fn failed_rename_undoes_all(store: &dyn Store) -> Result<(), CaseError> {
    let taken = Change::Rename { from: path("/memories/d/file")?, to: path("/memories/taken")? };
    expect_all_undone(store, &taken, &StoreError::AlreadyExists { path: path("/memories/taken")? }).await
}

/// Writes the files, and checks that each batch is refused with its error and changes nothing.
async fn expect_all_refused(
    store: &dyn Store,
    files: &[&str],
    batches: impl IntoIterator<Item = Result<(Batch, StoreError), CaseError>>,
) -> Result<(), CaseError> {
    put(store, files).await?;
    for batch in batches {
        let (batch, error) = batch?;
        expect_refused(store.apply(batch).await, &error)?;
    }
    expect_untouched(store, files).await
}

async fn write_over_directory(store: &dyn Store) -> Result<(), CaseError> {
    let over = |directory| Ok((write(directory, "new")?, StoreError::AlreadyExists { path: path(directory)? }));
    expect_all_refused(store, &["/memories/d/e/file"], ["/memories/d", "/memories/d/e"].map(over)).await
}

async fn write_under_file(store: &dyn Store) -> Result<(), CaseError> {
    let file = "/memories/d/file";
    let under = |below| Ok((write(below, "new")?, StoreError::NotADirectory { path: path(file)? }));
    expect_all_refused(store, &[file], ["/memories/d/file/x", "/memories/d/file/x/y"].map(under)).await
}

async fn remove_nothing(store: &dyn Store) -> Result<(), CaseError> {
    let removal = |nothing| Ok((remove(nothing)?, StoreError::NotFound { path: path(nothing)? }));
    let nothing = ["/memories/x", "/memories/d/fil", "/memories/d/file/x", "/memories/D"];
    expect_all_refused(store, &["/memories/d/file"], nothing.map(removal)).await
}

async fn remove_root(store: &dyn Store) -> Result<(), CaseError> {
    store.remove(StorePath::memories()).await?;
    put(store, &["/memories/.hidden/file", "/memories/d/file", FILE]).await?;
    store.remove(StorePath::memories()).await?;
    expect_untouched(store, &[]).await?;
    expect_stat(store, "/memories", &Stat::Directory).await?;
    put(store, &["/memories/d"]).await?;
    expect_untouched(store, &["/memories/d"]).await
}

async fn rename_nothing(store: &dyn Store) -> Result<(), CaseError> {
    let to = |to| Ok((rename("/memories/x", to)?, StoreError::NotFound { path: path("/memories/x")? }));
    let places = ["/memories/new", "/memories/new/x", "/memories/d", "/memories/d/file", "/memories/d/file/x"];
    expect_all_refused(store, &["/memories/d/file"], places.map(to)).await
}

async fn rename_to_existing_path(store: &dyn Store) -> Result<(), CaseError> {
    let onto = |(from, to)| Ok((rename(from, to)?, StoreError::AlreadyExists { path: path(to)? }));
    let [file, directory, to, below] = [FILE, "/memories/d", "/memories/e", "/memories/e/file"];
    let ends = [(file, to), (file, below), (directory, to), (directory, below)];
    let files = ["/memories/d/file", "/memories/e/file", FILE];
    expect_all_refused(store, &files, ends.map(onto)).await
}

async fn rename_under_file(store: &dyn Store) -> Result<(), CaseError> {
    let under = |to| Ok((rename("/memories/d", to)?, StoreError::NotADirectory { path: path(FILE)? }));
    let places = ["/memories/file/x", "/memories/file/x/y"];
    expect_all_refused(store, &["/memories/d/file", FILE], places.map(under)).await
}

async fn rename_beyond_the_longest_path(store: &dyn Store) -> Result<(), CaseError> {
    let directory = format!("/memories/{}", "d".repeat(100));
    let in_directory =
        |segment: &str, count| format!("{directory}{}", format!("/{}", segment.repeat(200)).repeat(count));
    let long = in_directory("x", 4);
    // Comes before the other in the order of paths, and can be moved.
    let fitting = in_directory("a", 3);
    let files = [long.as_str(), fitting.as_str(), &format!("{directory}/short")];
    put(store, &files).await?;
    let target = format!("/memories/{}", "y".repeat(MAX_PATH_BYTES - long.len() + directory.len() - 9));
    let refused = store.apply(rename(&directory, &target)?).await;
    check(matches!(refused, Err(StoreError::Path(_))), || format!("expected a path error, got {refused:?}"))?;
    expect_untouched(store, &files).await
}

/// Batches whose last precondition, change or quota fails. Later ones neither complete them nor fail because of them.
async fn after_a_refused_batch(target: &Target) -> Result<(), CaseError> {
    let store = target.store()?;
    let [a, b, d] = ["/memories/a", "/memories/b", "/memories/d/file"];
    store.apply(write(a, "old")?).await?;
    let stale = unchanged(&*store, a).await?;
    put(&*store, &[a, b, d]).await?;
    let changes = || {
        Ok::<_, CaseError>(
            write("/memories/new/file", "new")?.remove(path(b)?).rename(path("/memories/d")?, path("/memories/e")?),
        )
    };
    let known = unchanged(&*store, b).await?;
    for (number, (refused, error)) in [
        (changes()?.require(path(a)?, stale), StoreError::VersionMismatch { path: path(a)? }),
        (changes()?.require(path(a)?, Precondition::Absent), StoreError::AlreadyExists { path: path(a)? }),
        (changes()?.remove(path("/memories/x")?), StoreError::NotFound { path: path("/memories/x")? }),
        (changes()?.write(path("/memories/a/x")?, "new"), StoreError::NotADirectory { path: path(a)? }),
    ]
    .into_iter()
    .enumerate()
    {
        expect_refused(store.apply(refused).await, &error)?;
        let next = format!("/memories/next/{number}");
        store.apply(write(&next, next.as_str())?.require(path(b)?, known.clone())).await?;
        expect_untouched(&*store, &[a, b, d, &next]).await?;
        expect_listed(&*store, "/memories/d", &[(d, d.len() as u64)]).await?;
        store.apply(remove(&next)?).await?;
        expect_untouched(&*store, &[a, b, d]).await?;
    }
    store.apply(changes()?).await?;
    let files = [(a, 11), ("/memories/e/file", 16), ("/memories/new/file", 3)];
    expect_listed(&*store, "/memories", &files).await
}

async fn race_for_a_version(store: &dyn Store) -> Result<(), CaseError> {
    race_for_a_version_of(FILE, store).await?;
    race_for_a_version_of(RECORD, store).await
}

async fn race_for_a_path(store: &dyn Store) -> Result<(), CaseError> {
    for round in 0..ROUNDS {
        let file = format!("/memories/{round}/file");
        let create = |content| Ok(write(&file, content)?.require(path(&file)?, Precondition::Absent));
        one_winner(store, &file, round, create, |error| matches!(error, StoreError::AlreadyExists { .. })).await?;
    }
    Ok(())
}

async fn version_in_another_session(target: &Target) -> Result<(), CaseError> {
    let (here, there) = (target.store()?, target.another_store().await?);
    here.apply(write(FILE, "one")?).await?;
    let read_here = unchanged(&*here, FILE).await?;
    there.apply(write(FILE, "two")?.require(path(FILE)?, read_here.clone())).await?;
    expect_content(&*here, FILE, b"two").await?;
    for store in [&here, &there] {
        expect_mismatch(&**store, write(FILE, "six")?.require(path(FILE)?, read_here.clone()), FILE).await?;
    }
    expect_content(&*there, FILE, b"two").await
}

async fn version_after_recreation_in_another_session(target: &Target) -> Result<(), CaseError> {
    let here = target.store()?;
    here.apply(write(FILE, "one")?).await?;
    let read_here = unchanged(&*here, FILE).await?;
    for content in ["two", "six", "ten"] {
        let there = target.another_store().await?;
        there.apply(remove(FILE)?).await?;
        there.apply(write(FILE, content)?).await?;
        for store in [&here, &there] {
            expect_mismatch(&**store, write(FILE, "old")?.require(path(FILE)?, read_here.clone()), FILE).await?;
            expect_content(&**store, FILE, content.as_bytes()).await?;
        }
    }
    Ok(())
}

async fn reopened(target: &Target) -> Result<(), CaseError> {
    let store = target.store()?;
    put(&*store, &["/memories/gone/file", "/memories/from/file", "/memories/keep"]).await?;
    store.apply(remove("/memories/gone")?).await?;
    store.apply(rename("/memories/from", "/memories/to")?).await?;
    let again = target.another_store().await?;
    expect_listed(&*again, "/memories", &[("/memories/keep", 14), ("/memories/to/file", 19)]).await?;
    expect_content(&*again, "/memories/to/file", b"/memories/from/file").await?;
    records_reopened(target).await
}

async fn records_reopened(target: &Target) -> Result<(), CaseError> {
    let (here, there) = (target.store()?, target.another_store().await?);
    here.apply(write(RECORD, "one")?.write(path("/records/suite/gone")?, "gone")).await?;
    let read_here = unchanged(&*here, RECORD).await?;
    expect_content(&*there, RECORD, b"one").await?;
    let edit = remove("/records/suite/gone")?.write(path(RECORD)?, "two");
    there.apply(edit.require(path(RECORD)?, read_here.clone())).await?;
    let again = target.another_store().await?;
    for store in [&here, &there, &again] {
        expect_content(&**store, RECORD, b"two").await?;
        let gone = store.read_opts(&path("/records/suite/gone")?, ReadOptions::new()).await?.into_file();
        check(gone.is_none(), || format!("a removed record still exists: {gone:?}"))?;
        expect_mismatch(&**store, remove(RECORD)?.require(path(RECORD)?, read_here.clone()), RECORD).await?;
    }
    Ok(())
}
