//! Stored objects: a [`Header`] in the clear, and after it what is encrypted.

use zeroize::Zeroize;

use crate::cipher::{Cipher, TAG_BYTES};
use crate::failure::{Damage, EncryptionError, Failure};
use crate::header::Header;
use crate::padding::{Padding, pad, unpadded_length};

/// From how many bytes on encrypting and decrypting are left to a thread where they may take their time. So much takes 0.3 ms where the
/// processor has instructions for AES, as long as the engine takes to view it and a third of an edit: to go elsewhere and come back
/// would make each command longer, and keep the others waiting hardly less.
const LONG: usize = 1024 * 1024;

/// Encrypts a message.
pub(crate) fn seal(header: &Header, cipher: &Cipher, padding: Padding, message: &[u8]) -> Result<Vec<u8>, Failure> {
    let padded_bytes = padding.padded_length(message.len());
    let sealed_bytes = padded_bytes.saturating_add(TAG_BYTES);
    let mut stored = Vec::new();
    header.encode(sealed_bytes, &mut stored).ok_or(EncryptionError::TooLarge { what: "the index" })?;
    let head = stored.len();
    // So that it does not grow, which would leave a copy of the message behind.
    stored.try_reserve_exact(sealed_bytes).map_err(|_| EncryptionError::TooLarge { what: "a file" })?;
    stored.extend_from_slice(message);
    if header.is_padded {
        pad(&mut stored, head + padded_bytes);
    }
    cipher.seal(&header.nonce, head, &mut stored)?;
    Ok(stored)
}

/// Decrypts what follows the first `head` bytes, those of `header`.
pub(crate) fn open(header: &Header, cipher: &Cipher, head: usize, mut stored: Vec<u8>) -> Result<Vec<u8>, Damage> {
    cipher.open(&header.nonce, head, &mut stored).map_err(|_| Damage::Altered)?;
    if header.is_padded {
        match unpadded_length(&stored[head..]) {
            Some(length) => stored.truncate(head + length),
            None => {
                stored.zeroize();
                return Err(Damage::Content("its padding is none"));
            }
        }
    }
    stored.drain(..head);
    Ok(stored)
}

/// Does work on so many bytes, here or on a thread where it may take its time.
pub(crate) async fn offload<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    if bytes < LONG { Ok(work()) } else { Ok(tokio::task::spawn_blocking(work).await?) }
}
