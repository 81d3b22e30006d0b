//! Runs `examples/bridge.py` with the real Python SDK and the real program. Downloads the SDK.

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use memory_tool_test_servers::messages_api::{Answer, MessagesApi, call, text};
use memory_tool_test_servers::python_with_anthropic;
use serde_json::json;
use tempfile::TempDir;

const BRIDGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/bridge.py");

fn run_bridge(workspace: &TempDir, api: &MessagesApi, question: &str) -> Output {
    let program = memory_tool_test_fixtures::session::program();
    let directory = Path::new(program.get_program()).parent().unwrap().to_owned();
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([directory].into_iter().chain(env::split_paths(&path))).unwrap();
    Command::new(python_with_anthropic().unwrap())
        .args([BRIDGE, question])
        .current_dir(workspace)
        .env("PATH", path)
        .env("ANTHROPIC_API_KEY", "sk-ant-test-0123456789")
        .env("ANTHROPIC_BASE_URL", api.url())
        .env("NO_PROXY", "127.0.0.1")
        .output()
        .unwrap()
}

#[test]
fn python_agent_remembers_and_receives_errors() {
    let workspace = TempDir::new().unwrap();
    let file = "/memories/tea.md";
    let create = call("toolu_1", json!({"command": "create", "path": file, "file_text": "Thé, no milk\n"}));
    let again = call("toolu_2", json!({"command": "create", "path": file, "file_text": "Coffee\n"}));
    let api = MessagesApi::start([
        Answer::message("tool_use", &[text("I note it."), create, again]),
        Answer::message("end_turn", &[text("Noted.")]),
    ]);
    let output = run_bridge(&workspace, &api, "I take tea without milk");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Noted.\n");
    let requests = api.finish();
    assert_eq!(requests[0].body["tools"], json!([{"type": "memory_20250818", "name": "memory"}]));
    let results = requests[1].last();
    assert_eq!(results[0]["content"], format!("File created successfully at: {file}"));
    assert_ne!(results[0]["is_error"], true);
    assert_eq!(results[1]["content"], format!("Error: File {file} already exists"));
    assert_eq!(results[1]["is_error"], true);
    assert_eq!(fs::read_to_string(workspace.path().join("memory/memories/tea.md")).unwrap(), "Thé, no milk\n");

    let view = call("toolu_3", json!({"command": "view", "path": file}));
    let api = MessagesApi::start([
        Answer::message("tool_use", &[view]),
        Answer::message("end_turn", &[text("Tea, without milk.")]),
    ]);
    let output = run_bridge(&workspace, &api, "What do I drink?");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Tea, without milk.\n");
    assert!(api.finish()[1].last()[0]["content"].as_str().unwrap().contains("1\tThé, no milk\n"));
}

#[test]
fn sdk_version_matches_the_drivers() {
    let pinned = include_str!("../../../servers/requirements/anthropic.txt");
    let named = include_str!("../../../../examples/drivers/python/requirements.txt").trim();
    assert!(pinned.lines().any(|line| line.trim_end_matches(" \\") == named), "{named}");
}
