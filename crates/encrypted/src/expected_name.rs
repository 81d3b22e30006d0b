//! [`ExpectedName`]: the name that a memory must have, so that another memory under the same key is not taken for it.

use crate::failure::EncryptionError;
use crate::index::Index;

/// The name that the index must have.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExpectedName {
    /// What the memory is called; `None` where it has no name.
    pub(crate) name: Option<String>,
    /// Other names that are accepted until the index is next written.
    pub(crate) former: Vec<Option<String>>,
}

impl ExpectedName {
    /// Checks that an index is that of the memory of this name.
    pub(crate) fn check(&self, index: &Index) -> Result<(), EncryptionError> {
        let is_it = index.name == self.name || self.former.contains(&index.name);
        if is_it { Ok(()) } else { Err(EncryptionError::OtherName { expected: self.name.clone() }) }
    }
}
