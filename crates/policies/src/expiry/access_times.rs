//! [`AccessTimes`]: the last use of each file, and the stored format.

use std::collections::{BTreeMap, HashMap};

use memory_tool_core::{BoxError, StorePath};
use serde::{Deserialize, Serialize};

/// The format version. Other versions are neither read nor replaced.
const FORMAT: u64 = 1;

/// The stored size is a multiple of this. In an encrypted store, sizes are visible and would reveal the length of the
/// paths.
const PADDING_BYTES: usize = 1024;

/// The last use of each file in seconds since 1970.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct AccessTimes {
    /// A hash map, because an ordered map needs several path comparisons per file of a listing.
    by_path: HashMap<StorePath, u64>,
    /// The time since which a sweep holds back expired files because they are most files.
    pub(super) held_since: Option<u64>,
}

#[derive(Deserialize)]
struct Header {
    version: u64,
}

#[derive(Deserialize, Serialize)]
struct Document<F> {
    version: u64,
    files: F,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    held_since: Option<u64>,
}

impl AccessTimes {
    /// Parses the result of [`to_bytes`](Self::to_bytes).
    ///
    /// # Errors
    /// Returns a reason that contains no part of the data.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, &'static str> {
        const DAMAGED: &str = "the access times are damaged";
        let Header { version } = serde_json::from_slice(bytes).map_err(|_| DAMAGED)?;
        if version != FORMAT {
            return Err("the access times have an unknown format version");
        }
        let document: Document<_> = serde_json::from_slice(bytes).map_err(|_| DAMAGED)?;
        Ok(Self { by_path: document.files, held_since: document.held_since })
    }

    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, BoxError> {
        let files: BTreeMap<_, _> = self.by_path.iter().map(|(path, time)| (path.as_str(), time)).collect();
        let mut bytes = serde_json::to_vec(&Document { version: FORMAT, files, held_since: self.held_since })?;
        bytes.resize(bytes.len().next_multiple_of(PADDING_BYTES), b' ');
        Ok(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_path.is_empty()
    }

    pub(super) fn get(&self, path: &StorePath) -> Option<u64> {
        self.by_path.get(path).copied()
    }

    /// Returns the recorded paths at, under and above `path` with their times.
    pub(super) fn overlapping(&self, path: &StorePath) -> impl Iterator<Item = (&StorePath, u64)> {
        self.by_path.iter().filter(|(other, _)| other.overlaps(path)).map(|(other, time)| (other, *time))
    }

    pub(super) fn record(&mut self, path: StorePath, time: u64) {
        self.by_path.insert(path, time);
    }

    pub(super) fn remove(&mut self, path: &StorePath) {
        self.by_path.remove(path);
    }

    pub(super) fn retain(&mut self, keeps: impl Fn(&StorePath) -> bool) {
        self.by_path.retain(|path, _| keeps(path));
    }

    /// Removes and returns the entries at and under `path`.
    pub(super) fn take(&mut self, path: &StorePath) -> Vec<(StorePath, u64)> {
        self.by_path.extract_if(|other, _| other == path || other.is_under(path)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn path(text: &str) -> StorePath {
        text.parse().unwrap()
    }

    #[test]
    fn the_format_is_json_with_a_version() {
        let mut times = AccessTimes::default();
        times.record(path("/memories/é/\"b\""), 1_800_000_000);
        let bytes = times.to_bytes().unwrap();
        let text = std::str::from_utf8(&bytes).unwrap();
        assert_eq!(text.trim_end_matches(' '), r#"{"version":1,"files":{"/memories/é/\"b\"":1800000000}}"#);
        assert_eq!(bytes.len(), 1024);
        for stored in [bytes.as_slice(), text.trim_end().as_bytes()] {
            assert_eq!(AccessTimes::from_bytes(stored).unwrap(), times);
        }
        times.held_since = Some(1_800_000_100);
        assert_eq!(AccessTimes::from_bytes(&times.to_bytes().unwrap()).unwrap(), times);
    }

    #[test]
    fn from_bytes_rejects_damaged_data_and_other_versions() {
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
    fn overlapping_returns_paths_at_under_and_above() {
        let mut times = AccessTimes::default();
        for (time, file) in
            ["/memories/a", "/memories/a/b", "/memories/a/b/c", "/memories/a-b", "/memories/b"].iter().enumerate()
        {
            times.record(path(file), time as u64);
        }
        let overlapping = |at: &str| times.overlapping(&path(at)).map(|(_, time)| time).collect::<BTreeSet<_>>();
        assert_eq!(overlapping("/memories/a/b"), BTreeSet::from([0, 1, 2]));
        assert_eq!(overlapping("/memories/a/b/c/d"), BTreeSet::from([0, 1, 2]));
        assert_eq!(overlapping("/memories/a-"), BTreeSet::new());
        assert_eq!(overlapping("/memories").len(), 5);
    }
}
