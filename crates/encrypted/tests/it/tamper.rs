//! Tampering with stored objects: modified contents are never returned, and all other files stay readable.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::Arc;

use crate::support::{
    cause, content, content_of_record, contents, damage, open, open_cause, path, problems, record, remove, ring,
    stored, write,
};
use memory_tool_core::{
    Batch, Engine, ErrorKind, InMemoryStore, MemoryTool, Node, Problem, ReadOptions, Store, StoreError, StoreExt,
    StorePath,
};
use memory_tool_encrypted::{Damage, EncryptedStore, EncryptionError, Padding};
use memory_tool_test_fixtures::by_tier;
use serde_json::json;

const FILES: usize = 50;

/// The problem that verification reports for a restored old copy of the index.
const OLDER: &str = "a copy of the index is older than the other";

async fn messages(store: &EncryptedStore) -> Vec<String> {
    problems(store).await.into_iter().map(|problem| problem.message).collect()
}

const HEADER_BYTES: usize = 92;

/// A store of 50 files and a copy of all its objects.
struct Victim {
    inner: Arc<InMemoryStore>,
    store: EncryptedStore,
    files: BTreeMap<StorePath, Vec<u8>>,
    stored: BTreeMap<StorePath, Vec<u8>>,
    objects: BTreeMap<StorePath, StorePath>,
}

impl Victim {
    async fn new(padding: Padding) -> Self {
        let inner = Arc::new(InMemoryStore::new());
        let store = EncryptedStore::builder(Arc::clone(&inner), ring(1)).padding(padding).open().await.unwrap();
        let (mut files, mut objects) = (BTreeMap::new(), BTreeMap::new());
        let mut known = Vec::new();
        for number in 0..FILES {
            let file = path(&format!("/memories/directory-{}/{number}.txt", number % 7));
            let text = format!("text {number}").repeat(number % 5).into_bytes();
            write(&store, file.as_str(), text.clone()).await;
            let now: Vec<_> =
                inner.list(&StorePath::memories()).await.unwrap().into_iter().map(|entry| entry.path).collect();
            let is_content = |object: &&StorePath| !object.as_str().contains("index") && !known.contains(*object);
            let object = now.iter().find(is_content).unwrap().clone();
            objects.insert(file.clone(), object);
            files.insert(file, text);
            known = now;
        }
        let stored = contents(&*inner).await;
        assert_eq!(stored.len(), FILES + 2);
        Self { inner, store, files, stored, objects }
    }

    async fn put(&self, object: &StorePath, bytes: Vec<u8>) {
        self.inner.apply(Batch::new().write(object.clone(), bytes)).await.unwrap();
    }

    async fn restore(&self, object: &StorePath) {
        self.put(object, self.stored[object].clone()).await;
    }

    /// The file with this object; `None` for a copy of the index.
    fn file_of(&self, object: &StorePath) -> Option<&StorePath> {
        self.objects.iter().find(|(_, candidate)| *candidate == object).map(|(file, _)| file)
    }

    /// Expects damage for the files with the given objects, both in reads and in the listing, and no change in the
    /// others. Returns the damage.
    async fn expect_damage_only_in(&self, touched: &[&StorePath]) -> BTreeMap<StorePath, Damage> {
        let mut damages = BTreeMap::new();
        for (file, written) in &self.files {
            if !touched.contains(&&self.objects[file]) {
                assert_eq!(content(&self.store, file).await, *written, "{file}");
                continue;
            }
            match self.store.read(file).await {
                Ok(node) => panic!("{file} was tampered with and reads as {node:?}"),
                Err(error) => damages.insert(file.clone(), damage(&error).clone()),
            };
        }
        assert_eq!(damaged_files(&self.store).await, damages.keys().cloned().collect());
        assert_eq!(self.store.list(&StorePath::memories()).await.unwrap().len(), self.files.len());
        damages
    }

    /// A faster check for one object, which reads only one of the other files.
    async fn expect_damage(&self, object: &StorePath) -> Option<Damage> {
        let untouched = self.files.iter().find(|(file, _)| self.objects[*file] != *object).unwrap();
        assert_eq!(content(&self.store, untouched.0).await, *untouched.1);
        match self.store.read(self.file_of(object)?).await {
            Ok(node) => panic!("{object} was tampered with and reads as {node:?}"),
            Err(error) => Some(damage(&error).clone()),
        }
    }
}

async fn damaged_files(store: &EncryptedStore) -> BTreeSet<StorePath> {
    let listed = store.list(&StorePath::memories()).await.unwrap();
    listed.into_iter().filter(|entry| entry.is_damaged).map(|entry| entry.path).collect()
}

/// Whether the damage is correct for a flipped bit in this byte of a content.
fn is_expected(byte: usize, damage: &Damage) -> bool {
    match byte {
        0..8 => *damage == Damage::NotEncrypted,
        8 => matches!(damage, Damage::UnknownFormat { .. }),
        9 | 11 => matches!(damage, Damage::Header(_)),
        10 => matches!(damage, Damage::Header(_) | Damage::Altered),
        12..28 => *damage == Damage::OtherStore,
        28..44 => *damage == Damage::OtherObject,
        44..60 => *damage == Damage::OtherDataKey,
        84..HEADER_BYTES => matches!(damage, Damage::Truncated | Damage::TrailingBytes | Damage::Header(_)),
        _ => *damage == Damage::Altered,
    }
}

async fn flip_each_bit(padding: Padding) {
    let victim = Victim::new(padding).await;
    let step = by_tier(13, 1);
    let mut flips = 0;
    for (object, bytes) in &victim.stored {
        // Short tiers skip bits, but covers all positions within a byte.
        for bit in (0..8 * bytes.len()).step_by(step) {
            let (byte, mut flipped) = (bit / 8, bytes.clone());
            flipped[byte] ^= 1 << (bit % 8);
            victim.put(object, flipped).await;
            if let Some(damage) = victim.expect_damage(object).await {
                assert!(is_expected(byte, &damage), "byte {byte}: {damage:?}");
            }
            if flips % 1_000 == 0 {
                victim.expect_damage_only_in(&[object]).await;
                assert_eq!(reopened(&victim).await.list(&StorePath::memories()).await.unwrap().len(), FILES);
            }
            flips += 1;
        }
        victim.restore(object).await;
    }
    assert!(flips * step >= 8 * victim.stored.values().map(Vec::len).sum::<usize>(), "{flips}");
    assert_eq!(contents(&victim.store).await, victim.files);
}

async fn reopened(victim: &Victim) -> EncryptedStore {
    open(&victim.inner, ring(1)).await
}

#[tokio::test]
async fn every_flipped_bit_is_detected() {
    flip_each_bit(Padding::None).await;
}

#[tokio::test]
async fn every_flipped_bit_is_detected_with_padding() {
    flip_each_bit(Padding::Multiple(NonZeroUsize::new(128).unwrap())).await;
}

#[tokio::test]
async fn truncation_at_any_length_is_detected() {
    let victim = Victim::new(Padding::None).await;
    for (object, bytes) in &victim.stored {
        for length in 0..bytes.len() {
            victim.put(object, bytes[..length].to_vec()).await;
            if let Some(damage) = victim.expect_damage(object).await {
                assert_eq!(damage, Damage::Truncated, "{length} of {}", bytes.len());
            }
        }
        victim.put(object, [bytes.as_slice(), b"\0"].concat()).await;
        if let Some(damage) = victim.expect_damage(object).await {
            assert_eq!(damage, Damage::TrailingBytes);
        }
        victim.restore(object).await;
    }
    assert_eq!(contents(&victim.store).await, victim.files);
}

#[tokio::test]
async fn damaged_files_can_be_removed_renamed_and_rewritten() {
    let victim = Victim::new(Padding::None).await;
    let files: Vec<_> = victim.objects.iter().collect();
    let [(broken, broken_object), (missing, missing_object), (plain, plain_object), (blocked, blocked_object), ..] =
        files[..]
    else {
        panic!("too few files");
    };
    victim.put(broken_object, vec![0; 10]).await;
    remove(&*victim.inner, missing_object).await;
    victim.put(plain_object, b"plain text".to_vec()).await;
    remove(&*victim.inner, blocked_object).await;
    write(&*victim.inner, &format!("{blocked_object}/file"), "x").await;
    let damages = victim.expect_damage_only_in(&[broken_object, missing_object, plain_object, blocked_object]).await;
    assert_eq!(damages[missing], Damage::Missing);
    assert_eq!(damages[plain], Damage::NotEncrypted);
    assert_eq!(damages[blocked], Damage::NotAFile);

    let moved = path("/memories/moved/away");
    let batch = Batch::new().rename(broken.clone(), moved.clone()).remove(blocked.clone());
    victim.store.apply(batch).await.unwrap();
    write(&victim.store, moved.as_str(), "new").await;
    write(&victim.store, missing.as_str(), "new").await;
    for file in [&moved, missing] {
        assert_eq!(content(&victim.store, file).await, b"new");
    }
    remove(&*victim.inner, &victim.objects[missing]).await;
    remove(&victim.store, &StorePath::memories()).await;
    assert_eq!(victim.store.list(&StorePath::memories()).await.unwrap(), []);
    let left: Vec<_> = contents(&*victim.inner).await.into_keys().collect();
    assert_eq!(left, [path("/memories/index-1"), path("/memories/index-2")]);
}

/// A listing detects missing and short objects itself. It reports a modified object after the store has read it once.
#[tokio::test]
async fn damaged_files_are_listed_as_damaged() {
    for padding in [Padding::None, Padding::Padme] {
        let victim = Victim::new(padding).await;
        let files: Vec<_> = victim.objects.iter().collect();
        let [(missing, missing_object), (short, short_object), (altered, altered_object)] =
            [files[0], files[1], files[2]];
        remove(&*victim.inner, missing_object).await;
        victim.put(short_object, victim.stored[short_object][..HEADER_BYTES].to_vec()).await;
        let mut flipped = victim.stored[altered_object].clone();
        *flipped.last_mut().unwrap() ^= 1;
        victim.put(altered_object, flipped).await;

        let store = reopened(&victim).await;
        assert_eq!(damaged_files(&store).await, BTreeSet::from([missing.clone(), short.clone()]));
        assert_eq!(problems(&store).await.len(), 3);
        assert_eq!(damaged_files(&store).await, BTreeSet::from([missing.clone(), short.clone(), altered.clone()]));
        let reply = Engine::new(store.clone()).call(json!({"command": "view", "path": "/memories"})).await.unwrap();
        for file in [missing, short, altered] {
            assert!(reply.to_string().contains(&format!("\ndamaged\t{file}\n")), "{reply}");
        }

        // The listing is correct after any repair: a restored object, a new file, a removal.
        victim.restore(altered_object).await;
        write(&reopened(&victim).await, missing.as_str(), "new").await;
        assert_eq!(damaged_files(&store).await, BTreeSet::from([short.clone()]));
        remove(&store, short).await;
        assert_eq!(damaged_files(&store).await, BTreeSet::new());
    }
}

#[tokio::test]
async fn the_next_write_of_the_index_repairs_a_damaged_copy() {
    let victim = Victim::new(Padding::None).await;
    for name in ["index-1", "index-2"] {
        let copy = path(&format!("/memories/{name}"));
        for damaged in [None, Some(b"".to_vec()), Some(b"plain text".to_vec()), Some(vec![0x8d; 4000])] {
            match damaged {
                None => remove(&*victim.inner, &copy).await,
                Some(bytes) => victim.put(&copy, bytes).await,
            }
            assert_eq!(contents(&victim.store).await, victim.files);
            assert_eq!(contents(&reopened(&victim).await).await, victim.files);
            write(&victim.store, "/memories/new", "new").await;
            remove(&reopened(&victim).await, &path("/memories/new")).await;
            assert!(stored(&*victim.inner, name).await.starts_with(b"\x8dMTE"));
        }
    }
}

/// A single restored copy of the index has no effect, because the other copy is newer.
#[tokio::test]
async fn an_older_copy_of_the_index_is_ignored() {
    let victim = Victim::new(Padding::None).await;
    write(&victim.store, "/memories/new", "new").await;
    let mut files = victim.files.clone();
    files.insert(path("/memories/new"), b"new".to_vec());
    for name in ["index-1", "index-2"] {
        victim.restore(&path(&format!("/memories/{name}"))).await;
        assert_eq!(contents(&victim.store).await, files);
        assert_eq!(contents(&reopened(&victim).await).await, files);
        write(&victim.store, "/memories/newer", "").await;
        remove(&victim.store, &path("/memories/newer")).await;
    }
}

/// An open store detects that the whole inner store was rolled back, for example to a backup.
#[tokio::test]
async fn a_rollback_is_refused_by_open_stores() {
    // The store that wrote the newer index, and a store that only read it.
    for reads in [false, true] {
        let victim = Victim::new(Padding::None).await;
        let reader = reopened(&victim).await;
        write(&victim.store, "/memories/new", "new").await;
        contents(&reader).await;
        for object in victim.inner.list(&StorePath::memories()).await.unwrap() {
            remove(&*victim.inner, &object.path).await;
        }
        for object in victim.stored.keys() {
            victim.restore(object).await;
        }
        let store = if reads { &reader } else { &victim.store };
        let read = async || store.read(victim.files.keys().next().unwrap()).await.map(drop);
        let change = async || store.apply(Batch::new().remove(path("/memories/directory-0"))).await;
        let all = [read().await, store.list(&StorePath::memories()).await.map(drop), change().await, read().await];
        for error in all.map(Result::unwrap_err) {
            let seen = FILES as u64 + 1;
            let EncryptionError::OlderIndex { seen: highest, found } = cause(&error) else { panic!("{error:?}") };
            assert_eq!((*highest, *found), (seen, seen - 1));
            assert!(matches!(error, StoreError::Failure { kind: ErrorKind::Damaged, .. }), "{error:?}");
        }
        assert_eq!(contents(&*victim.inner).await, victim.stored);
        // A newly opened store cannot detect the rollback.
        assert_eq!(contents(&reopened(&victim).await).await, victim.files);
        // After the same number of writes by others, the two histories have the same revision.
        let other = reopened(&victim).await;
        write(&other, "/memories/newer", "").await;
        assert_eq!(contents(store).await, contents(&other).await);
    }
}

/// An open store that has not seen the newest revision reads the first copy only. Verification reads both.
#[tokio::test]
async fn verification_finds_an_older_copy_of_the_index() {
    let victim = Victim::new(Padding::None).await;
    let idle = reopened(&victim).await;
    let first = path("/memories/index-1");
    write(&victim.store, "/memories/new", "new").await;
    let older = content(&*victim.inner, &first).await;
    write(&victim.store, "/memories/newer", "newer").await;
    victim.put(&first, older).await;
    let found = messages(&idle).await;
    let [older, foreign] = &found[..] else { panic!("{found:?}") };
    assert_eq!(older, OLDER);
    assert!(foreign.ends_with(" is not a part of the encrypted memory"), "{foreign}");
    assert_eq!(messages(&reopened(&victim).await).await, [OLDER]);
}

#[tokio::test]
async fn objects_of_another_store_are_reported() {
    let (victim, other) = (Victim::new(Padding::None).await, Victim::new(Padding::None).await);
    let (first, second) = (path("/memories/index-1"), path("/memories/index-2"));
    let (file, object) = victim.objects.iter().next().unwrap();
    victim.put(object, other.stored[&other.objects[file]].clone()).await;
    assert_eq!(victim.expect_damage_only_in(&[object]).await[file], Damage::OtherStore);
    victim.restore(object).await;

    victim.put(&first, other.stored[&first].clone()).await;
    assert_eq!(contents(&victim.store).await, victim.files);
    let unknown = crate::support::open_error(&victim.inner, ring(1)).await;
    assert!(matches!(open_cause(&unknown), EncryptionError::OtherStore), "{unknown:?}");
    victim.put(&second, other.stored[&second].clone()).await;
    let error = victim.store.read(file).await.unwrap_err();
    assert!(matches!(cause(&error), EncryptionError::OtherStore));
    // A newly opened store uses the index of the other store, whose objects are missing.
    let error = reopened(&victim).await.read(file).await.unwrap_err();
    assert_eq!(*damage(&error), Damage::Missing);
}

/// An open store does not become empty when all objects are removed.
#[tokio::test]
async fn removal_of_all_objects_is_detected() {
    let victim = Victim::new(Padding::None).await;
    remove(&*victim.inner, &StorePath::memories()).await;
    for error in [
        victim.store.read(&path("/memories/x")).await.unwrap_err(),
        victim.store.list(&StorePath::memories()).await.unwrap_err(),
        victim.store.apply(Batch::new().write(path("/memories/x"), Vec::new())).await.unwrap_err(),
    ] {
        assert!(matches!(cause(&error), EncryptionError::IndexMissing), "{error:?}");
    }
}

#[tokio::test]
async fn foreign_files_are_ignored() {
    let victim = Victim::new(Padding::None).await;
    for name in ["plain.txt", "deep/plain.txt", "index-3", "0123"] {
        write(&*victim.inner, &format!("/memories/{name}"), "plain text").await;
        assert_eq!(victim.store.read(&path(&format!("/memories/{name}"))).await.unwrap(), Node::Absent);
    }
    assert_eq!(contents(&reopened(&victim).await).await, victim.files);
}

/// The inner store does not follow symbolic links, so a link is damage.
#[cfg(unix)]
#[tokio::test]
async fn an_object_replaced_by_a_symbolic_link_is_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let memories = directory.path().join("memories");
    let open_inner = async || memory_tool_local::LocalStore::open(directory.path()).await.unwrap();
    let store = EncryptedStore::open(open_inner().await, ring(1)).await.unwrap();
    for file in ["/memories/a", "/memories/b"] {
        write(&store, file, "text").await;
    }
    let mut names: Vec<_> =
        std::fs::read_dir(&memories).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    for (name, damaged_files) in [(&names[0], 1), (&"index-1".to_owned(), 0), (&"index-2".to_owned(), 0)] {
        let (object, aside) = (memories.join(name), directory.path().join("aside"));
        std::fs::rename(&object, &aside).unwrap();
        std::os::unix::fs::symlink(&aside, &object).unwrap();
        let reopened = EncryptedStore::open(open_inner().await, ring(1)).await.unwrap();
        for store in [&store, &reopened] {
            assert_eq!(store.list(&StorePath::memories()).await.unwrap().len(), 2);
            let mut damages = Vec::new();
            for file in ["/memories/a", "/memories/b"] {
                damages.extend(store.read(&path(file)).await.err().map(|error| damage(&error).clone()));
            }
            assert_eq!(damages, vec![Damage::NotAFile; damaged_files], "{name}");
        }
        std::fs::remove_file(&object).unwrap();
        std::fs::rename(&aside, &object).unwrap();
    }
    // Removing the file leaves the link and its target in place.
    let (object, aside) = (memories.join(&names[0]), directory.path().join("aside"));
    std::fs::rename(&object, &aside).unwrap();
    std::os::unix::fs::symlink(&aside, &object).unwrap();
    let damaged = if store.read(&path("/memories/a")).await.is_err() { "/memories/a" } else { "/memories/b" };
    remove(&store, &path(damaged)).await;
    assert_eq!(store.list(&StorePath::memories()).await.unwrap().len(), 1);
    assert!(object.is_symlink() && aside.is_file());
    write(&store, damaged, "new").await;
    assert_eq!(problems(&store).await, []);
}

/// With padding, the index stores the size of a file, which detects an older ciphertext of another size.
#[tokio::test]
async fn an_older_ciphertext_of_another_size_is_detected_with_padding() {
    let victim = Victim::new(Padding::Padme).await;
    let (file, object) = victim.objects.iter().next().unwrap();
    write(&victim.store, file.as_str(), "content with a length that no file had before").await;
    victim.restore(object).await;
    let error = victim.store.read(file).await.unwrap_err();
    assert!(matches!(damage(&error), Damage::Content(_)), "{error:?}");
}

/// Truncated, unencrypted and missing records, and a record that was replaced with the object of a file.
#[tokio::test]
async fn records_are_protected_like_files() {
    let victim = Victim::new(Padding::None).await;
    let (file, file_object) = victim.objects.iter().next().unwrap();
    victim.store.apply(Batch::new().write(record("test/record"), "text")).await.unwrap();
    assert_eq!(content_of_record(&victim.store, "test/record").await, b"text");
    assert_eq!(contents(&victim.store).await, victim.files);
    let objects = contents(&*victim.inner).await;
    let object = objects.keys().find(|object| !victim.stored.contains_key(*object)).unwrap();
    let expect_damage = async |expected| {
        let error = victim.store.read_opts(&record("test/record"), ReadOptions::new()).await.unwrap_err();
        assert_eq!(*damage(&error), expected);
        let found = problems(&victim.store).await;
        let is_of_record = |problem: &&Problem| problem.message.starts_with("/records/test/record cannot be read");
        let of_record = found.iter().find(is_of_record).unwrap();
        assert_eq!((&of_record.path, of_record.object.as_ref()), (&Some(record("test/record")), Some(object)));
    };
    for (changed, expected) in [
        (objects[file_object].clone(), Damage::OtherObject),
        (objects[object][..100].to_vec(), Damage::Truncated),
        (b"plain text".to_vec(), Damage::NotEncrypted),
    ] {
        victim.put(object, changed).await;
        expect_damage(expected).await;
    }
    remove(&*victim.inner, object).await;
    expect_damage(Damage::Missing).await;
    victim.put(object, objects[object].clone()).await;
    assert_eq!(problems(&victim.store).await, []);

    // A damaged record can be rewritten and removed.
    victim.put(object, Vec::new()).await;
    victim.store.apply(Batch::new().write(record("test/record"), "new")).await.unwrap();
    assert_eq!(content_of_record(&reopened(&victim).await, "test/record").await, b"new");
    remove(&*victim.inner, object).await;
    victim.store.apply(Batch::new().remove(record("test/record"))).await.unwrap();
    assert_eq!(victim.store.read_opts(&record("test/record"), ReadOptions::new()).await.unwrap(), Node::Absent);
    assert_eq!(content(&victim.store, file).await, victim.files[file]);
}

#[tokio::test]
async fn verification_reports_all_problems() {
    let victim = Victim::new(Padding::None).await;
    let found = async || problems(&victim.store).await;
    let mut steps = Vec::new();
    let report = victim.store.verify(|progress| steps.push((progress.files, progress.of))).await.unwrap();
    assert_eq!((report.files, report.problems.len(), steps.len()), (FILES as u64, 0, FILES));
    assert_eq!(report.bytes, victim.files.values().map(|content| content.len() as u64).sum::<u64>());
    let nothing = open(&Arc::new(InMemoryStore::new()), ring(1)).await;
    assert_eq!(problems(&nothing).await, []);

    let (file, object) = victim.objects.iter().next().unwrap();
    victim.put(object, b"plain".to_vec()).await;
    let [problem] = &found().await[..] else { panic!() };
    assert_eq!((problem.path.as_ref(), problem.object.as_ref()), (Some(file), Some(object)));
    let message = format!("{file} cannot be read: reading failed: stored object {object} is damaged: not encrypted");
    assert_eq!(problem.message, message);
    victim.restore(object).await;
    let ciphertext = victim.stored[object].clone();
    let foreign =
        [("/memories/00112233445566778899aabbccddeeff", ciphertext), ("/memories/notes.txt", b"plain".to_vec())];
    for (file, content) in foreign {
        write(&*victim.inner, file, content).await;
        let [problem] = &found().await[..] else { panic!() };
        assert_eq!(problem.message, format!("{file} is not a part of the encrypted memory"));
        assert_eq!((&problem.path, &problem.object), (&None, &None), "the memory itself is intact");
        remove(&*victim.inner, &path(file)).await;
    }

    write(&victim.store, "/memories/new", "new").await;
    for copy in ["/memories/index-1", "/memories/index-2"].map(path) {
        let newer = content(&*victim.inner, &copy).await;
        victim.restore(&copy).await;
        assert_eq!(messages(&victim.store).await, [OLDER]);
        remove(&*victim.inner, &copy).await;
        let missing = format!("a copy of the index cannot be read: stored object {copy} is damaged: missing");
        assert_eq!(messages(&victim.store).await, [missing]);
        victim.put(&copy, newer).await;
        assert_eq!(found().await, []);
    }
}
