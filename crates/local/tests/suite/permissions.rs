//! Modes of new files, and files and directories of other users among the files of a store.
//!
//! The store is used by a child process with its own umask, or without privileges, since permissions do not apply to
//! root. Most tests create files of several users, which needs root. Without root they are ignored.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use libtest_mimic::Trial;
use memory_tool_core::{Batch, Engine, MemoryTool as _, Node, Store as _, StoreExt as _, StorePath};
use memory_tool_local::LocalStore;
use memory_tool_test_fixtures::faults::{block_on, trial};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::tree;

/// The commands of the child process, as a JSON array, and the base of its store.
const COMMANDS: &str = "MEMORY_TOOL_TEST_COMMANDS";
const BASE: &str = "MEMORY_TOOL_TEST_BASE";

/// The user and the group of the child process.
pub(crate) const USER: u32 = 65_534;
/// Another user, and a group that the user of the child process is not in.
const OTHER: u32 = 4_242;

const REFUSED: &str = "Error: The memory storage refused access. Nothing was changed.";

/// In a child process: prints the result of each command.
pub(crate) fn run_child() -> Option<ExitCode> {
    let (commands, base) = (std::env::var(COMMANDS).ok()?, std::env::var_os(BASE)?);
    let commands: Vec<Value> = serde_json::from_str(&commands).unwrap();
    let results: Vec<String> = block_on(async {
        let tool = Engine::new(LocalStore::open(Path::new(&base)).await.unwrap());
        let mut results = Vec::new();
        for command in commands {
            results.push(run(&tool, command).await);
        }
        results
    });
    println!("{}", serde_json::to_string(&results).unwrap());
    Some(ExitCode::SUCCESS)
}

/// Runs a command of the tool, or one of three others.
async fn run(tool: &Engine<LocalStore>, command: Value) -> String {
    let path = |text: &str| text.parse::<StorePath>().unwrap();
    let done = match command["command"].as_str().unwrap() {
        "verify" => {
            let report = tool.store().verify(|_| {}).await.unwrap();
            return report.problems.iter().map(|problem| format!("{problem}\n")).collect();
        }
        "clear" => tool.clear_all_memory().await,
        "delete in a batch" => {
            let batch =
                Batch::new().remove(path(command["path"].as_str().unwrap())).write(path("/memories/new"), "new");
            return tool
                .store()
                .apply(batch)
                .await
                .map_or_else(|error| format!("{:?}", error.kind()), |()| "done".into());
        }
        _ => tool.call(command).await,
    };
    done.map_or_else(|error| error.to_string(), |reply| reply.to_string())
}

pub(crate) fn trials() -> Vec<Trial> {
    let directory = TempDir::new().unwrap();
    let is_root = directory.path().metadata().unwrap().uid() == 0;
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let chattr =
        |change: &str| Command::new("chattr").arg(change).arg(&file).output().is_ok_and(|it| it.status.success());
    let has_attributes = is_root && chattr("+i") && chattr("-i");
    let has_lists = is_root && set_access_list(&file);
    let trial =
        |name: &str, can_run, need: &str, test: fn()| trial(&format!("permissions::{name}"), can_run, need, test);
    vec![
        trial("new_files_are_private_under_any_umask", true, "", new_files_are_private_under_any_umask),
        trial("a_deletion_is_complete_or_refused", is_root, "root", a_deletion_is_complete_or_refused),
        trial(
            "immutable_files_are_not_deleted",
            has_attributes,
            "the right to use chattr",
            immutable_files_are_not_deleted,
        ),
        trial(
            "a_batch_that_cannot_be_undone_blocks_only_changes",
            has_attributes,
            "the right to use chattr",
            a_batch_that_cannot_be_undone_blocks_only_changes,
        ),
        trial("a_users_own_mode_prevents_no_deletion", is_root, "root", a_users_own_mode_prevents_no_deletion),
        trial("leftovers_are_reported_and_removed", is_root, "root", leftovers_are_reported_and_removed),
        trial("v1_unreadable_directories_are_counted", is_root, "root", unreadable_directories_are_counted),
        trial("a_base_of_root_is_trusted", is_root, "root", a_base_of_root_is_trusted),
        trial("an_edit_keeps_owner_and_group", is_root, "root", an_edit_keeps_owner_and_group),
        trial("an_edit_keeps_the_access_list", has_lists, "root, access control lists", an_edit_keeps_the_access_list),
    ]
}

/// A store of the unprivileged user.
struct Shared(TempDir);

impl Shared {
    fn new() -> Self {
        let shared = Self(TempDir::new().unwrap());
        fs::set_permissions(shared.0.path(), Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(shared.base()).unwrap();
        chown(shared.base(), Some(USER), Some(USER)).unwrap();
        // The unprivileged user may not reach the build directory.
        let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(shared.program()).status().unwrap();
        assert!(copied.success());
        shared.run([json!({"command": "create", "path": "/memories/d/a", "file_text": "secret"})]);
        shared
    }

    fn program(&self) -> PathBuf {
        self.0.path().join("program")
    }

    fn base(&self) -> PathBuf {
        self.0.path().join("base")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.base().join("memories").join(name)
    }

    fn staged(&self) -> Vec<(PathBuf, Option<Vec<u8>>)> {
        tree(&self.base().join(".memory-tool/staging"))
    }

    /// Creates a directory with a file, both of another user.
    fn add_directory(&self, name: &str, mode: u32) {
        fs::create_dir(self.file(name)).unwrap();
        fs::write(self.file(name).join("theirs"), "theirs").unwrap();
        chown(self.file(name).join("theirs"), Some(OTHER), Some(OTHER)).unwrap();
        self.set(name, OTHER, mode);
    }

    fn set(&self, name: &str, owner: u32, mode: u32) {
        chown(self.file(name), Some(owner), Some(owner)).unwrap();
        fs::set_permissions(self.file(name), Permissions::from_mode(mode)).unwrap();
    }

    /// The results of commands of the unprivileged user.
    fn run(&self, commands: impl IntoIterator<Item = Value>) -> Vec<String> {
        results_of(Command::new(self.program()).uid(USER).gid(USER), &self.base(), commands)
    }

    fn deletions_are_refused(&self) {
        let before = tree(&self.base().join("memories"));
        let results = self.run([
            json!({"command": "delete", "path": "/memories/d"}),
            json!({"command": "clear"}),
            json!({"command": "delete in a batch", "path": "/memories/d"}),
            json!({"command": "verify"}),
        ]);
        assert_eq!(results[..3], [REFUSED, REFUSED, "AccessDenied"]);
        assert!(!results[3].contains("staging"), "{}", results[3]);
        assert_eq!(tree(&self.base().join("memories")), before);
        assert_eq!(self.staged(), []);
    }
}

/// The results of commands of a child process.
fn results_of(child: &mut Command, base: &Path, commands: impl IntoIterator<Item = Value>) -> Vec<String> {
    let output = child.env(COMMANDS, Value::from_iter(commands).to_string()).env(BASE, base).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn new_files_are_private_under_any_umask() {
    for mask in ["000", "022", "177", "777"] {
        let directory = TempDir::new().unwrap();
        let mut child = Command::new("sh");
        child.args(["-c", "umask $1 && exec $0"]).arg(std::env::current_exe().unwrap()).arg(mask);
        let results = results_of(
            &mut child,
            &directory.path().join("made/on/the/way"),
            [
                json!({"command": "create", "path": "/memories/a/b/c.txt", "file_text": "x"}),
                json!({"command": "insert", "path": "/memories/a/b/c.txt", "insert_line": 0, "insert_text": "y"}),
                json!({"command": "rename", "old_path": "/memories/a/b/c.txt", "new_path": "/memories/d/e/f.txt"}),
            ],
        );
        assert!(results[2].starts_with("Successfully renamed"), "{results:?}");
        let found = tree(directory.path());
        assert!(found.len() > 9, "{found:?}");
        for (path, content) in found {
            let mode = fs::metadata(directory.path().join(&path)).unwrap().permissions().mode() & 0o7777;
            let expected = if content.is_some() { 0o600 } else { 0o700 };
            assert_eq!(mode, expected, "{} under umask {mask}: {mode:03o}", path.display());
        }
    }
}

fn a_deletion_is_complete_or_refused() {
    for mode in [0o755, 0o700, 0o1777] {
        let shared = Shared::new();
        shared.add_directory("d/theirs", mode);
        shared.deletions_are_refused();
        // An empty directory of another user can be removed.
        fs::remove_file(shared.file("d/theirs/theirs")).unwrap();
        if mode != 0o700 {
            let deleted = shared.run([json!({"command": "delete", "path": "/memories/d"})]);
            assert_eq!((deleted[0].as_str(), shared.staged()), ("Successfully deleted /memories/d", vec![]));
        }
    }
    let shared = Shared::new();
    shared.add_directory("d/theirs", 0o777);
    let deleted = shared.run([json!({"command": "delete", "path": "/memories/d"})]);
    assert_eq!((deleted[0].as_str(), shared.staged()), ("Successfully deleted /memories/d", vec![]));
}

fn immutable_files_are_not_deleted() {
    let shared = Shared::new();
    shared.run([json!({"command": "create", "path": "/memories/d/e/b", "file_text": "b"})]);
    for name in ["d/a", "d/e/b", "d/e"] {
        for attribute in ["i", "a"] {
            let change = |sign: &str| {
                let status = Command::new("chattr").arg(format!("{sign}{attribute}")).arg(shared.file(name)).status();
                assert!(status.unwrap().success());
            };
            change("+");
            let refused = std::panic::catch_unwind(|| shared.deletions_are_refused());
            change("-"); // for the cleanup
            refused.unwrap();
        }
    }
}

/// A file can be created in an append-only directory, but not moved back.
fn a_batch_that_cannot_be_undone_blocks_only_changes() {
    let directory = TempDir::new().unwrap();
    let memories = directory.path().join("memories");
    let change = |attribute: &str, name: &str| {
        assert!(Command::new("chattr").arg(attribute).arg(memories.join(name)).status().unwrap().success());
    };
    let path = |text: &str| text.parse::<StorePath>().unwrap();
    let write = |names: &[&str]| {
        let paths = names.iter().map(|name| path(&format!("/memories/{name}")));
        paths.fold(Batch::new(), |batch, path| batch.write(path, "new"))
    };
    let used = std::panic::catch_unwind(|| {
        block_on(async {
            let store = LocalStore::open(directory.path()).await.unwrap();
            store.apply(write(&["d/a", "k"])).await.unwrap();
            change("+a", "d");
            change("+i", "k");
            store.apply(write(&["d/b", "k"])).await.unwrap_err();
            store.apply(write(&["c"])).await.unwrap_err();
            assert!(matches!(store.read(&path("/memories/d/a")).await.unwrap(), Node::File(_)));
            let problems = store.verify(|_| {}).await.unwrap().problems;
            let step = "at the write of /memories/d/b (undoing a change failed: Operation not permitted (os error 1))";
            assert!(problems.len() == 1 && problems[0].message.contains(step), "{problems:?}");
        });
    });
    change("-a", "d");
    change("-i", "k");
    used.unwrap();
    block_on(async {
        let store = LocalStore::open(directory.path()).await.unwrap();
        store.apply(write(&["c"])).await.unwrap();
        assert_eq!(store.verify(|_| {}).await.unwrap().problems, []);
    });
}

fn a_users_own_mode_prevents_no_deletion() {
    let shared = Shared::new();
    for (name, mode) in [("d/none", 0o000), ("d/write", 0o300), ("d/list", 0o400), ("d/read", 0o500)] {
        fs::create_dir(shared.file(name)).unwrap();
        fs::write(shared.file(name).join("file"), "x").unwrap();
        shared.set(name, USER, mode);
    }
    // A refusal changes no mode.
    shared.add_directory("d/theirs", 0o755);
    shared.deletions_are_refused();
    for (name, mode) in [("d/none", 0o000), ("d/write", 0o300), ("d/list", 0o400), ("d/read", 0o500)] {
        assert_eq!(fs::metadata(shared.file(name)).unwrap().mode() & 0o7777, mode, "{name}");
    }
    fs::remove_dir_all(shared.file("d/theirs")).unwrap();
    let deleted = shared.run([json!({"command": "delete", "path": "/memories/d"})]);
    assert_eq!((deleted[0].as_str(), shared.staged()), ("Successfully deleted /memories/d", vec![]));
}

/// As after a check that another program made wrong.
fn leftovers_are_reported_and_removed() {
    let shared = Shared::new();
    let left = shared.base().join(".memory-tool/staging/0123456789abcdef");
    fs::create_dir_all(left.join("theirs")).unwrap();
    for name in ["a", "theirs/b"] {
        fs::write(left.join(name), "secret").unwrap();
    }
    chown(&left, Some(USER), Some(USER)).unwrap();
    let change = || json!({"command": "create", "path": "/memories/new", "file_text": "new"});
    // The file of this user is removed. The other one is reported.
    let results = shared.run([json!({"command": "verify"}), change(), json!({"command": "verify"})]);
    for problems in [&results[0], &results[2]] {
        assert_eq!(problems.lines().count(), 1, "{problems}");
        assert!(problems.contains("is left of a deletion or a failed write"), "{problems}");
    }
    assert!(results[1].starts_with("File created"));
    assert_eq!(shared.staged().iter().filter(|(_, content)| content.is_some()).count(), 1);
    for (name, _) in shared.staged() {
        chown(shared.base().join(".memory-tool/staging").join(name), Some(USER), Some(USER)).unwrap();
    }
    // The next opening removes it.
    assert_eq!(shared.run([]), Vec::<String>::new());
    assert_eq!(shared.staged(), []);
    assert_eq!(shared.run([json!({"command": "verify"})]), [""]);
}

/// `[V1]`: each directory without the right to list it or to look names up.
fn unreadable_directories_are_counted() {
    let shared = Shared::new();
    let limited = [("d/none", 0o000), ("d/write", 0o300), ("d/list", 0o400), ("e/only", 0o000), ("d/.hidden", 0o000)];
    for (name, mode) in limited {
        fs::create_dir_all(shared.file(name).join("nested")).unwrap();
        fs::write(shared.file(name).join("file"), "x").unwrap();
        fs::write(shared.file(name).join("nested/file"), "x").unwrap();
        shared.set(name, USER, mode);
    }
    shared.add_directory("theirs", 0o700);
    let view = |path: &str| json!({"command": "view", "path": path});
    let results = shared.run([
        view("/memories"),
        view("/memories/d"),
        view("/memories/e"),
        view("/memories/d/none"),
        json!({"command": "verify"}),
    ]);
    assert!(
        results[0].ends_with("\n6B\t/memories/d/a\n[5 items could not be listed: 5 unreadable.]"),
        "{}",
        results[0]
    );
    assert!(
        results[1].ends_with("\n6B\t/memories/d/a\n[3 items could not be listed: 3 unreadable.]"),
        "{}",
        results[1]
    );
    assert!(results[2].ends_with("\n0B\t/memories/e\n[1 items could not be listed: 1 unreadable.]"), "{}", results[2]);
    assert_eq!(results[3], REFUSED);
    for name in ["d/none", "d/write", "d/list", "e/only", "d/.hidden", "theirs"] {
        let problem = format!("/memories/{name} cannot be listed: it cannot be read\n");
        assert!(results[4].contains(&problem), "{name}: {}", results[4]);
    }
    assert_eq!(results[4].lines().count(), 6, "{}", results[4]);
}

/// Root can do everything.
fn a_base_of_root_is_trusted() {
    let shared = Shared::new();
    chown(shared.base(), Some(0), Some(0)).unwrap();
    let view = shared.run([json!({"command": "view", "path": "/memories/d/a"})]);
    assert!(view[0].ends_with("\tsecret"), "{view:?}");
}

fn an_edit_keeps_owner_and_group() {
    let insert = || json!({"command": "insert", "path": "/memories/d/a", "insert_line": 0, "insert_text": "new"});
    let found = |shared: &Shared| {
        let found = fs::metadata(shared.file("d/a")).unwrap();
        (found.uid(), found.gid(), found.mode() & 0o7777)
    };
    // The user has another group, and must not give it the rights of the old one.
    for (before, after) in [(0o664, 0o604), (0o646, 0o606), (0o604, 0o604)] {
        let shared = Shared::new();
        shared.set("d/a", OTHER, before);
        assert!(shared.run([insert()])[0].ends_with("has been edited."));
        assert_eq!(found(&shared), (USER, USER, after), "{before:o}");
    }
    // Root keeps the owner.
    let shared = Shared::new();
    shared.set("d/a", OTHER, 0o664);
    let store = block_on(LocalStore::builder(shared.base()).trust_other_users().open()).unwrap();
    block_on(Engine::new(store).call(insert())).unwrap();
    assert_eq!(found(&shared), (OTHER, OTHER, 0o664));
}

const ACCESS_LIST: &str = "system.posix_acl_access";

/// Lets another user read and write a file, but not its group. Returns whether the file system supports this.
fn set_access_list(file: &Path) -> bool {
    let entries: [(u16, u16, u32); 5] =
        [(1, 6, u32::MAX), (2, 6, OTHER), (4, 0, u32::MAX), (16, 6, u32::MAX), (32, 0, u32::MAX)];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, user) in entries {
        list.extend([tag.to_le_bytes(), rights.to_le_bytes()].concat());
        list.extend(user.to_le_bytes());
    }
    rustix::fs::setxattr(file, ACCESS_LIST, &list, rustix::fs::XattrFlags::empty()).is_ok()
}

/// The rights of the group in the mode are then those of the list.
fn an_edit_keeps_the_access_list() {
    let shared = Shared::new();
    assert!(set_access_list(&shared.file("d/a")));
    let read = || {
        let mut list = [0; 256];
        let length = rustix::fs::getxattr(shared.file("d/a"), ACCESS_LIST, &mut list).unwrap();
        list[..length].to_vec()
    };
    let before = read();
    shared.run([json!({"command": "insert", "path": "/memories/d/a", "insert_line": 0, "insert_text": "new"})]);
    assert_eq!(read(), before);
    assert_eq!(fs::metadata(shared.file("d/a")).unwrap().mode() & 0o7777, 0o660);
}
