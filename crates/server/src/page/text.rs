//! How pages show names, sizes, times and lines.

use std::time::SystemTime;

use memory_tool::store::escape_unprintable;

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

/// A time in UTC, to the second.
pub(super) fn time(time: Option<SystemTime>) -> String {
    time.map_or_else(String::new, |time| humantime::format_rfc3339_seconds(time).to_string().replace('T', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_become_visible() {
        assert_eq!(visible("a\tb\nc\u{202e}d\u{7}"), "a\tb\nc\\u{202e}d\\u{7}");
    }

    #[test]
    fn sizes_are_rounded_up() {
        let sizes = [0, 1, 1_023, 1_025, 5 * 1_048_576].map(size);
        assert_eq!(sizes, ["0 bytes", "1 byte", "1023 bytes", "2 KiB", "5.0 MiB"]);
    }
}
