//! [`Passphrase`]: a key that is derived from a passphrase.

use std::env;
use std::fmt;
use std::mem;
use std::path::PathBuf;
use std::sync::Arc;

use argon2::{Algorithm, Argon2, Block, Params, Version};
use async_trait::async_trait;
use subtle::ConstantTimeEq;
use tokio::task::spawn_blocking;
use unicode_normalization::{UnicodeNormalization as _, is_nfc};
use zeroize::Zeroizing;

use crate::cipher::{Cipher, Nonce};
use crate::data_key::{DataKey, KEY_BYTES, KeyError};
use crate::keys::provider::{KeyId, KeyProvider};
use crate::keys::raw::{KeySourceError, unwrap_under, wrap_under};
use crate::scrub::scrubbed;
use crate::secret_file::read_secret;

/// The default cost of trying a passphrase: the second recommendation of RFC 9106, with 64 MiB of memory. It exceeds
/// the OWASP minimum of 19 MiB and two passes.
pub const DEFAULT_PASSPHRASE_COST: PassphraseCost = PassphraseCost { memory_kib: 64 * 1024, passes: 3, lanes: 4 };

/// The highest accepted cost. It keeps an attacker with write access to the store from exhausting memory or time of
/// this process.
const MAX_COST: PassphraseCost = PassphraseCost { memory_kib: 1024 * 1024, passes: 16, lanes: 16 };

const COST_OUT_OF_BOUNDS: KeyError = KeyError::Unsupported { reason: "the Argon2id cost is out of bounds" };

const VERSION: u8 = 1;
const SALT_BYTES: usize = 16;
const COST_BYTES: usize = 12;
const HEAD_BYTES: usize = 1 + COST_BYTES + SALT_BYTES + KEY_BYTES;
const LABEL: &[u8] = b"memory-tool data key wrapped by a passphrase\x01";

/// A passphrase, from which Argon2id derives a key. Each wrapped data key has a separate salt.
///
/// The passphrase is normalized to Unicode NFC, so `é` is the same passphrase in its composed and decomposed forms.
/// Spaces and upper and lower case are significant.
///
/// The passphrase stays in one heap allocation and is zeroized on drop. The derived key is zeroized after each use.
///
/// ```
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// use memory_tool_core::InMemoryStore;
/// use memory_tool_encrypted::{EncryptedStore, KeyRing, Passphrase};
///
/// let passphrase = Passphrase::new("correct horse battery staple")?;
/// let store = EncryptedStore::open(InMemoryStore::new(), KeyRing::new(passphrase)).await?;
/// # drop(store);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Passphrase {
    id: KeyId,
    passphrase: Arc<Zeroizing<String>>,
    cost: PassphraseCost,
}

/// The cost of trying a passphrase: the parameters of Argon2id.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PassphraseCost {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
}

impl PassphraseCost {
    /// Creates a cost from the memory in KiB, the number of passes over it, and the number of parallel lanes.
    ///
    /// # Errors
    /// [`KeyError::Unsupported`] for less than 8 KiB per lane, which is the minimum of Argon2id, or for more than 1
    /// GiB, 16 passes or 16 lanes.
    pub fn new(memory_kib: u32, passes: u32, lanes: u32) -> Result<Self, KeyError> {
        let cost = Self { memory_kib, passes, lanes };
        let is_too_much = memory_kib > MAX_COST.memory_kib || passes > MAX_COST.passes || lanes > MAX_COST.lanes;
        if is_too_much || passes == 0 || lanes == 0 || memory_kib < 8 * lanes {
            return Err(COST_OUT_OF_BOUNDS);
        }
        Ok(cost)
    }

    fn to_bytes(self) -> [u8; COST_BYTES] {
        let mut bytes = [0; COST_BYTES];
        for (field, number) in bytes.chunks_exact_mut(4).zip([self.memory_kib, self.passes, self.lanes]) {
            field.copy_from_slice(&number.to_be_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8; COST_BYTES]) -> Result<Self, KeyError> {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = *bytes;
        let number = u32::from_be_bytes;
        Self::new(number([a, b, c, d]), number([e, f, g, h]), number([i, j, k, l]))
    }
}

impl Passphrase {
    /// Creates a passphrase with the default cost and the id `passphrase`.
    ///
    /// # Errors
    /// [`KeySourceError::EmptyPassphrase`].
    pub fn new(passphrase: impl Into<String>) -> Result<Self, KeySourceError> {
        Self::from_text(Zeroizing::new(passphrase.into()))
    }

    /// Reads a passphrase from a UTF-8 file, without one final line break, `\n` or `\r\n`.
    ///
    /// # Errors
    /// [`KeySourceError::File`] if the file cannot be read, or if other users can access it;
    /// [`KeySourceError::EmptyPassphrase`]; [`KeySourceError::PassphraseNotText`].
    pub async fn from_file(path: impl Into<PathBuf>) -> Result<Self, KeySourceError> {
        let path: PathBuf = path.into();
        let mut content = read_secret(path.clone()).await.map_err(|source| KeySourceError::file(path, source))?;
        let text = String::from_utf8(mem::take(&mut *content)).map(Zeroizing::new);
        let mut text = text.map_err(|error| {
            drop(Zeroizing::new(error.into_bytes()));
            KeySourceError::PassphraseNotText
        })?;
        if text.ends_with('\n') {
            text.pop();
            if text.ends_with('\r') {
                text.pop();
            }
        }
        Self::from_text(text)
    }

    /// Reads a passphrase from the environment variable `name`.
    ///
    /// # Errors
    /// [`KeySourceError::NotInEnvironment`]; [`KeySourceError::EmptyPassphrase`].
    pub fn from_environment(name: &str) -> Result<Self, KeySourceError> {
        Self::new(env::var(name).map_err(|_| KeySourceError::not_in_environment(name))?)
    }

    fn from_text(passphrase: Zeroizing<String>) -> Result<Self, KeySourceError> {
        if passphrase.is_empty() {
            return Err(KeySourceError::EmptyPassphrase);
        }
        let id = KeyId("passphrase".into());
        Ok(Self { id, passphrase: Arc::new(normalized(passphrase)), cost: DEFAULT_PASSPHRASE_COST })
    }

    /// Sets the id of the key.
    #[must_use]
    pub fn with_id(mut self, id: KeyId) -> Self {
        self.id = id;
        self
    }

    /// Sets the cost for data keys that are wrapped from now on. Default: [`DEFAULT_PASSPHRASE_COST`].
    #[must_use]
    pub fn with_cost(mut self, cost: PassphraseCost) -> Self {
        self.cost = cost;
        self
    }

    /// Derives a key on a blocking thread.
    async fn derive(&self, salt: [u8; SALT_BYTES], cost: PassphraseCost) -> Result<DerivedKey, KeyError> {
        let passphrase = Arc::clone(&self.passphrase);
        spawn_blocking(move || scrubbed(|| derive(passphrase.as_bytes(), &salt, cost)))
            .await
            .map_err(KeyError::unavailable)?
    }
}

impl fmt::Debug for Passphrase {
    /// Omits the passphrase.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passphrase").field("id", &self.id).field("cost", &self.cost).finish_non_exhaustive()
    }
}

/// The output of Argon2id for a passphrase, a salt and a cost.
struct DerivedKey {
    cipher: Cipher,
    /// A value stored with the wrapped data key that verifies the passphrase. It prevents partitioning oracles: an
    /// attacker can build an AES-GCM ciphertext that decrypts under many keys, and test many passphrases with each
    /// attempt to open it.
    commitment: [u8; KEY_BYTES],
}

/// Normalizes to NFC.
fn normalized(text: Zeroizing<String>) -> Zeroizing<String> {
    /// The maximum growth factor of NFC in UTF-8.
    const EXPANSION: usize = 3;
    scrubbed(|| {
        if is_nfc(&text) {
            return text;
        }
        let mut normalized = Zeroizing::new(String::with_capacity(EXPANSION * text.len())); // never grows
        normalized.extend(text.nfc());
        normalized
    })
}

fn derive(passphrase: &[u8], salt: &[u8; SALT_BYTES], cost: PassphraseCost) -> Result<DerivedKey, KeyError> {
    let parameters = Params::new(cost.memory_kib, cost.passes, cost.lanes, Some(2 * KEY_BYTES));
    let parameters = parameters.map_err(|_| COST_OUT_OF_BOUNDS)?;
    let mut memory = Zeroizing::new(Vec::new());
    memory.try_reserve_exact(parameters.block_count()).map_err(KeyError::unavailable)?;
    memory.resize(parameters.block_count(), Block::new());
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, parameters);
    let mut output = Zeroizing::new([[0; KEY_BYTES]; 2]);
    let hashing = argon2.hash_password_into_with_memory(passphrase, salt, output.as_flattened_mut(), &mut *memory);
    hashing.map_err(|error| KeyError::unavailable(error.to_string()))?;
    let [key, commitment] = &*output;
    let key = DataKey::from_slice(key).ok_or(KeyError::WrongKey)?;
    Ok(DerivedKey { cipher: Cipher::new(&key), commitment: *commitment })
}

#[async_trait]
impl KeyProvider for Passphrase {
    fn key_id(&self) -> &KeyId {
        &self.id
    }

    async fn wrap(&self, data_key: &DataKey) -> Result<Vec<u8>, KeyError> {
        let mut salt = [0; SALT_BYTES];
        getrandom::fill(&mut salt).map_err(KeyError::unavailable)?;
        let nonce = Nonce::random().map_err(KeyError::unavailable)?;
        let derived = self.derive(salt, self.cost).await?;
        let head = [[VERSION].as_slice(), &self.cost.to_bytes(), &salt, &derived.commitment].concat();
        let sealed = wrap_under(&derived.cipher, &nonce, &[LABEL, &head].concat(), data_key)?;
        Ok([head, sealed].concat())
    }

    async fn unwrap(&self, wrapped: &[u8]) -> Result<DataKey, KeyError> {
        const UNKNOWN: KeyError = KeyError::Unsupported { reason: "unknown version" };
        let (head, sealed) = wrapped.split_at_checked(HEAD_BYTES).ok_or(UNKNOWN)?;
        let (version, rest) = head.split_first().ok_or(UNKNOWN)?;
        if *version != VERSION {
            return Err(UNKNOWN);
        }
        let (cost, rest) = rest.split_first_chunk().ok_or(UNKNOWN)?;
        let (salt, commitment) = rest.split_first_chunk().ok_or(UNKNOWN)?;
        let derived = self.derive(*salt, PassphraseCost::from_bytes(cost)?).await?;
        if !bool::from(derived.commitment.as_slice().ct_eq(commitment)) {
            return Err(KeyError::WrongKey);
        }
        unwrap_under(&derived.cipher, &[LABEL, head].concat(), sealed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passphrase(text: &str) -> Passphrase {
        Passphrase::new(text).unwrap().with_cost(PassphraseCost::new(8, 1, 1).unwrap())
    }

    #[tokio::test]
    async fn unwrap_restores_the_data_key_and_refuses_modified_input() {
        let data_key = DataKey::from_bytes([7; KEY_BYTES]);
        let wrapped = passphrase("right").wrap(&data_key).await.unwrap();
        assert_eq!(passphrase("right").unwrap(&wrapped).await.unwrap().as_bytes(), &[7; KEY_BYTES]);
        assert!(matches!(passphrase("wrong").unwrap(&wrapped).await, Err(KeyError::WrongKey)));
        for at in 0..wrapped.len() {
            let mut changed = wrapped.clone();
            changed[at] ^= 1;
            passphrase("right").unwrap(&changed).await.unwrap_err();
            passphrase("right").unwrap(&wrapped[..at]).await.unwrap_err();
        }
    }

    #[tokio::test]
    async fn the_default_cost_works() {
        let wrapped = Passphrase::new("right").unwrap().wrap(&DataKey::from_bytes([7; KEY_BYTES])).await.unwrap();
        // The wrapped key contains its cost, so the default can change later.
        assert_eq!(passphrase("right").unwrap(&wrapped).await.unwrap().as_bytes(), &[7; KEY_BYTES]);
    }

    #[tokio::test]
    async fn an_excessive_cost_is_refused() {
        let mut wrapped = passphrase("right").wrap(&DataKey::from_bytes([7; KEY_BYTES])).await.unwrap();
        for field in [1, 5, 9] {
            let mut costly = wrapped.clone();
            costly[field..field + 4].fill(0xff);
            assert!(matches!(passphrase("right").unwrap(&costly).await, Err(KeyError::Unsupported { .. })));
        }
        wrapped[5..9].fill(0);
        assert!(matches!(passphrase("right").unwrap(&wrapped).await, Err(KeyError::Unsupported { .. })));
    }

    /// A ciphertext can be built to decrypt under the keys of many passphrases, but it can only commit to one.
    #[tokio::test]
    async fn a_wrong_commitment_is_refused() {
        let (passphrase, data_key) = (passphrase("right"), DataKey::from_bytes([7; KEY_BYTES]));
        let salt = [3; SALT_BYTES];
        let derived = passphrase.derive(salt, passphrase.cost).await.unwrap();
        let wrapped_with = |commitment: &[u8; KEY_BYTES]| {
            let head = [[VERSION].as_slice(), &passphrase.cost.to_bytes(), &salt, commitment].concat();
            let nonce = Nonce::random().unwrap();
            let sealed = wrap_under(&derived.cipher, &nonce, &[LABEL, &head].concat(), &data_key).unwrap();
            [head, sealed].concat()
        };
        assert!(passphrase.unwrap(&wrapped_with(&derived.commitment)).await.is_ok());
        assert!(matches!(passphrase.unwrap(&wrapped_with(&[0; KEY_BYTES])).await, Err(KeyError::WrongKey)));
    }

    #[test]
    fn an_empty_passphrase_is_refused() {
        assert!(matches!(Passphrase::new(""), Err(KeySourceError::EmptyPassphrase)));
    }
}
