//! Ids of records and commands.

use crate::audit::log::AuditError;
use crate::audit::record::hexadecimal;

/// A random number of 128 bits in hexadecimal digits, which no other record has.
pub(super) fn random_id() -> Result<String, AuditError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| AuditError::new("generating an id", error))?;
    Ok(hexadecimal(&bytes))
}
