//! Inserts of several processes into one file.

use std::thread;

use libtest_mimic::Failed;
use memory_tool_core::{Engine, MemoryTool as _, StoreExt as _};
use memory_tool_history::{HistoryStore, LogFilter};
use memory_tool_test_fixtures::agreement::disagreement;
use memory_tool_test_postgres::{Database, open, server};
use serde_json::json;
use tokio::runtime::Builder;

use crate::recording::start_session;

const PROCESSES: usize = 8;
const INSERTS: usize = 50;
const FILE: &str = "/memories/log";

pub(crate) fn check() -> Result<(), Failed> {
    let database = Database::new(server());
    let url = format!("{}?memory=with-history", database.url(server()));
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let tool = Engine::new(HistoryStore::new(runtime.block_on(open(&url))?));
    runtime.block_on(tool.call(json!({"command": "create", "path": FILE, "file_text": ""})))?;
    thread::scope(|threads| {
        for process in 0..PROCESSES {
            let url = &url;
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
    let store = tool.store();
    runtime.block_on(async {
        let file = store.read(FILE).await?.into_file().ok_or("the file is missing")?;
        let mut lines: Vec<_> = std::str::from_utf8(&file.content)?.lines().rev().map(str::to_owned).collect();
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
        for process in 0..PROCESSES {
            let of_process = lines.iter().filter(|line| line.starts_with(&format!("{process}-")));
            let expected = (0..INSERTS).map(|number| format!("{process}-{number}"));
            assert!(of_process.cloned().eq(expected), "the inserts of process {process} are not in order");
        }
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines.len(), PROCESSES * INSERTS);
        Ok(())
    })
}
