#![doc = include_str!("../README.md")]
#![doc(test(attr(deny(warnings))))]

#[cfg(test)]
mod acceptance;
mod cipher;
mod config;
mod failure;
#[cfg(any(fuzzing, test))]
#[doc(hidden)]
pub mod fuzzing;
mod header;
mod id;
mod index;
mod keychain;
mod keys;
mod naming;
mod object;
mod padding;
mod patience;
mod plaintext;
mod plan;
mod rekey;
mod scrub;
mod shared;
mod snapshot;
mod store;
#[cfg(test)]
mod vectors;
mod verify;
mod write;

pub use config::{DEFAULT_BUSY_TIMEOUT, EncryptedStoreBuilder, OpenError};
pub use failure::{Damage, EncryptionError};
pub use keys::{
    DEFAULT_PASSPHRASE_COST, DataKey, KeyError, KeyId, KeyIdError, KeyProvider, KeyRing, KeySourceError,
    MAX_KEY_ID_BYTES, Passphrase, PassphraseCost, RawKey,
};
pub use padding::Padding;
pub use rekey::{RekeyProgress, RekeyReport};
pub use store::EncryptedStore;
pub use verify::Problem;
