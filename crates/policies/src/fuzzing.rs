//! Access to the parsers of stored bytes, for fuzz targets and tests only.

/// Parses arbitrary bytes as access times. A valid input must survive a round trip.
pub fn access_times(stored: &[u8]) {
    crate::expiry::fuzz_access_times(stored);
}

/// Parses arbitrary bytes as an audit log and as a single record.
pub fn audit_log(stored: &[u8]) {
    crate::audit::fuzz_log(stored);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seeds of the fuzz targets, and inputs that once made a parser fail.
    #[test]
    fn parsers_accept_or_reject_known_inputs_without_panicking() {
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
