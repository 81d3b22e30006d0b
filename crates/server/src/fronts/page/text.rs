//! How pages show names, sizes, times and lines.

use std::fmt::{self, Write as _};
use std::time::SystemTime;

use askama::filters::HtmlSafe;
use memory_tool::store::escape_unprintable;

use crate::http::error;

/// A text with its invisible and control characters in a visible form, apart from tabs and line feeds.
pub(super) fn visible(text: &str) -> String {
    let lines = text.split('\n').map(|line| line.split('\t').map(escape_unprintable).collect::<Vec<_>>().join("\t"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The last name of a path.
pub(super) fn name_of(path: &str) -> String {
    visible(path.rsplit('/').next().unwrap_or(path))
}

pub(super) fn size(bytes: u64) -> String {
    match bytes {
        1 => "1 byte".to_owned(),
        0..1_024 => format!("{bytes} bytes"),
        1_024..1_048_576 => format!("{} KiB", bytes.div_ceil(1_024)),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}

/// The key by which people sort names: `2.md` is before `10.md`, and `a` before `B`.
pub(super) fn natural_key(name: &str) -> (Vec<(bool, usize, String)>, String) {
    let lower = name.to_lowercase();
    let mut rest = lower.as_str();
    let mut parts = Vec::new();
    while let Some(first) = rest.chars().next() {
        let is_number = first.is_ascii_digit();
        let end = rest.find(|letter: char| letter.is_ascii_digit() != is_number).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        let part = if is_number { part.trim_start_matches('0') } else { part };
        parts.push((!is_number, if is_number { part.len() } else { 0 }, part.to_owned()));
        rest = after;
    }
    (parts, name.to_owned())
}

/// A time to the minute: an element that has it in UTC, and that the script shows in the time zone of the reader. An
/// unknown time is empty.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Time {
    /// For browsers, such as `2026-11-27T09:05:00Z`.
    full: String,
    /// The day, such as `27 Nov 2026`.
    pub(super) day: String,
    /// The time of day, such as `09:05 UTC`.
    clock: String,
}

impl Time {
    /// Times before 1970 and after 9999 are unknown.
    pub(super) fn of(time: impl Into<Option<SystemTime>>) -> Self {
        time.into().and_then(Self::known).unwrap_or_default()
    }

    fn known(time: SystemTime) -> Option<Self> {
        const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        time.duration_since(SystemTime::UNIX_EPOCH).ok()?; // `format_rfc3339_seconds` would panic
        let mut full = String::new();
        write!(full, "{}", humantime::format_rfc3339_seconds(time)).ok()?;
        let (day, clock) = full.split_once('T')?;
        let mut parts = day.splitn(3, '-');
        let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
        let month = MONTHS.get(month.parse::<usize>().ok()?.checked_sub(1)?)?;
        let (day, clock) =
            (format!("{} {month} {year}", day.trim_start_matches('0')), format!("{} UTC", clock.get(..5)?));
        Some(Self { full, day, clock })
    }

    /// The day and time, for a part of a page that has no elements.
    pub(super) fn in_words(&self) -> String {
        format!("{}, {}", self.day, self.clock)
    }

    /// The time of day, below a heading with the day.
    pub(super) fn clock(&self) -> Element {
        Element(format!("<time datetime=\"{}\" data-day=\"{}\">{}</time>", self.full, self.day, self.clock))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.full.as_str() {
            "" => Ok(()),
            full => write!(f, "<time datetime=\"{full}\">{}</time>", self.in_words()),
        }
    }
}

impl HtmlSafe for Time {}

/// An element of a page.
#[derive(Debug)]
pub(super) struct Element(String);

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl HtmlSafe for Element {}

/// A message of an error as a sentence.
pub(super) fn sentence(message: &str) -> String {
    error::sentence(&visible(message))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn invisible_characters_become_visible() {
        assert_eq!(visible("a\tb\nc\u{202e}d\u{7}"), "a\tb\nc\\u{202e}d\\u{7}");
    }

    #[test]
    fn times_are_in_words() {
        let at = |seconds| Time::of(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        let shown = "<time datetime=\"2026-11-27T09:05:00Z\">27 Nov 2026, 09:05 UTC</time>";
        assert_eq!(at(1_795_770_300).to_string(), shown);
        let clock = "<time datetime=\"1970-01-01T00:00:00Z\" data-day=\"1 Jan 1970\">00:00 UTC</time>";
        assert_eq!(at(0).clock().to_string(), clock);
        let year_12000 = SystemTime::UNIX_EPOCH + Duration::from_secs(316_516_896_000);
        let before_1970 = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        let unknown = [None, Some(year_12000), Some(before_1970)].map(|time| Time::of(time).to_string());
        assert_eq!(unknown, ["", "", ""]);
    }

    #[test]
    fn names_are_in_natural_order() {
        let names = ["", "1", "02", "2", "2.md", "10.md", "a", "a2b", "a10b", "B", "é"];
        assert!(names.is_sorted_by_key(|name| natural_key(name)));
    }

    #[test]
    fn messages_are_sentences() {
        assert_eq!(["nothing differs", "été.", ""].map(sentence), ["Nothing differs.", "Été.", "."]);
    }

    #[test]
    fn sizes_are_rounded_up() {
        let sizes = [0, 1, 1_023, 1_025, 5 * 1_048_576].map(size);
        assert_eq!(sizes, ["0 bytes", "1 byte", "1023 bytes", "2 KiB", "5.0 MiB"]);
    }
}
