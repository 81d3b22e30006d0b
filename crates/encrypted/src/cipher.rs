//! [`Cipher`]: XAES-256-GCM, as specified by C2SP.
//!
//! Its nonces are long enough to be random: after 2⁸⁰ messages under one key, the probability of a repeated nonce is
//! 2⁻³². AES-GCM reaches the same probability after 2³² messages.

use std::fmt;

use xaes_256_gcm::aead::{AeadInOut, KeyInit};
use xaes_256_gcm::{Nonce as XaesNonce, Tag, Xaes256Gcm};

use crate::data_key::DataKey;
use crate::scrub::scrubbed;

/// The length of a nonce in bytes.
pub(crate) const NONCE_BYTES: usize = 24;
/// The length of a tag in bytes.
pub(crate) const TAG_BYTES: usize = 16;

/// A random number that is unique for each message under a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Nonce(pub(crate) [u8; NONCE_BYTES]);

impl Nonce {
    pub(crate) fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; NONCE_BYTES];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }
}

/// A key that is ready to encrypt and decrypt. It is zeroized on drop.
///
/// It holds the round keys of AES-256, which begin with the key itself. They stay in one heap allocation, so moving a
/// cipher does not copy them.
pub(crate) struct Cipher(Box<Xaes256Gcm>);

impl fmt::Debug for Cipher {
    /// Omits the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cipher").finish_non_exhaustive()
    }
}

/// A message exceeds the limit of the cipher, 64 GiB.
#[derive(Debug, thiserror::Error)]
#[error("content too long to encrypt")]
pub(crate) struct MessageTooLong;

impl Cipher {
    pub(crate) fn new(key: &DataKey) -> Self {
        scrubbed(|| Self(Box::new(Xaes256Gcm::new(key.as_bytes().into()))))
    }

    /// Encrypts `buffer` in place, except for the first `head` bytes, which are authenticated only. Appends the tag.
    pub(crate) fn seal(&self, nonce: &Nonce, head: usize, buffer: &mut Vec<u8>) -> Result<(), MessageTooLong> {
        let (associated, message) = buffer.split_at_mut(head);
        let sealing = scrubbed(|| self.0.encrypt_inout_detached(&XaesNonce::from(nonce.0), associated, message.into()));
        buffer.extend_from_slice(&sealing.map_err(|_| MessageTooLong)?);
        Ok(())
    }

    /// Decrypts `buffer` in place after the first `head` bytes and removes the tag. Decrypts nothing and returns `None`
    /// if the ciphertext does not match the key, the nonce, the associated data or its tag.
    #[must_use]
    pub(crate) fn open(&self, nonce: &Nonce, head: usize, buffer: &mut Vec<u8>) -> Option<()> {
        let end = buffer.len().checked_sub(TAG_BYTES).filter(|end| *end >= head)?;
        let (sealed, tag) = buffer.split_at_mut(end);
        let (associated, message) = sealed.split_at_mut(head);
        let tag = Tag::try_from(&*tag).ok()?;
        let opening =
            scrubbed(|| self.0.decrypt_inout_detached(&XaesNonce::from(nonce.0), associated, message.into(), &tag));
        opening.ok()?;
        buffer.truncate(end);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use shake::digest::{ExtendableOutput, Update, XofReader};
    use shake::{Shake128, Shake128Reader};

    use super::*;

    /// The two vectors of <https://c2sp.org/XAES-256-GCM>: the first bit of `L` is 0 in one and 1 in the other.
    #[test]
    fn the_published_vectors_pass() {
        let nonce = Nonce(*b"ABCDEFGHIJKLMNOPQRSTUVWX");
        let vectors: [(u8, &[u8], &str); 2] = [
            (1, b"", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"),
            (3, b"c2sp.org/XAES-256-GCM", "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d"),
        ];
        for (byte, associated, sealed) in vectors {
            let cipher = Cipher::new(&DataKey::from_bytes([byte; 32]));
            let mut buffer = [associated, b"XAES-256-GCM"].concat();
            cipher.seal(&nonce, associated.len(), &mut buffer).unwrap();
            assert_eq!(hexadecimal(&buffer[associated.len()..]), sealed);
            cipher.open(&nonce, associated.len(), &mut buffer).unwrap();
            assert_eq!(&buffer[associated.len()..], b"XAES-256-GCM");
        }
    }

    #[test]
    fn the_accumulated_vector_of_10_000_iterations_passes() {
        assert_eq!(accumulated(10_000), "e6b9edf2df6cec60c8cbd864e2211b597fb69a529160cd040d56c0c210081939");
    }

    #[test]
    #[ignore = "takes a minute without optimization"]
    fn the_accumulated_vector_of_1_000_000_iterations_passes() {
        assert_eq!(accumulated(1_000_000), "2163ae1445985a30b60585ee67daa55674df06901b890593e824b8a7c885ab15");
    }

    /// The hash of the ciphertexts of generated messages, keys, nonces and associated data.
    fn accumulated(iterations: u32) -> String {
        let mut numbers = Shake128::default().finalize_xof();
        let mut ciphertexts = Shake128::default();
        for _ in 0..iterations {
            let cipher = Cipher::new(&DataKey::from_bytes(array(&mut numbers)));
            let nonce = Nonce(array(&mut numbers));
            let message = up_to_255(&mut numbers);
            let associated = up_to_255(&mut numbers);
            let mut buffer = [associated.clone(), message.clone()].concat();
            cipher.seal(&nonce, associated.len(), &mut buffer).unwrap();
            ciphertexts.update(&buffer[associated.len()..]);
            cipher.open(&nonce, associated.len(), &mut buffer).unwrap();
            assert_eq!(&buffer[associated.len()..], message);
        }
        hexadecimal(&array::<32>(&mut ciphertexts.finalize_xof()))
    }

    fn array<const LENGTH: usize>(numbers: &mut Shake128Reader) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        numbers.read(&mut bytes);
        bytes
    }

    fn up_to_255(numbers: &mut Shake128Reader) -> Vec<u8> {
        let [length] = array(numbers);
        let mut bytes = vec![0; length.into()];
        numbers.read(&mut bytes);
        bytes
    }

    fn hexadecimal(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn a_ciphertext_shorter_than_a_tag_fails_authentication() {
        let cipher = Cipher::new(&DataKey::from_bytes([1; 32]));
        for (head, length) in [(0, 0), (0, TAG_BYTES - 1), (1, TAG_BYTES), (10, 5)] {
            assert_eq!(cipher.open(&Nonce([0; 24]), head, &mut vec![0; length]), None);
        }
    }

    #[test]
    fn debug_output_omits_the_key() {
        assert_eq!(format!("{:?}", Cipher::new(&DataKey::from_bytes([1; 32]))), "Cipher { .. }");
    }
}
