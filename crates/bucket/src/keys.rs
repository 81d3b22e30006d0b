//! [`Keys`]: the names of the objects of a store.

use memory_tool_core::StorePath;
use object_store::path::Path;

use crate::content::ContentError;
use crate::id::Id;

/// The longest key in bytes. S3, Google Cloud Storage and Azure allow 1,024 bytes or characters.
const MAX_KEY_BYTES: usize = 900;
/// The most names of a path in a key. Azure allows 254 in a key.
const MAX_KEY_NAMES: usize = 64;
/// The number of digits of a commit number in a key, so that keys sort by number.
const NUMBER_DIGITS: usize = 20;

/// The largest number of a commit, so that there is always a next one.
const MAX_NUMBER: u64 = 1 << 62;

/// The directories of a store.
const LOG: &str = "log";
const CHECKPOINTS: &str = "checkpoints";
const CONTENTS: &str = "contents";

/// The names of a store's objects, all under its prefix.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: Path,
}

impl Keys {
    pub(crate) fn new(prefix: Path) -> Self {
        Self { prefix }
    }

    /// The name in the prefix that is also the name of a directory of a store. Otherwise the objects would be among
    /// those of a store above, which could remove them.
    pub(crate) fn reserved_name(&self) -> Option<&'static str> {
        let reserved = [LOG, CHECKPOINTS, CONTENTS];
        reserved.into_iter().find(|name| self.prefix.parts().any(|part| part.as_ref() == *name))
    }

    /// The prefix of all objects of the store.
    pub(crate) fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// The prefix one level up. `None` if the store has the whole bucket.
    pub(crate) fn parent(&self) -> Option<Path> {
        let mut parts: Vec<_> = self.prefix.parts().collect();
        parts.pop()?;
        Some(parts.into_iter().collect())
    }

    /// The commit of a number.
    pub(crate) fn commit(&self, number: u64) -> Path {
        self.log().join(format!("{number:0NUMBER_DIGITS$}"))
    }

    /// The prefix of all commits.
    pub(crate) fn log(&self) -> Path {
        self.prefix.clone().join(LOG)
    }

    /// The checkpoint of the state after a commit.
    pub(crate) fn checkpoint(&self, number: u64) -> Path {
        self.checkpoints().join(format!("{number:0NUMBER_DIGITS$}"))
    }

    /// The prefix of all checkpoints.
    pub(crate) fn checkpoints(&self) -> Path {
        self.prefix.clone().join(CHECKPOINTS)
    }

    /// The number of a commit or marker with this key.
    pub(crate) fn commit_number(&self, key: &Path) -> Option<u64> {
        number_right_under(&self.log(), key)
    }

    /// The number of a checkpoint with this key.
    pub(crate) fn checkpoint_number(&self, key: &Path) -> Option<u64> {
        number_right_under(&self.checkpoints(), key)
    }

    /// The prefix of all contents, packs and runs.
    pub(crate) fn contents(&self) -> Path {
        self.prefix.clone().join(CONTENTS)
    }

    /// The object of a name from the log or a checkpoint, which is relative to [`contents`](Self::contents).
    pub(crate) fn content(&self, name: &str) -> Result<Path, ContentError> {
        Path::parse(format!("{}/{name}", self.contents())).map_err(ContentError::ImpossibleKey)
    }

    /// Whether a store writes objects with such a key under [`contents`](Self::contents).
    pub(crate) fn is_content(&self, key: &Path) -> bool {
        let Some(parts) = key.prefix_match(&self.contents()) else { return false };
        let parts: Vec<_> = parts.collect();
        let [kind, .., unique] = parts.as_slice() else { return false };
        let (kind, numbers) = (kind.as_ref(), numbers_after_id(unique.as_ref()));
        match numbers {
            Some(1) => parts.len() == 2 && ["packs", "runs", "replaced"].contains(&kind),
            Some(2) => ["files", "records"].contains(&kind) || parts.len() == 2 && kind == "packs",
            _ => false,
        }
    }

    /// The name of the object for the contents of `path`. `unique` distinguishes it from all others. The path is for
    /// people who browse the bucket, and is shortened if it is too long. A rename does not change it.
    pub(crate) fn name_for(&self, path: &StorePath, unique: &str) -> String {
        let room = MAX_KEY_BYTES.saturating_sub(self.contents().as_ref().len() + "records//".len() + unique.len());
        let mut name = if path.is_record() { "records/" } else { "files/" }.to_owned();
        for segment in path.segments().take(MAX_KEY_NAMES) {
            if name.len() + segment.len() + 1 > room {
                break;
            }
            name.push_str(segment);
            name.push('/');
        }
        name + unique
    }

    /// The name of the object for the contents of many small files.
    pub(crate) fn name_for_pack(unique: &str) -> String {
        format!("packs/{unique}")
    }

    /// The name of the copy of a commit that a repair replaced.
    pub(crate) fn name_for_replaced(repair: &Id, number: u64) -> String {
        format!("replaced/{repair}-{number}")
    }

    /// The prefix of all runs.
    pub(crate) fn runs(&self) -> Path {
        self.contents().join("runs")
    }

    /// The name of the object for a part of a checkpoint.
    pub(crate) fn name_for_run(unique: &str) -> String {
        format!("runs/{unique}")
    }
}

/// The number that is the whole name of a key in a directory.
fn number_right_under(directory: &Path, key: &Path) -> Option<u64> {
    let mut parts = key.prefix_match(directory)?;
    let (Some(name), None) = (parts.next(), parts.next()) else { return None };
    let name = name.as_ref();
    let is_number = name.len() == NUMBER_DIGITS && name.bytes().all(|byte| byte.is_ascii_digit());
    name.parse().ok().filter(|number| is_number && *number <= MAX_NUMBER)
}

fn numbers_after_id(unique: &str) -> Option<usize> {
    let (id, numbers) = unique.split_once('-')?;
    let is_number = |text: &str| text.parse::<u64>().is_ok_and(|number| number.to_string() == text);
    (Id::try_from(id.to_owned()).is_ok() && numbers.split('-').all(is_number)).then(|| numbers.split('-').count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_a_number_if_there_can_be_a_next_one() {
        let keys = Keys::new(Path::from("prefix"));
        for number in [0, 1, 12_345, MAX_NUMBER] {
            assert_eq!(keys.commit_number(&keys.commit(number)), Some(number));
            assert_eq!(keys.checkpoint_number(&keys.checkpoint(number)), Some(number));
            assert_eq!(keys.commit_number(&keys.checkpoint(number)), None);
        }
        let under_log = |name: &str| Path::parse(format!("prefix/log/{name}")).unwrap();
        let one = "00000000000000000001";
        let others = ["README", "1", "1.bak", "+0000000000000000007", &format!("{one}/1"), &format!("log/{one}"), ""];
        for other in
            others.map(under_log).into_iter().chain([MAX_NUMBER + 1, u64::MAX].map(|number| keys.commit(number)))
        {
            assert_eq!(keys.commit_number(&other), None, "{other}");
        }
        assert_eq!(keys.commit_number(&Path::from(format!("log/{one}"))), None);
    }

    #[test]
    fn only_keys_of_the_shapes_that_are_written_are_contents() {
        let (keys, id) = (Keys::new(Path::from("prefix")), Id::default());
        let name_for = |path: &str| keys.name_for(&path.parse().unwrap(), &format!("{id}-1-0"));
        let written = [
            name_for("/memories/a/b"),
            name_for("/records/a/b"),
            format!("files/{id}-1-0"),
            Keys::name_for_pack(&format!("{id}-0")),
            Keys::name_for_pack(&format!("{id}-2-0")),
            Keys::name_for_run(&format!("{id}-12")),
        ];
        for name in written {
            assert!(keys.is_content(&keys.content(&name).unwrap()), "{name}");
        }
        let foreign = [
            "README".to_owned(),
            "runs/README".to_owned(),
            format!("{id}-0"),
            format!("runs/{id}"),
            format!("runs/{id}-x"),
            format!("runs/{id}-01"),
            format!("runs/{id}-+1"),
            format!("runs/{id}-1-2"),
            format!("runs/a/{id}-1"),
            format!("runs/{}-1", "A".repeat(32)),
            format!("records/{id}-1"),
            format!("packs/{id}-1-2-3"),
            format!("other/{id}-1-0"),
            format!("files/a/{id}-1"),
        ];
        for name in foreign {
            assert!(!keys.is_content(&keys.content(&name).unwrap()), "{name}");
        }
        assert!(!keys.is_content(&Path::from(format!("contents/runs/{id}-0"))));
    }

    #[test]
    fn names_of_directories_are_reserved() {
        for (prefix, reserved) in [
            ("", None),
            ("logs/a", None),
            ("a/log", Some("log")),
            ("checkpoints/a", Some("checkpoints")),
            ("a/contents/files", Some("contents")),
        ] {
            assert_eq!(Keys::new(Path::from(prefix)).reserved_name(), reserved, "{prefix}");
        }
    }
}
