//! Operations of the history under the policies above it.

use memory_tool::history::HistoryError;
use memory_tool::policies::{JsonLinesLog, default_quota};
use memory_tool::store::{Batch, StorePath};
use memory_tool::{Actor, Memory, MemoryOptions, Screening, StoreError, StoreUrl};
use serde_json::Value;

fn person() -> Actor {
    Actor::from_trusted_name("person").unwrap()
}

fn is_refused<T: std::fmt::Debug>(outcome: &Result<T, HistoryError>) -> bool {
    matches!(outcome, Err(HistoryError::Store(StoreError::Refused { .. })))
}

#[tokio::test]
async fn limits_apply_to_restored_files() {
    let memory = Memory::builder("in-process:").history().limits(default_quota().with_files(3)).build().await.unwrap();
    for name in ["a", "b", "c"] {
        memory.write(format!("/memories/{name}").as_str(), "text").await.unwrap();
    }
    memory.remove("/memories").await.unwrap(); // 4
    memory.write("/memories/d", "text").await.unwrap(); // 5
    let history = memory.history().unwrap();
    let refused = history.revert([4]).await;
    assert!(is_refused(&refused), "{refused:?}");
    assert_eq!(memory.list("/memories").await.unwrap().len(), 1);
    history.restore(&StorePath::memories().join("a").unwrap(), 3).await.unwrap();
    assert_eq!(memory.list("/memories").await.unwrap().len(), 2);
    history.restore(&StorePath::memories(), 3).await.unwrap(); // removes the new file
    assert_eq!(memory.list("/memories").await.unwrap().len(), 3);
}

#[tokio::test]
async fn screening_applies_to_restored_texts() {
    let directory = tempfile::tempdir().unwrap();
    let place = StoreUrl::Local(directory.path().join("store"));
    let mut options = MemoryOptions::new();
    options.history = true;
    let memory = options.build(place.clone()).await.unwrap();
    let key = ["AKIA", "IOSFODNN7", "EXAMPLQ"].concat();
    memory.write("/memories/keys.md", format!("key: {key}\n")).await.unwrap();
    memory.write("/memories/keys.md", "none\n").await.unwrap();
    options.screen = Some(Screening::Refuse);
    let memory = options.build(place).await.unwrap();
    let refused = memory.history().unwrap().undo(1).await;
    assert!(is_refused(&refused), "{refused:?}");
    assert_eq!(memory.read_to_string("/memories/keys.md").await.unwrap(), "none\n");
}

#[tokio::test]
async fn the_audit_log_names_the_person_of_each_operation() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit");
    let audit = JsonLinesLog::builder(&path).open().await.unwrap();
    let agent = Actor::from_trusted_name("agent").unwrap();
    let memory = Memory::builder("in-process:").history().audit(audit, agent).build().await.unwrap();
    memory.write("/memories/a", "one").await.unwrap();
    memory.write("/memories/a", "two").await.unwrap();
    let by = memory.by(person());
    let history = by.history().unwrap();
    history.undo(1).await.unwrap();
    history.redo().await.unwrap();
    history.revert([2]).await.unwrap();
    history.restore(&StorePath::memories(), 2).await.unwrap();
    history.redact([1]).await.unwrap();
    history.clear().await.unwrap();
    let record = StorePath::records().join("memory-stores").and_then(|path| path.join("store")).unwrap();
    by.store().apply(Batch::new().for_command("api_archive_store").write(record, "{}")).await.unwrap();
    by.forget().await.unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of_person = lines.iter().filter(|line| line["actor"] == "person" && line["event"] == "outcome");
    let of_person: Vec<_> = of_person.map(|line| line["command"].as_str().unwrap()).collect();
    let expected = ["undo", "redo", "revert", "restore", "redact", "redact", "api_archive_store", "forget"];
    assert_eq!(of_person, expected, "{text}");
}
