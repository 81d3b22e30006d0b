//! Keys: the trait [`KeyProvider`] and the providers of this crate.

mod passphrase;
mod provider;
mod raw;
mod ring;

pub use self::passphrase::{DEFAULT_PASSPHRASE_COST, Passphrase, PassphraseCost};
pub use self::provider::{KeyId, KeyIdError, KeyProvider, MAX_KEY_ID_BYTES};
pub use self::raw::{KeySourceError, RawKey};
pub use self::ring::KeyRing;
pub use crate::data_key::{DataKey, KeyError};
