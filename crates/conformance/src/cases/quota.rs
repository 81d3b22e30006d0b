//! Quotas: limits on the files under a directory after a batch.

use futures::future::try_join_all;
use memory_tool_core::{Batch, Precondition, Quota, QuotaKind, Store, StoreError, StoreExt, StorePath};
use tokio::task::yield_now;

use crate::cases::bytes::{expect_content, expect_taken, path, remove, rename, write};
use crate::failure::{CaseError, Failure, check};

/// The number of concurrent writers.
const WRITERS: usize = 8;

/// The most writes of each writer: more than the quota allows a single one.
const MOST_TURNS: usize = 60;

/// The directory that is limited in most cases.
const DIRECTORY: &str = "/memories/d";

cases! {
    |target| &target.store()?;
    quota_files, quota_bytes, quota_file_bytes, quota_depth, quota_shrinks, quota_of_a_directory, quota_of_the_root,
    quota_comes_last, race_for_files, race_for_bytes;
}

/// The numbers of a refusal: the limit, the resulting amount and the room left.
type Numbers = (u64, u64, u64);

fn within(directory: &str, quota: Quota, batch: Batch) -> Result<Batch, CaseError> {
    Ok(batch.limit(path(directory)?, quota))
}

async fn put(store: &dyn Store, files: &[(&str, &str)]) -> Result<(), CaseError> {
    let mut batch = Batch::new();
    for (file, content) in files {
        batch = batch.write(path(file)?, *content);
    }
    Ok(store.apply(batch).await?)
}

/// A store and a quota of a directory in it.
struct Limited<'a> {
    store: &'a dyn Store,
    directory: &'a str,
    quota: Quota,
}

impl<'a> Limited<'a> {
    fn new(store: &'a dyn Store, quota: Quota) -> Self {
        Self { store, directory: DIRECTORY, quota }
    }

    async fn allows(&self, batch: Batch) -> Result<(), CaseError> {
        let shown = format!("{:?}", batch.changes());
        let applied = self.store.apply(within(self.directory, self.quota, batch)?).await;
        applied.map_err(|error| Failure::new(format!("{shown} is within the quota, but was refused: {error}")).into())
    }

    /// Checks that the batch is refused with these numbers, and that nothing changed.
    async fn refuses(&self, batch: Batch, kind: QuotaKind, numbers: Numbers) -> Result<(), CaseError> {
        let before = totals(self.store, "/memories").await?;
        let shown = format!("{:?}", batch.changes());
        match self.store.apply(within(self.directory, self.quota, batch)?).await {
            Err(StoreError::OverQuota { path: at, kind: of, limit, requested, remaining }) => {
                let (got, expected) = ((at, of, (limit, requested, remaining)), (path(self.directory)?, kind, numbers));
                check(got == expected, || format!("{shown} was refused with {got:?} instead of {expected:?}"))?;
            }
            other => return Err(Failure::new(format!("{shown} exceeds the quota, but returned {other:?}")).into()),
        }
        let after = totals(self.store, "/memories").await?;
        check(before == after, || {
            format!("{shown} was refused, but left {after:?} files and bytes instead of {before:?}")
        })
    }
}

/// The number of files under a directory, and of their bytes.
async fn totals(store: &dyn Store, directory: &str) -> Result<(u64, u64), CaseError> {
    let files = store.list(&path(directory)?).await?;
    Ok((files.len() as u64, files.iter().map(|file| file.size).sum()))
}

async fn quota_files(store: &dyn Store) -> Result<(), CaseError> {
    let limited = Limited::new(store, Quota::new().with_files(3));
    limited.allows(write("/memories/d/a", "a")?).await?;
    let two_more = write("/memories/d/b", "b")?.write(path("/memories/d/e/c")?, "c");
    let fourth = two_more.clone().write(path("/memories/d/f")?, "");
    limited.refuses(fourth, QuotaKind::Files, (3, 4, 2)).await?;
    limited.allows(two_more).await?;
    limited.refuses(write("/memories/d/f", "")?, QuotaKind::Files, (3, 4, 0)).await?;
    limited.allows(write("/memories/d/a", "longer")?).await?;
    limited.allows(rename("/memories/d/a", "/memories/d/f/g")?).await?;
    limited.allows(remove("/memories/d/e")?.write(path("/memories/d/h")?, "")).await?;
    limited.refuses(write("/memories/d/i", "")?, QuotaKind::Files, (3, 4, 0)).await?;
    limited.allows(Batch::new()).await
}

async fn quota_bytes(store: &dyn Store) -> Result<(), CaseError> {
    let limited = Limited::new(store, Quota::new().with_bytes(10));
    limited.allows(write("/memories/d/a", "ééé")?).await?;
    limited.refuses(write("/memories/d/b", "12345")?, QuotaKind::Bytes, (10, 11, 4)).await?;
    limited.allows(write("/memories/d/b", "1234")?).await?;
    limited.allows(write("/memories/d/c", "")?).await?;
    limited.refuses(write("/memories/d/c", "1")?, QuotaKind::Bytes, (10, 11, 0)).await?;
    limited.allows(write("/memories/d/a", "666666")?).await?;
    limited.refuses(write("/memories/d/a", "7777777")?, QuotaKind::Bytes, (10, 11, 0)).await?;
    let exchange = write("/memories/d/a", "88888888")?.write(path("/memories/d/b")?, "22");
    limited.allows(exchange).await?;
    expect_content(store, "/memories/d/a", b"88888888").await
}

async fn quota_file_bytes(store: &dyn Store) -> Result<(), CaseError> {
    let limited = Limited::new(store, Quota::new().with_file_bytes(5));
    limited.allows(write("/memories/d/a", "12345")?).await?;
    limited.refuses(write("/memories/d/a", "123456")?, QuotaKind::FileBytes, (5, 6, 0)).await?;
    limited.refuses(write("/memories/d/b", "123456")?, QuotaKind::FileBytes, (5, 6, 5)).await?;
    put(store, &[("/memories/d/long", "1234567890")]).await?;
    limited.refuses(write("/memories/d/long", "12345678901")?, QuotaKind::FileBytes, (5, 11, 0)).await?;
    for shorter in ["0987654321", "123456789", "123"] {
        limited.allows(write("/memories/d/long", shorter)?).await?;
    }
    limited.refuses(write("/memories/d/long", "123456")?, QuotaKind::FileBytes, (5, 6, 2)).await
}

async fn quota_depth(store: &dyn Store) -> Result<(), CaseError> {
    let limited = Limited::new(store, Quota::new().with_depth(3));
    limited.allows(write("/memories/d/1/2/3", "")?).await?;
    limited.refuses(write("/memories/d/1/2/x/4", "")?, QuotaKind::Depth, (3, 4, 3)).await?;
    limited.refuses(rename("/memories/d/1", "/memories/d/a/1")?, QuotaKind::Depth, (3, 4, 0)).await?;
    limited.allows(rename("/memories/d/1", "/memories/d/a")?).await?;
    put(store, &[("/memories/elsewhere/1/2/3/4", ""), ("/memories/d/5/4/3/2/1", "")]).await?;
    let arriving = rename("/memories/elsewhere", "/memories/d/b")?;
    limited.refuses(arriving, QuotaKind::Depth, (3, 5, 3)).await?;
    limited.allows(write("/memories/d/5/4/3/2/1", "edited")?).await?;
    limited.allows(rename("/memories/d/5/4", "/memories/d/4")?).await?;
    limited.allows(rename("/memories/d/4/3/2", "/memories/d/2")?).await?;
    limited.allows(rename("/memories/elsewhere/1/2/3", "/memories/d/2/3")?).await
}

async fn quota_shrinks(store: &dyn Store) -> Result<(), CaseError> {
    put(store, &[("/memories/d/a", "12345"), ("/memories/d/b", "12345"), ("/memories/d/e/c", "12345")]).await?;
    let limited = Limited::new(store, Quota::new().with_files(1).with_bytes(4).with_file_bytes(2).with_depth(1));
    limited.allows(write("/memories/d/a", "54321")?).await?;
    limited.allows(write("/memories/d/a", "4321")?).await?;
    limited.refuses(write("/memories/d/f", "1")?, QuotaKind::Files, (1, 4, 0)).await?;
    limited.allows(rename("/memories/d/e", "/memories/d/g")?).await?;
    limited.allows(rename("/memories/d/g/c", "/memories/d/c")?).await?;
    limited.allows(remove("/memories/d/b")?).await?;
    limited.allows(remove("/memories/d/c")?.write(path("/memories/d/f")?, "12")).await?;
    limited.allows(remove("/memories/d")?).await?;
    limited.allows(write("/memories/d/a", "12")?).await
}

async fn quota_of_a_directory(store: &dyn Store) -> Result<(), CaseError> {
    let neighbours =
        [("/memories/d.txt", "1"), ("/memories/d-e/a", "12"), ("/memories/d0", "1"), ("/memories/other/d/a", "123")];
    put(store, &neighbours).await?;
    put(store, &[("/memories/two/a", "12"), ("/memories/two/b", "34")]).await?;
    let limited = Limited::new(store, Quota::new().with_files(2).with_bytes(6));
    limited.allows(write("/memories/d/a", "12")?).await?;
    limited.allows(write("/memories/e", "elsewhere")?).await?;
    limited.refuses(rename("/memories/two", "/memories/d/two")?, QuotaKind::Files, (2, 3, 1)).await?;
    limited.allows(rename("/memories/two/a", "/memories/d/b")?).await?;
    limited.refuses(rename("/memories/two", "/memories/d/two")?, QuotaKind::Files, (2, 3, 0)).await?;
    let exchange = rename("/memories/two", "/memories/d/two")?.rename(path("/memories/d/a")?, path("/memories/a")?);
    limited.allows(exchange).await?;
    let removed = remove("/memories/d/two")?.write(path("/memories/d/c")?, "1234");
    limited.allows(removed).await?;
    limited.allows(rename("/memories/d", "/memories/all")?).await?;
    put(store, &[("/memories/three/d/a", "1"), ("/memories/three/d/b", "2"), ("/memories/three/d/e/c", "3")]).await?;
    let inner = Limited { directory: "/memories/x/d", ..limited };
    inner.refuses(rename("/memories/three", "/memories/x")?, QuotaKind::Files, (2, 3, 2)).await?;
    inner.allows(rename("/memories/three", "/memories/y")?).await
}

async fn quota_of_the_root(store: &dyn Store) -> Result<(), CaseError> {
    let limited = Limited { directory: "/memories", ..Limited::new(store, Quota::new().with_files(2).with_bytes(9)) };
    limited.allows(write("/memories/a", "12345")?).await?;
    limited.refuses(write("/memories/b", "12345")?, QuotaKind::Bytes, (9, 10, 4)).await?;
    limited.allows(write("/memories/d/e/b", "1234")?).await?;
    limited.refuses(write("/memories/c", "")?, QuotaKind::Files, (2, 3, 0)).await?;
    limited.allows(rename("/memories/d/e/b", "/memories/b")?).await?;
    limited.allows(remove("/memories")?).await?;
    let deep = Limited { quota: Quota::new().with_depth(2), ..limited };
    deep.refuses(write("/memories/a/b/c", "")?, QuotaKind::Depth, (2, 3, 2)).await?;
    deep.allows(write("/memories/a/b", "")?).await
}

async fn quota_comes_last(store: &dyn Store) -> Result<(), CaseError> {
    put(store, &[("/memories/d/a", "")]).await?;
    let taken = path("/memories/d/a")?;
    let limited = Limited::new(store, Quota::new().with_files(1));
    let second = || write("/memories/d/b", "");
    for batch in [
        within(DIRECTORY, limited.quota, second()?)?.require(taken.clone(), Precondition::Absent),
        within(DIRECTORY, limited.quota, second()?.require(taken.clone(), Precondition::Absent))?,
    ] {
        expect_taken(store, batch, "/memories/d/a").await?;
    }
    // Both quotas would be exceeded.
    let (files, bytes) = (limited.quota, Quota::new().with_bytes(0));
    for (first, last, expected) in [(files, bytes, QuotaKind::Files), (bytes, files, QuotaKind::Bytes)] {
        let batch = within(DIRECTORY, first, write("/memories/d/b", "x")?)?;
        match store.apply(within(DIRECTORY, last, batch)?).await {
            Err(StoreError::OverQuota { kind, .. }) if kind == expected => {}
            other => {
                return Err(Failure::new(format!(
                    "expected the first quota, of {expected}, to be reported, got {other:?}"
                ))
                .into());
            }
        }
    }
    Ok(())
}

/// Lets all writers write until they are refused, and returns the number of successful writes.
async fn write_until_refused(
    store: &dyn Store,
    quota: Quota,
    batch: impl Fn(usize, usize) -> Result<Batch, CaseError>,
) -> Result<u64, CaseError> {
    let batch = &batch;
    let writing = (0..WRITERS).map(|writer| async move {
        for turn in 0..MOST_TURNS {
            match store.apply(within(DIRECTORY, quota, batch(writer, turn)?)?).await {
                Ok(()) => yield_now().await,
                Err(StoreError::OverQuota { .. }) => return Ok(turn as u64),
                Err(error) => return Err(CaseError::from(error)),
            }
        }
        Ok(MOST_TURNS as u64)
    });
    Ok(try_join_all(writing).await?.into_iter().sum())
}

async fn race_for_files(store: &dyn Store) -> Result<(), CaseError> {
    const FILES: u64 = 29; // not a multiple of the number of writers
    let make = |writer, turn| write(&format!("{DIRECTORY}/{writer}/{turn}"), "x");
    let made = write_until_refused(store, Quota::new().with_files(FILES), make).await?;
    let (files, _) = totals(store, DIRECTORY).await?;
    check((made, files) == (FILES, FILES), || {
        format!("{made} writes succeeded and {files} files exist; expected {FILES} of each")
    })
}

async fn race_for_bytes(store: &dyn Store) -> Result<(), CaseError> {
    const BYTES: u64 = 59;
    let file = |writer| format!("{DIRECTORY}/{writer}");
    let first =
        (0..WRITERS).try_fold(Batch::new(), |batch, writer| Ok::<_, CaseError>(batch.write(path(&file(writer))?, "x")));
    store.apply(first?).await?;
    let lengthen = |writer: usize, turn: usize| write(&file(writer), "x".repeat(turn + 2));
    let added = write_until_refused(store, Quota::new().with_bytes(BYTES), lengthen).await?;
    let (_, bytes) = totals(store, StorePath::memories().as_str()).await?;
    let got = (added + WRITERS as u64, bytes);
    check(got == (BYTES, BYTES), || {
        format!("{} bytes were written and {} are stored; expected {BYTES} of each", got.0, got.1)
    })
}
