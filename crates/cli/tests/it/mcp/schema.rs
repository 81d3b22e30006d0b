//! The rules of clients for the schemas of tools, and the calls that clients send.

use std::fs;

use serde_json::{Map, Value, json};

use super::create;
use super::stdio::Client;

const PAGE: &str = include_str!("../../../../../docs/mcp.md");

/// A rule, as the page words it, and whether a tool keeps it.
type Rule = (&'static str, fn(&Value) -> bool);

/// Claude Code: anthropics/claude-code#4886, #41593, and the names of properties of the Messages API.
const CLAUDE: [Rule; 4] = [
    ("an object without `anyOf`, `oneOf` or `allOf` at the top", |tool| {
        has_type(input(tool), "object")
            && ["anyOf", "oneOf", "allOf"].iter().all(|keyword| input(tool).get(*keyword).is_none())
    }),
    ("names of tools up to 64 letters, digits, `_` and `-`, with `mcp__memory__`", |tool| {
        is_name(&format!("mcp__memory__{}", name(tool)), 64)
    }),
    ("names of fields up to 64 letters, digits, `_`, `.` and `-`", |tool| {
        properties(tool).keys().all(|field| is_name(&field.replace('.', "-"), 64))
    }),
    ("descriptions up to 2,048 characters", |tool| description(tool).chars().count() <= 2_048),
];

/// Cursor: cursor/cursor#3540, #3778, sparfenyuk/mcp-proxy#45.
const CURSOR: [Rule; 2] = [
    ("one plain type per field, no union", |tool| {
        nodes(input(tool))
            .iter()
            .all(|node| node.get("type").is_some_and(Value::is_string) && node.get("anyOf").is_none())
    }),
    ("names of server and tool up to 60 characters together", |tool| "memory".len() + name(tool).len() <= 60),
];

/// VS Code: microsoft/vscode#248810, firecrawl/firecrawl-mcp-server#107.
const VS_CODE: [Rule; 2] = [
    ("each array has `items` with a type", |tool| {
        nodes(input(tool))
            .iter()
            .all(|node| !has_type(node, "array") || node.get("items").is_some_and(|items| items["type"].is_string()))
    }),
    ("no `$schema`, `$ref` or `$dynamicRef`", |tool| {
        nodes(input(tool)).iter().all(|node| node.keys().all(|keyword| !keyword.starts_with('$')))
    }),
];

/// Copilot with models of OpenAI and Google: getsentry/sentry-mcp#106, github/copilot-cli#4623.
const COPILOT: [Rule; 3] = [
    ("names of tools up to 64 letters, digits, `_` and `-`", |tool| is_name(name(tool), 64)),
    ("descriptions up to 1,024 characters", |tool| description(tool).chars().count() <= 1_024),
    ("no union in `items`", |tool| {
        nodes(input(tool)).iter().filter_map(|node| node.get("items")).all(|items| items["type"].is_string())
    }),
];

/// Gemini, whose declarations of functions are a part of OpenAPI 3.0: promptfoo/promptfoo#6902,
/// sbroenne/mcp-server-excel#674, taylorwilsdon/google_workspace_mcp#1099.
const GEMINI: [Rule; 3] = [
    ("only `type`, `description`, `enum`, `items`, `properties` and `required`", |tool| {
        let allowed = ["type", "description", "enum", "items", "properties", "required"];
        nodes(input(tool)).iter().all(|node| node.keys().all(|keyword| allowed.contains(&keyword.as_str())))
    }),
    ("one type per field, which is not null", |tool| {
        nodes(input(tool))
            .iter()
            .all(|node| node.get("type").and_then(Value::as_str).is_some_and(|name| name != "null"))
    }),
    ("`enum` only for strings", |tool| {
        nodes(input(tool)).iter().all(|node| {
            let values = node.get("enum").map(|values| values.as_array().unwrap());
            values.is_none_or(|values| has_type(node, "string") && values.iter().all(|value| value.as_str() > Some("")))
        })
    }),
];

/// OpenAI's strict mode, whose rules SDKs establish when they convert a schema.
const STRICT: [Rule; 2] = [
    ("keeps the rules once an SDK has made all fields required", |tool| {
        let mut converted = input(tool).clone();
        let all: Vec<_> = properties(tool).keys().cloned().collect();
        converted.insert("required".to_owned(), json!(all));
        converted.insert("additionalProperties".to_owned(), json!(false));
        let allowed = ["type", "description", "enum", "items", "properties", "required", "additionalProperties"];
        nodes(&converted).iter().all(|node| node.keys().all(|keyword| allowed.contains(&keyword.as_str())))
    }),
    ("unused fields may be null, an empty text, an empty list or the text `null`", |tool| {
        // The test of calls that fill in every field checks the rest.
        input(tool).get("additionalProperties").is_none()
    }),
];

const CLIENTS: [(&str, &[Rule]); 6] = [
    ("Claude Code and Desktop", &CLAUDE),
    ("Cursor", &CURSOR),
    ("VS Code", &VS_CODE),
    ("Copilot", &COPILOT),
    ("Gemini", &GEMINI),
    ("OpenAI's strict mode", &STRICT),
];

fn name(tool: &Value) -> &str {
    tool["name"].as_str().unwrap()
}

fn description(tool: &Value) -> &str {
    tool["description"].as_str().unwrap()
}

fn input(tool: &Value) -> &Map<String, Value> {
    tool["inputSchema"].as_object().unwrap()
}

fn properties(tool: &Value) -> &Map<String, Value> {
    input(tool)["properties"].as_object().unwrap()
}

fn has_type(node: &Map<String, Value>, name: &str) -> bool {
    node.get("type").is_some_and(|given| given == name)
}

fn is_name(name: &str, longest: usize) -> bool {
    let is_allowed = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
    (1..=longest).contains(&name.len()) && name.chars().all(is_allowed)
}

/// The schema, and the schemas in it.
fn nodes(schema: &Map<String, Value>) -> Vec<&Map<String, Value>> {
    let fields = schema.get("properties").into_iter().flat_map(|fields| fields.as_object().unwrap().values());
    let inner = fields.chain(schema.get("items")).map(|inner| inner.as_object().unwrap());
    std::iter::once(schema).chain(inner.flat_map(nodes)).collect()
}

fn tools(options: &[&str]) -> Vec<Value> {
    let (_place, mut client) = Client::in_new_place(options);
    let listed = client.request("tools/list", json!({}));
    client.end();
    listed["result"]["tools"].as_array().unwrap().clone()
}

#[test]
fn the_schemas_keep_the_rules_of_each_client_on_the_page() {
    let tools = [tools(&[]), tools(&["--separate-tools"])].concat();
    assert_eq!(tools.len(), 11);
    for (client, rules) in CLIENTS {
        for (rule, is_kept) in rules {
            for tool in &tools {
                assert!(is_kept(tool), "{client}: {rule}: {tool}");
            }
        }
        let rules: Vec<_> = rules.iter().map(|(rule, _)| *rule).collect();
        let row = format!("| {client} | {} |", rules.join("; "));
        assert!(PAGE.lines().any(|line| line == row), "the page lacks the row: {row}");
    }
}

/// Rules that cannot be broken are no rules.
#[test]
fn each_rule_refuses_a_schema_that_breaks_it() {
    let good = json!({"name": "t", "description": "d", "inputSchema": {"type": "object", "properties": {
        "a": {"type": "string", "enum": ["x"]}, "b": {"type": "array", "items": {"type": "integer"}}}}});
    let union = json!({"type": ["array", "null"], "items": {"type": ["integer", "null"]}});
    let with_field = |name: &str, field: Value| {
        let mut tool = good.clone();
        tool["inputSchema"]["properties"][name] = field;
        tool
    };
    let with = |key: &str, value: Value| {
        let mut tool = good.clone();
        tool["inputSchema"][key] = value;
        tool
    };
    let named =
        |name: String| json!({"name": name, "description": "d".repeat(3_000), "inputSchema": good["inputSchema"]});
    let bad = [
        with("anyOf", json!([])),
        with("$schema", json!("x")),
        with("additionalProperties", json!(false)),
        with("default", json!(1)),
        with_field("b", union),
        with_field("b", json!({"type": "array"})),
        with_field("a", json!({"type": "integer", "enum": [1]})),
        with_field("a b", json!({"type": "string"})),
        named("n".repeat(65)),
    ];
    for (client, rules) in CLIENTS {
        for (rule, is_kept) in rules {
            assert!(is_kept(&good), "{client}: {rule}");
            assert!(bad.iter().any(|tool| !is_kept(tool)), "{client}: {rule}");
        }
    }
}

#[test]
fn only_what_each_call_needs_is_required() {
    assert_eq!(tools(&[])[0]["inputSchema"]["required"], json!(["command"]));
    let required: Vec<_> =
        tools(&["--separate-tools"]).iter().map(|tool| tool["inputSchema"]["required"].clone()).collect();
    assert_eq!(
        required,
        [
            json!(["path"]),
            json!(["path", "file_text"]),
            json!(["path", "old_str"]),
            json!(["path", "insert_line", "insert_text"]),
            json!(["path"]),
            json!(["old_path", "new_path"]),
            json!(["pattern"]),
            json!([]),
        ]
    );
}

/// Some clients send every value as a string, and some fill in all ten fields.
#[test]
fn calls_of_clients_without_types_work() {
    for filler in [json!(null), json!(""), json!("null"), json!([])] {
        let (place, mut client) = Client::in_new_place(&[]);
        let mut run = |input: Value| {
            let fields = tools(&[])[0]["inputSchema"]["properties"].as_object().unwrap().clone();
            let mut all: Map<_, _> = fields.keys().map(|field| (field.clone(), filler.clone())).collect();
            all.extend(input.as_object().unwrap().clone());
            client.succeed(all.into())
        };
        run(create("/memories/a", "1\n2\n3\n"));
        run(json!({"command": "insert", "path": "/memories/a", "insert_line": "1", "insert_text": "null"}));
        run(json!({"command": "str_replace", "path": "/memories/a", "old_str": "2\n", "new_str": ""}));
        assert_eq!(fs::read_to_string(place.file("a")).unwrap(), "1\nnull\n3\n");
        let lines = "Here's the content of /memories/a with line numbers:\n     1\t1\n     2\tnull";
        for range in [json!("[1, 2]"), json!(["1", "2"]), json!([1, 2])] {
            assert_eq!(run(json!({"command": "view", "path": "/memories/a", "view_range": range})), lines);
        }
        run(json!({"command": "view", "path": "/memories/a"}));
        run(json!({"command": "rename", "old_path": "/memories/a", "new_path": "/memories/b"}));
        run(json!({"command": "delete", "path": "/memories/b"}));
        client.end();
    }
}

/// A text that a command needs is the text that the client sent.
#[test]
fn the_word_null_is_a_text() {
    let (place, mut client) = Client::in_new_place(&[]);
    client.succeed(create("/memories/a", "null"));
    client.succeed(json!({"command": "str_replace", "path": "/memories/a", "old_str": "null", "new_str": "[1]"}));
    client.succeed(json!({"command": "str_replace", "path": "/memories/a", "old_str": "[1]", "new_str": "null"}));
    assert_eq!(fs::read_to_string(place.file("a")).unwrap(), "null");
    client.end();
}

#[test]
fn an_error_shows_a_wrong_value_as_it_was_received() {
    let (_place, mut client) = Client::in_new_place(&[]);
    client.succeed(create("/memories/a", "1\n2"));
    for (input, shown) in [
        (json!({"command": "insert", "path": "/memories/a", "insert_line": "three", "insert_text": "x"}), "\"three\""),
        (json!({"command": "insert", "path": "/memories/a", "insert_line": "[3]", "insert_text": "x"}), "\"[3]\""),
        (json!({"command": "view", "path": "/memories/a", "view_range": ["a", "2"]}), "[\"a\", \"2\"]"),
        (json!({"command": "view", "path": ["/memories/a"]}), "[\"/memories/a\"]"),
        (json!({"command": "create", "path": "/memories/b", "file_text": 12}), "12"),
    ] {
        let response = client.call(input.clone());
        assert_eq!(response["result"]["isError"], true, "{input}");
        assert!(super::text(&response).contains(shown), "{input}: {response}");
    }
    // A field that a client only filled in counts as missing.
    for (field, value) in [("insert_line", json!("")), ("insert_text", json!([])), ("path", json!(null))] {
        let mut input = json!({"command": "insert", "path": "/memories/a", "insert_line": 1, "insert_text": "x"});
        input[field] = value;
        let response = client.call(input);
        assert_eq!(super::text(&response), format!("Error: Missing field `{field}` of the command insert"));
    }
    client.end();
}
