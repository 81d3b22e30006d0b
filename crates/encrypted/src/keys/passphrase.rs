//! [`Passphrase`]: a key that a person can remember.

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
use crate::keys::raw::{unwrap_under, wrap_under};
use crate::keys::secret_file::read_secret;
use crate::keys::{DataKey, KEY_BYTES, KeyError, KeyId, KeyProvider, KeySourceError};
use crate::scrub::scrubbed;

/// What it costs to try a passphrase, unless another cost is set: the second recommendation of RFC 9106, 64 MiB of memory. It is
/// more than what OWASP asks for at least, 19 MiB and two passes.
pub const DEFAULT_PASSPHRASE_COST: PassphraseCost = PassphraseCost { memory_kib: 64 * 1024, passes: 3, lanes: 4 };

/// The greatest cost that is accepted, so that nobody who can write to the disk makes this process take all memory or never end.
const MAX_COST: PassphraseCost = PassphraseCost { memory_kib: 1024 * 1024, passes: 16, lanes: 16 };

const VERSION: u8 = 1;
const SALT_BYTES: usize = 16;
const COST_BYTES: usize = 12;
const HEAD_BYTES: usize = 1 + COST_BYTES + SALT_BYTES + KEY_BYTES;
const LABEL: &[u8] = b"memory-tool data key wrapped by a passphrase\x01";

/// A passphrase, out of which Argon2id makes a key. Each data key that it wraps has a salt of its own.
///
/// A passphrase is text in Unicode's normalization form C (NFC), and is normalized where it is given: `é` is one passphrase, whether
/// a keyboard makes one character of it or two. Blanks and upper and lower case count.
///
/// The passphrase lies in one place of the process, on the heap, and is zeroized when it is dropped. The key that is made of it is
/// zeroized as soon as it has wrapped or unwrapped a data key.
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

/// What it costs to try a passphrase: the parameters of Argon2id.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PassphraseCost {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
}

impl PassphraseCost {
    /// So much memory in KiB, so many passes over it, and so many lanes in which it may be done.
    ///
    /// # Errors
    /// [`KeyError::Unsupported`] for less than Argon2id can do with, 8 KiB a lane, or for more than 1 GiB, 16 passes or 16 lanes.
    pub fn new(memory_kib: u32, passes: u32, lanes: u32) -> Result<Self, KeyError> {
        let cost = Self { memory_kib, passes, lanes };
        let is_too_much = memory_kib > MAX_COST.memory_kib || passes > MAX_COST.passes || lanes > MAX_COST.lanes;
        if is_too_much || passes == 0 || lanes == 0 || memory_kib < 8 * lanes {
            return Err(KeyError::Unsupported { reason: "its cost is out of bounds" });
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
    /// A passphrase of the default cost and with the id `passphrase`.
    ///
    /// # Errors
    /// [`KeySourceError::EmptyPassphrase`].
    pub fn new(passphrase: impl Into<String>) -> Result<Self, KeySourceError> {
        Self::from_text(Zeroizing::new(passphrase.into()))
    }

    /// The passphrase in a file of UTF-8 text. One line break at its end, `\n` or `\r\n`, is not a part of it.
    ///
    /// # Errors
    /// [`KeySourceError::File`] where it cannot be read, or where others than its owner can read or write it;
    /// [`KeySourceError::EmptyPassphrase`]; [`KeySourceError::PassphraseNotText`].
    pub async fn from_file(path: impl Into<PathBuf>) -> Result<Self, KeySourceError> {
        let path: PathBuf = path.into();
        let mut content = read_secret(path.clone()).await.map_err(|source| KeySourceError::File { path, source })?;
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

    /// The passphrase in the variable `name` of the environment.
    ///
    /// # Errors
    /// [`KeySourceError::NotInEnvironment`]; [`KeySourceError::EmptyPassphrase`].
    pub fn from_environment(name: &str) -> Result<Self, KeySourceError> {
        Self::new(env::var(name).map_err(|_| KeySourceError::NotInEnvironment { name: name.to_owned() })?)
    }

    fn from_text(passphrase: Zeroizing<String>) -> Result<Self, KeySourceError> {
        if passphrase.is_empty() {
            return Err(KeySourceError::EmptyPassphrase);
        }
        let id = KeyId("passphrase".into());
        Ok(Self { id, passphrase: Arc::new(normalized(passphrase)), cost: DEFAULT_PASSPHRASE_COST })
    }

    /// The passphrase by another name.
    #[must_use]
    pub fn with_id(mut self, id: KeyId) -> Self {
        self.id = id;
        self
    }

    /// What trying it shall cost for data keys that are wrapped from now on. Default: [`DEFAULT_PASSPHRASE_COST`].
    #[must_use]
    pub fn with_cost(mut self, cost: PassphraseCost) -> Self {
        self.cost = cost;
        self
    }

    /// Makes a key, on a thread where that may take its time.
    async fn derive(&self, salt: [u8; SALT_BYTES], cost: PassphraseCost) -> Result<Derived, KeyError> {
        let passphrase = Arc::clone(&self.passphrase);
        spawn_blocking(move || scrubbed(|| derive(passphrase.as_bytes(), &salt, cost)))
            .await
            .map_err(KeyError::unavailable)?
    }
}

impl fmt::Debug for Passphrase {
    /// Without the passphrase.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passphrase").field("id", &self.id).field("cost", &self.cost).finish_non_exhaustive()
    }
}

/// What a passphrase, a salt and a cost give.
struct Derived {
    cipher: Cipher,
    /// Stored beside what the key wraps. It says whether the passphrase is the right one, and leaves only one that can be: a
    /// ciphertext of AES-GCM may be made to open under many keys, so that each time somebody tries to open it many
    /// passphrases could be told apart.
    commitment: [u8; KEY_BYTES],
}

/// The text in NFC.
fn normalized(text: Zeroizing<String>) -> Zeroizing<String> {
    /// By how much NFC makes a text longer at most, in UTF-8.
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

fn derive(passphrase: &[u8], salt: &[u8; SALT_BYTES], cost: PassphraseCost) -> Result<Derived, KeyError> {
    let parameters = Params::new(cost.memory_kib, cost.passes, cost.lanes, Some(2 * KEY_BYTES));
    let parameters = parameters.map_err(|_| KeyError::Unsupported { reason: "its cost is out of bounds" })?;
    let mut memory = Zeroizing::new(Vec::new());
    memory.try_reserve_exact(parameters.block_count()).map_err(KeyError::unavailable)?;
    memory.resize(parameters.block_count(), Block::new());
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, parameters);
    let mut output = Zeroizing::new([[0; KEY_BYTES]; 2]);
    let hashing = argon2.hash_password_into_with_memory(passphrase, salt, output.as_flattened_mut(), &mut *memory);
    hashing.map_err(|error| KeyError::unavailable(error.to_string()))?;
    let [key, commitment] = &*output;
    let key = DataKey::from_slice(key).ok_or(KeyError::WrongKey)?;
    Ok(Derived { cipher: Cipher::new(&key), commitment: *commitment })
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
        const UNKNOWN: KeyError = KeyError::Unsupported { reason: "it is of another version" };
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
    async fn what_was_wrapped_comes_back_and_nothing_else_does() {
        let data_key = DataKey::from_bytes([7; KEY_BYTES]);
        let wrapped = passphrase("right").wrap(&data_key).await.unwrap();
        assert_eq!(passphrase("right").unwrap(&wrapped).await.unwrap().as_bytes(), &[7; KEY_BYTES]);
        assert!(matches!(passphrase("wrong").unwrap(&wrapped).await, Err(KeyError::WrongKey)));
        for place in 0..wrapped.len() {
            let mut changed = wrapped.clone();
            changed[place] ^= 1;
            passphrase("right").unwrap(&changed).await.unwrap_err();
            passphrase("right").unwrap(&wrapped[..place]).await.unwrap_err();
        }
    }

    #[tokio::test]
    async fn the_default_cost_can_be_paid() {
        let wrapped = Passphrase::new("right").unwrap().wrap(&DataKey::from_bytes([7; KEY_BYTES])).await.unwrap();
        // The cost is in what was wrapped, so that it may be another tomorrow.
        assert_eq!(passphrase("right").unwrap(&wrapped).await.unwrap().as_bytes(), &[7; KEY_BYTES]);
    }

    #[tokio::test]
    async fn a_cost_that_nobody_can_pay_is_refused_at_once() {
        let mut wrapped = passphrase("right").wrap(&DataKey::from_bytes([7; KEY_BYTES])).await.unwrap();
        for field in [1, 5, 9] {
            let mut costly = wrapped.clone();
            costly[field..field + 4].fill(0xff);
            assert!(matches!(passphrase("right").unwrap(&costly).await, Err(KeyError::Unsupported { .. })));
        }
        wrapped[5..9].fill(0);
        assert!(matches!(passphrase("right").unwrap(&wrapped).await, Err(KeyError::Unsupported { .. })));
    }

    /// Who could make a ciphertext that opens under the keys of many passphrases could not make it commit to them.
    #[tokio::test]
    async fn what_does_not_commit_to_the_passphrase_is_refused() {
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
    fn an_empty_passphrase_is_none() {
        assert!(matches!(Passphrase::new(""), Err(KeySourceError::EmptyPassphrase)));
    }
}
