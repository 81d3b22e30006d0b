//! Listings of a `Store`, the times of files, and reads of one moment.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::future::try_join;
use memory_tool_core::{
    Batch, FileEntry, FileTimes, Node, Precondition, ReadOptions, Store, StoreError, StoreExt, StorePath,
};
use tokio::task::yield_now;
use tokio::time::sleep;

use crate::cases::bytes::{ROUNDS, path, put, write};
use crate::failure::{CaseError, Failure, check};

/// How long a writer continues if the reader gets no turn.
const LONGEST_RACE: Duration = Duration::from_secs(3);
/// The file of most cases.
const FILE: &str = "/memories/file";
/// Long enough for two writes to get different timestamps of milliseconds.
const BETWEEN_WRITES: Duration = Duration::from_millis(20);

cases! {
    |target| &target.store()?;
    list, list_neighbours, list_many, times, list_is_of_one_moment, list_of_a_renamed_directory,
    read_under_preconditions_is_of_one_moment;
}

async fn list(store: &dyn Store) -> Result<(), CaseError> {
    check(store.list(StorePath::memories()).await?.is_empty(), || "an empty store lists files".to_owned())?;
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
    expect_listed(store, "/memories/d", &in_d).await?;
    expect_listed(store, "/memories/d/e", &[("/memories/d/e/f/g/c", 10)]).await?;
    let all = [&[("/memories/a", 0)], in_d.as_slice(), &[("/memories/node_modules/x", 2)]].concat();
    expect_listed(store, "/memories", &all).await
}

/// Checks the files of a listing and their sizes. Another case checks the times.
pub(super) async fn expect_listed(
    store: &dyn Store,
    directory: &str,
    expected: &[(&str, u64)],
) -> Result<(), CaseError> {
    let listed = store.list(directory).await?;
    let found: Vec<_> = listed.iter().map(|file| (file.path.as_str(), file.size)).collect();
    check(found == expected && listed.iter().all(|file| !file.is_damaged), || {
        format!("{directory} lists {listed:?} instead of {expected:?}")
    })
}

async fn list_neighbours(store: &dyn Store) -> Result<(), CaseError> {
    let neighbours = [
        "/memories/a_b-",
        "/memories/a_b.md",
        "/memories/a_b0/x",
        "/memories/a_bc/x",
        "/memories/axb/x",
        "/memories/A_B/x",
    ];
    put(store, &neighbours).await?;
    put(store, &["/memories/a_b/x", "/memories/a%/x", "/memories/a*/x"]).await?;
    for directory in ["/memories/a_b", "/memories/a%", "/memories/a*"] {
        let only = format!("{directory}/x");
        expect_listed(store, directory, &[(&only, only.len() as u64)]).await?;
    }
    Ok(())
}

async fn list_many(store: &dyn Store) -> Result<(), CaseError> {
    const FILES: usize = 2_500; // more than one page of any paginated listing
    let mut batch = Batch::new();
    for number in 0..FILES {
        batch = batch.write(path(&format!("/memories/d/{number}"))?, b"x");
    }
    store.apply(batch).await?;
    let listed: BTreeSet<_> = store.list(&path("/memories/d")?).await?.into_iter().map(|file| file.path).collect();
    check(listed.len() == FILES, || format!("the listing has {} of {FILES} files", listed.len()))
}

/// The allowed difference between the clocks of the storage and this machine.
const CLOCK_MARGIN: Duration = Duration::from_secs(24 * 60 * 60);

/// The entry of the only file. Its times must be plausible, if it has any.
async fn only_entry(store: &dyn Store) -> Result<FileEntry, CaseError> {
    let now = SystemTime::now();
    let listed = store.list(StorePath::memories()).await?;
    let [file] = listed.as_slice() else {
        return Err(Failure::new(format!("one file was written, but the store lists {listed:?}")).into());
    };
    let is_now = |time: SystemTime| time + CLOCK_MARGIN >= now && time <= now + CLOCK_MARGIN;
    check(file.created.is_none_or(is_now) && file.modified.is_none_or(is_now), || {
        format!("the file was just written, but its entry is {file:?}")
    })?;
    check(file.created.zip(file.modified).is_none_or(|(created, modified)| created <= modified), || {
        format!("the file was modified before it was created: {file:?}")
    })?;
    Ok(file.clone())
}

async fn times(store: &dyn Store) -> Result<(), CaseError> {
    store.write(FILE, "one").await?;
    let first = only_entry(store).await?;
    sleep(BETWEEN_WRITES).await;
    store.write(FILE, "two").await?;
    let second = only_entry(store).await?;
    check(second.created == first.created, || {
        format!("rewriting the file changed its creation time from {:?} to {:?}", first.created, second.created)
    })?;
    check(second.modified >= first.modified, || {
        format!(
            "rewriting the file moved its modification time back from {:?} to {:?}",
            first.modified, second.modified
        )
    })?;
    store.rename(FILE, "/memories/d/moved").await?;
    let moved = only_entry(store).await?;
    check(moved.created == first.created, || {
        format!("renaming the file changed its creation time from {:?} to {:?}", first.created, moved.created)
    })?;
    times_of_a_copy(store).await
}

/// A copy keeps the times that the store records.
async fn times_of_a_copy(store: &dyn Store) -> Result<(), CaseError> {
    let copied = path("/memories/copy")?;
    let [created, modified] = [1_000_000_000, 1_000_000_100].map(|since| UNIX_EPOCH + Duration::from_secs(since));
    let times = FileTimes::new().created(created).modified(modified);
    store.apply(Batch::new().write_with_times(copied.clone(), "three", times)).await?;
    let listed = store.list(StorePath::memories()).await?;
    let entry = listed.iter().find(|file| file.path == copied);
    let is_kept = |entry: &FileEntry| {
        entry.created.is_none_or(|time| time == created) && entry.modified.is_none_or(|time| time == modified)
    };
    check(entry.is_some_and(is_kept), || {
        format!("a file was written with the times {created:?} and {modified:?}, but its entry is {entry:?}")
    })
}

async fn list_is_of_one_moment(store: &dyn Store) -> Result<(), CaseError> {
    let of_size = |round: usize| {
        let content = vec![b'x'; round % 100];
        let batch = write("/memories/a/first", content.clone())?;
        Ok(batch.write(path("/memories/z/last")?, content))
    };
    let look = || async {
        let listed = store.list(StorePath::memories()).await?;
        let sizes: BTreeSet<_> = listed.iter().map(|file| file.size).collect();
        check(listed.len() == 2 && sizes.len() == 1, || {
            format!("every batch writes both files, but a listing shows {listed:?}")
        })
    };
    look_while_written(store, of_size, look).await
}

async fn list_of_a_renamed_directory(store: &dyn Store) -> Result<(), CaseError> {
    const FILES: usize = 10;
    let [left, right] = [path("/memories/left")?, path("/memories/right")?];
    for number in 0..FILES {
        store.write(format!("{left}/d{number}/file"), "text").await?;
    }
    let back_and_forth = |round: usize| {
        let [from, to] = if round.is_multiple_of(2) { [&left, &right] } else { [&right, &left] };
        Ok(Batch::new().rename(from.clone(), to.clone()))
    };
    let look = || async {
        for place in [&left, &right, &StorePath::memories()] {
            let files = store.list(place).await?;
            let of_left = files.iter().filter(|file| file.path.is_under(&left)).count();
            let is_whole = files.len() == FILES && [0, FILES].contains(&of_left);
            check(is_whole || files.is_empty() && !place.is_root(), || {
                format!("a directory of {FILES} files is renamed back and forth, but {place} lists {files:?}")
            })?;
        }
        Ok(())
    };
    look_while_written(store, back_and_forth, look).await
}

async fn read_under_preconditions_is_of_one_moment(store: &dyn Store) -> Result<(), CaseError> {
    let both = |round: usize| {
        let content = format!("{round}{}", "x".repeat(round % 3));
        Ok(write("/memories/a/first", content.clone())?.write(path("/memories/z/last")?, content))
    };
    let [first, last, directory] = [path("/memories/a/first")?, path("/memories/z/last")?, path("/memories/z")?];
    let look = || async {
        let Node::File(known) = store.read(&first).await? else { return Ok(()) };
        let required = [(first.clone(), Precondition::Version(known.version))];
        for place in [&last, &directory] {
            let is_of_one_batch = match store.read_opts(place, ReadOptions::new().require_all(required.clone())).await {
                Ok(Node::File(file)) => file.content == known.content,
                Ok(Node::Directory(listing)) => {
                    listing.files.iter().all(|file| file.size == known.content.len() as u64)
                }
                Ok(Node::Absent) => false,
                Err(StoreError::VersionMismatch { .. }) => continue,
                Err(error) => return Err(error.into()),
            };
            check(is_of_one_batch, || {
                let known = String::from_utf8_lossy(&known.content);
                format!(
                    "under the version of {first} with {known:?}, {place} is from another batch, but each writes both"
                )
            })?;
        }
        Ok(())
    };
    look_while_written(store, both, look).await
}

/// Runs `look` repeatedly while a batch per round is applied, until there were enough of both.
async fn look_while_written<F>(
    store: &dyn Store,
    batch: impl Fn(usize) -> Result<Batch, CaseError>,
    look: impl Fn() -> F,
) -> Result<(), CaseError>
where
    F: Future<Output = Result<(), CaseError>>,
{
    store.apply(batch(0)?).await?;
    let started = Instant::now();
    let (looks, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let write = async {
        for round in 1.. {
            store.apply(batch(round)?).await?;
            let is_seen = looks.load(Ordering::Relaxed) >= ROUNDS || started.elapsed() > LONGEST_RACE;
            if round >= ROUNDS * 4 && is_seen {
                break;
            }
            yield_now().await;
        }
        Ok::<_, CaseError>(())
    };
    let writing = async {
        let written = write.await;
        is_over.store(true, Ordering::Relaxed);
        written
    };
    let reading = async {
        while !is_over.load(Ordering::Relaxed) {
            look().await?;
            looks.fetch_add(1, Ordering::Relaxed);
            yield_now().await;
        }
        Ok::<_, CaseError>(())
    };
    try_join(writing, reading).await.map(drop)
}
