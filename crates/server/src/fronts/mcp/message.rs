//! Messages of the protocol, which clients may forge.

use axum::body::Bytes;
use rmcp::model::{ClientJsonRpcMessage, ErrorData, JsonRpcError, RequestId};
use serde::Deserialize;
use serde_json::error::Category;

use crate::http::json::{MAX_VALUES, has_many_values};

/// Some programs write it before JSON, and parsers may ignore it (RFC 8259, section 8.1).
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Parses a message. The error is the response to send.
pub(super) fn parse(json: &[u8]) -> Result<ClientJsonRpcMessage, JsonRpcError> {
    let json = json.strip_prefix(BYTE_ORDER_MARK).unwrap_or(json);
    if has_many_values(json) {
        return Err(invalid(json, format!("Invalid request: the message has more than {MAX_VALUES} values")));
    }
    serde_json::from_slice(json).map_err(|error| match error.classify() {
        Category::Syntax | Category::Eof | Category::Io => {
            JsonRpcError::new(None, ErrorData::parse_error(format!("Parse error: {error}"), None))
        }
        // Its text names types of Rust.
        Category::Data => invalid(json, "Invalid request: not a message of JSON-RPC 2.0".to_owned()),
    })
}

/// The response to a message that is too long to be parsed.
pub(super) fn too_long(limit: usize) -> JsonRpcError {
    let message = format!("Invalid request: the message is longer than {limit} bytes");
    JsonRpcError::new(None, ErrorData::invalid_request(message, None))
}

fn invalid(json: &[u8], message: String) -> JsonRpcError {
    let id = serde_json::from_slice::<WithId>(json).ok().map(|request| request.id);
    JsonRpcError::new(id, ErrorData::invalid_request(message, None))
}

/// The only field of a request that the response to an invalid one requires.
#[derive(Deserialize)]
struct WithId {
    id: RequestId,
}

/// Escapes U+2028 and U+2029 in JSON (`[W2]`). Some clients split lines there.
pub(super) fn escape_line_separators(json: Bytes) -> Bytes {
    match str::from_utf8(&json) {
        Ok(text) if text.contains(['\u{2028}', '\u{2029}']) => {
            text.replace('\u{2028}', r"\u2028").replace('\u{2029}', r"\u2029").into()
        }
        _ => json,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_separators_are_escaped() {
        for (json, escaped) in [
            ("", ""),
            (r#"{"a":"b"}"#, r#"{"a":"b"}"#),
            ("\"\u{2028}\"", r#""\u2028""#),
            ("\"a\u{2029}\u{2028}é\u{2027}\"", "\"a\\u2029\\u2028é\u{2027}\""),
        ] {
            assert_eq!(escape_line_separators(json.into()), escaped);
        }
    }

    fn refused(json: &str) -> (Option<RequestId>, i32) {
        let error = parse(json.as_bytes()).unwrap_err();
        (error.id, error.error.code.0)
    }

    #[test]
    fn a_message_is_parsed_with_and_without_a_byte_order_mark() {
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        for json in [ping.to_owned(), format!("\u{feff}{ping}"), format!(" {ping}\r")] {
            assert!(matches!(parse(json.as_bytes()), Ok(ClientJsonRpcMessage::Request(_))), "{json}");
        }
    }

    #[test]
    fn errors_have_the_codes_of_json_rpc_and_the_id_if_there_is_one() {
        for json in ["", "{", "nonsense", "\u{1}"] {
            assert_eq!(refused(json), (None, -32700), "{json}");
        }
        for json in ["1", "[]", "{}", r#"{"jsonrpc":"1.0","id":null,"method":"ping"}"#] {
            assert_eq!(refused(json), (None, -32600), "{json}");
        }
        assert_eq!(refused(r#"{"id":"a","method":1}"#), (Some(RequestId::String("a".into())), -32600));
    }

    #[test]
    fn many_values_are_refused_but_a_long_string_is_one_value() {
        let call = |argument: &str| {
            let params = format!(r#"{{"name":"memory","arguments":{{"a":{argument}}}}}"#);
            format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}"#)
        };
        for argument in [format!("[{}0]", "0,".repeat(MAX_VALUES)), format!("[{}{{}}]", "{},".repeat(MAX_VALUES))] {
            assert_eq!(refused(&call(&argument)), (Some(RequestId::Number(7)), -32600));
        }
        let text = format!("{:?}", r#"[,:{\""#.repeat(MAX_VALUES));
        assert!(parse(call(&text).as_bytes()).is_ok());
    }
}
