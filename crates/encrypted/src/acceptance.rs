//! What a reader accepts, and in which order it checks: what `docs/encryption.md` says of it.

use std::num::NonZeroUsize;
use std::sync::Arc;

use memory_tool_core::{InMemoryStore, MemoryPath, OpenError, StoreError, StoreExt};

use crate::cipher::{Cipher, Nonce};
use crate::failure::{Damage, EncryptionError};
use crate::header::{Header, IndexCopy, ObjectName, parse};
use crate::keys::{KeyProvider, KeyRing, RawKey};
use crate::object::{open, seal};
use crate::padding::Padding;
use crate::store::EncryptedStore;

const FILE: &str = "/memories/file";

/// A change to a stored object, and what a reader then finds.
type Fault = (fn(&mut Vec<u8>), Damage);

/// The faults of every object, in the order in which they are found.
const OF_ALL: [Fault; 7] = [
    (|stored| stored[0] ^= 1, Damage::NotEncrypted),
    (|stored| stored[8] = 2, Damage::UnknownFormat { found: 2, known: 1 }),
    (|stored| stored[10] |= 2, Damage::Header("it has flags that nobody knows")),
    (|stored| stored[11] = 1, Damage::Header("it has flags that nobody knows")),
    (|stored| stored[9] = 3, Damage::Header("it is neither an index nor a content")),
    (
        |stored| stored[84..92].copy_from_slice(&15_u64.to_be_bytes()),
        Damage::Header("its ciphertext is too short to be one"),
    ),
    (|stored| stored.truncate(stored.len() - 1), Damage::Truncated),
];

/// The faults of a content, after those of every object.
const OF_CONTENT: [Fault; 4] = [
    (|stored| stored[12] ^= 1, Damage::OtherStore),
    (|stored| stored[28] ^= 1, Damage::OtherPlace),
    (|stored| stored[44] ^= 1, Damage::OtherDataKey),
    (|stored| stored[60] ^= 1, Damage::Altered),
];

/// The faults of an index, after those of every object. Its store comes after its tag, as it is not known before.
const OF_INDEX: [Fault; 3] = [
    (|stored| stored[43] ^= 1, Damage::OtherPlace),
    (|stored| stored[44] ^= 1, Damage::Header("it has no slot for its own data key")),
    (|stored| stored[12] ^= 1, Damage::Altered),
];

fn key() -> RawKey {
    RawKey::from_bytes([1; 32])
}

async fn open_store(inner: &Arc<InMemoryStore>) -> Result<EncryptedStore, OpenError> {
    EncryptedStore::open(Arc::clone(inner), KeyRing::new(key())).await
}

fn damage(error: &OpenError) -> Damage {
    match std::error::Error::source(error).and_then(|source| source.downcast_ref()) {
        Some(EncryptionError::Damaged { damage, .. }) => damage.clone(),
        other => panic!("{other:?}"),
    }
}

/// A store of one file.
async fn store_of_one_file() -> Arc<InMemoryStore> {
    let inner = Arc::new(InMemoryStore::new());
    open_store(&inner).await.unwrap().write(FILE, "text").await.unwrap();
    inner
}

async fn stored(inner: &InMemoryStore, place: &MemoryPath) -> Vec<u8> {
    inner.read(place).await.unwrap().into_file().unwrap().content
}

async fn put(inner: &InMemoryStore, place: MemoryPath, bytes: Vec<u8>) {
    inner.write(place, bytes).await.unwrap();
}

/// Of all faults from each one on, that one is found.
fn cases(faults: &[Fault], whole: &[u8]) -> Vec<(Vec<u8>, Damage)> {
    let all = [&OF_ALL, faults].concat();
    let with_faults_from = |first: usize| {
        let mut bytes = whole.to_vec();
        // From the last one on, since one of them cuts the object.
        all[first..].iter().rev().for_each(|(fault, _)| fault(&mut bytes));
        (bytes, all[first].1.clone())
    };
    (0..all.len()).map(with_faults_from).collect()
}

#[tokio::test]
async fn faults_of_a_content_are_found_in_order() {
    let inner = store_of_one_file().await;
    let files = inner.list(&MemoryPath::root()).await.unwrap();
    let place = files.into_iter().map(|file| file.path).find(|path| !path.as_str().contains("index")).unwrap();
    let whole = stored(&inner, &place).await;
    let store = open_store(&inner).await.unwrap();
    for (bytes, expected) in cases(&OF_CONTENT, &whole) {
        put(&inner, place.clone(), bytes).await;
        let Err(StoreError::Failure { source, .. }) = store.read(FILE).await else { panic!() };
        match source.downcast_ref() {
            Some(EncryptionError::Damaged { damage, .. }) => assert_eq!(*damage, expected),
            other => panic!("{other:?} instead of {expected:?}"),
        }
    }
}

#[tokio::test]
async fn faults_of_an_index_are_found_in_order() {
    let inner = store_of_one_file().await;
    let [first, second] = [IndexCopy::First, IndexCopy::Second].map(|copy| ObjectName::Index(copy).path());
    let whole = stored(&inner, &first).await;
    inner.remove(second).await.unwrap();
    for (bytes, expected) in cases(&OF_INDEX, &whole) {
        put(&inner, first.clone(), bytes).await;
        assert_eq!(damage(&open_store(&inner).await.unwrap_err()), expected);
    }
}

/// The header has to be whole before its kind is looked at, and the ends of both are looked for before what follows.
#[test]
fn an_end_is_found_missing_between_the_flags_and_the_kind() {
    let header = [b"\x8dMTE\r\n\x1a\n\x01\x03\0\0".as_slice(), &[0; 80]].concat();
    assert_eq!(parse(&header).unwrap_err(), Damage::Header("it is neither an index nor a content"));
    for length in 0..header.len() {
        assert_eq!(parse(&header[..length]).unwrap_err(), Damage::Truncated, "{length}");
    }
    let mut with_flags = header[..12].to_vec();
    with_flags[10] = 2;
    assert_eq!(parse(&with_flags).unwrap_err(), Damage::Header("it has flags that nobody knows"));
    let longer = [header.as_slice(), &[0; 17]].concat();
    let longer: Vec<_> = longer
        .iter()
        .enumerate()
        .map(|(at, byte)| match at {
            9 => 2,
            91 => 16,
            _ => *byte,
        })
        .collect();
    assert_eq!(parse(&longer).unwrap_err(), Damage::TrailingBytes);
}

/// A writer fills an index up to a multiple of 1,024 bytes. A reader goes by the flag alone.
#[tokio::test]
async fn an_index_is_read_however_it_is_padded() {
    let inner = store_of_one_file().await;
    for padding in [None, Some(1), Some(7), Some(4096)] {
        let padding = padding.map_or(Padding::None, |size| Padding::Multiple(NonZeroUsize::new(size).unwrap()));
        for copy in [IndexCopy::First, IndexCopy::Second] {
            let place = ObjectName::Index(copy);
            let whole = stored(&inner, &place.path()).await;
            let (header, head) = parse(&whole).unwrap();
            let cipher = Cipher::new(&key().unwrap(&header.slots[0].wrapped).await.unwrap());
            let encoded = open(&header, &cipher, head, whole).unwrap();
            let header = Header { is_padded: padding != Padding::None, nonce: Nonce::random().unwrap(), ..header };
            put(&inner, place.path(), seal(&header, &cipher, padding, &encoded).unwrap()).await;
        }
        let store = open_store(&inner).await.unwrap();
        assert_eq!(store.read_to_string(FILE).await.unwrap(), "text", "{padding:?}");
        assert_eq!(store.verify(|_| {}).await.unwrap().problems, [], "{padding:?}");
    }
}

/// The flag without the mark of the end, such as where nothing but zeros follow.
#[tokio::test]
async fn an_index_without_the_padding_that_its_flag_says_is_refused() {
    let inner = store_of_one_file().await;
    for copy in [IndexCopy::First, IndexCopy::Second] {
        let place = ObjectName::Index(copy);
        let whole = stored(&inner, &place.path()).await;
        let (header, head) = parse(&whole).unwrap();
        let cipher = Cipher::new(&key().unwrap(&header.slots[0].wrapped).await.unwrap());
        let mut zeros = Vec::new();
        header.encode(1024 + 16, &mut zeros).unwrap();
        let length = zeros.len();
        assert_eq!(length, head);
        zeros.resize(length + 1024, 0);
        cipher.seal(&header.nonce, length, &mut zeros).unwrap();
        put(&inner, place.path(), zeros).await;
    }
    assert_eq!(damage(&open_store(&inner).await.unwrap_err()), Damage::Content("its padding is none"));
}

#[test]
fn a_passphrase_has_the_slot_of_its_name() {
    assert_eq!(crate::keys::Passphrase::new("text").unwrap().key_id().as_str(), "passphrase");
}
