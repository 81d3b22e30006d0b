//! The steps of the GitHub Action `conformance`, run as GitHub runs them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use memory_tool_test_fixtures::session::Place;

const SUITE: &str = env!("CARGO_BIN_EXE_memory-tool-conformance");

fn directory_of_action() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.github/actions/conformance")
}

fn action() -> String {
    fs::read_to_string(directory_of_action().join("action.yml")).unwrap()
}

fn script(step: &str) -> String {
    let action = action();
    let (_, step) = action.split_once(&format!("- name: {step}\n")).unwrap();
    let (_, block) = step.split_once("      run: |\n").unwrap();
    block.lines().map_while(|line| line.strip_prefix("        ")).map(|line| format!("{line}\n")).collect()
}

fn inputs() -> Vec<String> {
    let action = action();
    let (_, inputs) = action.split_once("\ninputs:\n").unwrap();
    let lines = inputs.lines().take_while(|line| !line.starts_with("runs:"));
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.strip_suffix(':'));
    names.filter(|name| !name.starts_with(' ')).map(str::to_owned).collect()
}

/// Runs a script like `shell: bash`.
fn bash(place: &Place, script: &str) -> Command {
    let file = place.outside("step.sh");
    fs::write(&file, script).unwrap();
    let mut bash = Command::new("bash");
    bash.args(["--noprofile", "--norc", "-eo", "pipefail"]).arg(file);
    bash.env("RUNNER_TEMP", place.outside("")).env("GITHUB_ACTION_PATH", directory_of_action());
    bash.current_dir(place.outside(""));
    bash
}

/// Runs the suite's step with these inputs, and returns its output and the summary.
fn run_suite(inputs_given: &[(&str, &str)]) -> (Output, String) {
    let place = Place::new();
    let bin = place.outside("suite/bin");
    fs::create_dir_all(&bin).unwrap();
    std::os::unix::fs::symlink(SUITE, bin.join("memory-tool-conformance")).unwrap();
    fs::write(place.outside("refuses.sh"), REFUSES).unwrap();
    fs::write(place.outside("known.txt"), "create.text # this program never creates files\n").unwrap();
    let summary = place.outside("summary.md");
    let mut step = bash(&place, &script("Run the conformance suite"));
    step.env("GITHUB_STEP_SUMMARY", &summary).env("BASIS", "project");
    for name in inputs().iter().filter(|name| *name != "basis") {
        step.env(name.to_uppercase().replace('-', "_"), "");
    }
    let output = step.envs(inputs_given.iter().copied()).output().unwrap();
    (output, fs::read_to_string(summary).unwrap_or_default())
}

/// A program that refuses every command.
const REFUSES: &str = r#"while read -r line; do echo '{"type":"tool_result","content":"no","is_error":true}'; done"#;

#[test]
fn each_input_reaches_the_suite() {
    let action = action();
    for name in inputs() {
        let variable = format!("{}: ${{{{ inputs.{name} }}}}", name.to_uppercase().replace('-', "_"));
        assert!(action.contains(&variable), "{variable}");
    }
    assert_eq!(inputs().len(), 6);
}

#[test]
fn a_passing_program_has_a_summary() {
    let command = format!("'{SUITE}' run --store {{dir}}");
    let filter = "create.text delete.twice plain_files.bytes-on-disk";
    let (output, summary) = run_suite(&[("COMMAND", &command), ("FILTER", filter), ("PLAIN_FILES", "{dir}/memories")]);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(summary, printed);
    assert!(summary.contains("3 passed"), "{summary}");
}

#[test]
fn a_failing_program_fails_the_step_unless_its_failures_are_known() {
    let (output, summary) = run_suite(&[("COMMAND", "sh refuses.sh {dir}"), ("FILTER", "create.text")]);
    assert_eq!(output.status.code(), Some(1), "{summary}");
    assert!(summary.contains("create.text"), "{summary}");
    let known = [("COMMAND", "sh refuses.sh {dir}"), ("FILTER", "create.text"), ("KNOWN_FAILURES", "known.txt")];
    let (output, summary) = run_suite(&known);
    assert_eq!(output.status.code(), Some(0), "{summary}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_basis_and_a_lack_narrow_the_run() {
    let command = format!("'{SUITE}' run --store {{dir}}");
    let lacks = [("FILTER", "delete.twice restarts.bad-lines"), ("LACKS", "processes=one process at a time")];
    let basis = [("FILTER", "delete.twice wire.blank-lines"), ("BASIS", "documentation")];
    for (inputs, totals) in [(lacks, "1 passed, 0 failed, 1 ignored"), (basis, "1 passed, 0 failed, 0 ignored")] {
        let (output, summary) = run_suite(&[&[("COMMAND", &*command)], &inputs[..]].concat());
        assert!(output.status.success(), "{summary}");
        assert!(summary.contains(totals), "{summary}");
    }
}

#[test]
fn the_program_is_installed_from_the_version_of_the_action() {
    let place = Place::new();
    let cargo = place.outside("cargo");
    fs::write(&cargo, "#!/bin/sh\nprintf '%s\\n' \"$@\" >\"$RUNNER_TEMP/arguments\"\n").unwrap();
    Command::new("chmod").arg("+x").arg(&cargo).status().unwrap();
    let path = format!("{}:{}", place.outside("").display(), std::env::var("PATH").unwrap());
    assert!(bash(&place, &script("Install the suite")).env("PATH", path).status().unwrap().success());
    let arguments = fs::read_to_string(place.outside("arguments")).unwrap();
    let arguments: Vec<_> = arguments.lines().collect();
    let after = |option| arguments[arguments.iter().position(|&argument| argument == option).unwrap() + 1];
    let manifest = fs::read_to_string(Path::new(after("--path")).join("Cargo.toml")).unwrap();
    assert!(manifest.contains("name = \"memory-tool-conformance-cli\""), "{manifest}");
    assert_eq!(Path::new(after("--root")), place.outside("suite"));
}
