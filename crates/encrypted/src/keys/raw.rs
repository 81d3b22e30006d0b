//! [`RawKey`]: a key of 32 bytes that this process is given.

use std::env;
use std::path::PathBuf;

use async_trait::async_trait;
use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::cipher::{Cipher, NONCE_BYTES, Nonce, TAG_BYTES};
use crate::keys::secret_file::read_secret;
use crate::keys::{DataKey, KEY_BYTES, KeyError, KeyId, KeyProvider};
use crate::scrub::scrubbed;

/// A key of 32 random bytes, from a file, the environment, or wherever this process has it from.
///
/// The key lies in one place of the process, on the heap, and is zeroized when it is dropped. The value of a variable of the
/// environment, and bytes that you pass, stay where they are as well.
///
/// Its id is made of a fingerprint of the key, or is a name that you give it.
///
/// ```
/// use memory_tool_encrypted::{KeyProvider, RawKey};
///
/// let key = RawKey::generate()?;
/// let text = key.to_hex(); // to be kept in a safe place
/// assert_eq!(RawKey::from_text(&text)?.key_id(), key.key_id());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RawKey {
    id: KeyId,
    key: DataKey,
}

/// The version of the form of what is wrapped.
const VERSION: u8 = 1;
/// What nothing but a wrapped data key is authenticated with.
const ASSOCIATED: &[u8] = b"memory-tool data key wrapped by a key\x01";
const FINGERPRINT: &[u8] = b"memory-tool fingerprint of a key\x01";
const FINGERPRINT_BYTES: usize = 8;

impl RawKey {
    /// A new random key.
    ///
    /// # Errors
    /// [`KeyError::Unavailable`] where the system has no randomness.
    pub fn generate() -> Result<Self, KeyError> {
        DataKey::random().map(Self::new).map_err(KeyError::unavailable)
    }

    /// The key that these bytes are. They should come from a generator for keys: what a person can remember is a
    /// [`Passphrase`](crate::Passphrase).
    pub fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        Self::new(DataKey::from_bytes(bytes))
    }

    fn new(key: DataKey) -> Self {
        let digest = scrubbed(|| Sha256::new().chain_update(FINGERPRINT).chain_update(key.as_bytes()).finalize());
        let hexadecimal: String = digest.iter().take(FINGERPRINT_BYTES).map(|byte| format!("{byte:02x}")).collect();
        Self { id: KeyId(format!("key-{hexadecimal}").into()), key }
    }

    /// The key in a text: 64 hexadecimal digits in upper or lower case, or 32 bytes in base64 of either alphabet, with or without
    /// padding. ASCII whitespace around it is ignored.
    ///
    /// # Errors
    /// [`KeySourceError::NotAKey`].
    pub fn from_text(text: &str) -> Result<Self, KeySourceError> {
        let text = text.trim_ascii();
        let key = scrubbed(|| hexadecimal(text).or_else(|| base64(text)));
        key.map(Self::new).ok_or(KeySourceError::NotAKey)
    }

    /// The key in a file, as text or as 32 bytes.
    ///
    /// 32 bytes that are text are refused: they are a passphrase, or a part of a key.
    ///
    /// # Errors
    /// [`KeySourceError::File`] where it cannot be read, or where others than its owner can read or write it;
    /// [`KeySourceError::NotAKey`]; [`KeySourceError::TextOf32Bytes`].
    pub async fn from_file(path: impl Into<PathBuf>) -> Result<Self, KeySourceError> {
        let path: PathBuf = path.into();
        let content = read_secret(path.clone()).await.map_err(|source| KeySourceError::File { path, source })?;
        let text = std::str::from_utf8(&content);
        match DataKey::from_slice(&content) {
            Some(_) if text.is_ok_and(is_printable) => Err(KeySourceError::TextOf32Bytes),
            Some(key) => Ok(Self::new(key)),
            None => Self::from_text(text.map_err(|_| KeySourceError::NotAKey)?),
        }
    }

    /// The key in the variable `name` of the environment, as text.
    ///
    /// # Errors
    /// [`KeySourceError::NotInEnvironment`]; [`KeySourceError::NotAKey`].
    pub fn from_environment(name: &str) -> Result<Self, KeySourceError> {
        let text = env::var(name).map(Zeroizing::new);
        Self::from_text(&text.map_err(|_| KeySourceError::NotInEnvironment { name: name.to_owned() })?)
    }

    /// The key by another name, such as that of the year in which it was made.
    #[must_use]
    pub fn with_id(mut self, id: KeyId) -> Self {
        self.id = id;
        self
    }

    /// The key as text, to be kept in a safe place.
    #[must_use]
    pub fn to_hex(&self) -> Zeroizing<String> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = Zeroizing::new(String::with_capacity(2 * KEY_BYTES));
        for byte in self.key.as_bytes() {
            for digit in [byte >> 4, byte & 15] {
                text.push(DIGITS[usize::from(digit)].into());
            }
        }
        text
    }
}

/// Whether a text may have been typed: it has no control characters but tabs and line breaks.
///
/// Of the keys of 32 random bytes, one in 50,000,000,000 is such a text.
fn is_printable(text: &str) -> bool {
    text.chars().all(|char| !char.is_control() || matches!(char, '\t' | '\n' | '\r'))
}

fn hexadecimal(text: &str) -> Option<DataKey> {
    let mut key = DataKey::zero();
    if text.len() != 2 * KEY_BYTES {
        return None;
    }
    for (byte, digits) in key.as_mut_bytes().iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
        *byte = (digit(digits[0])? << 4) | digit(digits[1])?;
    }
    Some(key)
}

/// How much room base64 is decoded to: more than a key, since the decoder asks for whole groups of three bytes.
const DECODED_BYTES: usize = 2 * KEY_BYTES;

fn base64(text: &str) -> Option<DataKey> {
    let with_or_without_padding = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    [STANDARD, URL_SAFE].into_iter().find_map(|alphabet| {
        let mut decoded = Zeroizing::new([0; DECODED_BYTES]);
        let engine = GeneralPurpose::new(&alphabet, with_or_without_padding);
        let length = engine.decode_slice(text, &mut *decoded).ok()?;
        DataKey::from_slice(&decoded[..length])
    })
}

#[async_trait]
impl KeyProvider for RawKey {
    fn key_id(&self) -> &KeyId {
        &self.id
    }

    async fn wrap(&self, data_key: &DataKey) -> Result<Vec<u8>, KeyError> {
        let nonce = Nonce::random().map_err(KeyError::unavailable)?;
        Ok([[VERSION].as_slice(), &wrap_under(&Cipher::new(&self.key), &nonce, ASSOCIATED, data_key)?].concat())
    }

    async fn unwrap(&self, wrapped: &[u8]) -> Result<DataKey, KeyError> {
        match wrapped.split_first() {
            Some((&VERSION, sealed)) => unwrap_under(&Cipher::new(&self.key), ASSOCIATED, sealed),
            _ => Err(KeyError::Unsupported { reason: "it is of another version" }),
        }
    }
}

/// A nonce, and after it a data key encrypted with it.
pub(crate) fn wrap_under(
    cipher: &Cipher,
    nonce: &Nonce,
    associated: &[u8],
    data_key: &DataKey,
) -> Result<Vec<u8>, KeyError> {
    let mut buffer = Zeroizing::new(Vec::with_capacity(associated.len() + KEY_BYTES + TAG_BYTES));
    buffer.extend_from_slice(associated);
    buffer.extend_from_slice(data_key.as_bytes());
    cipher.seal(nonce, associated.len(), &mut buffer).map_err(KeyError::unavailable)?;
    Ok([nonce.0.as_slice(), &buffer[associated.len()..]].concat())
}

/// What [`wrap_under`] wrapped.
pub(crate) fn unwrap_under(cipher: &Cipher, associated: &[u8], wrapped: &[u8]) -> Result<DataKey, KeyError> {
    let (nonce, sealed) = wrapped.split_first_chunk::<NONCE_BYTES>().ok_or(KeyError::WrongKey)?;
    let mut buffer = Zeroizing::new([associated, sealed].concat());
    cipher.open(&Nonce(*nonce), associated.len(), &mut buffer).map_err(|_| KeyError::WrongKey)?;
    DataKey::from_slice(&buffer[associated.len()..]).ok_or(KeyError::WrongKey)
}

/// Why a key or passphrase could not be had from where it is kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeySourceError {
    /// It is no key.
    #[error("it is not a key: 64 hexadecimal digits, or 32 bytes in base64")]
    NotAKey,
    /// It is a file of 32 bytes that are text: nobody makes such a key, but people choose such passphrases, and cut keys off.
    #[error(
        "the file holds 32 printable characters, not 32 random bytes: use it as a passphrase (`--passphrase-file`, \
         `Passphrase::from_file`), or write the key as 64 hexadecimal digits or in base64"
    )]
    TextOf32Bytes,
    /// It is no passphrase.
    #[error("the passphrase is empty")]
    EmptyPassphrase,
    /// It is a passphrase that is not text: it could not be typed on another machine.
    #[error("the passphrase is not UTF-8 text")]
    PassphraseNotText,
    /// The variable is not set, or holds no text.
    #[error("the variable {name} of the environment is not set")]
    NotInEnvironment {
        /// The name of the variable.
        name: String,
    },
    /// The file cannot be read, or must not be used.
    #[error("cannot use the file {}", path.display())]
    File {
        /// The file, as it was given.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1eff";

    #[test]
    fn a_key_is_read_in_each_of_its_forms() {
        let key = RawKey::from_text(HEX).unwrap();
        assert_eq!(*key.to_hex(), HEX);
        for text in [
            HEX.to_uppercase(),
            format!("  {HEX}\r\n"),
            "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHv8=".to_owned(),
            "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHv8".to_owned(),
            "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHv8\n".replace("/", "_"),
        ] {
            assert_eq!(*RawKey::from_text(&text).unwrap().to_hex(), HEX, "{text}");
        }
        for text in ["", "00", &HEX[1..], &format!("{HEX}00"), &HEX.replace('f', "g"), "AAECAwQF", &"é".repeat(32)] {
            assert!(matches!(RawKey::from_text(text), Err(KeySourceError::NotAKey)), "{text}");
        }
    }

    #[test]
    fn the_id_is_of_the_key() {
        let key = RawKey::from_text(HEX).unwrap();
        assert_eq!(key.key_id(), RawKey::from_text(HEX).unwrap().key_id());
        assert_ne!(key.key_id(), RawKey::generate().unwrap().key_id());
        assert!(!HEX.contains(key.key_id().as_str().trim_start_matches("key-")));
    }

    #[tokio::test]
    async fn what_was_wrapped_comes_back_and_nothing_else_does() {
        let key = RawKey::generate().unwrap();
        let data_key = DataKey::from_bytes([7; KEY_BYTES]);
        let wrapped = key.wrap(&data_key).await.unwrap();
        assert_eq!(key.unwrap(&wrapped).await.unwrap().as_bytes(), &[7; KEY_BYTES]);
        assert_ne!(wrapped, key.wrap(&data_key).await.unwrap());
        assert!(matches!(RawKey::generate().unwrap().unwrap(&wrapped).await, Err(KeyError::WrongKey)));
        for place in 0..wrapped.len() {
            let mut changed = wrapped.clone();
            changed[place] ^= 1;
            key.unwrap(&changed).await.unwrap_err();
            key.unwrap(&wrapped[..place]).await.unwrap_err();
        }
    }
}
