//! [`Name`]: a name in a directory; [`TemporaryName`]: a random one.

use std::ffi::OsStr;
use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io;
use std::path::{Component, Path};

use memory_tool_core::{InvalidBatch, StoreError, StorePath};
use serde::{Deserialize, Deserializer, Serialize};

/// A single name in a directory: not empty, without separators and NUL, and never `.` or `..`. Therefore an operation
/// relative to an open directory stays in that directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name<'a>(Text<'a>);

#[derive(Clone, Copy, Debug)]
enum Text<'a> {
    Utf8(&'a str),
    Os(&'a OsStr),
}

impl Name<'static> {
    /// A constant name, checked at compile time.
    pub(crate) const fn constant(name: &'static str) -> Self {
        let bytes = name.as_bytes();
        assert!(!bytes.is_empty());
        let mut index = 0;
        while index < bytes.len() {
            assert!(
                bytes[index].is_ascii_alphanumeric() || (bytes[index] == b'-' || bytes[index] == b'.' && index == 0)
            );
            index += 1;
        }
        assert!(bytes.len() > 1 || bytes[0] != b'.');
        Self(Text::Utf8(name))
    }
}

impl<'a> Name<'a> {
    /// The last segment of a path.
    ///
    /// # Errors
    /// [`StoreError::InvalidBatch`] for the root, which has no name.
    pub(crate) fn of(path: &'a StorePath) -> Result<Self, StoreError> {
        // The segments of a path contain no separator, and are never `.` or `..` (`[P2]`).
        path.file_name().map(|name| Self(Text::Utf8(name))).ok_or(StoreError::InvalidBatch(InvalidBatch::Root))
    }

    /// A name returned by the operating system.
    ///
    /// # Errors
    /// `InvalidFilename` if it is not a single component.
    pub(crate) fn parse(name: &'a OsStr) -> io::Result<Self> {
        let mut components = Path::new(name).components();
        match (components.next(), components.next()) {
            // The comparison rejects `a/` and `a/.`, whose only component is `a`.
            (Some(Component::Normal(only)), None) if only == name && !name.as_encoded_bytes().contains(&0) => {
                Ok(Self(Text::Os(name)))
            }
            _ => Err(io::Error::new(io::ErrorKind::InvalidFilename, "not a single name in a directory")),
        }
    }

    /// Whether every file system takes the name.
    pub(crate) fn is_portable(self) -> bool {
        self.as_os_str().to_str().is_some_and(is_portable)
    }

    pub(crate) fn as_os_str(self) -> &'a OsStr {
        match self.0 {
            Text::Utf8(name) => OsStr::new(name),
            Text::Os(name) => name,
        }
    }
}

/// Whether FUSE or NFS gave the name to a file that was removed while a program had it open. Such a file is not part of
/// the memory, and disappears when the program closes it.
pub(crate) fn is_remnant(name: &OsStr) -> bool {
    const PREFIXES: [&[u8]; 2] = [b".fuse_hidden", b".nfs"];
    const MIN_DIGITS: usize = 16;
    let name = name.as_encoded_bytes();
    let digits = PREFIXES.iter().find_map(|prefix| name.strip_prefix(*prefix));
    digits.is_some_and(|digits| digits.len() >= MIN_DIGITS && digits.iter().all(u8::is_ascii_hexdigit))
}

/// Names without an extension that Windows and its file systems reserve, in lower case.
const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];

/// Whether Windows reserves the name for a device.
pub(crate) fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_lowercase();
    let is_port = (stem.starts_with("com") || stem.starts_with("lpt")) && stem.chars().count() == 4;
    is_port || DEVICES.contains(&stem.as_str())
}

/// Whether every file system takes the name.
fn is_portable(name: &str) -> bool {
    /// Encrypting file systems store names of this length in 255 bytes.
    const MAX_BYTES: usize = 140;
    name.len() <= MAX_BYTES
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && !name.ends_with('.')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        && !is_device(name)
}

impl AsRef<Path> for Name<'_> {
    fn as_ref(&self) -> &Path {
        Path::new(self.as_os_str())
    }
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_os_str().display().fmt(f)
    }
}

/// A unique name in a private directory: 16 lowercase hexadecimal digits.
///
/// Journals contain such names. No other name is accepted from a journal.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub(crate) struct TemporaryName(String);

impl TemporaryName {
    pub(crate) const DIGITS: usize = 16;

    /// A new name. Random, because in a container the next process has the same id.
    pub(crate) fn random() -> Self {
        let random = std::hash::RandomState::new().build_hasher().finish();
        Self(format!("{random:016x}"))
    }

    pub(crate) fn as_name(&self) -> Name<'_> {
        Name(Text::Utf8(&self.0))
    }

    #[cfg(any(fuzzing, test))]
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for TemporaryName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let is_ours = name.len() == Self::DIGITS && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if is_ours {
            Ok(Self(name))
        } else {
            let message = format!("invalid temporary name {name:?}: expected 16 lowercase hexadecimal digits");
            Err(serde::de::Error::custom(message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_single_component() {
        for name in ["a", ".a", "...", "a b", "a..", "~", "-"] {
            assert_eq!(Name::parse(OsStr::new(name)).unwrap().as_os_str(), name);
        }
        for path in ["", ".", "..", "/", "/a", "a/", "a/b", "a/.", "./a", "../a", "a/..", "a\0", "a//"] {
            assert_eq!(Name::parse(OsStr::new(path)).unwrap_err().kind(), io::ErrorKind::InvalidFilename, "{path:?}");
        }
    }

    #[test]
    fn names_of_removed_files_that_are_open_are_recognized() {
        for name in [".fuse_hidden0000000c00000003", ".nfs000000000123456700000001"] {
            assert!(is_remnant(OsStr::new(name)), "{name}");
        }
        for name in [".fuse_hidden", ".nfs0001", ".fuse_hidden0000000c0000000x", "nfs000000000123456700000001", ""] {
            assert!(!is_remnant(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn only_names_that_every_file_system_takes_are_portable() {
        let (longest, longer) = ("x".repeat(140), "x".repeat(141));
        for name in ["a", "Notes.md", "2026-01-01_a.txt", "console.md", &longest] {
            assert!(is_portable(name), "{name}");
        }
        for name in
            ["", ".hidden", ".wh.x", "a:b", "a b", "what?", "é", "notes.", "con", "Con.md", "LPT1.txt", "-a", &longer]
        {
            assert!(!is_portable(name), "{name}");
        }
    }

    #[test]
    fn the_root_has_no_name() {
        assert!(matches!(Name::of(&StorePath::memories()), Err(StoreError::InvalidBatch(InvalidBatch::Root))));
        assert_eq!(Name::of(&"/memories/a/b".parse().unwrap()).unwrap().to_string(), "b");
    }

    #[test]
    fn only_temporary_names_can_be_deserialized() {
        let name = TemporaryName::random();
        let written = serde_json::to_string(&name).unwrap();
        assert_eq!(serde_json::from_str::<TemporaryName>(&written).unwrap(), name);
        for foreign in [
            "",
            "d/id_rsa",
            "..",
            "0123456789abcde",
            "0123456789abcdef0",
            "0123456789ABCDEF",
            "0123456789abcde/",
            "0123456789abcd..",
            "0123456789abcde\\u0000",
            "journal",
        ] {
            let refused = serde_json::from_str::<TemporaryName>(&format!("\"{foreign}\"")).unwrap_err();
            assert!(refused.to_string().contains("expected 16 lowercase"), "{foreign}: {refused}");
        }
    }
}
