//! The redaction of one change of an entry.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use memory_tool_core::{Batch, InMemoryStore, ReadOptions, Store, StoreExt, StorePath};
use memory_tool_history::{Entry, FileChange, FileDiff, History, HistoryError, HistoryStore, LogFilter, Origin};
use memory_tool_local::LocalStore;
use memory_tool_sqlite::SqliteStore;
use memory_tool_test_fixtures::{directory_in_ram, in_full, path, record};

type Shared = Arc<dyn Store>;

/// More than an entry keeps beside its line.
const LARGE: usize = 100_000;

/// The first batch creates two files, the second replaces both, and the third removes the first file.
async fn write_and_replace(store: &HistoryStore<Shared>, (secret, public): (&str, &str)) {
    let write = |a: &str, b: &str| Batch::new().write(path("/memories/a"), a).write(path("/memories/b"), b);
    store.apply(write("old a", "old b")).await.unwrap();
    store.apply(write(secret, public)).await.unwrap();
    store.apply(write("new a", "new b")).await.unwrap();
}

async fn fill_a_block(store: &HistoryStore<Shared>) {
    for number in 0..70 {
        store.write("/memories/other", number.to_string()).await.unwrap();
    }
}

/// Every history of this store is as after the redaction of the first change of entry 2, which entry 3 kept.
async fn expect_redacted(inner: &Shared, public: &str) {
    let history = HistoryStore::new(Arc::clone(inner)).history();
    let Entry { changes, is_redacted, .. } = history.entry(2).await.unwrap();
    assert!(is_redacted);
    assert!(matches!(&changes[0], FileChange::Redacted { before: Some(_), .. }), "{changes:?}");
    assert_eq!((changes.len(), changes[1].path()), (2, Some(&path("/memories/b"))));
    for (index, content) in ["old a", "old b"].into_iter().enumerate() {
        assert_eq!(history.replaced_by(2, index).await.unwrap(), content.as_bytes());
    }
    assert_eq!(history.replaced_by(3, 1).await.unwrap(), public.as_bytes());
    let refused = history.replaced_by(3, 0).await.unwrap_err();
    assert!(matches!(refused, HistoryError::NotKept { number: 3, .. }), "{refused}");
    assert_eq!(history.verify().await.unwrap().damage, Vec::<String>::new());
}

async fn redact_secret(history: &History<Shared>) {
    let entry = history.redact_version((2, 0), &[(3.into(), 0)]).await.unwrap();
    assert_eq!((entry.origin, entry.changes.len()), (Origin::Redaction(vec![2]), 0));
}

#[tokio::test]
async fn other_changes_of_the_entry_stay_also_in_a_block() {
    let directory = directory_in_ram().unwrap();
    let (secret, public) = ("s".repeat(LARGE), "p".repeat(LARGE));
    for contents in [("secret", "public"), (&secret, &public), (&secret, "public"), ("secret", &public)] {
        for is_in_block in [false, true] {
            let place = new_directory(directory.path());
            let stores: [Shared; 3] = [
                Arc::new(InMemoryStore::new()),
                Arc::new(LocalStore::open(place.join("local")).await.unwrap()),
                Arc::new(SqliteStore::open(place.join("memory.db")).await.unwrap()),
            ];
            for inner in stores {
                let store = HistoryStore::new(Arc::clone(&inner));
                let other = HistoryStore::new(Arc::clone(&inner));
                write_and_replace(&store, contents).await;
                if is_in_block {
                    fill_a_block(&store).await;
                }
                other.write("/memories/c", "c").await.unwrap(); // this session knows the entries
                redact_secret(&store.history()).await;
                expect_redacted(&inner, contents.1).await;
                fill_a_block(&other).await;
                expect_redacted(&inner, contents.1).await;
            }
        }
    }
}

fn new_directory(directory: &std::path::Path) -> std::path::PathBuf {
    let count = std::fs::read_dir(directory).unwrap().count();
    let place = directory.join(count.to_string());
    std::fs::create_dir(&place).unwrap();
    place
}

#[tokio::test]
async fn no_record_contains_the_redacted_contents_or_path() {
    let inner: Shared = Arc::new(InMemoryStore::new());
    let store = HistoryStore::new(Arc::clone(&inner));
    store.write("/memories/private-name", "a secret").await.unwrap();
    store.rename("/memories/private-name", "/memories/a").await.unwrap();
    store.write("/memories/a", "public").await.unwrap();
    store.history().redact_version((1, 0), &[(3.into(), 0)]).await.unwrap();
    store.history().redact_version((2, 0), &[]).await.unwrap();
    let records = inner.read_opts(&StorePath::records(), ReadOptions::new()).await.unwrap().into_listing();
    assert!(records.files.iter().any(|file| file.path == record("history/head")));
    for file in records.files {
        let content = inner.read_opts(&file.path, ReadOptions::new()).await.unwrap().into_file().unwrap().content;
        let text = String::from_utf8_lossy(&content);
        assert!(!text.contains("a secret") && !text.contains("private-name"), "{}: {text}", file.path);
    }
}

#[tokio::test]
async fn a_redacted_change_hides_only_its_contents() {
    let inner: Shared = Arc::new(InMemoryStore::new());
    let store = HistoryStore::new(Arc::clone(&inner));
    write_and_replace(&store, ("secret", "public")).await;
    let history = store.history();
    redact_secret(&history).await; // 4
    let root = StorePath::memories();
    let refused = history.revert(&[2]).await.map(drop);
    assert!(matches!(&refused, Err(HistoryError::Changed { paths }) if *paths == [path("/memories/b")]), "{refused:?}");
    let refused = history.read(&path("/memories/a"), 2).await.map(drop);
    assert!(matches!(refused, Err(HistoryError::NotKept { number: 3, .. })), "{refused:?}");
    for (file, content) in [("/memories/a", "old a"), ("/memories/b", "old b")] {
        assert_eq!(history.read(&path(file), 1).await.unwrap(), content.as_bytes());
    }
    let found = history.diff(1, 3, &root, usize::MAX).await.unwrap();
    assert_eq!((found.files.len(), found.unknown.len()), (2, 0));
    assert_eq!(history.read(&path("/memories/b"), 2).await.unwrap(), b"public");
    for (number, known, unknown) in [
        (1, vec![("/memories/a", None, "old a"), ("/memories/b", None, "old b")], vec![]),
        (2, vec![("/memories/b", Some("old b"), "public")], vec![]),
        (3, vec![("/memories/b", Some("public"), "new b")], vec![path("/memories/a")]),
    ] {
        let found = history.entry_diff(number, 10).await.unwrap();
        let bytes = |text: &str| Some(text.as_bytes().to_vec());
        let known =
            known.into_iter().map(|(file, old, new)| FileDiff::new(path(file), old.and_then(bytes), bytes(new)));
        assert_eq!((found.files, found.unknown), (known.collect(), unknown), "{number}");
    }
    store.write("/memories/a", "newer a").await.unwrap(); // 5
    let differences = history.diff(3, 5, &root, usize::MAX).await.unwrap().files;
    assert_eq!((differences.len(), differences[0].before.as_deref()), (1, Some(&b"new a"[..])));
    history.undo(1).await.unwrap();
    assert_eq!(store.read("/memories/a").await.unwrap().into_file().unwrap().content, b"new a");
    history.restore(&path("/memories/a"), 5).await.unwrap();
    assert_eq!(store.read("/memories/a").await.unwrap().into_file().unwrap().content, b"newer a");
    let undone = history.undo(2).await.unwrap(); // of entries 7 and 3, which lost what it replaced
    assert_eq!(undone.missing, [path("/memories/a")]);
    assert_eq!(store.read("/memories/b").await.unwrap().into_file().unwrap().content, b"public");
    let of_b = history.entries(&LogFilter::new().path(path("/memories/b"))).await.unwrap();
    assert_eq!(of_b.iter().map(|entry| entry.number).collect::<Vec<_>>(), [8, 3, 2, 1]);
}

#[tokio::test]
async fn a_missing_change_is_refused_and_nothing_is_redacted() {
    let store = HistoryStore::new(Arc::new(InMemoryStore::new()) as Shared);
    write_and_replace(&store, ("secret", "public")).await;
    let history = store.history();
    let refused = history.redact_version((2, 2), &[(3.into(), 0)]).await.unwrap_err();
    assert!(matches!(refused, HistoryError::NoChange { number: 2, index: 2 }), "{refused}");
    let refused = history.replaced_by(2, 2).await.unwrap_err();
    assert!(matches!(refused, HistoryError::NoChange { number: 2, index: 2 }), "{refused}");
    let refused = history.redact_version((4, 0), &[]).await.unwrap_err();
    assert!(matches!(refused, HistoryError::NoEntry { number: 4, newest: 3 }), "{refused}");
    assert_eq!((history.newest().await.unwrap(), history.replaced_by(3, 0).await.unwrap()), (3, b"secret".to_vec()));
}

/// The redaction of a whole entry hides its files. Contents of other files, and of others with its path, stay.
#[tokio::test]
async fn changes_before_a_redacted_entry_are_known_if_their_contents_are() {
    let store = HistoryStore::new(Arc::new(InMemoryStore::new()) as Shared);
    store.write("/memories/a", "a").await.unwrap();
    store.write("/memories/secret", "secret").await.unwrap();
    store.write("/memories/secret", "public").await.unwrap();
    store.rename("/memories/a", "/memories/b").await.unwrap();
    let history = store.history();
    history.redact(&[3]).await.unwrap(); // which also kept the contents of entry 2
    let created = FileDiff::new(path("/memories/a"), None, Some(b"a".to_vec()));
    assert_eq!(history.entry_diff(1, 10).await.unwrap().files, [created]);
    let of_secret = history.entry_diff(2, 10).await.unwrap();
    assert_eq!((of_secret.files, of_secret.unknown), (vec![], vec![path("/memories/secret")]));
    for number in [3, 4] {
        assert_eq!(history.entry_diff(number, 10).await.unwrap(), Default::default());
    }
    assert!(matches!(history.entry_diff(6, 10).await, Err(HistoryError::NoEntry { number: 6, newest: 5 })));
}

/// A directory with other files was removed and taken back: these entries keep what they say of the others.
#[tokio::test]
async fn the_past_of_one_file_is_erased_under_all_its_names_and_no_other() {
    let inner: Shared = Arc::new(InMemoryStore::new());
    let store = HistoryStore::new(Arc::clone(&inner));
    let both = Batch::new().write(path("/memories/d/first"), "a secret").write(path("/memories/d/b"), "public");
    store.apply(both).await.unwrap();
    store.rename("/memories/d/first", "/memories/d/a").await.unwrap();
    store.remove("/memories/d").await.unwrap();
    let history = store.history();
    history.undo(1).await.unwrap();
    store.rename("/memories/d", "/memories/e").await.unwrap();
    store.write("/memories/e/a", "present").await.unwrap();
    let of_file = history.changes_of(&path("/memories/e/a")).await.unwrap();
    let numbers: Vec<_> = of_file.iter().map(|(entry, indexes)| (entry.number, indexes.len())).collect();
    assert_eq!(numbers, [(6, 1), (4, 1), (3, 1), (2, 1), (1, 1)]); // entry 5 renamed the directory
    let entry = history.redact_path(&path("/memories/e/a")).await.unwrap();
    assert_eq!(entry.origin, Origin::Redaction(vec![6, 4, 3, 2, 1]));
    let refused = history.redact_path(&path("/memories/e/a")).await.unwrap_err();
    assert!(matches!(refused, HistoryError::NoChangeOf { .. }), "{refused}");
    assert_eq!(history.changes_of(&path("/memories/e/a")).await.unwrap(), []);
    let records = inner.read_opts(&StorePath::records(), ReadOptions::new()).await.unwrap().into_listing();
    for file in records.files {
        let content = inner.read_opts(&file.path, ReadOptions::new()).await.unwrap().into_file().unwrap().content;
        let text = String::from_utf8_lossy(&content);
        assert!(!text.contains("a secret") && !text.contains("/first"), "{}: {text}", file.path);
    }
    for number in [1, 2, 4, 5, 6] {
        let other = path(&format!("/memories/{}/b", if number < 5 { "d" } else { "e" }));
        assert_eq!(history.read(&other, number).await.unwrap(), b"public", "{number}");
    }
    assert_eq!(store.read_to_string("/memories/e/a").await.unwrap(), "present");
    assert_eq!(history.verify().await.unwrap().damage, Vec::<String>::new());
}

/// The paths of the random changes.
const PATHS: [&str; 6] =
    ["/memories/d/a", "/memories/d/b", "/memories/e/a", "/memories/e/b", "/memories/a", "/memories/b"];

type Texts = BTreeMap<&'static str, String>;

/// The texts after each entry.
async fn past(history: &History<Shared>) -> Vec<Texts> {
    let mut states = Vec::new();
    for number in 0..=history.newest().await.unwrap() {
        let mut texts = Texts::new();
        for name in PATHS {
            if let Ok(content) = history.read(&path(name), number).await {
                texts.insert(name, String::from_utf8(content).unwrap());
            }
        }
        states.push(texts);
    }
    states
}

/// The file that has this text. A file keeps its number through renames.
fn file_of(text: &str) -> &str {
    text.split(' ').next().unwrap()
}

async fn change_at_random(store: &HistoryStore<Shared>, random: &mut impl FnMut(usize) -> usize, step: usize) {
    let name = PATHS[random(PATHS.len())];
    // Some are refused, such as a rename of nothing.
    let _ = match random(8) {
        0..4 => {
            let present = store.read_to_string(name).await.ok();
            let file = present.map_or_else(|| format!("file{step}"), |text| file_of(&text).to_owned());
            store.write(name, format!("{file} text{step}")).await.is_err()
        }
        4 => store.rename(name, PATHS[random(PATHS.len())]).await.is_err(),
        5 => store.rename("/memories/d", "/memories/e").await.is_err(),
        6 => store.remove([name, "/memories/d", "/memories/e"][random(3)]).await.is_err(),
        _ => store.history().undo(1).await.is_err(),
    };
}

/// The files with a past at a path: the present one, files that were removed at it, and files that were removed where
/// others of them were created.
fn files_of(states: &[Texts], path: &str) -> BTreeSet<String> {
    let files: Vec<BTreeMap<&str, &str>> =
        states.iter().map(|texts| texts.iter().map(|(name, text)| (file_of(text), *name)).collect()).collect();
    let (mut created, mut removed) = (Vec::new(), Vec::new());
    for (number, [before, after]) in files.array_windows().enumerate() {
        created.extend(
            after.iter().filter(|(file, _)| !before.contains_key(*file)).map(|(file, at)| (number, *file, *at)),
        );
        removed.extend(
            before.iter().filter(|(file, _)| !after.contains_key(*file)).map(|(file, at)| (number, *file, *at)),
        );
    }
    let present = files.last().unwrap().iter().filter(|(_, at)| **at == path).map(|(file, _)| *file);
    let mut todo: Vec<_> =
        present.chain(removed.iter().filter(|(.., at)| *at == path).map(|(_, file, _)| *file)).collect();
    let mut found = BTreeSet::new();
    while let Some(file) = todo.pop() {
        if found.insert(file.to_owned()) {
            for (number, _, at) in created.iter().filter(|(_, created, _)| *created == file) {
                todo.extend(
                    removed.iter().filter(|(then, _, place)| then < number && place == at).map(|(_, file, _)| *file),
                );
            }
        }
    }
    found
}

/// A number below another one, from a seed.
fn random(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed ^ 0x9e37_79b9_7f4a_7c15;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    }
}

/// A memory after random changes, and the word that all texts of its file at `/memories/d/a` start with.
async fn changed_at_random(seed: u64) -> (HistoryStore<Shared>, impl FnMut(usize) -> usize, String) {
    let (store, mut random) = (HistoryStore::new(Arc::new(InMemoryStore::new()) as Shared), random(seed));
    for step in 0..40 {
        change_at_random(&store, &mut random, step).await;
    }
    let present = store.read_to_string("/memories/d/a").await.ok();
    let file = present.map_or_else(|| "new".to_owned(), |text| file_of(&text).to_owned());
    store.write("/memories/d/a", format!("{file} last")).await.unwrap(); // this text stays in the file
    (store, random, file)
}

/// No entry keeps contents of a file.
async fn expect_erased(history: &History<Shared>, file: &str, seed: u64) {
    assert_eq!(history.verify().await.unwrap().damage, Vec::<String>::new(), "seed {seed}");
    for entry in history.entries(&LogFilter::new()).await.unwrap() {
        for index in 0..entry.changes.len() {
            let kept = history.replaced_by(entry.number, index).await.unwrap_or_default();
            assert_ne!(file_of(&String::from_utf8(kept).unwrap()), file, "seed {seed}, entry {}", entry.number);
        }
    }
}

#[tokio::test]
async fn an_erased_file_blinds_no_other() {
    for seed in 0..in_full(12, 100) {
        let (store, _, file) = changed_at_random(seed).await;
        let history = store.history();
        let before = past(&history).await;
        let erased = files_of(&before, "/memories/d/a");
        history.redact_path(&path("/memories/d/a")).await.unwrap();
        for (number, (before, after)) in before.iter().zip(past(&history).await).enumerate() {
            for (name, text) in before.iter().filter(|(_, text)| !erased.contains(file_of(text))) {
                assert_eq!(after.get(name), Some(text), "seed {seed}: {name} after entry {number}");
            }
        }
        expect_erased(&history, &file, seed).await;
    }
}

/// Earlier redactions hide names and keep contents.
#[tokio::test]
async fn a_file_is_erased_also_where_its_names_were() {
    for seed in 0..in_full(12, 100) {
        let (store, mut random, file) = changed_at_random(seed).await;
        let history = store.history();
        for _ in 0..3 {
            let newest = history.newest().await.unwrap() as usize;
            if random(2) == 0 {
                history.redact([1 + random(newest) as u64]).await.unwrap();
            } else {
                let text = format!("text{}", random(40));
                history.redact_text(&text).await.unwrap();
            }
        }
        match history.redact_path(&path("/memories/d/a")).await {
            Ok(_) | Err(HistoryError::NoChangeOf { .. }) => expect_erased(&history, &file, seed).await,
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
}

#[tokio::test]
async fn a_moved_file_is_erased_as_one_change() {
    let inner: Shared = Arc::new(InMemoryStore::new());
    let store = HistoryStore::new(Arc::clone(&inner));
    store.write("/memories/old", "a secret").await.unwrap();
    let moves = Batch::new().for_command(Entry::MOVE).write(path("/memories/new"), "public");
    store.apply(moves.remove(path("/memories/old"))).await.unwrap();
    let history = store.history();
    let refused = history.redact_path(&path("/memories/old")).await.unwrap_err();
    assert!(matches!(refused, HistoryError::NoChangeOf { .. }), "{refused}");
    history.redact_path(&path("/memories/new")).await.unwrap();
    let changes = history.entry(2).await.unwrap().changes;
    assert!(changes.iter().all(|change| matches!(change, FileChange::Redacted { .. })), "{changes:?}");
    assert!(history.read(&path("/memories/old"), 1).await.is_err());
    history.undo(1).await.unwrap_err();
    assert_eq!(store.read_to_string("/memories/new").await.unwrap(), "public");
}

#[tokio::test]
async fn a_single_change_loses_the_contents_before_and_after_it() {
    let inner: Shared = Arc::new(InMemoryStore::new());
    let store = HistoryStore::new(Arc::clone(&inner));
    write_and_replace(&store, ("secret", "public")).await;
    let history = store.history();
    history.redact_changes(&[(2.into(), 0)]).await.unwrap();
    for number in [2, 3] {
        let refused = history.replaced_by(number, 0).await.unwrap_err();
        assert!(matches!(refused, HistoryError::NotKept { .. }), "{number}: {refused}");
    }
    assert_eq!(history.replaced_by(2, 1).await.unwrap(), b"old b");
    assert_eq!(history.replaced_by(3, 1).await.unwrap(), b"public");
    assert_eq!(history.verify().await.unwrap().damage, Vec::<String>::new());
}

/// A file that came to the first place of another one, and was removed there, is not that one.
#[tokio::test]
async fn a_later_file_at_an_earlier_place_keeps_its_past() {
    let inner: Shared = Arc::new(InMemoryStore::new());
    let store = HistoryStore::new(Arc::clone(&inner));
    store.write("/memories/draft", "a secret").await.unwrap();
    store.rename("/memories/draft", "/memories/a").await.unwrap();
    store.write("/memories/draft", "another draft").await.unwrap();
    store.remove("/memories/draft").await.unwrap();
    let history = store.history();
    let entry = history.redact_path(&path("/memories/a")).await.unwrap();
    assert_eq!(entry.origin, Origin::Redaction(vec![2, 1]));
    assert_eq!(history.read(&path("/memories/draft"), 3).await.unwrap(), b"another draft");
}
