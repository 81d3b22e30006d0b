//! Tests of the checks of a reader and their order, as `docs/encryption.md` specifies them.

use std::num::NonZeroUsize;
use std::sync::Arc;

use memory_tool_core::{InMemoryStore, OpenError, StoreError, StoreExt, StorePath};

use crate::cipher::{Cipher, Nonce};
use crate::failure::{Damage, EncryptionError};
use crate::header::{Header, IndexCopy, ObjectName, parse};
use crate::keys::{KeyProvider, KeyRing, RawKey};
use crate::object::{open, seal};
use crate::padding::Padding;
use crate::store::EncryptedStore;

const FILE: &str = "/memories/file";

/// A change to a stored object, and the damage that a reader then reports.
type Fault = (fn(&mut Vec<u8>), Damage);

/// The faults of any object, in the order of the checks.
const COMMON_FAULTS: [Fault; 7] = [
    (|stored| stored[0] ^= 1, Damage::NotEncrypted),
    (|stored| stored[8] = 2, Damage::UnknownFormat { found: 2, known: 1 }),
    (|stored| stored[10] |= 2, Damage::Header("unknown flags")),
    (|stored| stored[11] = 1, Damage::Header("unknown flags")),
    (|stored| stored[9] = 3, Damage::Header("neither an index nor a content")),
    (|stored| stored[84..92].copy_from_slice(&15_u64.to_be_bytes()), Damage::Header("ciphertext shorter than its tag")),
    (|stored| stored.truncate(stored.len() - 1), Damage::Truncated),
];

/// The faults of a content, checked after the common faults.
const CONTENT_FAULTS: [Fault; 4] = [
    (|stored| stored[12] ^= 1, Damage::OtherStore),
    (|stored| stored[28] ^= 1, Damage::OtherObject),
    (|stored| stored[44] ^= 1, Damage::OtherDataKey),
    (|stored| stored[60] ^= 1, Damage::Altered),
];

/// The faults of an index, checked after the common faults. Its store id can only be checked after its tag.
const INDEX_FAULTS: [Fault; 3] = [
    (|stored| stored[43] ^= 1, Damage::OtherObject),
    (|stored| stored[44] ^= 1, Damage::Header("no slot for its own data key")),
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

async fn store_of_one_file() -> Arc<InMemoryStore> {
    let inner = Arc::new(InMemoryStore::new());
    open_store(&inner).await.unwrap().write(FILE, "text").await.unwrap();
    inner
}

async fn stored(inner: &InMemoryStore, object: &StorePath) -> Vec<u8> {
    inner.read(object).await.unwrap().into_file().unwrap().content
}

async fn put(inner: &InMemoryStore, object: StorePath, bytes: Vec<u8>) {
    inner.write(object, bytes).await.unwrap();
}

/// For each fault, an object with that fault and all later faults. A reader must report the first.
fn cases(faults: &[Fault], whole: &[u8]) -> Vec<(Vec<u8>, Damage)> {
    let all = [&COMMON_FAULTS, faults].concat();
    let with_faults_from = |first: usize| {
        let mut bytes = whole.to_vec();
        // In reverse order, because one of the faults truncates the object.
        all[first..].iter().rev().for_each(|(fault, _)| fault(&mut bytes));
        (bytes, all[first].1.clone())
    };
    (0..all.len()).map(with_faults_from).collect()
}

#[tokio::test]
async fn faults_of_a_content_are_reported_in_order() {
    let inner = store_of_one_file().await;
    let files = inner.list(&StorePath::memories()).await.unwrap();
    let object = files.into_iter().map(|file| file.path).find(|path| !path.as_str().contains("index")).unwrap();
    let whole = stored(&inner, &object).await;
    let store = open_store(&inner).await.unwrap();
    for (bytes, expected) in cases(&CONTENT_FAULTS, &whole) {
        put(&inner, object.clone(), bytes).await;
        let Err(StoreError::Failure { source, .. }) = store.read(FILE).await else { panic!() };
        match source.downcast_ref() {
            Some(EncryptionError::Damaged { damage, .. }) => assert_eq!(*damage, expected),
            other => panic!("{other:?} instead of {expected:?}"),
        }
    }
}

#[tokio::test]
async fn faults_of_an_index_are_reported_in_order() {
    let inner = store_of_one_file().await;
    let [first, second] = [IndexCopy::First, IndexCopy::Second].map(|copy| ObjectName::Index(copy).path());
    let whole = stored(&inner, &first).await;
    inner.remove(second).await.unwrap();
    for (bytes, expected) in cases(&INDEX_FAULTS, &whole) {
        put(&inner, first.clone(), bytes).await;
        assert_eq!(damage(&open_store(&inner).await.unwrap_err()), expected);
    }
}

/// A reader checks that the header is complete after it checks the flags, and before it checks the kind.
#[test]
fn truncation_is_reported_after_the_flags_and_before_the_kind() {
    let header = [b"\x8dMTE\r\n\x1a\n\x01\x03\0\0".as_slice(), &[0; 80]].concat();
    assert_eq!(parse(&header).unwrap_err(), Damage::Header("neither an index nor a content"));
    for length in 0..header.len() {
        assert_eq!(parse(&header[..length]).unwrap_err(), Damage::Truncated, "{length}");
    }
    let mut with_flags = header[..12].to_vec();
    with_flags[10] = 2;
    assert_eq!(parse(&with_flags).unwrap_err(), Damage::Header("unknown flags"));
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

/// A writer pads an index to a multiple of 1,024 bytes. A reader relies on the flag only.
#[tokio::test]
async fn an_index_with_any_padding_is_read() {
    let inner = store_of_one_file().await;
    for padding in [None, Some(1), Some(7), Some(4096)] {
        let padding = padding.map_or(Padding::None, |size| Padding::Multiple(NonZeroUsize::new(size).unwrap()));
        for copy in [IndexCopy::First, IndexCopy::Second] {
            let object = ObjectName::Index(copy);
            let whole = stored(&inner, &object.path()).await;
            let (header, head) = parse(&whole).unwrap();
            let cipher = Cipher::new(&key().unwrap(&header.slots[0].wrapped).await.unwrap());
            let encoded = open(&header, &cipher, head, whole).unwrap();
            let header = Header { is_padded: padding != Padding::None, nonce: Nonce::random().unwrap(), ..header };
            put(&inner, object.path(), seal(&header, &cipher, padding, &encoded).unwrap()).await;
        }
        let store = open_store(&inner).await.unwrap();
        assert_eq!(store.read_to_string(FILE).await.unwrap(), "text", "{padding:?}");
        assert_eq!(store.verify(|_| {}).await.unwrap().problems, [], "{padding:?}");
    }
}

/// The flag is set, but the plaintext consists of zeros without an end marker.
#[tokio::test]
async fn a_padded_index_without_an_end_marker_is_refused() {
    let inner = store_of_one_file().await;
    for copy in [IndexCopy::First, IndexCopy::Second] {
        let object = ObjectName::Index(copy);
        let whole = stored(&inner, &object.path()).await;
        let (header, head) = parse(&whole).unwrap();
        let cipher = Cipher::new(&key().unwrap(&header.slots[0].wrapped).await.unwrap());
        let mut zeros = Vec::new();
        header.encode(1024 + 16, &mut zeros).unwrap();
        let length = zeros.len();
        assert_eq!(length, head);
        zeros.resize(length + 1024, 0);
        cipher.seal(&header.nonce, length, &mut zeros).unwrap();
        put(&inner, object.path(), zeros).await;
    }
    assert_eq!(damage(&open_store(&inner).await.unwrap_err()), Damage::Content("invalid padding"));
}

#[test]
fn the_default_name_of_a_passphrase_is_passphrase() {
    assert_eq!(crate::keys::Passphrase::new("text").unwrap().key_id().as_str(), "passphrase");
}
