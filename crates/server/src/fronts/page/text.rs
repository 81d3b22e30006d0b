//! How pages show names, sizes, times and lines.

use std::fmt::Write as _;
use std::time::SystemTime;

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

/// A time in UTC, to the minute.
pub(super) fn time(time: Option<SystemTime>) -> String {
    let shown = time.and_then(day_and_clock).map(|(day, clock)| format!("{day}, {clock}"));
    shown.unwrap_or_default()
}

/// The day and the time of day in UTC, such as `27 Nov 2026` and `09:05 UTC`. `None` before 1970 and after 9999.
pub(super) fn day_and_clock(time: SystemTime) -> Option<(String, String)> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    time.duration_since(SystemTime::UNIX_EPOCH).ok()?; // `format_rfc3339_seconds` would panic
    let mut full = String::new();
    write!(full, "{}", humantime::format_rfc3339_seconds(time)).ok()?;
    let (day, clock) = full.split_once('T')?;
    let mut parts = day.splitn(3, '-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let month = MONTHS.get(month.parse::<usize>().ok()?.checked_sub(1)?)?;
    Some((format!("{} {month} {year}", day.trim_start_matches('0')), format!("{} UTC", clock.get(..5)?)))
}

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
        let times = [0, 1_795_770_300].map(|seconds| time(Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))));
        assert_eq!(times, ["1 Jan 1970, 00:00 UTC", "27 Nov 2026, 09:05 UTC"]);
        let year_12000 = SystemTime::UNIX_EPOCH + Duration::from_secs(316_516_896_000);
        let before_1970 = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!([None, Some(year_12000), Some(before_1970)].map(time), ["", "", ""]);
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
