//! [`Sandbox`]: full, read-only and failing disks, and other conditions to run a program under.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use crate::case::Capability;
use crate::failure::CaseError;

/// Runs the command that follows in a private mount namespace.
const MOUNTS_OF_ITS_OWN: [&str; 6] = ["unshare", "--user", "--map-root-user", "--mount", "--propagation", "private"];

/// The system calls by which a change reaches the disk. `write` is not among them, because the program also responds
/// with it. The question mark marks calls that not every machine has.
pub(crate) const CALLS: &str = "fsync,fdatasync,ftruncate,fallocate,pwrite64,pwritev,linkat,mkdirat,renameat,\
                                renameat2,unlinkat,?link,?mkdir,?rename,?unlink";

/// The system calls between which a program may be in the middle of a change.
pub(crate) const CALLS_TO_SIGNAL: &str = "write,writev,fsync,fdatasync,ftruncate,fallocate,pwrite64,pwritev,linkat,\
                                          mkdirat,renameat,renameat2,unlinkat,openat,?open,?link,?mkdir,?rename,?rmdir,\
                                          ?unlink";

/// The system calls by which a program writes, flushes and names files, and by which it changes the meaning of relative
/// paths.
const RECORDED_CALLS: &str = "write,writev,pwrite64,pwritev,?pwritev2,?copy_file_range,?sendfile,ftruncate,fsync,\
                              fdatasync,sync,syncfs,msync,?open,?creat,openat,?openat2,?rename,renameat,renameat2,\
                              ?link,linkat,?unlink,unlinkat,?rmdir,?mkdir,mkdirat,chdir,fchdir,?fork,?vfork,clone,\
                              ?clone3,?io_uring_enter";

/// How much of a write is recorded.
const RECORDED_BYTES: &str = "1048576";

/// Adverse conditions for a program.
pub(crate) enum Sandbox {
    /// New files are readable and writable by everyone, unless the program sets their modes.
    OpenUmask,
    /// No file may grow beyond 128 KiB.
    SmallFiles,
    /// The program may have this many files open.
    FewDescriptors(usize),
    /// The directory is an empty disk of 1 MiB.
    SmallDisk(PathBuf),
    ReadOnly(PathBuf),
    /// These calls are recorded.
    Traced(Trace, &'static str),
    /// The calls by which files are written, flushed and named are recorded, with their arguments.
    Recorded(Trace),
    FailingCall(Call, Trace),
    /// The program gets a signal before it makes a call.
    Signal(&'static str, Call, Trace),
}

impl Sandbox {
    /// Returns the command that runs a program under these conditions.
    pub(crate) fn around(&self, program: &Command) -> Command {
        match self {
            Self::OpenUmask => after_script("umask 000", program),
            // A block has 512 bytes. The signal would end the program before it could respond.
            Self::SmallFiles => after_script("trap '' XFSZ; ulimit -f 256", program),
            Self::FewDescriptors(most) => after_script(&format!("ulimit -n {most}"), program),
            Self::SmallDisk(directory) => {
                after_mounting("mount -t tmpfs -o size=1m,mode=700 tmpfs \"$0\"", directory.as_os_str(), program)
            }
            Self::ReadOnly(directory) => {
                let script = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\"";
                after_mounting(script, directory.as_os_str(), program)
            }
            Self::Traced(trace, calls) => trace.around(calls, &[], program),
            Self::Recorded(trace) => trace.around(RECORDED_CALLS, &["-y", "-s", RECORDED_BYTES], program),
            Self::FailingCall(Call { name, number }, trace) => {
                trace.around(CALLS, &["-e", &format!("inject={name}:error=EIO:when={number}")], program)
            }
            Self::Signal(signal, Call { name, number }, trace) => {
                trace.around(CALLS_TO_SIGNAL, &["-e", &format!("inject={name}:signal={signal}:when={number}")], program)
            }
        }
    }
}

/// The file that records the system calls of a program.
#[derive(Clone)]
pub(crate) struct Trace(pub(crate) PathBuf);

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

/// A system call: its name, and its number among the calls of that name by its thread.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Call {
    pub(crate) name: String,
    number: usize,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} number {} of a thread", self.name, self.number)
    }
}

impl Trace {
    fn around(&self, calls: &str, options: &[&str], program: &Command) -> Command {
        let trace = format!("trace={calls}");
        let words = ["strace", "-f", "-qq", "-e", &trace].into_iter().chain(options.iter().copied()).chain(["-o"]);
        prefixed(words.map(OsStr::new).chain([self.0.as_os_str()]), program)
    }

    /// The calls so far, in order.
    pub(crate) fn calls(&self) -> io::Result<Vec<Call>> {
        let recorded = fs::read_to_string(&self.0)?;
        let mut numbers = BTreeMap::new();
        let calls = recorded.lines().filter_map(|line| {
            let (thread, call) = line.split_once(' ')?;
            let (name, _) = call.trim_start().split_once('(')?; // other lines are resumed calls or signals
            let number: &mut usize = numbers.entry((thread, name)).or_default();
            *number += 1;
            Some(Call { name: name.to_owned(), number: *number })
        });
        Ok(calls.filter(|call| call.name.bytes().all(|byte| byte.is_ascii_alphanumeric())).collect())
    }

    /// The recorded calls that succeeded, in the order in which they completed. `output` is the pipe to which the
    /// program responds.
    pub(crate) fn events(&self, output: &str) -> io::Result<Vec<Event>> {
        Ok(Events::default().of(&String::from_utf8_lossy(&fs::read(&self.0)?), output))
    }

    /// Whether the program was stopped.
    pub(crate) fn has_stop(&self) -> io::Result<bool> {
        Ok(String::from_utf8_lossy(&fs::read(&self.0)?).contains("SIGSTOP"))
    }

    /// Whether a call was made to fail.
    pub(crate) fn has_failed_call(&self) -> io::Result<bool> {
        Ok(fs::read_to_string(&self.0)?.contains("(INJECTED)"))
    }
}

/// Reads the output of `strace -f -y`.
#[derive(Default)]
struct Events {
    /// The calls that have not completed, by thread.
    unfinished: BTreeMap<String, String>,
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
        let calls = recorded.lines().filter_map(|line| line.split_once(' '));
        for (thread, call) in calls.map(|(thread, call)| (thread, call.trim_start())) {
            if written_to_pipe(call) == Some(output) {
                if !self.is_responding {
                    events.push(Event::Response);
                }
                self.is_responding = !call.contains(r#"\n""#);
                continue;
            }
            let whole = if let Some(start) = call.strip_suffix(" <unfinished ...>") {
                self.unfinished.insert(thread.to_owned(), start.to_owned());
                continue;
            } else if !call.starts_with("<...") {
                call.to_owned()
            } else {
                let rest = call.split_once(" resumed>").map_or("", |(_, rest)| rest);
                match self.unfinished.remove(thread) {
                    Some(start) => start + rest,
                    None => continue,
                }
            };
            let parents = self.unfinished.iter().filter(|(_, call)| is_clone(call));
            self.working_directories
                .know(thread, parents.map(|(parent, call)| (parent.as_str(), call.as_str())).next());
            events.extend(self.event(thread, &whole));
        }
        events
    }

    fn event(&mut self, thread: &str, call: &str) -> Option<Event> {
        let (call, outcome) = call.rsplit_once(" = ")?;
        if outcome.starts_with(['-', '?']) {
            return None;
        }
        let (name, arguments) = call.trim_end().strip_suffix(')')?.split_once('(')?;
        let arguments = arguments_of(arguments);
        if let Some(directory) = arguments.iter().find(|argument| argument.starts_with("AT_FDCWD<")) {
            self.working_directories.change(thread, path_of_descriptor(directory));
        }
        let descriptor = |number: usize| arguments.get(number).and_then(|argument| path_of_descriptor(argument));
        let alone = |number: usize| self.path_in(self.working_directories.of(thread), arguments.get(number)?);
        let at = |number: usize| {
            let directory = descriptor(number);
            self.path_in(directory.as_deref(), arguments.get(number + 1)?)
        };
        let event = match name {
            "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" | "sendfile" | "ftruncate" => {
                let path = descriptor(0)?;
                let is_synchronous = self.synchronous.contains(&path);
                Some(Event::Write { path, data: arguments.get(1..)?.join(" "), is_synchronous })
            }
            "copy_file_range" => {
                let path = descriptor(2)?;
                Some(Event::Write { is_synchronous: self.synchronous.contains(&path), path, data: String::new() })
            }
            "fsync" | "fdatasync" => Some(Event::Flush { path: descriptor(0)? }),
            "sync" | "syncfs" => Some(Event::FlushAll),
            "msync" if call.contains("MS_SYNC") => Some(Event::FlushAll),
            "open" | "creat" | "openat" | "openat2" => return self.opened(call, outcome),
            "mkdir" => alone(0).map(|path| Event::Mkdir { path }),
            "mkdirat" => at(0).map(|path| Event::Mkdir { path }),
            "rename" => alone(0).zip(alone(1)).map(|(from, to)| Event::Rename { from, to }),
            "renameat" | "renameat2" => at(0).zip(at(2)).map(|(from, to)| Event::Rename { from, to }),
            "link" => alone(0).zip(alone(1)).map(|(from, to)| Event::Link { from, to }),
            "linkat" => {
                let from = if call.contains("AT_EMPTY_PATH") { descriptor(0) } else { at(0) };
                from.zip(at(2)).map(|(from, to)| Event::Link { from, to })
            }
            "unlink" | "rmdir" => alone(0).map(|path| Event::Unlink { path }),
            "unlinkat" => at(0).map(|path| Event::Unlink { path }),
            "io_uring_enter" => None,
            "chdir" | "fchdir" => {
                let directory = if name == "chdir" { alone(0) } else { descriptor(0) };
                self.working_directories.change(thread, directory);
                return None;
            }
            _ if is_clone(call) => {
                self.working_directories.share(thread, outcome, call);
                return None;
            }
            _ => return None,
        };
        Some(event.unwrap_or_else(|| Event::Unclear { call: name.to_owned() }))
    }

    /// The descriptor that the call returned tells the file, even if its path has links.
    fn opened(&mut self, call: &str, outcome: &str) -> Option<Event> {
        let is_created = call.starts_with("creat(") || call.contains("O_CREAT");
        let Some(path) = path_of_descriptor(outcome) else {
            return is_created.then(|| Event::Unclear { call: "open".to_owned() });
        };
        let descriptor = outcome.split('<').next().unwrap_or_default();
        self.open.insert(descriptor.to_owned(), path.clone());
        if ["O_SYNC", "O_DSYNC"].iter().any(|flag| call.contains(flag)) {
            self.synchronous.insert(path.clone());
        }
        (is_created && self.created.insert(path.clone())).then_some(Event::Create { path })
    }

    /// The path of a quoted name in a directory. A relative one has no meaning without the directory.
    fn path_in(&self, directory: Option<&Path>, name: &str) -> Option<PathBuf> {
        let name = unquoted(name)?;
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
            self.share(parent, thread, call);
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
    fn share(&mut self, thread: &str, other: &str, call: &str) {
        let Some(&shared) = self.of_threads.get(thread).filter(|_| !self.of_threads.contains_key(other)) else {
            return;
        };
        let own = self.paths.get(shared).cloned().flatten();
        let number = if call.contains("CLONE_FS") { shared } else { self.paths.len() };
        if number == self.paths.len() {
            self.paths.push(own);
        }
        self.of_threads.insert(other.to_owned(), number);
    }
}

fn is_clone(call: &str) -> bool {
    ["clone(", "clone3(", "fork(", "vfork("].iter().any(|start| call.starts_with(start))
}

/// The pipe to which a call writes, such as `pipe:[7]`.
fn written_to_pipe(call: &str) -> Option<&str> {
    let arguments = ["write(", "writev("].iter().find_map(|start| call.strip_prefix(start))?;
    let (_, file) = arguments.split_once('<')?;
    file.split_once('>').map(|(path, _)| path)
}

/// Splits the arguments of a call. Commas in quotes, and in the brackets around paths and lists, do not separate.
fn arguments_of(text: &str) -> Vec<String> {
    let (mut arguments, mut argument) = (Vec::new(), String::new());
    let (mut is_quoted, mut is_escaped, mut depth) = (false, false, 0_usize);
    for character in text.chars() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            '<' | '[' | '{' if !is_quoted => depth += 1,
            '>' | ']' | '}' if !is_quoted => depth = depth.saturating_sub(1),
            ',' if !is_quoted && depth == 0 => {
                arguments.push(std::mem::take(&mut argument).trim().to_owned());
                continue;
            }
            _ => {}
        }
        argument.push(character);
    }
    arguments.push(argument.trim().to_owned());
    arguments
}

/// The path in `3</path>`. Some versions of strace mark a deleted file in the path.
fn path_of_descriptor(argument: &str) -> Option<PathBuf> {
    let (_, path) = argument.split_once('<')?;
    let (path, _) = path.rsplit_once('>')?;
    path.starts_with('/').then(|| unescaped(path.strip_suffix(" (deleted)").unwrap_or(path)).into())
}

fn unquoted(argument: &str) -> Option<String> {
    argument.strip_prefix('"')?.strip_suffix('"').map(unescaped)
}

/// Replaces the escapes of bytes, which are written as in C.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let octal = |digits: usize| u8::from_str_radix(str::from_utf8(after.get(..digits)?).ok()?, 8).ok();
        let (byte, length) = match (first, after.first()) {
            (b'\\', Some(b'0'..=b'7')) => {
                [3, 2, 1].into_iter().find_map(|digits| Some((octal(digits)?, digits))).unwrap_or((b'?', 1))
            }
            (b'\\', Some(b'n')) => (b'\n', 1),
            (b'\\', Some(b't')) => (b'\t', 1),
            (b'\\', Some(b'r')) => (b'\r', 1),
            (b'\\', Some(b'v')) => (0x0b, 1),
            (b'\\', Some(b'f')) => (0x0c, 1),
            (b'\\', Some(other)) => (*other, 1),
            _ => (*first, 0),
        };
        bytes.push(byte);
        rest = &after[length..];
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Runs a shell script that then executes the program.
fn after_script(script: &str, program: &Command) -> Command {
    let script = OsString::from(format!("{script}; exec \"$@\""));
    prefixed([OsStr::new("sh"), OsStr::new("-c"), &script, OsStr::new("sh")], program)
}

/// Runs a script that mounts a file system at the directory, its `$0`, visible only to the program.
fn after_mounting(script: &str, directory: &OsStr, program: &Command) -> Command {
    let script = OsString::from(format!("{script} && exec \"$@\""));
    let shell = [OsStr::new("sh"), OsStr::new("-c"), &script, directory];
    prefixed(MOUNTS_OF_ITS_OWN.map(OsStr::new).into_iter().chain(shell), program)
}

fn prefixed<'a>(words: impl IntoIterator<Item = &'a OsStr>, program: &'a Command) -> Command {
    let mut words = words.into_iter().chain([program.get_program()]).chain(program.get_args());
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    if let Some(directory) = program.get_current_dir() {
        command.current_dir(directory);
    }
    command
}

/// Fails if this machine cannot mount file systems for a single program.
pub(crate) async fn expect_mounts() -> Result<(), CaseError> {
    let works = works(after_mounting("mount -t tmpfs tmpfs \"$0\"", OsStr::new("/"), &Command::new("true"))).await;
    let lack =
        || CaseError::unsupported(Capability::Mounts, "needs Linux with `unshare`, and user namespaces that may mount");
    works.then_some(()).ok_or_else(lack)
}

/// Fails if this machine cannot make system calls fail.
pub(crate) async fn expect_tracing() -> Result<(), CaseError> {
    let sandbox = Sandbox::Traced(Trace("/dev/null".into()), CALLS);
    let lack = || CaseError::unsupported(Capability::Tracing, "needs Linux with `strace`, and permission to trace");
    works(sandbox.around(&Command::new("true"))).await.then_some(()).ok_or_else(lack)
}

async fn works(command: Command) -> bool {
    let mut command = tokio::process::Command::from(command);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().await.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(recorded: &[&str]) -> Vec<Event> {
        Events::default().of(&recorded.join("\n"), "pipe:[7]")
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
