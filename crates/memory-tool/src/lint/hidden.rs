//! Text that must not be in a memory: `secret` and `invisible`.

use std::sync::LazyLock;

use memory_tool_core::{StorePath, is_unprintable};
use memory_tool_policies::SensitiveData;

use crate::lint::{Findings, Lines, LintRule};

/// Compiled once.
static SECRETS: LazyLock<SensitiveData> = LazyLock::new(SensitiveData::new);

pub(super) fn has_secret(text: &str) -> bool {
    !SECRETS.findings(text).is_empty()
}

pub(super) fn check(path: &StorePath, text: &str, findings: &mut Findings<'_>) {
    if findings.is_on(LintRule::Secret) {
        let mut lines = Lines::new(text);
        for found in SECRETS.findings(text) {
            let message = format!("the line has sensitive data: {}", found.detector);
            findings.add(LintRule::Secret, path, Some(lines.at(found.range.start)), message);
        }
    }
    if findings.is_on(LintRule::Invisible) && !text.is_ascii() {
        check_invisible(path, text, findings);
    }
}

/// Reports the first invisible character of each line.
fn check_invisible(path: &StorePath, text: &str, findings: &mut Findings<'_>) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (line, number) in text.split('\n').zip(1..) {
        if let Some(found) = first_invisible(line) {
            let message = format!("the line has an invisible character, U+{:04X}", u32::from(found));
            findings.add(LintRule::Invisible, path, Some(number), message);
        }
    }
}

fn first_invisible(line: &str) -> Option<char> {
    let mut before = None;
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        let is_hidden = !character.is_ascii() && is_unprintable(character);
        if is_hidden && !before.is_some_and(|before| is_needed(before, character, characters.peek().copied())) {
            return Some(character);
        }
        if character == BLACK_FLAG {
            (0..tags_of_region(characters.clone())).for_each(|_| _ = characters.next());
        }
        before = Some(character);
    }
    None
}

const BLACK_FLAG: char = '\u{1f3f4}';
/// The longest code of a region, such as `gbsct`.
const MAX_REGION: usize = 6;

/// The number of tags after a black flag that make it the flag of a region, such as Wales. Others could be a message.
fn tags_of_region(after: impl Iterator<Item = char>) -> usize {
    let (mut letters, is_letter) = (0, |tag| matches!(tag, '\u{e0030}'..='\u{e0039}' | '\u{e0061}'..='\u{e007a}'));
    for tag in after.take(MAX_REGION + 1) {
        match tag {
            '\u{e007f}' if letters > 2 => return letters + 1,
            tag if is_letter(tag) => letters += 1,
            _ => break,
        }
    }
    0
}

/// Whether an invisible character changes how the characters around it look.
fn is_needed(before: char, character: char, after: Option<char>) -> bool {
    match character {
        '\u{fe0e}' | '\u{fe0f}' => is_emoji(before) || before.is_ascii_digit() || matches!(before, '#' | '*'),
        '\u{200d}' if is_emoji(before) || before == '\u{fe0f}' => after.is_some_and(is_emoji),
        '\u{200c}' | '\u{200d}' => is_of_joined_script(before) && !is_unprintable(before),
        _ => false,
    }
}

/// Whether a character can be a part of an emoji, including older symbols such as arrows.
fn is_emoji(character: char) -> bool {
    let is_symbol = matches!(character, '\u{2000}'..='\u{2bff}' | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}');
    (is_symbol && !is_unprintable(character)) || matches!(character, '©' | '®' | '\u{1f000}'..='\u{1faff}')
}

/// Whether letters of the script of a character join: Arabic, Syriac, N'Ko, those of India, Mongolian.
fn is_of_joined_script(character: char) -> bool {
    matches!(
        character,
        '\u{600}'..='\u{109f}' | '\u{1780}'..='\u{18af}' | '\u{a8e0}'..='\u{a8ff}' | '\u{fb50}'..='\u{fdff}'
            | '\u{fe70}'..='\u{fefc}' | '\u{11000}'..='\u{11fff}'
    )
}
