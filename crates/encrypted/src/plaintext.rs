//! [`Plaintext`]: what was decrypted, or is to be encrypted, until it is done with.

use std::fmt;
use std::ops::Deref;

use zeroize::optimization_barrier;

/// Bytes that are zeroized when they are dropped.
///
/// [`Zeroizing`](zeroize::Zeroizing) writes one byte at a time, so that a megabyte takes as long to forget as to encrypt. Here a
/// whole block is written at once, and the compiler is kept from leaving that out, as nobody reads it.
pub(crate) struct Plaintext(Vec<u8>);

impl Plaintext {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl Deref for Plaintext {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Plaintext {
    /// Without the bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plaintext").finish_non_exhaustive()
    }
}

impl Drop for Plaintext {
    fn drop(&mut self) {
        zeroize(&mut self.0);
    }
}

/// Fills all that is allocated with zeros, also what a longer content may have left behind the end.
fn zeroize(bytes: &mut Vec<u8>) {
    bytes.clear();
    bytes.resize(bytes.capacity(), 0);
    optimization_barrier(bytes.as_slice());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_allocated_is_zeroized_where_it_is() {
        for length in [0, 1, 1_000] {
            let mut bytes = vec![b'x'; length];
            bytes.reserve(100);
            bytes.resize(bytes.capacity(), b'y');
            bytes.truncate(length);
            let (place, capacity) = (bytes.as_ptr(), bytes.capacity());
            zeroize(&mut bytes);
            assert_eq!((bytes.as_ptr(), bytes.len()), (place, capacity));
            assert!(bytes.iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn no_plaintext_is_shown() {
        assert_eq!(format!("{:?}", Plaintext::new(b"secret".to_vec())), "Plaintext { .. }");
    }
}
