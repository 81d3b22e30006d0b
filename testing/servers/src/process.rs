//! [`Process`]: a server in another process, which never outlives the test.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::directory::directory;
use crate::error::{Doing as _, Error};
use crate::install::replace_directory;

/// Runs the server and waits for the end of the input, which comes when the test drops the server or ends in any way.
/// Then kills the process group, including all child processes of the server. Its System V segments would stay: those
/// of pgpool-II have 137 MB, and a few hundred starts fill the memory. A removed segment ends with its last user.
const GUARD: &str = r#"("$@" </dev/null; kill -9 0) & read -r _
ipcs -m -p | while read -r segment _ creator _; do
    case $creator in *[!0-9]*|'') continue ;; esac
    [ "$(ps -o pgid= -p "$creator" | tr -d ' ')" != $$ ] || ipcrm -m "$segment"
done
kill -9 0"#;

/// The timeout for starting a server. It is long enough for busy machines.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A running server. It is killed on drop, and when the test process ends.
#[derive(Debug)]
pub(crate) struct Process {
    name: &'static str,
    guard: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program in a new directory. Its output goes to a file next to the directory.
    pub(crate) fn start(
        name: &'static str,
        port: u16,
        program: &Path,
        configure: impl FnOnce(&mut Command),
    ) -> Result<Self, Error> {
        let directory = directory().join("run").join(format!("{name}-{port}"));
        replace_directory(&directory)?;
        let log = directory.with_extension("log");
        let output = File::create(&log).doing(format!("creating {}", log.display()))?;
        let errors = output.try_clone().doing(format!("opening {}", log.display()))?;
        let mut command = Command::new("sh");
        command.args(["-c", GUARD, "guard"]).arg(program).current_dir(directory);
        configure(&mut command);
        command.stdin(Stdio::piped()).stdout(output).stderr(errors).process_group(0);
        let guard = command.spawn().doing(format!("starting {}", program.display()))?;
        Ok(Self { name, guard, log })
    }

    /// The file with the output of the server.
    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    /// Waits until the server has stopped.
    pub(crate) fn wait_for_end(&mut self) -> Result<(), Error> {
        let start = Instant::now();
        while self.guard.try_wait().doing("checking a server")?.is_none() {
            if start.elapsed() > TIMEOUT {
                return Err(Error::Start { server: self.name, problem: "does not stop", log: self.log.clone() });
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Waits until the server is ready.
    pub(crate) fn wait_until(&mut self, mut is_ready: impl FnMut() -> bool) -> Result<(), Error> {
        let start = Instant::now();
        while !is_ready() {
            let ended = self.guard.try_wait().doing("checking a server")?.is_some();
            if ended || start.elapsed() > TIMEOUT {
                let problem = if ended { "exited" } else { "does not respond" };
                return Err(Error::Start { server: self.name, problem, log: self.log.clone() });
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait(); // the guard kills itself
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn drop_kills_the_server_and_its_children() {
        // Older segments have numbers of processes that come again.
        let older = segments();
        let mut process = Process::start("sleeper", 1, Path::new("sh"), |command| {
            let segment = "perl -e 'shmget(0, 4096, 01600); print \"started\\n\"; exec qw(sleep 1000)'"; // IPC_CREAT
            command.args(["-c", &format!("{segment} & wait")]);
        })
        .unwrap();
        let log = process.log.clone();
        process.wait_until(|| fs::read_to_string(&log).unwrap() == "started\n").unwrap();
        let group = process.guard.id();
        assert!(members(group).iter().any(|process| process.contains("sleep 1000")));
        let is_new = |segment: &[String; 2]| !older.contains(segment) && belongs_to(&segment[1], group);
        let created: Vec<_> = segments().into_iter().filter(is_new).collect();
        assert_eq!(created.len(), 1);
        drop(process);
        assert_eq!(members(group), [""; 0]);
        assert!(!segments().contains(&created[0]));
    }

    /// The System V segments of the machine: their ids, and the processes that created them.
    fn segments() -> Vec<[String; 2]> {
        let segments = Command::new("ipcs").args(["-m", "-p"]).output().unwrap();
        let segments = String::from_utf8(segments.stdout).unwrap();
        let columns = |line: &str| {
            let columns: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
            Some([columns.first()?.clone(), columns.get(2)?.clone()])
        };
        segments.lines().filter_map(columns).collect()
    }

    fn belongs_to(process: &str, group: u32) -> bool {
        let of_process = Command::new("ps").args(["-o", "pgid=", "-p", process]).output().unwrap();
        String::from_utf8_lossy(&of_process.stdout).trim() == group.to_string()
    }

    fn members(group: u32) -> Vec<String> {
        let processes = Command::new("ps").args(["-e", "-o", "pgid=,stat=,args="]).output().unwrap();
        let processes = String::from_utf8(processes.stdout).unwrap();
        let runs = |process: &&str| {
            let mut columns = process.split_whitespace();
            columns.next() == Some(&group.to_string()) && columns.next().is_some_and(|state| !state.starts_with('Z'))
        };
        processes.lines().filter(runs).map(str::to_owned).collect()
    }

    #[test]
    fn wait_fails_when_the_server_exits() {
        let mut process = Process::start("ender", 1, Path::new("true"), |_| ()).unwrap();
        let error = process.wait_until(|| false).unwrap_err().to_string();
        assert!(error.starts_with("ender exited"), "{error}");
    }
}
