//! Inserts of several processes into one file, directly and through poolers.

use std::thread;

use libtest_mimic::Failed;
use memory_tool_core::{BoxError, Engine, MemoryTool as _, StoreExt as _};
use memory_tool_history::{HistoryStore, LogFilter};
use memory_tool_test_fixtures::agreement::disagreement;
use memory_tool_test_postgres::{Database, open, server};
use memory_tool_test_servers::{PgBouncer, PgPool, PostgresOptions};
use serde_json::json;
use tokio::runtime::Builder;

use crate::recording::start_session;

const PROCESSES: usize = 8;
const INSERTS: usize = 50;
const FILE: &str = "/memories/log";

pub(crate) fn direct() -> Result<(), Failed> {
    check(&Database::new(server()).url(server()))
}

/// The pooler has fewer connections than there are processes.
pub(crate) fn through_pgbouncer(mode: &str) -> Result<(), Failed> {
    let database = Database::new(server());
    let connections = if mode == "session" { PROCESSES + 2 } else { 3 };
    let mode = format!("pool_mode = {mode}\n");
    let pooler = PgBouncer::start_with(server(), &[database.role()], connections, &mode)?;
    check(&pooler.url(database.role(), database.name()))
}

/// The standby, to which the pooler sends reads, is behind.
pub(crate) fn through_pgpool() -> Result<(), Failed> {
    let primary = PostgresOptions::new().setting("recovery_min_apply_delay", "200ms").start()?;
    let database = Database::new(&primary);
    let standby = primary.standby()?;
    let pooler = PgPool::start(&primary, &standby)?;
    check(&pooler.url(database.role(), database.name()))
}

/// Checks two memories: one has a history.
fn check(url: &str) -> Result<(), Failed> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let plain = format!("{url}?memory=plain");
    let store = runtime.block_on(open(&plain))?;
    runtime.block_on(store.write(FILE, ""))?;
    insert(&plain);
    let file = runtime.block_on(store.read(FILE))?.into_file().ok_or("the file is missing")?;
    check_lines(std::str::from_utf8(&file.content)?.lines().rev());

    let url = format!("{url}?memory=with-history");
    let tool = Engine::new(HistoryStore::new(runtime.block_on(open(&url))?));
    runtime.block_on(tool.call(json!({"command": "create", "path": FILE, "file_text": ""})))?;
    insert(&url);
    Ok(runtime.block_on(check_history(tool.store()))?)
}

fn insert(url: &str) {
    thread::scope(|threads| {
        for process in 0..PROCESSES {
            threads.spawn(move || {
                let mut session = start_session(url);
                for number in 0..INSERTS {
                    let text = format!("{process}-{number}");
                    session.succeed(&json!({"command": "insert", "path": FILE, "insert_line": 0, "insert_text": text}));
                }
                session.close();
            });
        }
    });
}

async fn check_history(store: &HistoryStore<impl memory_tool_core::Store>) -> Result<(), BoxError> {
    let file = store.read(FILE).await?.into_file().ok_or("the file is missing")?;
    let lines: Vec<_> = std::str::from_utf8(&file.content)?.lines().rev().map(str::to_owned).collect();
    let entries = store.history().entries(&LogFilter::new()).await?;
    let numbers: Vec<_> = entries.iter().rev().map(|entry| entry.number).collect();
    let first = numbers.first().copied().unwrap_or_default();
    let expected: Vec<_> = (first..=first + (PROCESSES * INSERTS) as u64).collect();
    assert_eq!(numbers, expected, "one entry per insert, and one for the file");
    // Each entry adds the next line.
    for (number, _) in expected.iter().zip(0..).step_by(50) {
        let then = store.history().read(&FILE.parse()?, *number).await?;
        let length = std::str::from_utf8(&then)?.lines().count();
        let newest = std::str::from_utf8(&then)?.lines().next().map(str::to_owned);
        assert_eq!(length as u64, number - first);
        assert_eq!(newest, length.checked_sub(1).map(|last| lines[last].clone()), "entry {number}");
    }
    assert_eq!(disagreement(store).await?, None);
    check_lines(lines.iter().map(String::as_str));
    Ok(())
}

/// Each process's lines must be there once and in order.
fn check_lines<'a>(lines: impl Iterator<Item = &'a str>) {
    let mut lines: Vec<_> = lines.collect();
    for process in 0..PROCESSES {
        let of_process = lines.iter().copied().filter(|line| line.starts_with(&format!("{process}-")));
        let expected = (0..INSERTS).map(|number| format!("{process}-{number}"));
        assert!(of_process.eq(expected), "the inserts of process {process} are not in order");
    }
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), PROCESSES * INSERTS);
}
