//! The drivers in `examples/drivers` give the replies that `docs/sdk-comparison` reports.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use memory_tool_test_fixtures::session::{Place, suite_program};

/// Cases that some tools fail, with different replies.
const CASES: [&str; 3] = ["create.refuses-to-overwrite", "delete.directory", "rename.file-over-a-file"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn rows(directory: &Path) -> Vec<String> {
    let table = fs::read_to_string(directory.join("sdk-comparison/cases.csv")).unwrap();
    let is_row = |line: &&str| CASES.iter().any(|case| line.starts_with(&format!("{case},")));
    table.lines().filter(is_row).map(str::to_owned).collect()
}

fn tested(directory: &Path) -> Vec<String> {
    let page = fs::read_to_string(directory.join("sdk-comparison.md")).unwrap();
    let is_row = |line: &&str| line.starts_with("| package |") || line.starts_with("| tool |");
    page.lines().filter(is_row).map(str::to_owned).collect()
}

pub(crate) fn drivers_reply_as_the_comparison_reports() {
    let place = Place::new();
    let mut compare = Command::new("python3");
    compare.arg(root().join("examples/drivers/compare.py"));
    compare.args(["--program", suite_program().get_program().to_str().unwrap(), "--output"]).arg(place.outside(""));
    compare.args(CASES.map(|case| format!("--filter={case}")));
    let output = compare.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let docs = root().join("docs");
    assert_eq!(rows(&place.outside("")), rows(&docs));
    assert_eq!(rows(&docs).len(), CASES.len());
    assert_eq!(tested(&place.outside("")), tested(&docs));
    assert_eq!(tested(&docs).len(), 2);
}
