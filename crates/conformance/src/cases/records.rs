//! Records: state that a policy or other wrapper keeps in a store, outside `/memories`.

use futures::future::join_all;
use memory_tool_core::{
    Batch, Node, Precondition, Quota, ReadOptions, Store, StoreError, StoreExt, StorePath, Version,
};

use crate::cases::bytes::{expect_content, expect_refused, path, shown, write};
use crate::failure::{CaseError, Failure, check};
use crate::target::Target;

/// The number of tasks in a race.
const RACERS: usize = 8;
/// How often a race is repeated, and a record is recreated.
const ROUNDS: usize = 30;

/// The name of the record in most cases.
const RECORD: &str = "suite/state";

cases! {
    |target| &target.store()?;
    any_bytes, names, listed, in_no_listing, in_no_quota, at_no_path, survive_the_root, removed, preconditions,
    version_after_recreation, in_one_batch, race_for_a_version;
    reopened = |target| reopened(&target);
}

fn record(name: &str) -> Result<StorePath, CaseError> {
    Ok(format!("/records/{name}").parse()?)
}

fn write_record(name: &str, content: impl Into<Vec<u8>>) -> Result<Batch, CaseError> {
    Ok(Batch::new().write(record(name)?, content))
}

fn remove_record(name: &str) -> Result<Batch, CaseError> {
    Ok(Batch::new().remove(record(name)?))
}

/// The version of a record, which must exist.
async fn version(store: &dyn Store, name: &str) -> Result<Version, CaseError> {
    let record = store.read_opts(&record(name)?, ReadOptions::new()).await?.into_file();
    record.map(|record| record.version).ok_or_else(|| Failure::new(format!("the record {name} is missing")).into())
}

async fn expect_record(store: &dyn Store, name: &str, expected: Option<&[u8]>) -> Result<(), CaseError> {
    let got = store.read_opts(&record(name)?, ReadOptions::new()).await?.into_file().map(|record| record.content);
    check(got.as_deref() == expected, || {
        let [got, expected] = [got.as_deref(), expected].map(|content| content.map(shown));
        format!("the record {name} contains {got:?} instead of {expected:?}")
    })
}

async fn expect_mismatch(store: &dyn Store, batch: Batch) -> Result<(), CaseError> {
    expect_refused(store.apply(batch).await, &StoreError::VersionMismatch { path: record(RECORD)? })
}

async fn expect_taken(store: &dyn Store, batch: Batch) -> Result<(), CaseError> {
    expect_refused(store.apply(batch).await, &StoreError::AlreadyExists { path: record(RECORD)? })
}

async fn any_bytes(store: &dyn Store) -> Result<(), CaseError> {
    expect_record(store, RECORD, None).await?;
    let all: Vec<u8> = (0..=u8::MAX).cycle().take(200_003).collect();
    for content in [&b"one"[..], b"", b"a\0b", b"\xff\xfe", b"\r\n", b" \t", &all, b"short"] {
        store.apply(write_record(RECORD, content)?).await?;
        expect_record(store, RECORD, Some(content)).await?;
    }
    Ok(())
}

async fn names(store: &dyn Store) -> Result<(), CaseError> {
    let names = ["a/b/c", "b/a", "c/a", "a-b", "a_b", "a.b", "a/b-c", "ab", "a/bb", "expiry/access-times"];
    for name in names {
        expect_record(store, name, None).await?;
        store.apply(write_record(name, name)?).await?;
    }
    for (number, name) in names.iter().enumerate() {
        for other in &names[number..] {
            expect_record(store, other, Some(other.as_bytes())).await?;
        }
        store.apply(remove_record(name)?).await?;
        expect_record(store, name, None).await?;
    }
    Ok(())
}

async fn listed(store: &dyn Store) -> Result<(), CaseError> {
    let names = ["log/10", "log/9", "log/a/b", "log-2/1", "log.2", "logs/1"];
    store.apply(write("/memories/log/1", "text")?).await?;
    for name in names {
        store.apply(write_record(name, name)?).await?;
    }
    for (directory, expected) in [
        ("/records/log", vec!["log/10", "log/9", "log/a/b"]),
        ("/records/log/a", vec!["log/a/b"]),
        ("/records/none", vec![]),
        ("/records", vec!["log/10", "log/9", "log/a/b", "log-2/1", "log.2", "logs/1"]),
    ] {
        let mut listed = store.read_opts(&path(directory)?, ReadOptions::new()).await?.into_listing().files;
        listed.retain(|file| file.path.as_str().starts_with("/records/log")); // a policy may keep its own records
        listed.sort_unstable_by(|left, right| left.path.cmp(&right.path));
        let listed: Vec<_> = listed.iter().map(|file| (file.path.as_str(), file.size)).collect();
        let expected: Vec<_> = expected.iter().map(|name| (format!("/records/{name}"), name.len() as u64)).collect();
        let expected: Vec<_> = expected.iter().map(|(path, size)| (path.as_str(), *size)).collect();
        check(listed == expected, || format!("{directory} lists {listed:?} instead of {expected:?}"))?;
    }
    store.apply(Batch::new().rename(path("/records/log")?, path("/records/moved")?)).await?;
    expect_record(store, "moved/a/b", Some(b"log/a/b")).await?;
    for sibling in ["log-2/1", "log.2", "logs/1"] {
        expect_record(store, sibling, Some(sibling.as_bytes())).await?;
    }
    store.apply(Batch::new().remove(path("/records/moved")?)).await?;
    expect_record(store, "moved/10", None).await?;
    expect_content(store, "/memories/log/1", b"text").await
}

async fn in_no_listing(store: &dyn Store) -> Result<(), CaseError> {
    store.apply(write_record(RECORD, "kept")?).await?;
    expect_listed(store, &[]).await?;
    store.apply(write("/memories/file", "text")?.write(record("suite/other")?, "kept")).await?;
    expect_listed(store, &["/memories/file"]).await
}

async fn expect_listed(store: &dyn Store, expected: &[&str]) -> Result<(), CaseError> {
    let listed = store.list(StorePath::memories()).await?;
    let paths: Vec<_> = listed.iter().map(|file| file.path.as_str()).collect();
    check(paths == expected, || format!("the store lists {paths:?} instead of {expected:?}"))
}

async fn in_no_quota(store: &dyn Store) -> Result<(), CaseError> {
    const NAME: &str = "d/state"; // like a file in the limited directory
    store.apply(write_record(NAME, vec![b'x'; 1_000])?).await?;
    let quota = Quota::new().with_files(1).with_bytes(4).with_file_bytes(4).with_depth(1);
    let directory = path("/memories/d")?;
    let limited = |batch: Batch| batch.limit(directory.clone(), quota);
    let file_and_record = write("/memories/d/file", "text")?.write(record(NAME)?, vec![b'x'; 2_000]);
    store.apply(limited(file_and_record)).await?;
    store.apply(limited(write_record("d/other", vec![b'x'; 1_000])?)).await?;
    let over = store.apply(limited(write("/memories/d/file", "texts")?)).await;
    check(matches!(over, Err(StoreError::OverQuota { requested: 5, .. })), || {
        format!("a file of 5 bytes exceeds a quota of 4, but the batch returned {over:?}")
    })
}

async fn at_no_path(store: &dyn Store) -> Result<(), CaseError> {
    let file = format!("/memories/{RECORD}");
    store.apply(write_record(RECORD, "record")?).await?;
    for place in [file.as_str(), "/memories/suite"] {
        let found = store.read(place).await?;
        check(found == Node::Absent, || format!("because of the record {RECORD}, {place} reads as {found:?}"))?;
        expect_refused(store.remove(place).await, &StoreError::NotFound { path: path(place)? })?;
    }
    store.apply(write(&file, "file")?.require(path(&file)?, Precondition::Absent)).await?;
    expect_record(store, RECORD, Some(b"record")).await?;
    store.apply(remove_record(RECORD)?).await?;
    expect_content(store, &file, b"file").await?;
    store.rename("/memories/suite", "/memories/moved").await?;
    expect_record(store, RECORD, None).await
}

async fn survive_the_root(store: &dyn Store) -> Result<(), CaseError> {
    store.apply(write("/memories/file", "text")?.write(record(RECORD)?, "kept")).await?;
    let before = version(store, RECORD).await?;
    store.remove(StorePath::memories()).await?;
    expect_listed(store, &[]).await?;
    expect_record(store, RECORD, Some(b"kept")).await?;
    let unchanged = Batch::new().require(record(RECORD)?, Precondition::Version(before));
    Ok(store.apply(unchanged).await?)
}

async fn removed(store: &dyn Store) -> Result<(), CaseError> {
    let missing = StoreError::NotFound { path: record(RECORD)? };
    expect_refused(store.apply(remove_record(RECORD)?).await, &missing)?;
    store.apply(write_record(RECORD, "one")?.write(record("suite/other")?, "other")).await?;
    store.apply(remove_record(RECORD)?).await?;
    expect_record(store, RECORD, None).await?;
    expect_refused(store.apply(remove_record(RECORD)?).await, &missing)?;
    expect_record(store, "suite/other", Some(b"other")).await?;
    store.apply(write_record(RECORD, "two")?).await?;
    expect_record(store, RECORD, Some(b"two")).await
}

async fn preconditions(store: &dyn Store) -> Result<(), CaseError> {
    let name = record(RECORD)?;
    let absent = |batch: Batch| batch.require(name.clone(), Precondition::Absent);
    let at = |batch: Batch, version: &Version| batch.require(name.clone(), Precondition::Version(version.clone()));
    store.apply(absent(write_record(RECORD, "one")?)).await?;
    let first = version(store, RECORD).await?;
    expect_taken(store, absent(write_record(RECORD, "two")?)).await?;
    store.apply(at(write_record(RECORD, "two")?, &first)).await?;
    let second = version(store, RECORD).await?;
    for stale in [write_record(RECORD, "six")?, remove_record(RECORD)?, write("/memories/file", "")?, Batch::new()] {
        expect_mismatch(store, at(stale, &first)).await?;
    }
    // The version of another record does not match, and the first precondition that does not hold is reported.
    store.apply(write_record("suite/other", "other")?).await?;
    expect_mismatch(store, at(Batch::new(), &version(store, "suite/other").await?)).await?;
    expect_taken(store, absent(Batch::new()).require(path("/memories")?, Precondition::Absent)).await?;
    store.apply(at(write("/memories/file", "text")?, &second)).await?;
    expect_record(store, RECORD, Some(b"two")).await?;
    store.apply(at(remove_record(RECORD)?, &second)).await?;
    expect_mismatch(store, at(write_record(RECORD, "new")?, &second)).await?;
    store.apply(absent(Batch::new())).await?;
    expect_listed(store, &["/memories/file"]).await
}

async fn version_after_recreation(store: &dyn Store) -> Result<(), CaseError> {
    let mut versions = Vec::new();
    for round in 0..ROUNDS {
        store.apply(write_record(RECORD, format!("{round:04}"))?).await?;
        let version = version(store, RECORD).await?;
        check(!versions.contains(&version), || {
            format!("the version after write {round} belonged to another content before")
        })?;
        // A store may delay the losers of a race, so only the last version is tried.
        if let Some(old) = versions.last() {
            let stale = remove_record(RECORD)?.require(record(RECORD)?, Precondition::Version(Version::clone(old)));
            expect_mismatch(store, stale).await?;
        }
        versions.push(version);
        store.apply(remove_record(RECORD)?).await?;
    }
    Ok(())
}

async fn in_one_batch(store: &dyn Store) -> Result<(), CaseError> {
    let (gone, kept) = (record("suite/gone")?, record("suite/kept")?);
    let before = write("/memories/file", "old")?.write(gone.clone(), "old").write(kept.clone(), "old");
    store.apply(before).await?;
    let batch = || {
        let files = write("/memories/file", "new")?.write(path("/memories/d/new")?, "new");
        let records = files.remove(gone.clone()).write(kept.clone(), "new");
        Ok::<_, CaseError>(records.write(record(RECORD)?, "new"))
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
        expect_record(store, "suite/gone", Some(b"old")).await?;
        expect_record(store, "suite/kept", Some(b"old")).await?;
        expect_record(store, RECORD, None).await?;
    }
    store.apply(batch()?).await?;
    expect_content(store, "/memories/file", b"new").await?;
    expect_content(store, "/memories/d/new", b"new").await?;
    expect_record(store, "suite/gone", None).await?;
    expect_record(store, "suite/kept", Some(b"new")).await?;
    expect_record(store, RECORD, Some(b"new")).await
}

async fn race_for_a_version(store: &dyn Store) -> Result<(), CaseError> {
    store.apply(write_record(RECORD, "start")?).await?;
    for round in 0..ROUNDS {
        let required = Precondition::Version(version(store, RECORD).await?);
        let content = |racer: usize| format!("{round} {racer}");
        let edits = (0..RACERS)
            .map(|racer| Ok(write_record(RECORD, content(racer))?.require(record(RECORD)?, required.clone())))
            .collect::<Result<Vec<_>, CaseError>>()?;
        let outcomes = join_all(edits.into_iter().map(|edit| store.apply(edit))).await;
        let mut winners = Vec::new();
        for (racer, outcome) in outcomes.into_iter().enumerate() {
            match outcome {
                Ok(()) => winners.push(racer),
                Err(StoreError::VersionMismatch { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let [winner] = winners.as_slice() else {
            return Err(
                Failure::new(format!("{} of {RACERS} batches were applied instead of one", winners.len())).into()
            );
        };
        expect_record(store, RECORD, Some(content(*winner).as_bytes())).await?;
    }
    Ok(())
}

async fn reopened(target: &Target) -> Result<(), CaseError> {
    let (here, there) = (target.store()?, target.another_store().await?);
    here.apply(write_record(RECORD, "one")?.write(record("suite/gone")?, "gone")).await?;
    let read_here = version(&*here, RECORD).await?;
    expect_record(&*there, RECORD, Some(b"one")).await?;
    let edit = remove_record("suite/gone")?.write(record(RECORD)?, "two");
    there.apply(edit.require(record(RECORD)?, Precondition::Version(read_here.clone()))).await?;
    let again = target.another_store().await?;
    for store in [&here, &there, &again] {
        expect_record(&**store, RECORD, Some(b"two")).await?;
        expect_record(&**store, "suite/gone", None).await?;
        let stale = remove_record(RECORD)?.require(record(RECORD)?, Precondition::Version(read_here.clone()));
        expect_mismatch(&**store, stale).await?;
    }
    Ok(())
}
