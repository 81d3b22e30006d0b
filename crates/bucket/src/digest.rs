//! [`Digest`]: recognizes bytes that were changed.

use std::fmt;

use memory_tool_core::fill_random;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

const BYTES: usize = 32;

/// A SHA-256, written in hexadecimal.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Deserialize, Serialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct Digest([u8; BYTES]);

impl Digest {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// A digest that no object has.
    pub(crate) fn random() -> Result<Self, std::io::Error> {
        let mut bytes = [0; BYTES];
        fill_random(&mut bytes)?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The text is not a digest.
#[derive(Debug, thiserror::Error)]
#[error("a digest has 64 hexadecimal digits in lower case")]
pub(crate) struct NotADigest;

impl TryFrom<String> for Digest {
    type Error = NotADigest;

    fn try_from(text: String) -> Result<Self, NotADigest> {
        let mut bytes = [0; BYTES];
        for (index, byte) in bytes.iter_mut().enumerate() {
            let digits = text.get(2 * index..2 * index + 2).ok_or(NotADigest)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| NotADigest)?;
        }
        // Other notations of the same number are refused.
        Some(Self(bytes)).filter(|digest| digest.to_string() == text).ok_or(NotADigest)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_has_one_notation() {
        let digest = Digest::of(b"text");
        assert_eq!(digest.to_string(), "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1");
        assert_eq!(Digest::try_from(digest.to_string()).unwrap(), digest);
        let (upper, sign) = (digest.to_string().to_uppercase(), "+1".repeat(BYTES));
        for other in ["", "98", &upper, &sign, &format!("{digest}0"), &"é".repeat(BYTES)] {
            assert!(Digest::try_from(other.to_owned()).is_err(), "{other}");
        }
    }
}
