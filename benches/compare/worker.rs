//! The process of a contestant that is written in Rust.

mod floor;
mod ours;
mod sqlite_floor;
mod threads;

use std::env;
use std::io::{self, Write};
use std::path::Path;

use crate::contestant::Contestant;
use crate::protocol::{Hello, Job, Outcome};
use crate::worker::floor::Floor;
use crate::worker::ours::Ours;
pub(crate) use crate::worker::sqlite_floor::CREATE_TABLE;
use crate::worker::sqlite_floor::SqliteFloor;
use crate::worker::threads::Threads;

trait Runner {
    fn run(&mut self, job: Job) -> Outcome;
}

/// Runs the jobs on standard input.
pub(crate) fn serve(contestant: Contestant, base: &Path) {
    env::set_current_dir(base).unwrap();
    let (version, mut runner): (_, Box<dyn Runner>) = match contestant {
        Contestant::Local => (env!("CARGO_PKG_VERSION"), Box::new(Ours::local())),
        Contestant::Sqlite => (env!("CARGO_PKG_VERSION"), Box::new(Ours::sqlite())),
        Contestant::SqliteFloor => (rusqlite::version(), Box::new(Threads::<SqliteFloor>::default())),
        Contestant::Floor => ("std::fs", Box::new(Threads::<Floor>::default())),
        Contestant::Python | Contestant::TypeScript => panic!("{contestant:?} has a script"),
    };
    let mut output = io::stdout().lock();
    let hello = Hello { version: version.to_owned() };
    writeln!(output, "{}", serde_json::to_string(&hello).unwrap()).unwrap();
    for line in io::stdin().lines() {
        let outcome = runner.run(serde_json::from_str(&line.unwrap()).unwrap());
        writeln!(output, "{}", serde_json::to_string(&outcome).unwrap()).unwrap();
    }
}
