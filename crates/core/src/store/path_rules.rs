//! The rules for the names in a path, and [`PathError`].

use percent_encoding::percent_decode;
use unicode_normalization::is_nfc;

use crate::store::quote::{MAX_QUOTED_BYTES, escape_unprintable, is_unprintable, quote};

/// The path of the directory of all files.
pub(crate) const MEMORIES: &str = "/memories";

/// The maximum length of a path in bytes, including `/memories` (`[P2]`).
pub const MAX_PATH_BYTES: usize = 1_024;
/// The maximum length of a segment, which is one name between slashes, in bytes (`[P2]`).
pub const MAX_SEGMENT_BYTES: usize = 255;

const _: () = assert!(MAX_PATH_BYTES <= MAX_QUOTED_BYTES, "errors must quote legal paths completely");

/// An invalid path. The message is safe to show to the model: unprintable characters are escaped.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// The path is the empty string (`[P2]`).
    #[error("Path must not be empty. Paths start with /memories.")]
    Empty,
    /// The path is not `/memories` and not under it (`[P1]`).
    #[error("Path must start with /memories, got: {path}")]
    OutsideMemories {
        /// The invalid path.
        path: String,
    },
    /// The path of a record has another form than a [`StorePath`](crate::StorePath) allows.
    #[error("Path {path} is not the path of a record")]
    NotARecord {
        /// The invalid path.
        path: String,
    },
    /// The path contains `..`, a backslash or a percent-encoded traversal (`[P2]`).
    #[error("Path {path} would escape /memories directory")]
    Traversal {
        /// The invalid path.
        path: String,
    },
    /// The path contains a `.` segment (`[P2]`).
    #[error("Path {path} contains a `.` segment. Remove it.")]
    DotSegment {
        /// The invalid path.
        path: String,
    },
    /// The path contains two consecutive slashes (`[P3]`).
    #[error("Path {path} contains an empty segment. Use a single slash between names.")]
    EmptySegment {
        /// The invalid path.
        path: String,
    },
    /// The name passed to [`MemoryPath::join`](crate::MemoryPath::join) contains a slash.
    #[error("The name {name} contains a slash")]
    NotASegment {
        /// The invalid name.
        name: String,
    },
    /// The path contains an [unprintable](is_unprintable) character (`[P2]`).
    #[error("Path {path} contains the unprintable character {character}. Remove it.")]
    UnprintableCharacter {
        /// The invalid path, escaped.
        path: String,
        /// The character, such as `U+202E`.
        character: String,
    },
    /// The path is not in Unicode Normalization Form C (`[P2]`).
    #[error("Path {path} is not in Unicode Normalization Form C (NFC). Use precomposed accented characters.")]
    NotNormalized {
        /// The invalid path.
        path: String,
    },
    /// A segment is longer than [`MAX_SEGMENT_BYTES`] (`[P2]`).
    #[error("Path {path} contains a name of {length} bytes. A name may have up to {MAX_SEGMENT_BYTES} bytes.")]
    SegmentTooLong {
        /// The invalid path.
        path: String,
        /// The length of the segment in bytes.
        length: usize,
    },
    /// The path is longer than [`MAX_PATH_BYTES`] (`[P2]`).
    #[error("Path {path} has {length} bytes. A path may have up to {MAX_PATH_BYTES} bytes.")]
    TooLong {
        /// The beginning of the path.
        path: String,
        /// The length of the path in bytes.
        length: usize,
    },
}

/// Splits a path at its slashes. An array pattern is faster here than a `char`: it compiles to a simple loop, and the
/// search for a `char` is optimized for long strings.
pub(crate) fn split_names(path: &str) -> impl DoubleEndedIterator<Item = &str> + Clone {
    path.split(['/'])
}

/// Checks a path under `/memories`, and returns its canonical form.
pub(crate) fn check_path(given: &str) -> Result<&str, PathError> {
    let canonical = given.strip_suffix('/').unwrap_or(given);
    check_names(given, canonical, names_after_root(given, canonical)?)?;
    Ok(canonical)
}

/// Checks the start of the path (`[P1]`), and returns the names after it.
fn names_after_root<'a>(
    given: &str,
    canonical: &'a str,
) -> Result<impl Iterator<Item = &'a str> + Clone + use<'a>, PathError> {
    if given.is_empty() {
        return Err(PathError::Empty);
    }
    match canonical.strip_prefix(MEMORIES) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => Ok(split_names(rest).skip(1)),
        _ => Err(PathError::OutsideMemories { path: quote(given) }),
    }
}

/// Checks the `names` of a path. All its other names are legal.
pub(crate) fn check_names<'a>(
    given: &str,
    canonical: &str,
    names: impl Iterator<Item = &'a str> + Clone,
) -> Result<(), PathError> {
    refuse_traversal(given, canonical, names.clone())?;
    for name in names {
        check_segment(given, name)?;
    }
    if !canonical.is_ascii() && !is_nfc(canonical) {
        return Err(PathError::NotNormalized { path: escape_unprintable(given) });
    }
    Ok(())
}

fn refuse_traversal<'a>(
    given: &str,
    canonical: &str,
    mut names: impl Iterator<Item = &'a str>,
) -> Result<(), PathError> {
    let traversal = || PathError::Traversal { path: quote(given) };
    if canonical.contains('\\') || names.any(|name| name == "..") {
        return Err(traversal());
    }
    refuse_too_long(canonical)?; // before decoding, whose cost is quadratic in the length
    if has_encoded_traversal(canonical) {
        return Err(traversal());
    }
    Ok(())
}

pub(crate) fn refuse_too_long(canonical: &str) -> Result<(), PathError> {
    if canonical.len() > MAX_PATH_BYTES {
        return Err(PathError::TooLong { path: quote(canonical), length: canonical.len() });
    }
    Ok(())
}

/// Whether repeated percent-decoding produces a `.`, `/` or `\`.
fn has_encoded_traversal(path: &str) -> bool {
    if !path.contains('%') {
        return false;
    }
    let dangerous = |bytes: &[u8]| bytes.iter().filter(|byte| matches!(byte, b'.' | b'/' | b'\\')).count();
    let mut current = path.as_bytes().to_vec();
    loop {
        // Decoding consumes only `%` and hexadecimal digits, so a higher count means that it produced such a byte.
        let decoded: Vec<u8> = percent_decode(&current).collect();
        if dangerous(&decoded) > dangerous(&current) {
            return true;
        }
        if decoded.len() == current.len() {
            return false;
        }
        current = decoded;
    }
}

fn check_segment(given: &str, segment: &str) -> Result<(), PathError> {
    let path = || escape_unprintable(given);
    if segment.is_empty() {
        return Err(PathError::EmptySegment { path: path() });
    }
    if segment == "." {
        return Err(PathError::DotSegment { path: path() });
    }
    if let Some(character) = segment.chars().find(|&character| is_unprintable(character)) {
        let character = format!("U+{:04X}", u32::from(character));
        return Err(PathError::UnprintableCharacter { path: path(), character });
    }
    if segment.len() > MAX_SEGMENT_BYTES {
        return Err(PathError::SegmentTooLong { path: path(), length: segment.len() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traversal_is_detected_at_any_depth_of_encoding() {
        for encoded in ["%2e", "%2E", "%2f", "%5C", "%252e", "%25252F", "%25%32%65", "%%32%65"] {
            assert!(has_encoded_traversal(encoded), "{encoded}");
        }
        for harmless in ["100%", "100%.txt", "%41", "%2", "%zz", "%25", "a%20b"] {
            assert!(!has_encoded_traversal(harmless), "{harmless}");
        }
    }
}
