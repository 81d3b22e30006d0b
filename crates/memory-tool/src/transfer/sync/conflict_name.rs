//! The name of a file with the older text of a conflict.

use std::time::SystemTime;

use memory_tool_core::{MAX_SEGMENT_BYTES, StorePath};

/// A part of the name of each such file.
const MARK: &str = " (conflict ";

/// Whether the file has the older text of a conflict, by its name.
pub(crate) fn is_conflict_copy(path: &StorePath) -> bool {
    let Some((_, rest)) = path.file_name().and_then(|name| name.split_once(MARK)) else { return false };
    let is_date = |text: &[u8]| {
        let is_digit =
            |index: usize| if matches!(index, 4 | 7) { text[index] == b'-' } else { text[index].is_ascii_digit() };
        text.len() == 10 && (0..10).all(is_digit)
    };
    rest.contains(')') && rest.as_bytes().get(..10).is_some_and(is_date)
}

/// Whether the file has an older text of another file, by its name.
pub(super) fn is_conflict_copy_of(copy: &StorePath, path: &StorePath) -> bool {
    let stem = |path: &StorePath| path.file_name().map(|name| split(name).0.to_owned());
    let of = copy.file_name().and_then(|name| name.split_once(MARK)).map(|(of, _)| of);
    is_conflict_copy(copy) && copy.parent() == path.parent() && of.is_some_and(|of| stem(path).as_deref() == Some(of))
}

/// The name without and with its extension.
fn split(name: &str) -> (&str, &str) {
    match name.rfind('.') {
        Some(dot) if dot > 0 => name.split_at(dot),
        _ => (name, ""),
    }
}

/// The path of the older text of a conflict: `a (conflict 2026-11-30 laptop).md` beside `a.md`, with a number from the
/// second one on.
pub(super) fn conflict_path(path: &StorePath, written: SystemTime, side: &str, number: usize) -> Option<StorePath> {
    let name = path.file_name()?;
    let (stem, extension) = split(name);
    let date = humantime::format_rfc3339_seconds(written).to_string();
    let number = if number > 1 { format!(" {number}") } else { String::new() };
    let mark = format!("{MARK}{} {side}{number})", date.get(..10)?);
    let room = MAX_SEGMENT_BYTES.checked_sub(mark.len() + extension.len())?;
    let stem = &stem[..stem.floor_char_boundary(room)];
    path.parent()?.join(&format!("{stem}{mark}{extension}")).ok()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn the_name_tells_date_and_side_and_stays_legal() {
        let written = UNIX_EPOCH + Duration::from_secs(1_796_000_000);
        let named = |path: &str, number| {
            let path: StorePath = path.parse().unwrap();
            let copy = conflict_path(&path, written, "laptop", number).unwrap();
            assert!(is_conflict_copy(&copy) && !is_conflict_copy(&path), "{copy}");
            copy.to_string()
        };
        assert_eq!(named("/memories/a/b.tar.md", 1), "/memories/a/b.tar (conflict 2026-11-30 laptop).md");
        assert_eq!(named("/memories/README", 2), "/memories/README (conflict 2026-11-30 laptop 2)");
        let long = named(&format!("/memories/{}.md", "é".repeat(126)), 1);
        assert!(long.ends_with("é (conflict 2026-11-30 laptop).md"), "{long}");
        for other in ["a (conflict).md", "a (conflict today).md", "a (conflict 2026-11-30", "conflict 2026-11-30 x).md"]
        {
            assert!(!is_conflict_copy(&format!("/memories/{other}").parse().unwrap()), "{other}");
        }
    }
}
