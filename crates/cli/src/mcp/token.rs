//! [`Token`]: the secret that clients of the HTTP server present.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;

use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use subtle::ConstantTimeEq as _;

use crate::arguments::HttpArguments;
use crate::failure::{Context as _, Failure};

/// The minimum length of a token: 96 random bits in base64.
const MIN_BYTES: usize = 16;
const MAX_BYTES: u64 = 4096;

const VARIABLE_NOT_SET: &str =
    "--token-env does not name an environment variable that is set; give its name, not the token";

/// A bearer token.
pub(super) struct Token(Vec<u8>);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// Reads the token that the options name, if there is one.
    pub(super) fn of(options: &HttpArguments) -> Result<Option<Self>, Failure> {
        let content = match (&options.token_file, &options.token_env) {
            (Some(path), _) => read_secret(path).context(format!("cannot read {}", path.display()))?,
            (None, Some(name)) => std::env::var_os(name)
                // The value may be the token itself, so the error does not contain it.
                .ok_or_else(|| io::Error::other(VARIABLE_NOT_SET))
                .context("cannot use the token")?
                .into_encoded_bytes(),
            (None, None) => return Ok(None),
        };
        Self::parse(&content).map(Some).context("cannot use the token")
    }

    fn parse(content: &[u8]) -> io::Result<Self> {
        let token = content.trim_ascii();
        let error = |message: String| Err(io::Error::new(ErrorKind::InvalidData, message));
        if token.len() < MIN_BYTES {
            return error(format!("it has {} characters; use at least {MIN_BYTES}", token.len()));
        }
        // Others cannot be sent in a header, or not without ambiguity.
        if !token.iter().all(u8::is_ascii_graphic) {
            return error("it has a space, a control character or a character outside ASCII".to_owned());
        }
        Ok(Self(token.to_owned()))
    }

    /// Whether a request presents this token. The comparison takes the same time for all tokens of the same length.
    pub(super) fn is_in(&self, headers: &HeaderMap) -> bool {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        match (values.next().and_then(|value| bearer(value.as_bytes())), values.next()) {
            (Some(given), None) => self.0.ct_eq(given).into(),
            _ => false,
        }
    }
}

/// The token in the value of a header. The name of the scheme is case-insensitive (RFC 9110, section 11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

fn read_secret(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    refuse_others(&file.metadata()?)?;
    let mut content = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_BYTES {
        let message = format!("too long for a token: the limit is {MAX_BYTES} bytes");
        return Err(io::Error::new(ErrorKind::FileTooLarge, message));
    }
    Ok(content)
}

/// Refuses a file that other users can access. Pipes and other non-files are accepted.
#[cfg(unix)]
fn refuse_others(metadata: &fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;

    let mode = metadata.permissions().mode() & 0o777;
    if metadata.is_file() && mode & 0o077 != 0 {
        let message = format!("mode {mode:03o} gives other users access: run `chmod 600` on it");
        return Err(io::Error::new(ErrorKind::PermissionDenied, message));
    }
    Ok(())
}

/// Without file modes, the permissions are inherited from the directory.
#[cfg(not(unix))]
fn refuse_others(_: &fs::Metadata) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn is_accepted(values: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, value.parse().unwrap());
        }
        Token::parse(TOKEN.as_bytes()).unwrap().is_in(&headers)
    }

    #[test]
    fn only_the_token_is_accepted() {
        for value in [format!("Bearer {TOKEN}"), format!("bearer {TOKEN}"), format!("Bearer   {TOKEN}")] {
            assert!(is_accepted(&[&value]), "{value}");
        }
        let valid = format!("Bearer {TOKEN}");
        for values in [
            &[][..],
            &[""],
            &[TOKEN],
            &["Bearer"],
            &["Bearer "],
            &["Bearer 0123456789abcdee"],
            &["Bearer 0123456789abcdef0"],
            &["Bearer 0123456789abcde"],
            &["Basic 0123456789abcdef"],
            &["Bearer 0123456789ABCDEF"],
            &[&valid, &valid],
        ] {
            assert!(!is_accepted(values), "{values:?}");
        }
    }

    #[test]
    fn a_token_is_long_and_printable() {
        assert_eq!(Token::parse(b"0123456789abcdef\r\n").unwrap().0, TOKEN.as_bytes());
        for wrong in ["", "short", "0123456789 abcdef", "0123456789abcdefé", "0123456789\nabcdef"] {
            assert!(Token::parse(wrong.as_bytes()).is_err(), "{wrong:?}");
        }
    }
}
