//! Times of records: in RFC 3339, in UTC, to the microsecond.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize as _, Deserializer, Serializer};

/// The time by the clock of this machine, as it can be recorded.
pub(super) fn now() -> SystemTime {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UNIX_EPOCH + Duration::new(since_epoch.as_secs(), since_epoch.subsec_micros() * 1_000)
}

/// The time as it is recorded; `None` where it is before 1970 or after the year 9999.
pub(super) fn text_of(time: SystemTime) -> Option<String> {
    time.duration_since(UNIX_EPOCH).ok()?; // the formatting would panic
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
    fn a_time_is_text_that_sorts_as_times_do_and_what_has_none_is_no_panic() {
        let time = UNIX_EPOCH + Duration::new(1_795_271_429, 1_999);
        assert_eq!(text_of(time).as_deref(), Some("2026-11-21T14:30:29.000001Z"));
        assert!(text_of(UNIX_EPOCH - Duration::from_secs(1)).is_none());
        assert!(text_of(UNIX_EPOCH + Duration::from_secs(400_000_000_000)).is_none());
    }
}
