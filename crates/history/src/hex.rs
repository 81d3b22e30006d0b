//! [`Hex`]: bytes that are written in hexadecimal.

use std::fmt;

use memory_tool_core::{ErrorKind, StoreError, fill_random};
use serde::{Deserialize, Serialize};

/// Bytes, displayed in lowercase hexadecimal.
#[derive(Clone, Copy, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Hex<const N: usize>([u8; N]);

/// A SHA-256.
pub type Hash = Hex<32>;

/// The random identity of something that can be deleted and made again under the same name or number: a history, an
/// entry, a file. Another one never gets it.
pub type Id = Hex<8>;

impl<const N: usize> Hex<N> {
    pub(crate) const fn new(bytes: [u8; N]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8; N] {
        &self.0
    }

    /// Random bytes, which no other call returns.
    ///
    /// # Errors
    /// [`StoreError::Failure`] if the operating system has no random numbers.
    pub fn random() -> Result<Self, StoreError> {
        let mut bytes = [0; N];
        let filled = fill_random(&mut bytes);
        filled.map_err(|error| StoreError::failure(ErrorKind::Other, "making an identity", error))?;
        Ok(Self(bytes))
    }
}

impl<const N: usize> Default for Hex<N> {
    /// Zeros, which stand for nothing.
    fn default() -> Self {
        Self([0; N])
    }
}

impl<const N: usize> fmt::Display for Hex<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl<const N: usize> fmt::Debug for Hex<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<const N: usize> From<Hex<N>> for String {
    fn from(hex: Hex<N>) -> Self {
        hex.to_string()
    }
}

impl<const N: usize> TryFrom<String> for Hex<N> {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        const INVALID: &str = "not bytes in hexadecimal, or another number of them";
        let mut bytes = [0; N];
        if text.len() != 2 * N {
            return Err(INVALID);
        }
        let value = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8).ok_or(INVALID);
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = value(pair[0])? << 4 | value(pair[1])?;
        }
        Ok(Self(bytes))
    }
}
