//! An application that writes, shows, edits and clears its user's memory, and shares it with Claude.
//! Run it: `cargo run -p examples --example app`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use memory_tool::policies::{Scope, SensitiveData, default_quota};
use memory_tool::{BoxError, Memory};
use serde_json::json;

/// The memory of one user, whose name comes from the authenticated session.
async fn memory_of(user: &str, directory: &std::path::Path) -> Result<Memory, BoxError> {
    let memory = Memory::builder(directory)
        .scope(Scope::from_trusted_name(user)?)
        .limits(default_quota())
        .screen(SensitiveData::new())
        .expire_after(Duration::from_secs(90 * 24 * 60 * 60))
        .on_change(|change| println!("changed: {change:?}"))
        .build();
    Ok(memory.await?)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let directory = tempfile::tempdir()?; // an application uses its data directory
    let memory = memory_of("alice", directory.path()).await?;
    memory.write("/memories/profile.md", "Prefers tee.").await?;
    memory.write("/memories/profile.md", "Prefers tea.").await?; // the user fixes a typo

    // A response from the Messages API to a request with the memory tool.
    let response = json!({"role": "assistant", "stop_reason": "tool_use", "content": [{
        "type": "tool_use", "id": "toolu_1", "name": "memory",
        "input": {"command": "str_replace", "path": "/memories/profile.md", "old_str": "tea", "new_str": "coffee"},
    }]});
    let answer = memory.runner().answer(&response).await;
    println!("to Claude: {}", answer.into_message().unwrap_or_default());

    // A settings page lists the files.
    for file in memory.list("/memories").await? {
        println!("{} {} bytes: {}", file.path, file.size, memory.read_to_string(&file.path).await?);
    }
    println!("{} files, {} bytes", memory.usage().await?.files, memory.usage().await?.bytes);

    // The user deletes one file, then all of them.
    memory.remove("/memories/profile.md").await?;
    memory.clear().await?;
    Ok(())
}
