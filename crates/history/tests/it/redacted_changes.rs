//! The redaction of one change of an entry.

use std::sync::Arc;

use memory_tool_core::{Batch, InMemoryStore, ReadOptions, Store, StoreExt, StorePath};
use memory_tool_history::{Entry, FileChange, FileDiff, History, HistoryError, HistoryStore, LogFilter, Origin};
use memory_tool_local::LocalStore;
use memory_tool_sqlite::SqliteStore;
use memory_tool_test_fixtures::{directory_in_ram, path, record};

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
    let entry = history.redact_changes(&[(2.into(), 0)], &[(3.into(), 0)]).await.unwrap();
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
    store.history().redact_changes(&[(1.into(), 0)], &[(3.into(), 0)]).await.unwrap();
    store.history().redact_changes(&[(2.into(), 0)], &[]).await.unwrap();
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
    let refused = history.redact_changes(&[(2.into(), 2)], &[(3.into(), 0)]).await.unwrap_err();
    assert!(matches!(refused, HistoryError::NoChange { number: 2, index: 2 }), "{refused}");
    let refused = history.replaced_by(2, 2).await.unwrap_err();
    assert!(matches!(refused, HistoryError::NoChange { number: 2, index: 2 }), "{refused}");
    let refused = history.redact_changes(&[(4.into(), 0)], &[]).await.unwrap_err();
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
    let entry = history.redact_path(&path("/memories/e/a")).await.unwrap().unwrap();
    assert_eq!(entry.origin, Origin::Redaction(vec![6, 4, 3, 2, 1]));
    assert_eq!(history.redact_path(&path("/memories/e/a")).await.unwrap(), None);
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
