//! Full disks, and files and disks without write access: each is a clear error and loses no data.
//!
//! The tests mount small file systems and run processes as another user, which needs root on Linux. Without root they
//! are ignored.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{TestDirectory, call, cause, read, write};
use libtest_mimic::Trial;
use memory_tool_core::{Batch, ErrorKind, Node, OpenOptions, Store as _, StoreError, StoreExt as _, StorePath};
use memory_tool_sqlite::{OpenFailure, SqliteStore};
use memory_tool_test_fixtures::faults::{Mount, block_on, trial};
use serde_json::json;
use tempfile::TempDir;

/// The database that an unprivileged process uses.
const UNPRIVILEGED: &str = "MEMORY_TOOL_TEST_UNPRIVILEGED";

/// The database that a process on a full btrfs uses.
const ON_FULL_BTRFS: &str = "MEMORY_TOOL_TEST_ON_FULL_BTRFS";

/// The database that an unprivileged process opens in read-only mode.
const UNPRIVILEGED_VIEW: &str = "MEMORY_TOOL_TEST_UNPRIVILEGED_VIEW";

const REFUSED: &str = "Error: The memory storage refused access. Nothing was changed.";

/// In a child process, which may run as another user: uses the database. Returns whether this is a child process.
pub(crate) fn run_child() -> bool {
    if let Some(database) = std::env::var_os(ON_FULL_BTRFS) {
        block_on(change_on_full_disk(Path::new(&database)));
        return true;
    }
    if let Some(database) = std::env::var_os(UNPRIVILEGED) {
        use_read_only_file(Path::new(&database));
        return true;
    }
    if let Some(database) = std::env::var_os(UNPRIVILEGED_VIEW) {
        block_on(assert_can_be_viewed(Path::new(&database)));
        return true;
    }
    false
}

pub(crate) fn trials() -> Vec<Trial> {
    let can_mount = Mount::new("size=64k").is_some();
    let can_be_nobody = unprivileged(Path::new("true")).status().is_ok_and(|status| status.success());
    let mount =
        |name: &str, test: fn()| trial(&format!("disks::{name}"), can_mount, "the right to mount a file system", test);
    let other_user = |name: &str, test: fn()| {
        trial(&format!("disks::{name}"), can_be_nobody, "the right to act as another user", test)
    };
    let bucket = trial(
        "disks::a_mount_of_a_bucket_is_refused",
        can_mount && Command::new("rclone").arg("version").output().is_ok(),
        "rclone, and the right to mount a file system",
        a_mount_of_a_bucket_is_refused,
    );
    let can_mount_btrfs = Btrfs::new().is_some();
    let btrfs = trial(
        "disks::a_full_btrfs_ends_no_process",
        can_mount_btrfs,
        "mkfs.btrfs, and the right to mount a file system",
        a_full_btrfs_ends_no_process,
    );
    vec![
        btrfs,
        bucket,
        mount("a_read_only_disk_refuses_changes", a_read_only_disk_refuses_changes),
        mount("a_mounted_file_is_refused", a_mounted_file_is_refused),
        other_user("a_read_only_file_can_be_read", a_read_only_file_can_be_read),
        other_user("a_database_without_write_access_can_be_viewed", a_database_without_write_access_can_be_viewed),
    ]
}

/// A small btrfs in a file, unmounted when dropped.
struct Btrfs(TempDir);

impl Btrfs {
    /// `None` without its programs, a kernel with btrfs, or the right to mount.
    fn new() -> Option<Self> {
        let directory = TempDir::new().unwrap();
        let image = directory.path().join("image");
        std::fs::File::create(&image).and_then(|image| image.set_len(120 << 20)).ok()?; // also under a limit
        let btrfs = Self(directory);
        std::fs::create_dir(btrfs.path()).ok()?;
        let run = |program: &str, words: &[&Path]| {
            Command::new(program).args(words).output().is_ok_and(|output| output.status.success())
        };
        let is_mounted = run("mkfs.btrfs", &[Path::new("-q"), &image])
            && run("mount", &[Path::new("-oloop"), &image, &btrfs.path()]);
        is_mounted.then_some(btrfs)
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("mount")
    }
}

impl Drop for Btrfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).output();
    }
}

/// The shared memory of SQLite is a mapped file. Writing to a page that needs a new block would end the process.
fn a_full_btrfs_ends_no_process() {
    let btrfs = Btrfs::new().unwrap();
    let program = std::env::current_exe().unwrap();
    let run = Command::new(program).env(ON_FULL_BTRFS, btrfs.path().join("memory.sqlite")).output().unwrap();
    assert!(run.status.success(), "{run:?}");
}

async fn change_on_full_disk(database: &Path) {
    let store = SqliteStore::open(database).await.unwrap();
    write(&store, "/memories/a", "text").await.unwrap();
    for size in [1 << 16, 512] {
        let mut file = std::fs::File::create(database.with_extension(size.to_string())).unwrap();
        while file.write_all(&vec![b'x'; size]).and_then(|()| file.sync_data()).is_ok() {}
    }
    for number in 0..20 {
        let path: StorePath = format!("/memories/{number}").parse().unwrap();
        let written = store.apply(Batch::new().write(path, "y".repeat(2_000))).await.map(|()| Node::Absent);
        for result in [written, store.read("/memories/a").await] {
            assert!(matches!(result, Ok(_) | Err(StoreError::Failure { kind: ErrorKind::Full, .. })), "{result:?}");
        }
    }
    std::fs::remove_file(database.with_extension("65536")).unwrap();
    write(&store, "/memories/b", "text").await.unwrap();
    assert_eq!(read(&store, "/memories/a").await.unwrap(), "text");
}

fn database(mount: &Mount) -> PathBuf {
    mount.path().join("memory.sqlite")
}

/// SQLite needs to write files beside the database, so only the read-only mode opens it.
fn a_read_only_disk_refuses_changes() {
    let mount = Mount::new("size=2m").unwrap();
    let is_refused = |failure: &OpenFailure| {
        matches!(failure, OpenFailure::ReadOnly { .. } | OpenFailure::Failed { kind: ErrorKind::AccessDenied, .. })
    };
    block_on(async {
        let store = SqliteStore::open(database(&mount)).await.unwrap();
        write(&store, "/memories/a.txt", "a").await.unwrap();
        drop(store);
    });
    mount.remount("ro");
    for name in ["memory.sqlite", "new.sqlite", "new/memory.sqlite"] {
        let refused = block_on(SqliteStore::open(mount.path().join(name))).unwrap_err();
        assert!(is_refused(cause(&refused)), "{refused:?}");
    }
    let database = database(&mount);
    block_on(async { assert_can_be_viewed(&database).await });
}

/// rclone acknowledges writes before it stores them.
fn a_mount_of_a_bucket_is_refused() {
    let [source, mounted] = [TestDirectory::new(), TestDirectory::new()];
    let mut rclone = Command::new("rclone");
    rclone.args(["mount", "--daemon", "--vfs-cache-mode", "writes", "--config", "/dev/null"]);
    assert!(rclone.arg(source.path()).arg(mounted.path()).status().unwrap().success());
    let opened = block_on(SqliteStore::open(mounted.path().join("new/memory.sqlite")));
    assert!(Command::new("umount").arg("--lazy").arg(mounted.path()).status().unwrap().success());
    let message = std::error::Error::source(cause(&opened.unwrap_err())).unwrap().to_string();
    assert!(message.contains("fuse.rclone may lose acknowledged writes"), "{message}");
    assert!(std::fs::read_dir(source.path()).unwrap().next().is_none());
}

/// As with `docker -v FILE`. The log would be beside the mount, where other programs do not look.
fn a_mounted_file_is_refused() {
    let directories = [TestDirectory::new(), TestDirectory::new()];
    let [database, mounted] = directories.each_ref().map(TestDirectory::database);
    block_on(async { write(&directories[0].open().await, "/memories/a.txt", "a").await.unwrap() });
    std::fs::write(&mounted, "").unwrap();
    let run = |program: &str, words: &[&Path]| assert!(Command::new(program).args(words).status().unwrap().success());
    run("mount", &[Path::new("--bind"), &database, &mounted]);
    let opened = block_on(SqliteStore::open(&mounted));
    block_on(assert_can_be_viewed(&mounted));
    run("umount", &[Path::new("--lazy"), &mounted]);
    let message = std::error::Error::source(cause(&opened.unwrap_err())).unwrap().to_string();
    assert!(message.ends_with("mount its directory") && message.contains("is a separate mount"), "{message}");
}

async fn assert_can_be_viewed(database: &Path) {
    let store = SqliteStore::builder(database).options(OpenOptions::new().read_only()).open().await.unwrap();
    assert_eq!(read(&store, "/memories/a.txt").await.unwrap(), "a");
    assert_eq!(store.verify(|_| {}).await.unwrap().problems, []);
    let create = json!({"command": "create", "path": "/memories/b.txt", "file_text": "b"});
    assert_eq!(call(&store, create).await, REFUSED);
}

/// With and without the `-wal` and `-shm` files, in a directory without write access.
fn a_database_without_write_access_can_be_viewed() {
    let directory = TestDirectory::new();
    let read_only = TestDirectory::new();
    let store = block_on(async {
        let store = directory.open().await;
        write(&store, "/memories/a.txt", "a").await.unwrap();
        store
    });
    for suffixes in [&["-wal", "-shm"][..], &["-wal"], &[]] {
        if suffixes.is_empty() {
            directory.connection().query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(())).unwrap();
        }
        for suffix in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(read_only.path().join(format!("memory.sqlite{suffix}")));
        }
        for suffix in suffixes.iter().chain(&[""]) {
            let file = format!("memory.sqlite{suffix}");
            std::fs::copy(directory.path().join(&file), read_only.path().join(&file)).unwrap();
            set_mode(&read_only.path().join(&file), 0o444);
        }
        set_mode(read_only.path(), 0o555);
        let mut test = unprivileged(&std::env::current_exe().unwrap());
        let test = test.env(UNPRIVILEGED_VIEW, read_only.database()).output().unwrap();
        assert!(test.status.success(), "{suffixes:?}: {}", String::from_utf8_lossy(&test.stderr));
        set_mode(read_only.path(), 0o755);
    }
    drop(store);
}

fn a_read_only_file_can_be_read() {
    let directory = TestDirectory::new();
    block_on(async { write(&directory.open().await, "/memories/a.txt", "a").await }).unwrap();
    set_mode(directory.path(), 0o777);
    set_mode(&directory.database(), 0o444);
    let mut test = unprivileged(&std::env::current_exe().unwrap());
    let test = test.env(UNPRIVILEGED, directory.database()).output().unwrap();
    assert!(test.status.success(), "{}", String::from_utf8_lossy(&test.stderr));
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[cfg(not(unix))]
fn set_mode(_: &Path, _: u32) {}

#[cfg(unix)]
fn unprivileged(program: &Path) -> Command {
    use std::os::unix::process::CommandExt as _;
    const NOBODY: u32 = 65_534;
    let mut command = Command::new(program);
    command.uid(NOBODY).gid(NOBODY);
    command
}

#[cfg(not(unix))]
fn unprivileged(_: &Path) -> Command {
    Command::new("")
}

fn use_read_only_file(database: &Path) {
    block_on(async {
        let store = SqliteStore::open(database).await.unwrap();
        assert_eq!(read(&store, "/memories/a.txt").await.unwrap(), "a");
        for input in [
            json!({"command": "create", "path": "/memories/b.txt", "file_text": "b"}),
            json!({"command": "insert", "path": "/memories/a.txt", "insert_line": 0, "insert_text": "b"}),
            json!({"command": "delete", "path": "/memories/a.txt"}),
            json!({"command": "rename", "old_path": "/memories/a.txt", "new_path": "/memories/c.txt"}),
        ] {
            assert_eq!(call(&store, input).await, REFUSED);
        }
        let Err(StoreError::Failure { source, .. }) = write(&store, "/memories/b.txt", "b").await else {
            panic!("a read-only file was written")
        };
        let message = "the database file or its directory is read-only for this program";
        assert_eq!(source.to_string(), message);
    });
}
