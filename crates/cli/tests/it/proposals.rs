//! Changes that wait until a person takes them.

use std::process::Stdio;
use std::time::{Duration, Instant};

use memory_tool_test_fixtures::session::outcome;
use memory_tool_test_fixtures::{by_tier, in_full};
use serde_json::json;

use crate::history::{Store, entries};

impl Store {
    /// Proposes changes of three files.
    fn with_proposal(self) -> Self {
        for name in ["a", "b", "c"] {
            self.run(&["create", name, "--text", "1\n2\n3\n", "--history"]);
        }
        for (name, text) in [("a", "one\n2\n3\n"), ("b", "1\n2\nthree\n")] {
            self.run(&["rm", name, "--propose", "nightly", "--actor", "agent"]);
            self.run(&["create", name, "--text", text, "--propose", "nightly", "--actor", "agent"]);
        }
        self.run(&["rm", "c", "--propose", "nightly", "--actor", "agent"]);
        self
    }
}

#[test]
fn a_person_takes_edits_and_drops_changes() {
    for store in Store::all() {
        let store = store.with_proposal();
        assert_eq!(store.run(&["ls"]), "a\nb\nc\n");
        assert_eq!(store.run(&["ls", "--propose", "nightly"]), "a\nb\n");
        let listed = store.run(&["proposals"]);
        assert!(listed.contains("     3 ") && listed.ends_with("  nightly\n"), "{listed}");
        let shown = store.run(&["proposal", "show", "nightly", "a"]);
        assert!(shown.starts_with("/memories/a by agent\n--- a/memories/a\n"), "{shown}");
        assert!(shown.contains("-1\n+one\n"), "{shown}");

        assert_eq!(
            store.run(&["proposal", "take", "nightly", "a", "--reason", "good", "--actor", "ada"]),
            "took the changes of 1 file\n    /memories/a\n2 files still wait\n"
        );
        let log = entries(&store.run(&["log", "-n", "1", "--json"]));
        assert_eq!(
            json!([log[0]["actor"], log[0]["authors"], log[0]["reason"], log[0]["command"]]),
            json!(["ada", ["agent"], "good", "take"])
        );
        let mut edit = store.command(&["proposal", "edit", "nightly", "b"]);
        let (status, output, _) = outcome(edit.env("VISUAL", "sh -c 'echo 4 >> $1' x"));
        assert_eq!((status, output.as_str()), (Some(0), "saved /memories/b in the proposal nightly\n"));
        store.run(&["proposal", "take", "nightly", "b"]);
        assert_eq!(store.run(&["cat", "b"]), "1\n2\nthree\n4\n");
        assert_eq!(store.run(&["proposal", "drop", "nightly"]), "dropped the changes of 1 file\n    /memories/c\n");
        assert_eq!(store.run(&["proposals"]), "");
        assert_eq!(store.run(&["ls"]), "a\nb\nc\n");
        store.run(&["undo", "-n", "2"]);
        assert_eq!(store.run(&["cat", "a", "b"]), "1\n2\n3\n1\n2\n3\n");
    }
}

#[test]
fn a_revision_is_decided_as_it_was_shown() {
    let store = Store::all().remove(0).with_proposal();
    let shown = store.run(&["proposal", "show", "nightly"]);
    let revision = shown.trim_end().rsplit(' ').next().unwrap();
    assert_eq!(entries(&store.run(&["proposal", "show", "nightly", "--json"]))[0]["revision"], revision);
    store.run(&["append", "a", "late\n", "--propose", "nightly"]);
    for action in ["take", "drop"] {
        let decide = ["proposal", action, "nightly", "--revision", revision];
        let (status, _, errors) = outcome(&mut store.command(&decide));
        assert_eq!(status, Some(1));
        assert!(errors.contains("the proposal was changed by others; look at it again"), "{errors}");
    }
    let shown = store.run(&["proposal", "show", "nightly"]);
    let revision = shown.trim_end().rsplit(' ').next().unwrap();
    let taken = store.run(&["proposal", "take", "nightly", "--revision", revision]);
    assert_eq!(taken, "took the changes of 3 files\n    /memories/a\n    /memories/b\n    /memories/c\n");
}

#[test]
fn a_proposal_that_removes_much_is_taken_after_a_look() {
    for store in Store::all() {
        let lines: String = (0..30).map(|line| format!("{line}\n")).collect();
        store.run(&["create", "a", "--text", &lines]);
        store.run(&["create", "b", "--text", "kept\n"]);
        store.run(&["rm", "a", "--propose", "tidy"]);
        let (status, _, errors) = outcome(&mut store.command(&["proposal", "take", "tidy"]));
        assert_eq!(status, Some(1));
        assert!(errors.contains("more than a third of the lines of the memory would go"), "{errors}");
        let shown = store.run(&["proposal", "show", "tidy"]);
        let revision = shown.trim_end().rsplit(' ').next().unwrap();
        store.run(&["proposal", "take", "tidy", "--revision", revision]);
        assert_eq!(store.run(&["ls"]), "b\n");
    }
}

#[test]
fn rules_decide_what_waits_and_copies_leave_it_out() {
    for store in Store::all() {
        store.run(&["create", "a", "--text", "1\n2\n3\n"]);
        let rules = ["--propose", "nightly", "--propose-except", "scratch", "--propose-over", "1"];
        let propose = |words: &[&str]| store.run(&[words, &rules[..]].concat());
        propose(&["create", "scratch/x", "--text", "1\n2\n"]);
        propose(&["str_replace", "/memories/a", "--old-str", "1", "--new-str", "one"]);
        propose(&["create", "b", "--text", "1\n2\n"]);
        assert_eq!(store.run(&["ls"]), "a\nscratch/\n");
        assert_eq!(store.run(&["cat", "a"]), "one\n2\n3\n");
        let target = store.place.outside("exported").display().to_string();
        let (status, report, errors) = outcome(&mut store.command(&["export", &target, "--json"]));
        assert_eq!(
            (status, errors.as_str()),
            (Some(0), "memory-tool: the proposal nightly is not included (1 file)\n")
        );
        assert_eq!(entries(&report)[0]["waiting"], 1);
        assert!(store.run(&["memories"]).ends_with(" (1 file in proposals)\n"));
        assert_eq!(entries(&store.run(&["memories", "--json"]))[0]["waiting"], 1);
    }
}

#[test]
fn a_damaged_proposal_is_listed_and_dropped() {
    let store = Store::all().remove(0).with_proposal();
    store.run(&["create", "a", "--text", "new", "--propose", "sound", "--create-overwrites"]);
    let index = store.place.store().join(".memory-tool/records/proposals/nightly/index");
    std::fs::write(index, "{").unwrap();
    for action in ["show", "take"] {
        let errors = outcome(&mut store.command(&["proposal", action, "nightly"])).2;
        assert_eq!(errors, "memory-tool: the proposal nightly is damaged; it can only be dropped\n");
    }
    let listed = store.run(&["proposals"]);
    assert!(listed.contains("damaged               nightly\n") && listed.ends_with("  sound\n"), "{listed}");
    assert_eq!(entries(&store.run(&["proposals", "--json"]))[0]["is_damaged"], true);
    let (status, report, _) = outcome(&mut store.command(&["verify"]));
    let expected = "the proposal nightly is damaged; it can only be dropped\n1 problem found\n";
    assert_eq!((status, report.as_str()), (Some(1), expected));
    let (status, _, errors) = outcome(&mut store.command(&["proposal", "drop", "nightly"]));
    assert_eq!((status, errors.as_str()), (Some(0), "memory-tool: dropped a damaged proposal\n"));
    store.run(&["verify"]);
    assert!(!store.run(&["proposals"]).contains("nightly"));
}

#[test]
fn changes_of_the_same_lines_are_shown_and_nothing_is_taken() {
    let store = Store::all().remove(0).with_proposal();
    store.run(&["str_replace", "/memories/a", "--old-str", "1", "--new-str", "uno"]);
    store.run(&["str_replace", "/memories/b", "--old-str", "1", "--new-str", "uno"]);
    let (status, output, errors) = outcome(&mut store.command(&["proposal", "take", "nightly", "a", "b"]));
    assert_eq!(status, Some(1), "{errors}");
    assert!(output.contains("changes of the memory:\n") && output.contains("+uno\n") && output.contains("+one\n"));
    assert!(errors.contains("the memory was changed at the same lines: /memories/a"), "{errors}");
    assert_eq!(store.run(&["cat", "b"]), "uno\n2\n3\n");
    store.run(&["proposal", "take", "nightly", "b"]);
    assert_eq!(store.run(&["cat", "b"]), "uno\n2\nthree\n");
    let shown = entries(&store.run(&["proposal", "show", "nightly", "--json"]));
    let outcomes: Vec<_> = shown.iter().map(|change| json!([change["path"], change["outcome"]])).collect();
    assert_eq!(outcomes, [json!(["/memories/a", "conflict"]), json!(["/memories/c", "clean"])]);
}

#[test]
fn a_part_of_a_file_is_taken_and_mistakes_are_named() {
    let store = Store::all().remove(0);
    let lines: String = (0..20).map(|line| format!("{line}\n")).collect();
    store.run(&["create", "a", "--text", &lines]);
    for (old, new) in [("\n2\n", "\ntwo\n"), ("\n18\n", "\nlast\n")] {
        store.run(&["str_replace", "/memories/a", "--old-str", old, "--new-str", new, "--propose", "x"]);
    }
    let shown = store.run(&["proposal", "show", "x"]);
    assert!(shown.contains("part 2:\n@@ "));
    let part = |shown: &str| {
        let revision = shown.trim_end().rsplit(' ').next().unwrap().to_owned();
        ["proposal", "take", "x", "a", "--part", "2", "--revision", &revision].map(str::to_owned)
    };
    let take = part(&shown);
    assert_eq!(store.run(&take.each_ref().map(String::as_str)), "took 1 part\n    /memories/a\n1 file still waits\n");
    assert_eq!(store.run(&["cat", "a"]), lines.replace("\n18\n", "\nlast\n"));
    let refused = |words: &[&str]| outcome(&mut store.command(words)).2;
    assert_eq!(refused(&["proposal", "show", "y"]), "memory-tool: there is no proposal y\n");
    assert_eq!(refused(&["proposal", "take", "x", "b"]), "memory-tool: the proposal does not change /memories/b\n");
    assert!(refused(&["proposal", "take", "x", "a", "--part", "2"]).contains("--revision"));
    let take = part(&store.run(&["proposal", "show", "x"]));
    assert_eq!(
        refused(&take.each_ref().map(String::as_str)),
        "memory-tool: the change of /memories/a has no such part; it has 1\n"
    );
    assert!(refused(&["proposal", "take", "x", "--propose", "x"]).contains("leave out --propose"));
    assert!(refused(&["proposal", "show", "../x"]).contains("the name of a proposal is"));
    for (name, path, expected) in [("y", "a", "there is no proposal y"), ("x", "b", "the proposal does not change")] {
        let mut edit = store.command(&["proposal", "edit", name, path]);
        let errors = outcome(edit.env("VISUAL", "sh -c 'echo 4 >> $1' x")).2;
        assert!(errors.contains(expected), "{errors}");
    }
}

#[test]
fn a_conflict_is_resolved_without_losing_other_lines() {
    for store in Store::all() {
        let text = |first: &str, middle: &str| format!("{first}\n2\n3\n4\n5\n{middle}\n7\n8\n9\n10\nlast\n");
        store.run(&["create", "a", "--text", &text("1", "6")]);
        store.run(&["create", "a", "--text", &text("one", "6"), "--create-overwrites", "--propose", "x"]);
        store.run(&["create", "a", "--text", &text("uno", "sei"), "--create-overwrites"]);
        assert!(store.run(&["proposal", "show", "x"]).contains("edit the proposal, or drop this change"));
        let mut edit = store.command(&["proposal", "edit", "x", "a"]);
        let (status, output, _) = outcome(edit.env("VISUAL", "sed -i s/one/both/"));
        assert_eq!((status, output.as_str()), (Some(0), "saved /memories/a in the proposal x\n"));
        store.run(&["proposal", "take", "x"]);
        assert_eq!(store.run(&["cat", "a"]), text("both", "sei"));
        store.run(&["rm", "a", "--propose", "y"]);
        store.run(&["append", "a", "late\n"]);
        assert!(store.run(&["proposal", "show", "y"]).contains("drop the removal, or remove it there"));
        let errors = outcome(store.command(&["proposal", "edit", "y", "a"]).env("VISUAL", "true")).2;
        assert!(errors.contains("the proposal removes /memories/a"), "{errors}");
    }
}

#[test]
fn a_directory_takes_the_place_of_a_file_in_two_steps() {
    let store = Store::all().remove(0);
    store.run(&["create", "a", "--text", "1"]);
    store.run(&["rm", "a", "--propose", "x"]);
    store.run(&["create", "a/b", "--text", "2", "--propose", "x"]);
    let errors = outcome(&mut store.command(&["proposal", "take", "x"])).2;
    assert!(errors.contains("first take the removal of /memories/a"), "{errors}");
    store.run(&["proposal", "take", "x", "a"]);
    store.run(&["proposal", "take", "x", "a/"]);
    assert_eq!(store.run(&["cat", "a/b"]), "2");
}

#[test]
fn an_erasure_names_the_proposals_that_keep_the_text() {
    for store in Store::all() {
        let store = store.with_proposal();
        let erase = |text: &str| outcome(&mut store.command(&["redact", "--text", text]));
        let expected = "memory-tool: /memories/a of the proposal nightly contains the text: edit or drop it\n";
        let (status, output, errors) = erase("one");
        assert_eq!((status, output.as_str(), errors.as_str()), (Some(1), "", expected));
        let (status, output, errors) = erase("3");
        assert_eq!(status, Some(1));
        assert!(output.contains("replaced it in /memories/a (1 place)") && errors.contains(expected), "{errors}");
        store.run(&["proposal", "drop", "nightly"]);
        assert!(erase("one").2.contains("the text was not found"));
    }
}

#[test]
fn a_killed_take_changes_all_files_or_none() {
    const FILES: usize = 12;
    let names: Vec<_> = (0..FILES).map(|name| format!("/memories/{name}")).collect();
    for mut store in Store::all() {
        store.options.extend(["--timeout".to_owned(), "20s".to_owned()]);
        let (mut kills, mut taken, mut whole) = (0, 0, Duration::ZERO);
        for round in 0..in_full(5, by_tier(13, 70)) {
            for name in &names {
                let text = format!("{round}\n");
                let proposed = ["create", name, "--text", &text, "--create-overwrites", "--propose", "kills"];
                store.run(&proposed);
            }
            let mut taking = store.command(&["proposal", "take", "kills"]).stdout(Stdio::null()).spawn().unwrap();
            std::thread::sleep(whole * (round * 5 % 13) / 12); // at all times of a take
            taking.kill().unwrap();
            kills += usize::from(taking.wait().unwrap().code().is_none());
            store.run(&["append", "other", "x"]); // completes or takes back the change on local disk
            let cat: Vec<_> = ["cat"].into_iter().chain(names.iter().map(String::as_str)).collect();
            let (_, texts, _) = outcome(&mut store.command(&cat));
            let is_new = texts == format!("{round}\n").repeat(FILES);
            let is_waiting = !store.run(&["proposals"]).is_empty();
            assert_ne!(is_new, is_waiting, "round {round}: {texts}");
            let is_old = texts.lines().all(|line| Some(line) == texts.lines().next()) && !is_new;
            assert!(is_new || is_old, "round {round}: {texts}");
            taken += usize::from(is_new);
            if is_waiting {
                let start = Instant::now();
                store.run(&["proposal", "take", "kills"]);
                whole = start.elapsed();
            }
        }
        println!("{kills} killed, {taken} taken");
    }
}
