//! The six commands for people: input, output and exit status.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::process::Stdio;

use memory_tool_test_fixtures::session::{Outcome, Place, outcome, outcome_with, program};
use serde_json::{Value, json};

trait Commands {
    fn run_with_input(&self, arguments: &[&str], input: &[u8]) -> Outcome;

    fn run(&self, arguments: &[&str]) -> Outcome {
        self.run_with_input(arguments, b"")
    }

    /// Writes a file into the store, like another program.
    fn put(&self, name: &str, content: impl AsRef<[u8]>);

    fn content(&self, name: &str) -> String;
}

impl Commands for Place {
    fn run_with_input(&self, arguments: &[&str], input: &[u8]) -> Outcome {
        outcome_with(program().args(arguments).arg("--store").arg(self.store()), input)
    }

    fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        let file = self.file(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
    }

    fn content(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap()
    }
}

fn replied(reply: &str) -> Outcome {
    (Some(0), format!("{reply}\n"), String::new())
}

fn refused(message: &str) -> Outcome {
    (Some(1), String::new(), format!("{message}\n"))
}

#[test]
fn a_pipe_gets_every_byte() {
    let place = Place::new();
    place.put("a", "\u{1b}]0;title\u{7}\u{9b}2J\r\n");
    let (status, output, errors) = place.run(&["view", "/memories/a"]);
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    assert!(output.contains("\t\u{1b}]0;title\u{7}\u{9b}2J\r\n"), "{output:?}");
    let (_, output, _) = place.run(&["view", "/memories/a", "--json"]);
    assert!(output.contains("\\u001b]0;title\\u0007\u{9b}2J\\r"), "{output:?}");
}

#[test]
fn view_reports_what_a_listing_leaves_out() {
    let place = Place::new();
    for name in ["a", "b/c", "b/d", "b/e"] {
        place.put(name, "text");
    }
    let (status, output, errors) = place.run(&["view", "--max-view-chars", "60"]);
    assert_eq!((status, output.contains("/memories/b/c")), (Some(0), false), "{output}");
    assert_eq!(errors, "memory-tool: not shown: 3 items of /memories/b\n");
    assert_eq!(place.run(&["view"]).2, "");
}

#[test]
fn view_prints_a_directory_or_a_file() {
    let place = Place::new();
    const HEADER: &str =
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:";
    fs::create_dir_all(place.file("")).unwrap();
    assert_eq!(place.run(&["view", "/memories"]), replied(&format!("{HEADER}\n0B\t/memories")));
    place.put("d/a.txt", "one\ntwo\nthree");
    assert_eq!(
        place.run(&["view", "/memories/"]),
        replied(&format!("{HEADER}\n13B\t/memories\n13B\t/memories/d/\n13B\t/memories/d/a.txt"))
    );
    assert_eq!(
        place.run(&["view", "/memories/d/a.txt"]),
        replied("Here's the content of /memories/d/a.txt with line numbers:\n     1\tone\n     2\ttwo\n     3\tthree")
    );
    assert_eq!(
        place.run(&["view", "/memories/none"]),
        refused("The path /memories/none does not exist. Please provide a valid path.")
    );
}

#[test]
fn view_takes_a_range() {
    let place = Place::new();
    place.put("a", "one\ntwo\nthree");
    let shown = "Here's the content of /memories/a with line numbers:\n     2\ttwo\n     3\tthree";
    assert_eq!(place.run(&["view", "/memories/a", "--view-range", "2", "-1"]), replied(shown));
    assert_eq!(place.run(&["view", "--view-range", "2", "3", "/memories/a"]), replied(shown));
    assert_eq!(
        place.run(&["view", "/memories/a", "--view-range", "-2", "9"]),
        refused(
            "Error: Invalid `view_range` parameter: [-2, 9]. It should be within the range of lines of the file: [1, 3]"
        )
    );
}

#[test]
fn view_names_an_image_instead_of_printing_it() {
    let place = Place::new();
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0:~\x9bU\
        \0\0\0\nIDATx\x9cch\0\0\0\x82\0\x81w\xcdr\xb6\0\0\0\0IEND\xaeB`\x82";
    place.put("a.png", png);
    assert_eq!(place.run(&["view", "/memories/a.png"]), replied("[/memories/a.png: image/png]"));
    let (status, output, _) = place.run(&["view", "--json", "/memories/a.png"]);
    let data = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg==";
    let source = json!({"type": "base64", "media_type": "image/png", "data": data});
    assert_eq!(
        (status, serde_json::from_str::<Value>(&output).unwrap()),
        (Some(0), json!({"type": "tool_result", "content": [{"type": "image", "source": source}]}))
    );
}

#[test]
fn create_reads_its_text_from_an_option_a_file_or_standard_input() {
    let place = Place::new();
    let file = place.outside("file");
    fs::write(&file, "from a file\r\n").unwrap();
    let created = |path: &str| replied(&format!("File created successfully at: {path}"));
    assert_eq!(place.run(&["create", "/memories/a", "--text", "- é\n"]), created("/memories/a"));
    assert_eq!(place.run(&["create", "/memories/b", "--file", file.to_str().unwrap()]), created("/memories/b"));
    assert_eq!(place.run_with_input(&["create", "/memories/c"], b"from\x01the input\n"), created("/memories/c"));
    assert_eq!(place.run_with_input(&["create", "/memories/d", "--text", ""], b"not this"), created("/memories/d"));
    assert_eq!(place.run(&["create", "/memories/e"]), created("/memories/e"));
    let contents = ["a", "b", "c", "d", "e"].map(|name| place.content(name));
    assert_eq!(contents, ["- é\n", "from a file\r\n", "from\x01the input\n", "", ""]);
    assert_eq!(place.run(&["create", "/memories/a", "--text", "x"]), refused("Error: File /memories/a already exists"));
    assert_eq!(place.content("a"), "- é\n");
}

#[test]
fn str_replace_replaces_or_deletes_a_text() {
    let place = Place::new();
    place.put("a", "one\ntwo\n");
    let edited = |lines: &str| {
        replied(&format!(
            "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n{lines}"
        ))
    };
    assert_eq!(
        place.run(&["str_replace", "/memories/a", "--old-str", "one", "--new-str", "--json"]),
        edited("     1\t--json\n     2\ttwo\n     3\t")
    );
    assert_eq!(
        place.run(&["str-replace", "/memories/a", "--old-str", "--json"]),
        edited("     1\t\n     2\ttwo\n     3\t")
    );
    assert_eq!(place.content("a"), "\ntwo\n");
    assert_eq!(
        place.run(&["str_replace", "/memories/a", "--old-str", "three", "--new-str", ""]),
        refused("No replacement was performed, old_str `three` did not appear verbatim in /memories/a.")
    );
}

#[test]
fn insert_reads_its_text_from_an_option_a_file_or_standard_input() {
    let place = Place::new();
    place.put("a", "first\nlast");
    let file = place.outside("file");
    fs::write(&file, "from a file\n").unwrap();
    let edited = replied("The file /memories/a has been edited.");
    assert_eq!(place.run(&["insert", "/memories/a", "--insert-line", "1", "--insert-text", "- item"]), edited);
    assert_eq!(place.run(&["insert", "/memories/a", "--insert-line", "0", "--file", file.to_str().unwrap()]), edited);
    assert_eq!(place.run_with_input(&["insert", "/memories/a", "--insert-line", "4"], b"from the input\n"), edited);
    assert_eq!(place.content("a"), "from a file\nfirst\n- item\nlast\nfrom the input");
    assert_eq!(
        place.run(&["insert", "/memories/a", "--insert-line", "-1", "--insert-text", "x"]),
        refused(
            "Error: Invalid `insert_line` parameter: -1. It should be within the range of lines of the file: [0, 5]"
        )
    );
}

#[test]
fn delete_removes_a_directory() {
    let place = Place::new();
    place.put("d/a", "");
    assert_eq!(place.run(&["delete", "/memories/d/"]), replied("Successfully deleted /memories/d"));
    assert!(!place.file("d").exists());
    assert_eq!(place.run(&["delete", "/memories/d"]), refused("Error: The path /memories/d does not exist"));
    assert_eq!(place.run(&["delete", "/memories"]), refused("Error: Cannot delete the /memories directory itself"));
}

#[test]
fn rename_moves_a_file() {
    let place = Place::new();
    place.put("a", "text");
    assert_eq!(
        place.run(&["rename", "/memories/a", "/memories/d/b"]),
        replied("Successfully renamed /memories/a to /memories/d/b")
    );
    assert_eq!(place.content("d/b"), "text");
    assert_eq!(
        place.run(&["rename", "/memories/d/b", "/memories/d"]),
        refused("Error: The destination /memories/d already exists")
    );
}

#[test]
fn a_path_outside_memories_is_refused() {
    let place = Place::new();
    fs::create_dir_all(place.file("")).unwrap();
    for arguments in [
        &["view", "/elsewhere"][..],
        &["create", "/elsewhere", "--text", ""],
        &["str_replace", "/elsewhere", "--old-str", "x"],
        &["insert", "/elsewhere", "--insert-line", "0", "--insert-text", ""],
        &["delete", "/elsewhere"],
        &["rename", "/elsewhere", "/memories/a"],
        &["rename", "/memories/a", "/elsewhere"],
    ] {
        let error = "Error: Path must start with /memories, got: /elsewhere";
        assert_eq!(place.run(arguments), refused(&format!("{error}\nmemory-tool: did you mean /memories/elsewhere?")));
    }
}

#[test]
fn json_prints_results_and_errors() {
    let place = Place::new();
    let reply = r#"{"type":"tool_result","content":"File created successfully at: /memories/a"}"#;
    assert_eq!(place.run(&["create", "--json", "/memories/a", "--text", "x"]), replied(reply));
    let error = r#"{"type":"tool_result","content":"Error: File /memories/a already exists","is_error":true}"#;
    assert_eq!(
        place.run(&["create", "--json", "/memories/a", "--text", "x"]),
        (Some(1), format!("{error}\n"), String::new())
    );
    for (arguments, status) in [
        (&["view", "/memories"][..], 0),
        (&["str_replace", "/memories/a", "--old-str", "y"], 1),
        (&["insert", "/memories/a", "--insert-line", "9", "--insert-text", ""], 1),
        (&["rename", "/memories/a", "/memories/b"], 0),
        (&["delete", "/memories/b"], 0),
    ] {
        let (ended, output, errors) = place.run(&[arguments, &["--json"]].concat());
        let result: Value = serde_json::from_str(&output).unwrap();
        assert_eq!((ended, result["type"].as_str(), errors.as_str()), (Some(status), Some("tool_result"), ""));
        assert_eq!(result["is_error"] == true, status == 1, "{result}");
    }
}

#[test]
fn input_that_is_not_utf8_is_refused() {
    let place = Place::new();
    place.put("a", "text");
    let file = place.outside("binary");
    fs::write(&file, b"ab\xff").unwrap();
    let of_file = format!("memory-tool: cannot read {}: invalid UTF-8 at byte 2\n", file.display());
    let of_input = "memory-tool: cannot read standard input: invalid UTF-8 at byte 2\n";
    for command in [&["create", "/memories/b"][..], &["insert", "/memories/a", "--insert-line", "0"]] {
        let with_file = [command, &["--file", file.to_str().unwrap()]].concat();
        assert_eq!(place.run(&with_file), (Some(2), String::new(), of_file.clone()));
        assert_eq!(place.run_with_input(command, b"ab\xff"), (Some(2), String::new(), of_input.to_owned()));
    }
    assert_eq!(place.content("a"), "text");
    assert!(!place.file("b").exists());
}

#[test]
fn the_error_names_a_file_that_cannot_be_read() {
    let place = Place::new();
    let missing = place.outside("missing");
    let (status, output, errors) = place.run(&["create", "/memories/a", "--file", missing.to_str().unwrap()]);
    assert_eq!((status, output.as_str()), (Some(2), ""));
    let start = format!("memory-tool: cannot read {}: ", missing.display());
    assert!(errors.starts_with(&start) && errors.ends_with('\n'), "{errors}");
}

#[test]
fn the_version_is_that_of_the_package() {
    let (status, output, _) = outcome(program().arg("--version"));
    assert_eq!((status, output), (Some(0), format!("memory-tool {}\n", env!("CARGO_PKG_VERSION"))));
}

#[test]
#[cfg(unix)]
fn a_closed_output_is_not_an_error_and_a_full_disk_is() {
    let place = Place::new();
    let create = |name: &str, output: Stdio| {
        let path = format!("/memories/{name}");
        let store = place.store();
        let arguments =
            [OsStr::new("create"), OsStr::new(&path), OsStr::new("--text="), OsStr::new("--store"), store.as_ref()];
        let process = program().args(arguments).stdout(output).stderr(Stdio::piped()).spawn().unwrap();
        let output = process.wait_with_output().unwrap();
        (output.status.code(), output.stdout, String::from_utf8(output.stderr).unwrap())
    };
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(create("a", writer.into()), (Some(0), Vec::new(), String::new()));
    assert_eq!(place.content("a"), "");
    if cfg!(target_os = "linux") {
        let (status, _, errors) = create("b", File::options().write(true).open("/dev/full").unwrap().into());
        assert_eq!(status, Some(2));
        assert!(errors.starts_with("memory-tool: cannot write standard output: "), "{errors}");
    }
}

#[test]
fn causes_of_storage_failures_go_to_standard_error_only() {
    const MESSAGE: &str = "Error: The memory storage failed. Nothing was changed.";
    let place = Place::new();
    place.break_storage();
    let (status, output, errors) = place.run(&["view", "/memories"]);
    assert_eq!((status, output.as_str()), (Some(1), ""));
    let [causes] = errors.lines().collect::<Vec<_>>()[..] else { panic!("{errors}") };
    assert!(causes.starts_with(&format!("memory-tool: {MESSAGE}: ")) && causes.contains("lock failed: "), "{errors}");
    let (status, output, errors) = place.run(&["view", "/memories", "--json"]);
    let result = format!(r#"{{"type":"tool_result","content":"{MESSAGE}","is_error":true}}"#);
    assert_eq!((status, output, errors), (Some(1), result + "\n", causes.to_owned() + "\n"));
}

#[test]
fn create_overwrites_and_unlimited_views_are_options() {
    let place = Place::new();
    let create =
        |text: &str, option: &[&str]| place.run(&[&["create", "/memories/a.txt", "--text", text], option].concat());
    assert_eq!(create("old", &[]).0, Some(0));
    assert_eq!(create("new", &[]).0, Some(1));
    assert_eq!(create(&"x".repeat(20_000), &["--create-overwrites"]).0, Some(0));
    let (_, capped, _) = place.run(&["view", "/memories/a.txt"]);
    assert!(capped.contains("\n[Line 1 of 1 has 20000 characters; the first 15993 are shown. "));
    let (_, whole, _) = place.run(&["view", "/memories/a.txt", "--max-view-chars", "none"]);
    assert!(whole.ends_with(&format!("     1\t{}\n", "x".repeat(20_000))));
}
