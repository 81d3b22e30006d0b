//! [`RawKey`]: a key of 32 bytes in this process.

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
use crate::data_key::{DataKey, KEY_BYTES, KeyError};
use crate::keys::provider::{KeyId, KeyProvider};
use crate::scrub::scrubbed;
use crate::secret_file::read_secret;

/// A key of 32 random bytes, from a file, the environment or another source.
///
/// The key stays in one heap allocation and is zeroized on drop. Environment variables and bytes that you pass are not
/// zeroized.
///
/// By default, the id is a fingerprint of the key. [`with_id`](Self::with_id) sets another one.
///
/// ```
/// use memory_tool_encrypted::{KeyProvider, RawKey};
///
/// let key = RawKey::generate()?;
/// let text = key.to_hex(); // store this in a safe place
/// assert_eq!(RawKey::from_text(&text)?.key_id(), key.key_id());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RawKey {
    id: KeyId,
    key: DataKey,
}

/// The version of the wrapped form.
const VERSION: u8 = 1;
/// The associated data of a wrapped data key, which no other ciphertext has.
const ASSOCIATED: &[u8] = b"memory-tool data key wrapped by a key\x01";
const FINGERPRINT: &[u8] = b"memory-tool fingerprint of a key\x01";
const FINGERPRINT_BYTES: usize = 8;

impl RawKey {
    /// Generates a random key.
    ///
    /// # Errors
    /// [`KeyError::Unavailable`] if the system has no randomness.
    pub fn generate() -> Result<Self, KeyError> {
        DataKey::random().map(Self::new).map_err(KeyError::unavailable)
    }

    /// Creates a key from bytes, which should be random. Use [`Passphrase`](crate::Passphrase) for a secret that people
    /// can remember.
    pub fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        Self::new(DataKey::from_bytes(bytes))
    }

    fn new(key: DataKey) -> Self {
        let digest = scrubbed(|| Sha256::new().chain_update(FINGERPRINT).chain_update(key.as_bytes()).finalize());
        let hexadecimal: String = digest.iter().take(FINGERPRINT_BYTES).map(|byte| format!("{byte:02x}")).collect();
        Self { id: KeyId(format!("key-{hexadecimal}").into()), key }
    }

    /// Parses a key: 64 hexadecimal digits in upper or lower case, or 32 bytes in standard or URL-safe base64, with or
    /// without padding. ASCII whitespace around it is ignored.
    ///
    /// # Errors
    /// [`KeySourceError::NotAKey`].
    pub fn from_text(text: &str) -> Result<Self, KeySourceError> {
        let text = text.trim_ascii();
        let key = scrubbed(|| hexadecimal(text).or_else(|| base64(text)));
        key.map(Self::new).ok_or(KeySourceError::NotAKey)
    }

    /// Reads a key from a file, which holds text or 32 bytes.
    ///
    /// A file with 32 printable characters is refused, because it probably holds a passphrase or a truncated key.
    ///
    /// # Errors
    /// [`KeySourceError::File`] if the file cannot be read, or if other users can access it;
    /// [`KeySourceError::NotAKey`]; [`KeySourceError::TextOf32Bytes`].
    pub async fn from_file(path: impl Into<PathBuf>) -> Result<Self, KeySourceError> {
        let path: PathBuf = path.into();
        let content = read_secret(path.clone()).await.map_err(|source| KeySourceError::file(path, source))?;
        let text = std::str::from_utf8(&content);
        match DataKey::from_slice(&content) {
            Some(_) if text.is_ok_and(is_printable) => Err(KeySourceError::TextOf32Bytes),
            Some(key) => Ok(Self::new(key)),
            None => Self::from_text(text.map_err(|_| KeySourceError::NotAKey)?),
        }
    }

    /// Reads a key from the environment variable `name`, in text form.
    ///
    /// # Errors
    /// [`KeySourceError::NotInEnvironment`]; [`KeySourceError::NotAKey`].
    pub fn from_environment(name: &str) -> Result<Self, KeySourceError> {
        let text = env::var(name).map(Zeroizing::new);
        Self::from_text(&text.map_err(|_| KeySourceError::not_in_environment(name))?)
    }

    /// Sets the id of the key, for example to the year of its creation.
    #[must_use]
    pub fn with_id(mut self, id: KeyId) -> Self {
        self.id = id;
        self
    }

    /// Formats the key as 64 hexadecimal digits.
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

/// Whether the string has no control characters except tabs and line breaks.
///
/// One in 50,000,000,000 random keys of 32 bytes is printable UTF-8.
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

/// The size of the buffer for decoding base64. It exceeds a key, because the decoder requires whole groups of three
/// bytes.
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
            _ => Err(KeyError::Unsupported { reason: "unknown version" }),
        }
    }
}

/// Encrypts a data key. The result begins with the nonce.
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

/// Decrypts the output of [`wrap_under`].
pub(crate) fn unwrap_under(cipher: &Cipher, associated: &[u8], wrapped: &[u8]) -> Result<DataKey, KeyError> {
    let (nonce, sealed) = wrapped.split_first_chunk::<NONCE_BYTES>().ok_or(KeyError::WrongKey)?;
    let mut buffer = Zeroizing::new([associated, sealed].concat());
    cipher.open(&Nonce(*nonce), associated.len(), &mut buffer).ok_or(KeyError::WrongKey)?;
    DataKey::from_slice(&buffer[associated.len()..]).ok_or(KeyError::WrongKey)
}

/// An error while loading a key or passphrase.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeySourceError {
    /// The input is not a key.
    #[error("not a key: expected 64 hexadecimal digits, or 32 bytes in base64")]
    NotAKey,
    /// The file holds 32 bytes of text, which is probably a passphrase or a truncated key.
    #[error(
        "the file holds 32 printable characters, not 32 random bytes: use it as a passphrase (`--passphrase-file`, \
         `Passphrase::from_file`), or write the key as 64 hexadecimal digits or in base64"
    )]
    TextOf32Bytes,
    /// The passphrase is empty.
    #[error("the passphrase is empty")]
    EmptyPassphrase,
    /// The passphrase is not UTF-8.
    #[error("the passphrase is not UTF-8 text")]
    PassphraseNotText,
    /// The environment variable is not set or is not UTF-8.
    #[error("environment variable {name} is not set or is not UTF-8")]
    NotInEnvironment {
        /// The name of the variable. A note replaces a name that is itself a key.
        name: String,
    },
    /// The file cannot be read, or other users can access it.
    #[error("cannot use the file {}", path.display())]
    File {
        /// The path that was passed. A note replaces a path that is itself a key.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
}

/// Replaces a key that was passed as the name of its source.
const HIDDEN: &str = "[hidden: the name is itself a key]";

impl KeySourceError {
    pub(super) fn file(path: PathBuf, source: std::io::Error) -> Self {
        let is_key = path.to_str().is_some_and(is_key);
        Self::File { path: if is_key { HIDDEN.into() } else { path }, source }
    }

    pub(super) fn not_in_environment(name: &str) -> Self {
        Self::NotInEnvironment { name: if is_key(name) { HIDDEN } else { name }.to_owned() }
    }
}

fn is_key(name: &str) -> bool {
    RawKey::from_text(name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1eff";

    #[tokio::test]
    async fn a_key_that_is_passed_as_the_name_of_its_source_is_in_no_error() {
        for key in [HEX, "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHv8="] {
            for error in [
                RawKey::from_environment(key).unwrap_err(),
                RawKey::from_file(key).await.unwrap_err(),
                crate::Passphrase::from_environment(key).unwrap_err(),
                crate::Passphrase::from_file(key).await.unwrap_err(),
            ] {
                assert!(!format!("{error} {error:?}").contains(key), "{error:?}");
            }
        }
        assert!(RawKey::from_environment("NO_KEY").unwrap_err().to_string().contains("NO_KEY"));
    }

    #[test]
    fn each_text_form_of_a_key_is_parsed() {
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
    fn the_default_id_depends_on_the_key() {
        let key = RawKey::from_text(HEX).unwrap();
        assert_eq!(key.key_id(), RawKey::from_text(HEX).unwrap().key_id());
        assert_ne!(key.key_id(), RawKey::generate().unwrap().key_id());
        assert!(!HEX.contains(key.key_id().as_str().trim_start_matches("key-")));
    }

    #[tokio::test]
    async fn unwrap_restores_the_data_key_and_refuses_modified_input() {
        let key = RawKey::generate().unwrap();
        let data_key = DataKey::from_bytes([7; KEY_BYTES]);
        let wrapped = key.wrap(&data_key).await.unwrap();
        assert_eq!(key.unwrap(&wrapped).await.unwrap().as_bytes(), &[7; KEY_BYTES]);
        assert_ne!(wrapped, key.wrap(&data_key).await.unwrap());
        assert!(matches!(RawKey::generate().unwrap().unwrap(&wrapped).await, Err(KeyError::WrongKey)));
        for at in 0..wrapped.len() {
            let mut changed = wrapped.clone();
            changed[at] ^= 1;
            key.unwrap(&changed).await.unwrap_err();
            key.unwrap(&wrapped[..at]).await.unwrap_err();
        }
    }
}
