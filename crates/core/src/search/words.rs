//! [`words`]: the words of a pattern, as regular expressions.

use std::collections::BTreeMap;
use std::iter;
use std::ops::RangeInclusive;

use unicode_normalization::UnicodeNormalization as _;

/// The blocks with letters that have accents: Latin, Greek and Cyrillic.
const ACCENTED: [RangeInclusive<char>; 5] = [
    '\u{c0}'..='\u{24f}',
    '\u{370}'..='\u{3ff}',
    '\u{400}'..='\u{4ff}',
    '\u{1e00}'..='\u{1eff}',
    '\u{1f00}'..='\u{1fff}',
];
/// The accents of a letter, as separate characters.
const MARKS: &str = "[\u{300}-\u{36f}]*";
/// Endings of English words. Without them, a word is found in more of its forms.
const ENDINGS: [&str; 4] = ["ing", "ed", "es", "s"];
/// The least letters before an ending.
const MIN_STEM: usize = 4;
/// The least digits of a number that is found with other separators.
const MIN_DIGITS: usize = 5;
/// The separators in a number, for example of a phone.
const SEPARATORS: &str = "-/ ().\u{a0}";

/// A word of a pattern, as two regular expressions in which upper and lower case are equal.
#[derive(Debug, PartialEq)]
pub(super) struct Expression {
    /// For ASCII text. `None` if it never matches there.
    pub(super) ascii: Option<String>,
    /// For any text.
    pub(super) full: String,
}

/// Splits a pattern into its words and quoted phrases.
pub(super) fn split(pattern: &str) -> Vec<(bool, &str)> {
    const QUOTES: [char; 4] = ['"', '“', '”', '„'];
    let mut words = Vec::new();
    let mut rest = pattern.trim_start();
    while !rest.is_empty() {
        let quoted = rest.strip_prefix(QUOTES).and_then(|quoted| quoted.split_once(QUOTES));
        let (is_phrase, word, after) = match quoted {
            Some((phrase, after)) => (true, phrase.trim(), after),
            None => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                (false, &rest[..end], &rest[end..])
            }
        };
        if !word.is_empty() {
            words.push((is_phrase, word));
        }
        rest = after.trim_start();
    }
    words
}

/// The expressions of words and phrases in which accents do not matter.
pub(super) fn expressions(words: &[(bool, &str)]) -> Vec<Expression> {
    let variants = accented_variants(words.iter().flat_map(|(_, word)| base_letters(word)));
    let escaped = |letter: char| regex::escape(letter.encode_utf8(&mut [0; 4]));
    let full = |letter: char| match variants.get(&letter) {
        _ if letter == 'ß' => "(?:ß|ss)".to_owned(),
        Some(variants) => format!("[{letter}{variants}]{MARKS}"),
        None => escaped(letter),
    };
    let of_word = |(is_phrase, word): &(bool, &str)| {
        let word: String = base_letters(word).collect();
        let word = if *is_phrase { &word } else { without_ending(&word) };
        let (double, single) = (word.replace('ß', "ss"), word.replace("ss", "ß"));
        let ascii = double.is_ascii().then(|| expression(&double, escaped));
        Expression { ascii, full: expression(&single, full) }
    };
    words.iter().map(of_word).collect()
}

/// The expression that finds any of these.
pub(super) fn any(expressions: &[Expression]) -> Expression {
    let ascii: Vec<_> = expressions.iter().filter_map(|expression| expression.ascii.as_deref()).collect();
    let full: Vec<_> = expressions.iter().map(|expression| &*expression.full).collect();
    Expression { ascii: (!ascii.is_empty()).then(|| ascii.join("|")), full: full.join("|") }
}

/// The accented variants of letters, in lower case.
fn accented_variants(letters: impl Iterator<Item = char>) -> BTreeMap<char, String> {
    let mut variants: BTreeMap<_, _> = letters.map(|letter| (letter, String::new())).collect();
    for accented in ACCENTED.into_iter().flatten() {
        let mut parts = iter::once(accented).nfd();
        let base = parts.next().filter(|_| parts.next().is_some());
        if let Some(variants) = base.and_then(|base| variants.get_mut(&base)) {
            variants.push(accented);
        }
    }
    variants.retain(|_, variants| !variants.is_empty());
    variants
}

/// The characters in lower case and without accents.
fn base_letters(word: &str) -> impl Iterator<Item = char> {
    word.nfd().filter(|letter| !('\u{300}'..='\u{36f}').contains(letter)).flat_map(char::to_lowercase)
}

/// A word of English letters without its ending.
fn without_ending(word: &str) -> &str {
    let is_word = word.bytes().all(|byte| byte.is_ascii_lowercase()) && !word.ends_with("ss");
    let stem = ENDINGS.iter().find_map(|ending| word.strip_suffix(ending).filter(|stem| stem.len() >= MIN_STEM));
    stem.filter(|_| is_word).unwrap_or(word)
}

/// The expression of a word, from the expressions of its letters.
fn expression(word: &str, of_letter: impl Fn(char) -> String) -> String {
    let is_separator = |letter: &char| SEPARATORS.contains(*letter);
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    if digits >= MIN_DIGITS
        && word.chars().all(|letter| letter.is_ascii_digit() || letter == '+' || is_separator(&letter))
    {
        let letters = word.chars().filter(|letter| !is_separator(letter)).map(of_letter);
        return letters.collect::<Vec<_>>().join(&format!("[{}]{{0,2}}", regex::escape(SEPARATORS)));
    }
    let mut letters = word.chars().peekable();
    let mut expression = String::new();
    while let Some(letter) = letters.next() {
        expression += &match letter {
            '-' => "[- \u{2010}-\u{2013}]?".to_owned(),
            '\'' | '’' => "['’]".to_owned(),
            letter if letter.is_whitespace() => {
                while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
                r"[^\S\n]+".to_owned()
            }
            letter => of_letter(letter),
        };
    }
    expression
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_make_phrases() {
        for (pattern, words) in [
            ("green  tea\t", &[(false, "green"), (false, "tea")][..]),
            ("\"green tea\" cup", &[(true, "green tea"), (false, "cup")]),
            ("„grüner Tee“ “x”", &[(true, "grüner Tee"), (true, "x")]),
            ("5\" pipe", &[(false, "5\""), (false, "pipe")]),
            ("say \"hello", &[(false, "say"), (false, "\"hello")]),
            ("\"\" a", &[(false, "a")]),
            ("\"a\"b", &[(true, "a"), (false, "b")]),
            (" ", &[]),
        ] {
            assert_eq!(split(pattern), words, "{pattern}");
        }
    }

    #[test]
    fn a_word_without_its_ending_has_four_letters() {
        for (word, stem) in [
            ("invoices", "invoic"),
            ("notes", "note"),
            ("meeting", "meet"),
            ("ring", "ring"),
            ("news", "news"),
            ("address", "address"),
            ("größen", "größen"),
        ] {
            assert_eq!(without_ending(word), stem);
        }
    }
}
