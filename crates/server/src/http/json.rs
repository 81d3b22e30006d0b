//! JSON of clients, which may be hostile.

use crate::http::error::ApiError;

/// The maximum number of values in a body, which is a hundred times more than a call of the tool has.
///
/// A parsed value can need a hundred times more RAM than its JSON, so millions of small values could exhaust the RAM of
/// the machine.
pub(crate) const MAX_VALUES: usize = 10_000;

/// Refuses JSON that is too expensive to parse.
///
/// # Errors
/// [`ApiError`] 400 if it has more than [`MAX_VALUES`] values.
pub(crate) fn refuse_many_values(json: &[u8]) -> Result<(), ApiError> {
    let refused = || ApiError::invalid(format!("the body has more than {MAX_VALUES} JSON values"));
    if has_many_values(json) { Err(refused()) } else { Ok(()) }
}

/// Whether JSON has more than [`MAX_VALUES`] values. Each value but the first is after a bracket, brace, colon or
/// comma.
pub(crate) fn has_many_values(json: &[u8]) -> bool {
    let (mut values, mut is_in_string, mut is_escaped) = (1, false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_in_string => is_escaped = true,
            b'"' => is_in_string = !is_in_string,
            b'[' | b'{' | b':' | b',' if !is_in_string => values += 1,
            _ => {}
        }
        if values > MAX_VALUES {
            return true;
        }
    }
    false
}
