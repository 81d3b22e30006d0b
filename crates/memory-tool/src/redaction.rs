//! [`redact_credentials`]: URLs in messages.

use std::borrow::Cow;

use memory_tool_core::escape_unprintable;

const REDACTED: &str = "[redacted]";

const MAX_NAME_BYTES: usize = 32;

/// The only parameter of a store's URL. It is not a secret.
const MEMORY: &str = "memory";

/// A text that may contain a URL, for a message or a log: without credentials, and with escapes for unprintable
/// characters.
///
/// The URL of a store has no place for credentials. A person can still write them as in the URLs of other programs:
/// before the host or as parameters.
///
/// ```
/// use memory_tool::redact_credentials;
///
/// assert_eq!(redact_credentials("s3://key:secret@bucket/a"), "s3://[redacted]@bucket/a");
/// assert_eq!(redact_credentials("az://container/a?sig=secret"), "az://container/a?sig=[redacted]");
/// assert_eq!(redact_credentials("sqlite:memory.db?memory=alice"), "sqlite:memory.db?memory=alice");
/// ```
#[must_use]
pub fn redact_credentials(text: &str) -> String {
    let Some(start) = location_start(text) else { return escape_unprintable(text) };
    let (scheme, location) = text.split_at(start);
    let location = without_user(scheme, location);
    let (path, query) = match location.find(['?', '#']) {
        Some(end) => (&location[..end], without_values(&location[end..])),
        None => (&*location, String::new()),
    };
    escape_unprintable(&format!("{scheme}{path}{query}"))
}

/// The part of a bucket's URL between the second and the third slash, without credentials.
pub(crate) fn redact_host(location: &str) -> String {
    let location = redact_credentials(&format!("//{location}"));
    location.trim_start_matches('/').split('/').next().unwrap_or_default().to_owned()
}

/// The name of a parameter, unless it may be a secret: that of a key in base64 may end with `=`.
pub(crate) fn redact_parameter(parameter: &str) -> &str {
    let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
    let is_valued = !value.trim_matches('=').is_empty();
    let is_in_word = |byte: u8| byte.is_ascii_lowercase() || matches!(byte, b'_' | b'-');
    let is_in_name = |byte: u8| is_in_word(byte) || byte.is_ascii_alphanumeric();
    let is_name = if is_valued { name.bytes().all(is_in_name) } else { name.bytes().all(is_in_word) };
    if is_name && name.len() <= MAX_NAME_BYTES { name } else { REDACTED }
}

/// The end of the scheme of a URL, which another text such as `/memories/a=` may precede.
fn location_start(text: &str) -> Option<usize> {
    if let Some(start) = text.find("//").filter(|&start| start == 0 || text[..start].ends_with(':')) {
        return Some(start + 2);
    }
    let is_in_scheme = |character: char| character.is_ascii_alphanumeric() || matches!(character, '+' | '-' | '.');
    let (before, _) = text.split_once(':')?;
    let scheme = before.rsplit('=').next().unwrap_or_default();
    (scheme.len() >= 2 && scheme.chars().all(is_in_scheme)).then_some(before.len() + 1)
}

/// Replaces the user and password. A password may contain slashes.
fn without_user<'a>(scheme: &str, location: &'a str) -> Cow<'a, str> {
    let authority = location.split(['/', '?', '#']).next().unwrap_or_default();
    let has_authority = scheme.ends_with("//");
    // After `user:`, a password can contain slashes. After `file:` and `sqlite:`, a path can contain `@`.
    let is_path = ["file:", "sqlite:"].iter().any(|path| scheme.to_ascii_lowercase().ends_with(path));
    let has_user = if has_authority { authority.contains(['@', ':']) } else { !is_path };
    let after_user = location.rfind('@').filter(|_| has_user);
    if let Some(at) = after_user {
        return format!("{REDACTED}{}", &location[at..]).into();
    }
    match authority.split_once(':') {
        Some((host, port)) if has_authority && !port.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{host}:{REDACTED}").into()
        }
        _ => location.into(),
    }
}

/// Replaces the values of a query and its fragment. The first character is `?` or `#`.
fn without_values(query: &str) -> String {
    const SEPARATORS: [char; 3] = ['?', '&', '#'];
    let parts = query.split_inclusive(SEPARATORS).map(|part| {
        let parameter = part.trim_end_matches(SEPARATORS);
        let separator = &part[parameter.len()..];
        match (redact_parameter(parameter), parameter.split_once('=')) {
            (MEMORY, _) => part.to_owned(),
            (REDACTED, _) => format!("{REDACTED}{separator}"),
            (name, Some((_, value))) if !value.is_empty() => format!("{name}={REDACTED}{separator}"),
            _ => part.to_owned(),
        }
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A secret as the key of a cloud, with the characters of base64.
    const SECRET: &str = "wJalr/XUtn+FEMI=K7MDENG";

    #[test]
    fn each_place_for_a_secret_is_redacted() {
        for (before, after) in [
            ("s3://AKIA:", "@bucket/a"),
            ("s3://:", "@bucket"),
            ("S3://AKIA:", ""),
            ("s3:AKIA:", "@bucket"),
            ("gs://bucket?key=", ""),
            ("az://container/a?sv=2025-01-05&sig=", "&se=2026"),
            ("az://container/a?", ""),
            ("az://container/a#", ""),
            ("https://account.blob.core.windows.net/a?", ""),
            ("postgres://user:", "@host:5432/db"),
            ("redis://:", "@host"),
            ("user:", "@host"),
            ("file://user:", "@host/a"),
            ("sqlite:a.db?memory=b&key=", ""),
            ("sqlite://user:", "@host/a.db"),
            ("/memories/a=s3://AKIA:", "@bucket"),
            ("/memories/a=sqlite:a.db?key=", ""),
            ("//user:", "@host/share"),
        ] {
            for secret in [SECRET, "Secret", "a?b#c&d@e"] {
                let redacted = redact_credentials(&format!("{before}{secret}{after}"));
                assert!(!redacted.contains(secret) && redacted.contains(REDACTED), "{before}{secret}: {redacted}");
                assert!(!redacted.contains("K7MDENG"), "{before}{secret}: {redacted}");
            }
        }
    }

    #[test]
    fn other_text_is_kept() {
        for text in [
            "",
            "memory",
            "/srv/a:b",
            "./a:b@c?d=e",
            "s3://bucket/users/alice@example.com",
            "s3://bucket:80/a",
            "az://container/a",
            "sqlite:a b.db?memory=alice",
            "sqlite:a@b/c@d.db",
            "sqlite:a.db?mode",
            "file:///srv/a",
            "C:/memory",
            "foo:bar",
        ] {
            assert_eq!(redact_credentials(text), text);
        }
        assert_eq!(redact_credentials("s3://AKIA@bucket/a"), "s3://[redacted]@bucket/a");
        assert_eq!(redact_credentials("a\n\u{202e}"), "a\\n\\u{202e}");
        assert_eq!(redact_credentials("s3://a\n"), "s3://a\\n");
    }
}
