//! The cases of the history.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use memory_tool_core::{
    Batch, BoxError, Engine, MemoryPath, MemoryTool as _, Node, Quota, ReadOptions, Store, StoreExt as _, StorePath,
};
use memory_tool_history::{
    Entry, FileChange, History, HistoryError, HistoryStore, Limits, LogFilter, Origin, VersionCache, Versions,
};
use serde_json::json;

use super::{LayerCase, Outcome, content, expect, expect_equal, expect_refused, files, path, write};
use crate::cases::threads::Threads;
use crate::failure::{CaseError, Failure};

pub(super) const CASES: &[LayerCase] = cases![
    "history.race", "concurrent sessions add an entry per change", races_are_logged;
    "history.order", "the entries of several sessions have the order of the changes", entries_are_in_order;
    "history.contents", "each version of each file is read back", contents_are_kept;
    "history.past", "the memory after an entry equals a copy that was made then", the_past_equals_copies;
    "history.renames", "the log of a file goes through renames of it and of its directory", renames_are_followed;
    "history.directories", "a removed directory is one entry, and undo brings it back", directories_come_back;
    "history.undo", "repeated undos walk to the beginning and redos to the end", undos_are_walked;
    "history.redo", "a new change ends the line of undos", changes_end_redos;
    "history.changed", "an undo changes nothing and names files with later changes", later_changes_stay;
    "history.births", "a history that is cleared beside a session is not continued", a_cleared_history_is_gone;
    "history.restored", "a session continues after a restoration of its store", earlier_states_are_noticed;
    "history.others", "a redacted or expired file does not hide others", other_files_stay_known;
    "history.repair", "a repair keeps the entries after and before a lost one", lost_entries_are_replaced;
    "history.identity", "files keep identities through renames, limits and redactions", files_keep_identities;
    "history.redaction", "redaction leaves no contents and no paths in any record", redaction_leaves_nothing;
    "history.limits", "limits remove the oldest entries with their contents", the_oldest_are_removed;
    "history.verify", "verification finds a change of any record", damage_is_found;
    "history.hidden", "the model cannot see or change the history, and quotas do not count it", the_history_is_hidden;
];

type Kept = HistoryStore<Arc<dyn Store>>;

const WRITERS: u64 = 8;
const INSERTS: u64 = 10;

/// Opens another session.
fn kept(store: &Arc<dyn Store>) -> Kept {
    HistoryStore::new(Arc::clone(store))
}

fn file(name: &str) -> Result<StorePath, BoxError> {
    Ok(path(name)?.into())
}

async fn write_many(store: &Kept, count: usize) -> Outcome {
    for number in 0..count {
        write(store, "a", &format!("text {number} of a file that changes\n")).await?;
    }
    Ok(())
}

async fn logged(history: &History<Arc<dyn Store>>, filter: LogFilter) -> Result<Vec<u64>, HistoryError> {
    Ok(history.entries(&filter).await?.iter().map(|entry| entry.number).collect())
}

async fn expect_log_until(newest: u64, history: &History<Arc<dyn Store>>) -> Outcome {
    expect_equal("the log", logged(history, LogFilter::new()).await?, (1..=newest).rev().collect())
}

async fn expect_past(history: &History<Arc<dyn Store>>, name: &str, number: u64, expected: &str) -> Outcome {
    let found = String::from_utf8(history.read(&file(name)?, number).await?)?;
    expect_equal(&format!("{name} after entry {number}"), found.as_str(), expected)
}

async fn expect_present(store: &Kept, name: &str, expected: Option<&str>) -> Outcome {
    expect_equal(&format!("the content of {name}"), content(store, name).await?.as_deref(), expected)
}

async fn expect_whole(history: &History<Arc<dyn Store>>) -> Outcome {
    let report = history.verify().await?;
    expect_equal("the damage", report.damage, Vec::new())?;
    expect_equal("the files that others changed", report.changed_by_others, Vec::new())
}

fn expect_error<T: fmt::Debug>(
    outcome: Result<T, HistoryError>,
    is_expected: impl FnOnce(&HistoryError) -> bool,
) -> Outcome {
    let is_expected = outcome.as_ref().err().is_some_and(is_expected);
    expect(is_expected, || format!("unexpected: {outcome:?}"))
}

/// All records of the history.
async fn records(store: &dyn Store) -> Result<Vec<(StorePath, Vec<u8>)>, BoxError> {
    let mut records = Vec::new();
    for record in store.read_opts(&history_root()?, ReadOptions::new()).await?.into_listing().files {
        if let Node::File(file) = store.read_opts(&record.path, ReadOptions::new()).await? {
            records.push((record.path, file.content));
        }
    }
    Ok(records)
}

fn history_root() -> Result<StorePath, BoxError> {
    Ok("/records/history".parse()?)
}

/// The size of all records, and whether one contains the text.
async fn size_and_search(store: &dyn Store, text: &str) -> Result<(usize, bool), BoxError> {
    let records = records(store).await?;
    let contains = |bytes: &[u8]| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    let contains = records.iter().any(|(path, bytes)| path.as_str().contains(text) || contains(bytes));
    Ok((records.iter().map(|(_, bytes)| bytes.len()).sum(), contains))
}

fn next_random(random: &mut u64) -> u64 {
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *random >> 32
}

/// Text that a compression makes half as long at best.
fn noise(mut seed: u64, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 8);
    while text.len() < bytes {
        text += &format!("{:08x}", next_random(&mut seed));
    }
    text.truncate(bytes);
    text
}

async fn races_are_logged(store: Arc<dyn Store>) -> Outcome {
    let sessions = [kept(&store), kept(&store)];
    write(&sessions[0], "a", "start\n").await?;
    let mut threads = Threads::new();
    for writer in 0..WRITERS {
        let tool = Engine::new(sessions[usize::from(writer.is_multiple_of(2))].clone());
        threads.spawn(async move {
            for number in 0..INSERTS {
                let text = format!("{writer}/{number}\n");
                let insert = json!({"command": "insert", "path": "/memories/a", "insert_line": 0, "insert_text": text});
                let inserted = tool.call(insert).await;
                inserted.map_err(|error| CaseError::from(Failure::new(format!("an insert failed: {error}"))))?;
            }
            Ok(())
        });
    }
    threads.join().await.map_err(|stop| format!("{stop:?}"))?;
    // Each session knows a log without the last change of the other one.
    for session in sessions.iter().chain(&sessions) {
        write(session, "b", "text").await?;
    }
    let newest_insert = WRITERS * INSERTS + 1;
    let newest = newest_insert + 4;
    let history = kept(&store).history();
    expect_log_until(newest, &history).await?;
    let mut before = String::new();
    for number in 1..=newest_insert {
        let text = String::from_utf8(history.read(&file("a")?, number).await?)?;
        let is_next = text.lines().count() as u64 == number && text.ends_with(&before);
        expect(is_next, || format!("entry {number} did not add a line to {before:?}, but left {text:?}"))?;
        before = text;
    }
    let report = history.verify().await?;
    expect_equal("entries and contents", (report.entries, report.contents), (newest, newest - 2))?;
    expect_whole(&history).await
}

async fn entries_are_in_order(store: Arc<dyn Store>) -> Outcome {
    let [first, second] = [kept(&store), kept(&store)];
    let sessions = [&first, &second, &first, &first, &second, &second, &first];
    for (number, session) in sessions.into_iter().enumerate() {
        write(session, &number.to_string(), "text").await?;
    }
    let history = first.history();
    let entries = history.entries(&LogFilter::new()).await?;
    let paths = |entry: &Entry| entry.changes.iter().filter_map(|change| change.path().cloned()).collect::<Vec<_>>();
    let found: Vec<_> = entries.iter().map(|entry| (entry.number, paths(entry))).collect();
    let expected = |number: usize| Ok::<_, BoxError>((number as u64 + 1, vec![file(&number.to_string())?]));
    expect_equal("the log", found, (0..sessions.len()).rev().map(expected).collect::<Result<_, _>>()?)?;
    let page = LogFilter::new().before(5).limit(2);
    expect_equal("a page of the log", logged(&second.history(), page).await?, vec![4, 3])
}

async fn contents_are_kept(store: Arc<dyn Store>) -> Outcome {
    const VERSIONS: u64 = 70;
    const NAMES: [&str; 3] = ["a", "b", "d/c"];
    let store = kept(&store);
    // All texts have the same length.
    let text = |name: &str, version: u64| format!("{name:>3} in version {version:02}");
    for version in 1..=VERSIONS {
        let add = |batch: Batch, name: &str| Ok::<_, BoxError>(batch.write(path(name)?, text(name, version)));
        store.apply(NAMES.into_iter().try_fold(Batch::new(), add)?).await?;
    }
    store.remove(MemoryPath::root()).await?;
    // Longer than a part of large contents.
    let large: String = (0..900).map(|number| format!("{number:04}").repeat(1_500) + "\n").collect();
    write(&store, "large", &large).await?; // VERSIONS + 2
    write(&store, "large", "small").await?;
    let history = store.history();
    for version in [1, 2, 63, 64, 65, 69, VERSIONS] {
        for name in NAMES {
            expect_past(&history, name, version, &text(name, version)).await?;
        }
    }
    expect(history.read(&file("large")?, VERSIONS + 2).await? == large.as_bytes(), || "a large text differs".into())?;
    expect_past(&history, "large", VERSIONS + 3, "small").await?;
    expect_whole(&history).await
}

type Copied = BTreeMap<StorePath, Vec<u8>>;

async fn copied(store: &dyn Store) -> Result<Copied, BoxError> {
    let mut copied = Copied::new();
    for file in files(store).await? {
        let Node::File(stored) = store.read_opts(&file.path, ReadOptions::new()).await? else { continue };
        copied.insert(file.path, stored.content);
    }
    Ok(copied)
}

async fn the_past_equals_copies(store: Arc<dyn Store>) -> Outcome {
    /// Paths that contain each other, so that files and directories take each other's place.
    const NAMES: [&str; 6] = ["a", "a/b", "a/c", "d", "d/e", "f"];
    const STEPS: u64 = 160;
    let store = kept(&store);
    let history = store.history();
    let mut copies = vec![copied(&store).await?];
    let mut random = 1;
    for step in 0..STEPS {
        let mut choose = |among: usize| next_random(&mut random) as usize % among;
        let (from, to) = (path(NAMES[choose(NAMES.len())])?, path(NAMES[choose(NAMES.len())])?);
        let number = choose(copies.len()) as u64;
        let is_changed = match choose(10) {
            0..=4 => store.write(&to, format!("text of step {step}")).await.is_ok(),
            5 => store.remove(&from).await.is_ok(),
            6 | 7 => store.rename(&from, &to).await.is_ok(),
            8 => history.undo(1).await.is_ok(),
            _ => history.restore(&to.into(), number).await.is_ok(),
        };
        let copy = copied(&store).await?;
        if is_changed {
            copies.push(copy);
        } else {
            expect_equal("the files after a refused change", Some(&copy), copies.last())?;
        }
    }
    expect_log_until(copies.len() as u64 - 1, &history).await?;
    expect(copies.len() as u64 > STEPS / 2, || format!("only {} changes of {STEPS} succeeded", copies.len()))?;
    for (number, copy) in (0..).zip(&copies) {
        let past = copied(&history.at(number).await?).await?;
        expect_equal(&format!("the memory after entry {number}"), &past, copy)?;
    }
    expect_whole(&history).await
}

async fn renames_are_followed(store: Arc<dyn Store>) -> Outcome {
    let (stored, store) = (Arc::clone(&store), kept(&store));
    write(&store, "d/a", "one").await?; // 1
    write_many(&store, 71).await?; // up to 72, which is beyond a block
    store.rename(path("d")?, path("e")?).await?; // 73
    write(&store, "d/a", "another file").await?; // 74
    write(&store, "e/a", "two").await?; // 75
    store.rename(path("e/a")?, path("b")?).await?; // 76
    let history = history_of(&stored); // reads what the session stored
    let of = |name: &str| Ok::<_, BoxError>(LogFilter::new().path(file(name)?));
    expect_equal("the log of the file", logged(&history, of("b")?).await?, vec![76, 75, 73, 1])?;
    expect_equal("its older page", logged(&history, of("b")?.before(75)).await?, vec![73, 1])?;
    expect_equal("the log of the other file", logged(&history, of("d/a")?).await?, vec![74, 73, 1])?;
    expect_equal("the log of a missing file", logged(&history, of("missing")?).await?, Vec::new())?;
    expect_past(&history, "d/a", 72, "one").await?;
    expect_past(&history, "e/a", 74, "one").await?;
    expect_error(history.read(&file("b")?, 75).await, |error| matches!(error, HistoryError::NotAFile { .. }))?;
    write_many(&store, 60).await?; // up to 136: the renames are in a block
    store.rename(path("d")?, path("f")?).await?; // 137
    write_many(&store, 60).await?; // in the block of this rename, nothing else concerns the file
    expect_equal("the log of the file in blocks", logged(&history, of("b")?).await?, vec![76, 75, 73, 1])?;
    expect_equal("the log of the directory", logged(&history, of("f/a")?).await?, vec![137, 74, 73, 1])?;
    history.revert(&[137]).await?;
    expect_present(&store, "d/a", Some("another file")).await
}

async fn directories_come_back(store: Arc<dyn Store>) -> Outcome {
    const FILES: u64 = 30;
    let store = kept(&store);
    let name = |number: u64| format!("d/{number}");
    let text = |number: u64| noise(number, 4_000); // together, they are large
    let add = |batch: Batch, number| Ok::<_, BoxError>(batch.write(path(&name(number))?, text(number)));
    store.apply((0..FILES).try_fold(Batch::new(), add)?).await?;
    store.remove(path("d")?).await?;
    let history = store.history();
    let removed = history.entry(2).await?.changes;
    let is_whole = removed.len() as u64 == FILES && removed.iter().all(|it| matches!(it, FileChange::Remove { .. }));
    expect(is_whole, || format!("the removal has the changes {removed:?}"))?;
    expect_equal("the origin of the undo", history.undo(1).await?.entry.origin, Origin::Undo(vec![2]))?;
    expect_equal("the number of files", files(&store).await?.len() as u64, FILES)?;
    write_many(&store, 64).await?; // the removal is in a block
    for number in [0, 7, FILES - 1] {
        expect_present(&store, &name(number), Some(&text(number))).await?;
        expect_past(&history, &name(number), 1, &text(number)).await?;
    }
    expect_whole(&history).await
}

async fn undos_are_walked(store: Arc<dyn Store>) -> Outcome {
    let (stored, store) = (Arc::clone(&store), kept(&store));
    for text in ["one", "two", "three"] {
        write(&store, "a", text).await?;
    }
    let history = || history_of(&stored); // reads what the sessions stored
    for (is_undo, expected) in [
        (true, Some("two")),
        (true, Some("one")),
        (false, Some("two")),
        (true, Some("one")),
        (true, None),
        (false, Some("one")),
        (false, Some("two")),
        (false, Some("three")),
    ] {
        if is_undo {
            history().undo(1).await?
        } else {
            history().redo().await?
        };
        expect_present(&store, "a", expected).await?;
    }
    expect_error(history().redo().await, |error| matches!(error, HistoryError::NothingToRedo))?;
    history().undo(2).await?;
    expect_present(&store, "a", Some("one")).await?;
    expect_error(history().undo(2).await, |error| matches!(error, HistoryError::NothingToUndo))?;
    history().redo().await?;
    expect_present(&store, "a", Some("three")).await?;
    expect_log_until(13, &history()).await
}

async fn changes_end_redos(store: Arc<dyn Store>) -> Outcome {
    let (stored, store) = (Arc::clone(&store), kept(&store));
    write(&store, "a", "one").await?;
    write(&store, "a", "two").await?;
    let history = || history_of(&stored); // reads what the sessions stored
    history().undo(1).await?;
    write(&store, "b", "other").await?;
    expect_error(history().redo().await, |error| matches!(error, HistoryError::NothingToRedo))?;
    expect_present(&store, "a", Some("one")).await?;
    // The next undo takes back the new change, and the one after it the change before the undone one.
    history().undo(1).await?;
    expect_present(&store, "b", None).await?;
    history().undo(1).await?;
    expect_present(&store, "a", None).await
}

async fn later_changes_stay(store: Arc<dyn Store>) -> Outcome {
    let session = kept(&store);
    write(&session, "a", "one").await?;
    write(&session, "a", "two").await?;
    let history = session.history();
    let expected = vec![file("a")?];
    let names_it = |error: &HistoryError| matches!(error, HistoryError::Changed { paths } if *paths == expected);
    expect_error(history.revert(&[1]).await, names_it)?;
    expect_present(&session, "a", Some("two")).await?;
    write(&store, "a", "2nd").await?; // by another program, and of the same size
    expect_error(history.undo(1).await, names_it)?;
    expect_present(&session, "a", Some("2nd")).await?;
    expect_equal("the files that others changed", history.verify().await?.changed_by_others, expected.clone())?;
    expect_log_until(2, &history).await?;
    history.clone().forced().undo(1).await?;
    expect_present(&session, "a", Some("one")).await?;
    history.undo(1).await.map(drop).or_else(|error| if names_it(&error) { Ok(()) } else { Err(error) })?;
    expect_past(&history, "a", 2, "2nd").await // the forced undo kept it
}

async fn a_cleared_history_is_gone(store: Arc<dyn Store>) -> Outcome {
    const SECRET: &str = "s3cr3t";
    let session = kept(&store);
    write(&session, SECRET, SECRET).await?; // 1
    session.remove(path(SECRET)?).await?; // 2
    write_many(&session, 70).await?; // up to 72
    session.history().entry_diff(2, 1).await?; // reads the block
    write(&session, "b", "text").await?; // 73
    kept(&store).history().clear().await?;
    let other = kept(&store);
    write_many(&other, 5).await?;
    write_many(&session, 80).await?; // the block has entries of both
    expect_whole(&kept(&store).history()).await?;
    for history in [session.history(), kept(&store).history()] {
        expect_log_until(85, &history).await?;
        let entry = history.entry_diff(2, 1).await?;
        expect_equal("the files of the second entry", entry.files.len(), 1)?;
        expect_error(history.read(&file(SECRET)?, 1).await, |error| matches!(error, HistoryError::NotAFile { .. }))?;
    }
    let (_, has_secret) = size_and_search(&store, SECRET).await?;
    expect(!has_secret, || "the new history has a path of the cleared one".to_owned())
}

/// Everything that a store has.
async fn backup(store: &dyn Store) -> Result<Batch, BoxError> {
    let mut batch = Batch::new();
    for root in [StorePath::memories(), StorePath::records()] {
        for listed in store.read_opts(&root, ReadOptions::new()).await?.into_listing().files {
            if let Node::File(file) = store.read_opts(&listed.path, ReadOptions::new()).await? {
                batch = batch.write(listed.path, file.content);
            }
        }
    }
    Ok(batch)
}

async fn restore(store: &dyn Store, backup: &Batch) -> Outcome {
    store.apply(Batch::new().remove(StorePath::memories()).remove(StorePath::records())).await?;
    Ok(store.apply(backup.clone()).await?)
}

async fn earlier_states_are_noticed(store: Arc<dyn Store>) -> Outcome {
    for (others, more) in [(0, 1), (3, 1), (4, 70)] {
        let session = kept(&store);
        write_many(&session, 4).await?;
        let copy = backup(&*store).await?;
        let before = session.history().newest().await?;
        write_many(&session, 3).await?; // the restoration removes entries that the session knows
        restore(&*store, &copy).await?;
        let other = kept(&store);
        for number in 0..others {
            write(&other, "b", &format!("text {number} by another session")).await?;
        }
        for number in 0..more {
            write(&session, "c", &format!("text {number} after the restoration")).await?;
        }
        for history in [session.history(), kept(&store).history()] {
            expect_log_until(before + others + more, &history).await?;
            expect_whole(&history).await?;
        }
        history_of(&store).undo(1).await?;
        expect_present(
            &session,
            "c",
            (more > 1).then(|| format!("text {} after the restoration", more - 2)).as_deref(),
        )
        .await?;
        store.apply(Batch::new().remove(StorePath::memories()).remove(StorePath::records())).await?;
    }
    Ok(())
}

fn history_of(store: &Arc<dyn Store>) -> History<Arc<dyn Store>> {
    kept(store).history()
}

async fn other_files_stay_known(store: Arc<dyn Store>) -> Outcome {
    let session = kept(&store);
    write(&session, "d/a", "one").await?; // 1
    write(&session, "d/b", "secret").await?; // 2
    write(&session, "d/c", "idle").await?; // 3
    write(&session, "d/a", "two").await?; // 4
    session.rename(path("d")?, path("e")?).await?; // 5
    write(&session, "e/b", "clean").await?; // 6
    session.apply(Batch::new().remove(path("e/c")?).for_command(Batch::EXPIRE)).await?; // 7
    let history = session.history();
    history.redact(&[2, 6]).await?; // 8
    expect_past(&history, "d/a", 3, "one").await?;
    expect_past(&history, "e/a", 5, "two").await?;
    let redacted = history.read(&file("e/b")?, 5).await;
    expect_error(redacted, |error| matches!(error, HistoryError::Redacted { number: 6 }))?;
    let expired = history.read(&file("d/c")?, 4).await;
    expect_error(expired, |error| matches!(error, HistoryError::NotKept { number: 7, .. }))?;
    let found = history.diff(3, 8, &StorePath::memories(), usize::MAX).await?;
    let paths = |paths: &[&str]| paths.iter().map(|path| file(path)).collect::<Result<Vec<_>, _>>();
    expect_equal(
        "the known differences",
        found.files.iter().map(|it| it.path.clone()).collect(),
        paths(&["d/a", "e/a", "e/b"])?,
    )?;
    expect_equal("the unknown ones", found.unknown, paths(&["d/b", "d/c"])?)?;
    // The undo skips the expiry and the redacted entries.
    expect_equal("the undo", history.undo(1).await?.entry.origin, Origin::Undo(vec![5]))?;
    expect_equal("the next undo", history.undo(1).await?.entry.origin, Origin::Undo(vec![4]))?;
    expect_present(&session, "d/a", Some("one")).await?;
    write(&session, "d/a", "three").await?;
    let restored = history.restore(&file("d")?, 4).await?;
    expect_equal("what the restoration left out", restored.missing, paths(&["d/b", "d/c"])?)?;
    expect_present(&session, "d/a", Some("two")).await?;
    expect_present(&session, "d/b", Some("clean")).await?;
    write(&session, "d/a", "three").await?;
    write(&session, "d/a", "two").await?;
    let same = history.restore(&file("d/a")?, 4).await;
    expect_error(same, |error| matches!(error, HistoryError::Unchanged))?;
    expect_whole(&history).await
}

async fn lost_entries_are_replaced(store: Arc<dyn Store>) -> Outcome {
    let session = kept(&store);
    write_many(&session, 70).await?;
    let log = history_root()?.join("log")?;
    store.apply(Batch::new().remove(log.join(&format!("{:020}", 67))?)).await?;
    let history = history_of(&store);
    let damage = history.verify().await;
    expect(damage.is_err(), || format!("a lost entry is not reported: {damage:?}"))?;
    expect_equal("the repairs", history.repair().await?.len(), 1)?;
    write(&session, "b", "text").await?; // 71
    expect_whole(&history).await?;
    expect_equal("the lost entries", history.verify().await?.lost, vec![67])?;
    expect_past(&history, "a", 68, "text 67 of a file that changes\n").await?;
    expect_error(history.at(66).await, |error| matches!(error, HistoryError::Lost { number: 67 }))?;
    expect_equal("what the older entries show", history.entry_diff(20, 1).await?.files.len(), 1)?;
    // A block that cannot be read.
    let block = history_root()?.join("blocks")?.join(&format!("{:020}", 1))?;
    store.apply(Batch::new().write(block, "damage")).await?;
    history.repair().await?;
    write(&session, "b", "more text").await?; // 72
    expect_whole(&history).await?;
    expect_equal("the log", logged(&history, LogFilter::new()).await?, (65..=72).rev().collect())?;
    expect_equal("a second repair", history.repair().await?, Vec::new())
}

async fn files_keep_identities(store: Arc<dyn Store>) -> Outcome {
    let session = HistoryStore::with_limits(Arc::clone(&store), Limits::new().changes(64));
    write(&store, "others/d", "by another program").await?;
    write(&session, "d/a", "a file").await?; // 1
    write(&session, "d/b", "another").await?; // 2
    let history = session.history();
    let now = |name: &str| Ok::<_, BoxError>((file(name)?, name.to_owned()));
    let ids = async |history: &History<Arc<dyn Store>>, names: &[&str]| {
        let cache = VersionCache::default();
        let end = history.observe(&cache).await?;
        let paths = names.iter().map(|name| now(name)).collect::<Result<Vec<_>, _>>()?;
        let id = |versions: &Versions, path: &StorePath| versions.at(path).map(|file| file.id);
        let found = cache.at(&end, |versions| paths.iter().map(|(path, _)| id(versions, path)).collect::<Vec<_>>());
        Ok::<_, BoxError>(found.unwrap_or_default())
    };
    let born = ids(&history, &["d/a", "d/b", "others/d"]).await?;
    expect(born.iter().all(Option::is_some), || format!("a file has no identity: {born:?}"))?;
    session.rename(path("d")?, path("e")?).await?; // 3
    session.rename(path("others")?, path("o")?).await?; // 4
    write(&session, "d/a", "a new file at the old path").await?; // 5
    expect_equal("the identities after renames", ids(&history, &["e/a", "e/b", "o/d"]).await?, born.clone())?;
    let new = ids(&history, &["d/a"]).await?;
    expect(new[0] != born[0] && new[0].is_some(), || "a new file has the identity of an old one".to_owned())?;
    write(&session, "e/b", "changed").await?; // 6
    history.redact(&[3]).await?; // 7
    expect_equal("the identities after a redaction", ids(&history, &["e/a", "e/b", "o/d"]).await?, born.clone())?;
    write_many(&session, 130).await?; // the first entries are removed
    session.rename(path("e")?, path("f")?).await?;
    let kept_ids = ids(&history_of(&store), &["f/a", "f/b", "o/d", "d/a"]).await?;
    expect_equal("the identities after a removal of entries", kept_ids, [born, new].concat())?;
    expect_whole(&history).await
}

async fn redaction_leaves_nothing(store: Arc<dyn Store>) -> Outcome {
    const NAME: &str = "s3cr3t-n4me";
    const SMALL: usize = 60_000;
    const LARGE: usize = 200_000;
    /// More than all other records, and less than the smallest secret, compressed.
    const REST: usize = 25_000;
    let session = kept(&store);
    write(&session, NAME, &noise(1, SMALL)).await?; // 1
    write(&session, NAME, &noise(2, LARGE)).await?; // 2
    session.remove(path(NAME)?).await?; // 3, with large contents
    write_many(&session, 62).await?; // up to 65
    write(&session, "b", &noise(3, SMALL)).await?; // 66
    write(&session, "b", "gone").await?; // 67
    // Another session knows the recent entries, and must not put them into a block later.
    let other = kept(&store);
    write(&other, "c", "c").await?; // 68
    let (size, _) = size_and_search(&store, NAME).await?;
    expect(size > (SMALL + LARGE) / 2 + SMALL, || format!("the history has {size} bytes, and lacks contents"))?;
    let history = session.history();
    let redaction = history.redact(&[1, 2, 3, 66, 67]).await?;
    let expected = (69, Origin::Redaction(vec![67, 66, 3, 2, 1]));
    expect_equal("the entry of the redaction", (redaction.number, redaction.origin), expected)?;
    for step in ["the redaction", "a change by another session"] {
        let (size, has_name) = size_and_search(&store, NAME).await?;
        expect(!has_name, || format!("after {step}, a record has a redacted path"))?;
        expect(size < REST, || format!("after {step}, the history has {size} bytes, and so redacted contents"))?;
        for number in [1, 2, 3, 66, 67] {
            let entry = kept(&store).history().entry(number).await?;
            let is_redacted = |change: &FileChange| matches!(change, FileChange::Redacted { before: None, .. });
            let is_empty = entry.is_redacted && entry.changes.iter().all(is_redacted);
            expect(is_empty, || format!("after {step}, entry {number} has changes: {entry:?}"))?;
        }
        write_many(&other, 60).await?; // the second time, the recent entries are in a block
    }
    expect_equal("the files that are known before", files(&history.at(2).await?).await?.len(), 0)?;
    let redacted = history.read(&file("b")?, 66).await;
    expect_error(redacted, |error| matches!(error, HistoryError::Redacted { number: 67 }))?;
    expect_error(history.revert(&[66]).await, |error| matches!(error, HistoryError::Redacted { number: 66 }))?;
    expect_past(&history, "a", 100, "text 30 of a file that changes\n").await?;
    expect_whole(&history).await
}

async fn the_oldest_are_removed(store: Arc<dyn Store>) -> Outcome {
    const LARGE: usize = 150_000;
    let session = HistoryStore::with_limits(Arc::clone(&store), Limits::new().changes(64));
    write(&session, "large", &noise(1, LARGE)).await?; // 1
    session.remove(path("large")?).await?; // 2
    write_many(&session, 125).await?; // up to 127
    let history = session.history();
    expect_log_until(127, &history).await?;
    write_many(&session, 2).await?; // the second block removes the first
    let expected = (65..=129).rev().collect();
    expect_equal("the log", logged(&kept(&store).history(), LogFilter::new()).await?, expected)?;
    for outcome in [history.at(1).await.map(drop), history.entry(64).await.map(drop)] {
        expect_error(outcome, |error| matches!(error, HistoryError::Forgotten { oldest: 65 }))?;
    }
    let (size, _) = size_and_search(&store, "").await?;
    expect(size < LARGE / 4, || format!("the history has {size} bytes, and so removed contents"))?;
    let blocks = records(&store).await?.iter().filter(|(path, _)| path.as_str().contains("/blocks/")).count();
    expect_equal("the number of blocks", blocks, 1)?;
    expect_error(history.undo(66).await, |error| matches!(error, HistoryError::Forgotten { .. }))?;
    history.undo(65).await?;
    expect_present(&session, "a", Some("text 61 of a file that changes\n")).await?;
    expect_whole(&history).await
}

async fn damage_is_found(store: Arc<dyn Store>) -> Outcome {
    let session = kept(&store);
    write(&session, "large", &noise(1, 150_000)).await?; // 1
    session.remove(path("large")?).await?; // 2
    write_many(&session, 64).await?; // up to 66
    let report = session.history().verify().await?;
    expect_equal("entries and contents", (report.entries, report.contents), (66, 64))?;
    expect_whole(&session.history()).await?;
    let records = records(&store).await?;
    expect(records.len() >= 6, || format!("the history has only {} records", records.len()))?;
    for (record, bytes) in records {
        let mut changed = bytes.clone();
        changed.last_mut().map(|byte| *byte ^= 0xff).ok_or_else(|| format!("{record} is empty"))?;
        store.apply(Batch::new().write(record.clone(), changed)).await?;
        let is_found = kept(&store).history().verify().await.map_or(true, |report| !report.damage.is_empty());
        expect(is_found, || format!("a change of {record} was not found"))?;
        store.apply(Batch::new().write(record, bytes)).await?;
    }
    expect_whole(&kept(&store).history()).await
}

async fn the_history_is_hidden(store: Arc<dyn Store>) -> Outcome {
    let session = kept(&store);
    let quota = Quota::new().with_files(1).with_bytes(10);
    for number in 0..5 {
        let batch = Batch::new().limit(StorePath::memories(), quota);
        session.apply(batch.write(path("a")?, format!("{number} of five"))).await?;
    }
    expect_equal("the number of files", files(&session).await?.len(), 1)?;
    let tool = Engine::new(session.clone());
    let seen = format!("{:?}", tool.call(json!({"command": "view", "path": "/memories"})).await?);
    expect(!seen.contains("records") && !seen.contains("history"), || format!("the listing shows records: {seen}"))?;
    let viewed = tool.call(json!({"command": "view", "path": "/records/history"})).await;
    expect(viewed.is_err(), || format!("the model can see records: {viewed:?}"))?;
    session.remove(MemoryPath::root()).await?;
    let history = session.history();
    expect_log_until(6, &history).await?;
    let root = history_root()?;
    expect_refused(session.apply(Batch::new().write(root.join("head")?, "{}")).await)?;
    expect_refused(session.apply(Batch::new().remove(root.join("head")?)).await)?;
    expect_log_until(6, &history).await?;
    session.apply(Batch::new().remove(root)).await?;
    expect_equal("the number of records after the history is removed", records(&store).await?.len(), 0)?;
    write(&session, "a", "text").await?;
    expect_log_until(1, &history).await
}
