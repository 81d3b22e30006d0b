#![doc = include_str!("../README.md")]
#![doc(test(attr(deny(warnings))))]

mod backoff;
mod cipher;
mod ciphertexts;
mod config;
mod data_key;
mod failure;
#[cfg(any(fuzzing, test))]
#[doc(hidden)]
pub mod fuzzing;
mod header;
mod id;
mod index;
mod index_copies;
mod inner;
mod keychain;
mod keys;
mod object;
mod padding;
mod plaintext;
mod plan;
mod read;
#[cfg(test)]
#[path = "../tests/format/reader_checks.rs"]
mod reader_checks;
mod rekey;
mod scrub;
mod secret_file;
mod snapshot;
mod state;
mod store;
mod stored_object;
#[cfg(test)]
#[path = "../tests/format/vectors.rs"]
mod vectors;
mod verify;
mod version;
mod write;

pub use config::EncryptedStoreBuilder;
pub use failure::{Damage, EncryptionError};
pub use keys::{
    DEFAULT_PASSPHRASE_COST, DataKey, KeyError, KeyId, KeyIdError, KeyProvider, KeyRing, KeySourceError,
    MAX_KEY_ID_BYTES, Passphrase, PassphraseCost, RawKey,
};
pub use padding::{InvalidPadding, Padding};
pub use rekey::{RekeyProgress, RekeyReport};
pub use store::EncryptedStore;
