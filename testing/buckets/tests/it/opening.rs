//! `Memory::open` on a bucket. Its settings come from the environment, so the test starts itself as a process with a
//! different environment.

use std::process::Command;

use memory_tool::Memory;
use memory_tool_test_servers::{S3Server, Server as _};
use serde_json::json;

/// The environment variable with the URL of the store.
const STORE: &str = "MEMORY_TOOL_TEST_OPEN";

#[tokio::test]
#[ignore = "the other test runs this in a process"]
async fn write_and_read() {
    let url = std::env::var(STORE).unwrap();
    let create = json!({"command": "create", "path": "/memories/a", "file_text": "kept"});
    Memory::open(&url).await.unwrap().tool().call(create).await.unwrap();
    let kept = Memory::open(&url).await.unwrap().read_to_string("/memories/a").await.unwrap();
    assert_eq!(kept, "kept");
}

#[test]
fn memory_open_opens_an_s3_bucket() {
    let server = S3Server::start().unwrap();
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.args(["--exact", "opening::write_and_read", "--ignored"]);
    process.envs(server.environment(server.url())).env(STORE, format!("{}/a%20prefix", server.bucket_url()));
    let output = process.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
}
