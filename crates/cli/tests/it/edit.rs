//! The command `edit`: no text is lost, and no file is left that others can read.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use memory_tool_test_fixtures::session::{outcome, program};

use crate::history::Store;
use crate::terminal::typed_into;

/// A store with the file `a.md` and a directory for temporary files.
struct Edited {
    store: Store,
    temporary: PathBuf,
}

impl Edited {
    fn new(store: Store) -> Self {
        store.run(&["create", "a.md", "--text", "one\n"]);
        let temporary = store.place.outside("temporary");
        fs::create_dir(&temporary).unwrap();
        Self { store, temporary }
    }

    /// On local disk.
    fn local() -> Self {
        Self::new(Store::all().remove(0))
    }

    /// An edit of `path` by a shell script, whose `$1` is the file and `$tool` the program with its store.
    fn command(&self, path: &str, script: &str) -> Command {
        let tool = self.store.command(&[]);
        let editor = self.store.place.outside("editor of a person.sh");
        fs::write(&editor, format!("file=$1\n{script}\n")).unwrap();
        let mut command = self.store.command(&["edit", path]);
        command.env("VISUAL", format!("sh '{}'", editor.display())).env("TMPDIR", &self.temporary);
        command.env("tool", tool.get_program()).env("store", self.store.place.store());
        command
    }

    fn edit(&self, script: &str) -> (Option<i32>, String) {
        let (status, output, errors) = outcome(&mut self.command("a.md", script));
        (status, output + &errors)
    }

    fn text(&self) -> String {
        self.store.run(&["cat", "a.md"])
    }

    /// The texts of the kept files. Checks that only this user can read them.
    fn kept(&self) -> Vec<String> {
        let mut kept = Vec::new();
        for directory in names(&self.temporary) {
            assert_eq!(mode(&directory), 0o700);
            for file in names(&directory) {
                assert_eq!(mode(&file), 0o600);
                kept.push(String::from_utf8_lossy(&fs::read(&file).unwrap()).into_owned());
            }
        }
        fs::remove_dir_all(&self.temporary).unwrap();
        fs::create_dir(&self.temporary).unwrap();
        kept
    }
}

fn names(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_changed_text_is_saved_and_nothing_is_left() {
    for store in Store::all() {
        let edited = Edited::new(store);
        for (script, expected) in [
            ("echo two >> \"$file\"", "one\ntwo\n"),
            ("cd $(dirname $file); echo new > x; mv x $file; echo other > $file~; mkdir y", "new\n"),
            ("printf '' > \"$file\"", ""),
        ] {
            assert_eq!(edited.edit(script), (Some(0), "saved /memories/a.md\n".to_owned()), "{script}");
            assert_eq!((edited.text().as_str(), edited.kept().as_slice()), (expected, &[][..]));
        }
    }
}

#[test]
fn an_unchanged_text_is_not_saved() {
    let edited = Edited::local();
    for script in ["true", "echo one > \"$file\"", "rm \"$file\"", "echo x > \"$file~\""] {
        assert_eq!(edited.edit(script), (Some(0), "memory-tool: /memories/a.md is unchanged\n".to_owned()), "{script}");
        assert_eq!((edited.text().as_str(), edited.kept().as_slice()), ("one\n", &[][..]));
    }
}

#[test]
fn a_new_file_is_created_once_it_has_a_text() {
    let edited = Edited::local();
    let (status, output, errors) = outcome(&mut edited.command("d/new.md", "true"));
    assert_eq!(
        (status, output.as_str(), errors.as_str()),
        (Some(0), "", "memory-tool: /memories/d/new.md is unchanged\n")
    );
    assert_eq!(edited.store.run(&["ls"]), "a.md\n");
    assert_eq!(outcome(&mut edited.command("d/new.md", "echo x > \"$file\"")).0, Some(0));
    assert_eq!(edited.store.run(&["cat", "d/new.md"]), "x\n");
}

#[test]
fn the_editor_gets_a_private_file_with_a_plain_name() {
    let edited = Edited::local();
    let script =
        "d=$(dirname \"$file\"); m=$(ls -ld \"$file\" \"$d\" | cut -c1-10); echo \"${file##*/}\" $m > \"$file\"";
    for (path, name) in [
        ("notes.md", "memory-notes.md"),
        ("d/.dir-locals.el", "memory--dir-locals.el"),
        ("-rf; $(x).txt", "memory--rf----x-.txt"),
        ("é", "memory-é"),
    ] {
        let path = format!("./{path}");
        assert_eq!(outcome(&mut edited.command(&path, script)).0, Some(0), "{path}");
        assert_eq!(edited.store.run(&["cat", &path]), format!("{name} drwx------ -rw-------\n"));
    }
}

#[test]
fn a_failed_editor_changes_nothing_and_loses_nothing() {
    for store in Store::all() {
        let edited = Edited::new(store);
        for end in ["exit 3", "kill -9 $$", "kill $$"] {
            let (status, printed) = edited.edit(end);
            assert!(status == Some(1) && printed.starts_with("memory-tool: the editor failed ("), "{printed}");
            assert_eq!(edited.kept(), [""; 0]);
            let (status, printed) =
                edited.edit(&format!("echo mine > \"$file\"; echo x > \"$file~\"; chmod 666 \"$file\"; {end}"));
            assert!(status == Some(1) && printed.contains("\nmemory-tool: your text is in /"), "{printed}");
            assert_eq!((edited.kept(), edited.text().as_str()), (vec!["mine\n".to_owned()], "one\n"));
        }
    }
    let edited = Edited::local();
    let (status, printed) = edited.edit("rm \"$file\"; ln -s /etc/passwd \"$file\"");
    assert!(status == Some(2) && printed.contains("it is not a plain file"), "{printed}");
    assert_eq!((edited.kept().len(), edited.text().as_str()), (0, "one\n"));
}

#[test]
fn a_text_that_the_memory_refuses_is_kept() {
    let edited = Edited::local();
    for (script, options, error) in [
        ("printf 'a\\377' > \"$file\"", &[][..], "/memories/a.md is not UTF-8 text"),
        ("printf 'a\\0' > \"$file\"", &[], "/memories/a.md contains U+0000"),
        ("echo 123456 > \"$file\"", &["--max-file-bytes", "5"], "the limit is 5"),
        ("echo 123456 > \"$file\"", &["--read-only"], "read-only"),
    ] {
        let (status, _, errors) = outcome(edited.command("a.md", script).args(options));
        assert!(status == Some(1) && errors.contains(error) && errors.contains("your text is in"), "{errors}");
        assert_eq!((edited.kept().len(), edited.text().as_str()), (1, "one\n"));
    }
    for (path, content) in [("bytes", &b"\xff"[..]), ("nul", b"\0")] {
        fs::write(edited.store.place.file(path), content).unwrap();
        let (status, _, errors) = outcome(&mut edited.command(path, "echo started > \"$store/started\""));
        assert!(status == Some(1) && errors.contains(path), "{errors}");
    }
    assert!(!edited.store.place.store().join("started").exists());
    assert_eq!(outcome(&mut edited.command(".", "true")).2, "memory-tool: /memories is a directory, not a file\n");
}

/// Another program changes the file while the editor runs.
const RACE: &str =
    "\"$tool\" create a.md --text theirs --create-overwrites --store \"$store\" >&2; echo mine > \"$file\"";

#[test]
fn a_concurrent_change_is_kept_and_so_is_the_text() {
    let edited = Edited::local();
    let (status, printed) = edited.edit(RACE);
    let changed = "memory-tool: /memories/a.md was changed at the same time, so your text was not saved\n";
    assert!(status == Some(1) && printed.contains(changed), "{printed}");
    assert_eq!((edited.kept(), edited.text().as_str()), (vec!["mine\n".to_owned()], "theirs"));
    // The same change by both is no conflict.
    let same = RACE.replace("echo mine", "printf theirs");
    let (status, printed) = edited.edit(&same.replace("theirs", "same"));
    assert!(status == Some(0) && printed.starts_with("saved /memories/a.md\n"), "{printed}");
    assert_eq!((edited.kept().len(), edited.text().as_str()), (0, "same"));
}

#[test]
fn concurrent_changes_of_different_lines_are_merged() {
    let edited = Edited::local();
    edited.store.run(&["create", "a.md", "--text", "1\n2\n3\n4\n5\n", "--create-overwrites"]);
    let theirs = "\"$tool\" str_replace a.md --old-str 1 --new-str one --store \"$store\" >&2";
    let (status, printed) = edited.edit(&format!("{theirs}; sed -i s/5/five/ \"$file\""));
    let saved = "saved /memories/a.md, with the changes that were made at the same time\n";
    assert!(status == Some(0) && printed.starts_with(saved), "{printed}");
    assert_eq!((edited.kept().len(), edited.text().as_str()), (0, "one\n2\n3\n4\nfive\n"));
}

#[test]
fn a_person_chooses_after_a_concurrent_change() {
    let edited = Edited::local();
    let on_terminal = |script: &str, keys: &str| {
        edited.store.run(&["create", "a.md", "--text", "one\n", "--create-overwrites"]);
        let mut command = edited.command("a.md", script);
        typed_into(command.env("PAGER", "").env("NO_COLOR", "1"), keys)
    };
    let (status, shown) = on_terminal(RACE, "x\nd\no\n");
    assert_eq!(status, Some(0), "{shown}");
    let question = "/memories/a.md was changed at the same time: [d]iff, [o]verwrite, [e]dit theirs, [k]eep my text? ";
    assert_eq!(shown.matches(question).count(), 3, "{shown}");
    assert!(
        shown.contains("\n-theirs\n") && shown.contains("\n+mine\n") && shown.ends_with("saved /memories/a.md\n"),
        "{shown}"
    );
    assert_eq!((edited.kept().len(), edited.text().as_str()), (0, "mine\n"));
    for keys in ["k\n", "\n", "\u{4}"] {
        let (status, shown) = on_terminal(RACE, keys);
        assert!(
            status == Some(1) && shown.contains("memory-tool: nothing was saved\nmemory-tool: your text is in "),
            "{shown}"
        );
        assert_eq!((edited.kept(), edited.text().as_str()), (vec!["mine\n".to_owned()], "theirs"));
    }
    // The second time, the editor gets their text.
    let twice = format!("if grep -q theirs \"$file\"; then echo ' and mine' >> \"$file\"; else {RACE}; fi");
    let (status, shown) = on_terminal(&twice, "e\n");
    assert!(status == Some(0) && shown.ends_with("saved /memories/a.md\n"), "{shown}");
    assert_eq!((edited.kept(), edited.text().as_str()), (vec!["mine\n".to_owned()], "theirs and mine\n"));
    let removed = "\"$tool\" rm -f a.md --store \"$store\"; echo mine > \"$file\"";
    let (status, shown) = on_terminal(removed, "o\n");
    assert!(status == Some(0) && shown.contains("was removed at the same time"), "{shown}");
    assert_eq!((edited.kept().len(), edited.text().as_str()), (0, "mine\n"));
}

#[test]
fn no_text_of_concurrent_editors_is_lost() {
    const EDITORS: usize = 12;
    for store in Store::all() {
        let edited = Edited::new(store);
        let script = "echo \"$number\" >> \"$file\"";
        let mut commands: Vec<_> = (0..EDITORS).map(|_| edited.command("a.md", script)).collect();
        let start = |(number, command): (usize, &mut Command)| {
            let command = command.env("number", format!("by {number}"));
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        };
        let editors: Vec<_> = commands.iter_mut().enumerate().map(start).collect();
        let saved = editors.into_iter().filter_map(|mut editor| editor.wait().unwrap().success().then_some(())).count();
        let text = edited.text();
        let kept = edited.kept();
        assert_eq!((text.lines().count(), kept.len()), (1 + saved, EDITORS - saved), "{text}, {kept:?}");
        for number in 0..EDITORS {
            let line = format!("by {number}\n");
            assert!(text.contains(&line) || kept.iter().any(|text| text.ends_with(&line)), "{line}");
        }
    }
}

#[test]
fn signals_leave_no_file() {
    let edited = Edited::local();
    // The keyboard sends these to both programs, and the editor decides. It must not end before the signal arrives.
    let arrived = "while grep -q '^ShdPnd:.*[1-9a-f]' /proc/$PPID/status; do :; done";
    for signal in ["INT", "QUIT"] {
        let (status, printed) = edited.edit(&format!("kill -{signal} $PPID; {arrived}; echo {signal} > \"$file\""));
        assert_eq!((status, printed.as_str()), (Some(0), "saved /memories/a.md\n"));
        assert_eq!((edited.kept().len(), edited.text()), (0, format!("{signal}\n")));
    }
    for (signal, expected) in [("TERM", 143), ("HUP", 129)] {
        let (status, printed) = edited.edit(&format!("kill -{signal} $PPID; exec sleep 600"));
        assert_eq!((status, printed.as_str()), (Some(expected), "memory-tool: interrupted\n"));
        assert_eq!(edited.kept(), [""; 0]);
        let (status, printed) = edited.edit(&format!("echo mine > \"$file\"; kill -{signal} $PPID; exec sleep 600"));
        assert!(status == Some(expected) && printed.contains("memory-tool: your text is in "), "{printed}");
        assert_eq!(edited.kept(), ["mine\n"]);
    }
}

#[test]
fn the_files_of_a_killed_program_are_removed_later() {
    let edited = Edited::local();
    let (status, _) = edited.edit("echo secret > \"$file\"; kill -9 $PPID");
    assert_eq!((status, names(&edited.temporary).len()), (None, 1));
    // Directories that look similar, and an editor at work, are left.
    fs::create_dir(edited.temporary.join("memory-tool-edit-x")).unwrap();
    std::os::unix::fs::symlink(edited.store.place.store(), edited.temporary.join("memory-tool-edit-y")).unwrap();
    let nested = "unset tool_runs; VISUAL=true \"$tool\" edit a.md --store \"$store\"; echo mine > \"$file\"";
    let (status, printed) = edited.edit(nested);
    assert!(status == Some(0) && printed.contains("saved /memories/a.md"), "{printed}");
    let mut left = names(&edited.temporary);
    left.sort_unstable();
    assert_eq!(left, ["memory-tool-edit-x", "memory-tool-edit-y"].map(|name| edited.temporary.join(name)));
    assert!(edited.store.place.file("a.md").exists());
}

#[test]
fn the_editor_comes_from_the_environment() {
    let edited = Edited::local();
    let edit = |visual: &str, editor: &str| {
        let mut command = edited.command("a.md", "");
        outcome(command.env("VISUAL", visual).env("EDITOR", editor).env("PATH", "/usr/bin:/bin"))
    };
    assert_eq!(edit("", "sh -c 'echo \"by editor\" > \"$1\"' name").0, Some(0));
    assert_eq!(edited.text(), "by editor\n");
    let (status, _, errors) = edit("'", "true");
    assert_eq!((status, errors.as_str()), (Some(2), "memory-tool: VISUAL is not a command line\n"));
    let (status, _, errors) = edit("/no/such/editor", "true");
    assert!(
        status == Some(2) && errors.starts_with("memory-tool: cannot start the editor /no/such/editor: "),
        "{errors}"
    );
    assert_eq!(edited.kept(), [""; 0]);
    let (status, _, errors) = outcome(program().args(["edit", "a", "--store"]).arg(edited.store.place.outside("none")));
    assert!(status == Some(2) && errors.contains("there is no memory store"), "{errors}");
}
