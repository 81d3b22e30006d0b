//! [`Naming`]: what a memory is called, so that another of the same key is not taken for it.

use crate::failure::EncryptionError;
use crate::index::Index;

/// The name that the index has to have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Naming {
    /// What the memory is called; `None` where it has no name.
    pub(crate) name: Option<String>,
    /// What it may be called besides, until its index is written the next time.
    pub(crate) former: Vec<Option<String>>,
}

impl Naming {
    /// Checks that an index is that of the memory of this name.
    pub(crate) fn check(&self, index: &Index) -> Result<(), EncryptionError> {
        let is_it = index.name == self.name || self.former.contains(&index.name);
        if is_it { Ok(()) } else { Err(EncryptionError::OtherName { expected: self.name.clone() }) }
    }
}
