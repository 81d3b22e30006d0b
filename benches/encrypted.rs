//! Benchmarks of the encrypted store against the same store without encryption and the bare cipher. See `README.md`.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

mod measure;
mod report;

use std::hint::black_box;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use aes_gcm::aead::{AeadInOut, KeyInit};
use aes_gcm::{Aes256Gcm, Nonce};
use memory_tool_core::{Batch, Node, Store, StoreExt, StorePath};
use memory_tool_encrypted::{EncryptedStore, KeyRing, RawKey};
use memory_tool_local::LocalStore;
use memory_tool_sqlite::SqliteStore;
use tokio::runtime::Runtime;

use crate::measure::{medians, target_directory};
use crate::report::{print_table, ratio, time};

const SIZES: [usize; 3] = [1_000, 16_000, 1_000_000];
const ROUNDS: usize = 300;
const OTHERS: usize = 200;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let directory = tempfile::tempdir_in(target_directory()).unwrap();
    let local = |name: String| -> Arc<dyn Store> {
        Arc::new(runtime.block_on(LocalStore::open(directory.path().join(name))).unwrap())
    };
    let sqlite = |name: String| -> Arc<dyn Store> {
        Arc::new(runtime.block_on(SqliteStore::open(directory.path().join(format!("{name}.sqlite")))).unwrap())
    };
    let local = SIZES.into_iter().flat_map(|size| rows("local", &Fixture::new(&runtime, &local, size)));
    let sqlite = SIZES.into_iter().flat_map(|size| rows("SQLite", &Fixture::new(&runtime, &sqlite, size)));
    print_table("encrypted | ours | plain store | cipher | ours / both", local.chain(sqlite));
}

fn rows(backend: &str, fixture: &Fixture<'_>) -> [Vec<String>; 2] {
    let Fixture { ours, plain, contents, .. } = fixture;
    let read = medians(ROUNDS, [&|_| fixture.read(ours), &|_| fixture.read(plain), &|_| fixture.decrypt()]);
    let write = medians(ROUNDS, [&|n| fixture.write(ours, n), &|n| fixture.write(plain, n), &|n| fixture.encrypt(n)]);
    [("read", read), ("write", write)].map(|(name, [ours, plain, cipher])| {
        let title = format!("{backend}, {name} {} KB", contents[0].len() / 1_000);
        vec![title, time(ours), time(plain), time(cipher), ratio(ours / (plain + cipher))]
    })
}

/// An encrypted and an unencrypted store with the same files, and the bare cipher.
struct Fixture<'a> {
    runtime: &'a Runtime,
    ours: Arc<dyn Store>,
    plain: Arc<dyn Store>,
    path: StorePath,
    /// Two alternating contents, because a database skips writes without a change.
    contents: [Vec<u8>; 2],
    cipher: Aes256Gcm,
    sealed: Vec<u8>,
}

impl<'a> Fixture<'a> {
    fn new(runtime: &'a Runtime, open: &dyn Fn(String) -> Arc<dyn Store>, size: usize) -> Self {
        let keys = KeyRing::new(RawKey::from_bytes([1; 32]));
        let encrypted = EncryptedStore::open(open(format!("encrypted-{size}")), keys);
        let ours = Arc::new(runtime.block_on(encrypted).unwrap());
        let cipher = Aes256Gcm::new(&[1; 32].into());
        let contents = [b'x', b'y'].map(|byte| vec![byte; size]);
        let mut sealed = contents[0].clone();
        cipher.encrypt_in_place(&Nonce::from([0; 12]), b"", &mut sealed).unwrap();
        let path = StorePath::memories().join("file.txt").unwrap();
        let fixture = Self { runtime, ours, plain: open(format!("plain-{size}")), path, contents, cipher, sealed };
        for store in [&fixture.ours, &fixture.plain] {
            fixture.write(store, 0);
            let others = (0..OTHERS).fold(Batch::new(), |batch, number| {
                let path = format!("/memories/others/{number}.txt").parse::<StorePath>().unwrap();
                batch.write(path, "another file")
            });
            runtime.block_on(store.apply(others)).unwrap();
        }
        thread::sleep(Duration::from_secs(3)); // what changed a moment ago is read twice
        fixture
    }

    fn read(&self, store: &dyn Store) {
        let Node::File(file) = self.runtime.block_on(store.read(&self.path)).unwrap() else { unreachable!() };
        assert_eq!(black_box(file).content.len(), self.contents[0].len());
    }

    fn write(&self, store: &dyn Store, round: usize) {
        self.runtime.block_on(store.write(&self.path, self.contents[round % 2].clone())).unwrap();
    }

    fn decrypt(&self) {
        let mut buffer = self.sealed.clone();
        self.cipher.decrypt_in_place(&Nonce::from([0; 12]), b"", &mut buffer).unwrap();
        black_box(buffer);
    }

    fn encrypt(&self, round: usize) {
        let mut buffer = self.contents[round % 2].clone();
        self.cipher.encrypt_in_place(&Nonce::from([0; 12]), b"", &mut buffer).unwrap();
        black_box(buffer);
    }
}
