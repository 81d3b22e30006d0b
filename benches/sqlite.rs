//! Benchmarks of the SQLite store against bare statements. See `README.md`.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

mod measure;
mod report;

use std::hint::black_box;
use std::path::Path;
use std::sync::{Arc, Mutex};

use memory_tool_core::{Batch, Engine, MemoryTool, Store, StoreExt, StorePath};
use memory_tool_sqlite::SqliteStore;
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::measure::{create, edit, medians, swap, target_directory, text, view};
use crate::report::{print_table, ratio, time};

const ROUNDS: usize = 2_000;
const LIST_ROUNDS: usize = 15;
const FILE: &str = "/memories/file.txt";

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let directory = tempfile::tempdir_in(target_directory()).unwrap();
    print_ratios(&runtime, directory.path());
}

fn print_ratios(runtime: &Runtime, directory: &Path) {
    let few = Fixture::new(runtime, &directory.join("few.sqlite"), 200);
    let many = Fixture::new(runtime, &directory.join("many.sqlite"), 100_000);
    let columns = "SQLite | ours | bare, on a thread | bare, in place | ours / on a thread | ours / in place";
    let new = |round| format!("/memories/new/{round}.txt");
    let rows = [
        few.row("`Store::read`, 4 KB", ROUNDS, &|_| few.read(), Bare::read),
        few.row("`view`, 4 KB", ROUNDS, &|_| few.call(view(FILE)), Bare::read),
        few.row("`str_replace`, 4 KB", ROUNDS, &|n| few.call(edit(FILE, n)), Bare::update),
        few.row("`create`, 4 KB", ROUNDS, &|n| few.call(create(&new(n), &text())), Bare::insert),
        many.row("`view`, 100,000 files", LIST_ROUNDS, &|_| many.call(view("/memories")), Bare::add_up),
    ];
    print_table(columns, rows);
}

struct Fixture<'a> {
    runtime: &'a Runtime,
    store: SqliteStore,
    tool: Engine<SqliteStore>,
    bare: Arc<Mutex<Bare>>,
}

impl<'a> Fixture<'a> {
    /// Creates a store of `files` files in a tree, one of them of 4 KB.
    fn new(runtime: &'a Runtime, path: &Path, files: usize) -> Self {
        let store = runtime.block_on(SqliteStore::open(path)).unwrap();
        let apply = |batch: Batch| runtime.block_on(store.apply(batch)).unwrap();
        apply(Batch::new().write(FILE.parse::<StorePath>().unwrap(), text()));
        apply((1..files).fold(Batch::new(), |batch, number| {
            let path = format!("/memories/project{}/topic{}/note{number}.txt", number % 10, number % 1_000);
            batch.write(path.parse::<StorePath>().unwrap(), "a note\n")
        }));
        Self { runtime, tool: Engine::new(store.clone()), store, bare: Arc::new(Mutex::new(Bare::copy_of(path))) }
    }

    /// Compares the store with the bare statement on a blocking thread as in an async program, and in place.
    fn row(&self, title: &str, rounds: usize, ours: &dyn Fn(usize), bare: fn(&Bare, usize)) -> Vec<String> {
        let on_thread = |round| {
            let connection = Arc::clone(&self.bare);
            let work = async { tokio::task::spawn_blocking(move || bare(&connection.lock().unwrap(), round)).await };
            self.runtime.block_on(work).unwrap();
        };
        let in_place = |round| bare(&self.bare.lock().unwrap(), round);
        let times = medians(rounds, [ours, &on_thread, &in_place]);
        let ratios = [times[0] / times[1], times[0] / times[2]].map(ratio);
        [vec![title.to_owned()], times.map(time).into(), ratios.into()].concat()
    }

    fn call(&self, input: Value) {
        black_box(self.runtime.block_on(self.tool.call(input)).unwrap().to_string());
    }

    fn read(&self) {
        black_box(self.runtime.block_on(self.store.read(FILE)).unwrap());
    }
}

/// The statements behind the commands, prepared once, with the settings of the store.
struct Bare(Connection);

impl Bare {
    fn copy_of(path: &Path) -> Self {
        let copy = path.with_extension("copy");
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
             WHERE memory = 'default' AND path = ?1";
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
                 FROM (SELECT substr(path, 11) AS name, size FROM file WHERE memory = 'default' \
                     AND path > '/memories/' AND path < '/memories0' \
                     AND instr(path, '/.') = 0 AND instr(path || '/', '/node_modules/') = 0)) \
             GROUP BY 1, 2";
        let mut add_up = self.0.prepare_cached(ADD_UP).unwrap();
        let sums = add_up.query_map((), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
        let sums: Vec<(String, String, i64)> = sums.map(Result::unwrap).collect();
        assert!(black_box(sums).len() > 1);
    }
}
