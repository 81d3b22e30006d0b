//! [`Matcher`]: a checked pattern.

use std::ops::Range;

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use crate::search::words::{self, Expression};
use crate::store::error::StoreError;

/// The maximum length of a pattern in bytes.
pub const MAX_PATTERN_BYTES: usize = 4_096;
/// The maximum size of a compiled regular expression in bytes. It bounds the time per searched character.
const MAX_COMPILED_BYTES: usize = 2 * 1024 * 1024;
/// The most words of a pattern.
pub const MAX_PATTERN_WORDS: usize = 64;
/// The maximum size of compiled words, which no pattern reaches.
const MAX_COMPILED_WORDS_BYTES: usize = 64 * 1024 * 1024;
/// The size in bytes of the cache of states, from which most regular expressions are matched.
const CACHE_BYTES: usize = 4 * 1024 * 1024;

/// Whether upper and lower case differ.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LetterCase {
    /// They are equal.
    #[default]
    Ignored,
    /// They differ.
    Sensitive,
}

/// An error of a [`Search`](crate::Search). Each message is one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The pattern is empty.
    #[error("the pattern is empty")]
    EmptyPattern,
    /// The pattern contains a line feed. A match is within one line.
    #[error("the pattern contains a line break, but a match is within one line: search for a part of one line")]
    LineBreak,
    /// The pattern is longer than [`MAX_PATTERN_BYTES`].
    #[error("the pattern is {length} bytes long; the limit is {MAX_PATTERN_BYTES}")]
    PatternTooLong {
        /// The length of the pattern in bytes.
        length: usize,
    },
    /// The pattern has more than [`MAX_PATTERN_WORDS`] words.
    #[error("the pattern has {words} words; the limit is {MAX_PATTERN_WORDS}: put a phrase in double quotes")]
    TooManyWords {
        /// The number of words.
        words: usize,
    },
    /// The regular expression is invalid.
    #[error("the regular expression is invalid: {reason}")]
    InvalidRegex {
        /// The mistake and its position.
        reason: String,
    },
    /// The compiled regular expression is too large.
    #[error("the regular expression is too large: use shorter repetitions, or [a-z] instead of a class such as \\w")]
    RegexTooLarge,
    /// The store failed, or a path to search is [`StoreError::NotFound`].
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A set of the words of a pattern, as bits.
pub(super) type WordSet = u64;

/// A checked pattern: words, or a regular expression as the only one. Each is found within one line.
#[derive(Debug)]
pub(super) struct Matcher {
    words: Vec<Word>,
    any: Word,
    /// Whether a match can take long per character.
    pub(super) is_regex: bool,
    /// Whether to search each line separately, because the pattern can match only at the start or end of a file.
    pub(super) needs_single_lines: bool,
}

/// A word, or any of several.
#[derive(Clone, Debug)]
struct Word {
    /// For ASCII text. `None` if it never matches there.
    ascii: Option<Regex>,
    full: Regex,
    /// Whether it is searched in paths rather than in names.
    has_slash: bool,
}

impl Word {
    fn of(&self, text: &str) -> Option<&Regex> {
        if text.is_ascii() { self.ascii.as_ref() } else { Some(&self.full) }
    }

    fn is_in(&self, text: &str) -> bool {
        self.of(text).is_some_and(|word| word.is_match(text))
    }
}

impl Matcher {
    pub(super) fn new(pattern: &str, is_regex: bool, case: LetterCase) -> Result<Self, SearchError> {
        let parts = if is_regex { vec![(true, pattern)] } else { words::split(pattern) };
        if parts.iter().all(|(_, word)| word.is_empty()) {
            return Err(SearchError::EmptyPattern);
        }
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(SearchError::PatternTooLong { length: pattern.len() });
        }
        if pattern.contains('\n') {
            return Err(SearchError::LineBreak);
        }
        if parts.len() > MAX_PATTERN_WORDS {
            return Err(SearchError::TooManyWords { words: parts.len() });
        }
        let same = |full: String| Expression { ascii: Some(full.clone()), full };
        let expressions = match case {
            _ if is_regex => vec![same(pattern.to_owned())],
            LetterCase::Sensitive => parts.iter().map(|(_, word)| same(regex::escape(word))).collect(),
            LetterCase::Ignored => words::expressions(&parts),
        };
        let max_bytes = if is_regex { MAX_COMPILED_BYTES } else { MAX_COMPILED_WORDS_BYTES };
        let compile = |expression: &str| {
            let mut builder = RegexBuilder::new(expression);
            builder.case_insensitive(case == LetterCase::Ignored).multi_line(true).crlf(true);
            builder.size_limit(max_bytes).dfa_size_limit(CACHE_BYTES).build().map_err(invalid)
        };
        let word = |expression: &Expression, has_slash| {
            let full = compile(&expression.full)?;
            let of_ascii = |ascii: &String| if *ascii == expression.full { Ok(full.clone()) } else { compile(ascii) };
            let ascii = expression.ascii.as_ref().map(of_ascii).transpose()?;
            Ok::<_, SearchError>(Word { ascii, full, has_slash })
        };
        let words = expressions.iter().zip(&parts).map(|(expression, (_, part))| word(expression, part.contains('/')));
        let words = words.collect::<Result<Vec<_>, _>>()?;
        let any = match &words[..] {
            [only] => only.clone(),
            _ => word(&words::any(&expressions), false)?,
        };
        let needs_single_lines = is_regex && [r"\A", r"\z", "(?"].iter().any(|construct| pattern.contains(construct));
        Ok(Self { words, any, is_regex, needs_single_lines })
    }

    /// All words.
    pub(super) fn all(&self) -> WordSet {
        WordSet::MAX >> (MAX_PATTERN_WORDS - self.words.len())
    }

    /// The words in a line that has at least one.
    pub(super) fn words_in_match(&self, line: &str) -> WordSet {
        if self.words.len() == 1 { 1 } else { self.words_where(|word| word.is_in(line)) }
    }

    /// The words in a name, and the words in its path or name. Words with a slash are only in paths of files.
    pub(super) fn words_in_path(&self, path: &str, name: &str, is_directory: bool) -> (WordSet, WordSet) {
        let in_name = self.words_where(|word| !word.has_slash && word.is_in(name));
        let in_path = self.words_where(|word| !(word.has_slash && is_directory) && word.is_in(path));
        (in_name, in_name | in_path)
    }

    /// The words with a slash.
    pub(super) fn with_slash(&self) -> WordSet {
        self.words_where(|word| word.has_slash)
    }

    fn words_where(&self, is_found: impl Fn(&Word) -> bool) -> WordSet {
        self.words.iter().rev().fold(0, |found, word| found << 1 | WordSet::from(is_found(word)))
    }

    /// The expression for a line or a part of text that finds any word.
    pub(super) fn any_in(&self, text: &str) -> Option<&Regex> {
        self.any.of(text)
    }

    /// The matches in a line that are not empty.
    pub(super) fn ranges(&self, line: &str) -> impl Iterator<Item = Range<usize>> {
        let found = self.any_in(line).into_iter().flat_map(|any| any.find_iter(line));
        found.map(|found| found.range()).filter(|range| !range.is_empty())
    }
}

/// The library shows a syntax error as the pattern, a line with carets under the mistake, and the reason.
fn invalid(error: regex::Error) -> SearchError {
    const INDENTATION: usize = 4;
    let regex::Error::Syntax(message) = error else { return SearchError::RegexTooLarge };
    let reason = message.lines().filter_map(|line| line.strip_prefix("error: ")).next_back().unwrap_or(&message);
    let is_marker = |line: &&str| line.trim_matches([' ', '^']).is_empty();
    let mut carets = message.lines().filter(is_marker).filter_map(|line| line.find('^'));
    let position = carets.next_back().map(|column| format!(" (at character {})", column + 1 - INDENTATION.min(column)));
    SearchError::InvalidRegex { reason: format!("{reason}{}", position.unwrap_or_default()).replace('\n', " ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(pattern: &str) -> String {
        Matcher::new(pattern, true, LetterCase::Ignored).unwrap_err().to_string()
    }

    #[test]
    fn an_invalid_pattern_is_explained_in_one_line() {
        for (pattern, reason) in [
            ("(foo", "unclosed group (at character 1)"),
            ("é([", "unclosed character class (at character 3)"),
            ("*a", "repetition operator missing expression (at character 1)"),
            ("^^*(", "unclosed group (at character 4)"),
            ("(?=a)", "look-around, including look-ahead and look-behind, is not supported (at character 1)"),
            ("a\\1", "backreferences are not supported (at character 2)"),
            ("\\p{Foo}", "Unicode property not found (at character 1)"),
        ] {
            assert_eq!(error(pattern), format!("the regular expression is invalid: {reason}"));
        }
        let too_large = SearchError::RegexTooLarge.to_string();
        for pattern in ["a{1000}{1000}{1000}", r"\w{1000}", r"(?i)(\pL{100}){100}"] {
            assert_eq!(error(pattern), too_large);
        }
        assert!(error(&"(".repeat(MAX_PATTERN_BYTES)).contains("invalid: "));
        assert!(!error(&"(".repeat(MAX_PATTERN_BYTES)).contains('\n'));
        let limit = "the pattern is 4097 bytes long; the limit is 4096";
        assert_eq!(error(&"a".repeat(MAX_PATTERN_BYTES + 1)), limit);
        assert_eq!(error(""), "the pattern is empty");
        assert!(error("a\nb").starts_with("the pattern contains a line break"));
    }

    #[test]
    fn case_is_ignored_unless_it_matters() {
        for (pattern, is_regex) in [("tea", false), ("Tea", false), ("straße", false), (r"Te\W*A", true)] {
            let matches = |case| Matcher::new(pattern, is_regex, case).unwrap().any.full.is_match("TEA STRAßE");
            assert_eq!([LetterCase::Ignored, LetterCase::Sensitive].map(matches), [true, false], "{pattern}");
        }
    }
}
