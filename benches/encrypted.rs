//! The encrypted store against the same store unencrypted, and against that and the bare cipher: see `README.md` beside this file.

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
/// How many files a store has besides the one that is read and written.
const OTHERS: usize = 200;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let directory = tempfile::tempdir_in(target_directory()).unwrap();
    println!(
        "| encrypted | ours | the store beneath | AES-256-GCM | ours / the store beneath | ours / both |\n\
         |---|---|---|---|---|---|"
    );
    print_rows(&runtime, "local disk", &|name| {
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
        let subject = Subject::new(runtime, open, size);
        let kilobytes = size / 1_000;
        let read = medians(
            ROUNDS,
            [&|_| subject.read(&*subject.ours), &|_| subject.read(&*subject.beneath), &|_| subject.decrypt()],
        );
        print_row(&format!("{backend}: read {kilobytes} KB"), read);
        let write = medians(
            ROUNDS,
            [&|n| subject.write(&*subject.ours, n), &|n| subject.write(&*subject.beneath, n), &|n| subject.encrypt(n)],
        );
        print_row(&format!("{backend}: write {kilobytes} KB"), write);
    }
}

fn print_row(title: &str, [ours, beneath, cipher]: [std::time::Duration; 3]) {
    let ratio = |of: std::time::Duration| ours.as_secs_f64() / of.as_secs_f64();
    println!(
        "| {title} | {ours:.0?} | {beneath:.0?} | {cipher:.0?} | {:.2} | {:.2} |",
        ratio(beneath),
        ratio(beneath + cipher)
    );
}

/// An encrypted store and one that is not, with the same files, and the cipher alone.
struct Subject<'a> {
    runtime: &'a Runtime,
    ours: Box<dyn Store>,
    beneath: Arc<dyn Store>,
    path: MemoryPath,
    /// Two contents that are written in turn: a database does not write what is the same already.
    contents: [Vec<u8>; 2],
    cipher: Aes256Gcm,
    sealed: Vec<u8>,
}

impl<'a> Subject<'a> {
    fn new(runtime: &'a Runtime, open: &dyn Fn(&str) -> Arc<dyn Store>, size: usize) -> Self {
        let keys = KeyRing::new(RawKey::from_bytes([1; 32]));
        let encrypted = EncryptedStore::open(open(&format!("encrypted-{size}")), keys);
        let ours = Box::new(runtime.block_on(encrypted).unwrap());
        let cipher = Aes256Gcm::new(&[1; 32].into());
        let contents = [b'x', b'y'].map(|byte| vec![byte; size]);
        let mut sealed = contents[0].clone();
        cipher.encrypt_in_place(&Nonce::from([0; 12]), b"", &mut sealed).unwrap();
        let path = MemoryPath::root().join("file.txt").unwrap();
        let subject = Self { runtime, ours, beneath: open(&format!("plain-{size}")), path, contents, cipher, sealed };
        for store in [&*subject.ours, &*subject.beneath] {
            subject.write(store, 0);
            let others = (0..OTHERS).fold(Batch::new(), |batch, number| {
                let path = format!("/memories/others/{number}.txt").parse().unwrap();
                batch.write(path, "another file")
            });
            runtime.block_on(store.apply(others)).unwrap();
        }
        subject
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

/// How many bytes the encrypted store takes more than what is in it.
fn print_overhead(runtime: &Runtime, directory: &Path) {
    println!("\n| files of 1,000 bytes | bytes more for each |\n|---|---|");
    for files in [1, 10, 100, 1_000] {
        let beneath =
            Arc::new(runtime.block_on(LocalStore::open(directory.join(format!("overhead-{files}")))).unwrap());
        let keys = KeyRing::new(RawKey::from_bytes([1; 32]));
        let store = runtime.block_on(EncryptedStore::open(Arc::clone(&beneath), keys)).unwrap();
        let batch = (0..files).fold(Batch::new(), |batch, number| {
            let path = format!("/memories/customers/{number:06}.md").parse().unwrap();
            batch.write(path, vec![b'x'; 1_000])
        });
        runtime.block_on(store.apply(batch)).unwrap();
        let bytes = runtime.block_on(beneath.usage()).unwrap().bytes;
        println!("| {files} | {:.0} |", (bytes as f64 - 1_000.0 * f64::from(files)) / f64::from(files));
    }
}
