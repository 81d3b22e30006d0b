//! Clients and the conformance suite of the Model Context Protocol.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output};

use memory_tool_test_fixtures::by_tier;
use memory_tool_test_fixtures::session::{Place, program, suite_program};
use memory_tool_test_servers::{McpClients, python_with_mcp};
use serde_json::{Value, json};

use crate::server::{Server, new_token};

impl Server {
    fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }
}

/// A server whose memory is the store of a place, and a token for it.
fn start(place: &Place) -> (Server, String) {
    let (token, _) = new_token(place, &["--memory", "store", "--right", "tool", "--create"]);
    (Server::start_as(program().args(["serve", "--store"]).arg(place.outside("")), place), token)
}

fn succeed(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{stdout}\n{stderr}");
    stdout.into_owned()
}

/// The scenarios of the conformance suite that apply, and the number of their checks.
const PASSED: [&str; 8] = [
    "server-initialize",
    "ping",
    "tools-list",
    "resources-list",
    "prompts-list",
    "dns-rebinding-protection",
    "server-sse-polling",
    "server-sse-multiple-streams",
];
const CHECKS: u32 = 8;

/// The scenarios that need tools, resources and prompts of the suite, a model, logging or completions.
const NOT_APPLICABLE: [&str; 24] = [
    "tools-call-simple-text",
    "tools-call-image",
    "tools-call-audio",
    "tools-call-embedded-resource",
    "tools-call-mixed-content",
    "tools-call-with-logging",
    "tools-call-error",
    "tools-call-with-progress",
    "json-schema-2020-12",
    "tools-call-sampling",
    "tools-call-elicitation",
    "elicitation-sep1034-defaults",
    "elicitation-sep1330-enums",
    "resources-read-text",
    "resources-read-binary",
    "resources-templates-read",
    "resources-subscribe",
    "resources-unsubscribe",
    "prompts-get-simple",
    "prompts-get-with-args",
    "prompts-get-embedded-resource",
    "prompts-get-with-image",
    "logging-set-level",
    "completion-complete",
];

pub(crate) fn conformance_suite_passes() {
    let place = Place::new();
    let (server, token) = start(&place);
    let clients = McpClients::install().unwrap();
    let mut suite = clients.conformance();
    // The suite has no option for a token.
    let authorize = concat!("--import=", env!("CARGO_MANIFEST_DIR"), "/tests/downloads/authorize.mjs");
    suite.env("NODE_OPTIONS", authorize).env("TOKEN", token);
    suite.args(["server", "--suite", "all", "--url", &server.url()]).current_dir(place.outside(""));
    let output = suite.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let (_, summary) = printed.split_once("=== SUMMARY ===").unwrap_or_else(|| panic!("{output:?}"));
    let results = |mark: &str| -> BTreeSet<String> {
        let lines = summary.lines().filter_map(|line| line.strip_prefix(mark)?.trim_start().split_once(':'));
        lines.map(|(scenario, _)| scenario.to_owned()).collect()
    };
    assert_eq!(results("✓"), PASSED.map(str::to_owned).into(), "{summary}");
    assert_eq!(results("✗"), NOT_APPLICABLE.map(str::to_owned).into(), "{summary}");
    assert!(summary.contains(&format!("\nTotal: {CHECKS} passed, ")), "{summary}");
}

pub(crate) fn inspector_finds_no_mistake() {
    let place = Place::new();
    let clients = McpClients::install().unwrap();
    let (server, token) = start(&place);
    let inspect = |target: &[&str], words: &[&str]| -> Value {
        let mut inspector = clients.inspector(&place.outside("home"));
        let printed = succeed(inspector.arg("--cli").args(target).args(words));
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
    };
    let program = program();
    let (program, store) = (program.get_program().to_str().unwrap(), place.store());
    let over_stdio = [program, "mcp", "--store", store.to_str().unwrap()];
    let separate = [&over_stdio[..], &["--separate-tools"]].concat();
    let url = server.url();
    let header = format!("Authorization: Bearer {token}");
    let over_http = [url.as_str(), "--transport", "http", "--header", &header];
    // Problems of the schemas for other clients are errors.
    let tools = inspect(&over_stdio, &["--method", "tools/list", "--strict"]);
    assert_eq!(tools["tools"].as_array().unwrap().len(), 3);
    let tools = inspect(&separate, &["--method", "tools/list", "--strict"]);
    assert_eq!(tools["tools"].as_array().unwrap().len(), 8);
    let create = ["--method", "tools/call", "--tool-name", "memory", "--tool-arg", "command=create"];
    for (target, path) in [(&over_stdio[..], "/memories/a b.txt"), (&over_http, "/memories/b.txt")] {
        let created = inspect(target, &[&create[..], &[&format!("path={path}"), "file_text=Tea"]].concat());
        assert_eq!(created["content"][0]["text"], format!("File created successfully at: {path}"));
    }
    for target in [&over_stdio[..], &over_http] {
        let listed = inspect(target, &["--method", "resources/list"]);
        assert_eq!(listed["resources"][0]["uri"], "memory:///a%20b.txt");
        let read = inspect(target, &["--method", "resources/read", "--uri", "memory:///a%20b.txt"]);
        assert_eq!(read["contents"][0]["text"], "Tea");
        assert_eq!(inspect(target, &["--method", "prompts/list"])["prompts"][0]["name"], "tidy_memory");
        let prompt = inspect(target, &["--method", "prompts/get", "--prompt-name", "tidy_memory"]);
        assert_eq!(prompt["messages"][0]["role"], "user");
    }
}

pub(crate) fn python_client_works() {
    let place = Place::new();
    let (server, token) = start(&place);
    let script = place.outside("client.py");
    fs::write(&script, include_str!("mcp_client.py")).unwrap();
    let program = program();
    let mut python = Command::new(python_with_mcp().unwrap());
    python.arg(script).arg(program.get_program()).arg(place.outside("other")).arg(server.url()).arg(token);
    let results: Value = serde_json::from_str(&succeed(&mut python)).unwrap();
    for (transport, tools) in
        [("stdio", vec!["memory", "memory_search", "memory_history"]), ("http", vec!["memory", "memory_search"])]
    {
        for (mode, revision) in [("auto", "2026-07-28"), ("legacy", "2025-11-25")] {
            let expected = json!({
                "revision": revision,
                "server": "memory-tool",
                "tools": tools,
                "found": "/memories/a b.txt\n1: Tea",
                "created": "File created successfully at: /memories/a b.txt",
                "error": {"code": "already_exists", "message": "Error: File /memories/a b.txt already exists",
                    "retryable": false},
                "resources": ["memory:///a%20b.txt"],
                "content": "Tea",
                "prompt": "user",
                "notified": ["memory:///a%20b.txt"],
                "ordered": 20,
            });
            assert_eq!(results[transport][mode], expected, "{transport}, {mode}");
        }
    }
}

/// Cases of each command, a race and a restart. Only the long tier runs the last ones.
const CASES: [&str; 10] = [
    "restarts.acknowledged-changes-survive",
    "str_replace.several-occurrences",
    "view.image",
    "create.refuses-to-overwrite",
    "delete.directory",
    "insert.line-past-the-end",
    "paths.dot-dot-outside",
    "races.inserts-of-processes",
    "rename.file-over-a-file",
    "view.documented-listing",
];

pub(crate) fn server_passes_the_suite_of_memory_tools() {
    let server = format!("'{DRIVER}' '{}' mcp --store {{dir}} {{options}}", env!("CARGO_BIN_EXE_memory-tool"));
    passes(&server, &["--plain-files", "{dir}/memories"], &CASES[..by_tier(3, CASES.len())]);
}

/// Each case has its own memory in one server, and its own token.
pub(crate) fn http_passes_the_suite_of_memory_tools() {
    let place = Place::new();
    new_token(&place, &["--admin"]); // the server requires a file
    let server = Server::start(&place);
    let connect = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/downloads/mcp_token.py");
    let (program, tokens) = (env!("CARGO_BIN_EXE_memory-tool"), place.outside("tokens.json"));
    let arguments = format!("'{connect}' '{program}' '{}' {} {{dir}} '{DRIVER}'", tokens.display(), server.url());
    passes(&arguments, &[], &CASES[3..by_tier(6, CASES.len())]);
}

const DRIVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/drivers/mcp/driver.py");

/// Runs cases of the conformance suite for memory tools by Python with these arguments.
fn passes(arguments: &str, options: &[&str], cases: &[&str]) {
    let python = python_with_mcp().unwrap();
    let command = format!("'{}' -B {arguments}", python.display());
    let mut suite = suite_program();
    // The client takes a second to start.
    suite.args(["--timeout", "120", "--command", &command]).args(options);
    let printed = succeed(suite.args(cases.iter().map(|case| format!("--filter={case}"))));
    assert!(printed.contains(&format!("\n{} passed, 0 failed, 0 ignored", cases.len())), "{printed}");
}
