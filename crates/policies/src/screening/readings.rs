//! [`Reading`]: other texts that the bytes of a file can be read as. A value in UTF-16, or with an invisible character
//! in it, would otherwise be stored unnoticed.

use std::borrow::Cow;

/// A way to read bytes as text, other than as UTF-8.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reading {
    Utf16(fn([u8; 2]) -> u16),
    /// Leaves the ASCII characters of UTF-16 and UTF-32 in any byte order, also among other bytes.
    WithoutNul,
    /// Without characters that are not displayed, such as a soft hyphen from a web page.
    Visible,
}

impl Reading {
    /// The texts to screen in addition to the content as UTF-8. A usual text file needs only UTF-8.
    pub(super) fn all(content: &[u8]) -> impl Iterator<Item = Self> {
        let has_nul = content.contains(&0);
        let is_text = !has_nul && std::str::from_utf8(content).is_ok();
        let [is_little, is_big] =
            [u16::from_le_bytes, u16::from_be_bytes].map(|order| !is_text && is_utf16(content, order));
        let has_invisible = !content.is_ascii() && String::from_utf8_lossy(content).contains(is_invisible);
        [
            (is_little, Self::Utf16(u16::from_le_bytes)),
            (is_big, Self::Utf16(u16::from_be_bytes)),
            (has_nul, Self::WithoutNul),
            (has_invisible, Self::Visible),
        ]
        .into_iter()
        .filter_map(|(applies, reading)| applies.then_some(reading))
    }

    pub(super) fn text(self, content: &[u8]) -> String {
        match self {
            Self::Utf16(order) => {
                utf16(content, order).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
            }
            Self::WithoutNul => {
                let bytes: Vec<u8> = content.iter().copied().filter(|byte| *byte != 0).collect();
                String::from_utf8_lossy(&bytes).into_owned()
            }
            Self::Visible => utf8(content).replace(is_invisible, ""),
        }
    }
}

/// The content as UTF-8, with replacement characters.
pub(super) fn utf8(content: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(content)
}

/// Whether all bytes are valid UTF-16 in this order. Binary data soon has a surrogate without its other half.
fn is_utf16(content: &[u8], order: fn([u8; 2]) -> u16) -> bool {
    content.len().is_multiple_of(2) && utf16(content, order).all(|unit| unit.is_ok())
}

fn utf16(content: &[u8], order: fn([u8; 2]) -> u16) -> impl Iterator<Item = Result<char, std::char::DecodeUtf16Error>> {
    char::decode_utf16(content.as_chunks().0.iter().map(move |&unit| order(unit)))
}

/// Whether programs do not display the character, and people do not notice it in a value that they paste.
fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}'
    )
}
