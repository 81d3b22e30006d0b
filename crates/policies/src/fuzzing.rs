//! Doors to the parsers of stored bytes, for the fuzz targets and a test of the same kind. No other build has them.

/// Reads arbitrary bytes as the file of the access times. What is understood is written and read back the same.
pub fn access_times(stored: &[u8]) {
    crate::expiry::fuzz_access_times(stored);
}

/// Reads arbitrary bytes as an audit log, and each of its lines as a record.
pub fn audit_log(stored: &[u8]) {
    crate::audit::fuzz_log(stored);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Inputs that the fuzz targets began with, or that once made a parser fail.
    #[test]
    fn known_inputs_break_nothing() {
        for stored in [
            r#"{"version":1,"files":{"/memories/a":18446744073709551615,"/memories/a/":1}}"#,
            r#"{"version":1,"version":1,"files":{}}"#,
            r#"{"version":1e0,"files":{"/memories":0}}"#,
        ] {
            access_times(stored.as_bytes());
        }
        for stored in [
            r#"{"format":1,"id":"0","time":"9999-12-31T23:59:60Z","actor":"","command":"","event":"command","outcome":"done"}"#,
            r#"{"format":1,"id":"0","time":"1969-12-31T23:59:59.999999Z","actor":"","command":"","event":"intent","changes":[]}"#,
            "{\"format\":{\"format\":\n\n\u{0}",
        ] {
            audit_log(stored.as_bytes());
        }
    }
}
