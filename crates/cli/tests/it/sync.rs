//! `memory-tool sync`.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use memory_tool_test_fixtures::session::{Outcome, outcome, program, wait_for_end};
use memory_tool_test_fixtures::{by_tier, in_full};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Two stores in a directory, the first one on local disk.
struct Pair {
    directory: TempDir,
    second: &'static [&'static str],
}

impl Pair {
    fn all() -> Vec<Self> {
        let seconds: [&[&str]; 3] = [&["sqlite:second.db"], &["second"], &["second", "--key-file=key"]];
        let pairs = seconds.into_iter().map(|second| Self { directory: TempDir::new().unwrap(), second });
        pairs.inspect(|pair| _ = pair.run(&["keygen", "--output", "key"])).collect()
    }

    fn directory(&self) -> &Path {
        self.directory.path()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = program();
        command.current_dir(self.directory()).args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Outcome {
        outcome(&mut self.command(arguments))
    }

    /// Runs a command on the first store.
    fn first(&self, arguments: &[&str]) -> String {
        let (status, output, errors) = self.run(&[arguments, &["--store=first"]].concat());
        assert_eq!(status, Some(0), "{errors}");
        output
    }

    /// Runs a command on the second store.
    fn second(&self, arguments: &[&str]) -> String {
        let store = [&["--store"], self.second].concat();
        let (status, output, errors) = self.run(&[arguments, &store].concat());
        assert_eq!(status, Some(0), "{errors}");
        output
    }

    fn sync(&self, options: &[&str]) -> Command {
        self.command(&[&["sync", "first"], self.second, options].concat())
    }

    fn synced(&self, options: &[&str]) -> Outcome {
        outcome(&mut self.sync(options))
    }

    fn report(&self) -> Value {
        serde_json::from_str(&self.synced(&["--json"]).1).unwrap()
    }

    fn files(&self) -> [String; 2] {
        [self.first(&["ls", "-R", "--json"]), self.second(&["ls", "-R", "--json"])].map(|listed| {
            let listed = listed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            listed.map(|file| format!("{} {}\n", file["path"], file["size"])).collect()
        })
    }
}

#[test]
fn both_memories_get_the_changes_and_the_status_tells_conflicts() {
    for pair in Pair::all() {
        pair.first(&["create", "a.md", "--text", "1\n2\n3\n4\n5\n", "--history", "--actor=ada"]);
        let (status, output, errors) = pair.synced(&["--names=laptop,server", "--dry-run"]);
        let would =
            "laptop: unchanged\nserver: would have 1 file written (10 bytes), 0 renamed, 0 removed\nwould be in sync\n";
        assert_eq!((status, output.as_str(), errors.as_str()), (Some(0), would, ""));
        let (status, output, errors) = pair.synced(&["--names=laptop,server", "--history"]);
        let done = "laptop: unchanged\nserver: 1 file written (10 bytes), 0 renamed, 0 removed\nin sync\n";
        assert_eq!((status, output.as_str()), (Some(0), done), "{errors}");
        assert!(errors.contains("created the memory store"), "{errors}");
        let log: Value = serde_json::from_str(&pair.second(&["log", "--json"])).unwrap();
        assert_eq!(json!([log["command"], log["authors"], log["reason"]]), json!(["sync", ["ada"], "from laptop"]));

        pair.second(&["create", "a.md", "--create-overwrites", "--text", "one\n2\n3\n4\n5\n"]);
        pair.first(&["append", "a.md", "6"]);
        let (status, output, _) = pair.synced(&[]);
        assert_eq!((status, output.lines().next()), (Some(0), Some("/memories/a.md was merged")), "{output}");
        assert_eq!(pair.first(&["cat", "a.md"]), "one\n2\n3\n4\n5\n6\n");

        for text in ["of laptop\n", "of server\n"] {
            let create = ["create", "a.md", "--create-overwrites", "--text", text];
            if text == "of laptop\n" {
                pair.first(&create)
            } else {
                pair.second(&create)
            };
        }
        let (status, output, _) = pair.synced(&["--names=laptop,server"]);
        assert_eq!(status, Some(1));
        assert!(
            output.ends_with("in sync, with conflicts\n") && output.contains(" laptop).md has the older text\n"),
            "{output}"
        );
        assert_eq!(pair.second(&["cat", "a.md"]), "of server\n");
        let report = pair.report();
        assert_eq!(
            json!([report["status"], report["conflicts"], report["first"]["written"]]),
            json!(["in_sync_with_conflicts", [], 0])
        );
        let copy = report["conflict_copies"][0].as_str().unwrap();
        assert_eq!(pair.first(&["cat", copy]), "of laptop\n");
        let (status, output, _) = pair.run(&["verify", "--store=first"]);
        assert_eq!((status, output.contains(copy)), (Some(1), true), "{output}");
        pair.first(&["rm", copy]);
        assert_eq!(pair.synced(&[]).0, Some(0));
        let [first, second] = pair.files();
        assert_eq!(first, second);
    }
}

#[test]
fn wrong_arguments_and_lost_files_are_explained() {
    let pair = Pair { directory: TempDir::new().unwrap(), second: &["second"] };
    for (arguments, expected) in [
        (&["sync", "first", "./first"][..], "cannot synchronize the memories: they share files"),
        (&["sync", "first", "in-process:"], "in-process: is temporary"),
        (&["sync", "first", "second", "--names=a,a"], "expected two different names"),
        (&["sync", "first", "second", "--names=a/b,c"], "expected two different names"),
        (&["sync", "first", "second", "--every=0s"], "expected at least 1s"),
        (&["sync", "first", "second", "--must-exist"], "there is no memory store at file:first"),
        (&["sync", "first", "second", "--propose=x"], "without mounts and without a proposal"),
        (&["sync", "first", "second", "--mount=/memories/team=third"], "without mounts and without a proposal"),
    ] {
        let (status, _, errors) = pair.run(arguments);
        assert_eq!((status, errors.contains(expected)), (Some(2), true), "{arguments:?}: {errors}");
    }
    for number in 0..11 {
        pair.first(&["create", &number.to_string(), "--text", "x"]);
    }
    let (status, _, errors) = pair.synced(&["--read-only"]);
    assert_eq!((status, errors.contains("read-only")), (Some(2), true), "{errors}");
    assert_eq!(pair.synced(&[]).0, Some(0));
    for number in 0..11 {
        std::fs::remove_file(pair.directory().join(format!("second/memories/{number}"))).unwrap();
    }
    let (status, _, errors) = pair.synced(&[]);
    assert_eq!((status, errors.contains("the memory disk 2 has lost all its 11 files")), (Some(2), true), "{errors}");
    let (_, output, _) = pair.synced(&["--allow-empty"]);
    assert!(output.contains("disk 1: 0 files written (0 bytes), 0 renamed, 11 removed"), "{output}");
}

#[test]
fn it_is_repeated_until_interrupted() {
    let pair = Pair { directory: TempDir::new().unwrap(), second: &["second"] };
    pair.first(&["create", "a", "--text", "x"]);
    let mut syncing = pair.sync(&["--every=1s"]).stdout(Stdio::null()).spawn().unwrap();
    let waits = |file: &str| {
        let start = Instant::now();
        while !pair.directory().join("second/memories").join(file).exists() {
            assert!(start.elapsed() < Duration::from_secs(60), "{file}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    waits("a");
    pair.first(&["create", "b", "--text", "x"]);
    waits("b");
    let interrupted = Command::new("kill").args(["-INT", &syncing.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    assert_eq!(wait_for_end(&mut syncing).code(), Some(130));
}

#[test]
fn a_killed_synchronization_loses_nothing() {
    for pair in Pair::all() {
        let (mut kills, mut whole) = (0, Duration::from_millis(100));
        pair.first(&["create", "both", "--text", "first\n", "--history"]);
        assert_eq!(pair.synced(&[]).0, Some(0));
        for round in 0..in_full(5, by_tier(13, 70)) {
            for name in ["a", "b", "c", "d", "e", "f"] {
                pair.first(&["append", &format!("{name}{round}"), "of first"]);
                pair.second(&["append", &format!("second-{name}{round}"), "of second"]);
            }
            pair.first(&["append", "both", &format!("{round} of first")]);
            if round > 0 {
                pair.second(&["mv", &format!("a{}", round - 1), &format!("moved{round}")]);
            }
            let mut syncing =
                pair.sync(&["--timeout=20s"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            std::thread::sleep(whole * (round * 5 % 13) / 12); // at all times of a synchronization
            syncing.kill().unwrap();
            kills += usize::from(syncing.wait().unwrap().code().is_none());
            let start = Instant::now();
            let (status, output, errors) = pair.synced(&["--timeout=20s"]);
            whole = start.elapsed().max(whole);
            assert_eq!((status, output.lines().last()), (Some(0), Some("in sync")), "{output}{errors}");
            let [first, second] = pair.files();
            assert_eq!(first, second, "round {round}");
            assert_eq!(first.lines().count(), 1 + 12 * (round as usize + 1), "round {round}: {first}");
        }
        println!("{kills} killed");
    }
}
