//! [`DataKey`]: a key that encrypts contents, and [`KeyError`]: the errors of wrapping and unwrapping it.

use std::fmt;

use memory_tool_core::BoxError;
use zeroize::{Zeroize, Zeroizing};

/// The number of bytes of a key.
pub(crate) const KEY_BYTES: usize = 32;

/// A key of 32 random bytes that encrypts contents. The bytes stay in one heap allocation, even if the value is moved,
/// and are zeroized on drop.
pub struct DataKey(Box<Zeroizing<[u8; KEY_BYTES]>>);

impl DataKey {
    pub(crate) fn random() -> Result<Self, getrandom::Error> {
        let mut key = Self::zero();
        getrandom::fill(key.as_mut_bytes())?;
        Ok(key)
    }

    /// Creates a key from unwrapped bytes. Zeroizes the argument, but not other copies of the bytes.
    pub fn from_bytes(mut bytes: [u8; KEY_BYTES]) -> Self {
        let mut key = Self::zero();
        key.as_mut_bytes().copy_from_slice(&bytes);
        bytes.zeroize();
        key
    }

    /// Creates a key from 32 bytes; `None` for any other length.
    pub(crate) fn from_slice(bytes: &[u8]) -> Option<Self> {
        let mut key = Self::zero();
        (bytes.len() == KEY_BYTES).then(|| key.as_mut_bytes().copy_from_slice(bytes))?;
        Some(key)
    }

    /// A key of zeros to write into.
    pub(crate) fn zero() -> Self {
        Self(Box::new(Zeroizing::new([0; KEY_BYTES])))
    }

    pub(crate) fn as_mut_bytes(&mut self) -> &mut [u8; KEY_BYTES] {
        &mut self.0
    }

    /// The bytes of the key, for wrapping.
    pub fn as_bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

impl TryFrom<Vec<u8>> for DataKey {
    type Error = KeyError;

    /// Creates a key from unwrapped bytes. The argument is zeroized.
    ///
    /// # Errors
    /// [`KeyError::WrongKey`] if there are not exactly 32 bytes.
    fn try_from(mut bytes: Vec<u8>) -> Result<Self, KeyError> {
        let key = Self::from_slice(&bytes);
        bytes.zeroize();
        key.ok_or(KeyError::WrongKey)
    }
}

impl fmt::Debug for DataKey {
    /// Omits the bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataKey").finish_non_exhaustive()
    }
}

/// An error of a [`KeyProvider`](crate::KeyProvider).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The wrapped data key was not wrapped with this key, or was modified.
    #[error("wrong key or passphrase, or the wrapped data key was modified")]
    WrongKey,
    /// The wrapped data key has a form that this provider does not support, or would exceed its cost limit.
    #[error("unsupported wrapped data key: {reason}")]
    Unsupported {
        /// The reason.
        reason: &'static str,
    },
    /// The key is temporarily unavailable.
    #[error("the key is unavailable")]
    Unavailable {
        /// The cause.
        #[source]
        source: BoxError,
    },
}

impl KeyError {
    /// Creates [`KeyError::Unavailable`] with the given cause.
    pub fn unavailable(source: impl Into<BoxError>) -> Self {
        Self::Unavailable { source: source.into() }
    }
}
