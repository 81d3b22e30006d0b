//! Benchmarks of the SQLite store against bare statements. See `README.md`.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints, and fails by panicking")]

mod measure;

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::sync::{Arc, Mutex};

use memory_tool_core::{Batch, Engine, MemoryTool, Store, StoreExt};
use memory_tool_sqlite::SqliteStore;
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::measure::{medians, swap, target_directory, text};

const ROUNDS: usize = 2_000;
const LIST_ROUNDS: usize = 15;
const FILE: &str = "/memories/file.txt";
/// The batch size for creating many files.
const BATCH: usize = 100_000;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let directory = tempfile::tempdir_in(target_directory()).unwrap();
    print_memory(&runtime, directory.path()); // first, before the process uses other memory
    print_ratios(&runtime, directory.path());
    print_growth(&runtime, directory.path());
}

fn print_ratios(runtime: &Runtime, directory: &Path) {
    println!("| SQLite | ours | bare, on a thread | bare, in place | ours / on a thread |");
    println!("|---|---|---|---|---|");
    let few = Fixture::new(runtime, &directory.join("few.sqlite"), 200);
    few.row("`view`, 4 KB", ROUNDS, |_| few.view(), Bare::read);
    few.row("`str_replace`, 4 KB", ROUNDS, |n| few.edit(n), Bare::update);
    few.row("`create`, 4 KB", ROUNDS, |n| few.create(n), Bare::insert);
    let many = Fixture::new(runtime, &directory.join("many.sqlite"), 100_000);
    many.row("`view`, 100,000 files", LIST_ROUNDS, |_| many.list(), Bare::add_up);
}

fn print_growth(runtime: &Runtime, directory: &Path) {
    println!("\n| files | `view`, 4 KB | `str_replace` | `view /memories` |");
    println!("|---|---|---|---|");
    for files in [100, 1_000, 10_000, 100_000, 1_000_000] {
        let path = directory.join("growing.sqlite");
        let fixture = Fixture::new(runtime, &path, files);
        let [view, edit] = medians(ROUNDS / 4, [&|_| fixture.view(), &|n| fixture.edit(n)]);
        let [list] = medians(LIST_ROUNDS, [&|_| fixture.list()]);
        println!("| {files} | {view:.0?} | {edit:.0?} | {list:.1?} |");
        drop(fixture);
        fs::remove_file(path).unwrap();
    }
}

/// Prints the memory used by a thousand open stores, after a write and a listing in each.
fn print_memory(runtime: &Runtime, directory: &Path) {
    println!("| SQLite, open at once | memory of the process in MB | open files |");
    println!("|---|---|---|");
    let use_store = |store: &SqliteStore| {
        runtime.block_on(async {
            store.write("/memories/a.txt", text()).await.unwrap();
            store.list("/memories").await.unwrap();
        });
    };
    let file = runtime.block_on(SqliteStore::open(directory.join("stores.sqlite"))).unwrap();
    let stores: Vec<_> = (0..1_000).map(|number| file.memory(format!("store {number}").parse().unwrap())).collect();
    stores.iter().for_each(use_store);
    println!("| 1,000 stores in one file | {} | {} |", megabytes_in_use(), open_files());
    let files = directory.join("files");
    let open = |number: usize| runtime.block_on(SqliteStore::open(files.join(number.to_string()))).unwrap();
    let stores: Vec<_> = (0..1_000).map(open).inspect(use_store).collect();
    println!("| and 1,000 files | {} | {} |", megabytes_in_use(), open_files());
    drop(stores);
}

fn megabytes_in_use() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.strip_suffix("kB")?.trim().parse().ok());
    kilobytes.map_or("unknown".to_owned(), |kilobytes: usize| (kilobytes / 1_024).to_string())
}

fn open_files() -> String {
    fs::read_dir("/proc/self/fd").map_or("unknown".to_owned(), |open| open.count().to_string())
}

/// A store, and a connection to a copy of its database.
struct Fixture<'a> {
    runtime: &'a Runtime,
    tool: Engine<SqliteStore>,
    bare: Arc<Mutex<Bare>>,
}

impl<'a> Fixture<'a> {
    /// Creates a store of `files` files in a tree, one of them of 4 KB.
    fn new(runtime: &'a Runtime, path: &Path, files: usize) -> Self {
        let store = runtime.block_on(SqliteStore::open(path)).unwrap();
        let apply = |batch: Batch| runtime.block_on(store.apply(batch)).unwrap();
        apply(Batch::new().write(FILE.parse().unwrap(), text()));
        let numbers: Vec<_> = (1..files).collect();
        for numbers in numbers.chunks(BATCH) {
            apply(numbers.iter().fold(Batch::new(), |batch, number| {
                let path = format!("/memories/project{}/topic{}/note{number}.txt", number % 10, number % 1_000);
                batch.write(path.parse().unwrap(), "a note\n")
            }));
        }
        Self { runtime, tool: Engine::new(store), bare: Arc::new(Mutex::new(Bare::copy_of(path))) }
    }

    /// Prints a row: the store, the bare statement on a blocking thread as in an async program, and the bare statement
    /// in place.
    fn row(&self, title: &str, rounds: usize, ours: impl Fn(usize), bare: fn(&Bare, usize)) {
        let on_thread = |round| {
            let connection = Arc::clone(&self.bare);
            let work = async { tokio::task::spawn_blocking(move || bare(&connection.lock().unwrap(), round)).await };
            self.runtime.block_on(work).unwrap();
        };
        let in_place = |round| bare(&self.bare.lock().unwrap(), round);
        let [ours, on_thread, in_place] = medians(rounds, [&ours, &on_thread, &in_place]);
        let ratio = ours.as_secs_f64() / on_thread.as_secs_f64();
        println!("| {title} | {ours:.1?} | {on_thread:.1?} | {in_place:.1?} | {ratio:.2} |");
    }

    fn call(&self, input: Value) {
        black_box(self.runtime.block_on(self.tool.call(input)).unwrap().to_string());
    }

    fn view(&self) {
        self.call(json!({"command": "view", "path": FILE}));
    }

    fn edit(&self, round: usize) {
        let (old, new) = swap(round);
        self.call(json!({"command": "str_replace", "path": FILE, "old_str": old, "new_str": new}));
    }

    fn create(&self, round: usize) {
        self.call(json!({"command": "create", "path": format!("/memories/new/{round}.txt"), "file_text": text()}));
    }

    fn list(&self) {
        self.call(json!({"command": "view", "path": "/memories"}));
    }
}

/// The statements behind the commands, prepared once, with the settings of the store.
struct Bare(Connection);

impl Bare {
    fn copy_of(path: &Path) -> Self {
        let copy = path.with_extension("copy");
        let _ = fs::remove_file(&copy);
        Connection::open(path).unwrap().execute("VACUUM INTO ?1", [copy.to_str()]).unwrap();
        let connection = Connection::open(copy).unwrap();
        let settings = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cell_size_check = ON;";
        connection.execute_batch(settings).unwrap();
        // Without this, statements are prepared each time.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).unwrap();
        Self(connection)
    }

    fn read(&self, _: usize) {
        const SELECT: &str = "SELECT content_id, revision, bytes FROM file JOIN content ON content.id = content_id \
             WHERE store = 'default' AND path = ?1";
        let mut select = self.0.prepare_cached(SELECT).unwrap();
        let content: Vec<u8> = select.query_row([FILE], |row| row.get(2)).unwrap();
        black_box(content);
    }

    fn update(&self, round: usize) {
        const UPDATE: &str = "UPDATE content SET bytes = ?1, revision = revision + 1 WHERE id = 1";
        let content = text().replace("A\n", swap(round).1);
        let mut update = self.0.prepare_cached(UPDATE).unwrap();
        assert_eq!(update.execute([content.as_bytes()]).unwrap(), 1);
    }

    fn insert(&self, _: usize) {
        let mut insert = self.0.prepare_cached("INSERT INTO content (bytes) VALUES (?1)").unwrap();
        assert_eq!(insert.execute([text().as_bytes()]).unwrap(), 1);
    }

    /// The sizes of all visible files, grouped by the first two path segments.
    fn add_up(&self, _: usize) {
        const ADD_UP: &str = "SELECT first, substr(rest, 1, instr(rest || '/', '/') - 1), sum(size) FROM ( \
                 SELECT substr(name, 1, instr(name || '/', '/') - 1) AS first, \
                     substr(name, instr(name || '/', '/') + 1) AS rest, size \
                 FROM (SELECT substr(path, 11) AS name, size FROM file WHERE store = 'default' \
                     AND path > '/memories/' AND path < '/memories0' \
                     AND instr(path, '/.') = 0 AND instr(path || '/', '/node_modules/') = 0)) \
             GROUP BY 1, 2";
        let mut add_up = self.0.prepare_cached(ADD_UP).unwrap();
        let sums = add_up.query_map((), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
        let sums: Vec<(String, String, i64)> = sums.map(Result::unwrap).collect();
        assert!(black_box(sums).len() > 1);
    }
}
