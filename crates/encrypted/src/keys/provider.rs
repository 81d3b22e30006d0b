//! [`KeyProvider`]: wraps data keys, and the names of keys.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Serialize, Serializer};

use crate::data_key::{DataKey, KeyError};

/// The maximum length of a [`KeyId`] in bytes.
pub const MAX_KEY_ID_BYTES: usize = 255;

/// Wraps and unwraps data keys with a key that never leaves the provider, such as 32 bytes in this process, a
/// passphrase, a key management service or a hardware module.
///
/// A store wraps a data key when it is created and when its keys are rotated. It unwraps data keys when it is opened,
/// and keeps them in this process while it is open.
///
/// # Requirements
/// 1. [`unwrap`](Self::unwrap) restores the data key that [`wrap`](Self::wrap) wrapped, in any process with the same
///    key.
/// 2. Wrapping requires the same secret as unwrapping. An attacker who can wrap a data key can replace the memory with
///    a forged one, so a public key is not a valid provider.
/// 3. The input of `unwrap` is untrusted: it may have been modified or wrapped with another key. Return
///    [`KeyError::WrongKey`] in these cases, and never a different data key.
/// 4. The id identifies the key and not the provider. A replacement key needs a new id. The id is stored in plain text.
/// 5. `Debug` output and errors contain no part of a key.
///
/// # Example
/// A provider over a key management service:
///
/// ```
/// use async_trait::async_trait;
/// use memory_tool_encrypted::{DataKey, KeyError, KeyId, KeyProvider};
/// # mod service {
/// #     pub type Error = std::io::Error;
/// #     pub async fn encrypt(_: &str, text: &[u8]) -> Result<Vec<u8>, Error> { Ok([b"sealed", text].concat()) }
/// #     pub async fn decrypt(_: &str, sealed: &[u8]) -> Result<Vec<u8>, Error> {
/// #         sealed.strip_prefix(b"sealed").map(<[u8]>::to_vec).ok_or_else(|| std::io::ErrorKind::InvalidData.into())
/// #     }
/// #     pub fn is_invalid_ciphertext(error: &Error) -> bool { error.kind() == std::io::ErrorKind::InvalidData }
/// # }
///
/// #[derive(Debug)]
/// struct ManagedKey {
///     id: KeyId,
/// }
///
/// #[async_trait]
/// impl KeyProvider for ManagedKey {
///     fn key_id(&self) -> &KeyId {
///         &self.id
///     }
///
///     async fn wrap(&self, data_key: &DataKey) -> Result<Vec<u8>, KeyError> {
///         service::encrypt(self.id.as_str(), data_key.as_bytes()).await.map_err(KeyError::unavailable)
///     }
///
///     async fn unwrap(&self, wrapped: &[u8]) -> Result<DataKey, KeyError> {
///         let bytes = service::decrypt(self.id.as_str(), wrapped).await.map_err(|error| {
///             if service::is_invalid_ciphertext(&error) { KeyError::WrongKey } else { KeyError::unavailable(error) }
///         })?;
///         DataKey::try_from(bytes)
///     }
/// }
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// use memory_tool_core::InMemoryStore;
/// use memory_tool_encrypted::{EncryptedStore, KeyRing};
///
/// let key = ManagedKey { id: "projects/support/keys/memory".parse()? };
/// let store = EncryptedStore::open(InMemoryStore::new(), KeyRing::new(key)).await?;
/// # drop(store);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[async_trait]
pub trait KeyProvider: fmt::Debug + Send + Sync + 'static {
    /// The name of the key.
    fn key_id(&self) -> &KeyId;

    /// Encrypts a data key. The result has at most 65,535 bytes.
    ///
    /// # Errors
    /// [`KeyError::Unavailable`].
    async fn wrap(&self, data_key: &DataKey) -> Result<Vec<u8>, KeyError>;

    /// Decrypts a data key.
    ///
    /// # Errors
    /// [`KeyError::WrongKey`] if it was not wrapped with this key or was modified; [`KeyError::Unsupported`];
    /// [`KeyError::Unavailable`].
    async fn unwrap(&self, wrapped: &[u8]) -> Result<DataKey, KeyError>;
}

macro_rules! forward_provider {
    ($pointer:ident) => {
        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl<P: KeyProvider + ?Sized> KeyProvider for $pointer<P> {
            fn key_id(&self) -> &KeyId {
                (**self).key_id()
            }

            async fn wrap(&self, data_key: &DataKey) -> Result<Vec<u8>, KeyError> {
                (**self).wrap(data_key).await
            }

            async fn unwrap(&self, wrapped: &[u8]) -> Result<DataKey, KeyError> {
                (**self).unwrap(wrapped).await
            }
        }
    };
}

forward_provider!(Arc);
forward_provider!(Box);

/// The name of a key: 1 to [`MAX_KEY_ID_BYTES`] bytes without control characters. It is stored in plain text next to
/// the wrapped data key.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct KeyId(pub(super) Arc<str>);

impl KeyId {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for KeyId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl FromStr for KeyId {
    type Err = KeyIdError;

    fn from_str(text: &str) -> Result<Self, KeyIdError> {
        if text.is_empty() || text.len() > MAX_KEY_ID_BYTES {
            return Err(KeyIdError::Length { length: text.len() });
        }
        if text.chars().any(char::is_control) {
            return Err(KeyIdError::ControlCharacter);
        }
        Ok(Self(text.into()))
    }
}

/// The error for an invalid [`KeyId`].
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyIdError {
    /// The id is empty or too long.
    #[error("a key id must have 1 to {MAX_KEY_ID_BYTES} bytes, not {length}")]
    Length {
        /// The length in bytes.
        length: usize,
    },
    /// The id contains a control character.
    #[error("a key id must not contain control characters")]
    ControlCharacter,
}
