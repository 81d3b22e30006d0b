//! Agents talk to a local Messages API with rig's client.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use memory_tool::{Memory, ToolDefinition};
use memory_tool_test_servers::messages_api::{Answer, MessagesApi, call, text};
use serde_json::{Value, json};

fn start(api: &MessagesApi, directory: &Path) -> Child {
    let mut agent = Command::new(env!("CARGO_BIN_EXE_adapter-rig"));
    agent.arg("No milk.").current_dir(directory).stdout(Stdio::piped()).stderr(Stdio::piped());
    agent.env("ANTHROPIC_BASE_URL", api.url()).env("ANTHROPIC_API_KEY", "none").spawn().unwrap()
}

fn assert_done(agent: Child) {
    let output = agent.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.stdout, b"Noted.\n");
}

fn content(result: &Value) -> &str {
    result["content"].as_str().unwrap_or_else(|| result["content"][0]["text"].as_str().unwrap())
}

#[test]
fn an_agent_uses_the_memory_and_reads_errors() {
    let directory = tempfile::tempdir().unwrap();
    let uses = [
        call("t1", json!({"command": "create", "path": "/memories/a.txt", "file_text": "tea"})),
        call("t2", json!({"command": "str_replace", "path": "/memories/a.txt", "old_str": "tea", "new_str": "milk"})),
        call("t3", json!({"command": "view", "path": "/memories/a.txt"})),
        call("t4", json!({"command": "view", "path": "/etc/passwd"})),
        call("t5", json!({"command": "view", "path": 3})),
    ];
    let api = MessagesApi::start([Answer::message("tool_use", &uses), Answer::message("end_turn", &[text("Noted.")])]);
    assert_done(start(&api, directory.path()));
    let requests = api.finish();
    let tool = &requests[0].body["tools"][0];
    assert_eq!((&tool["name"], &tool["input_schema"]), (&json!("memory"), &ToolDefinition::input_schema()));
    let results = requests[1].last();
    assert_eq!(content(&results[0]), "File created successfully at: /memories/a.txt");
    assert!(content(&results[2]).ends_with("     1\tmilk") && results[2]["is_error"] != true, "{results:?}");
    let errors = results[3..].iter().map(|result| (content(result), &result["is_error"]));
    let wrong = "Error: Field `path` of the command view must be a string, got an integer: 3";
    let outside = "Error: Path must start with /memories, got: /etc/passwd";
    assert_eq!(errors.collect::<Vec<_>>(), [(outside, &json!(true)), (wrong, &json!(true))]);
}

#[tokio::test]
async fn two_agents_lose_no_edit() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}/memory.db?memory=alice", directory.path().display());
    Memory::open(&*url).await.unwrap().write("/memories/log.txt", "").await.unwrap();
    let script = |agent: &str| {
        let insert = |line: String| {
            call(
                &line,
                json!({"command": "insert", "path": "/memories/log.txt", "insert_line": 0, "insert_text": line}),
            )
        };
        let rounds = (0..4).map(|round| {
            let calls: Vec<_> = (0..5).map(|n| insert(format!("{agent}{round}{n}"))).collect();
            Answer::message("tool_use", &calls)
        });
        rounds.chain([Answer::message("end_turn", &[text("Noted.")])]).collect::<Vec<_>>()
    };
    let apis = ["a", "b"].map(|agent| MessagesApi::start(script(agent)));
    let agents = [&apis[0], &apis[1]].map(|api| start(api, directory.path()));
    for agent in agents {
        assert_done(agent);
    }
    let text = Memory::open(&*url).await.unwrap().read_to_string("/memories/log.txt").await.unwrap();
    let mut lines: Vec<_> = text.lines().filter(|line| !line.is_empty()).collect();
    lines.sort_unstable();
    let expected = ["a", "b"].iter().flat_map(|agent| (0..20).map(move |n| format!("{agent}{}{}", n / 5, n % 5)));
    assert_eq!(lines, expected.collect::<Vec<_>>());
}
