//! Stored objects: a [`Header`] in plain text, followed by the ciphertext.

use zeroize::Zeroize;

use crate::cipher::{Cipher, TAG_BYTES};
use crate::failure::{Damage, EncryptionError, Failure};
use crate::header::Header;
use crate::padding::{Padding, pad, unpadded_length};

/// The number of bytes from which encryption and decryption run on a blocking thread. Processors with AES instructions
/// need 0.3 ms for one MiB, about as long as the engine needs to view it. For less, the switch to another thread costs
/// more than it saves.
const OFFLOAD_BYTES: usize = 1024 * 1024;

/// Encrypts a message.
pub(crate) fn seal(header: &Header, cipher: &Cipher, padding: Padding, message: &[u8]) -> Result<Vec<u8>, Failure> {
    let padded_bytes = padding.padded_length(message.len());
    let sealed_bytes = padded_bytes.saturating_add(TAG_BYTES);
    let mut stored = Vec::new();
    header.encode(sealed_bytes, &mut stored).ok_or(EncryptionError::TooLarge { what: "the index" })?;
    let head = stored.len();
    // Growing the vector would leave a copy of the message in freed memory.
    stored.try_reserve_exact(sealed_bytes).map_err(|_| EncryptionError::TooLarge { what: "a file" })?;
    stored.extend_from_slice(message);
    if header.is_padded {
        pad(&mut stored, head + padded_bytes);
    }
    cipher.seal(&header.nonce, head, &mut stored)?;
    Ok(stored)
}

/// Decrypts the bytes after the first `head` bytes, which are the encoded `header`.
pub(crate) fn open(header: &Header, cipher: &Cipher, head: usize, mut stored: Vec<u8>) -> Result<Vec<u8>, Damage> {
    cipher.open(&header.nonce, head, &mut stored).ok_or(Damage::Altered)?;
    if header.is_padded {
        match unpadded_length(&stored[head..]) {
            Some(length) => stored.truncate(head + length),
            None => {
                stored.zeroize();
                return Err(Damage::Content("invalid padding"));
            }
        }
    }
    stored.drain(..head);
    Ok(stored)
}

/// Runs work on the given number of bytes, on a blocking thread if there are many.
pub(crate) async fn offload<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    if bytes < OFFLOAD_BYTES { Ok(work()) } else { Ok(tokio::task::spawn_blocking(work).await?) }
}
