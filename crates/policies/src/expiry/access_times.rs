//! [`AccessTimes`]: when files were last used, and the form in which that is stored.

use std::borrow::Cow;
use std::collections::BTreeMap;

use memory_tool_core::{BoxError, MemoryPath};
use serde::{Deserialize, Serialize};

/// The version of the form. Another one is not read, and so never replaced.
const FORMAT: u64 = 1;

/// When files were last used, in whole seconds since 1970.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct AccessTimes {
    by_path: BTreeMap<MemoryPath, u64>,
}

#[derive(Deserialize)]
struct Header {
    version: u64,
}

#[derive(Deserialize, Serialize)]
struct Document<'a> {
    version: u64,
    files: Cow<'a, BTreeMap<MemoryPath, u64>>,
}

impl AccessTimes {
    /// Reads what [`to_bytes`](Self::to_bytes) gave.
    ///
    /// # Errors
    /// What is wrong with the bytes, without anything that stands in them.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, &'static str> {
        const DAMAGED: &str = "the file of the access times is damaged";
        let Header { version } = serde_json::from_slice(bytes).map_err(|_| DAMAGED)?;
        if version != FORMAT {
            return Err("the file of the access times has another format");
        }
        let document: Document<'_> = serde_json::from_slice(bytes).map_err(|_| DAMAGED)?;
        Ok(Self { by_path: document.files.into_owned() })
    }

    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, BoxError> {
        Ok(serde_json::to_vec(&Document { version: FORMAT, files: Cow::Borrowed(&self.by_path) })?)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_path.is_empty()
    }

    pub(super) fn get(&self, path: &MemoryPath) -> Option<u64> {
        self.by_path.get(path).copied()
    }

    /// The recorded paths that equal `path`, lie beneath it, or stand above it, with their times.
    pub(super) fn overlapping(&self, path: &MemoryPath) -> impl Iterator<Item = (&MemoryPath, u64)> {
        let above = path.parents().filter_map(|parent| self.by_path.get_key_value(&parent));
        above.chain(self.at_or_beneath(path)).map(|(path, time)| (path, *time))
    }

    fn at_or_beneath(&self, path: &MemoryPath) -> impl Iterator<Item = (&MemoryPath, &u64)> {
        // A directory comes right before all that is beneath it.
        self.by_path.range(path..).take_while(move |(other, _)| *other == path || other.is_beneath(path))
    }

    pub(super) fn record(&mut self, path: MemoryPath, time: u64) {
        self.by_path.insert(path, time);
    }

    pub(super) fn remove(&mut self, path: &MemoryPath) {
        self.by_path.remove(path);
    }

    pub(super) fn retain(&mut self, keeps: impl Fn(&MemoryPath) -> bool) {
        self.by_path.retain(|path, _| keeps(path));
    }

    /// Takes out what is recorded at and beneath `path`.
    pub(super) fn take(&mut self, path: &MemoryPath) -> Vec<(MemoryPath, u64)> {
        let taken: Vec<_> = self.at_or_beneath(path).map(|(path, time)| (path.clone(), *time)).collect();
        for (path, _) in &taken {
            self.by_path.remove(path);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> MemoryPath {
        text.parse().unwrap()
    }

    #[test]
    fn the_form_is_json_with_a_version() {
        let mut times = AccessTimes::default();
        times.record(path("/memories/é/\"b\""), 1_800_000_000);
        let bytes = times.to_bytes().unwrap();
        assert_eq!(std::str::from_utf8(&bytes).unwrap(), r#"{"version":1,"files":{"/memories/é/\"b\"":1800000000}}"#);
        assert_eq!(AccessTimes::from_bytes(&bytes).unwrap(), times);
    }

    #[test]
    fn what_is_damaged_or_of_another_version_is_not_read() {
        for bytes in [
            "",
            "{}",
            "[]",
            r#"{"version":1}"#,
            r#"{"version":2,"files":{}}"#,
            r#"{"version":1,"files":{"/elsewhere":1}}"#,
            r#"{"version":1,"files":{"/memories/a":-1}}"#,
            r#"{"version":1,"files":{"/memories/a":1"#,
        ] {
            assert!(AccessTimes::from_bytes(bytes.as_bytes()).is_err(), "{bytes}");
        }
    }

    #[test]
    fn what_overlaps_a_path_is_found() {
        let mut times = AccessTimes::default();
        for (time, file) in
            ["/memories/a", "/memories/a/b", "/memories/a/b/c", "/memories/a-b", "/memories/b"].iter().enumerate()
        {
            times.record(path(file), time as u64);
        }
        let overlapping = |at: &str| times.overlapping(&path(at)).map(|(_, time)| time).collect::<Vec<_>>();
        assert_eq!(overlapping("/memories/a/b"), [0, 1, 2]);
        assert_eq!(overlapping("/memories/a/b/c/d"), [2, 1, 0]);
        assert_eq!(overlapping("/memories/a-"), [] as [u64; 0]);
        assert_eq!(overlapping("/memories").len(), 5);
    }
}
