//! Types of arguments and their values, for all modules.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use memory_tool::store::Moment;
use memory_tool::{MemoryPath, PathError, StoreUrl, expand_home};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::memory;
use crate::terminal::output::count;

/// Parses a path of the host, in which `~` is the home directory.
pub fn host_path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(expand_home)
}

/// A path of the memory. A path without a slash at its start is under `/memories`. As its name may be in the path too,
/// `./memories` is the file or directory of that name.
pub(crate) fn memory_path(given: &str) -> Result<MemoryPath, String> {
    let full = match given {
        "." | "./" | "memories" | "memories/" => "/memories".to_owned(),
        _ if given.is_empty() || given.starts_with('/') => given.to_owned(),
        _ if given.starts_with("memories/") => format!("/{given}"),
        _ => format!("/memories/{}", given.strip_prefix("./").unwrap_or(given)),
    };
    MemoryPath::parse(&full).map_err(|error| match intended(given) {
        Some(meant) => format!("{error}; did you mean {meant}?"),
        None => error.to_string(),
    })
}

/// The path under `/memories` that a path without it means.
pub(crate) fn intended(path: &str) -> Option<MemoryPath> {
    let Err(PathError::OutsideMemories { .. }) = MemoryPath::parse(path) else { return None };
    let name = path.strip_prefix("./").unwrap_or(path).trim_start_matches('/');
    let name = name.strip_prefix("memories/").unwrap_or(name);
    MemoryPath::parse(&format!("/memories/{name}")).ok().filter(|path| !path.is_root())
}

/// A time of whole seconds means the end of its second, because the history is printed with such times, rounded down.
const REST_OF_A_SECOND: Duration = Duration::from_nanos(999_999_999);

/// An entry of the history.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Point {
    Entry(u64),
    /// The newest entry that is not after this time.
    Time(SystemTime),
    /// The newest entry.
    Now,
}

impl FromStr for Point {
    type Err = &'static str;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        if given == "now" {
            return Ok(Self::Now);
        }
        if let Ok(number) = given.parse() {
            return Ok(Self::Entry(number));
        }
        let expected = "expected the number of an entry, a time such as 2026-11-26T10:00:00Z, or an age such as 24h";
        let time = given.parse::<Moment>().map(SystemTime::from).map_err(|_| expected)?;
        Ok(Self::Time(if given.contains('.') { time } else { time + REST_OF_A_SECOND }))
    }
}

/// A side of a comparison.
#[derive(Clone, Debug)]
pub(crate) enum Side {
    Point(Point),
    /// A store, an archive or an exported directory.
    Store(StoreUrl),
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Point(Point::Entry(number)) => number.fmt(f),
            Self::Point(Point::Time(time)) => humantime::format_rfc3339_seconds(*time).fmt(f),
            Self::Point(Point::Now) => f.write_str("now"),
            Self::Store(url) => url.fmt(f),
        }
    }
}

/// Parses a side. A file with the name of a moment is written with a slash, such as `./24h`.
pub(crate) fn side() -> impl TypedValueParser<Value = Side> {
    OsStringValueParser::new().try_map(|given| match given.to_str().and_then(|given| given.parse().ok()) {
        Some(point) => Ok(Side::Point(point)),
        None => memory::parse_url(&given).map(Side::Store),
    })
}

/// The maximum output of one `view` in characters (`[V8]`). `None`, written `none`, is no maximum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ViewCap(pub(crate) Option<usize>);

impl fmt::Display for ViewCap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(characters) => characters.fmt(f),
            None => f.write_str("none"),
        }
    }
}

impl FromStr for ViewCap {
    type Err = &'static str;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        match (given, given.parse::<NonZeroUsize>()) {
            ("none", _) => Ok(Self(None)),
            (_, Ok(number)) => Ok(Self(Some(number.get()))),
            (_, Err(_)) => Err("expected a number from 1 up, or `none`"),
        }
    }
}

/// An age or a time limit, written as a whole number with a unit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Age(pub(crate) Duration);

impl Age {
    /// The units with their lengths in seconds, the longest first.
    const UNITS: [(char, u64); 4] = [('d', 24 * 60 * 60), ('h', 60 * 60), ('m', 60), ('s', 1)];

    /// In words, because `m` could also mean months.
    pub(crate) fn in_words(self) -> String {
        let (mut seconds, mut words) = (self.0.as_secs(), Vec::new());
        for (name, (_, length)) in ["day", "hour", "minute", "second"].into_iter().zip(Self::UNITS) {
            let number = seconds / length;
            seconds %= length;
            if number > 0 {
                words.push(count(number, name));
            }
        }
        if words.is_empty() { count(0, "second") } else { words.join(" ") }
    }
}

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        // At least two of a unit, so that a day is 24h.
        let is_whole = |length: u64| seconds > length && seconds.is_multiple_of(length);
        let mut whole = Self::UNITS.into_iter().filter(|(_, length)| is_whole(*length));
        let (unit, length) = whole.next().unwrap_or(('s', 1));
        write!(f, "{}{unit}", seconds / length)
    }
}

impl FromStr for Age {
    type Err = &'static str;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        let mut units = Self::UNITS.into_iter();
        let (number, length) = units
            .find_map(|(unit, length)| given.strip_suffix(unit).map(|number| (number, length)))
            .filter(|(number, _)| number.bytes().all(|byte| byte.is_ascii_digit()))
            .ok_or("expected a whole number with a unit, such as 90s, 15m, 24h or 7d")?;
        let seconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(length));
        seconds.map(Duration::from_secs).map(Self).ok_or("the number is missing or too large")
    }
}

/// The value with this name in JSON. The error lists all names.
pub fn by_name<T: DeserializeOwned>(given: &str) -> Result<T, String> {
    serde_json::from_value(Value::from(given)).map_err(|error| error.to_string())
}

/// The options of writing files to a store.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct WritingArgument {
    /// Overwrite files with other contents
    #[arg(long)]
    pub(crate) overwrite: bool,

    /// Report the changes without making them
    ///
    /// Policies apply. Errors that only the storage detects, such as a full disk, are not reported.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Converts the directory to the start of the names in an archive.
pub(crate) fn directory_of_a_source(given: &str) -> Result<String, &'static str> {
    let name = given.strip_prefix("./").unwrap_or(given).trim_end_matches('/');
    if name.is_empty() || name == "." { Err("not a directory of SOURCE") } else { Ok(name.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_may_lack_its_root() {
        for (given, path) in [
            ("/memories/a/", "/memories/a"),
            ("a", "/memories/a"),
            ("./a/b/", "/memories/a/b"),
            ("memories/a", "/memories/a"),
            ("memories", "/memories"),
            ("./memories", "/memories/memories"),
            ("./memories/a", "/memories/memories/a"),
            ("memoriesX", "/memories/memoriesX"),
            (".a", "/memories/.a"),
            (".", "/memories"),
        ] {
            assert_eq!(memory_path(given), Ok(path.parse().unwrap()), "{given}");
        }
        let of_host = memory_path("/etc/passwd").unwrap_err();
        assert_eq!(of_host, "Path must start with /memories, got: /etc/passwd; did you mean /memories/etc/passwd?");
        for given in ["", "/", "..", "../a", "a/../b", "a//b", "././a", "a\n", "C:\\a"] {
            assert!(memory_path(given).is_err(), "{given}");
        }
    }

    #[test]
    fn an_age_is_a_whole_number_with_a_unit() {
        for (given, seconds) in [("0s", 0), ("90s", 90), ("15m", 900), ("24h", 86_400), ("7d", 604_800)] {
            assert_eq!(given.parse(), Ok(Age(Duration::from_secs(seconds))), "{given}");
        }
        for given in ["", "24", "h", "1.5h", "+1h", "-1h", " 1h", "1 h", "1H", "1w", "1h30m", "999999999999999999d"] {
            assert!(given.parse::<Age>().is_err(), "{given}");
        }
    }

    #[test]
    fn an_age_is_printed_as_it_was_written() {
        for age in ["0s", "1s", "60s", "90s", "15m", "24h", "25h", "7d"] {
            assert_eq!(age.parse::<Age>().unwrap().to_string(), age);
        }
    }

    #[test]
    fn a_path_without_memories_means_the_one_under_it() {
        for (given, meant) in [
            ("notes.txt", "/memories/notes.txt"),
            ("./a/b.md", "/memories/a/b.md"),
            ("/a", "/memories/a"),
            ("memories/a", "/memories/a"),
            ("/memoriesX/a", "/memories/memoriesX/a"),
        ] {
            assert_eq!(intended(given), Some(meant.parse().unwrap()), "{given}");
        }
        for given in ["/memories", "/memories/a", "../a", "a//b", "", "/", "./", "a\n", "/memories/../a"] {
            assert_eq!(intended(given), None, "{given}");
        }
    }
}
