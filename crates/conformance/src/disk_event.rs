//! [`Event`]: the changes that a program makes to files and directories, from its recorded system calls.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use crate::strace::{Call, Reader, file_of, split_thread, text_of};

/// A recorded call that succeeded.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Event {
    /// The first write of a line to standard output.
    Response,
    /// A write, which also flushes if the file was opened like that.
    Write { path: PathBuf, data: String, is_synchronous: bool },
    /// A flush of one file or directory.
    Flush { path: PathBuf },
    /// A flush of everything.
    FlushAll,
    /// A file was created or opened. Only the first time is recorded.
    Create { path: PathBuf },
    /// A directory was created.
    Mkdir { path: PathBuf },
    /// A file or directory got another name.
    Rename { from: PathBuf, to: PathBuf },
    /// A file got a second name.
    Link { from: PathBuf, to: PathBuf },
    /// A file or directory lost a name.
    Unlink { path: PathBuf },
    /// A call that may have done anything of this.
    Unclear { call: String },
}

/// Reads the output of `strace -f -y`. Returns the calls that succeeded, in the order in which they ended. `output` is
/// the pipe to which the program responds.
pub(crate) fn events(recorded: &str, output: &str) -> Vec<Event> {
    Events::default().of(recorded, output)
}

#[derive(Default)]
struct Events {
    calls: Reader,
    /// The files that were opened with a flag by which each write flushes.
    synchronous: BTreeSet<PathBuf>,
    created: BTreeSet<PathBuf>,
    /// Whether the line of a response has begun and not ended. It may take several writes.
    is_responding: bool,
    working_directories: WorkingDirectories,
    /// The open files, by descriptor.
    open: BTreeMap<String, PathBuf>,
}

impl Events {
    fn of(mut self, recorded: &str, output: &str) -> Vec<Event> {
        let mut events = Vec::new();
        for line in recorded.lines() {
            let Some((_, text)) = split_thread(line) else { continue };
            if written_to_pipe(text) == Some(output) {
                if !self.is_responding {
                    events.push(Event::Response);
                }
                self.is_responding = !text.contains(r#"\n""#);
            } else if let Some(call) = self.calls.read(line) {
                let parent = self.calls.unfinished().find(|(_, call)| is_clone(call));
                self.working_directories.know(&call.thread, parent);
                events.extend(self.event(&call));
            }
        }
        events
    }

    fn event(&mut self, call: &Call) -> Option<Event> {
        if !call.succeeded() {
            return None;
        }
        if let Some(directory) = call.arguments.iter().find(|argument| argument.starts_with("AT_FDCWD<")) {
            self.working_directories.change(&call.thread, file_of(directory));
        }
        match call.name.as_str() {
            "open" | "creat" | "openat" | "openat2" => return self.opened(call),
            "chdir" => self.working_directories.change(&call.thread, self.path(call, 0)),
            "fchdir" => self.working_directories.change(&call.thread, call.file(0)),
            name if CLONES.contains(&name) => {
                self.working_directories.share(&call.thread, &call.result, call.has_flag("CLONE_FS"));
            }
            _ => {}
        }
        self.effect(call).map(|event| event.unwrap_or_else(|| Event::Unclear { call: call.name.clone() }))
    }

    /// The event of a call, if it has one. `Some(None)` means that it is unclear.
    fn effect(&self, call: &Call) -> Option<Option<Event>> {
        let (path, path_at) = (|place| self.path(call, place), |place| self.path_at(call, place));
        Some(match call.name.as_str() {
            "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" | "sendfile" | "ftruncate" => {
                Some(self.write(call.file(0)?, call.arguments.get(1..)?.join(" ")))
            }
            "copy_file_range" => Some(self.write(call.file(2)?, String::new())),
            "fsync" | "fdatasync" => Some(Event::Flush { path: call.file(0)? }),
            "sync" | "syncfs" => Some(Event::FlushAll),
            "msync" if call.has_flag("MS_SYNC") => Some(Event::FlushAll),
            "mkdir" => path(0).map(|path| Event::Mkdir { path }),
            "mkdirat" => path_at(0).map(|path| Event::Mkdir { path }),
            "rename" => path(0).zip(path(1)).map(|(from, to)| Event::Rename { from, to }),
            "renameat" | "renameat2" => path_at(0).zip(path_at(2)).map(|(from, to)| Event::Rename { from, to }),
            "link" => path(0).zip(path(1)).map(|(from, to)| Event::Link { from, to }),
            "linkat" => {
                let from = if call.has_flag("AT_EMPTY_PATH") { call.file(0) } else { path_at(0) };
                from.zip(path_at(2)).map(|(from, to)| Event::Link { from, to })
            }
            "unlink" | "rmdir" => path(0).map(|path| Event::Unlink { path }),
            "unlinkat" => path_at(0).map(|path| Event::Unlink { path }),
            "io_uring_enter" => None,
            _ => return None,
        })
    }

    fn write(&self, path: PathBuf, data: String) -> Event {
        let is_synchronous = self.synchronous.contains(&path);
        Event::Write { path, data, is_synchronous }
    }

    /// The descriptor that the call returned tells the file, even if its path has links.
    fn opened(&mut self, call: &Call) -> Option<Event> {
        let is_created = call.name == "creat" || call.has_flag("O_CREAT");
        let Some(path) = file_of(&call.result) else {
            return is_created.then(|| Event::Unclear { call: "open".to_owned() });
        };
        let descriptor = call.result.split('<').next().unwrap_or_default();
        self.open.insert(descriptor.to_owned(), path.clone());
        if ["O_SYNC", "O_DSYNC"].iter().any(|flag| call.has_flag(flag)) {
            self.synchronous.insert(path.clone());
        }
        (is_created && self.created.insert(path.clone())).then_some(Event::Create { path })
    }

    /// The path at this place among the arguments.
    fn path(&self, call: &Call, place: usize) -> Option<PathBuf> {
        self.path_in(self.working_directories.of(&call.thread), call.arguments.get(place)?)
    }

    /// The path after the descriptor of its directory, which is at this place among the arguments.
    fn path_at(&self, call: &Call, place: usize) -> Option<PathBuf> {
        self.path_in(call.file(place).as_deref(), call.arguments.get(place + 1)?)
    }

    /// The path of a quoted name in a directory. A relative one has no meaning without the directory.
    fn path_in(&self, directory: Option<&Path>, name: &str) -> Option<PathBuf> {
        let name = String::from_utf8_lossy(&text_of(name)?).into_owned();
        if let Some(descriptor) = name.strip_prefix("/proc/self/fd/") {
            return self.open.get(descriptor).cloned();
        }
        let name = Path::new(&name);
        let path = if name.is_absolute() { name.to_owned() } else { directory?.join(name) };
        let (Some(above), Some(last)) = (path.parent(), path.file_name()) else { return path.canonicalize().ok() };
        // Links above the name are followed, as far as they still exist.
        let real = above.ancestors().find_map(|known| Some((known.canonicalize().ok()?, known)));
        let (real, known) = real?;
        let rest = above.strip_prefix(known).unwrap_or(Path::new(""));
        let rest = rest.components().filter(|part| *part != Component::CurDir);
        (!rest.clone().any(|part| part == Component::ParentDir))
            .then(|| real.join(rest.collect::<PathBuf>()).join(last))
    }
}

/// The working directories of the threads of a program and its child processes.
#[derive(Default)]
struct WorkingDirectories {
    /// Threads of a process share one.
    of_threads: BTreeMap<String, usize>,
    paths: Vec<Option<PathBuf>>,
}

impl WorkingDirectories {
    /// Notes a thread. A new one may be recorded before the call that starts it completes.
    fn know(&mut self, thread: &str, unfinished: Option<(&str, &str)>) {
        if self.of_threads.contains_key(thread) {
            return;
        }
        if let Some((parent, call)) = unfinished {
            self.share(parent, thread, call.contains("CLONE_FS"));
        } else {
            self.of_threads.insert(thread.to_owned(), self.paths.len());
            self.paths.push(None);
        }
    }

    fn of(&self, thread: &str) -> Option<&Path> {
        self.paths.get(*self.of_threads.get(thread)?)?.as_deref()
    }

    fn change(&mut self, thread: &str, path: Option<PathBuf>) {
        if let Some(known) = self.of_threads.get(thread).and_then(|shared| self.paths.get_mut(*shared)) {
            *known = path;
        }
    }

    /// A call of a thread starts another one, which shares the working directory or gets a copy.
    fn share(&mut self, thread: &str, other: &str, is_shared: bool) {
        let Some(&shared) = self.of_threads.get(thread).filter(|_| !self.of_threads.contains_key(other)) else {
            return;
        };
        let own = self.paths.get(shared).cloned().flatten();
        let number = if is_shared { shared } else { self.paths.len() };
        if number == self.paths.len() {
            self.paths.push(own);
        }
        self.of_threads.insert(other.to_owned(), number);
    }
}

/// The calls that start a thread or process.
const CLONES: [&str; 4] = ["clone", "clone3", "fork", "vfork"];

fn is_clone(call: &str) -> bool {
    call.split_once('(').is_some_and(|(name, _)| CLONES.contains(&name))
}

/// The pipe to which a call writes, such as `pipe:[7]`.
fn written_to_pipe(call: &str) -> Option<&str> {
    let arguments = ["write(", "writev("].iter().find_map(|start| call.strip_prefix(start))?;
    let (_, file) = arguments.split_once('<')?;
    file.split_once('>').map(|(path, _)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(recorded: &[&str]) -> Vec<Event> {
        super::events(&recorded.join("\n"), "pipe:[7]")
    }

    #[test]
    fn responses_are_lines_to_the_output_of_the_program() {
        let found = events(&[
            r#"2 write(1<pipe:[8]>, "opened\n", 7) = 7"#,
            r#"1 write(5</d/a>, "text", 4) = 4"#,
            r#"1 write(1<pipe:[7]>, "{\"content\":", 11) = 11"#,
            r#"1 write(6<pipe:[7]>, "1}\n", 3) = 3"#,
            r#"1 fsync(5</d/a>) = 0"#,
            r#"1 write(6<pipe:[7]>, "{}\n", 3) = 3"#,
        ]);
        let other = Event::Write { path: "/d/a".into(), data: "\"text\" 4".to_owned(), is_synchronous: false };
        assert_eq!(found, [other, Event::Response, Event::Flush { path: "/d/a".into() }, Event::Response]);
    }

    #[test]
    fn relative_paths_are_in_the_directory_of_their_thread() {
        let found = events(&[
            r#"1 mkdir("unclear", 0777) = 0"#,
            r#"1 openat(AT_FDCWD</>, "x", O_RDONLY) = 3</x>"#,
            r#"1 chdir("dev") = 0"#,
            r#"1 mkdir("a", 0777) = 0"#,
            r#"1 clone(child_stack=NULL, flags=SIGCHLD <unfinished ...>"#,
            r#"2 chdir("..") = 0"#,
            r#"2 mkdir("b", 0777) = 0"#,
            r#"1 <... clone resumed>) = 2"#,
            r#"1 clone3({flags=CLONE_FS|CLONE_THREAD}, 88) = 3"#,
            r#"3 rename("a", "\303\251") = 0"#,
            r#"3 fchdir(5</>) = 0"#,
            r#"1 unlink("dev/./c") = 0"#,
            r#"1 rename("nowhere/../c", "d") = 0"#,
            r#"1 openat(4</dev>, "d", O_WRONLY|O_CREAT, 0600) = 5</elsewhere/d (deleted)>"#,
            r#"1 linkat(AT_FDCWD</dev>, "/proc/self/fd/5", 4</dev>, "e", AT_SYMLINK_FOLLOW) = 0"#,
            r#"1 io_uring_enter(3, 1, 1, 0, NULL, 8) = 1"#,
        ]);
        let unclear = |call: &str| Event::Unclear { call: call.to_owned() };
        assert_eq!(
            found,
            [
                unclear("mkdir"),
                Event::Mkdir { path: "/dev/a".into() },
                Event::Mkdir { path: "/b".into() },
                Event::Rename { from: "/dev/a".into(), to: "/dev/é".into() },
                Event::Unlink { path: "/dev/c".into() },
                unclear("rename"),
                Event::Create { path: "/elsewhere/d".into() },
                Event::Link { from: "/elsewhere/d".into(), to: "/dev/e".into() },
                unclear("io_uring_enter"),
            ]
        );
    }
}
