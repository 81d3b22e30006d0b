//! [`Moment`]: a time, or how long ago it is.

use std::str::FromStr;
use std::time::{Duration, SystemTime};

use serde::Deserialize;

/// A time, such as `2026-11-26T10:00:00Z`, or how long ago it is, such as `24h` or `7d`. A day is its start in UTC; it
/// can be `today` or `yesterday`. In data, a moment can also be a number of seconds since 1970.
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// use memory_tool_core::Moment;
///
/// let moment: Moment = "2026-11-26".parse()?;
/// assert_eq!(SystemTime::from(moment), SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_651_200));
/// assert!("yesterday".parse::<Moment>()? < "today".parse()?);
/// # Ok::<(), memory_tool_core::InvalidMoment>(())
/// ```
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd)]
#[serde(try_from = "Given")]
pub struct Moment(SystemTime);

const SECONDS_OF_A_DAY: u64 = 24 * 60 * 60;

const DAYS_BEFORE_TODAY: [(&str, u64); 2] = [("today", 0), ("yesterday", 1)];

/// The text or the number is not a [`Moment`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("expected a time such as 2026-11-26T10:00:00Z, or an age such as 24h")]
#[non_exhaustive]
pub struct InvalidMoment;

impl From<SystemTime> for Moment {
    fn from(time: SystemTime) -> Self {
        Self(time)
    }
}

impl From<Moment> for SystemTime {
    fn from(moment: Moment) -> Self {
        moment.0
    }
}

impl FromStr for Moment {
    type Err = InvalidMoment;

    fn from_str(given: &str) -> Result<Self, InvalidMoment> {
        if let Ok(time) = humantime::parse_rfc3339_weak(given).or_else(|_| start_of_day(given)) {
            return Ok(Self(time));
        }
        if let Some((_, days)) = DAYS_BEFORE_TODAY.iter().find(|(name, _)| *name == given) {
            return start_of_day_before_today(*days).map(Self).ok_or(InvalidMoment);
        }
        let age = humantime::parse_duration(given).map_err(|_| InvalidMoment)?;
        SystemTime::now().checked_sub(age).map(Self).ok_or(InvalidMoment)
    }
}

fn start_of_day_before_today(days: u64) -> Option<SystemTime> {
    let today = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs() / SECONDS_OF_A_DAY;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(today.checked_sub(days)? * SECONDS_OF_A_DAY))
}

fn start_of_day(given: &str) -> Result<SystemTime, humantime::TimestampError> {
    humantime::parse_rfc3339(&format!("{given}T00:00:00Z"))
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected a time such as 2026-11-26T10:00:00Z, an age such as 24h, or seconds since 1970"
)]
enum Given {
    Seconds(f64),
    Text(String),
}

impl TryFrom<Given> for Moment {
    type Error = InvalidMoment;

    fn try_from(given: Given) -> Result<Self, InvalidMoment> {
        match given {
            Given::Text(text) => text.parse(),
            Given::Seconds(seconds) => {
                let since_1970 = Duration::try_from_secs_f64(seconds.max(0.0)).map_err(|_| InvalidMoment)?;
                SystemTime::UNIX_EPOCH.checked_add(since_1970).map(Self).ok_or(InvalidMoment)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_ages_and_seconds_are_moments() {
        let at = |seconds| Moment(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        for (given, expected) in [
            (json!("2026-11-26T10:00:00Z"), at(1_795_687_200)),
            (json!("2026-11-26 10:00:00"), at(1_795_687_200)),
            (json!("2026-11-26"), at(1_795_651_200)),
            (json!(1_795_651_200), at(1_795_651_200)),
            (json!(0.0), at(0)),
            (json!(-3), at(0)),
        ] {
            assert_eq!(serde_json::from_value::<Moment>(given.clone()).unwrap(), expected, "{given}");
        }
        let age = "36h".parse::<Moment>().unwrap();
        let elapsed = SystemTime::from(age).elapsed().unwrap();
        assert!((36 * 3_600..36 * 3_600 + 60).contains(&elapsed.as_secs()), "{elapsed:?}");
        let [today, yesterday] = ["today", "yesterday"].map(|day| SystemTime::from(day.parse::<Moment>().unwrap()));
        assert!(yesterday < today && today <= SystemTime::now());
        for day in [today, yesterday] {
            let since_1970 = day.duration_since(SystemTime::UNIX_EPOCH).unwrap();
            assert_eq!(since_1970.as_nanos() % Duration::from_secs(SECONDS_OF_A_DAY).as_nanos(), 0);
        }
        for given in [json!("tomorrow"), json!("7 "), json!(""), json!(true), json!(1e300)] {
            assert!(serde_json::from_value::<Moment>(given.clone()).is_err(), "{given}");
        }
    }
}
