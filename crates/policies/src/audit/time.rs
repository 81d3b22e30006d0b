//! Times of records, as RFC 3339 in UTC to the microsecond.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize as _, Deserializer, Serializer};

/// The current time, rounded down to microseconds.
pub(super) fn now() -> SystemTime {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UNIX_EPOCH + Duration::new(since_epoch.as_secs(), since_epoch.subsec_micros() * 1_000)
}

/// Formats a time for a record. Returns `None` before 1970 and after 9999.
pub(super) fn text_of(time: SystemTime) -> Option<String> {
    time.duration_since(UNIX_EPOCH).ok()?; // `format_rfc3339_micros` would panic
    let mut text = String::new();
    write!(text, "{}", humantime::format_rfc3339_micros(time)).ok()?;
    Some(text)
}

pub(super) fn serialize<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    match text_of(*time) {
        Some(text) => serializer.serialize_str(&text),
        None => Err(S::Error::custom("time is before 1970 or after 9999")),
    }
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SystemTime, D::Error> {
    humantime::parse_rfc3339(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_formats_valid_times_and_returns_none_for_others() {
        let time = UNIX_EPOCH + Duration::new(1_795_271_429, 1_999);
        assert_eq!(text_of(time).as_deref(), Some("2026-11-21T14:30:29.000001Z"));
        assert!(text_of(UNIX_EPOCH - Duration::from_secs(1)).is_none());
        assert!(text_of(UNIX_EPOCH + Duration::from_secs(400_000_000_000)).is_none());
    }
}
