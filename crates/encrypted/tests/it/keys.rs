//! Sources of keys and calls to key providers.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::support::{cause, content, contents, key, open, open_cause, path, write};
use async_trait::async_trait;
use memory_tool_core::{ErrorKind, InMemoryStore, Store, StoreError};
use memory_tool_encrypted::{
    DataKey, EncryptedStore, EncryptionError, KeyError, KeyId, KeyProvider, KeyRing, KeySourceError, Passphrase, RawKey,
};
use serde_json::Value;

/// A key service that counts its calls and can be unavailable.
#[derive(Debug)]
struct KeyService {
    key: RawKey,
    wraps: AtomicUsize,
    unwraps: AtomicUsize,
    is_down: AtomicBool,
}

impl KeyService {
    fn new(key: RawKey) -> Arc<Self> {
        let (wraps, unwraps) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { key, wraps, unwraps, is_down: AtomicBool::new(false) })
    }

    fn calls(&self) -> (usize, usize) {
        (self.wraps.load(Ordering::SeqCst), self.unwraps.load(Ordering::SeqCst))
    }

    fn check_available(&self) -> Result<(), KeyError> {
        if self.is_down.load(Ordering::SeqCst) { Err(KeyError::unavailable("service is down")) } else { Ok(()) }
    }
}

#[async_trait]
impl KeyProvider for KeyService {
    fn key_id(&self) -> &KeyId {
        self.key.key_id()
    }

    async fn wrap(&self, data_key: &DataKey) -> Result<Vec<u8>, KeyError> {
        self.wraps.fetch_add(1, Ordering::SeqCst);
        self.check_available()?;
        self.key.wrap(data_key).await
    }

    async fn unwrap(&self, wrapped: &[u8]) -> Result<DataKey, KeyError> {
        self.unwraps.fetch_add(1, Ordering::SeqCst);
        self.check_available()?;
        self.key.unwrap(wrapped).await
    }
}

#[tokio::test]
async fn a_provider_is_called_once() {
    let inner = Arc::new(InMemoryStore::new());
    let service = KeyService::new(key(1));
    let store = open(&inner, KeyRing::new(Arc::clone(&service))).await;
    for number in 0..10 {
        write(&store, &format!("/memories/{number}"), "text").await;
    }
    contents(&store).await;
    assert_eq!(service.calls(), (1, 0));
    let store = open(&inner, KeyRing::new(Arc::clone(&service))).await;
    write(&store, "/memories/0", "text").await;
    contents(&store).await;
    assert_eq!(service.calls(), (1, 1));
}

/// The slot of the previous key has the name of the new key. The new key is tried on it once, not with each write.
#[tokio::test]
async fn a_wrong_key_is_tried_once() {
    let inner = Arc::new(InMemoryStore::new());
    let named = |byte| RawKey::from_bytes([byte; 32]).with_id("key".parse().unwrap());
    write(&open(&inner, KeyRing::new(named(1))).await, "/memories/old", "text").await;
    let wrong = KeyService::new(named(2));
    EncryptedStore::open(Arc::clone(&inner), KeyRing::new(Arc::clone(&wrong))).await.unwrap_err();
    assert_eq!(wrong.calls(), (0, 1)); // although both copies of the index have the slot

    let new = KeyService::new(named(2));
    let store = open(&inner, KeyRing::new(Arc::clone(&new)).with(named(1))).await;
    for number in 0..5 {
        write(&store, &format!("/memories/{number}"), "text").await;
    }
    assert_eq!(contents(&store).await.len(), 6);
    assert_eq!(new.calls(), (0, 1)); // the store keeps its key
    store.rekey(|_| {}).await.unwrap();
    assert_eq!(contents(&store).await.len(), 6);
    assert_eq!(new.calls(), (1, 1));
}

#[tokio::test]
async fn an_unavailable_provider_is_reported_and_called_again() {
    let inner = Arc::new(InMemoryStore::new());
    let service = KeyService::new(key(1));
    let keys = KeyRing::new(Arc::clone(&service));
    service.is_down.store(true, Ordering::SeqCst);
    let store = open(&inner, keys.clone()).await;
    let batch = || memory_tool_core::Batch::new().write(path("/memories/a"), b"text".to_vec());
    let error = store.apply(batch()).await.unwrap_err();
    assert!(
        matches!(cause(&error), EncryptionError::Wrapping { source: KeyError::Unavailable { .. }, .. }),
        "{error:?}"
    );
    assert!(matches!(error, StoreError::Failure { kind: ErrorKind::Other, .. }));
    service.is_down.store(false, Ordering::SeqCst);
    store.apply(batch()).await.unwrap();

    service.is_down.store(true, Ordering::SeqCst);
    let error = EncryptedStore::open(Arc::clone(&inner), keys.clone()).await.unwrap_err();
    let error = open_cause(&error);
    assert!(matches!(error, EncryptionError::Key { source: KeyError::Unavailable { .. }, .. }), "{error:?}");
    // The open store already has its data key.
    assert_eq!(content(&store, &path("/memories/a")).await, b"text");
    service.is_down.store(false, Ordering::SeqCst);
    open(&inner, keys).await;
}

/// Writes a file that only its owner can access.
fn write_secret(path: &Path, content: &[u8]) {
    fs::write(path, content).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }
}

#[tokio::test]
async fn keys_and_passphrases_are_read_from_files() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("secret");
    let key = RawKey::generate().unwrap();
    let text = key.to_hex();
    for content in [text.as_bytes(), format!("{}\n", *text).as_bytes(), &[b' '; 64]] {
        write_secret(&file, content);
        match RawKey::from_file(&file).await {
            Ok(read) => assert_eq!(*read.to_hex(), *text),
            Err(error) => assert!(matches!(error, KeySourceError::NotAKey) && content[0] == b' ', "{error:?}"),
        }
    }
    write_secret(&file, &[7; 32]);
    assert_eq!(*RawKey::from_file(&file).await.unwrap().to_hex(), "07".repeat(32));

    write_secret(&file, b"correct horse\r\n");
    let inner = Arc::new(InMemoryStore::new());
    write(&open(&inner, KeyRing::new(Passphrase::from_file(&file).await.unwrap())).await, "/memories/a", "x").await;
    open(&inner, KeyRing::new(Passphrase::new("correct horse").unwrap())).await;
    let missing = directory.path().join("missing");
    assert!(matches!(RawKey::from_file(missing).await, Err(KeySourceError::File { .. })));
}

/// Passphrases that were passed as keys, with and without a line break, and a truncated key.
#[tokio::test]
async fn a_key_file_of_32_printable_characters_is_refused_with_advice() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("secret");
    for text in [
        "correct horse battery staple 123",
        "correct horse battery staple 12\n",
        "größere Schlüssel sind besser",
        &"07".repeat(16),
    ] {
        assert_eq!(text.len(), 32);
        write_secret(&file, text.as_bytes());
        let error = RawKey::from_file(&file).await.unwrap_err();
        assert!(matches!(error, KeySourceError::TextOf32Bytes), "{error:?}");
        for advice in ["--passphrase-file", "64 hexadecimal digits"] {
            assert!(error.to_string().contains(advice), "{error}");
        }
        Passphrase::from_file(&file).await.unwrap();
    }
    for key in [[0; 32], [0x1b; 32], [0x80; 32]] {
        write_secret(&file, &key);
        RawKey::from_file(&file).await.unwrap();
    }
}

/// `é` is one character on some keyboards and two on others. Both forms are the same passphrase.
#[tokio::test]
async fn passphrases_are_normalized() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("secret");
    let (composed, decomposed) = ("caf\u{e9} au lait", "cafe\u{301} au lait");
    let inner = Arc::new(InMemoryStore::new());
    write(&open(&inner, KeyRing::new(Passphrase::new(decomposed).unwrap())).await, "/memories/a", "x").await;
    open(&inner, KeyRing::new(Passphrase::new(composed).unwrap())).await;
    write_secret(&file, format!("{decomposed}\n").as_bytes());
    open(&inner, KeyRing::new(Passphrase::from_file(&file).await.unwrap())).await;
    for other in ["cafe au lait", "Caf\u{e9} au lait", "caf\u{e9} au lait "] {
        let keys = KeyRing::new(Passphrase::new(other).unwrap());
        EncryptedStore::open(Arc::clone(&inner), keys).await.unwrap_err();
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hexadecimal: &Value) -> Vec<u8> {
    let digits = hexadecimal.as_str().unwrap().as_bytes().chunks(2);
    digits.map(|digits| u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap()).collect()
}

/// The rules of `docs/encryption.md` for key files and passphrase files, with the vectors that `check.py` uses.
#[tokio::test]
async fn key_files_and_passphrase_files_match_the_vectors() {
    let vectors: Value = serde_json::from_str(include_str!("../vectors/keys.json")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("secret");
    for vector in vectors["key_files"].as_array().unwrap() {
        write_secret(&file, &bytes(&vector["file"]));
        let key = RawKey::from_file(&file).await.ok().map(|key| key.to_hex().to_string());
        assert_eq!(key.as_deref(), vector["key"].as_str(), "{vector}");
    }
    for vector in vectors["passphrase_files"].as_array().unwrap() {
        write_secret(&file, &bytes(&vector["file"]));
        let data_key = match Passphrase::from_file(&file).await {
            Ok(passphrase) => passphrase.unwrap(&bytes(&vectors["wrapped"])).await.ok(),
            Err(_) => None,
        };
        let expected = vector["opens"].as_bool().unwrap().then(|| vectors["data_key"].as_str().unwrap().to_owned());
        assert_eq!(data_key.map(|key| hexadecimal(key.as_bytes())), expected, "{vector}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_key_file_that_other_users_can_read_is_refused() {
    use std::error::Error;
    use std::os::unix::fs::PermissionsExt;

    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("secret");
    fs::write(&file, RawKey::generate().unwrap().to_hex().as_bytes()).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let error = RawKey::from_file(&file).await.unwrap_err();
    let reason = error.source().unwrap().to_string();
    assert_eq!(reason, "mode 640 gives other users access: run `chmod 600` on it");
    assert!(matches!(Passphrase::from_file(&file).await, Err(KeySourceError::File { .. })));
}

#[test]
fn keys_and_passphrases_are_read_from_the_environment() {
    assert!(matches!(RawKey::from_environment("PATH"), Err(KeySourceError::NotAKey)));
    Passphrase::from_environment("PATH").unwrap();
    for missing in [
        RawKey::from_environment("MEMORY_TOOL_TEST_NOT_SET").map(drop).unwrap_err(),
        Passphrase::from_environment("MEMORY_TOOL_TEST_NOT_SET").map(drop).unwrap_err(),
    ] {
        let message = "environment variable MEMORY_TOOL_TEST_NOT_SET is not set or is not UTF-8";
        assert_eq!(missing.to_string(), message);
    }
}
