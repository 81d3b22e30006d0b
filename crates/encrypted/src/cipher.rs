//! [`Cipher`]: XAES-256-GCM, as C2SP specifies it.
//!
//! Its nonces are long enough to be drawn at random for as many messages as anybody will ever write under one key: after 2⁸⁰ of
//! them, the risk that two are equal is 2⁻³². Those of AES-GCM alone are not: there it is so after 2³².

use std::fmt;

use xaes_256_gcm::aead::{AeadInOut, KeyInit};
use xaes_256_gcm::{Nonce as XaesNonce, Tag, Xaes256Gcm};

use crate::data_key::DataKey;
use crate::scrub::scrubbed;

/// The number of bytes of a nonce.
pub(crate) const NONCE_BYTES: usize = 24;
/// The number of bytes that a ciphertext is longer than its message.
pub(crate) const TAG_BYTES: usize = 16;

/// A number that no two messages under one key share.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Nonce(pub(crate) [u8; NONCE_BYTES]);

impl Nonce {
    pub(crate) fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; NONCE_BYTES];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }
}

/// A key, ready to encrypt and decrypt. It is zeroized when it is dropped.
///
/// It holds the round keys of AES-256, the first two of which are the key itself. They lie in one place on the heap: moving a cipher
/// copies nothing of them.
pub(crate) struct Cipher(Box<Xaes256Gcm>);

impl fmt::Debug for Cipher {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cipher").finish_non_exhaustive()
    }
}

/// A message is longer than the cipher can encrypt: 64 GiB.
#[derive(Debug, thiserror::Error)]
#[error("the content is too long to be encrypted")]
pub(crate) struct TooLong;

/// A ciphertext is not what was written under this key, nonce and associated data.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error("the ciphertext does not authenticate")]
pub(crate) struct Unauthentic;

impl Cipher {
    pub(crate) fn new(key: &DataKey) -> Self {
        scrubbed(|| Self(Box::new(Xaes256Gcm::new(key.as_bytes().into()))))
    }

    /// Encrypts what follows the first `head` bytes of `buffer` in place, and appends the tag. The head is authenticated with it.
    pub(crate) fn seal(&self, nonce: &Nonce, head: usize, buffer: &mut Vec<u8>) -> Result<(), TooLong> {
        let (associated, message) = buffer.split_at_mut(head);
        let sealing = scrubbed(|| self.0.encrypt_inout_detached(&XaesNonce::from(nonce.0), associated, message.into()));
        buffer.extend_from_slice(&sealing.map_err(|_| TooLong)?);
        Ok(())
    }

    /// Decrypts what follows the first `head` bytes of `buffer` in place, and cuts the tag off. Nothing is decrypted where it does
    /// not authenticate.
    pub(crate) fn open(&self, nonce: &Nonce, head: usize, buffer: &mut Vec<u8>) -> Result<(), Unauthentic> {
        let end = buffer.len().checked_sub(TAG_BYTES).filter(|end| *end >= head).ok_or(Unauthentic)?;
        let (sealed, tag) = buffer.split_at_mut(end);
        let (associated, message) = sealed.split_at_mut(head);
        let tag = Tag::try_from(&*tag).map_err(|_| Unauthentic)?;
        let opening =
            scrubbed(|| self.0.decrypt_inout_detached(&XaesNonce::from(nonce.0), associated, message.into(), &tag));
        opening.map_err(|_| Unauthentic)?;
        buffer.truncate(end);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use shake::digest::{ExtendableOutput, Update, XofReader};
    use shake::{Shake128, Shake128Reader};

    use super::*;

    /// The two vectors of <https://c2sp.org/XAES-256-GCM>: the first bit of `L` is 0 in one and 1 in the other.
    #[test]
    fn the_published_vectors_hold() {
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
    fn the_published_accumulated_vector_of_10_000_holds() {
        assert_eq!(accumulated(10_000), "e6b9edf2df6cec60c8cbd864e2211b597fb69a529160cd040d56c0c210081939");
    }

    #[test]
    #[ignore = "takes a minute unless optimized"]
    fn the_published_accumulated_vector_of_1_000_000_holds() {
        assert_eq!(accumulated(1_000_000), "2163ae1445985a30b60585ee67daa55674df06901b890593e824b8a7c885ab15");
    }

    /// The hash of the ciphertexts of messages, keys, nonces and associated data that a generator gives.
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
    fn what_is_shorter_than_a_tag_does_not_authenticate() {
        let cipher = Cipher::new(&DataKey::from_bytes([1; 32]));
        for (head, length) in [(0, 0), (0, TAG_BYTES - 1), (1, TAG_BYTES), (10, 5)] {
            assert_eq!(cipher.open(&Nonce([0; 24]), head, &mut vec![0; length]), Err(Unauthentic));
        }
    }

    #[test]
    fn no_key_is_shown() {
        assert_eq!(format!("{:?}", Cipher::new(&DataKey::from_bytes([1; 32]))), "Cipher { .. }");
    }
}
