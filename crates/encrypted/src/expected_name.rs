//! [`ExpectedName`]: the name that a memory must have, which prevents an exchange with another memory of the same key.

use crate::failure::EncryptionError;
use crate::index::Index;

/// The name that the memory must have.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExpectedName {
    /// The name of the memory; `None` if it has no name.
    pub(crate) name: Option<String>,
    /// Former names, which are accepted until the memory is rekeyed.
    pub(crate) former: Vec<Option<String>>,
}

impl ExpectedName {
    /// Checks the name in an index.
    pub(crate) fn check(&self, index: &Index) -> Result<(), EncryptionError> {
        let matches = index.name == self.name || self.former.contains(&index.name);
        if matches { Ok(()) } else { Err(EncryptionError::OtherName { expected: self.name.clone() }) }
    }
}
