//! [`Circumstances`]: what a program is run under that finds its disk full, read-only, broken or open to everybody.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::case::Need;
use crate::failure::Stop;

/// Runs what follows in a place where file systems can be mounted that nobody else sees.
const MOUNTS_OF_ITS_OWN: [&str; 6] = ["unshare", "--user", "--map-root-user", "--mount", "--propagation", "private"];

/// The calls by which a change reaches the disk, without `write`, by which a program also answers. The question mark is for
/// those that not every machine has.
const CALLS: &str = "fsync,fdatasync,ftruncate,fallocate,pwrite64,pwritev,linkat,mkdirat,renameat,renameat2,unlinkat,\
                     ?link,?mkdir,?rename,?unlink";

/// What makes it hard for a program to keep its promises.
pub(crate) enum Circumstances {
    /// What it makes may be read and changed by everybody, unless it says otherwise.
    OpenUmask,
    /// None of its files may grow beyond 128 KiB.
    SmallFiles,
    /// The directory is empty, and 1 MiB fits into it.
    SmallDisk(PathBuf),
    /// Nothing in the directory can be changed.
    ReadOnly(PathBuf),
    /// The calls by which changes reach the disk are noted.
    Traced(Trace),
    /// One of these calls fails.
    FailingCall(Call, Trace),
}

impl Circumstances {
    /// The command that runs a program under these circumstances.
    pub(crate) fn around(&self, program: &Command) -> Command {
        match self {
            Self::OpenUmask => after_script("umask 000", program),
            // A block has 512 bytes. The signal would end the program before it could answer.
            Self::SmallFiles => after_script("trap '' XFSZ; ulimit -f 256", program),
            Self::SmallDisk(directory) => {
                after_mounting("mount -t tmpfs -o size=1m,mode=700 tmpfs \"$0\"", directory.as_os_str(), program)
            }
            Self::ReadOnly(directory) => {
                let script = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\"";
                after_mounting(script, directory.as_os_str(), program)
            }
            Self::Traced(trace) => trace.around(&[], program),
            Self::FailingCall(Call { name, number }, trace) => {
                trace.around(&["-e", &format!("inject={name}:error=EIO:when={number}")], program)
            }
        }
    }
}

/// The file in which the calls of a program to the system are noted.
#[derive(Clone)]
pub(crate) struct Trace(pub(crate) PathBuf);

/// A call to the system: its name, and how many of that name its thread has made with it.
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
    fn around(&self, options: &[&str], program: &Command) -> Command {
        let trace = format!("trace={CALLS}");
        let words = ["strace", "-f", "-qq", "-e", &trace].into_iter().chain(options.iter().copied()).chain(["-o"]);
        prefixed(words.map(OsStr::new).chain([self.0.as_os_str()]), program)
    }

    /// The calls that were made up to now, in their order.
    pub(crate) fn calls(&self) -> io::Result<Vec<Call>> {
        let noted = fs::read_to_string(&self.0)?;
        let mut numbers = BTreeMap::new();
        let calls = noted.lines().filter_map(|line| {
            let (thread, call) = line.split_once(' ')?;
            let (name, _) = call.trim_start().split_once('(')?; // other lines tell how a call went on, or of a signal
            let number: &mut usize = numbers.entry((thread, name)).or_default();
            *number += 1;
            Some(Call { name: name.to_owned(), number: *number })
        });
        Ok(calls.filter(|call| call.name.bytes().all(|byte| byte.is_ascii_alphanumeric())).collect())
    }

    /// Whether a call was made to fail.
    pub(crate) fn has_failed_call(&self) -> io::Result<bool> {
        Ok(fs::read_to_string(&self.0)?.contains("(INJECTED)"))
    }
}

/// Runs a script of the shell, then the program in its place.
fn after_script(script: &str, program: &Command) -> Command {
    let script = OsString::from(format!("{script}; exec \"$@\""));
    prefixed([OsStr::new("sh"), OsStr::new("-c"), &script, OsStr::new("sh")], program)
}

/// Runs a script that mounts something for the program alone at the directory, which is its `$0`.
fn after_mounting(script: &str, directory: &OsStr, program: &Command) -> Command {
    let script = OsString::from(format!("{script} && exec \"$@\""));
    let shell = [OsStr::new("sh"), OsStr::new("-c"), &script, directory];
    prefixed(MOUNTS_OF_ITS_OWN.map(OsStr::new).into_iter().chain(shell), program)
}

/// The command that these words begin and the program ends.
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

/// Fails where this machine mounts no file systems for a program alone.
pub(crate) async fn expect_mounts() -> Result<(), Stop> {
    let works = works(after_mounting("mount -t tmpfs tmpfs \"$0\"", OsStr::new("/"), &Command::new("true"))).await;
    let lack = || Stop::lacks(Need::Mounts, "it takes `unshare` of Linux, and user namespaces that may mount");
    works.then_some(()).ok_or_else(lack)
}

/// Fails where this machine makes no calls to the system fail.
pub(crate) async fn expect_tracing() -> Result<(), Stop> {
    let circumstances = Circumstances::Traced(Trace("/dev/null".into()));
    let lack = || Stop::lacks(Need::Tracing, "it takes `strace` of Linux, and the right to trace");
    works(circumstances.around(&Command::new("true"))).await.then_some(()).ok_or_else(lack)
}

async fn works(command: Command) -> bool {
    let mut command = tokio::process::Command::from(command);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().await.is_ok_and(|status| status.success())
}
