//! How refused input is quoted in an error: printable and short.

use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

/// Longer quotations are cut. A legal path always fits.
pub(crate) const MAX_ECHO_BYTES: usize = crate::path::MAX_PATH_BYTES;

/// Refused input as an error quotes it: whole where a legal path would be, else its beginning and an ellipsis, with
/// unprintable characters escaped.
pub(crate) fn echo(text: &str) -> String {
    if text.len() <= MAX_ECHO_BYTES {
        return escape_unprintable(text);
    }
    format!("{}…", escape_unprintable(&text[..text.floor_char_boundary(MAX_ECHO_BYTES)]))
}

/// The text with each unprintable character as an escape such as `\n` or `\u{202e}`.
pub(crate) fn escape_unprintable(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if is_unprintable(character) {
            escaped.extend(character.escape_default());
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// Whether it is a control or format character, or one of the two separators that break a line: each could forge or hide a line of
/// a reply or a log, so no path has any (`[P2]`).
#[must_use]
pub fn is_unprintable(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_control();
    }
    matches!(
        character.general_category(),
        GeneralCategory::Control
            | GeneralCategory::Format
            | GeneralCategory::LineSeparator
            | GeneralCategory::ParagraphSeparator
    )
}
