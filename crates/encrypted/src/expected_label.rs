//! [`ExpectedLabel`]: the label of a memory, which prevents an exchange with another memory of the same key.

use crate::failure::EncryptionError;
use crate::index::Index;

/// The label that the memory must have.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExpectedLabel {
    pub(crate) label: Option<String>,
    /// Former labels, which are accepted until the memory is rekeyed.
    pub(crate) former: Vec<Option<String>>,
}

impl ExpectedLabel {
    /// Checks the label in an index.
    pub(crate) fn check(&self, index: &Index) -> Result<(), EncryptionError> {
        let matches = index.label == self.label || self.former.contains(&index.label);
        if matches { Ok(()) } else { Err(EncryptionError::OtherLabel { expected: self.label.clone() }) }
    }
}
