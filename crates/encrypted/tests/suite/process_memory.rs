//! The locations of keys and passphrases in process memory, while a store is open and after it is closed.
//!
//! The test binary starts itself as a child process and searches the memory of the child. If the system does not allow
//! that, the tests are reported as ignored.

use std::env;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use libtest_mimic::{Failed, Trial};
use memory_tool_core::StoreExt as _;
use memory_tool_encrypted::{DataKey, EncryptedStore, KeyProvider as _, KeyRing, Passphrase, RawKey};
use memory_tool_local::LocalStore;
use memory_tool_test_fixtures::faults::block_on;
use memory_tool_test_fixtures::process_memory::places;

/// The environment variable with the kind of the secret, set in the child process.
const TASK: &str = "MEMORY_TOOL_TEST_TASK";
/// The environment variable with the directory of the secret and the store.
const DIRECTORY: &str = "MEMORY_TOOL_TEST_DIRECTORY";

const KEY: &str = "key";
const PASSPHRASE: &str = "passphrase";
const NOTHING: &str = "nothing";

/// Opens and closes a store if this process is a child of a test. Returns whether it is.
pub(crate) fn run_as_child() -> bool {
    let (Ok(task), Some(directory)) = (env::var(TASK), env::var_os(DIRECTORY)) else { return false };
    open_and_close(&task, directory.as_ref());
    true
}

pub(crate) fn trials() -> Vec<Trial> {
    let unreadable = unreadable();
    let reason = unreadable.as_ref().map(|error| format!(" (needs /proc/PID/mem: {error})")).unwrap_or_default();
    let trial = |name: &str, test: fn()| {
        let run = move || {
            test();
            Ok::<(), Failed>(())
        };
        Trial::test(format!("process_memory::{name}{reason}"), run).with_ignored_flag(unreadable.is_some())
    };
    vec![
        trial("a_key_of_32_bytes_is_in_one_place", || a_key_is_in_one_place(|key| key.to_vec())),
        trial("a_key_in_hexadecimal_is_in_one_place", || {
            a_key_is_in_one_place(|key| format!("{}\n", *RawKey::from_bytes(*key).to_hex()).into_bytes());
        }),
        trial("a_key_in_base64_is_in_one_place", || {
            a_key_is_in_one_place(|key| STANDARD.encode(key).into_bytes());
        }),
        // The standard alphabet is tried first and fails only at the end of the key.
        trial("a_key_in_url_safe_base64_is_in_one_place", || {
            a_key_is_in_one_place(|key| URL_SAFE.encode(key).into_bytes());
        }),
        trial("a_passphrase_is_in_one_place_and_its_key_is_erased", a_passphrase_is_in_one_place),
    ]
}

/// The error if the memory of a child cannot be read.
fn unreadable() -> Option<io::Error> {
    let opener = StoreProcess::start(NOTHING, Path::new("/"));
    let read = places(opener.process.id(), &[b"0123456789abcdef"]);
    opener.end();
    read.err()
}

/// A child process that opens a store and closes it on request.
struct StoreProcess {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl StoreProcess {
    fn start(task: &str, directory: &Path) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.env(TASK, task).env(DIRECTORY, directory).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let mut opener = Self { process, input, output: BufReader::new(output) };
        opener.await_line();
        opener
    }

    fn await_line(&mut self) {
        assert!(self.output.read_line(&mut String::new()).unwrap() > 0, "the process has ended");
    }

    fn close(&mut self) {
        self.input.write_all(b"close\n").unwrap();
        self.await_line();
    }

    fn places(&self, secrets: &[&[u8]]) -> Vec<Vec<String>> {
        places(self.process.id(), secrets).unwrap()
    }

    fn end(self) {
        let Self { mut process, input, mut output } = self;
        drop(input);
        output.read_to_end(&mut Vec::new()).unwrap();
        assert!(process.wait().unwrap().success());
    }
}

/// The child process: writes and reads, waits, closes the store, and waits again.
fn open_and_close(task: &str, directory: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let store = (task != NOTHING).then(|| runtime.block_on(open(task, directory)));
    let lines = &mut io::stdin().lines();
    println!("opened");
    lines.next();
    drop(store);
    println!("closed");
    lines.next();
}

async fn open(task: &str, directory: &Path) -> EncryptedStore {
    let secret = directory.join("secret");
    let keys = match task {
        KEY => KeyRing::new(RawKey::from_file(secret).await.unwrap()),
        _ => KeyRing::new(Passphrase::from_file(secret).await.unwrap()),
    };
    let inner = LocalStore::open(directory.join("store")).await.unwrap();
    let store = EncryptedStore::open(inner, keys).await.unwrap();
    store.write("/memories/a", "x").await.unwrap();
    assert_eq!(store.read_to_string("/memories/a").await.unwrap(), "x");
    store
}

fn write_secret(directory: &Path, content: &[u8]) {
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(directory.join("secret"));
    file.unwrap().write_all(content).unwrap();
}

/// A random key whose base64 ends with characters that differ between the alphabets.
fn random_key() -> [u8; 32] {
    let text = RawKey::generate().unwrap().to_hex();
    let digits = text.as_bytes().chunks_exact(2).map(|digits| std::str::from_utf8(digits).unwrap());
    let mut key: [u8; 32] =
        digits.map(|digits| u8::from_str_radix(digits, 16).unwrap()).collect::<Vec<_>>().try_into().unwrap();
    key[27..30].fill(0xff);
    key
}

/// The wrapped data key in the first slot of the index.
fn wrapped_data_key(directory: &Path) -> Vec<u8> {
    let index = fs::read(directory.join("store/memories/index-1")).unwrap();
    let name_bytes = usize::from(index[92 + 2 + 16]);
    let (length, wrapped) = index[92 + 2 + 16 + 1 + name_bytes..].split_first_chunk().unwrap();
    wrapped[..u16::from_be_bytes(*length).into()].to_vec()
}

fn assert_places(places: &[String], most: usize, what: &str) {
    assert!(places.len() <= most, "{what} is in {} places, more than {most}: {places:#?}", places.len());
}

/// Checks the locations of both halves of a data key. The cipher holds all round keys: the first two are the key, and
/// the last one for decryption is its first half again.
fn assert_places_of_data_key(opener: &StoreProcess, data_key: &DataKey, most: [usize; 2]) {
    let halves = data_key.as_bytes().split_at(16);
    let places = opener.places(&[halves.0, halves.1]);
    assert_places(&places[0], most[0], "the first half of the data key");
    assert_places(&places[1], most[1], "the second half of the data key");
}

/// Checks a process that creates the store and a process that opens it again.
fn for_each_opening(task: &str, directory: &Path, mut check: impl FnMut(&StoreProcess, bool)) {
    for _ in 0..2 {
        let mut opener = StoreProcess::start(task, directory);
        check(&opener, true);
        opener.close();
        check(&opener, false);
        opener.end();
    }
}

fn a_key_is_in_one_place(form: impl Fn(&[u8; 32]) -> Vec<u8>) {
    let directory = tempfile::tempdir().unwrap();
    let key = random_key();
    let text = form(&key);
    write_secret(directory.path(), &text);
    for_each_opening(KEY, directory.path(), |opener, is_open| {
        let places = opener.places(&[&key, &text]);
        assert_places(&places[0], is_open.into(), "the key");
        assert_places(&places[1], usize::from(is_open && text == key), "the text of the key");
        let unwrapping = RawKey::from_bytes(key);
        let data_key = block_on(unwrapping.unwrap(&wrapped_data_key(directory.path()))).unwrap();
        assert_places_of_data_key(opener, &data_key, if is_open { [2, 1] } else { [0, 0] });
    });
}

fn a_passphrase_is_in_one_place() {
    let directory = tempfile::tempdir().unwrap();
    // Normalization replaces two characters with one.
    let halves = [(); 2].map(|()| RawKey::generate().unwrap().to_hex());
    let passphrase = format!("{}\u{e9}{}", *halves[0], *halves[1]);
    write_secret(directory.path(), format!("{}e\u{301}{}\r\n", *halves[0], *halves[1]).as_bytes());
    for_each_opening(PASSPHRASE, directory.path(), |opener, is_open| {
        let wrapped = wrapped_data_key(directory.path());
        let derived = derived_key(passphrase.as_bytes(), &wrapped);
        let places = opener.places(&[halves[0].as_bytes(), halves[1].as_bytes(), &derived]);
        assert_places(&places[0], is_open.into(), "the first half of the passphrase");
        assert_places(&places[1], is_open.into(), "the second half of the passphrase");
        assert_places(&places[2], 0, "the key derived from the passphrase");
        let data_key = block_on(Passphrase::new(passphrase.as_str()).unwrap().unwrap(&wrapped)).unwrap();
        assert_places_of_data_key(opener, &data_key, if is_open { [2, 1] } else { [0, 0] });
    });
}

/// The key that Argon2id derives from the passphrase.
fn derived_key(passphrase: &[u8], wrapped: &[u8]) -> [u8; 32] {
    let number = |at: usize| u32::from_be_bytes(*wrapped[at..].first_chunk().unwrap());
    let parameters = Params::new(number(1), number(5), number(9), Some(64)).unwrap();
    let mut output = [0; 64];
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, parameters);
    argon2.hash_password_into(passphrase, &wrapped[13..29], &mut output).unwrap();
    *output.first_chunk().unwrap()
}
