//! [`Sandbox`]: full, read-only and failing disks, and other conditions to run a program under.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::case::Capability;
use crate::failure::CaseError;

/// Runs the command that follows in a private mount namespace.
const MOUNTS_OF_ITS_OWN: [&str; 6] = ["unshare", "--user", "--map-root-user", "--mount", "--propagation", "private"];

/// The system calls by which a change reaches the disk. `write` is not among them, because the program also responds
/// with it. The question mark marks calls that not every machine has.
const CALLS: &str = "fsync,fdatasync,ftruncate,fallocate,pwrite64,pwritev,linkat,mkdirat,renameat,renameat2,unlinkat,\
                     ?link,?mkdir,?rename,?unlink";

/// The system calls by which a program writes, flushes and names files.
const RECORDED_CALLS: &str = "write,writev,pwrite64,pwritev,?pwritev2,?copy_file_range,?sendfile,ftruncate,\
                              fsync,fdatasync,sync,syncfs,msync,?open,?creat,openat,?openat2,?rename,renameat,renameat2,?link,linkat,\
                              ?unlink,unlinkat,?rmdir,?mkdir,mkdirat";

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
    /// The calls by which changes reach the disk are recorded.
    Traced(Trace),
    /// The calls by which files are written, flushed and named are recorded, with their arguments.
    Recorded(Trace),
    FailingCall(Call, Trace),
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
            Self::Traced(trace) => trace.around(CALLS, &[], program),
            Self::Recorded(trace) => trace.around(RECORDED_CALLS, &["-y", "-s", "65536"], program),
            Self::FailingCall(Call { name, number }, trace) => {
                trace.around(CALLS, &["-e", &format!("inject={name}:error=EIO:when={number}")], program)
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

    /// The recorded calls that succeeded, in the order in which they completed.
    pub(crate) fn events(&self) -> io::Result<Vec<Event>> {
        Ok(Events::default().of(&String::from_utf8_lossy(&fs::read(&self.0)?)))
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
}

impl Events {
    fn of(mut self, recorded: &str) -> Vec<Event> {
        let mut events = Vec::new();
        let calls = recorded.lines().filter_map(|line| line.split_once(' '));
        let calls: Vec<_> = calls.map(|(thread, call)| (thread, call.trim_start())).collect();
        // The program's child processes have other outputs, but only the program writes the last response.
        let responses = calls.iter().rev().find_map(|(_, call)| written_to_output(call));
        for (thread, call) in calls {
            let is_start = !call.starts_with("<...");
            if responses.is_some() && written_to_output(call) == responses {
                if !self.is_responding {
                    events.push(Event::Response);
                }
                self.is_responding = !call.contains(r#"\n""#);
                continue;
            }
            let whole = if let Some(start) = call.strip_suffix(" <unfinished ...>") {
                self.unfinished.insert(thread.to_owned(), start.to_owned());
                continue;
            } else if is_start {
                call.to_owned()
            } else {
                let rest = call.split_once(" resumed>").map_or("", |(_, rest)| rest);
                match self.unfinished.remove(thread) {
                    Some(start) => start + rest,
                    None => continue,
                }
            };
            events.extend(self.event(&whole));
        }
        events
    }

    fn event(&mut self, call: &str) -> Option<Event> {
        let (call, outcome) = call.rsplit_once(" = ")?;
        if outcome.starts_with(['-', '?']) {
            return None;
        }
        let (name, arguments) = call.trim_end().strip_suffix(')')?.split_once('(')?;
        let arguments = arguments_of(arguments);
        let at = |number: usize| path_at(arguments.get(number)?, arguments.get(number + 1)?);
        let alone = |number: usize| Some(PathBuf::from(unquoted(arguments.get(number)?)?));
        match name {
            "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" | "sendfile" | "ftruncate" => {
                let path = path_of_descriptor(arguments.first()?)?;
                let is_synchronous = self.synchronous.contains(&path);
                Some(Event::Write { path, data: arguments.get(1..)?.join(" "), is_synchronous })
            }
            "copy_file_range" => {
                let path = path_of_descriptor(arguments.get(2)?)?;
                Some(Event::Write { is_synchronous: self.synchronous.contains(&path), path, data: String::new() })
            }
            "fsync" | "fdatasync" => Some(Event::Flush { path: path_of_descriptor(arguments.first()?)? }),
            "sync" | "syncfs" => Some(Event::FlushAll),
            "msync" => call.contains("MS_SYNC").then_some(Event::FlushAll),
            "open" | "creat" => self.opened(alone(0)?, call),
            "openat" | "openat2" => self.opened(at(0)?, call),
            "mkdir" => Some(Event::Mkdir { path: alone(0)? }),
            "mkdirat" => Some(Event::Mkdir { path: at(0)? }),
            "rename" => Some(Event::Rename { from: alone(0)?, to: alone(1)? }),
            "renameat" | "renameat2" => Some(Event::Rename { from: at(0)?, to: at(2)? }),
            "link" => Some(Event::Link { from: alone(0)?, to: alone(1)? }),
            "linkat" => {
                let from = at(0).filter(|_| !call.contains("AT_EMPTY_PATH"));
                Some(Event::Link { from: from.or_else(|| path_of_descriptor(arguments.first()?))?, to: at(2)? })
            }
            "unlink" | "rmdir" => Some(Event::Unlink { path: alone(0)? }),
            "unlinkat" => Some(Event::Unlink { path: at(0)? }),
            _ => None,
        }
    }

    fn opened(&mut self, path: PathBuf, call: &str) -> Option<Event> {
        if ["O_SYNC", "O_DSYNC"].iter().any(|flag| call.contains(flag)) {
            self.synchronous.insert(path.clone());
        }
        let is_created = call.starts_with("creat(") || call.contains("O_CREAT");
        (is_created && self.created.insert(path.clone())).then_some(Event::Create { path })
    }
}

/// The file to which a call writes, if it is standard output.
fn written_to_output(call: &str) -> Option<&str> {
    let arguments = ["write(1<", "writev(1<"].iter().find_map(|start| call.strip_prefix(start))?;
    arguments.split_once('>').map(|(path, _)| path)
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

/// The path in `3</path>`.
fn path_of_descriptor(argument: &str) -> Option<PathBuf> {
    let (_, path) = argument.split_once('<')?;
    let (path, _) = path.rsplit_once('>')?;
    path.starts_with('/').then(|| PathBuf::from(path))
}

fn unquoted(argument: &str) -> Option<&str> {
    argument.strip_prefix('"')?.strip_suffix('"')
}

/// The path of a directory's descriptor and a name in it.
fn path_at(directory: &str, name: &str) -> Option<PathBuf> {
    let name = unquoted(name)?;
    let directory = path_of_descriptor(directory);
    let joined = directory.map_or_else(|| PathBuf::from(name), |directory| directory.join(name));
    Some(joined.components().filter(|part| *part != std::path::Component::CurDir).collect())
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
    let sandbox = Sandbox::Traced(Trace("/dev/null".into()));
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

    #[test]
    fn responses_are_lines_to_the_output_of_the_program() {
        let recorded = [
            r#"2 write(1<pipe:[8]>, "opened\n", 7) = 7"#,
            r#"1 write(5</d/a>, "text", 4) = 4"#,
            r#"1 write(1<pipe:[7]>, "{\"content\":", 11) = 11"#,
            r#"1 write(1<pipe:[7]>, "1}\n", 3) = 3"#,
            r#"1 fsync(5</d/a>) = 0"#,
            r#"1 write(1<pipe:[7]>, "{}\n", 3) = 3"#,
        ];
        let events = Events::default().of(&recorded.join("\n"));
        let other = Event::Write { path: "/d/a".into(), data: "\"text\" 4".to_owned(), is_synchronous: false };
        assert_eq!(events, [other, Event::Response, Event::Flush { path: "/d/a".into() }, Event::Response]);
    }
}
