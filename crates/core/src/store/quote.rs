//! Quotes invalid input in error messages, with escaped characters and a length limit.

use std::ops::RangeInclusive;

use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

/// The maximum length of quoted input in bytes. A legal path always fits.
pub(crate) const MAX_QUOTED_BYTES: usize = 1_024;

/// Escapes unprintable characters. Input longer than [`MAX_QUOTED_BYTES`] is truncated, with an ellipsis at the end.
pub(crate) fn quote(text: &str) -> String {
    if text.len() <= MAX_QUOTED_BYTES {
        return escape_unprintable(text);
    }
    format!("{}…", escape_unprintable(&text[..text.floor_char_boundary(MAX_QUOTED_BYTES)]))
}

/// Replaces each [unprintable](is_unprintable) character by an escape such as `\n` or `\u{202e}`.
#[must_use]
pub fn escape_unprintable(text: &str) -> String {
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

/// Whether a character is a control character, a format character, a line or paragraph separator, or invisible.
///
/// Such characters could forge or hide lines of a reply or a log, or make different names look the same. Paths must not
/// contain them (`[P2]`).
#[must_use]
pub fn is_unprintable(character: char) -> bool {
    if character.is_ascii() { character.is_ascii_control() } else { is_unprintable_beyond_ascii(character) }
}

/// A separate function, so that the compiler inlines the check for ASCII.
fn is_unprintable_beyond_ascii(character: char) -> bool {
    is_default_ignorable(character)
        || matches!(
            character.general_category(),
            GeneralCategory::Control
                | GeneralCategory::Format
                | GeneralCategory::LineSeparator
                | GeneralCategory::ParagraphSeparator
        )
}

/// The characters with the property Default_Ignorable_Code_Point, from `DerivedCoreProperties.txt` of Unicode 16.0.
/// These are variation selectors, fillers, joiners and reserved code points, and are invisible.
const DEFAULT_IGNORABLE: [RangeInclusive<char>; 17] = [
    '\u{ad}'..='\u{ad}',
    '\u{34f}'..='\u{34f}',
    '\u{61c}'..='\u{61c}',
    '\u{115f}'..='\u{1160}',
    '\u{17b4}'..='\u{17b5}',
    '\u{180b}'..='\u{180f}',
    '\u{200b}'..='\u{200f}',
    '\u{202a}'..='\u{202e}',
    '\u{2060}'..='\u{206f}',
    '\u{3164}'..='\u{3164}',
    '\u{fe00}'..='\u{fe0f}',
    '\u{feff}'..='\u{feff}',
    '\u{ffa0}'..='\u{ffa0}',
    '\u{fff0}'..='\u{fff8}',
    '\u{1bca0}'..='\u{1bca3}',
    '\u{1d173}'..='\u{1d17a}',
    '\u{e0000}'..='\u{e0fff}',
];

fn is_default_ignorable(character: char) -> bool {
    DEFAULT_IGNORABLE.iter().any(|range| range.contains(&character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_unprintable_and_visible_ones_are_not() {
        for hidden in [
            '\n',
            '\u{7f}',
            '\u{85}',
            '\u{ad}',
            '\u{34f}',
            '\u{600}',
            '\u{115f}',
            '\u{1160}',
            '\u{17b4}',
            '\u{180b}',
            '\u{180e}',
            '\u{180f}',
            '\u{200d}',
            '\u{2028}',
            '\u{202e}',
            '\u{2065}',
            '\u{3164}',
            '\u{fe00}',
            '\u{fe0f}',
            '\u{ffa0}',
            '\u{fff0}',
            '\u{fff9}',
            '\u{e0001}',
            '\u{e0100}',
            '\u{e01ef}',
            '\u{e0fff}',
        ] {
            assert!(is_unprintable(hidden), "{hidden:?}");
        }
        for visible in
            [' ', '~', '\u{a0}', 'é', '\u{301}', '\u{1100}', '\u{1161}', '\u{180a}', '❤', '日', '\u{fffd}', '🧠']
        {
            assert!(!is_unprintable(visible), "{visible:?}");
        }
        assert!(DEFAULT_IGNORABLE.is_sorted_by(|one, next| one.end() < next.start()));
    }

    #[test]
    fn hidden_characters_are_escaped() {
        assert_eq!(quote("a\u{202e}b\u{fe0f}\n❤"), "a\\u{202e}b\\u{fe0f}\\n❤");
    }
}
