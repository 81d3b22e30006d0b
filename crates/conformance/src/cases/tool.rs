//! Methods of the tool beyond the six commands.

use memory_tool_core::MemoryTool;

use crate::failure::CaseError;
use crate::target::Target;

cases! {
    |target| &target;
    clear_all_memory;
}

async fn clear_all_memory(target: &Target) -> Result<(), CaseError> {
    let (tool, client) = (target.tool()?, target.client());
    let files = ["/memories/.hidden", "/memories/a", "/memories/d/e/f"];
    for file in files {
        client.must_create(file, "text").await?;
    }
    if tool.clear_all_memory().await.is_ok() {
        for file in files {
            let missing = format!("The path {file} does not exist. Please provide a valid path.");
            client.view(file).await?.error(&missing)?;
        }
        client.view("/memories").await?.items(&["/memories"])
    } else {
        for file in files {
            client.text(file).await?;
        }
        Ok(())
    }
}
