//! Benchmarks of the local store against plain `std::fs` and the SDKs' tools. See `README.md`.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints, and fails by panicking")]

mod measure;

use std::fs::{self, File};
use std::hint::black_box;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use memory_tool_core::{Engine, MemoryTool};
use memory_tool_local::LocalStore;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::measure::{medians, swap, target_directory, text};

const ROUNDS: usize = 400;
const LIST_ROUNDS: usize = 20;
const FILES: usize = 10_000;

fn main() {
    let directory = tempfile::tempdir_in(target_directory()).unwrap();
    let ours = Ours::new(directory.path());
    let floor = Floor::new(directory.path());
    let peers = [python_peer(directory.path()), typescript_peer(directory.path())];
    println!("| local disk | ours | floor | ours / floor | ours / Python SDK | ours / TypeScript SDK |");
    println!("|---|---|---|---|---|---|");
    row("view", "`view` of a file of 4 KB", &peers, ROUNDS, |_| ours.view(), |_| floor.read());
    row("create", "`create` of a file of 4 KB", &peers, ROUNDS, |n| ours.create(n), |n| floor.create(n));
    row("edit", "`str_replace` in a file of 4 KB", &peers, ROUNDS, |n| ours.edit(n), |n| floor.replace(n));
    row("list", "`view` of 10,000 files in 100 directories", &peers, LIST_ROUNDS, |_| ours.list(), |_| floor.walk());
}

/// The median seconds of each workload of a peer; null if it is not installed.
type Peer = Value;

/// Times both alternately and prints a table row.
fn row(key: &str, title: &str, peers: &[Peer; 2], rounds: usize, ours: impl Fn(usize), floor: impl Fn(usize)) {
    let [ours, floor] = medians(rounds, [&ours, &floor]);
    let [python, typescript] = peers.each_ref().map(|peer| match peer[key].as_f64() {
        Some(seconds) => format!("{:.2}", ours.as_secs_f64() / seconds),
        None => "not installed".to_owned(),
    });
    let ratio = ours.as_secs_f64() / floor.as_secs_f64();
    println!("| {title} | {ours:.0?} | {floor:.0?} | {ratio:.2} | {python} | {typescript} |");
}

struct Ours {
    runtime: Runtime,
    few: Engine<LocalStore>,
    many: Engine<LocalStore>,
}

impl Ours {
    fn new(directory: &Path) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let open = |name: &str| Engine::new(runtime.block_on(LocalStore::open(directory.join(name))).unwrap());
        let ours = Self { few: open("ours/few"), many: open("ours/many"), runtime };
        fill(&directory.join("ours/many/memories"));
        ours.call(&ours.few, json!({"command": "create", "path": "/memories/file.txt", "file_text": text()}));
        ours
    }

    fn call(&self, tool: &Engine<LocalStore>, input: Value) {
        black_box(self.runtime.block_on(tool.call(input)).unwrap().to_string());
    }

    fn view(&self) {
        self.call(&self.few, json!({"command": "view", "path": "/memories/file.txt"}));
    }

    fn create(&self, round: usize) {
        let path = format!("/memories/new/{round}.txt");
        self.call(&self.few, json!({"command": "create", "path": path, "file_text": text()}));
    }

    fn edit(&self, round: usize) {
        let (old, new) = swap(round);
        let path = "/memories/file.txt";
        self.call(&self.few, json!({"command": "str_replace", "path": path, "old_str": old, "new_str": new}));
    }

    fn list(&self) {
        self.call(&self.many, json!({"command": "view", "path": "/memories"}));
    }
}

/// The same effects with plain `std::fs`.
struct Floor {
    few: PathBuf,
    many: PathBuf,
}

impl Floor {
    fn new(directory: &Path) -> Self {
        let floor = Self { few: directory.join("floor/few"), many: directory.join("floor/many") };
        fs::create_dir_all(floor.few.join("new")).unwrap();
        fs::write(floor.few.join("file.txt"), text()).unwrap();
        fill(&floor.many);
        floor
    }

    fn read(&self) {
        black_box(fs::read_to_string(self.few.join("file.txt")).unwrap());
    }

    fn create(&self, round: usize) {
        let directory = self.few.join("new");
        write_durably(&directory.join(format!("{round}.txt")), text().as_bytes());
        File::open(directory).unwrap().sync_all().unwrap();
    }

    fn replace(&self, round: usize) {
        let (file, temporary) = (self.few.join("file.txt"), self.few.join("temporary"));
        let (old, new) = swap(round);
        let text = fs::read_to_string(&file).unwrap().replacen(old, new, 1);
        write_durably(&temporary, text.as_bytes());
        fs::rename(temporary, file).unwrap();
        File::open(&self.few).unwrap().sync_all().unwrap();
    }

    fn walk(&self) {
        let mut size = 0;
        for directory in fs::read_dir(&self.many).unwrap() {
            for file in fs::read_dir(directory.unwrap().path()).unwrap() {
                size += file.unwrap().metadata().unwrap().len();
            }
        }
        assert_eq!(black_box(size), FILES as u64);
    }
}

fn write_durably(path: &Path, content: &[u8]) {
    let mut file = File::create_new(path).unwrap();
    file.write_all(content).unwrap();
    file.sync_all().unwrap();
}

/// Creates files of one byte in 100 directories, without flushing.
fn fill(directory: &Path) {
    for number in 0..FILES {
        let directory = directory.join(format!("d{}", number % 100));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(format!("{number}.txt")), "x").unwrap();
    }
}

fn peers_directory() -> PathBuf {
    target_directory().join("../peers")
}

fn peer_script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(name)
}

fn python_peer(directory: &Path) -> Peer {
    let mut python = Command::new(peers_directory().join("bin/python"));
    run_peer(python.arg(peer_script("python_sdk.py")).arg(directory.join("python")))
}

fn typescript_peer(directory: &Path) -> Peer {
    let mut node = Command::new("node");
    run_peer(node.arg(peer_script("typescript_sdk.mjs")).arg(peers_directory()).arg(directory.join("typescript")))
}

fn run_peer(command: &mut Command) -> Peer {
    let output = command.args([ROUNDS, FILES, text().len()].map(|number| number.to_string())).output();
    match output {
        Ok(output) if output.status.success() => serde_json::from_slice(&output.stdout).unwrap(),
        _ => Value::Null,
    }
}
