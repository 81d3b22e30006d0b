//! Parses untrusted JSON, and keeps only the parts that a call of the tool can use.
//!
//! A parsed value can need a hundred times more RAM than its JSON, so a line of a few megabytes could otherwise exhaust
//! the RAM of the machine.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// The fields of a `tool_use` block and of the six commands.
const FIELDS: [&str; 14] = [
    "command",
    "file_text",
    "id",
    "input",
    "insert_line",
    "insert_text",
    "name",
    "new_path",
    "new_str",
    "old_path",
    "old_str",
    "path",
    "type",
    "view_range",
];

/// The maximum depth of a call: the elements of `view_range`, in `input`, in the block.
const DEPTH: usize = 3;

/// The maximum number of array elements and of fields of an object to keep, which is more than an error quotes.
const MAX_ELEMENTS: usize = 1_000;
const MAX_FIELDS: usize = 16;

/// Parses JSON. Invalid JSON is an error, but unknown fields, deeply nested values and the ends of long arrays are
/// dropped.
pub(crate) fn parse(json: &[u8]) -> serde_json::Result<Value> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let value = ValueSeed { depth: DEPTH, is_argument: false }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Deserializes a value, and drops values nested deeper than `depth`.
#[derive(Clone, Copy)]
struct ValueSeed {
    depth: usize,
    /// Whether the value is in an argument of a command. An error repeats all its fields.
    is_argument: bool,
}

impl ValueSeed {
    fn within(self) -> Self {
        Self { depth: self.depth.saturating_sub(1), ..self }
    }
}

impl<'de> DeserializeSeed<'de> for ValueSeed {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = sequence.next_element_seed(self.within())? {
            if self.depth > 0 && elements.len() < MAX_ELEMENTS {
                elements.push(element);
            }
        }
        Ok(elements.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            let is_known = if self.is_argument { fields.len() < MAX_FIELDS } else { FIELDS.contains(&name.as_str()) };
            let is_kept = self.depth > 0 && is_known;
            let depth = if is_kept { self.within().depth } else { 0 };
            let value = map.next_value_seed(Self { depth, is_argument: name != "input" })?;
            if is_kept {
                fields.insert(name, value);
            }
        }
        Ok(fields.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_is_kept_completely() {
        for call in [
            json!({"type": "tool_use", "id": "t", "name": "memory", "input": {
                "command": "view", "path": "/memories", "view_range": [1, -1]
            }}),
            json!({
                "command": "insert", "path": "/memories/a", "insert_line": 1.5, "insert_text": "é\n\u{0}",
                "new_str": null
            }),
            json!({"command": "create", "path": true, "file_text": u64::MAX}),
            json!({"command": "view", "view_range": {"start": 1, "end": 5}, "path": [{"file": "a"}]}),
            json!("view"),
            json!([1, [2]]),
        ] {
            assert_eq!(parse(call.to_string().as_bytes()).unwrap(), call);
        }
    }

    #[test]
    fn values_that_no_call_can_use_are_dropped() {
        let kept =
            parse(br#"{"command": "view", "extra": [{"path": 1}], "path": {"path": {"path": {"path": 1}}}}"#).unwrap();
        assert_eq!(kept, json!({"command": "view", "path": {"path": {"path": {}}}}));
        let many: Map<_, _> = (0..100).map(|number| (format!("{number:02}"), json!(number))).collect();
        let kept = parse(json!({"view_range": [many]}).to_string().as_bytes()).unwrap();
        assert_eq!(kept["view_range"][0].as_object().unwrap().len(), MAX_FIELDS);
        let long = format!("{{\"view_range\": [{}0]}}", "0,".repeat(5_000));
        assert_eq!(parse(long.as_bytes()).unwrap()["view_range"].as_array().map(Vec::len), Some(MAX_ELEMENTS));
    }

    #[test]
    fn dropped_values_must_be_valid_json() {
        for text in [r#"{"extra": [1,]}"#, r#"{"extra": "\ud800"}"#, r#"{"extra": 1} 2"#, &"[".repeat(100_000)] {
            assert!(parse(text.as_bytes()).is_err());
        }
        let nested = format!("{{\"extra\": {}{}}}", "[".repeat(1_000), "]".repeat(1_000));
        assert!(parse(nested.as_bytes()).unwrap_err().to_string().contains("recursion limit"));
    }
}
