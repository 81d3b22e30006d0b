//! [`ViewRange`] and [`InsertLine`]: line numbers from the model.

use std::fmt;
use std::ops::{RangeFrom, RangeInclusive};

use serde::Serialize;
use serde_json::{Number, Value};

use crate::store::quote::{MAX_QUOTED_BYTES, quote};

/// The `view_range` of `view`. Its validity depends on the number of lines of the file or listing (`[V4]`).
///
/// ```
/// use memory_tool_core::ViewRange;
///
/// assert_eq!(ViewRange::from(1..=10).to_string(), "[1, 10]");
/// assert_eq!(ViewRange::from(11..).to_string(), "[11, -1]"); // to the end
/// ```
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct ViewRange(Value);

impl ViewRange {
    /// Keeps any value, with its integers spelled as such.
    pub(crate) fn from_value(mut given: Value) -> Self {
        if let Value::Array(values) = &mut given {
            for value in values {
                if let Some(number) = exact_integer(value) {
                    *value = Value::Number(number);
                }
            }
        }
        Self(given)
    }

    /// Creates a range from `first` to `last`, both 1-based and inclusive. A `last` of -1 means the end.
    pub fn new(first: i64, last: i64) -> Self {
        Self(Value::from(vec![first, last]))
    }

    /// The first and last line of the range in a file of `total_lines`, both 1-based and inclusive. Returns `None` if
    /// the range is invalid (`[V4]`).
    pub fn resolve(&self, total_lines: usize) -> Option<(usize, usize)> {
        let [first, last] = self.0.as_array()?.as_slice() else { return None };
        let first = usize::try_from(integer(first)?).ok().filter(|first| (1..=total_lines).contains(first))?;
        let last = match integer(last)? {
            -1 => total_lines,
            last => total_lines.min(usize::try_from(last.max(0)).unwrap_or(usize::MAX)),
        };
        (first <= last).then_some((first, last))
    }
}

impl From<RangeInclusive<usize>> for ViewRange {
    /// The lines from the first to the last, 1-based.
    fn from(lines: RangeInclusive<usize>) -> Self {
        Self(Value::from(vec![*lines.start(), *lines.end()]))
    }
}

impl From<RangeFrom<usize>> for ViewRange {
    /// The lines from this one to the end, 1-based.
    fn from(lines: RangeFrom<usize>) -> Self {
        Self(Value::from(vec![Value::from(lines.start), Value::from(-1)]))
    }
}

impl fmt::Display for ViewRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Value::Array(values) = &self.0 else { return f.write_str(&quote(&self.0.to_string())) };
        let mut given = String::from("[");
        for (index, value) in values.iter().enumerate() {
            if given.len() > MAX_QUOTED_BYTES {
                break; // the rest would not be quoted
            }
            given.push_str(if index == 0 { "" } else { ", " });
            given.push_str(&value.to_string());
        }
        given.push(']');
        f.write_str(&quote(&given))
    }
}

/// The `insert_line` of `insert`: an integer, which can be outside the file (`[I2]`).
///
/// ```
/// use memory_tool_core::InsertLine;
///
/// assert_eq!(InsertLine::from(3).resolve(3), Some(3));
/// assert_eq!(InsertLine::from(4).resolve(3), None);
/// ```
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct InsertLine(Number);

impl InsertLine {
    /// Returns `None` if the value is not an integer. A float such as `2.0` becomes an integer if a double represents
    /// it exactly.
    pub(crate) fn from_value(given: &Value) -> Option<Self> {
        let Value::Number(number) = given else { return None };
        integer(given)?;
        Some(Self(exact_integer(given).unwrap_or_else(|| number.clone())))
    }

    /// The number of lines before the inserted text. Returns `None` if a file of `total_lines` has fewer lines.
    pub fn resolve(&self, total_lines: usize) -> Option<usize> {
        let lines = usize::try_from(self.0.as_i128()?).ok()?;
        (lines <= total_lines).then_some(lines)
    }
}

impl From<usize> for InsertLine {
    fn from(lines: usize) -> Self {
        Self(Number::from(lines))
    }
}

impl fmt::Display for InsertLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Converts a number without a fraction to an integer. JSON does not distinguish `2` from `2.0`.
fn integer(value: &Value) -> Option<i128> {
    let Value::Number(number) = value else { return None };
    if let Some(integer) = number.as_i128() {
        return Some(integer);
    }
    // The cast saturates. That is correct, because numbers over 2^64 are past the end of any file.
    number.as_f64().filter(|number| number.fract() == 0.0).map(|number| number as i128)
}

/// The integer that a number such as `2.0` spells, if a double represents it exactly.
fn exact_integer(value: &Value) -> Option<Number> {
    const EXACT_IN_A_DOUBLE: u128 = 1 << 53;
    integer(value).filter(|exact| exact.unsigned_abs() <= EXACT_IN_A_DOUBLE).and_then(Number::from_i128)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_number_over_64_bits_is_displayed_as_json() {
        for (given, displayed) in [
            ("18446744073709551615", "18446744073709551615"),
            ("18446744073709551616", "1.8446744073709552e+19"),
            ("-9223372036854775809", "-9.223372036854776e+18"),
            ("1e300", "1e+300"),
            ("2.0", "2"),
        ] {
            let value: Value = serde_json::from_str(given).unwrap();
            assert_eq!(InsertLine::from_value(&value).unwrap().to_string(), displayed);
        }
        assert_eq!(InsertLine::from_value(&json!(1.5)), None);
    }

    #[test]
    fn a_range_and_a_line_display_a_number_alike() {
        for given in ["2.0", "-0.0", "1e10", "9007199254740992.0", "1e30", "18446744073709551616"] {
            let value: Value = serde_json::from_str(given).unwrap();
            let line = InsertLine::from_value(&value).unwrap();
            assert_eq!(ViewRange::from_value(json!([value, "2.0"])).to_string(), format!("[{line}, \"2.0\"]"));
        }
    }
}
