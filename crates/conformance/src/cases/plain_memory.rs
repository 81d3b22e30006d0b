//! [`PlainMemory`]: a memory of plain files, as other programs see it on the disk.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use tempfile::TempDir;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::disk::{entries_under, on_disk, read_file, write_file};
use crate::failure::{CaseError, Failure, check, excerpt, expect_none_of, expect_text};
use crate::session::{Answer, Client, create, delete, insert, rename, str_replace, view};
use crate::target::Target;

/// A text in the contents and the path of the files outside the memory. No reply may contain it.
pub(super) const SECRET: &str = "not-for-the-model";

/// The items under a directory, by relative path.
pub(super) type Tree = BTreeMap<PathBuf, Item>;

#[derive(Debug, Eq, PartialEq)]
pub(super) enum Item {
    Directory,
    File(Vec<u8>),
    Link(PathBuf),
    /// A pipe, socket or device, for example.
    Special,
}

pub(super) fn tree_of(directory: &Path) -> io::Result<Tree> {
    let mut tree = Tree::new();
    for (path, file_type) in entries_under(directory)? {
        let item = if file_type.is_dir() {
            Item::Directory
        } else if file_type.is_file() {
            Item::File(fs::read(&path)?)
        } else if file_type.is_symlink() {
            Item::Link(fs::read_link(&path)?)
        } else {
            Item::Special
        };
        tree.insert(path.strip_prefix(directory).unwrap_or(&path).to_owned(), item);
    }
    Ok(tree)
}

/// Fails with the first path that differs.
pub(super) fn expect_tree(expected: &Tree, found: &Tree) -> Result<(), CaseError> {
    let mut paths = expected.keys().chain(found.keys());
    match paths.find(|path| expected.get(*path) != found.get(*path)) {
        Some(path) => {
            let (expected, found) = (describe(expected.get(path)), describe(found.get(path)));
            Err(Failure::new(format!("on the disk, expected {path:?} to be {expected}, got {found}")).into())
        }
        None => Ok(()),
    }
}

fn describe(item: Option<&Item>) -> String {
    match item {
        None => "nothing".to_owned(),
        Some(Item::Directory) => "a directory".to_owned(),
        Some(Item::File(content)) => format!("a file of {:?}", excerpt(&String::from_utf8_lossy(content), 0)),
        Some(Item::Link(target)) => format!("a link to {}", target.display()),
        Some(Item::Special) => "a special file".to_owned(),
    }
}

/// A memory of plain files, and a directory next to it that no command may reach.
pub(super) struct PlainMemory {
    pub(super) client: Client,
    /// The directory that is `/memories`.
    pub(super) memories: PathBuf,
    pub(super) outside: TempDir,
}

impl PlainMemory {
    pub(super) async fn of(target: &Target) -> Result<Self, CaseError> {
        let client = target.client();
        let memories = target.plain_files()?;
        client.view("/memories").await?.text(false)?; // the backend has created its files
        let directory = memories.clone();
        let outside = on_disk("make a directory next to the memory", move || {
            fs::create_dir_all(&directory)?;
            let beside = directory.parent().unwrap_or(&directory);
            let outside = tempfile::Builder::new().prefix(SECRET).tempdir_in(beside)?;
            fs::create_dir(outside.path().join("directory"))?;
            fs::write(outside.path().join("directory/secret.txt"), SECRET)?;
            fs::write(outside.path().join("secret.txt"), SECRET)?;
            Ok(outside)
        });
        Ok(Self { outside: outside.await?, client, memories })
    }

    /// The path of a file of the memory on the disk.
    pub(super) fn file(&self, path: &str) -> PathBuf {
        self.memories.join(path.strip_prefix("/memories").unwrap_or(path).trim_start_matches('/'))
    }

    pub(super) fn outside(&self, name: &str) -> PathBuf {
        self.outside.path().join(name)
    }

    /// Writes a file of the memory as another program would.
    pub(super) async fn write(&self, path: &str, content: impl Into<Vec<u8>>) -> Result<(), CaseError> {
        write_file(path, self.file(path), content.into()).await
    }

    pub(super) async fn read(&self, path: &str) -> Result<Vec<u8>, CaseError> {
        read_file(path, self.file(path)).await
    }

    /// Puts a symbolic link into the memory.
    pub(super) async fn link(&self, path: &str, target: impl Into<PathBuf>) -> Result<(), CaseError> {
        let (link, target) = (self.file(path), target.into());
        on_disk(format!("make a link at {path}"), move || {
            link.parent().map_or(Ok(()), fs::create_dir_all)?;
            system::link(&target, &link)
        })
        .await
    }

    pub(super) async fn make_directory(&self, path: &str) -> Result<(), CaseError> {
        let directory = self.file(path);
        on_disk(format!("make the directory {path}"), move || fs::create_dir_all(directory)).await
    }

    pub(super) async fn make_pipe(&self, path: &str) -> Result<(), CaseError> {
        let pipe = self.file(path);
        let made = on_disk(format!("make a pipe at {path}"), move || system::run("mkfifo", &pipe, &[])).await?;
        check(made, || "another program cannot make a pipe: mkfifo fails".to_owned())
    }

    /// The memory and the directory next to it, as they are on the disk.
    pub(super) async fn trees(&self) -> Result<(Tree, Tree), CaseError> {
        let (memories, outside) = (self.memories.clone(), self.outside.path().to_owned());
        on_disk("read the files", move || Ok((tree_of(&memories)?, tree_of(&outside)?))).await
    }

    pub(super) async fn expect_trees(&self, (memories, outside): &(Tree, Tree)) -> Result<(), CaseError> {
        let (found_memories, found_outside) = self.trees().await?;
        expect_tree(outside, &found_outside).map_err(|stop| stop.in_step("checking the files outside the memory"))?;
        expect_tree(memories, &found_memories)
    }

    /// Sends a command, and checks that the reply contains nothing from outside the memory.
    pub(super) async fn send(&self, command: Value) -> Result<Answer, CaseError> {
        let answer = self.client.send(command).await?;
        answer.judge(expect_none_of(&[SECRET.to_owned()], &answer.result.to_string()))?;
        Ok(answer)
    }

    /// Checks that every command refuses each of the paths under `/memories`, and that nothing changes on the disk.
    pub(super) async fn expect_refused(&self, paths: &str) -> Result<(), CaseError> {
        self.client.must_create("/memories/existing.txt", "text").await?;
        let before = self.trees().await?;
        let mut refused = Ok(());
        for path in paths.split(' ') {
            for command in every_command_on(&format!("/memories/{path}")) {
                refused = refused.and(self.send(command).await?.text(true).map(drop));
            }
        }
        // Report a changed file rather than a wrong reply.
        self.expect_trees(&before).await?;
        refused
    }

    /// Checks the paths of a listing.
    pub(super) async fn expect_listed(&self, path: &str, expected: &[&str]) -> Result<(), CaseError> {
        self.expect_listed_beside(path, expected, 0).await
    }

    /// Checks the paths of a listing, and the line that counts unlisted items, whose reasons can be in any words.
    pub(super) async fn expect_listed_beside(
        &self,
        path: &str,
        expected: &[&str],
        unlisted: usize,
    ) -> Result<(), CaseError> {
        let answer = self.send(view(path)).await?;
        let items = answer.text(false)?.split('\n').skip(1); // the header
        let shown: Vec<_> = items
            .map(|item| match (item.split_once('\t'), item.split_once(" could not be listed: ")) {
                (Some((_, path)), _) => path,
                (None, Some((count, reasons))) if reasons.ends_with(".]") => count,
                (None, _) => item,
            })
            .collect();
        let count = format!("[{unlisted} items");
        let expected = expected.iter().copied().chain((unlisted > 0).then_some(count.as_str()));
        answer.judge(expect_text(&expected.collect::<Vec<_>>().join("\n"), &shown.join("\n")))
    }

    /// Checks that the path does not exist for any command.
    pub(super) async fn expect_nothing(&self, path: &str) -> Result<(), CaseError> {
        let missing = "does not exist";
        self.client.view(path).await?.error_with(missing)?;
        self.client.delete(path).await?.error_with(missing)?;
        self.client.rename(path, "/memories/renamed").await?.error_with(missing)
    }

    pub(super) async fn mode(&self, path: &str) -> Result<u32, CaseError> {
        let file = self.file(path);
        on_disk(format!("read the mode of {path}"), move || system::mode(&file)).await
    }
}

/// Each of the six commands with this path, `rename` at either end. `/memories/existing.txt` must exist.
pub(super) fn every_command_on(path: &str) -> [Value; 7] {
    [
        view(path),
        create(path, "text"),
        str_replace(path, "for", "FOR"),
        insert(path, 0, "text"),
        rename(path, "/memories/renamed"),
        rename("/memories/existing.txt", path),
        delete(path),
    ]
}

/// Swaps two names continuously on a separate thread until it is dropped.
pub(super) struct Swapper {
    is_over: Arc<AtomicBool>,
    swapping: JoinHandle<io::Result<()>>,
}

impl Swapper {
    pub(super) fn start(one: PathBuf, other: PathBuf) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let swapping = spawn_blocking({
            let is_over = Arc::clone(&is_over);
            move || {
                let mut swaps = 0;
                // At least two swaps, even if the thread starts late. An even number leaves each at its original path.
                while swaps < 2 || swaps % 2 == 1 || !is_over.load(Ordering::Relaxed) {
                    system::exchange(&one, &other)?;
                    swaps += 1;
                }
                Ok(())
            }
        });
        Self { is_over, swapping }
    }

    pub(super) async fn stop(mut self) -> Result<(), CaseError> {
        self.is_over.store(true, Ordering::Relaxed);
        let swapped = (&mut self.swapping).await;
        on_disk("swap a directory for a link", || swapped.unwrap_or_else(|error| Err(io::Error::other(error)))).await
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Operations that not every platform has.
#[cfg(unix)]
pub(super) mod system {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixListener;
    use std::process::{Command, Stdio};

    use super::*;

    pub(crate) fn link(target: &Path, link: &Path) -> io::Result<()> {
        std::os::unix::fs::symlink(target, link)
    }

    pub(crate) fn listen(socket: &Path) -> io::Result<UnixListener> {
        UnixListener::bind(socket)
    }

    /// Runs a program that creates a file, and returns whether it succeeded.
    pub(crate) fn run(program: &str, file: &Path, arguments: &[&str]) -> io::Result<bool> {
        let mut command = Command::new(program);
        let command =
            command.arg(file).args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(command.status()?.success())
    }

    pub(crate) fn mode(file: &Path) -> io::Result<u32> {
        Ok(fs::symlink_metadata(file)?.permissions().mode() & 0o7777)
    }

    pub(crate) fn set_mode(file: &Path, mode: u32) -> io::Result<()> {
        fs::set_permissions(file, fs::Permissions::from_mode(mode))
    }

    /// A file name of these bytes, which may be invalid UTF-8.
    pub(crate) fn name(bytes: &[u8]) -> io::Result<&OsStr> {
        Ok(OsStr::from_bytes(bytes))
    }

    /// Swaps two names in one step.
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    pub(crate) fn exchange(one: &Path, other: &Path) -> io::Result<()> {
        use rustix::fs::{CWD, RenameFlags, renameat_with};

        Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
    }

    #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
    pub(crate) fn exchange(_: &Path, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(not(unix))]
pub(super) mod system {
    use std::ffi::OsStr;

    use super::*;

    macro_rules! unsupported {
        ($($operation:ident($($argument:ty),+) -> $result:ty;)+) => {
            $(pub(crate) fn $operation($(_: $argument),+) -> io::Result<$result> {
                Err(io::ErrorKind::Unsupported.into())
            })+
        };
    }

    unsupported! {
        link(&Path, &Path) -> ();
        listen(&Path) -> ();
        run(&str, &Path, &[&str]) -> bool;
        mode(&Path) -> u32;
        set_mode(&Path, u32) -> ();
        name(&[u8]) -> &OsStr;
        exchange(&Path, &Path) -> ();
    }
}
