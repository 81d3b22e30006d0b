//! Ids of records and commands.

use crate::audit::log::AuditError;

/// A random number of 128 bits in hexadecimal digits, which no other record has.
pub(super) fn random_id() -> Result<String, AuditError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| AuditError::new("making an id", error))?;
    Ok(hexadecimal(&bytes))
}

/// Two lower-case digits for each byte.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    bytes.iter().flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]).collect()
}
