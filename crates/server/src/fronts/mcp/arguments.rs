//! [`corrected`]: the fields of a command as its client meant them.
//!
//! Some clients drop the types of a schema and send every value as a string, and some fill in every field.

use memory_tool::command::CommandName;
use rmcp::model::JsonObject;
use serde_json::{Map, Value, json};

pub(super) const COMMAND: &str = "command";
const INSERT_LINE: &str = "insert_line";
pub(super) const VIEW_RANGE: &str = "view_range";
const NEW_STR: &str = "new_str";

/// The fields of a command.
pub(super) fn fields(command: CommandName) -> &'static [&'static str] {
    match command {
        CommandName::View => &["path", VIEW_RANGE],
        CommandName::Create => &["path", "file_text"],
        CommandName::StrReplace => &["path", "old_str", NEW_STR],
        CommandName::Insert => &["path", INSERT_LINE, "insert_text"],
        CommandName::Delete => &["path"],
        CommandName::Rename => &["old_path", "new_path"],
    }
}

/// Whether the commands that use the field do not need it.
pub(super) fn is_optional(field: &str) -> bool {
    matches!(field, VIEW_RANGE | NEW_STR)
}

/// Reads numbers and lists that arrived as strings, and removes fields that count as left out. Texts, paths and wrong
/// values stay unchanged. The error of the command then shows the wrong value.
pub(super) fn corrected(mut input: JsonObject) -> JsonObject {
    let Some(command) = input.get(COMMAND).and_then(Value::as_str).and_then(|name| name.parse().ok()) else {
        return input;
    };
    if let Some(line) = input.get_mut(INSERT_LINE) {
        read_number(line);
    }
    if let Some(range) = input.get_mut(VIEW_RANGE) {
        read_range(range);
    }
    input.retain(|field, value| !is_left_out(command, field, value));
    input
}

/// Whether the value only fills in a field that the command does not use, or that cannot have it.
fn is_left_out(command: CommandName, field: &str, value: &Value) -> bool {
    let is_filler = match value {
        Value::Null => true,
        Value::String(text) => matches!(text.as_str(), "" | "null"),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    // An empty text and the text `null` are texts. No other field can have a value that fills in a field.
    let can_be = value.is_string() && !matches!(field, INSERT_LINE | VIEW_RANGE);
    is_filler && !(can_be && fields(command).contains(&field))
}

/// Reads a number that arrived as a string.
fn read_number(value: &mut Value) {
    if let Some(number) = spelled(value).filter(|number| number.is_number() || number.is_null()) {
        *value = number;
    }
}

/// Reads a range that arrived as a string, such as `"1,2"`, or whose numbers did. A range that no file has becomes
/// null: some clients must fill in every field.
fn read_range(value: &mut Value) {
    let pair = || spelled(&Value::String(format!("[{}]", value.as_str()?))).filter(|pair| pair[1].is_number());
    let mut list = spelled(value).filter(Value::is_array).or_else(pair).unwrap_or_else(|| value.clone());
    let Value::Array(items) = &mut list else { return };
    items.iter_mut().for_each(read_number);
    let is_filler = match items.iter().map(whole).collect::<Option<Vec<_>>>().as_deref() {
        Some([first, last]) => matches!((first, last), (0, -1 | 0) | (-1, -1)),
        _ => items.iter().all(|item| item.is_null() || item == ""),
    };
    if is_filler {
        *value = Value::Null;
    } else if items.iter().all(Value::is_number) {
        *value = list;
    }
}

/// A whole number. Some clients send it with a decimal point.
pub(super) fn whole(value: &Value) -> Option<i64> {
    let with_point = || value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 1e9);
    value.as_i64().or_else(|| with_point().map(|number| number as i64))
}

/// The value, or the JSON that it spells if it arrived as a string.
pub(super) fn read_json(value: Value) -> Value {
    spelled(&value).unwrap_or(value)
}

/// The JSON that a string spells.
fn spelled(value: &Value) -> Option<Value> {
    serde_json::from_str(value.as_str()?).ok()
}

pub(super) fn object_schema(properties: impl Iterator<Item = (String, Value)>, required: &[&str]) -> JsonObject {
    Map::from_iter([
        ("type".to_owned(), json!("object")),
        ("properties".to_owned(), properties.collect::<Map<_, _>>().into()),
        ("required".to_owned(), json!(required)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn correct(input: Value) -> Value {
        let Value::Object(input) = input else { panic!("not an object: {input}") };
        corrected(input).into()
    }

    #[test]
    fn numbers_and_lists_are_read_from_strings() {
        for (line, read) in [
            (json!("3"), json!(3)),
            (json!(" 3 "), json!(3)),
            (json!("0"), json!(0)),
            (json!("-1"), json!(-1)),
            (json!(3), json!(3)),
            (json!(3.0), json!(3.0)),
        ] {
            let input =
                |line| json!({"command": "insert", "path": "/memories/a", "insert_line": line, "insert_text": "x"});
            assert_eq!(correct(input(line)), input(read));
        }
        let spelled = [json!("[1, 2]"), json!(["1", "2"]), json!("[\"1\", \"2\"]"), json!("1,2"), json!("1, 2")];
        for range in spelled.into_iter().chain([json!([1, "2"]), json!([1, 2])]) {
            let input = |range| json!({"command": "view", "path": "/memories/a", "view_range": range});
            assert_eq!(correct(input(range)), input(json!([1, 2])));
        }
    }

    #[test]
    fn wrong_values_stay_as_they_are() {
        for line in [json!("three"), json!("3 4"), json!("[3]"), json!([3]), json!({}), json!(true), json!(" ")] {
            let input = json!({"command": "insert", "path": "/memories/a", "insert_line": line, "insert_text": "x"});
            assert_eq!(correct(input.clone()), input);
        }
        for range in [
            json!("1-2"),
            json!("1,"),
            json!([0, 1]),
            json!([-1, 0]),
            json!(["a", "2"]),
            json!("[\"a\", 2]"),
            json!("3"),
            json!({"a": 1}),
        ] {
            let input = json!({"command": "view", "path": "/memories/a", "view_range": range});
            assert_eq!(correct(input.clone()), input);
        }
        for input in [json!({}), json!({"command": "nope", "path": ""}), json!({"command": 1, "insert_line": "1"})] {
            assert_eq!(correct(input.clone()), input);
        }
    }

    /// A client that fills in every field sends them all with one of these values.
    #[test]
    fn fields_that_a_command_does_not_use_are_left_out() {
        let all =
            ["path", VIEW_RANGE, "file_text", "old_str", NEW_STR, INSERT_LINE, "insert_text", "old_path", "new_path"];
        for command in CommandName::ALL {
            for filler in [json!(null), json!(""), json!("null"), json!([])] {
                let input = |uses: bool| {
                    let used = fields(command).iter().map(|field| (*field, json!("x")));
                    let unused = all.iter().filter(|field| !fields(command).contains(field));
                    let unused = unused.map(|field| (*field, filler.clone())).filter(|_| !uses);
                    let fields = used.chain(unused).chain([(COMMAND, json!(command.as_str()))]);
                    fields.map(|(name, value)| (name.to_owned(), value)).collect::<JsonObject>()
                };
                assert_eq!(corrected(input(false)), input(true), "{command} {filler}");
            }
        }
    }

    #[test]
    fn texts_are_never_reinterpreted() {
        for text in ["", "null", "[]", "3", "[1, 2]"] {
            for input in [
                json!({"command": "create", "path": text, "file_text": text}),
                json!({"command": "str_replace", "path": "/memories/a", "old_str": text, "new_str": text}),
                json!({"command": "insert", "path": "/memories/a", "insert_line": 1, "insert_text": text}),
                json!({"command": "rename", "old_path": text, "new_path": text}),
            ] {
                assert_eq!(correct(input.clone()), input);
            }
        }
    }

    #[test]
    fn a_field_that_cannot_have_the_value_is_left_out() {
        for (command, field, values) in [
            ("view", VIEW_RANGE, &[json!(null), json!(""), json!("null"), json!([]), json!("[]"), json!(["null"])][..]),
            ("view", VIEW_RANGE, &[json!([null, null]), json!([0, 0]), json!([0, -1]), json!([-1, -1]), json!("0,0")]),
            ("view", VIEW_RANGE, &[json!(["0", "0"]), json!([0.0, -1.0]), json!(["", ""])]),
            ("insert", INSERT_LINE, &[json!(null), json!(""), json!("null"), json!([])]),
            ("create", "file_text", &[json!(null), json!([])]),
            ("str_replace", NEW_STR, &[json!(null), json!([])]),
            ("delete", "path", &[json!(null), json!([])]),
        ] {
            for value in values {
                let input = json!({"command": command, field: value});
                assert_eq!(correct(input), json!({"command": command}), "{field}: {value}");
            }
        }
    }

    /// Models send `new_str` for `insert_text` and `path` for `old_path`.
    #[test]
    fn a_field_that_counts_as_left_out_is_no_alias_and_an_alias_is_not_left_out() {
        for filler in [json!(null), json!(""), json!("null"), json!([])] {
            let insert = json!({"command": "insert", "path": "/memories/a", "insert_line": 1, "new_str": filler});
            assert_eq!(correct(insert), json!({"command": "insert", "path": "/memories/a", "insert_line": 1}));
            let rename = json!({"command": "rename", "path": filler, "new_path": "/memories/b"});
            assert_eq!(correct(rename), json!({"command": "rename", "new_path": "/memories/b"}));
        }
        for input in [
            json!({"command": "insert", "path": "/memories/a", "insert_line": 1, "new_str": "x"}),
            json!({"command": "rename", "path": "/memories/a", "new_path": "/memories/b"}),
        ] {
            assert_eq!(correct(input.clone()), input);
        }
        // A missing text leaves the alias in place.
        let input =
            json!({"command": "insert", "path": "/memories/a", "insert_line": 1, "insert_text": null, "new_str": "x"});
        let expected = json!({"command": "insert", "path": "/memories/a", "insert_line": 1, "new_str": "x"});
        assert_eq!(correct(input), expected);
    }
}
