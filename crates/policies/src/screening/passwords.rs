//! Decides whether a candidate is a password.
//!
//! Most notes about passwords are prose or code without one. A candidate therefore needs a letter and a digit, and must
//! not be a variable, placeholder, reference or description.

use std::ops::Range;

/// The maximum length of a password. Longer values are documents, images or tokens.
const MAX_BYTES: usize = 128;

/// Parts of placeholders.
const PLACEHOLDERS: [&str; 6] = ["example", "xxxx", "your", "placeholder", "changeme", "****"];

/// Parts of names and descriptions of passwords: `newPassword2`, `secret123`, `required|min:8`.
const DESCRIPTIONS: [&str; 6] = ["pass", "pwd", "secret", "required", "redacted", "dummy"];

/// Prefixes of formats, algorithms and test passwords: `base64-encoded`, `argon2id`, `uint8`, `test1234`.
const FORMATS: [&str; 11] =
    ["base64", "base32", "sha", "md5", "argon2", "bcrypt", "pbkdf2", "scrypt", "utf", "uint", "test"];

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

/// A password in quotes.
pub(super) fn quoted(text: &str) -> Option<Range<usize>> {
    let has = |class: fn(char) -> bool| text.contains(class);
    let lowercase = text.to_lowercase();
    let is_description = DESCRIPTIONS.iter().any(|part| lowercase.contains(part));
    let is_format = FORMATS.iter().any(|format| lowercase.starts_with(format));
    let is_password = has(char::is_alphabetic) && has(|character| character.is_ascii_digit());
    let found = is_password
        && text.len() <= MAX_BYTES
        && !is_description
        && !is_format
        && !is_variable(text)
        && !is_placeholder(text);
    found.then_some(0..text.len())
}

/// A password without quotes, which must not be a name, path or phrase from code or prose.
pub(super) fn unquoted(text: &str) -> Option<Range<usize>> {
    let is_path = text.starts_with(['/', '.', '~', '&', '!', '=', '-', ':', '@']) || text.contains("://");
    if is_path || is_identifier(text) || is_reference(text) || is_phrase(text) { None } else { quoted(text) }
}

pub(super) fn is_placeholder(value: &str) -> bool {
    let lowercase = value.to_ascii_lowercase();
    PLACEHOLDERS.iter().any(|part| lowercase.contains(part))
}

fn is_variable(text: &str) -> bool {
    text.starts_with(['$', '{', '%', '*', '[', '(', '<']) && !is_percent_encoded(text)
}

fn is_percent_encoded(text: &str) -> bool {
    matches!(text.as_bytes(), [b'%', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit())
}

/// An identifier of several parts: `db2_credentials`, `DB_PW_2`, `config.db2.value`.
fn is_identifier(text: &str) -> bool {
    let mut parts = text.split(['.', '_']);
    let is_word = |part: &str| part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let starts_as_name = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let mixes_cases = text.contains(char::is_uppercase) && text.contains(char::is_lowercase);
    starts_as_name && text.contains(['.', '_']) && parts.all(is_word) && (text.contains('.') || !mixes_cases)
}

/// A reference to a password: `vault:data/db1`, `env:DB1`, `C:\keys2`.
fn is_reference(text: &str) -> bool {
    text.split_once(':')
        .is_some_and(|(scheme, _)| !scheme.is_empty() && scheme.bytes().all(|b| b.is_ascii_alphabetic()))
}

/// A hyphenated description of a password: `2fa-protected`, `32-byte`, `12-characters-long`.
fn is_phrase(text: &str) -> bool {
    const ENDS: [&str; 10] = ["ed", "only", "safe", "long", "byte", "bytes", "bit", "char", "chars", "characters"];
    let last = text.rsplit('-').next().filter(|last| last.len() < text.len());
    last.is_some_and(|last| last.bytes().all(|b| b.is_ascii_lowercase()) && ENDS.iter().any(|end| last.ends_with(end)))
}
