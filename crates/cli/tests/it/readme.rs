//! Runs the terminal session of the project's README.

use std::env;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

const README: &str = include_str!("../../../../README.md");

#[test]
fn readme_session_matches_the_output() {
    let (_, rest) = README.split_once("```console\n").unwrap();
    let (session, _) = rest.split_once("```").unwrap();
    let place = TempDir::new().unwrap();
    let program = memory_tool_test_fixtures::session::program();
    let directory = Path::new(program.get_program()).parent().unwrap().to_owned();
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([directory].into_iter().chain(env::split_paths(&path))).unwrap();
    let steps: Vec<_> = format!("\n{session}").split("\n$ ").skip(1).map(str::to_owned).collect();
    assert!(steps.len() > 1, "{steps:?}");
    for step in steps {
        let (command, expected) = step.split_once('\n').unwrap();
        let script = format!("({command}) 2>&1");
        let output = Command::new("sh").args(["-c", &script]).current_dir(&place).env("PATH", &path).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap().trim_end(), expected.trim_end(), "{command}");
        assert!(output.status.success(), "{command}");
    }
}
