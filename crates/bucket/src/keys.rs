//! [`Keys`]: the names of the objects of a store.

use memory_tool_core::MemoryPath;
use object_store::path::{Error, Path};

/// The longest key in bytes. S3, Google Cloud Storage and Azure allow 1,024 bytes or characters.
const MAX_KEY_BYTES: usize = 900;
/// The most names of a path in a key. Azure allows 254 in a key.
const MAX_KEY_NAMES: usize = 64;
/// The number of digits of a commit number in a key, so that keys sort by number.
const NUMBER_DIGITS: usize = 20;

/// The largest number of a commit, so that there is always a next one.
const MAX_NUMBER: u64 = 1 << 62;

/// The names of a store's objects, all under its prefix.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: Path,
}

impl Keys {
    pub(crate) fn new(prefix: Path) -> Self {
        Self { prefix }
    }

    /// The prefix of all objects of the store.
    pub(crate) fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// The commit of a number.
    pub(crate) fn commit(&self, number: u64) -> Path {
        self.log().join(format!("{number:0NUMBER_DIGITS$}"))
    }

    /// The prefix of all commits.
    pub(crate) fn log(&self) -> Path {
        self.prefix.clone().join("log")
    }

    /// The checkpoint of the state after a commit.
    pub(crate) fn checkpoint(&self, number: u64) -> Path {
        self.checkpoints().join(format!("{number:0NUMBER_DIGITS$}"))
    }

    /// The prefix of all checkpoints.
    pub(crate) fn checkpoints(&self) -> Path {
        self.prefix.clone().join("checkpoints")
    }

    /// The number in the key of a commit or a checkpoint.
    pub(crate) fn number(key: &Path) -> Option<u64> {
        let name = key.filename()?;
        let number = if name.len() == NUMBER_DIGITS { name.parse().ok()? } else { return None };
        (number <= MAX_NUMBER).then_some(number)
    }

    /// The prefix of all contents, packs and runs.
    pub(crate) fn contents(&self) -> Path {
        self.prefix.clone().join("contents")
    }

    /// The object of a name from the log or a checkpoint, which is relative to [`contents`](Self::contents).
    pub(crate) fn content(&self, name: &str) -> Result<Path, Error> {
        Path::parse(format!("{}/{name}", self.contents()))
    }

    /// The name of the object for the contents of `path`. `unique` distinguishes it from all others. The path is for
    /// people who browse the bucket, and is shortened if it is too long. A rename does not change it.
    pub(crate) fn name_for(&self, path: &MemoryPath, unique: &str) -> String {
        let room = MAX_KEY_BYTES.saturating_sub(self.contents().as_ref().len() + "files//".len() + unique.len());
        let mut name = "files/".to_owned();
        for segment in path.segments().take(MAX_KEY_NAMES) {
            if name.len() + segment.len() + 1 > room {
                break;
            }
            name.push_str(segment);
            name.push('/');
        }
        name + unique
    }

    /// The name of the object for the contents of a record.
    pub(crate) fn name_for_record(unique: &str) -> String {
        format!("records/{unique}")
    }

    /// The name of the object for the contents of many small files.
    pub(crate) fn name_for_pack(unique: &str) -> String {
        format!("packs/{unique}")
    }

    /// The name of the object for a part of a checkpoint.
    pub(crate) fn name_for_run(unique: &str) -> String {
        format!("runs/{unique}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_a_number_if_there_can_be_a_next_one() {
        let keys = Keys::new(Path::from("prefix"));
        for number in [0, 1, 12_345, MAX_NUMBER] {
            assert_eq!(Keys::number(&keys.commit(number)), Some(number));
            assert_eq!(Keys::number(&keys.checkpoint(number)), Some(number));
        }
        for other in [keys.commit(MAX_NUMBER + 1), keys.commit(u64::MAX), Path::from("log/1"), Path::from("log/x")] {
            assert_eq!(Keys::number(&other), None);
        }
    }
}
