//! An agent tidies a memory, and a person reads the report of its changes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use memory_tool_test_fixtures::session::{Place, Session, outcome, program};
use serde_json::{Value, json};

use super::stdio::Client;
use crate::history::Store;

const FACT: &str = "The user drinks tea, without any milk, at four o'clock.\n";

fn json_of(output: &str) -> Value {
    serde_json::from_str(output).unwrap()
}

/// The server of a configuration, in another directory.
fn server(task: &Value) -> Command {
    let server = &task["mcp"]["mcpServers"]["memory"];
    assert_eq!(server["command"], "memory-tool");
    let mut command = program();
    let arguments = server["args"].as_array().unwrap();
    command.args(arguments.iter().map(|word| word.as_str().unwrap())).current_dir("/");
    command
}

#[test]
fn an_agent_tidies_a_memory_and_a_person_reads_the_report() {
    for store in Store::all() {
        for (path, text) in [
            ("a.md", format!("# A\n{FACT}Likes [b](b.md).\nold\n")),
            ("b.md", format!("# B\n- {FACT}{FACT}")),
            ("c.md", "[gone](d.md)\n".to_owned()),
            ("e.md", "[gone](d.md)\n".to_owned()),
            ("old.md", (0..12).map(|line| format!("{line}\n")).collect()),
        ] {
            store.run(&["create", path, "--text", &text]);
        }
        let task = json_of(&store.run(&["tidy", "--json"]));
        assert_eq!(json!([task["proposal"], task["revision"]]), json!(["tidy", null]));
        assert_eq!(task["definition"], json!({"type": "memory_20250818", "name": "memory"}));
        assert_eq!(task["report"]["dead_links"]["count"], 2);
        assert_eq!(task["report"]["equal_files"]["first"][0]["first"], json!(["/memories/c.md", "/memories/e.md"]));
        assert_eq!(
            task["report"]["repeated_lines"]["first"][0]["paths"]["first"],
            json!(["/memories/a.md", "/memories/b.md"])
        );

        let mut agent = Client::start_as(&mut server(&task));
        let prompt = agent.request("prompts/get", json!({"name": "tidy_memory"}));
        assert_eq!(prompt["result"]["messages"][0]["content"]["text"], task["prompt"]);
        assert!(task["prompt"].as_str().unwrap().contains("I look at your changes before they count."));
        for path in ["/memories/b.md", "/memories/e.md", "/memories/old.md"] {
            let reply = agent.succeed(json!({"command": "delete", "path": path}));
            assert!(!reply.contains("wait") && !reply.contains("proposal"), "{reply}");
        }
        agent.succeed(json!({"command": "str_replace", "path": "/memories/a.md", "old_str": "old\n", "new_str": ""}));
        agent.end();

        let task = json_of(&store.run(&["tidy", "--json"]));
        let report = &task["report"];
        assert!(task["revision"].is_string() && task["removes_much"] == true, "{task}");
        assert_eq!(report["before"], json!({"files": 5, "bytes": 251, "lines": 19}));
        assert_eq!(json!([report["after"]["files"], report["after"]["lines"]]), json!([2, 4]));
        let removed: Vec<_> =
            report["removed_lines"]["first"].as_array().unwrap().iter().map(|line| &line["text"]).collect();
        assert_eq!(removed[..3], ["old", "# B", &format!("- {}", FACT.trim_end())]);
        assert_eq!(report["dead_links"]["first"][0], json!({"path": "/memories/a.md", "text": "b.md"}));
        assert_eq!(json!([report["equal_files"]["count"], report["repeated_lines"]["count"]]), json!([0, 0]));
        assert_eq!(store.run(&["ls"]), "a.md\nb.md\nc.md\ne.md\nold.md\n");
    }
}

/// The command of a printed line, in another directory.
fn printed(lines: &str, start: &str) -> Command {
    let line = lines.lines().find(|line| line.trim().starts_with(start)).unwrap_or_else(|| panic!("{lines}"));
    let (_, arguments) = line.split_once("memory-tool ").unwrap();
    let mut command = program();
    command.args(shlex::split(arguments).unwrap()).current_dir("/");
    command
}

#[test]
fn the_printed_commands_work_in_any_directory() {
    let place = Place::new();
    let directory = place.store().parent().unwrap().to_owned();
    fs::write(directory.join("the key"), "01".repeat(32)).unwrap();
    fs::set_permissions(directory.join("the key"), fs::Permissions::from_mode(0o600)).unwrap();
    let run = |words: &[&str]| {
        let mut command = program();
        command.args(words).args(["--store", "it's", "--key-file", "the key", "--scope", "a b"]);
        let (status, output, errors) = outcome(command.current_dir(&directory));
        assert_eq!((status, errors.as_str()), (Some(0), ""), "{words:?}");
        output
    };
    let more: String = (4..=12).map(|line| format!("{line}\n")).collect();
    run(&["create", "a.md", "--text", &format!("1\n2\u{202e}\n3\n[b](b.md)\n{more}")]);
    let task = run(&["tidy", "weekly"]);
    assert!(task.starts_with("No changes wait in the proposal weekly. "), "{task}");
    assert!(task.contains("dead links: 1\n  /memories/a.md: b.md\nfiles with the same contents: 0\n"), "{task}");
    assert!(task.contains(r#"{"type":"memory_20250818","name":"memory"}"#), "{task}");

    let mut agent = Client::start_as(printed(&task, "memory-tool mcp ").arg("--no-history"));
    agent.succeed(json!({"command": "str_replace", "path": "/memories/a.md", "old_str": "2\u{202e}\n", "new_str": ""}));
    agent.end();
    let report = outcome(&mut printed(&task, "memory-tool tidy weekly")).1;
    assert_eq!(report, run(&["tidy", "weekly"]));
    assert!(report.contains("after the changes: 1\n  /memories/a.md: 2\\u{202e}\n"), "{report}");
    let mut session = Session::start_as(&mut printed(&task, "memory-tool run "));
    session.succeed(&json!({"command": "delete", "path": "/memories/a.md"}));
    session.close();
    let report = run(&["tidy", "weekly"]);
    assert!(report.contains("after the changes, more than a third of all: 13\n"), "{report}");
    assert!(outcome(&mut printed(&report, "to look: memory-tool ")).1.contains("-[b](b.md)\n"));
    assert!(report.contains("'--revision="), "{report}");
    let dropped = outcome(&mut printed(&report, "to drop: memory-tool ")).1;
    assert_eq!(dropped, "dropped the changes of 1 file\n    /memories/a.md\n");
    assert!(run(&["tidy", "weekly"]).starts_with("No changes wait"));
}
