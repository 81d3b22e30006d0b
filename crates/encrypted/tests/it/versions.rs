//! Compatibility with stores of each format version.
//!
//! `versions/` has a directory with a store for each version. An ignored test generates the store of a new version.
//! Existing stores never change.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::support::{contents, open, path, write};
use memory_tool_core::{InMemoryStore, StoreExt, StorePath};
use memory_tool_encrypted::{EncryptedStore, KeyRing, Padding, Passphrase, PassphraseCost, RawKey, RekeyProgress};

fn directory(version: u8) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/versions/{version}"))
}

/// A public test key.
fn raw() -> RawKey {
    RawKey::from_text("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f").unwrap()
}

fn passphrase() -> Passphrase {
    Passphrase::new("correct horse battery staple").unwrap().with_cost(PassphraseCost::new(64, 1, 1).unwrap())
}

fn files() -> BTreeMap<StorePath, Vec<u8>> {
    let files: [(&str, &[u8]); 4] = [
        ("/memories/notes/tea.txt", b"Tea, no milk\n"),
        ("/memories/notes/zoë.txt", "Zoë\r\n".as_bytes()),
        ("/memories/empty", b""),
        ("/memories/picture.png", &[0; 1000]),
    ];
    files.into_iter().map(|(name, content)| (path(name), content.to_vec())).collect()
}

#[tokio::test]
async fn a_store_of_version_1_is_read_and_written() {
    let inner = Arc::new(InMemoryStore::new());
    for entry in fs::read_dir(directory(1)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        write(&*inner, &format!("/memories/{name}"), fs::read(entry.path()).unwrap()).await;
    }
    let store = open(&inner, KeyRing::new(raw()).with(passphrase())).await;
    assert_eq!(contents(&store).await, files());
    store.rename("/memories/notes", "/memories/old notes").await.unwrap();
    write(&store, "/memories/empty", "not any more").await;
    store.rekey(drop::<RekeyProgress>).await.unwrap();
    let files = contents(&open(&inner, KeyRing::new(raw())).await).await;
    assert_eq!(files[&path("/memories/empty")], b"not any more");
    assert_eq!(files[&path("/memories/old notes/tea.txt")], b"Tea, no milk\n");
}

#[tokio::test]
#[ignore = "generates the store"]
async fn generate_the_store_of_version_1() {
    let inner = Arc::new(InMemoryStore::new());
    let rings = [KeyRing::new(passphrase()), KeyRing::new(raw()).with(passphrase())];
    for (number, (file, content)) in files().into_iter().enumerate() {
        let padding = if number % 2 == 0 { Padding::None } else { Padding::Padme };
        let ring = rings[number / 2].clone();
        let store = EncryptedStore::builder(Arc::clone(&inner), ring).padding(padding).open().await.unwrap();
        write(&store, file.as_str(), content).await;
    }
    fs::create_dir_all(directory(1)).unwrap();
    for (object, bytes) in contents(&*inner).await {
        fs::write(directory(1).join(object.file_name().unwrap()), bytes).unwrap();
    }
}
