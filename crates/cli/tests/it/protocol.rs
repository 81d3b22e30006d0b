//! `memory-tool run`: each line of input gets one `tool_result` line of output.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::process::Stdio;

use memory_tool_test_fixtures::session::{Place, Session, program, text, wait_for_end};
use serde_json::{Value, json};

/// The listing of a store without files (`[V7]`).
const EMPTY_STORE: &str = "Here're the files and directories up to 2 levels deep in /memories, \
                           excluding hidden items and node_modules:\n0B\t/memories";

const VIEW: &str = r#"{"command":"view","path":"/memories"}"#;

fn started() -> (Place, Session) {
    let place = Place::new();
    let session = place.session();
    (place, session)
}

/// The error for a line. Checks that the process continues.
fn refused(line: impl AsRef<[u8]>) -> String {
    let (_place, mut session) = started();
    let result = session.call(line);
    assert_eq!(result["is_error"], true, "{result}");
    assert_eq!(session.call(VIEW), json!({"type": "tool_result", "content": EMPTY_STORE}));
    session.close();
    text(&result)
}

#[test]
fn a_result_is_one_line_of_json() {
    let (_place, mut session) = started();
    session.send(VIEW);
    let line = session.receive_line().unwrap();
    let content = EMPTY_STORE.replace('\n', "\\n").replace('\t', "\\t");
    assert_eq!(String::from_utf8(line).unwrap(), format!(r#"{{"type":"tool_result","content":"{content}"}}"#));
    session.close();
}

#[test]
fn many_lines_at_once_are_answered_in_order() {
    let (_place, mut session) = started();
    let block =
        |id: usize| json!({"type": "tool_use", "id": id.to_string(), "name": "memory", "input": {"command": "nope"}});
    let lines: Vec<_> = (0..500).map(|id| format!("{}\n", block(id))).collect();
    session.send_raw(lines.concat());
    for id in 0..500 {
        assert_eq!(session.receive()["tool_use_id"], id.to_string());
    }
    session.close();
}

#[test]
fn a_line_of_17_mib_is_refused_and_the_next_one_is_served() {
    let huge = format!(r#"{{"command":"create","path":"/memories/a","file_text":"{}"}}"#, "x".repeat(17 << 20));
    assert_eq!(refused(huge), "Error: The input is longer than 16777216 bytes");
}

#[test]
fn a_line_of_just_under_16_mib_is_served() {
    let (place, mut session) = started();
    let file_text = "x".repeat((16 << 20) - 100);
    let create = json!({"command": "create", "path": "/memories/a", "file_text": file_text});
    assert_eq!(session.succeed(&create), "File created successfully at: /memories/a");
    assert_eq!(fs::read_to_string(place.file("a")).unwrap(), file_text);
    session.close();
}

#[test]
fn a_huge_last_line_without_its_line_feed_is_refused() {
    let (_place, mut session) = started();
    session.send_raw(vec![b'['; 17 << 20]);
    let (lines, status, _) = session.finish();
    assert!(status.success());
    assert_eq!(lines.len(), 1);
    let result: Value = serde_json::from_slice(&lines[0]).unwrap();
    assert_eq!(text(&result), "Error: The input is longer than 16777216 bytes");
}

#[test]
#[cfg(target_os = "linux")]
fn a_too_long_line_uses_no_more_memory_than_the_longest_valid_one() {
    let (_place, mut session) = started();
    let mebibyte = vec![b'x'; 1 << 20];
    for _ in 0..200 {
        session.send_raw(&mebibyte);
    }
    assert_eq!(session.call("")["is_error"], true);
    let status = fs::read_to_string(format!("/proc/{}/status", session.process_id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kibibytes: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kibibytes < 64 << 10, "{kibibytes} KiB");
    session.close();
}

#[test]
fn a_closed_output_ends_the_program_without_an_error() {
    let place = Place::new();
    fs::create_dir_all(place.file("")).unwrap();
    let mut process = program()
        .args(["run", "--store"])
        .arg(place.store())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(process.stdout.take());
    // The input stays open: the program must end because of the output.
    let mut input = process.stdin.take().unwrap();
    input.write_all(format!("{VIEW}\n").as_bytes()).unwrap();
    let status = wait_for_end(&mut process);
    let mut errors = String::new();
    process.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert_eq!((status.code(), errors.as_str()), (Some(0), ""));
}

#[test]
#[cfg(target_os = "linux")]
fn an_error_of_the_output_is_reported() {
    let place = Place::new();
    fs::create_dir_all(place.file("")).unwrap();
    let input = place.outside("input");
    fs::write(&input, VIEW).unwrap();
    let output = program()
        .args(["run", "--store"])
        .arg(place.store())
        .stdin(File::open(input).unwrap())
        .stdout(File::options().write(true).open("/dev/full").unwrap())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.starts_with("memory-tool: cannot write standard output: No space left"), "{errors}");
}

#[test]
#[cfg(unix)]
fn an_error_of_the_input_is_reported() {
    let place = Place::new();
    fs::create_dir_all(place.file("")).unwrap();
    let directory = File::open(std::env::temp_dir()).unwrap();
    let output = program().args(["run", "--store"]).arg(place.store()).stdin(directory).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.starts_with("memory-tool: cannot read standard input: Is a directory"), "{errors}");
}

#[test]
fn causes_of_storage_failures_go_to_standard_error_only() {
    let (place, mut session) = started();
    session.call(VIEW);
    place.break_storage();
    let result = session.call(VIEW);
    let message = "Error: The memory storage failed. Nothing was changed.";
    assert_eq!(result, json!({"type": "tool_result", "content": message, "is_error": true}));
    session.call("not JSON");
    let (lines, status, errors) = session.finish();
    assert!(lines.is_empty() && status.success());
    let line = errors.strip_suffix('\n').unwrap();
    let causes = line.strip_prefix(&format!("memory-tool: {message}: ")).unwrap();
    assert!(causes.contains("lock failed: ") && !causes.contains('\n'), "{errors}");
}
