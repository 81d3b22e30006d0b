//! Keys: [`KeyProvider`], the seam behind which they are kept, and the providers that come with the crate.

mod passphrase;
mod raw;
mod ring;
mod secret_file;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;

pub use self::passphrase::{DEFAULT_PASSPHRASE_COST, Passphrase, PassphraseCost};
pub use self::raw::{KeySourceError, RawKey};
pub use self::ring::KeyRing;
pub(crate) use crate::data_key::KEY_BYTES;
pub use crate::data_key::{DataKey, KeyError};

/// The longest [`KeyId`] in bytes.
pub const MAX_KEY_ID_BYTES: usize = 255;

/// Keeps a key that never leaves it, and with it wraps the data keys that contents are encrypted with: 32 bytes in this process, a
/// passphrase, a key management service, a hardware module.
///
/// A store asks it to wrap a data key when the store is made and when its keys are rotated, and to unwrap one when a store is
/// opened. A store that is open keeps the data keys in memory.
///
/// # What holds for every provider
/// 1. What [`wrap`](Self::wrap) gave, [`unwrap`](Self::unwrap) turns back into the same data key, in this process or in any other
///    with the same key.
/// 2. Only who may unwrap may wrap. Who can wrap a data key of their own can put a memory of their own in the place of this one:
///    so a public key is no provider.
/// 3. What `unwrap` is given is whatever stands on the disk: it may have been changed, and may come from another key. That is
///    [`KeyError::WrongKey`], and never another data key.
/// 4. The id names the key, not the provider: a key that takes its place has another. It is stored in the clear.
/// 5. Nothing of a key is in `Debug` or in an error.
///
/// # Making your own
/// A provider over a key management service, which is three functions here:
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

    /// Encrypts a data key, at most 65,535 bytes long.
    ///
    /// # Errors
    /// [`KeyError::Unavailable`].
    async fn wrap(&self, data_key: &DataKey) -> Result<Vec<u8>, KeyError>;

    /// Decrypts a data key.
    ///
    /// # Errors
    /// [`KeyError::WrongKey`] where it was not wrapped by this key, or was changed since; [`KeyError::Unsupported`];
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

/// The name of a key, stored in the clear beside what it wraps: 1 to [`MAX_KEY_ID_BYTES`] bytes without control characters.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct KeyId(Arc<str>);

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

/// Why a text is no [`KeyId`].
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyIdError {
    /// It is empty or too long.
    #[error("the name of a key has 1 to {MAX_KEY_ID_BYTES} bytes, not {length}")]
    Length {
        /// The length in bytes.
        length: usize,
    },
    /// It holds a control character.
    #[error("the name of a key holds a control character")]
    ControlCharacter,
}
