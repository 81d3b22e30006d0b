//! [`DataKey`]: a key that contents are encrypted with, and [`KeyError`]: why it cannot be wrapped or unwrapped.

use std::fmt;

use memory_tool_core::BoxError;
use zeroize::{Zeroize, Zeroizing};

/// The number of bytes of a key.
pub(crate) const KEY_BYTES: usize = 32;

/// A key that contents are encrypted with: 32 random bytes. They lie in one place on the heap, also when it is moved, and are
/// zeroized when it is dropped.
pub struct DataKey(Box<Zeroizing<[u8; KEY_BYTES]>>);

impl DataKey {
    pub(crate) fn random() -> Result<Self, getrandom::Error> {
        let mut key = Self::zero();
        getrandom::fill(key.as_mut_bytes())?;
        Ok(key)
    }

    /// The key that was wrapped. These bytes are zeroized, and copies that the caller has are not.
    pub fn from_bytes(mut bytes: [u8; KEY_BYTES]) -> Self {
        let mut key = Self::zero();
        key.as_mut_bytes().copy_from_slice(&bytes);
        bytes.zeroize();
        key
    }

    /// The key that these bytes are; `None` where they are not 32.
    pub(crate) fn from_slice(bytes: &[u8]) -> Option<Self> {
        let mut key = Self::zero();
        (bytes.len() == KEY_BYTES).then(|| key.as_mut_bytes().copy_from_slice(bytes))?;
        Some(key)
    }

    /// The place for a key.
    pub(crate) fn zero() -> Self {
        Self(Box::new(Zeroizing::new([0; KEY_BYTES])))
    }

    pub(crate) fn as_mut_bytes(&mut self) -> &mut [u8; KEY_BYTES] {
        &mut self.0
    }

    /// The bytes to be wrapped.
    pub fn as_bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

impl TryFrom<Vec<u8>> for DataKey {
    type Error = KeyError;

    /// The key that was wrapped. The bytes are zeroized.
    ///
    /// # Errors
    /// [`KeyError::WrongKey`] where they are not 32.
    fn try_from(mut bytes: Vec<u8>) -> Result<Self, KeyError> {
        let key = Self::from_slice(&bytes);
        bytes.zeroize();
        key.ok_or(KeyError::WrongKey)
    }
}

impl fmt::Debug for DataKey {
    /// Without the bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataKey").finish_non_exhaustive()
    }
}

/// Why a [`KeyProvider`](crate::KeyProvider) does not wrap or unwrap.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// What is to be unwrapped was not wrapped by this key, or was changed since.
    #[error("it is not the right key, or the data key that it wrapped was changed")]
    WrongKey,
    /// What is to be unwrapped is of a form that this provider does not know, or would cost more than it allows.
    #[error("the wrapped data key cannot be used: {reason}")]
    Unsupported {
        /// What is wrong.
        reason: &'static str,
    },
    /// The key cannot be used now.
    #[error("the key cannot be used now")]
    Unavailable {
        /// The cause.
        #[source]
        source: BoxError,
    },
}

impl KeyError {
    /// The key cannot be used now, because of `source`.
    pub fn unavailable(source: impl Into<BoxError>) -> Self {
        Self::Unavailable { source: source.into() }
    }
}
