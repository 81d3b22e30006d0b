//! [`Plaintext`]: bytes that are zeroized on drop.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use memory_tool_core::{Batch, Change};
use zeroize::optimization_barrier;

/// Bytes that are zeroized on drop.
///
/// [`Zeroizing`](zeroize::Zeroizing) writes single bytes, which takes as long as encryption. This type writes the whole
/// block at once, behind a barrier that keeps the compiler from removing the write.
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
    /// Omits the bytes.
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

/// A batch whose contents are zeroized on drop. The threads that encrypt them share it.
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
        for change in std::mem::take(&mut self.0).into_changes() {
            // A wrapper that shares the content keeps it.
            if let Change::Write { content, .. } = change
                && let Some(content) = Arc::into_inner(content)
            {
                drop(Plaintext(content));
            }
        }
    }
}

/// The content of one change of a batch.
pub(crate) struct BatchContent {
    pub(crate) batch: Arc<PlaintextBatch>,
    /// The index of the change.
    pub(crate) number: usize,
}

impl AsRef<[u8]> for BatchContent {
    fn as_ref(&self) -> &[u8] {
        self.batch.content(self.number)
    }
}

/// Fills the whole allocation with zeros, including bytes after the end that a longer content may have left.
fn zeroize(bytes: &mut Vec<u8>) {
    bytes.clear();
    bytes.resize(bytes.capacity(), 0);
    optimization_barrier(bytes.as_slice());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_allocation_is_zeroized_in_place() {
        for length in [0, 1, 1_000] {
            let mut bytes = vec![b'x'; length];
            bytes.reserve(100);
            bytes.resize(bytes.capacity(), b'y');
            bytes.truncate(length);
            let (address, capacity) = (bytes.as_ptr(), bytes.capacity());
            zeroize(&mut bytes);
            assert_eq!((bytes.as_ptr(), bytes.len()), (address, capacity));
            assert!(bytes.iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn debug_output_omits_the_plaintext() {
        assert_eq!(format!("{:?}", Plaintext::new(b"secret".to_vec())), "Plaintext { .. }");
    }
}
