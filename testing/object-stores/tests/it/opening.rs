//! `Memory::open` on a bucket. Its settings come from the environment, which a test cannot change for itself: it runs itself as the
//! process that has them.

use std::process::Command;

use memory_tool::Memory;
use memory_tool_test_servers::{S3Server, Server as _};
use serde_json::json;

/// Names the store that the process is to open.
const STORE: &str = "MEMORY_TOOL_TEST_OPEN";

#[tokio::test]
#[ignore = "what the process of the other test does"]
async fn keep() {
    let url = std::env::var(STORE).unwrap();
    let create = json!({"command": "create", "path": "/memories/a", "file_text": "kept"});
    Memory::open(&url).await.unwrap().tool().call(create).await.unwrap();
    let kept = Memory::open(&url).await.unwrap().read_to_string("/memories/a").await.unwrap();
    assert_eq!(kept, "kept");
}

#[test]
fn a_bucket_of_s3() {
    let server = S3Server::start().unwrap();
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.args(["--exact", "opening::keep", "--ignored"]);
    process.envs(server.environment(server.url())).env(STORE, format!("{}/a%20prefix", server.bucket_url()));
    let output = process.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
}
