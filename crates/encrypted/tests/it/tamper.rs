//! Tampering: whatever is done to what is stored, no altered content is ever read, and what was not touched stays readable.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::Arc;

use crate::support::{
    cause, cause_of_opening, content, content_of_record, contents, damage, open, path, problems, record, remove, ring,
    stored, write,
};
use memory_tool_core::{
    Batch, Engine, FailureKind, InMemoryStore, MemoryPath, MemoryTool, Node, Store, StoreError, StoreExt,
};
use memory_tool_encrypted::{Damage, EncryptedStore, EncryptionError, Padding};
use memory_tool_test_fixtures::by_tier;
use serde_json::json;

const FILES: usize = 50;

/// What verifying reports of a copy of the index that somebody put back.
const OLDER: &str = "a copy of the index is older than the other";

async fn messages(store: &EncryptedStore) -> Vec<String> {
    problems(store).await.into_iter().map(|problem| problem.message).collect()
}
const HEADER_BYTES: usize = 92;

/// A store of 50 files, and everything that is stored of it.
struct Victim {
    inner: Arc<InMemoryStore>,
    store: EncryptedStore,
    files: BTreeMap<MemoryPath, Vec<u8>>,
    stored: BTreeMap<MemoryPath, Vec<u8>>,
    /// The ciphertext of each file.
    places: BTreeMap<MemoryPath, MemoryPath>,
}

impl Victim {
    async fn new(padding: Padding) -> Self {
        let inner = Arc::new(InMemoryStore::new());
        let store = EncryptedStore::builder(Arc::clone(&inner), ring(1)).padding(padding).open().await.unwrap();
        let (mut files, mut places) = (BTreeMap::new(), BTreeMap::new());
        let mut known = Vec::new();
        for number in 0..FILES {
            let file = path(&format!("/memories/directory-{}/{number}.txt", number % 7));
            let text = format!("text {number}").repeat(number % 5).into_bytes();
            write(&store, file.as_str(), text.clone()).await;
            let now: Vec<_> =
                inner.list(&MemoryPath::root()).await.unwrap().into_iter().map(|entry| entry.path).collect();
            let is_content = |place: &&MemoryPath| !place.as_str().contains("index") && !known.contains(*place);
            let place = now.iter().find(is_content).unwrap().clone();
            places.insert(file.clone(), place);
            files.insert(file, text);
            known = now;
        }
        let stored = contents(&*inner).await;
        assert_eq!(stored.len(), FILES + 2);
        Self { inner, store, files, stored, places }
    }

    async fn put(&self, place: &MemoryPath, bytes: Vec<u8>) {
        self.inner.apply(Batch::new().write(place.clone(), bytes)).await.unwrap();
    }

    async fn restore(&self, place: &MemoryPath) {
        self.put(place, self.stored[place].clone()).await;
    }

    /// The file whose ciphertext lies there; `None` for a copy of the index.
    fn file_at(&self, place: &MemoryPath) -> Option<&MemoryPath> {
        self.places.iter().find(|(_, its_place)| *its_place == place).map(|(file, _)| file)
    }

    /// Each file is as it was written, or, where its ciphertext is touched, an error. All are listed, these as damaged. Gives the
    /// damages.
    async fn expect_nothing_else(&self, touched: &[&MemoryPath]) -> BTreeMap<MemoryPath, Damage> {
        let mut damages = BTreeMap::new();
        for (file, written) in &self.files {
            if !touched.contains(&&self.places[file]) {
                assert_eq!(content(&self.store, file).await, *written, "{file}");
                continue;
            }
            match self.store.read(file).await {
                Ok(node) => panic!("{file} was tampered with and reads as {node:?}"),
                Err(error) => damages.insert(file.clone(), damage(&error).clone()),
            };
        }
        assert_eq!(damaged_files(&self.store).await, damages.keys().cloned().collect());
        assert_eq!(self.store.list(&MemoryPath::root()).await.unwrap().len(), self.files.len());
        damages
    }

    /// As above, but of the files that were not touched only one is read.
    async fn expect_damage(&self, place: &MemoryPath) -> Option<Damage> {
        let untouched = self.files.iter().find(|(file, _)| self.places[*file] != *place).unwrap();
        assert_eq!(content(&self.store, untouched.0).await, *untouched.1);
        match self.store.read(self.file_at(place)?).await {
            Ok(node) => panic!("{place} was tampered with, and there is {node:?}"),
            Err(error) => Some(damage(&error).clone()),
        }
    }
}

/// The files that are listed as damaged.
async fn damaged_files(store: &EncryptedStore) -> BTreeSet<MemoryPath> {
    let listed = store.list(&MemoryPath::root()).await.unwrap();
    listed.into_iter().filter(|entry| entry.is_damaged).map(|entry| entry.path).collect()
}

/// What is said of a flip of one bit of a content, by the place of the byte in the format.
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
    let step = by_tier(13, 1, 1);
    let mut flips = 0;
    for (place, bytes) in &victim.stored {
        // The default tier tries each bit of a byte, but not of each byte.
        for bit in (0..8 * bytes.len()).step_by(step) {
            let (byte, mut flipped) = (bit / 8, bytes.clone());
            flipped[byte] ^= 1 << (bit % 8);
            victim.put(place, flipped).await;
            if let Some(damage) = victim.expect_damage(place).await {
                assert!(is_expected(byte, &damage), "byte {byte}: {damage:?}");
            }
            if flips % 1_000 == 0 {
                victim.expect_nothing_else(&[place]).await;
                assert_eq!(reopened(&victim).await.list(&MemoryPath::root()).await.unwrap().len(), FILES);
            }
            flips += 1;
        }
        victim.restore(place).await;
    }
    assert!(flips * step >= 8 * victim.stored.values().map(Vec::len).sum::<usize>(), "{flips}");
    assert_eq!(contents(&victim.store).await, victim.files);
}

async fn reopened(victim: &Victim) -> EncryptedStore {
    open(&victim.inner, ring(1)).await
}

#[tokio::test]
async fn a_flip_of_any_bit_is_noticed() {
    flip_each_bit(Padding::None).await;
}

#[tokio::test]
async fn a_flip_of_any_bit_is_noticed_with_padding() {
    flip_each_bit(Padding::Multiple(NonZeroUsize::new(128).unwrap())).await;
}

#[tokio::test]
async fn an_end_that_is_missing_is_noticed_wherever_it_was_cut() {
    let victim = Victim::new(Padding::None).await;
    for (place, bytes) in &victim.stored {
        for length in 0..bytes.len() {
            victim.put(place, bytes[..length].to_vec()).await;
            if let Some(damage) = victim.expect_damage(place).await {
                assert_eq!(damage, Damage::Truncated, "{length} of {}", bytes.len());
            }
        }
        victim.put(place, [bytes.as_slice(), b"\0"].concat()).await;
        if let Some(damage) = victim.expect_damage(place).await {
            assert_eq!(damage, Damage::TrailingBytes);
        }
        victim.restore(place).await;
    }
    assert_eq!(contents(&victim.store).await, victim.files);
}

#[tokio::test]
async fn every_pair_of_ciphertexts_that_is_swapped_is_noticed() {
    let victim = Victim::new(Padding::None).await;
    let (first, second) = (path("/memories/index-1"), path("/memories/index-2"));
    for (left, left_bytes) in &victim.stored {
        for (right, right_bytes) in victim.stored.range(left..).skip(1) {
            victim.put(left, right_bytes.clone()).await;
            victim.put(right, left_bytes.clone()).await;
            if (left, right) == (&first, &second) {
                // Nothing else says what there is.
                let error = victim.store.list(&MemoryPath::root()).await.unwrap_err();
                assert_eq!(*damage(&error), Damage::OtherObject);
            } else {
                let damages = victim.expect_nothing_else(&[left, right]).await;
                assert!(damages.values().all(|damage| *damage == Damage::OtherObject), "{damages:?}");
            }
            victim.restore(left).await;
            victim.restore(right).await;
        }
    }
    assert_eq!(contents(&victim.store).await, victim.files);
}

/// A stored object by another name is gone from its own.
#[tokio::test]
async fn a_change_of_any_character_of_a_stored_name_is_noticed() {
    let victim = Victim::new(Padding::None).await;
    for (place, bytes) in &victim.stored {
        let name = place.file_name().unwrap();
        for (byte, character) in name.char_indices() {
            let other = if character == '0' { '1' } else { '0' };
            let changed = format!("/memories/{}{other}{}", &name[..byte], &name[byte + 1..]);
            remove(&*victim.inner, place).await;
            write(&*victim.inner, &changed, bytes.clone()).await;
            let damage = victim.expect_damage(place).await;
            assert!(damage.is_none_or(|damage| damage == Damage::Missing));
            remove(&*victim.inner, &path(&changed)).await;
            victim.restore(place).await;
        }
        remove(&*victim.inner, place).await;
        victim.expect_nothing_else(&[place]).await;
        victim.restore(place).await;
    }
    assert_eq!(contents(&victim.store).await, victim.files);
}

#[tokio::test]
async fn what_is_damaged_can_be_removed_renamed_and_written_anew() {
    let victim = Victim::new(Padding::None).await;
    let places: Vec<_> = victim.places.iter().collect();
    let [(broken, broken_place), (gone, gone_place), (plain, plain_place), (blocked, blocked_place), ..] = places[..]
    else {
        panic!("too few files");
    };
    victim.put(broken_place, vec![0; 10]).await;
    remove(&*victim.inner, gone_place).await;
    victim.put(plain_place, b"nobody encrypted this".to_vec()).await;
    remove(&*victim.inner, blocked_place).await;
    write(&*victim.inner, &format!("{blocked_place}/file"), "x").await;
    let damages = victim.expect_nothing_else(&[broken_place, gone_place, plain_place, blocked_place]).await;
    assert_eq!(damages[gone], Damage::Missing);
    assert_eq!(damages[plain], Damage::NotEncrypted);
    assert_eq!(damages[blocked], Damage::NotAFile);

    let moved = path("/memories/moved/away");
    let batch = Batch::new().rename(broken.clone(), moved.clone()).remove(blocked.clone());
    victim.store.apply(batch).await.unwrap();
    write(&victim.store, moved.as_str(), "as new").await;
    write(&victim.store, gone.as_str(), "as new").await;
    for file in [&moved, gone] {
        assert_eq!(content(&victim.store, file).await, b"as new");
    }
    remove(&*victim.inner, &victim.places[gone]).await;
    remove(&victim.store, &MemoryPath::root()).await;
    assert_eq!(victim.store.list(&MemoryPath::root()).await.unwrap(), []);
    let left: Vec<_> = contents(&*victim.inner).await.into_keys().collect();
    assert_eq!(left, [path("/memories/index-1"), path("/memories/index-2")]);
}

/// A listing knows of what is gone or too short at once, of what was altered once it was read, by whomever of this store.
#[tokio::test]
async fn damaged_files_are_listed_as_damaged() {
    for padding in [Padding::None, Padding::Padme] {
        let victim = Victim::new(padding).await;
        let places: Vec<_> = victim.places.iter().collect();
        let [(gone, gone_place), (short, short_place), (altered, altered_place)] = [places[0], places[1], places[2]];
        remove(&*victim.inner, gone_place).await;
        victim.put(short_place, victim.stored[short_place][..HEADER_BYTES].to_vec()).await;
        let mut flipped = victim.stored[altered_place].clone();
        *flipped.last_mut().unwrap() ^= 1;
        victim.put(altered_place, flipped).await;

        let store = reopened(&victim).await;
        assert_eq!(damaged_files(&store).await, BTreeSet::from([gone.clone(), short.clone()]));
        assert_eq!(problems(&store).await.len(), 3);
        assert_eq!(damaged_files(&store).await, BTreeSet::from([gone.clone(), short.clone(), altered.clone()]));
        let shown = Engine::new(store.clone()).call(json!({"command": "view", "path": "/memories"})).await.unwrap();
        for file in [gone, short, altered] {
            assert!(shown.to_string().contains(&format!("\ndamaged\t{file}\n")), "{shown}");
        }

        // Whoever repairs it, and however.
        victim.restore(altered_place).await;
        write(&reopened(&victim).await, gone.as_str(), "as new").await;
        assert_eq!(damaged_files(&store).await, BTreeSet::from([short.clone()]));
        remove(&store, short).await;
        assert_eq!(damaged_files(&store).await, BTreeSet::new());
    }
}

#[tokio::test]
async fn a_copy_of_the_index_that_is_lost_is_made_anew_by_the_next_write_of_it() {
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

/// A single copy of the index that somebody put back does no harm: the other is newer.
#[tokio::test]
async fn an_older_copy_of_the_index_is_not_believed() {
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

/// Everything is put back as it was, which a restored backup does as well: who has the store open does not take it for the present.
#[tokio::test]
async fn an_index_that_is_older_than_what_was_seen_is_refused() {
    // Who wrote the newer index, and who only read it.
    for reads in [false, true] {
        let victim = Victim::new(Padding::None).await;
        let reader = reopened(&victim).await;
        write(&victim.store, "/memories/new", "new").await;
        contents(&reader).await;
        for place in victim.inner.list(&MemoryPath::root()).await.unwrap() {
            remove(&*victim.inner, &place.path).await;
        }
        for place in victim.stored.keys() {
            victim.restore(place).await;
        }
        let store = if reads { &reader } else { &victim.store };
        let read = async || store.read(victim.files.keys().next().unwrap()).await.map(drop);
        let change = async || store.apply(Batch::new().remove(path("/memories/directory-0"))).await;
        let all = [read().await, store.list(&MemoryPath::root()).await.map(drop), change().await, read().await];
        for error in all.map(Result::unwrap_err) {
            let seen = FILES as u64 + 1;
            assert!(
                matches!(cause(&error), EncryptionError::OlderIndex { seen: s, found } if (*s, *found) == (seen, seen - 1))
            );
            assert!(matches!(error, StoreError::Failure { kind: FailureKind::Damaged, .. }), "{error:?}");
        }
        assert_eq!(contents(&*victim.inner).await, victim.stored);
        // Nobody else knows that there was more.
        assert_eq!(contents(&reopened(&victim).await).await, victim.files);
        // Once others have written it as often, nothing tells the two histories apart.
        let other = reopened(&victim).await;
        write(&other, "/memories/newer", "").await;
        assert_eq!(contents(store).await, contents(&other).await);
    }
}

/// Who has the store open and has not seen how new the index was looks at the first copy alone. Verifying looks at both.
#[tokio::test]
async fn an_older_copy_of_the_index_is_found_by_who_reads_it() {
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
async fn what_belongs_to_another_store_is_told() {
    let (victim, other) = (Victim::new(Padding::None).await, Victim::new(Padding::None).await);
    let (first, second) = (path("/memories/index-1"), path("/memories/index-2"));
    let (file, place) = victim.places.iter().next().unwrap();
    victim.put(place, other.stored[&other.places[file]].clone()).await;
    assert_eq!(victim.expect_nothing_else(&[place]).await[file], Damage::OtherStore);
    victim.restore(place).await;

    victim.put(&first, other.stored[&first].clone()).await;
    assert_eq!(contents(&victim.store).await, victim.files);
    let unknown = crate::support::open_error(&victim.inner, ring(1)).await;
    assert!(matches!(cause_of_opening(&unknown), EncryptionError::OtherStore), "{unknown:?}");
    victim.put(&second, other.stored[&second].clone()).await;
    let error = victim.store.read(file).await.unwrap_err();
    assert!(matches!(cause(&error), EncryptionError::OtherStore));
    // Who opens it now sees the other store, of whose files none is there.
    let error = reopened(&victim).await.read(file).await.unwrap_err();
    assert_eq!(*damage(&error), Damage::Missing);
}

/// While a store is open, it is not emptied by taking everything away.
#[tokio::test]
async fn a_store_that_vanishes_is_no_empty_store() {
    let victim = Victim::new(Padding::None).await;
    remove(&*victim.inner, &MemoryPath::root()).await;
    for error in [
        victim.store.read(&path("/memories/x")).await.unwrap_err(),
        victim.store.list(&MemoryPath::root()).await.unwrap_err(),
        victim.store.apply(Batch::new().write(path("/memories/x"), Vec::new())).await.unwrap_err(),
    ] {
        assert!(matches!(cause(&error), EncryptionError::IndexGone), "{error:?}");
    }
}

#[tokio::test]
async fn files_of_others_beside_the_ciphertexts_are_not_memory() {
    let victim = Victim::new(Padding::None).await;
    for name in ["plain.txt", "deep/plain.txt", "index-3", "0123"] {
        write(&*victim.inner, &format!("/memories/{name}"), "nobody encrypted this").await;
        assert_eq!(victim.store.read(&path(&format!("/memories/{name}"))).await.unwrap(), Node::Absent);
    }
    assert_eq!(contents(&reopened(&victim).await).await, victim.files);
}

/// The store beneath follows no link; here it is one more thing that is not what was written.
#[cfg(unix)]
#[tokio::test]
async fn a_link_in_the_place_of_a_ciphertext_is_damage() {
    let directory = tempfile::tempdir().unwrap();
    let memories = directory.path().join("memories");
    let store_beneath = async || memory_tool_local::LocalStore::open(directory.path()).await.unwrap();
    let store = EncryptedStore::open(store_beneath().await, ring(1)).await.unwrap();
    for file in ["/memories/a", "/memories/b"] {
        write(&store, file, "text").await;
    }
    let mut names: Vec<_> =
        std::fs::read_dir(&memories).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    for (name, damaged_files) in [(&names[0], 1), (&"index-1".to_owned(), 0), (&"index-2".to_owned(), 0)] {
        let (place, aside) = (memories.join(name), directory.path().join("aside"));
        std::fs::rename(&place, &aside).unwrap();
        std::os::unix::fs::symlink(&aside, &place).unwrap();
        let reopened = EncryptedStore::open(store_beneath().await, ring(1)).await.unwrap();
        for store in [&store, &reopened] {
            assert_eq!(store.list(&MemoryPath::root()).await.unwrap().len(), 2);
            let mut damages = Vec::new();
            for file in ["/memories/a", "/memories/b"] {
                damages.extend(store.read(&path(file)).await.err().map(|error| damage(&error).clone()));
            }
            assert_eq!(damages, vec![Damage::NotAFile; damaged_files], "{name}");
        }
        std::fs::remove_file(&place).unwrap();
        std::fs::rename(&aside, &place).unwrap();
    }
    // The file can be removed; the link stays, and what it leads to.
    let (place, aside) = (memories.join(&names[0]), directory.path().join("aside"));
    std::fs::rename(&place, &aside).unwrap();
    std::os::unix::fs::symlink(&aside, &place).unwrap();
    let damaged = if store.read(&path("/memories/a")).await.is_err() { "/memories/a" } else { "/memories/b" };
    remove(&store, &path(damaged)).await;
    assert_eq!(store.list(&MemoryPath::root()).await.unwrap().len(), 1);
    assert!(place.is_symlink() && aside.is_file());
    write(&store, damaged, "as new").await;
    assert_eq!(problems(&store).await, []);
}

/// With padding, the index has the size of a file: an older state of another size is noticed.
#[tokio::test]
async fn an_older_ciphertext_of_another_size_is_noticed_with_padding() {
    let victim = Victim::new(Padding::Padme).await;
    let (file, place) = victim.places.iter().next().unwrap();
    write(&victim.store, file.as_str(), "a text of a length that no file had").await;
    victim.restore(place).await;
    let error = victim.store.read(file).await.unwrap_err();
    assert!(matches!(damage(&error), Damage::Content(_)), "{error:?}");
}

/// A record whose ciphertext is altered or swapped with that of a file, and that of a file in the place of a record.
#[tokio::test]
async fn a_record_is_protected_as_a_file_is() {
    let victim = Victim::new(Padding::None).await;
    let (file, place) = victim.places.iter().next().unwrap();
    victim.store.apply(Batch::new().write_record(record("test/record"), "text")).await.unwrap();
    assert_eq!(content_of_record(&victim.store, "test/record").await, b"text");
    assert_eq!(contents(&victim.store).await, victim.files);
    let objects = contents(&*victim.inner).await;
    let object = objects.keys().find(|object| !victim.stored.contains_key(*object)).unwrap();
    let expect_damage = async |expected| {
        let error = victim.store.read_record(&record("test/record")).await.unwrap_err();
        assert_eq!(*damage(&error), expected);
        let found = problems(&victim.store).await;
        let of_record = found.iter().find(|problem| problem.message.starts_with("the record test/record")).unwrap();
        assert_eq!((&of_record.path, of_record.object.as_ref()), (&None, Some(object)));
    };
    for (changed, expected) in [
        (objects[place].clone(), Damage::OtherObject),
        (objects[object][..100].to_vec(), Damage::Truncated),
        (b"nobody encrypted this".to_vec(), Damage::NotEncrypted),
    ] {
        victim.put(object, changed).await;
        expect_damage(expected).await;
    }
    remove(&*victim.inner, object).await;
    expect_damage(Damage::Missing).await;
    victim.put(object, objects[object].clone()).await;
    assert_eq!(problems(&victim.store).await, []);

    // What is damaged can be written and removed.
    victim.put(object, Vec::new()).await;
    victim.store.apply(Batch::new().write_record(record("test/record"), "as new")).await.unwrap();
    assert_eq!(content_of_record(&reopened(&victim).await, "test/record").await, b"as new");
    remove(&*victim.inner, object).await;
    victim.store.apply(Batch::new().remove_record(record("test/record"))).await.unwrap();
    assert_eq!(victim.store.read_record(&record("test/record")).await.unwrap(), None);
    assert_eq!(content(&victim.store, file).await, victim.files[file]);
}

#[tokio::test]
async fn everything_that_is_wrong_is_found() {
    let victim = Victim::new(Padding::None).await;
    let found = async || problems(&victim.store).await;
    let mut steps = Vec::new();
    let report = victim.store.verify(|progress| steps.push((progress.files, progress.of))).await.unwrap();
    assert_eq!((report.files, report.problems.len(), steps.len()), (FILES as u64, 0, FILES));
    assert_eq!(report.bytes, victim.files.values().map(|content| content.len() as u64).sum::<u64>());
    let nothing = open(&Arc::new(InMemoryStore::new()), ring(1)).await;
    assert_eq!(problems(&nothing).await, []);

    let (file, place) = victim.places.iter().next().unwrap();
    victim.put(place, b"plain".to_vec()).await;
    let [problem] = &found().await[..] else { panic!() };
    assert_eq!((problem.path.as_ref(), problem.object.as_ref()), (Some(file), Some(place)));
    let message = format!(
        "{file} cannot be read: reading failed: the stored object {place} is not as it was written: it is not encrypted"
    );
    assert_eq!(problem.message, message);
    victim.restore(place).await;
    let ciphertext = victim.stored[place].clone();
    let foreign =
        [("/memories/00112233445566778899aabbccddeeff", ciphertext), ("/memories/notes.txt", b"plain".to_vec())];
    for (file, content) in foreign {
        write(&*victim.inner, file, content).await;
        let [problem] = &found().await[..] else { panic!() };
        assert_eq!(problem.message, format!("{file} is not a part of the encrypted memory"));
        assert_eq!((&problem.path, &problem.object), (&None, &None), "nothing of the memory is damaged");
        remove(&*victim.inner, &path(file)).await;
    }

    write(&victim.store, "/memories/new", "new").await;
    for copy in ["/memories/index-1", "/memories/index-2"].map(path) {
        let newer = content(&*victim.inner, &copy).await;
        victim.restore(&copy).await;
        assert_eq!(messages(&victim.store).await, [OLDER]);
        remove(&*victim.inner, &copy).await;
        let missing = format!(
            "a copy of the index cannot be read: the stored object {copy} is not as it was written: it is gone"
        );
        assert_eq!(messages(&victim.store).await, [missing]);
        victim.put(&copy, newer).await;
        assert_eq!(found().await, []);
    }
}
