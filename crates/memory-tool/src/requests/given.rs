//! [`OptionError`]: the error of an option in data, and the reader that finds it.

use std::fmt::Display;

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{self, Deserializer, Expected, IntoDeserializer, Unexpected, Visitor};
use serde_json::Value;

/// A wrong option. The message names it as the language of the program writes it.
#[derive(Debug, thiserror::Error)]
#[expect(clippy::exhaustive_enums, reason = "fronts match it")]
pub enum OptionError {
    /// The option is unknown, or its value has the wrong type.
    #[error("{0}")]
    Type(String),
    /// The value is invalid.
    #[error("{0}")]
    Value(String),
}

/// The reason why data is not an option.
#[derive(Debug, thiserror::Error)]
pub(super) enum Mismatch {
    #[error("unknown option")]
    Unknown,
    #[error("expected {expected}, got {got}")]
    Type { expected: String, got: String },
    #[error("{0}")]
    Value(String),
}

impl de::Error for Mismatch {
    fn custom<T: Display>(message: T) -> Self {
        Self::Value(message.to_string())
    }

    fn invalid_type(got: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let expected = match expected.to_string() {
            whole if ["u64", "usize"].contains(&whole.as_str()) => "a whole number, not negative".to_owned(),
            number if number == "f64" => "a number".to_owned(),
            expected => expected,
        };
        Self::Type { expected, got: got.to_string() }
    }

    fn unknown_field(_: &str, _: &'static [&'static str]) -> Self {
        Self::Unknown
    }
}

impl Mismatch {
    /// The error of an option. A program can confuse a key and its source, so errors of these options never contain the
    /// value.
    pub(super) fn of_option(self, name: &str) -> OptionError {
        let is_secret = ["key", "passphrase"].iter().any(|word| name.to_ascii_lowercase().contains(word));
        match self {
            Self::Unknown => OptionError::Type(format!("unknown option {name}")),
            Self::Type { expected, .. } if is_secret => {
                OptionError::Type(format!("invalid {name}: expected {expected}"))
            }
            Self::Type { .. } => OptionError::Type(format!("invalid {name}: {self}")),
            Self::Value(reason) => OptionError::Value(format!("invalid {name}: {reason}")),
        }
    }
}

/// A value in JSON, whose errors are a [`Mismatch`].
pub(super) struct Data(pub(super) Value);

impl IntoDeserializer<'_, Mismatch> for Data {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Data {
    type Error = Mismatch;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(flag) => visitor.visit_bool(flag),
            Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(number), ..) => visitor.visit_u64(number),
                (None, Some(number), _) => visitor.visit_i64(number),
                (None, None, number) => visitor.visit_f64(number.unwrap_or(f64::NAN)),
            },
            Value::String(text) => visitor.visit_string(text),
            Value::Array(items) => SeqDeserializer::new(items.into_iter().map(Self)).deserialize_any(visitor),
            Value::Object(fields) => MapDeserializer::new(fields.into_iter().map(|(name, value)| (name, Self(value))))
                .deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        match self.0 {
            Value::String(name) => visitor.visit_enum(name.into_deserializer()),
            other => Self(other).deserialize_any(visitor),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}
