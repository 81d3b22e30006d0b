//! The configurations of clients in `docs/mcp.md`, and their versions in `docs/mcp/clients.csv`.

use memory_tool_test_fixtures::session::program;
use serde_json::Value;

const PAGE: &str = include_str!("../../../../../docs/mcp.md");
const TABLE: &str = include_str!("../../../../../docs/mcp/clients.csv");

fn blocks(language: &str) -> Vec<&'static str> {
    let blocks = PAGE.split("```").skip(1).step_by(2);
    blocks.filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n')).collect()
}

#[test]
fn the_configurations_of_clients_are_valid() {
    let mut commands = Vec::new();
    for block in blocks("json") {
        let configuration: Value = serde_json::from_str(block).unwrap();
        let servers = configuration.get("mcpServers").or(configuration.get("servers")).unwrap();
        assert!(servers["memory"]["command"].as_str().unwrap().ends_with("memory-tool"), "{block}");
        let words = servers["memory"]["args"].as_array().unwrap().iter();
        commands.push(words.map(|word| word.as_str().unwrap().to_owned()).collect::<Vec<_>>());
    }
    for line in blocks("sh").into_iter().flat_map(str::lines) {
        if let Some((_, words)) = line.split_once("memory-tool ") {
            commands.push(words.split(' ').map(str::to_owned).collect());
        }
    }
    assert_eq!(commands.len(), 4);
    for words in commands {
        // VS Code replaces its variables.
        let words: Vec<_> = words.iter().map(|word| word.replace("${userHome}", "/home/a")).collect();
        assert!(program().args(&words).arg("--help").output().unwrap().status.success(), "{words:?}");
    }
}

#[test]
fn the_table_has_the_tested_versions() {
    let packages: Value =
        serde_json::from_str(include_str!("../../../../../testing/servers/mcp/package.json")).unwrap();
    let requirements = include_str!("../../../../../testing/servers/requirements/mcp.txt");
    let version_of = |package: &str| packages["dependencies"][package].as_str().unwrap();
    let python = requirements.lines().find_map(|line| line.strip_prefix("mcp==")).unwrap();
    for (client, version) in [
        ("conformance suite", version_of("@modelcontextprotocol/conformance")),
        ("Inspector", version_of("@modelcontextprotocol/inspector")),
        ("Python SDK", python.trim_end_matches(" \\")),
    ] {
        let row = TABLE.lines().find(|line| line.trim_start_matches('"').starts_with(client)).unwrap();
        assert!(row.contains(&format!(",{version},")), "{row}, {version}");
    }
}
