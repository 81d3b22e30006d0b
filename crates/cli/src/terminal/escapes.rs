//! Escapes for text that the memory, a model or a user could forge.

pub(crate) use memory_tool::store::escape_unprintable as on_one_line;
use memory_tool::store::is_unprintable;

/// Text for a terminal, in parts. Control characters and invisible ones are escaped, except line feeds and tabs: they
/// could control the terminal, or hide text that a model reads.
///
/// The invisible characters of emoji and of scripts such as Persian are kept: after a visible character, a joiner or a
/// selector of a variant.
#[derive(Debug, Default)]
pub(crate) struct TerminalText {
    /// The last character, if it was not escaped.
    previous: Option<char>,
}

impl TerminalText {
    /// The next part.
    pub(crate) fn escape(&mut self, part: &str) -> String {
        let mut escaped = String::with_capacity(part.len());
        for character in part.chars() {
            if is_unprintable(character) && !matches!(character, '\n' | '\t') && !self.is_part_of_text(character) {
                escaped.extend(character.escape_default());
                self.previous = None;
            } else {
                escaped.push(character);
                self.previous = Some(character);
            }
        }
        escaped
    }

    /// Whether the invisible character changes how the previous one looks.
    fn is_part_of_text(&self, character: char) -> bool {
        let Some(previous) = self.previous else { return false };
        let is_selector = |character| matches!(character, '\u{fe0e}' | '\u{fe0f}');
        let is_visible = !is_unprintable(previous);
        match character {
            '\u{200c}' | '\u{200d}' => is_visible && !previous.is_ascii() || is_selector(previous),
            _ if is_selector(character) => {
                is_visible && !previous.is_ascii() || previous.is_ascii_digit() || matches!(previous, '#' | '*')
            }
            _ => false,
        }
    }
}

/// A whole text for a terminal.
pub(crate) fn for_terminal(text: &str) -> String {
    TerminalText::default().escape(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(
            for_terminal("a\tb\r\n\u{1b}]52;c;eA==\u{7}\u{9d}é\u{7f}"),
            "a\tb\\r\n\\u{1b}]52;c;eA==\\u{7}\\u{9d}é\\u{7f}"
        );
    }

    #[test]
    fn invisible_characters_are_escaped() {
        let tags = ('\u{e0020}'..='\u{e007f}').chain('\u{e0100}'..='\u{e01ef}').chain('\u{202a}'..='\u{202e}');
        let others = "\u{ad}\u{34f}\u{61c}\u{200b}\u{200e}\u{2028}\u{2029}\u{2060}\u{2066}\u{3164}\u{feff}";
        for hidden in tags.chain(others.chars()) {
            for before in ["", "a", "é", "❤\u{fe0f}", "🏴"] {
                let escaped = format!("{before}{}b", hidden.escape_default());
                assert_eq!(for_terminal(&format!("{before}{hidden}b")), escaped);
            }
        }
    }

    #[test]
    fn emoji_and_joined_letters_are_kept_but_carry_no_hidden_text() {
        for text in ["👩\u{200d}🚀 ❤\u{fe0f} שלום", "❤\u{fe0f}\u{200d}🔥", "1\u{fe0f}\u{20e3}", "می\u{200c}خواهم"]
        {
            assert_eq!(for_terminal(text), text);
        }
        for (text, escaped) in [
            ("\u{200d}a", "\\u{200d}a"),
            ("a\u{200d}b", "a\\u{200d}b"),
            ("a\u{fe0f}", "a\\u{fe0f}"),
            ("❤\u{fe0f}\u{fe0e}\u{fe0f}", "❤\u{fe0f}\\u{fe0e}\\u{fe0f}"),
            ("é\u{200d}\u{200d}\u{200c}", "é\u{200d}\\u{200d}\\u{200c}"),
            ("😀\u{fe01}", "😀\\u{fe01}"),
        ] {
            assert_eq!(for_terminal(text), escaped);
        }
    }

    #[test]
    fn parts_of_a_text_are_escaped_as_the_whole() {
        let text = "👩\u{200d}🚀❤\u{fe0f}\u{fe0f}a\u{200d}\n\u{e0041}é";
        let mut parts = TerminalText::default();
        let escaped: String = text.chars().map(|character| parts.escape(&character.to_string())).collect();
        assert_eq!(escaped, for_terminal(text));
    }

    #[test]
    fn a_line_feed_is_escaped_on_one_line() {
        assert_eq!(on_one_line("a\nb\u{1b}[2Jc\u{9b}é\u{200b}\u{2028}"), "a\\nb\\u{1b}[2Jc\\u{9b}é\\u{200b}\\u{2028}");
    }
}
