//! [`Plaintext`]: what was decrypted, or is to be encrypted, until it is done with.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use memory_tool_core::{Batch, Change, RecordChange};
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

impl AsRef<[u8]> for Plaintext {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// A batch whose contents are zeroized when it is dropped. It is shared with the threads that encrypt them.
pub(crate) struct PlaintextBatch(Batch);

impl PlaintextBatch {
    pub(crate) fn new(batch: Batch) -> Arc<Self> {
        Arc::new(Self(batch))
    }
}

impl Deref for PlaintextBatch {
    type Target = Batch;

    fn deref(&self) -> &Batch {
        &self.0
    }
}

impl Drop for PlaintextBatch {
    fn drop(&mut self) {
        let (changes, record_changes) = std::mem::take(&mut self.0).into_changes();
        for change in changes {
            if let Change::Write { content, .. } = change {
                drop(Plaintext(content));
            }
        }
        for change in record_changes {
            if let RecordChange::Write { content, .. } = change {
                drop(Plaintext(content));
            }
        }
    }
}

/// What one change of a batch writes.
pub(crate) struct BatchContent {
    pub(crate) batch: Arc<PlaintextBatch>,
    /// The number of the change.
    pub(crate) number: usize,
}

impl AsRef<[u8]> for BatchContent {
    fn as_ref(&self) -> &[u8] {
        self.batch.content(self.number)
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
