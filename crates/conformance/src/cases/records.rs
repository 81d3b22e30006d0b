//! Records: state that a policy or other wrapper keeps in a store, outside `/memories`.

use memory_tool_core::{
    Batch, Node, Precondition, Quota, ReadOptions, Store, StoreError, StoreExt, StorePath, Version,
};

use crate::cases::bytes::{
    expect_content, expect_mismatch, expect_refused, expect_taken, path, put, remove, rename, version, write,
};
use crate::failure::{CaseError, check};

/// The record in most cases.
const RECORD: &str = "/records/suite/state";
/// Another record.
const OTHER: &str = "/records/suite/other";

cases! {
    |target| &target.store()?;
    names, listed, in_no_listing, in_no_quota, at_no_path, survive_the_root, removed, preconditions, in_one_batch;
}

async fn expect_absent(store: &dyn Store, record: &str) -> Result<(), CaseError> {
    let got = store.read_opts(&path(record)?, ReadOptions::new()).await?.into_file();
    check(got.is_none(), || format!("{record} should not exist, but is {got:?}"))
}

async fn names(store: &dyn Store) -> Result<(), CaseError> {
    let names = ["a/b/c", "b/a", "c/a", "a-b", "a_b", "a.b", "a/b-c", "ab", "a/bb", "expiry/access-times"];
    let records = names.map(|name| format!("/records/{name}"));
    for record in &records {
        expect_absent(store, record).await?;
        put(store, &[record]).await?;
    }
    for (number, record) in records.iter().enumerate() {
        for other in &records[number..] {
            expect_content(store, other, other.as_bytes()).await?;
        }
        store.apply(remove(record)?).await?;
        expect_absent(store, record).await?;
    }
    Ok(())
}

async fn listed(store: &dyn Store) -> Result<(), CaseError> {
    let in_log = ["/records/log/10", "/records/log/9", "/records/log/a/b"];
    let siblings = ["/records/log-2/1", "/records/log.2", "/records/logs/1"];
    let all = [in_log, siblings].concat();
    put(store, &all).await?;
    put(store, &["/memories/log/1"]).await?;
    for (directory, expected) in
        [("/records/log", &in_log[..]), ("/records/log/a", &in_log[2..]), ("/records/none", &[]), ("/records", &all)]
    {
        let mut listed = store.read_opts(&path(directory)?, ReadOptions::new()).await?.into_listing().files;
        listed.retain(|file| file.path.as_str().starts_with("/records/log")); // a policy may keep its own records
        listed.sort_unstable_by(|left, right| left.path.cmp(&right.path));
        let listed: Vec<_> = listed.iter().map(|file| (file.path.as_str(), file.size)).collect();
        let expected: Vec<_> = expected.iter().map(|path| (*path, path.len() as u64)).collect();
        check(listed == expected, || format!("{directory} lists {listed:?} instead of {expected:?}"))?;
    }
    store.apply(rename("/records/log", "/records/moved")?).await?;
    expect_content(store, "/records/moved/a/b", b"/records/log/a/b").await?;
    for sibling in siblings {
        expect_content(store, sibling, sibling.as_bytes()).await?;
    }
    store.apply(remove("/records/moved")?).await?;
    expect_absent(store, "/records/moved/10").await?;
    expect_content(store, "/memories/log/1", b"/memories/log/1").await
}

async fn in_no_listing(store: &dyn Store) -> Result<(), CaseError> {
    store.apply(write(RECORD, "kept")?).await?;
    expect_listed(store, &[]).await?;
    store.apply(write("/memories/file", "text")?.write(path(OTHER)?, "kept")).await?;
    expect_listed(store, &["/memories/file"]).await
}

async fn expect_listed(store: &dyn Store, expected: &[&str]) -> Result<(), CaseError> {
    let listed = store.list(StorePath::memories()).await?;
    let paths: Vec<_> = listed.iter().map(|file| file.path.as_str()).collect();
    check(paths == expected, || format!("the store lists {paths:?} instead of {expected:?}"))
}

async fn in_no_quota(store: &dyn Store) -> Result<(), CaseError> {
    const NAME: &str = "/records/d/state"; // like a file in the limited directory
    store.apply(write(NAME, vec![b'x'; 1_000])?).await?;
    let quota = Quota::new().with_files(1).with_bytes(4).with_file_bytes(4).with_depth(1);
    let directory = path("/memories/d")?;
    let limited = |batch: Batch| batch.limit(directory.clone(), quota);
    let file_and_record = write("/memories/d/file", "text")?.write(path(NAME)?, vec![b'x'; 2_000]);
    store.apply(limited(file_and_record)).await?;
    store.apply(limited(write("/records/d/other", vec![b'x'; 1_000])?)).await?;
    let over = store.apply(limited(write("/memories/d/file", "texts")?)).await;
    check(matches!(over, Err(StoreError::OverQuota { requested: 5, .. })), || {
        format!("a file of 5 bytes exceeds a quota of 4, but the batch returned {over:?}")
    })
}

async fn at_no_path(store: &dyn Store) -> Result<(), CaseError> {
    let file = "/memories/suite/state";
    store.apply(write(RECORD, "record")?).await?;
    for place in [file, "/memories/suite"] {
        let found = store.read(place).await?;
        check(found == Node::Absent, || format!("because of the record {RECORD}, {place} reads as {found:?}"))?;
        expect_refused(store.remove(place).await, &StoreError::NotFound { path: path(place)? })?;
    }
    store.apply(write(file, "file")?.require(path(file)?, Precondition::Absent)).await?;
    expect_content(store, RECORD, b"record").await?;
    store.apply(remove(RECORD)?).await?;
    expect_content(store, file, b"file").await?;
    store.rename("/memories/suite", "/memories/moved").await?;
    expect_absent(store, RECORD).await
}

async fn survive_the_root(store: &dyn Store) -> Result<(), CaseError> {
    store.apply(write("/memories/file", "text")?.write(path(RECORD)?, "kept")).await?;
    let before = version(store, RECORD).await?;
    store.remove(StorePath::memories()).await?;
    expect_listed(store, &[]).await?;
    expect_content(store, RECORD, b"kept").await?;
    let unchanged = Batch::new().require(path(RECORD)?, Precondition::Version(before));
    Ok(store.apply(unchanged).await?)
}

async fn removed(store: &dyn Store) -> Result<(), CaseError> {
    let missing = StoreError::NotFound { path: path(RECORD)? };
    expect_refused(store.apply(remove(RECORD)?).await, &missing)?;
    store.apply(write(RECORD, "one")?.write(path(OTHER)?, "other")).await?;
    store.apply(remove(RECORD)?).await?;
    expect_absent(store, RECORD).await?;
    expect_refused(store.apply(remove(RECORD)?).await, &missing)?;
    expect_content(store, OTHER, b"other").await?;
    store.apply(write(RECORD, "two")?).await?;
    expect_content(store, RECORD, b"two").await
}

async fn preconditions(store: &dyn Store) -> Result<(), CaseError> {
    let name = path(RECORD)?;
    let absent = |batch: Batch| batch.require(name.clone(), Precondition::Absent);
    let at = |batch: Batch, version: &Version| batch.require(name.clone(), Precondition::Version(version.clone()));
    store.apply(absent(write(RECORD, "one")?)).await?;
    let first = version(store, RECORD).await?;
    expect_taken(store, absent(write(RECORD, "two")?), RECORD).await?;
    store.apply(at(write(RECORD, "two")?, &first)).await?;
    let second = version(store, RECORD).await?;
    for stale in [write(RECORD, "six")?, remove(RECORD)?, write("/memories/file", "")?, Batch::new()] {
        expect_mismatch(store, at(stale, &first), RECORD).await?;
    }
    // The version of another record does not match, and the first precondition that does not hold is reported.
    store.apply(write(OTHER, "other")?).await?;
    expect_mismatch(store, at(Batch::new(), &version(store, OTHER).await?), RECORD).await?;
    expect_taken(store, absent(Batch::new()).require(path("/memories")?, Precondition::Absent), RECORD).await?;
    store.apply(at(write("/memories/file", "text")?, &second)).await?;
    expect_content(store, RECORD, b"two").await?;
    store.apply(at(remove(RECORD)?, &second)).await?;
    expect_mismatch(store, at(write(RECORD, "new")?, &second), RECORD).await?;
    store.apply(absent(Batch::new())).await?;
    expect_listed(store, &["/memories/file"]).await
}

async fn in_one_batch(store: &dyn Store) -> Result<(), CaseError> {
    let (gone, kept) = (path("/records/suite/gone")?, path("/records/suite/kept")?);
    let before = write("/memories/file", "old")?.write(gone.clone(), "old").write(kept.clone(), "old");
    store.apply(before).await?;
    let batch = || {
        let files = write("/memories/file", "new")?.write(path("/memories/d/new")?, "new");
        let records = files.remove(gone.clone()).write(kept.clone(), "new");
        Ok::<_, CaseError>(records.write(path(RECORD)?, "new"))
    };
    let [file, nothing] = [path("/memories/file")?, path("/memories/nothing")?];
    let failing = [
        (batch()?.remove(nothing.clone()), StoreError::NotFound { path: nothing }),
        (batch()?.require(file.clone(), Precondition::Absent), StoreError::AlreadyExists { path: file }),
        (batch()?.require(gone.clone(), Precondition::Absent), StoreError::AlreadyExists { path: gone.clone() }),
    ];
    for (batch, error) in failing {
        expect_refused(store.apply(batch).await, &error)?;
        expect_content(store, "/memories/file", b"old").await?;
        expect_listed(store, &["/memories/file"]).await?;
        expect_content(store, "/records/suite/gone", b"old").await?;
        expect_content(store, "/records/suite/kept", b"old").await?;
        expect_absent(store, RECORD).await?;
    }
    store.apply(batch()?).await?;
    expect_content(store, "/memories/file", b"new").await?;
    expect_content(store, "/memories/d/new", b"new").await?;
    expect_absent(store, "/records/suite/gone").await?;
    expect_content(store, "/records/suite/kept", b"new").await?;
    expect_content(store, RECORD, b"new").await
}
