//! The server on standard input and output.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use memory_tool_test_fixtures::session::{Place, Session, outcome, program, wait_for_end};
use serde_json::{Value, json};

use super::{call, create, initialize, initialized, modern, request, server, text};

/// A session after `initialize`.
pub(super) struct Client {
    pub(super) session: Session,
    last_id: u64,
}

impl Client {
    pub(super) fn in_new_place(options: &[&str]) -> (Place, Self) {
        let place = Place::new();
        let client = Self::start(&place, options);
        (place, client)
    }

    pub(super) fn start(place: &Place, options: &[&str]) -> Self {
        Self::start_as(&mut server(place, options))
    }

    pub(super) fn start_as(command: &mut Command) -> Self {
        let mut client = Self::start_uninitialized(command);
        client.session.send(initialized().to_string());
        client
    }

    pub(super) fn start_uninitialized(command: &mut Command) -> Self {
        let mut session = Session::start_as(command);
        session.call(initialize(0, "2025-11-25").to_string());
        Self { session, last_id: 0 }
    }

    /// Sends a request and waits for the response. Notifications and responses to earlier requests are dropped.
    pub(super) fn request(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        self.session.send(request(self.last_id, method, params).to_string());
        loop {
            let message = self.session.receive();
            let Some(id) = message.get("id") else { continue };
            assert!(id.as_u64().is_some_and(|id| id <= self.last_id), "{message}");
            if *id == self.last_id {
                return message;
            }
        }
    }

    /// Sends a command without waiting for the response.
    pub(super) fn send(&mut self, input: Value) {
        self.last_id += 1;
        self.session.send(call(self.last_id, input).to_string());
    }

    pub(super) fn call(&mut self, input: Value) -> Value {
        self.request("tools/call", json!({"name": "memory", "arguments": input}))
    }

    /// Runs a command that must succeed, and returns the text of its reply.
    pub(super) fn succeed(&mut self, input: Value) -> String {
        let response = self.call(input);
        assert_eq!(response["result"]["isError"], false, "{response}");
        text(&response).to_owned()
    }

    /// The code and message of the error of a request.
    fn refused(&mut self, method: &str, params: Value) -> (i64, String) {
        let response = self.request(method, params);
        let error = &response["error"];
        (error["code"].as_i64().unwrap_or_else(|| panic!("{response}")), error["message"].as_str().unwrap().to_owned())
    }

    /// Closes the input. The program must succeed, and may still send notifications.
    pub(super) fn end(self) {
        let (lines, status, errors) = self.session.finish();
        assert!(status.success() && errors.is_empty(), "{status}, {errors}");
        for line in lines {
            let message: Value = serde_json::from_slice(&line).unwrap();
            assert_eq!(message.get("id"), None, "{message}");
        }
    }

    fn read(&mut self, uri: &str) -> Value {
        let response = self.request("resources/read", json!({"uri": uri}));
        response["result"]["contents"][0].clone()
    }
}

#[test]
fn the_server_introduces_itself_and_its_memory() {
    let place = Place::new();
    let mut session = Session::start_as(&mut server(&place, &[]));
    let result = session.call(initialize(0, "2025-11-25").to_string())["result"].clone();
    assert_eq!(result["protocolVersion"], "2025-11-25");
    assert_eq!(result["serverInfo"]["name"], "memory-tool");
    assert_eq!(
        result["capabilities"],
        json!({"tools": {}, "prompts": {}, "resources": {"listChanged": true, "subscribe": true}})
    );
    let instructions = result["instructions"].as_str().unwrap();
    for part in ["ALWAYS VIEW YOUR MEMORY DIRECTORY", "record status / progress", "up-to-date, coherent and organized"]
    {
        assert!(instructions.contains(part), "{instructions}");
    }
    session.close();
}

#[test]
fn a_memory_and_its_mounts_have_a_history_unless_it_is_refused() {
    let log = |store: &Path| outcome(program().args(["log", "--json", "--store"]).arg(store));
    for (options, is_kept) in [(&[][..], true), (&["--no-history"], false)] {
        let place = Place::new();
        let team = place.outside("team");
        let mount = format!("--mount=/memories/team={}", team.display());
        let options: Vec<_> = options.iter().copied().chain([mount.as_str()]).collect();
        let mut client = Client::start(&place, &options);
        client.succeed(create("/memories/a", "text"));
        client.succeed(create("/memories/team/b", "text"));
        client.end();
        for (store, file) in [(place.store(), "/memories/a"), (team, "/memories/b")] {
            let (status, listed, errors) = log(&store);
            if is_kept {
                let entry: Value = serde_json::from_str(&listed).unwrap();
                let made = (&entry["command"], &entry["changes"][0]["path"]);
                assert_eq!((status, made), (Some(0), (&json!("create"), &json!(file))));
            } else {
                assert_eq!((status, listed.as_str()), (Some(0), ""));
                assert!(errors.starts_with("memory-tool: the memory has no history: `memory-tool mcp` starts one"));
            }
        }
    }
}

#[test]
fn each_revision_of_the_protocol_is_accepted() {
    let place = Place::new();
    // The newest revision has no `initialize`, and an unknown one is not accepted: both get the newest that has it.
    let newest = "2025-11-25";
    let known = ["2024-11-05", "2025-03-26", "2025-06-18", newest].map(|revision| (revision, revision));
    for (revision, accepted) in known.into_iter().chain([("2026-07-28", newest), ("2030-01-01", newest)]) {
        let mut session = Session::start_as(&mut server(&place, &[]));
        let response = session.call(initialize(0, revision).to_string());
        assert_eq!(response["result"]["protocolVersion"], accepted);
        session.close();
    }
}

#[test]
fn a_client_of_the_newest_revision_listens_to_changes() {
    let place = Place::new();
    let mut session = Session::start_as(&mut server(&place, &[]));
    let filter = json!({
        "resourcesListChanged": true, "toolsListChanged": true,
        "resourceSubscriptions": ["memory:///a.txt", "memory:///../b"],
    });
    session.send(modern(1, "subscriptions/listen", json!({"notifications": filter})).to_string());
    let accepted = session.receive();
    assert_eq!(accepted["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(
        accepted["params"]["notifications"],
        json!({"resourcesListChanged": true, "resourceSubscriptions": ["memory:///a.txt"]})
    );
    let input = create("/memories/a.txt", "one");
    session.send(modern(2, "tools/call", json!({"name": "memory", "arguments": input})).to_string());
    let methods: BTreeSet<_> =
        (0..3).map(|_| session.receive()["method"].as_str().unwrap_or("response").to_owned()).collect();
    let expected = ["notifications/resources/list_changed", "notifications/resources/updated", "response"];
    assert_eq!(methods, expected.map(str::to_owned).into());
    // A client that listens does not keep the program alive.
    assert!(session.finish().1.success());
}

#[test]
fn the_tool_has_the_ten_fields_of_the_commands() {
    let (_place, mut client) = Client::in_new_place(&[]);
    let tools = client.request("tools/list", json!({}))["result"]["tools"].clone();
    assert_eq!(tools.as_array().unwrap().len(), 3);
    assert_eq!(tools[0]["name"], "memory");
    assert_eq!(
        tools[0]["annotations"],
        json!({"readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": false})
    );
    let properties = tools[0]["inputSchema"]["properties"].as_object().unwrap();
    assert_eq!(properties.len(), 10);
    assert!(properties.values().all(|field| field["description"].as_str().is_some_and(|text| !text.is_empty())));
    client.end();
}

#[test]
fn the_commands_can_be_separate_tools() {
    let (place, mut client) = Client::in_new_place(&["--separate-tools"]);
    let tools = client.request("tools/list", json!({}))["result"]["tools"].as_array().unwrap().clone();
    let hints = |tool: &Value| {
        ["readOnlyHint", "destructiveHint", "idempotentHint"].map(|hint| tool["annotations"][hint].as_bool().unwrap())
    };
    let listed: Vec<_> = tools.iter().map(|tool| (tool["name"].as_str().unwrap(), hints(tool))).collect();
    assert_eq!(
        listed,
        [
            ("memory_view", [true, false, true]),
            ("memory_create", [false, false, false]),
            ("memory_str_replace", [false, true, false]),
            ("memory_insert", [false, false, false]),
            ("memory_delete", [false, true, true]),
            ("memory_rename", [false, true, false]),
            ("memory_search", [true, false, true]),
            ("memory_history", [true, false, true]),
        ]
    );
    let mut call = |name: &str, arguments: Value| {
        let response = client.request("tools/call", json!({"name": name, "arguments": arguments}));
        assert_eq!(response["result"]["isError"], false, "{response}");
        text(&response).to_owned()
    };
    call("memory_create", json!({"path": "/memories/a", "file_text": "1\n"}));
    call("memory_insert", json!({"path": "/memories/a", "insert_line": 1, "insert_text": "2"}));
    call("memory_str_replace", json!({"path": "/memories/a", "old_str": "1\n", "new_str": null}));
    call("memory_rename", json!({"old_path": "/memories/a", "new_path": "/memories/b"}));
    let view = call("memory_view", json!({"path": "/memories/b", "view_range": null}));
    assert_eq!(view, "Here's the content of /memories/b with line numbers:\n     1\t2\n     2\t");
    // The name of the tool decides, not a field.
    call("memory_delete", json!({"path": "/memories/b", "command": "view"}));
    assert!(!place.file("b").exists());
    assert_eq!(client.refused("tools/call", json!({"name": "memory", "arguments": {}})).0, -32602);
    client.end();
}

#[test]
fn the_memory_can_be_searched() {
    let (place, mut client) = Client::in_new_place(&[]);
    client.succeed(json!({"command": "create", "path": "/memories/a.md", "file_text": "one\nGreen tea\u{2028}\n"}));
    fs::write(place.file("binary"), b"tea\xff").unwrap();
    let mut search = |arguments: Value| {
        let response = client.request("tools/call", json!({"name": "memory_search", "arguments": arguments}));
        let result = &response["result"];
        if result["isError"] == true {
            assert_eq!(result["structuredContent"]["message"], result["content"][0]["text"]);
            return format!("{}: {}", result["structuredContent"]["code"].as_str().unwrap(), text(&response));
        }
        text(&response).to_owned()
    };
    let note = "\n\n[1 item not searched, not text: /memories/binary.]";
    let line = format!("/memories/a.md\n2: Green tea\u{2028}{note}");
    assert_eq!(search(json!({"pattern": "green tee"})), format!("No matches.{note}"));
    for arguments in [
        json!({"pattern": "TEA green"}),
        json!({"pattern": "^green", "regex": true, "path": "/memories/"}),
        json!({"pattern": "^green", "regex": "true", "context": "0", "since": "1h", "before": "", "path": null}),
        json!({"pattern": "green", "context": [], "paths_only": "null", "unknown": 1}),
    ] {
        assert_eq!(search(arguments), line);
    }
    let context = search(json!({"pattern": "green", "context": 99, "path": "/memories/a.md"}));
    assert_eq!(context, "/memories/a.md\n1- one\n2: Green tea\u{2028}");
    assert_eq!(search(json!({"pattern": "e", "paths_only": true, "before": "1h"})), "No matches.");
    for (arguments, error) in [
        (json!({}), "invalid: Error: Field `pattern` is missing"),
        (json!({"pattern": 1}), "invalid: Error: Field `pattern` must be a string"),
        (json!({"pattern": ""}), "invalid: Error: Invalid `pattern`: the pattern is empty."),
        (json!({"pattern": "a", "regex": "yes"}), "invalid: Error: Field `regex` must be true or false"),
        (json!({"pattern": "a", "context": -1}), "invalid: Error: Field `context` must be a whole number from 0 to 20"),
        (
            json!({"pattern": "(a", "regex": true}),
            "invalid: Error: Invalid `pattern`: the regular expression is invalid: unclosed group (at character 1).",
        ),
        (json!({"pattern": "a", "path": "notes"}), "invalid: Error: Path must start with /memories, got: notes"),
        (
            json!({"pattern": "a", "path": "/memories/b"}),
            "not_found: The path /memories/b does not exist. Please provide a valid path.",
        ),
    ] {
        assert_eq!(search(arguments), error);
    }
    assert!(
        search(json!({"pattern": "a", "since": "soon"})).starts_with("invalid: Error: Field `since` must be a time")
    );
    place.break_storage();
    assert_eq!(search(json!({"pattern": "a"})).split(':').next(), Some("other"));
    let (_, status, errors) = client.session.finish();
    assert!(status.success() && errors.starts_with("memory-tool: "), "{errors}");
}

#[test]
fn the_history_can_be_read() {
    let (place, mut client) = Client::in_new_place(&["--actor", "claude"]);
    client.succeed(json!({"command": "create", "path": "/memories/a.md", "file_text": "one\ntwo\n"}));
    client.succeed(json!({"command": "str_replace", "path": "/memories/a.md", "old_str": "two", "new_str": "2"}));
    client.succeed(json!({"command": "create", "path": "/memories/b/c.md", "file_text": "three"}));
    client.succeed(json!({"command": "rename", "old_path": "/memories/b", "new_path": "/memories/d"}));
    client.succeed(json!({"command": "delete", "path": "/memories/d"}));
    let mut history = |arguments: Value| {
        let response = client.request("tools/call", json!({"name": "memory_history", "arguments": arguments}));
        let is_error = response["result"]["isError"] == true;
        assert_eq!(is_error, text(&response).starts_with("Error"), "{response}");
        text(&response).to_owned()
    };
    let without_time = |line: &str| {
        let (number, rest) = line.split_once(", ").unwrap();
        let (time, rest) = rest.split_once(", ").unwrap();
        assert_eq!((time.len(), &time[..2], &time[19..]), (20, "20", "Z"));
        format!("{number}, {rest}")
    };
    let mut list = |arguments: Value| history(arguments).lines().map(without_time).collect::<Vec<_>>();
    let all = [
        "entry 5, delete by claude: deleted /memories/d/c.md",
        "entry 4, rename by claude: renamed /memories/b to /memories/d",
        "entry 3, create by claude: created /memories/b/c.md",
        "entry 2, str_replace by claude: changed /memories/a.md",
        "entry 1, create by claude: created /memories/a.md",
    ];
    assert_eq!(list(json!({})), all);
    assert_eq!(list(json!({"path": "", "entry": null, "skip": "null", "since": "1h"})), all);
    assert_eq!(list(json!({"path": "/memories/d/c.md"})), all[..3]);
    assert_eq!(list(json!({"skip": "3"})), all[3..]);
    assert_eq!(list(json!({"text": "three"})), [all[0], all[2]]);
    assert_eq!(list(json!({"deleted": true})), all[..1]);
    let replaced = history(json!({"entry": "2"}));
    let (line, lines) = replaced.split_once('\n').unwrap();
    assert_eq!(without_time(line), all[3]);
    assert_eq!(lines, "\n--- a/memories/a.md\n+++ b/memories/a.md\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n");
    assert!(history(json!({"entry": 5})).contains("\n-three\n"));
    assert!(!history(json!({"entry": 5, "path": "/memories/a.md"})).contains("three"));
    for (arguments, error) in [
        (json!({"entry": 6}), "Error: there is no entry 6; the newest is 5"),
        (json!({"entry": -1}), "Error: Field `entry` must be the number of a change in the list"),
        (json!({"skip": 1.5}), "Error: Field `skip` must be a whole number of lines"),
        (json!({"text": 1}), "Error: Field `text` must be a string"),
        (json!({"path": "notes"}), "Error: Path must start with /memories, got: notes"),
    ] {
        assert_eq!(history(arguments), error);
    }
    let long: String = (0..9_000).map(|number| format!("{number}\n")).collect();
    client.succeed(json!({"command": "create", "path": "/memories/long", "file_text": long}));
    let (mut whole, mut skip) = (String::new(), 0);
    loop {
        let arguments = json!({"name": "memory_history", "arguments": {"entry": 6, "skip": skip}});
        let shown = text(&client.request("tools/call", arguments)).to_owned();
        assert!(shown.len() < 17_000);
        let Some((part, note)) = shown.split_once("\n[") else { break whole += &shown };
        whole += part;
        skip = note.split("`skip`: ").nth(1).unwrap().trim_end_matches(".]").parse().unwrap();
    }
    let added: String =
        whole.lines().filter_map(|line| line.strip_prefix('+')).skip(1).map(|line| format!("{line}\n")).collect();
    assert_eq!(added, long);
    let prompt = json!({"name": "take_back_changes", "arguments": {"changes": "what I deleted"}});
    let prompt = client.request("prompts/get", prompt)["result"]["messages"][0]["content"]["text"].clone();
    assert!(prompt.as_str().unwrap().starts_with("Take back changes of your memory: what I deleted.\n"), "{prompt}");
    client.end();

    let mut client = Client::start(&place, &["--no-history"]);
    let call = client.refused("tools/call", json!({"name": "memory_history", "arguments": {}}));
    assert_eq!(call.1, "Unknown tool: memory_history. The tools are: memory, memory_search");
    let prompts = client.request("prompts/list", json!({}))["result"]["prompts"].clone();
    assert_eq!(prompts.as_array().unwrap().len(), 1);
    client.end();
}

#[test]
fn the_hints_follow_the_options() {
    let place = Place::new();
    place.session().close();
    for (options, hints) in [(["--read-only"], [true, false]), (["--create-overwrites"], [false, true])] {
        let mut client = Client::start(&place, &[options[0], "--separate-tools"]);
        let create = client.request("tools/list", json!({}))["result"]["tools"][1]["annotations"].clone();
        assert_eq!(
            [&create["readOnlyHint"], &create["destructiveHint"]],
            hints.each_ref().map(|hint| json!(hint)).each_ref()
        );
        client.end();
    }
    let mut session = Session::start_as(&mut server(&place, &["--read-only"]));
    let instructions = session.call(initialize(0, "2025-11-25").to_string())["result"]["instructions"].clone();
    assert!(instructions.as_str().unwrap().ends_with("The memory is read-only."), "{instructions}");
    session.close();
}

#[test]
fn an_error_has_the_text_of_the_reply_and_a_code() {
    let place = Place::new();
    let mut run = place.session();
    run.succeed(&create("/memories/a", "x"));
    let mut client = Client::start(&place, &[]);
    for (input, code) in [
        (json!({"command": "view", "path": "/memories/b"}), "not_found"),
        (create("/memories/a", "y"), "already_exists"),
        (json!({"command": "str_replace", "path": "/memories/a", "old_str": "z"}), "invalid"),
        (json!({"command": "view", "path": "/etc/passwd"}), "invalid"),
        (json!({"command": "view", "path": "/memories/../b"}), "invalid"),
        (json!({"command": "view", "path": 1}), "invalid"),
        (json!({"command": "nope"}), "invalid"),
        (json!({}), "invalid"),
    ] {
        let message = run.fail(&input);
        let result = client.call(input)["result"].clone();
        let expected = json!({
            "content": [{"type": "text", "text": message}],
            "structuredContent": {"code": code, "message": message, "retryable": false},
            "isError": true,
        });
        assert_eq!(result, expected);
    }
    run.close();
    client.end();
}

#[test]
fn policies_apply() {
    let place = Place::new();
    let log = place.outside("audit.jsonl");
    let options = ["--screen", "refuse", "--max-files", "1", "--actor", "test", "--audit-views", "--audit-log"];
    let mut client = Client::start(&place, &[&options[..], &[log.to_str().unwrap()]].concat());
    let refused = client.call(create("/memories/key", "password = \"hunter2-correct-horse\""));
    assert_eq!(refused["result"]["structuredContent"]["code"], "refused", "{refused}");
    client.succeed(create("/memories/a", "x"));
    let refused = client.call(create("/memories/b", "x"));
    assert_eq!(refused["result"]["structuredContent"]["code"], "refused", "{refused}");
    let views = |log: &str| log.lines().filter(|line| line.contains(r#""view""#)).count();
    let before = views(&fs::read_to_string(&log).unwrap());
    assert_eq!(client.read("memory:///a")["text"], "x");
    assert_eq!(views(&fs::read_to_string(&log).unwrap()), before + 1, "reading a resource is a view");
    client.end();
}

#[test]
fn replies_hide_the_causes_of_failures() {
    let place = Place::new();
    place.session().close();
    place.break_storage();
    let mut client = Client::start(&place, &[]);
    let secret = place.store().file_name().unwrap().to_str().unwrap().to_owned();
    let directory = place.outside("").display().to_string();
    let responses = [
        client.call(json!({"command": "view", "path": "/memories"})),
        client.request("resources/list", json!({})),
        client.request("resources/read", json!({"uri": "memory:///a"})),
    ];
    assert!(text(&responses[0]).starts_with("Error: The memory storage "), "{}", responses[0]);
    assert_eq!(responses[0]["result"]["structuredContent"]["code"], "other");
    assert_eq!([&responses[1]["error"]["code"], &responses[2]["error"]["code"]], [-32603, -32603]);
    for response in responses {
        let response = response.to_string();
        assert!(!response.contains(&directory) && !response.contains(&secret) && !response.contains("os error"));
    }
    let (_, status, errors) = client.session.finish();
    assert!(status.success());
    assert_eq!(errors.lines().filter(|line| line.contains("lock")).count(), 3, "{errors}");
}

#[test]
fn the_log_has_no_contents() {
    let (_place, mut client) = Client::in_new_place(&["--log", "operations"]);
    client.succeed(create("/memories/a", "content-of-the-file"));
    client.read("memory:///a");
    let (_, status, errors) = client.session.finish();
    assert!(status.success());
    assert!(errors.contains("create") && !errors.contains("content-of-the-file"), "{errors}");
}

#[test]
fn an_image_is_image_content() {
    let place = Place::new();
    place.session().succeed(&create("/memories/a", ""));
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\
        \0\0\0\rIDATx\xdac\xfc\xcf\xc0P\x0f\0\x04\x85\x01\x80\x84\xa9\x8c!\0\0\0\0IEND\xaeB`\x82";
    fs::write(place.file("a.png"), png).unwrap();
    let mut client = Client::start(&place, &[]);
    let view = client.call(json!({"command": "view", "path": "/memories/a.png"}));
    let data = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
    assert_eq!(
        view["result"],
        json!({"content": [{"type": "image", "data": data, "mimeType": "image/png"}], "isError": false})
    );
    assert_eq!(
        client.read("memory:///a.png"),
        json!({"uri": "memory:///a.png", "mimeType": "image/png", "blob": data})
    );
    client.end();
}

#[test]
fn files_are_resources() {
    let (place, mut client) = Client::in_new_place(&[]);
    for (path, text) in [("notes.txt", "Tea\r\n"), ("d/a b.md", "# é"), (".hidden", "h"), ("100%.json", "{}")] {
        client.succeed(create(&format!("/memories/{path}"), text));
    }
    fs::write(place.file("binary"), b"\xff\0").unwrap();
    fs::write(place.file(".null"), "x\0y").unwrap(); // the API refuses U+0000
    let listed = client.request("resources/list", json!({}))["result"].clone();
    assert_eq!(
        listed,
        json!({"resources": [
            {"uri": "memory:///100%25.json", "name": "100%.json", "mimeType": "application/json", "size": 2},
            {"uri": "memory:///binary", "name": "binary", "mimeType": "text/plain", "size": 2},
            {"uri": "memory:///d/a%20b.md", "name": "d/a b.md", "mimeType": "text/markdown", "size": 4},
            {"uri": "memory:///notes.txt", "name": "notes.txt", "mimeType": "text/plain", "size": 5},
        ]})
    );
    assert_eq!(client.read("memory:///d/a%20b.md")["text"], "# é");
    let expected = json!({"uri": "memory:///notes.txt", "mimeType": "text/plain", "text": "Tea\r\n"});
    assert_eq!(client.read("memory:///notes.txt"), expected);
    assert_eq!(client.read("memory:///.hidden")["text"], "h");
    assert_eq!(client.read("memory:///binary")["blob"], "/wA=");
    assert_eq!(client.read("memory:///.null")["blob"], "eAB5");
    let template = client.request("resources/templates/list", json!({}))["result"]["resourceTemplates"][0].clone();
    assert_eq!(template["uriTemplate"], "memory:///{+path}");
    client.end();
}

/// A resource is the whole file, unlike a `view`.
#[test]
fn a_resource_is_not_cut() {
    let (_place, mut client) = Client::in_new_place(&["--max-view-chars", "10"]);
    let text = "0123456789\n".repeat(100);
    client.succeed(create("/memories/a", &text));
    assert_eq!(client.read("memory:///a")["text"], text);
    client.end();
}

#[test]
fn uris_of_no_file_are_refused() {
    let place = Place::new();
    fs::write(place.outside("secret"), "s").unwrap();
    let mut client = Client::start(&place, &[]);
    client.succeed(create("/memories/d/a", ""));
    for uri in ["memory:///b", "memory:///d", "memory:///"] {
        assert_eq!(client.refused("resources/read", json!({"uri": uri})).0, -32002, "{uri}");
    }
    for uri in
        ["memory:///../../secret", "memory:///%2e%2e/%2e%2e/secret", "file:///etc/passwd", "/memories/d/a", "", "x:y"]
    {
        assert_eq!(client.refused("resources/read", json!({"uri": uri})).0, -32602, "{uri}");
        assert_eq!(client.refused("resources/subscribe", json!({"uri": uri})).0, -32602, "{uri}");
    }
    assert_eq!(client.refused("resources/list", json!({"cursor": "nonsense"})).0, -32602);
    client.end();
}

#[test]
fn a_long_list_has_pages() {
    let place = Place::in_memory();
    place.session().succeed(&create("/memories/0000", ""));
    for number in 1..2_001 {
        fs::write(place.file(&format!("{number:04}")), "").unwrap();
    }
    let mut client = Client::start(&place, &[]);
    let (mut names, mut cursor, mut pages) = (Vec::new(), None, 0);
    loop {
        let params = cursor.map_or(json!({}), |cursor: Value| json!({"cursor": cursor}));
        let result = client.request("resources/list", params)["result"].clone();
        names.extend(result["resources"].as_array().unwrap().iter().map(|file| file["name"].clone()));
        pages += 1;
        match result.get("nextCursor") {
            Some(next) => cursor = Some(next.clone()),
            None => break,
        }
    }
    assert_eq!(pages, 3);
    assert_eq!(names, (0..2_001).map(|number| json!(format!("{number:04}"))).collect::<Vec<_>>());
    client.end();
}

#[test]
fn a_prompt_tidies_the_memory() {
    let (_place, mut client) = Client::in_new_place(&[]);
    let prompts = client.request("prompts/list", json!({}))["result"]["prompts"].clone();
    assert_eq!(prompts[0]["name"], "tidy_memory");
    assert_eq!(prompts[0]["arguments"][0]["name"], "directory");
    let mut get = |arguments: Value| {
        let result = client.request("prompts/get", json!({"name": "tidy_memory", "arguments": arguments}));
        result["result"]["messages"][0].clone()
    };
    let message = get(json!({}));
    assert_eq!(message["role"], "user");
    assert!(message["content"]["text"].as_str().unwrap().starts_with("Review and tidy your memory in /memories.\n"));
    let message = get(json!({"directory": "/memories/projects"}));
    assert!(message["content"]["text"].as_str().unwrap().contains("View /memories/projects and every file under it"));
    assert!(!message["content"]["text"].as_str().unwrap().contains("before they count"), "{message}");
    for params in [
        json!({"name": "other"}),
        json!({"name": "tidy_memory", "arguments": {"directory": "/etc"}}),
        json!({"name": "tidy_memory", "arguments": {"directory": 1}}),
    ] {
        assert_eq!(client.refused("prompts/get", params).0, -32602);
    }
    client.end();
}

#[test]
fn hostile_lines_get_errors_and_the_server_continues() {
    let place = Place::new();
    // Before and after the first request.
    for is_initialized in [false, true] {
        let mut session = Session::start_as(&mut server(&place, &[]));
        if is_initialized {
            session.call(initialize(0, "2025-11-25").to_string());
        }
        for (line, code) in [
            (b"nonsense".to_vec(), -32700),
            (b"{".to_vec(), -32700),
            (b"\xff\xfe".to_vec(), -32700),
            (b"[1, 2]".to_vec(), -32600),
            (b"{}".to_vec(), -32600),
            (br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#.to_vec(), -32600),
            (br#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#.to_vec(), -32600),
            (br#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#.to_vec(), -32600),
            ([b"[".repeat(100_000), b"]".repeat(100_000)].concat(), -32600),
            (vec![b'x'; 17 * 1024 * 1024], -32600),
            (br#"{"jsonrpc":"2.0","id":"\ud800","method":"ping"}"#.to_vec(), -32700),
        ] {
            let response = session.call(&line);
            let shown = String::from_utf8_lossy(&line[..line.len().min(60)]).into_owned();
            assert_eq!(response["error"]["code"], code, "{shown}: {response}");
        }
        // Responses, notifications and empty lines have no response.
        session.send("");
        session.send(json!({"jsonrpc": "2.0", "id": 5, "result": {}}).to_string());
        session.send(json!({"jsonrpc": "2.0", "method": "notifications/nope", "params": {"a": [1]}}).to_string());
        session.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}}).to_string());
        let response = session.call(request(1, "ping", json!({})).to_string());
        assert_eq!(response, json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
        if !is_initialized {
            // A request without a session gets an error.
            let response = session.call(call(2, json!({"command": "view", "path": "/memories"})).to_string());
            assert_eq!(response["error"]["code"], -32602, "{response}");
            assert_eq!(session.call(initialize(3, "2025-11-25").to_string())["id"], 3);
        }
        session.close();
    }
}

/// Otherwise the server would keep 750 MiB of answers.
#[test]
fn a_client_that_reads_no_answers_is_not_read() {
    use std::io::{BufRead as _, BufReader};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread::{scope, sleep};
    use std::time::Duration;

    const REQUESTS: usize = 2_000;
    let place = Place::new();
    place.session().succeed(&create("/memories/a", &"x".repeat(32 * 1024)));
    let mut command = server(&place, &[]);
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let (mut input, output) = (process.stdin.take().unwrap(), BufReader::new(process.stdout.take().unwrap()));
    let sent = AtomicUsize::new(0);
    scope(|scope| {
        let (sent, input) = (&sent, &mut input);
        scope.spawn(move || {
            writeln!(input, "{}", initialize(0, "2025-11-25")).unwrap();
            for id in 1..=REQUESTS {
                writeln!(input, "{}", request(id as u64, "resources/read", json!({"uri": "memory:///a"}))).unwrap();
                sent.fetch_add(1, Ordering::Relaxed);
            }
        });
        // Until the server reads no more.
        let mut before = usize::MAX;
        while before != sent.load(Ordering::Relaxed) {
            before = sent.load(Ordering::Relaxed);
            sleep(Duration::from_secs(3));
        }
        assert!(before < REQUESTS);
        let responses = output.lines().filter(|line| line.as_ref().unwrap().contains(r#""id""#));
        assert_eq!(responses.take(REQUESTS + 1).count(), REQUESTS + 1);
    });
    drop(input);
    assert!(wait_for_end(&mut process).success());
}

#[test]
fn all_requests_get_responses_before_the_end() {
    let place = Place::new();
    let mut session = Session::start_as(&mut server(&place, &[]));
    let mut lines = vec![initialize(0, "2025-11-25")];
    lines.extend((1..=100).map(|id| call(id, create(&format!("/memories/{id}"), "x"))));
    session.send_raw(lines.iter().map(|line| format!("{line}\n")).collect::<String>());
    let (responses, status, errors) = session.finish();
    assert!(status.success() && errors.is_empty(), "{status} {errors}");
    let responses: Vec<Value> = responses.iter().map(|line| serde_json::from_slice(line).unwrap()).collect();
    let ids: BTreeSet<_> = responses.iter().map(|response| response["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, (0..=100).collect());
    assert_eq!(fs::read_dir(place.file("")).unwrap().count(), 100);
}

#[test]
fn a_closed_output_ends_the_program() {
    let place = Place::new();
    let mut command = server(&place, &[]);
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(process.stdout.take());
    let mut input = process.stdin.take().unwrap();
    input.write_all(format!("{}\n", initialize(0, "2025-11-25")).as_bytes()).unwrap();
    assert!(wait_for_end(&mut process).success());
}

#[test]
fn a_client_may_leave_at_any_time() {
    let place = Place::new();
    Session::start_as(&mut server(&place, &[])).close();
    let mut session = Session::start_as(&mut server(&place, &[]));
    session.send_raw(r#"{"jsonrpc":"2.0","#);
    let (lines, status, _) = session.finish();
    assert!(status.success() && lines.len() == 1, "{lines:?}");
}

#[test]
fn a_signal_ends_the_program_with_its_status() {
    let place = Place::new();
    for (signal, expected) in [("-INT", 130), ("-TERM", 143)] {
        for is_initialized in [false, true] {
            let mut session = Session::start_as(&mut server(&place, &[]));
            let request = if is_initialized { initialize(0, "2025-11-25") } else { request(0, "ping", json!({})) };
            session.call(request.to_string());
            let process = session.process_id().to_string();
            assert!(Command::new("kill").args([signal, &process]).status().unwrap().success());
            // The input stays open.
            assert_eq!(session.receive_line(), None);
            assert_eq!(session.finish().1.code(), Some(expected), "{signal}");
        }
    }
}
