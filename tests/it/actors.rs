//! The actor of a memory.

use memory_tool::history::LogFilter;
use memory_tool::policies::JsonLinesLog;
use memory_tool::transfer::{CopyOptions, Import};
use memory_tool::{Actor, Memory, MemoryOptions, StoreUrl};
use serde_json::{Value, json};

fn actor(name: &str) -> Actor {
    Actor::from_trusted_name(name).unwrap()
}

/// Changes a memory in each way.
async fn change(memory: &Memory) {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("imported.md"), "text").unwrap();
    memory.write("/memories/a.md", "one").await.unwrap();
    memory.append("/memories/a.md", "two").await.unwrap();
    memory.write_if("/memories/b.md", "text", None).await.unwrap();
    memory.rename("/memories/b.md", "/memories/c.md").await.unwrap();
    memory.remove("/memories/c.md").await.unwrap();
    let create = json!({"command": "create", "path": "/memories/d.md", "file_text": "text"});
    memory.tool().call(create).await.unwrap();
    memory.history().unwrap().undo(1).await.unwrap();
    drop(memory.import(Import::from_path(directory.path()), |_| {}).await.unwrap());
    let other = Memory::open("in-process:").await.unwrap();
    other.write("/memories/copied.md", "text").await.unwrap();
    drop(other.copy_to(memory, CopyOptions::new(), |_| {}).await.unwrap());
    memory.clear().await.unwrap();
}

#[tokio::test]
async fn all_methods_of_a_memory_name_its_actor() {
    let mut options = MemoryOptions::new();
    (options.history, options.actor) = (true, Some(actor("agent")));
    let directory = tempfile::tempdir().unwrap();
    for place in [StoreUrl::InProcess, StoreUrl::Local(directory.path().join("store"))] {
        let memory = options.build(place).await.unwrap();
        let mut watch = memory.watch().await;
        change(&memory).await;
        let entries = memory.history().unwrap().entries(&LogFilter::new()).await.unwrap();
        assert_eq!(entries.len(), 10);
        assert!(entries.iter().all(|entry| entry.actor.as_deref() == Some("agent")), "{entries:?}");
        let commands: Vec<_> = entries.iter().rev().filter_map(|entry| entry.command.as_deref()).collect();
        assert!(commands.starts_with(&["create"]) && commands.ends_with(&["import", "copy"]), "{commands:?}");
        assert_eq!(watch.next().await.unwrap()[0].actor, Some(actor("agent")));
        memory.by(actor("user/42")).write("/memories/e.md", "text").await.unwrap();
        let newest = memory.history().unwrap().entries(&LogFilter::new().limit(1)).await.unwrap();
        assert_eq!(newest[0].actor.as_deref(), Some("user/42"), "another handle has another actor");
    }
}

#[tokio::test]
async fn the_actor_of_the_audit_log_is_the_default() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("audit");
    let audit = JsonLinesLog::builder(&log).open().await.unwrap();
    let memory = Memory::builder("in-process:").history().audit(audit, actor("agent")).build().await.unwrap();
    change(&memory).await;
    let entries = memory.history().unwrap().entries(&LogFilter::new()).await.unwrap();
    assert!(entries.iter().all(|entry| entry.actor.as_deref() == Some("agent")), "{entries:?}");
    memory.forget().await.unwrap();
    let records = std::fs::read_to_string(&log).unwrap();
    let records: Vec<Value> = records.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let forgotten = &records[records.len() - 2];
    assert_eq!((&forgotten["command"], &forgotten["actor"]), (&json!("forget"), &json!("agent")), "{forgotten}");
    assert_eq!(forgotten["changes"][0]["path"], "/memories");
}
