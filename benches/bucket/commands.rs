//! The requests and bytes of each command in a store of 200 files of 4 KB.

use memory_tool_bucket::BucketStore;
use memory_tool_core::{Engine, MemoryTool, OpenOptions, StoreExt as _};
use serde_json::{Value, json};

use crate::measure::{create, delete, edit, rename, view};
use crate::report::print_table;
use crate::site::Site;
use crate::texts::text;
use crate::usage::{Usage, bytes};

/// How many commits another store makes before each command.
const FOREIGN: [usize; 3] = [0, 1, 10];
const FILES: usize = 200;
const SIZE: usize = 4 * 1024;
const LARGE_SIZE: usize = 16 * 1024;
/// Files of 16 KB. Each is viewed at most once.
const LARGE_FILES: usize = 50;
/// The file that the other store edits.
const OTHER: &str = "/memories/other.md";

fn path(number: usize) -> String {
    format!("/memories/d/{number:03}.md")
}

fn large_path(number: usize) -> String {
    format!("/memories/large/{number:03}.md")
}

pub(crate) async fn print(site: &Site, rounds: usize) {
    let mut rows: Vec<(Usage, Vec<String>)> = Vec::new();
    for foreign in FOREIGN {
        let session = Session::new(site, rounds, foreign).await;
        for (number, (name, usage)) in session.measure().await.into_iter().enumerate() {
            match rows.get_mut(number) {
                Some((alone, row)) => row.push(added(alone, &usage)),
                None => rows.push((usage, [vec![name.to_owned()], usage.cells()].concat())),
            }
        }
    }
    let columns = format!("command | {} | with 1 foreign edit before it | with 10", Usage::COLUMNS);
    print_table(&columns, rows.into_iter().map(|(_, row)| row));
}

/// The difference to a command without foreign edits.
fn added(alone: &Usage, usage: &Usage) -> String {
    let [sent, received] = [usage.sent - alone.sent, usage.received - alone.received].map(bytes);
    format!("{:+.2} requests, {sent} sent, {received} received", usage.requests() - alone.requests())
}
/// A client with an open store, and another client of the same store.
struct Session<'a> {
    site: &'a Site,
    rounds: usize,
    foreign: usize,
    prefix: String,
    tool: Engine<BucketStore>,
    other: Engine<BucketStore>,
}

impl<'a> Session<'a> {
    async fn new(site: &'a Site, rounds: usize, foreign: usize) -> Self {
        let prefix = format!("commands-{foreign}");
        let other = site.open_uncounted(&prefix).await;
        for number in 0..FILES {
            other.write(path(number), text(number, SIZE)).await.unwrap();
        }
        for number in 0..LARGE_FILES {
            other.write(large_path(number), text(number, LARGE_SIZE)).await.unwrap();
        }
        other.write(OTHER, text(0, SIZE)).await.unwrap();
        let tool = Engine::new(site.open(&prefix, OpenOptions::new()).await);
        tool.call(view("/memories")).await.unwrap();
        site.take_all().await;
        let other = Engine::new(other);
        Self { site, rounds, foreign, prefix, tool, other }
    }

    /// The commands, in an order in which each finds the files that it needs.
    async fn measure(&self) -> Vec<(&'static str, Usage)> {
        let new = |number| format!("/memories/new/{number:03}.md");
        let moved = |number| format!("/memories/moved/{number:03}.md");
        let create = |number| create(&new(number), &text(FILES + number, SIZE));
        let insert = |number| {
            let path = path(FILES / 2 + number);
            json!({"command": "insert", "path": path, "insert_line": 0, "insert_text": "a line"})
        };
        let rename_all = |number: usize| {
            let (from, to) = if number.is_multiple_of(2) { ("d", "e") } else { ("e", "d") };
            rename(&format!("/memories/{from}"), &format!("/memories/{to}"))
        };
        let fresh = |number| format!("{}-fresh-{number}", self.prefix);
        vec![
            ("open a new store", self.opening(OpenOptions::new(), fresh).await),
            ("open an existing store", self.opening(OpenOptions::new(), |_| self.prefix.clone()).await),
            ("open it read-only", self.opening(OpenOptions::new().read_only(), |_| self.prefix.clone()).await),
            ("`view` of 200 files", self.command(|_| view("/memories/d")).await),
            ("`view` of a file of 4 KB, first", self.command(|number| view(&path(number))).await),
            ("`view` of a file of 4 KB, again", self.command(|_| view(&path(0))).await),
            ("`view` of a file of 16 KB, first", self.command(|number| view(&large_path(number))).await),
            ("`create` of a file of 4 KB", self.command(create).await),
            ("`str_replace` in a file of 4 KB", self.command(|number| edit(&path(number), 0)).await),
            ("`insert` into a file of 4 KB", self.command(insert).await),
            ("`rename` of a file", self.command(|number| rename(&new(number), &moved(number))).await),
            ("`delete` of a file", self.command(|number| delete(&moved(number))).await),
            ("`rename` of 200 files", self.command(rename_all).await),
        ]
    }

    async fn opening(&self, options: OpenOptions, prefix: impl Fn(usize) -> String) -> Usage {
        self.mean(async |number| drop(self.site.open(&prefix(number), options).await)).await
    }

    async fn command(&self, input: impl Fn(usize) -> Value) -> Usage {
        self.mean(async |number| drop(self.tool.call(input(number)).await.unwrap())).await
    }

    async fn mean(&self, call: impl AsyncFn(usize)) -> Usage {
        for number in 0..self.rounds {
            for foreign in 0..self.foreign {
                // Alternates across calls too, because the number of rounds is even.
                self.other.call(edit(OTHER, number * self.foreign + foreign)).await.unwrap();
            }
            call(number).await;
        }
        self.site.usage(self.rounds).await
    }
}
