//! Ids of records and commands.

use crate::audit::log::AuditError;
use crate::audit::record::hexadecimal;

/// Returns a random 128-bit id in hexadecimal digits.
pub(super) fn random_id() -> Result<String, AuditError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| AuditError::new("generating an id", error))?;
    Ok(hexadecimal(&bytes))
}
