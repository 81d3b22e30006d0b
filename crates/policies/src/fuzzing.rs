//! Access to the parsers of stored bytes, for fuzz targets and tests only.

/// Parses arbitrary bytes as access times. A valid input must survive a round trip.
pub fn access_times(stored: &[u8]) {
    crate::expiry::fuzz_access_times(stored);
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
    }
}
