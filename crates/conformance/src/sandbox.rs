//! [`Sandbox`]: full, read-only and failing disks, and other conditions to run a program under.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::case::Capability;
use crate::disk_event::{self, Event};
use crate::failure::CaseError;
use crate::strace::split_thread;

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
            let (thread, call) = split_thread(line)?;
            let (name, _) = call.split_once('(')?; // other lines are resumed calls or signals
            let number: &mut usize = numbers.entry((thread, name)).or_default();
            *number += 1;
            Some(Call { name: name.to_owned(), number: *number })
        });
        Ok(calls.filter(|call| call.name.bytes().all(|byte| byte.is_ascii_alphanumeric())).collect())
    }

    /// See [`disk_event::events`].
    pub(crate) fn events(&self, output: &str) -> io::Result<Vec<Event>> {
        Ok(disk_event::events(&String::from_utf8_lossy(&fs::read(&self.0)?), output))
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
