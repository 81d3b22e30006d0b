//! Runs this program under `strace`, and interprets the calls that it makes.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use memory_tool_test_fixtures::faults::{Reader, strace};

/// A system call that has ended.
pub(super) struct Call(memory_tool_test_fixtures::faults::Call);

/// Runs this program with environment variables. Returns its calls that name a file or use a descriptor, in the order
/// in which they ended. `fault` makes one of them fail.
pub(super) fn trace(variables: &[(&str, &OsStr)], fault: Option<&str>) -> Vec<Call> {
    let options = ["-y", "-xx", "-s", "1000000", "-e", "trace=%file,%desc,sync,io_uring_setup"].into_iter();
    let options: Vec<_> = options.chain(fault.into_iter().flat_map(|fault| ["-e", fault])).collect();
    let (status, log) = strace(&options, variables);
    assert!(status.success(), "the traced program failed: {status}");
    let mut reader = Reader::default();
    log.lines().filter_map(|line| reader.read(line)).map(Call).collect()
}

impl Call {
    pub(super) fn name(&self) -> &str {
        &self.0.name
    }

    pub(super) fn succeeded(&self) -> bool {
        self.0.succeeded()
    }

    /// The number of calls that had ended when this one began.
    pub(super) fn began(&self) -> usize {
        self.0.began
    }

    /// The number that the call returned.
    pub(super) fn result(&self) -> usize {
        let number = self.0.result.split(['<', ' ']).next().unwrap();
        number.parse().unwrap_or_default()
    }

    /// The number of the descriptor that is the first argument.
    pub(super) fn descriptor(&self) -> &str {
        self.0.arguments[0].split_once('<').unwrap().0
    }

    /// The paths that the arguments name: a descriptor, a path, or a descriptor and a path relative to it.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        let mut directory = None;
        for (place, argument) in self.0.arguments.iter().enumerate() {
            assert!(!argument.ends_with("\"..."), "strace shortened {argument}");
            if let Some(file) = self.file(place) {
                paths.extend(directory.replace(file));
            } else if let Some(path) = self.0.text(place).filter(|_| !self.is_write()) {
                paths.push(directory.take().unwrap_or_default().join(&*String::from_utf8_lossy(&path)));
            }
        }
        paths.extend(directory);
        paths
    }

    /// The file of a descriptor. The path of a deleted file does not exist.
    fn file(&self, place: usize) -> Option<PathBuf> {
        let file = self.0.file(place)?;
        let is_deleted = self.0.arguments[place].ends_with("(deleted)");
        Some(if is_deleted { format!("{}(deleted)", file.display()).into() } else { file })
    }

    fn is_write(&self) -> bool {
        ["write", "pwrite64"].contains(&self.name())
    }

    /// The bytes that a write contains.
    pub(super) fn written(&self) -> Option<Vec<u8>> {
        let mut text = self.0.text(1).filter(|_| self.is_write())?;
        text.truncate(self.result());
        Some(text)
    }

    /// Whether a path is in `directory`.
    pub(super) fn concerns(&self, directory: &Path) -> bool {
        self.paths().iter().any(|path| path.starts_with(directory))
    }

    pub(super) fn number(&self, argument: usize) -> usize {
        self.0.arguments[argument].parse().unwrap()
    }

    pub(super) fn has_flag(&self, flag: &str) -> bool {
        self.0.has_flag(flag)
    }
}
