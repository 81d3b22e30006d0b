//! Decides whether a candidate is a password or a key.
//!
//! Most notes about passwords are prose or code without one. A candidate must therefore look like a password: it has a
//! letter and a digit, and is as a whole not a variable, placeholder, reference or description. A part that looks like
//! one does not matter: `hunter2secret` is a password.

use std::ops::Range;

/// The minimum and maximum length of a password in bytes. Longer values are documents, images or tokens.
const BYTES: Range<usize> = 6..129;

/// The length of a key or token that only its name announces.
const KEY_BYTES: Range<usize> = 16..513;

/// Words that stand for a password in examples. With any number, they are placeholders: `changeme123`, `test1234`.
#[rustfmt::skip]
const SAMPLES: &[&str] = &[
    "change", "changeit", "changeme", "default", "demo", "dummy", "example", "fake", "fixme", "here", "hidden",
    "placeholder", "redacted", "required", "sample", "test", "todo", "wrong", "wrongpassword", "your",
];

/// Words in names of variables and fields. Only with a small or counted number, they are names: `newPassword2`,
/// `my-secret-pw1`, `password123`.
#[rustfmt::skip]
const NAMES: &[&str] = &[
    "a", "access", "an", "any", "api", "app", "auth", "bot", "char", "client", "confirm", "confirmed", "credential",
    "credentials", "current", "db", "enter", "field", "goes", "hash", "id", "input", "it", "item", "kennwort",
    "key", "keys", "length", "login", "max", "me", "min", "my", "name", "new", "none", "null", "nullable", "old",
    "param", "pass", "passphrase", "passwd", "password", "passwords", "passwort", "prod", "pw", "pwd", "secret",
    "string", "text", "the", "token", "type", "user", "username", "value",
];

/// Words in descriptions of passwords. A password of several words has none of them.
#[rustfmt::skip]
const PROSE: &[&str] = &[
    "a", "after", "again", "all", "an", "and", "any", "are", "as", "ask", "at", "au", "be", "before", "by", "can",
    "case", "changed", "character", "characters", "choose", "common", "contain", "das", "de", "der", "die", "digit",
    "digits", "each", "empty", "entry", "every", "expired", "expires", "for", "from", "generated", "has", "hashed",
    "if", "in", "is", "ist", "it", "item", "least", "letter", "letters", "long", "match", "max", "maximum", "min",
    "minimum", "must", "mínimo", "new", "no", "not", "number", "numbers", "of", "old", "on", "only", "optional",
    "or", "our", "password", "passwords", "per", "please", "random", "required", "reset", "same", "see", "stored",
    "strength", "string", "symbols", "the", "this", "to", "type", "under", "use", "used", "user", "valid", "vault",
    "was", "with", "word", "words", "wrong",
];

/// Beginnings of references: `vault:data/db1`, `env:DB1`.
#[rustfmt::skip]
const REFERENCES: &[&str] = &[
    "arn", "aws", "bitwarden", "env", "file", "http", "https", "keychain", "keyring", "kms", "op", "ref", "secret",
    "secrets", "ssm", "vault",
];

/// Names of formats, types and algorithms, which a number may follow: `uint8`, `argon2id`, `base64-encoded`.
#[rustfmt::skip]
const FORMATS: &[&str] = &[
    "1password", "argon", "argon2id", "base", "bcrypt", "byte", "bytes", "char", "float", "int", "keepass", "md",
    "oauth", "pbkdf", "scrypt", "sha", "str", "string", "text", "uint", "utf", "varchar", "zxcvbn",
];

/// The password in `user:password`, unless it is a placeholder or variable.
pub(super) fn in_url(user_and_password: &str) -> Option<Range<usize>> {
    const STAND_INS: [&str; 6] = ["password", "passwd", "pass", "pwd", "secret", "changeme"];
    let (user, password) = user_and_password.split_once(':')?;
    let is_stand_in = password == user || STAND_INS.contains(&password.to_ascii_lowercase().as_str());
    let stands_for_another = is_variable(password) || is_stand_in || is_placeholder(password);
    (!stands_for_another).then_some(user.len() + 1..user_and_password.len())
}

/// The password in `user:password` after `curl -u`. Numeric ids of a user and group are ignored.
pub(super) fn after_user(user_and_password: &str) -> Option<Range<usize>> {
    let (user, password) = user_and_password.split_once(':')?;
    let found = password != user && unquoted(password).is_some();
    found.then_some(user.len() + 1..user_and_password.len())
}

/// A password after its name and a sign. It may consist of digits.
pub(super) fn stated(text: &str) -> Option<Range<usize>> {
    digits(text).or_else(|| unquoted(text))
}

/// A password in quotes after its name.
pub(super) fn stated_in_quotes(text: &str) -> Option<Range<usize>> {
    digits(text).or_else(|| quoted(text))
}

fn digits(text: &str) -> Option<Range<usize>> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && BYTES.contains(&text.len())).then_some(0..text.len())
}

/// A password in quotes. It may contain blanks, unless it is a sentence.
fn quoted(text: &str) -> Option<Range<usize>> {
    let is_sentence = text.contains(' ') && has_prose(text);
    if is_sentence || is_phrase(text) || is_stand_in(text) { None } else { whole(text) }
}

/// A password without quotes, which must not be a name, path or phrase from code or prose.
pub(super) fn unquoted(text: &str) -> Option<Range<usize>> {
    if is_path(text) || is_identifier(text) { None } else { quoted(text) }
}

/// A value in the form of environment variables, `DB_PASSWORD=value`, which is not code.
pub(super) fn assigned(text: &str) -> Option<Range<usize>> {
    if is_path(text) { None } else { quoted(text) }
}

/// A password right after the word, without a sign between them. It must be stronger than a word with a number, which
/// is more often a name: `password field2`.
pub(super) fn adjacent(text: &str) -> Option<Range<usize>> {
    let letters = text.trim_end_matches(|last: char| last.is_ascii_digit());
    let is_word = letters.chars().all(char::is_alphabetic);
    let is_name = is_word && letters.len() < 10 && text.len() - letters.len() < 2;
    let is_standard = is_word && letters.chars().all(char::is_uppercase); // `ISO27001`
    let is_count = text.starts_with(|first: char| first.is_ascii_digit()) && text.contains('-'); // `12-character`
    if is_name || is_standard || is_count || text.contains('/') { None } else { unquoted(text) }
}

/// A passphrase of four or more words in lower case, without a word of prose: `correct horse battery staple`.
pub(super) fn passphrase(text: &str) -> Option<Range<usize>> {
    (BYTES.contains(&text.len()) && !has_prose(text)).then_some(0..text.len())
}

/// A key or token that only its name announces. One of its parts must look random.
pub(super) fn key(text: &str) -> Option<Range<usize>> {
    let is_random = text.split(|separator: char| !separator.is_alphanumeric()).any(|part| changes(part) >= 3);
    let found = KEY_BYTES.contains(&text.len()) && is_random && !is_path(text) && !is_stand_in(text);
    found.then_some(0..text.len())
}

/// The number of changes between letters and digits.
fn changes(text: &str) -> usize {
    text.as_bytes().windows(2).filter(|pair| pair[0].is_ascii_digit() != pair[1].is_ascii_digit()).count()
}

fn whole(text: &str) -> Option<Range<usize>> {
    let has = |class: fn(char) -> bool| text.contains(class);
    let is_password = has(char::is_alphabetic) && has(|character| character.is_ascii_digit());
    (is_password && BYTES.contains(&text.len())).then_some(0..text.len())
}

/// Whether the text stands for a password or describes it.
fn is_stand_in(text: &str) -> bool {
    is_variable(text) || is_placeholder(text) || is_format(text) || is_reference(text)
}

/// Whether the whole value is a placeholder: `your-password-1`, `changeme123`, `newPassword2`, `xxxxxxxx1`.
pub(super) fn is_placeholder(value: &str) -> bool {
    let is_separated = value.chars().all(|character| character.is_alphanumeric() || " -_.,:|/".contains(character));
    is_masked(value) || (is_separated && !is_capitalized_word(value) && has_only_placeholders(value))
}

fn has_only_placeholders(value: &str) -> bool {
    let (mut has_sample, mut has_word, mut has_large_number) = (false, false, false);
    for part in parts(value) {
        let part = part.to_lowercase();
        if part.bytes().all(|byte| byte.is_ascii_digit()) {
            has_large_number |= part.len() > 2 && !"1234567890".starts_with(&part);
        } else if SAMPLES.contains(&&*part) {
            has_sample = true;
        } else if NAMES.contains(&&*part) {
            has_word = true;
        } else {
            return false;
        }
    }
    has_sample || (has_word && !has_large_number)
}

/// The words and numbers of a value. A word also ends before a capital: `newPassword2`.
fn parts(value: &str) -> impl Iterator<Item = &str> {
    let mut rest = value;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(|separator: char| !separator.is_alphanumeric());
        let mut characters = rest.char_indices().peekable();
        let mut previous = characters.next()?.1;
        let continues = |(_, next): &(usize, char), previous: char| {
            next.is_alphanumeric()
                && next.is_ascii_digit() == previous.is_ascii_digit()
                && !(previous.is_lowercase() && next.is_uppercase())
        };
        while let Some((_, next)) = characters.next_if(|next| continues(next, previous)) {
            previous = next;
        }
        let end = characters.peek().map_or(rest.len(), |&(end, _)| end);
        let (part, remaining) = rest.split_at(end);
        rest = remaining;
        Some(part)
    })
}

/// Whether one character takes the place of most others: `********`, `xxxxxxxx9`.
fn is_masked(value: &str) -> bool {
    let Some(first) = value.chars().next() else { return false };
    let repeated = value.chars().take_while(|&character| character == first).count();
    repeated >= 4 && value.chars().count() - repeated <= 2
}

/// A word with a capital and a number, which is a name in no common style: `Secret99`.
fn is_capitalized_word(value: &str) -> bool {
    let word = value.trim_end_matches(|last: char| last.is_ascii_digit());
    let mut letters = word.chars();
    value.len() - word.len() >= 2 && letters.next().is_some_and(char::is_uppercase) && letters.all(char::is_lowercase)
}

/// A variable, a masked value, or a template: `$DB_PASSWORD`, `%DB_PASSWORD%`, `<your password>`, `{{ password }}`.
fn is_variable(text: &str) -> bool {
    text.starts_with(['{', '[', '(', '<', '*'])
        || text.strip_prefix('$').is_some_and(is_variable_name)
        || (text.starts_with('%') && (!is_percent_encoded(text) || text.ends_with('%')))
}

/// The text after `$`: a name and an expression, or the beginning of a template or hash.
fn is_variable_name(text: &str) -> bool {
    let name = text.trim_end_matches(['"', '\'', ';', ',', ')']);
    text.starts_with(['{', '(', '$']) // a template
        || text.starts_with(|first: char| first.is_ascii_digit()) // `$1`, `$2b$12$…`
        || name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.:>-[]".contains(&byte))
        || text.starts_with("ANSIBLE_VAULT")
}

fn is_percent_encoded(text: &str) -> bool {
    matches!(text.as_bytes(), [b'%', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit())
}

/// A path, an option, or the rest of an operator.
fn is_path(text: &str) -> bool {
    let is_drive = matches!(text.as_bytes(), [letter, b':', b'\\' | b'/', ..] if letter.is_ascii_alphabetic());
    text.starts_with(['/', '.', '~', '&', '=', '-', ':', '@'])
        || text.contains("://")
        || text.contains("::")
        || is_drive
}

/// An identifier of several parts: `db2_credentials`, `DB_PW_2`, `config.db2.value`.
fn is_identifier(text: &str) -> bool {
    let mut words = text.split(['.', '_']);
    let is_word = |part: &str| part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let starts_as_name = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let mixes_cases = text.contains(char::is_uppercase) && text.contains(char::is_lowercase);
    starts_as_name && text.contains(['.', '_']) && words.all(is_word) && (text.contains('.') || !mixes_cases)
}

/// A reference to a password: `vault:data/db1`, `env:DB1`, `C:\keys2`.
fn is_reference(text: &str) -> bool {
    text.split_once(':').is_some_and(|(scheme, _)| REFERENCES.contains(&&*scheme.to_ascii_lowercase()))
        || text.starts_with("ENC[")
}

/// A hyphenated description of a password: `2fa-protected`, `32-byte`, `12-characters-long`.
fn is_phrase(text: &str) -> bool {
    #[rustfmt::skip]
    const ENDS: [&str; 16] = [
        "ed", "only", "safe", "long", "byte", "bytes", "bit", "char", "chars", "character", "characters",
        "digit", "digits", "word", "words", "step",
    ];
    let last = text.rsplit('-').next().filter(|last| last.len() < text.len());
    let is_counted = text.starts_with(|first: char| first.is_ascii_digit());
    let is_end =
        |last: &str| last.bytes().all(|b| b.is_ascii_lowercase()) && ENDS.iter().any(|end| last.ends_with(end));
    is_counted && last.is_some_and(is_end)
}

/// A format, type or algorithm, with words after it: `sha256`, `argon2id`, `base64-encoded`, `varchar2`.
fn is_format(text: &str) -> bool {
    let lowercase = text.to_lowercase();
    let first = lowercase.split(|end: char| !end.is_alphanumeric()).next().unwrap_or_default();
    let name = first.trim_end_matches(|last: char| last.is_ascii_digit());
    let rest = &lowercase[first.len()..];
    let is_named = FORMATS.contains(&name) || FORMATS.contains(&first);
    (is_named && !rest.contains(char::is_numeric)) || matches!(&*lowercase, "utf-8" | "utf-16" | "utf-32")
}

fn has_prose(text: &str) -> bool {
    text.split(|separator: char| !separator.is_alphanumeric()).any(|word| PROSE.contains(&&*word.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_split_into_words_and_numbers() {
        for (value, expected) in [
            ("newPassword2", &["new", "Password", "2"][..]),
            ("YOUR_API_KEY_1", &["YOUR", "API", "KEY", "1"]),
            ("--", &[]),
            ("4z", &["4", "z"]),
            ("Пароль2é", &["Пароль", "2", "é"]),
            ("", &[]),
        ] {
            assert_eq!(parts(value).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn a_placeholder_is_a_whole_value() {
        for value in ["changeme123", "test1234", "your_password_1", "newPassword2", "password123", "xxxxxxxx9", "****"]
        {
            assert!(is_placeholder(value), "{value}");
        }
        for value in [
            "Secret99",
            "hunter2secret",
            "Password123!",
            "secretpass99",
            "dummy4real",
            "example!9",
            "pass4711",
            "xxxxab12",
        ] {
            assert!(!is_placeholder(value), "{value}");
        }
    }

    #[test]
    fn a_key_has_a_random_part() {
        assert!(key("9f86d081884c7d659a2feaa0c55ad015").is_some());
        assert!(key("7b1e0c5d-44aa-4f0e-9d1c-2b6a8e3f7c11").is_some());
        for value in ["db-credentials-2-of-prod", "9f86d081", "projects/42/secrets/db/versions/3", "9999999999999999"] {
            assert_eq!(key(value), None, "{value}");
        }
    }
}
