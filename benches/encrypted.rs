//! Benchmarks of the encrypted store against the same store without encryption and the bare cipher. See `README.md`.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints, and fails by panicking")]

mod measure;

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use aes_gcm::aead::{AeadInOut, KeyInit};
use aes_gcm::{Aes256Gcm, Nonce};
use memory_tool_core::{Batch, MemoryPath, Node, Store, StoreExt};
use memory_tool_encrypted::{EncryptedStore, KeyRing, RawKey};
use memory_tool_local::LocalStore;
use memory_tool_sqlite::SqliteStore;
use tokio::runtime::Runtime;

use crate::measure::{medians, target_directory};

const SIZES: [usize; 3] = [1_000, 16_000, 1_000_000];
const ROUNDS: usize = 300;
/// The number of other files in the store.
const OTHERS: usize = 200;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let directory = tempfile::tempdir_in(target_directory()).unwrap();
    println!(
        "| encrypted | ours | plain store | cipher | ours / both |\n\
         |---|---|---|---|---|"
    );
    print_rows(&runtime, "local", &|name| {
        let base = directory.path().join(name);
        Arc::new(runtime.block_on(LocalStore::open(base)).unwrap())
    });
    print_rows(&runtime, "SQLite", &|name| {
        let file = directory.path().join(format!("{name}.sqlite"));
        Arc::new(runtime.block_on(SqliteStore::open(file)).unwrap())
    });
    print_overhead(&runtime, directory.path());
}

fn print_rows(runtime: &Runtime, backend: &str, open: &dyn Fn(&str) -> Arc<dyn Store>) {
    for size in SIZES {
        let fixture = Fixture::new(runtime, open, size);
        let kilobytes = size / 1_000;
        let read = medians(
            ROUNDS,
            [&|_| fixture.read(&*fixture.ours), &|_| fixture.read(&*fixture.plain), &|_| fixture.decrypt()],
        );
        print_row(&format!("{backend}, read {kilobytes} KB"), read);
        let write = medians(
            ROUNDS,
            [&|n| fixture.write(&*fixture.ours, n), &|n| fixture.write(&*fixture.plain, n), &|n| fixture.encrypt(n)],
        );
        print_row(&format!("{backend}, write {kilobytes} KB"), write);
    }
}

fn print_row(title: &str, [ours, plain, cipher]: [std::time::Duration; 3]) {
    let ratio = ours.as_secs_f64() / (plain + cipher).as_secs_f64();
    println!("| {title} | {ours:.0?} | {plain:.0?} | {cipher:.0?} | {ratio:.2} |");
}

/// An encrypted and an unencrypted store with the same files, and the bare cipher.
struct Fixture<'a> {
    runtime: &'a Runtime,
    ours: Box<dyn Store>,
    plain: Arc<dyn Store>,
    path: MemoryPath,
    /// Two alternating contents, because a database skips writes without a change.
    contents: [Vec<u8>; 2],
    cipher: Aes256Gcm,
    sealed: Vec<u8>,
}

impl<'a> Fixture<'a> {
    fn new(runtime: &'a Runtime, open: &dyn Fn(&str) -> Arc<dyn Store>, size: usize) -> Self {
        let keys = KeyRing::new(RawKey::from_bytes([1; 32]));
        let encrypted = EncryptedStore::open(open(&format!("encrypted-{size}")), keys);
        let ours = Box::new(runtime.block_on(encrypted).unwrap());
        let cipher = Aes256Gcm::new(&[1; 32].into());
        let contents = [b'x', b'y'].map(|byte| vec![byte; size]);
        let mut sealed = contents[0].clone();
        cipher.encrypt_in_place(&Nonce::from([0; 12]), b"", &mut sealed).unwrap();
        let path = MemoryPath::root().join("file.txt").unwrap();
        let fixture = Self { runtime, ours, plain: open(&format!("plain-{size}")), path, contents, cipher, sealed };
        for store in [&*fixture.ours, &*fixture.plain] {
            fixture.write(store, 0);
            let others = (0..OTHERS).fold(Batch::new(), |batch, number| {
                let path = format!("/memories/others/{number}.txt").parse().unwrap();
                batch.write(path, "another file")
            });
            runtime.block_on(store.apply(others)).unwrap();
        }
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

/// Prints the additional bytes of the encrypted store per file.
fn print_overhead(runtime: &Runtime, directory: &Path) {
    println!("\n| files of 1,000 bytes | additional bytes per file |\n|---|---|");
    for files in [1, 10, 100, 1_000] {
        let plain = Arc::new(runtime.block_on(LocalStore::open(directory.join(format!("overhead-{files}")))).unwrap());
        let keys = KeyRing::new(RawKey::from_bytes([1; 32]));
        let store = runtime.block_on(EncryptedStore::open(Arc::clone(&plain), keys)).unwrap();
        let batch = (0..files).fold(Batch::new(), |batch, number| {
            let path = format!("/memories/customers/{number:06}.md").parse().unwrap();
            batch.write(path, vec![b'x'; 1_000])
        });
        runtime.block_on(store.apply(batch)).unwrap();
        let bytes = runtime.block_on(plain.usage()).unwrap().bytes;
        println!("| {files} | {:.0} |", (bytes as f64 - 1_000.0 * f64::from(files)) / f64::from(files));
    }
}
