//! Runs each example and checks that it is short, documented and listed in `examples/README.md`.
//!
//! `cargo test` builds the examples first. To run only this test, run `cargo build -p examples --examples` before it.

#![cfg(test)]

use std::collections::BTreeSet;
use std::env::consts::EXE_SUFFIX;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use memory_tool_test_servers::messages_api::{Answer, MessagesApi, call, text};
use memory_tool_test_servers::{AzureServer, BUCKET, GcsServer, S3Server, Server};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Examples must have fewer lines.
const MAX_LINES: usize = 80;

/// The maximum number of lines of the custom store, as documented in the README.
const MAX_LINES_OF_CUSTOM_STORE: usize = 40;

/// `app` must have fewer lines that are not blank.
const MAX_LINES_OF_APP: usize = 60;

/// Each example with its test. The package `customer_service` has separate tests.
const EXAMPLES: [(&str, fn()); 16] = [
    ("app", app),
    ("azure", azure),
    ("chat", chat),
    ("custom_store", custom_store),
    ("encrypted", encrypted),
    ("gcs", gcs),
    ("local", local),
    ("migration", migration),
    ("monitoring", monitoring),
    ("multi_tenant", multi_tenant),
    ("production", production),
    ("program", program),
    ("quickstart", quickstart),
    ("s3", s3),
    ("sqlite", sqlite),
    ("wording", wording),
];

fn main() -> ExitCode {
    let mut trials = vec![Trial::test("examples_are_short_and_listed", || {
        examples_are_short_and_listed();
        Ok(())
    })];
    trials.extend(EXAMPLES.map(|(name, run)| {
        Trial::test(name, move || {
            run();
            Ok(())
        })
    }));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn examples_are_short_and_listed() {
    let examples = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(examples.join("README.md")).unwrap();
    let mut names = Vec::new();
    for entry in fs::read_dir(&examples).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() || path.extension().is_none_or(|extension| extension != "rs") {
            continue; // the README, packages, and examples in other languages
        }
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let source = fs::read_to_string(&path).unwrap();
        assert!(source.lines().count() < MAX_LINES, "{name} is too long");
        let mut lines = source.lines();
        let summary = lines.next().unwrap().strip_prefix("//! ").unwrap();
        let command = lines.next().and_then(|line| line.strip_prefix("//! Run it: ")).unwrap_or_default();
        let run = format!("cargo run -p examples --example {name}");
        assert!(summary.ends_with('.') && command.contains(&run), "{name}: {command}");
        assert!(page.contains(&format!("\n- [`{name}`]({name}.rs): ")), "{name} is not listed");
        names.push(name);
    }
    names.sort_unstable();
    assert_eq!(names, EXAMPLES.map(|(name, _)| name));
}

/// The number of lines that are not blank.
fn count_lines(source: &str) -> usize {
    source.lines().filter(|line| !line.trim().is_empty()).count()
}

struct Directory(TempDir);

impl Directory {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns a command that runs the example in a clean environment.
    fn command(&self, name: &str) -> Command {
        let tests = std::env::current_exe().unwrap(); // in `deps`, next to `examples`
        let program = tests.ancestors().nth(2).unwrap().join("examples").join(format!("{name}{EXE_SUFFIX}"));
        assert!(program.is_file(), "{} is missing: run `cargo build -p examples --examples`", program.display());
        let mut command = Command::new(program);
        command.current_dir(self.path()).env_clear();
        for variable in ["PATH", "SystemRoot", "TEMP", "TMP", "TMPDIR"] {
            command.envs(std::env::var_os(variable).map(|value| (variable, value)));
        }
        command
    }

    fn run(&self, name: &str) -> String {
        stdout_of(self.command(name).output().unwrap())
    }
}

/// Returns the standard output of a process that succeeded.
fn stdout_of(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the standard error of a process that failed.
fn stderr_of(output: Output) -> String {
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

fn quickstart() {
    let printed = Directory::new().run("quickstart");
    let replies: Vec<_> = printed.split("\n\n").map(|answer| answer.split_once('\n').unwrap_or_default().1).collect();
    assert_eq!(replies[1], "File created successfully at: /memories/preferences.txt");
    assert!(replies[5].ends_with("     1\tFavorite color: green\n     2\tLikes: tea\n     3\t"), "{printed}");
    assert_eq!(replies[6..8], ["Successfully deleted /memories/anna", "Error: The path /memories/anna does not exist"]);
}

fn program() {
    let directory = Directory::new();
    let printed = directory.run("program");
    let (tools, message) = printed.trim_end().split_once('\n').unwrap();
    let [tools, message] = [tools, message].map(|line| serde_json::from_str::<Value>(line).unwrap());
    assert_eq!(tools, json!([{"type": "memory_20250818", "name": "memory"}]));
    let result = &message["content"][0];
    assert_eq!((&result["tool_use_id"], &result["is_error"]), (&json!("toolu_1"), &Value::Null));
    assert!(result["content"].as_str().unwrap().ends_with("\n     1\tPrefers tea."), "{result}");
    assert_eq!(directory.run("program"), printed);
}

fn local() {
    let directory = Directory::new();
    let content = "Anna takes no milk.\n";
    let created = format!("File created successfully at: /memories/anna/tea.md\n{content}");
    assert_eq!(directory.run("local"), created);
    assert_eq!(directory.run("local"), format!("Error: File /memories/anna/tea.md already exists\n{content}"));
}

fn sqlite() {
    let directory = Directory::new();
    let first = directory.run("sqlite");
    assert_eq!(first.matches("File created successfully at: /memories/drinks.md").count(), 2, "{first}");
    let of_each = "     1\tPrefers tea.\nuser/43: ";
    assert!(first.contains(of_each) && first.ends_with("     1\tPrefers coffee.\n"), "{first}");
    let second = directory.run("sqlite");
    assert_eq!(
        second,
        first.replace(
            "File created successfully at: /memories/drinks.md",
            "Error: File /memories/drinks.md already exists"
        )
    );
    assert!(directory.path().join("memory.sqlite").is_file());
}

fn encrypted() {
    let directory = Directory::new();
    let run = |key: &str| directory.command("encrypted").env("MEMORY_KEY", key.repeat(32)).output().unwrap();
    let first = stdout_of(run("a1"));
    assert!(first.starts_with("File created successfully at: /memories/anna/health.md\n"), "{first}");
    assert!(first.contains("     1\tAllergic to nuts.\n"), "{first}");
    let (_, on_disk) = first.split_once("On disk:\n").unwrap();
    assert!(on_disk.lines().count() > 1 && !on_disk.contains("anna"), "{on_disk}");
    for file in files_under(directory.path()) {
        assert!(!String::from_utf8_lossy(&fs::read(&file).unwrap()).contains("nuts"), "{}", file.display());
    }
    assert!(stdout_of(run("a1")).starts_with("Error: File /memories/anna/health.md already exists\n"));
    assert!(!stderr_of(run("b2")).contains("nuts"), "opened with a wrong key");
}

fn files_under(directory: &Path) -> Vec<PathBuf> {
    let (directories, mut files): (Vec<_>, Vec<_>) =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).partition(|path| path.is_dir());
    files.extend(directories.iter().flat_map(|directory| files_under(directory)));
    files
}

/// Runs an example twice on a server's bucket. The second run finds the files of the first.
fn run_on_bucket(name: &str, server: &dyn Server, expected: &str) {
    let directory = Directory::new();
    let run =
        |bucket: &str| directory.command(name).arg(bucket).envs(server.environment(server.url())).output().unwrap();
    assert_eq!(stdout_of(run(BUCKET)), expected);
    let again =
        expected.replace("File created successfully at: ", "Error: File ").replace(".md\n", ".md already exists\n");
    assert_eq!(stdout_of(run(BUCKET)), again);
    stderr_of(run("no-such-bucket"));
}

fn s3() {
    let expected = "removed 0 objects\nFile created successfully at: /memories/tea.md\n\
                    Here's the content of /memories/tea.md with line numbers:\n     1\tAnna takes no milk.\n";
    run_on_bucket("s3", &S3Server::start().unwrap(), expected);
}

fn gcs() {
    let expected = "File created successfully at: /memories/tea.md\n\
                    Here's the content of /memories/tea.md with line numbers:\n     1\tAnna takes no milk.\n";
    run_on_bucket("gcs", &GcsServer::start().unwrap(), expected);
}

fn azure() {
    let of = |user, text| {
        format!(
            "{user}: File created successfully at: /memories/drinks.md\n\
             {user}: Here's the content of /memories/drinks.md with line numbers:\n     1\t{text}\n"
        )
    };
    let expected = of("anna", "Prefers tea.") + &of("ben", "Prefers coffee.");
    run_on_bucket("azure", &AzureServer::start().unwrap(), &expected);
}

fn app() {
    let printed = Directory::new().run("app");
    let lines: Vec<_> = printed.lines().collect();
    assert!(
        lines[0].starts_with("changed: MemoryChange { operation: Write, path: MemoryPath(\"/memories/profile.md\")")
    );
    assert!(lines[3].starts_with("to Claude: {") && lines[3].contains("coffee"), "{printed}");
    assert_eq!(lines[4..6], ["/memories/profile.md 15 bytes: Prefers coffee.", "1 files, 15 bytes"]);
    assert!(lines[7].starts_with("changed: MemoryChange { operation: Remove"), "{printed}");
    assert!(count_lines(include_str!("../app.rs")) < MAX_LINES_OF_APP);
}

fn custom_store() {
    let printed = Directory::new().run("custom_store");
    assert!(printed.starts_with("File created successfully at: /memories/notes.md\n"), "{printed}");
    assert!(printed.ends_with("\n21B\t/memories\n9B\t/memories/notes.md\n12B\t/memories/profile.md\n"), "{printed}");
    assert!(count_lines(include_str!("../../crates/core/examples/map_store.rs")) <= MAX_LINES_OF_CUSTOM_STORE);
}

fn wording() {
    let expected = "Datei angelegt: /memories/tee.md\n\
                    /memories/tee.md wurde geändert und lautet an dieser Stelle:\n     1\tAnna nimmt keine Milch.\n\
                    Fehler: /memories/kaffee.md gibt es nicht.\n\
                    Error: Path /memories/../etc/passwd would escape /memories directory\n";
    assert_eq!(Directory::new().run("wording"), expected);
}

fn migration() {
    let directory = Directory::new();
    directory.run("local");
    assert_eq!(directory.run("migration"), "Migrated { copied: 1, unchanged: 0, conflicts: [] }\n");
    assert_eq!(directory.run("migration"), "Migrated { copied: 0, unchanged: 1, conflicts: [] }\n");
}

fn production() {
    let printed = Directory::new().run("production");
    let lines: Vec<_> = printed.lines().collect();
    assert_eq!(lines[0], "File created successfully at: /memories/profile.md");
    assert!(lines[1].starts_with("Error: ") && !lines[1].contains("t7Kq"), "{printed}");
    assert!(lines[2].starts_with("Error: ") && lines[2].contains("read-only"), "{printed}");
    assert_eq!(lines[3..], ["0 files expired, 1 kept"]);
}

/// A process that is killed on drop.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail if the process has exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn monitoring() {
    let (collector, requests) = collector();
    let directory = Directory::new();
    let mut command = directory.command("monitoring");
    command
        .arg("127.0.0.1:0")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector)
        .env("OTEL_BSP_SCHEDULE_DELAY", "100")
        .stdout(Stdio::piped());
    let mut process = Process(command.spawn().unwrap());
    let mut lines = BufReader::new(process.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().contains("/memories/coffee.md does not exist"));
    let address = lines.next().unwrap().strip_prefix("listening on ").unwrap().to_owned();

    let mut connection = TcpStream::connect(&address).unwrap();
    write!(connection, "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut scraped = String::new();
    connection.read_to_string(&mut scraped).unwrap();
    for line in [
        "# TYPE memory_commands_total counter",
        r#"memory_commands_total{store="users",command="create",outcome="done",error="none",policy="none"} 1"#,
        r#"memory_commands_total{store="users",command="view",outcome="refused",error="not_found",policy="none"} 1"#,
        "# TYPE memory_command_seconds histogram",
        r#"memory_command_seconds_bucket{store="users",command="create",le="10"} 1"#,
        r#"memory_command_seconds_count{store="users",command="create"} 1"#,
        r#"memory_store_operations_total{store="users",operation="apply",outcome="done",error="none",policy="none"} 1"#,
    ] {
        assert!(scraped.lines().any(|found| found == line), "{line}: {scraped}");
    }
    let page = include_str!("../../docs/monitoring.md");
    let words = page.split(|c: char| !c.is_ascii_lowercase() && c != '_');
    let words = words.filter(|word| !word.starts_with("memory_server_")); // only `serve` has these
    let names: BTreeSet<_> = words.filter(|word| word.ends_with("_total") || word.ends_with("_bucket")).collect();
    assert!(
        names.len() == 4 && names.iter().all(|name| scraped.contains(&format!("\n{name}{{"))),
        "{names:?}: {scraped}"
    );

    let mut spans = Vec::new();
    while spans.iter().filter(|span: &&Span| span.name == "memory_command").count() < 2 {
        let body = requests.recv_timeout(Duration::from_secs(60)).unwrap();
        let [resource] = &ExportTraceServiceRequest::decode(&*body).unwrap().resource_spans[..] else {
            panic!("{body:?}")
        };
        let service = &resource.resource.as_ref().unwrap().attributes;
        assert!(format!("{service:?}").contains(r#""my-agent""#), "{service:?}");
        spans.extend(resource.scope_spans.iter().flat_map(|scope| scope.spans.clone()));
    }
    let commands: Vec<_> = spans.iter().filter(|span| span.name == "memory_command").collect();
    for (span, command, outcome) in [(commands[0], "create", "done"), (commands[1], "view", "refused")] {
        assert!(format!("{:?}", span.attributes).contains(&format!("{command:?}")), "{span:?}");
        assert!(format!("{:?}", span.events).contains(&format!("{outcome:?}")), "{span:?}");
        let children = spans.iter().filter(|child| child.parent_span_id == span.span_id);
        assert!(
            children.clone().count() > 0 && children.clone().all(|child| child.name == "memory_store"),
            "{spans:?}"
        );
    }
    let names: BTreeSet<_> = spans.iter().map(|span| &*span.name).collect();
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["memory_command", "memory_store"]);
    assert!(!format!("{spans:?}").contains("No milk"), "{spans:?}");
}

/// A collector of OpenTelemetry: its URL, and the bodies that it receives.
fn collector() -> (String, mpsc::Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for mut connection in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(connection.try_clone().unwrap());
            let head: Vec<_> =
                reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
            assert_eq!(head[0], "POST /v1/traces HTTP/1.1");
            let length =
                head.iter().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            let mut body = vec![0; length.unwrap()];
            reader.read_exact(&mut body).unwrap();
            connection.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").unwrap();
            if sender.send(body).is_err() {
                return; // the test is over
            }
        }
    });
    (url, receiver)
}

fn multi_tenant() {
    let directory = Directory::new();
    let mut command = directory.command("multi_tenant");
    command.arg("127.0.0.1:0").env("TOKENS", r#"{"token-a": "alice", "token-b": "ben"}"#).stdout(Stdio::piped());
    let mut process = Process(command.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(process.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim_end().strip_prefix("listening on ").unwrap();

    let create = r#"{"command": "create", "path": "/memories/notes.md", "file_text": "of alice"}"#;
    let view = r#"{"command": "view", "path": "/memories"}"#;
    let (status, body) = post(address, "Authorization: Bearer token-a\r\n", create);
    assert_eq!((status, &body["content"]), (200, &json!("File created successfully at: /memories/notes.md")));
    let (_, listing) = post(address, "Authorization: Bearer token-a\r\n", view);
    assert!(listing["content"].as_str().unwrap().ends_with("\n8B\t/memories/notes.md"), "{listing}");

    // Headers do not change the tenant.
    for claim in ["", "X-Tenant: alice\r\n", "X-User: alice\r\nCookie: tenant=alice\r\n"] {
        let (status, listing) = post(address, &format!("Authorization: Bearer token-b\r\n{claim}"), view);
        assert_eq!(status, 200);
        assert!(listing["content"].as_str().unwrap().ends_with("\n0B\t/memories"), "{listing}");
    }
    let other_scope = r#"{"command": "view", "path": "/memories/../scope-alice/notes.md"}"#;
    assert_eq!(post(address, "Authorization: Bearer token-b\r\n", other_scope).1["is_error"], true);

    for refused in ["", "Authorization: Bearer token-c\r\n", "Authorization: Bearer \r\n", "Authorization: token-a\r\n"]
    {
        for command in [create, view] {
            assert_eq!(post(address, refused, command), (401, Value::Null), "{refused:?}");
        }
    }
    let block = json!({"type": "tool_use", "id": "toolu_1", "name": "memory", "input": {"command": "chmod"}});
    let (status, body) = post(address, "Authorization: Bearer token-a\r\n", &block.to_string());
    assert_eq!((status, &body["tool_use_id"], &body["is_error"]), (200, &json!("toolu_1"), &json!(true)));
    assert_eq!(post(address, "Authorization: Bearer token-a\r\n", "no JSON").1["is_error"], true);
}

/// Sends a request with these headers, and returns the status and the body, or null for an empty body.
fn post(address: &str, headers: &str, body: &str) -> (u16, Value) {
    let mut connection = TcpStream::connect(address).unwrap();
    let length = body.len();
    let head = format!("POST /memory HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n");
    write!(connection, "{head}{headers}\r\n{body}").unwrap();
    let mut response = String::new();
    connection.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, if body.is_empty() { Value::Null } else { serde_json::from_str(body).unwrap() })
}

fn chat() {
    const KEY: &str = "sk-ant-test-0123456789";
    let directory = Directory::new();
    let run = |api: &MessagesApi, turns: &str| {
        let mut command = directory.command("chat");
        command.env("ANTHROPIC_API_KEY", KEY).env("ANTHROPIC_BASE_URL", api.url());
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        process.stdin.take().unwrap().write_all(turns.as_bytes()).unwrap();
        let output = process.wait_with_output().unwrap();
        assert!(!format!("{output:?}").contains(KEY));
        output
    };
    let path = "/memories/tea.md";
    let create = call("toolu_1", json!({"command": "create", "path": path, "file_text": "Tea, no milk"}));
    let clock = json!({"type": "tool_use", "id": "toolu_2", "name": "clock", "input": {}});
    let unknown = json!({"type": "tool_use", "id": "toolu_3", "name": "other", "input": {}});
    let view = call("toolu_4", json!({"command": "view", "path": path}));
    let calls = |calls: &[Value]| Answer::message("tool_use", calls);
    let done = |reply| Answer::message("end_turn", &[text(reply)]);

    let two_turns =
        [calls(&[text("I note it."), create, clock, unknown]), done("Noted."), calls(&[view]), done("Tea.")];
    let api = MessagesApi::start(two_turns);
    assert_eq!(stdout_of(run(&api, "I take tea, no milk\nWhat do I drink?\n")), "I note it.\nNoted.\nTea.\n");
    let requests = api.finish();
    assert_eq!(requests[0].header("x-api-key"), Some(KEY));
    assert_eq!(requests[0].header("anthropic-version"), Some("2026-10-21"));
    assert_eq!(requests[0].body["tools"][0], json!({"type": "memory_20250818", "name": "memory"}));
    assert_eq!(requests[0].last(), [text("I take tea, no milk")]);
    let [created, time, refused] = requests[1].last() else { panic!("{:?}", requests[1]) };
    assert_eq!(created["content"], format!("File created successfully at: {path}"));
    assert!(time["content"].as_str().unwrap().ends_with("s since 1970"));
    assert_eq!((&refused["content"], &refused["is_error"]), (&json!("There is no such tool."), &json!(true)));
    // The second turn has the whole first one before it.
    assert_eq!(requests[2].messages().len(), 5);
    let seen = requests[3].last()[0]["content"].as_str().unwrap().to_owned();
    assert!(seen.ends_with("     1\tTea, no milk"), "{seen}");

    // A truncated call is not run, and the reason of the API is printed.
    let cut = call("toolu_5", json!({"command": "delete", "path": path}));
    let api = MessagesApi::start([Answer::message("max_tokens", &[cut])]);
    assert!(stderr_of(run(&api, "Forget it\n")).contains("max_tokens"));
    assert!(directory.path().join("memory/memories/tea.md").is_file());
    let api = MessagesApi::start([Answer::error(401, "authentication_error", "invalid x-api-key")]);
    assert!(stderr_of(run(&api, "Hello\n")).contains("invalid x-api-key"));
}
