//! [`Response`], and [`Assembly`], which builds one from the events of a stream.

use serde_json::{Map, Value};

use crate::chat::usage::Usage;

/// A complete response of the Messages API.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Response {
    /// The blocks, including those of unknown types.
    pub(crate) content: Vec<Value>,
    pub(crate) stop_reason: String,
    /// The explanation of a refusal.
    pub(crate) explanation: Option<String>,
    pub(crate) usage: Usage,
}

impl Response {
    /// Parses a response that was not streamed. Returns `None` if the JSON is not a response.
    pub(crate) fn from_json(mut message: Value) -> Option<Self> {
        let mut response = Self { stop_reason: message["stop_reason"].as_str()?.to_owned(), ..Self::default() };
        response.usage.update(&message["usage"]);
        response.explanation = explanation(&message["stop_details"]);
        match message["content"].take() {
            Value::Array(content) => response.content = content,
            _ => return None,
        }
        Some(response)
    }

    /// The parts to print, in order.
    pub(crate) fn parts(&self) -> Vec<Part> {
        self.content.iter().filter_map(part_of).collect()
    }
}

/// A part of a response to print.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Part {
    Text(String),
    Thinking(String),
}

fn part_of(block: &Value) -> Option<Part> {
    let field = |name: &str| block[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    match block["type"].as_str()? {
        "text" => field("text").map(Part::Text),
        "thinking" => field("thinking").map(Part::Thinking),
        _ => None,
    }
}

fn explanation(stop_details: &Value) -> Option<String> {
    stop_details["explanation"].as_str().map(str::to_owned)
}

/// The result of an event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum EventResult {
    /// A part to print.
    Part(Part),
    /// The complete response.
    Complete(Response),
    /// The API aborted the response.
    Error { kind: String, message: String },
    /// Nothing to print.
    Nothing,
}

/// An incomplete response.
///
/// # Behavior
/// 1. Blocks of unknown types are kept unchanged. Events and deltas of unknown types are ignored.
/// 2. The input of a tool is the concatenation of its deltas. If that is not a JSON object, it is an empty object,
///    which every tool rejects.
/// 3. A response is complete only with its last event and a stop reason.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    response: Response,
    /// The JSON of each block's input so far, empty for blocks without input.
    inputs: Vec<String>,
}

impl Assembly {
    /// Applies the data of an event.
    ///
    /// # Errors
    /// The reason why the event does not belong to a response.
    pub(crate) fn apply(&mut self, event: &Value) -> Result<EventResult, &'static str> {
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => self.response.usage.update(&event["message"]["usage"]),
            "content_block_start" => return self.start_block(event),
            "content_block_delta" => return self.extend_block(event),
            "message_delta" => self.apply_delta(event),
            "message_stop" => return self.finish(),
            "error" => {
                let field = |name: &str| event["error"][name].as_str().unwrap_or_default().to_owned();
                return Ok(EventResult::Error { kind: field("type"), message: field("message") });
            }
            _ => {}
        }
        Ok(EventResult::Nothing)
    }

    fn start_block(&mut self, event: &Value) -> Result<EventResult, &'static str> {
        if event["index"].as_u64() != Some(self.response.content.len() as u64) {
            return Err("a content block is out of order");
        }
        let block = event["content_block"].clone();
        let part = part_of(&block);
        self.response.content.push(block);
        self.inputs.push(String::new());
        Ok(part.map_or(EventResult::Nothing, EventResult::Part))
    }

    fn extend_block(&mut self, event: &Value) -> Result<EventResult, &'static str> {
        let index = event["index"].as_u64().and_then(|index| usize::try_from(index).ok()).unwrap_or(usize::MAX);
        let (Some(Value::Object(block)), Some(input)) =
            (self.response.content.get_mut(index), self.inputs.get_mut(index))
        else {
            return Err("a delta refers to an unknown content block");
        };
        let delta = &event["delta"];
        let part = |name: &str| delta[name].as_str().unwrap_or_default();
        match part("type") {
            "text_delta" => {
                append(block, "text", part("text"));
                return Ok(EventResult::Part(Part::Text(part("text").to_owned())));
            }
            "input_json_delta" => input.push_str(part("partial_json")),
            "thinking_delta" => {
                append(block, "thinking", part("thinking"));
                return Ok(EventResult::Part(Part::Thinking(part("thinking").to_owned())));
            }
            "signature_delta" => {
                block.insert("signature".to_owned(), delta["signature"].clone());
            }
            "citations_delta" => match block.entry("citations").or_insert(Value::Null) {
                Value::Array(citations) => citations.push(delta["citation"].clone()),
                missing => *missing = Value::Array(vec![delta["citation"].clone()]),
            },
            "compaction_delta" => {
                let fields = delta.as_object().into_iter().flatten().filter(|(name, _)| *name != "type");
                block.extend(fields.map(|(name, value)| (name.clone(), value.clone())));
            }
            _ => {}
        }
        Ok(EventResult::Nothing)
    }

    fn apply_delta(&mut self, event: &Value) {
        let delta = &event["delta"];
        if let Some(reason) = delta["stop_reason"].as_str() {
            reason.clone_into(&mut self.response.stop_reason);
        }
        self.response.explanation = explanation(&delta["stop_details"]).or_else(|| self.response.explanation.take());
        self.response.usage.update(&event["usage"]);
    }

    fn finish(&mut self) -> Result<EventResult, &'static str> {
        let Self { mut response, inputs } = std::mem::take(self);
        if response.stop_reason.is_empty() {
            return Err("it ends without a stop reason");
        }
        for (block, input) in response.content.iter_mut().zip(inputs).filter(|(_, input)| !input.is_empty()) {
            let parsed = serde_json::from_str(&input).ok().filter(Value::is_object);
            if let Value::Object(block) = block {
                block.insert("input".to_owned(), parsed.unwrap_or_else(|| Value::Object(Map::new())));
            }
        }
        Ok(EventResult::Complete(response))
    }
}

/// Appends to a string field, which may be missing.
fn append(block: &mut Map<String, Value>, field: &str, more: &str) {
    match block.entry(field).or_insert(Value::Null) {
        Value::String(text) => text.push_str(more),
        missing => *missing = Value::from(more),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn start(index: usize, block: Value) -> Value {
        json!({"type": "content_block_start", "index": index, "content_block": block})
    }

    fn delta(index: usize, delta: Value) -> Value {
        json!({"type": "content_block_delta", "index": index, "delta": delta})
    }

    fn end(reason: &str) -> [Value; 2] {
        [
            json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}}),
            json!({"type": "message_stop"}),
        ]
    }

    fn assemble(events: impl IntoIterator<Item = Value>) -> Result<Response, String> {
        let mut assembly = Assembly::default();
        for event in events {
            match assembly.apply(&event)? {
                EventResult::Complete(response) => return Ok(response),
                EventResult::Error { kind, .. } => return Err(kind),
                EventResult::Part(_) | EventResult::Nothing => {}
            }
        }
        Err("cut".to_owned())
    }

    #[test]
    fn blocks_of_all_types_are_put_together() {
        let unknown = json!({"type": "telepathy", "data": [1, {"a": null}]});
        let events = [
            json!({"type": "message_start", "message": {"usage": {"input_tokens": 3, "output_tokens": 1}}}),
            start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
            delta(0, json!({"type": "thinking_delta", "thinking": "a"})),
            json!({"type": "ping"}),
            delta(0, json!({"type": "thinking_delta", "thinking": "b"})),
            delta(0, json!({"type": "signature_delta", "signature": "sig"})),
            json!({"type": "content_block_stop", "index": 0}),
            start(1, unknown.clone()),
            delta(1, json!({"type": "telepathy_delta", "data": 2})),
            start(2, json!({"type": "text", "text": ""})),
            delta(2, json!({"type": "text_delta", "text": "Hé"})),
            delta(2, json!({"type": "text_delta", "text": "llo"})),
            delta(2, json!({"type": "citations_delta", "citation": {"cited_text": "x"}})),
            json!({"type": "weather", "index": 7}),
            start(3, json!({"type": "tool_use", "id": "toolu_1", "name": "memory", "input": {}})),
            delta(3, json!({"type": "input_json_delta", "partial_json": ""})),
            delta(3, json!({"type": "input_json_delta", "partial_json": "{\"command\": \"vi"})),
            delta(3, json!({"type": "input_json_delta", "partial_json": "ew\"}"})),
            start(4, json!({"type": "compaction", "content": null})),
            delta(4, json!({"type": "compaction_delta", "content": "Summary", "encrypted_content": "e"})),
        ];
        let response = assemble(events.into_iter().chain(end("tool_use"))).unwrap();
        assert_eq!(
            response.content,
            [
                json!({"type": "thinking", "thinking": "ab", "signature": "sig"}),
                unknown,
                json!({"type": "text", "text": "Héllo", "citations": [{"cited_text": "x"}]}),
                json!({"type": "tool_use", "id": "toolu_1", "name": "memory", "input": {"command": "view"}}),
                json!({"type": "compaction", "content": "Summary", "encrypted_content": "e"}),
            ]
        );
        assert_eq!(response.stop_reason, "tool_use");
        assert_eq!(response.parts(), [Part::Thinking("ab".to_owned()), Part::Text("Héllo".to_owned())]);
        assert!(response.usage.to_string().starts_with("3 input tokens"));
        assert!(response.usage.to_string().ends_with("9 output tokens"));
    }

    #[test]
    fn a_truncated_input_becomes_an_empty_object() {
        let events = [
            start(0, json!({"type": "tool_use", "id": "toolu_1", "name": "memory", "input": {}})),
            delta(0, json!({"type": "input_json_delta", "partial_json": "{\"command\": \"del"})),
        ];
        let response = assemble(events.into_iter().chain(end("max_tokens"))).unwrap();
        assert_eq!(response.content[0]["input"], json!({}));
    }

    #[test]
    fn an_incomplete_stream_is_not_a_response() {
        let text = || start(0, json!({"type": "text", "text": "a"}));
        let [reason, stop] = end("end_turn");
        assert_eq!(assemble([text(), reason.clone()]).unwrap_err(), "cut");
        assert!(assemble([text(), stop.clone()]).unwrap_err().contains("without a stop reason"));
        assert!(assemble([start(1, json!({"type": "text"})), reason.clone(), stop.clone()]).is_err());
        assert!(assemble([delta(0, json!({"type": "text_delta", "text": "a"})), reason, stop]).is_err());
        let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
        assert_eq!(assemble([text(), overloaded]).unwrap_err(), "overloaded_error");
    }

    #[test]
    fn a_response_without_a_stream_is_parsed() {
        let message = json!({
            "type": "message", "content": [{"type": "text", "text": "a"}], "stop_reason": "refusal",
            "stop_details": {"type": "refusal", "explanation": "No."}, "usage": {"input_tokens": 1, "output_tokens": 2},
        });
        let response = Response::from_json(message.clone()).unwrap();
        assert_eq!(response.parts(), [Part::Text("a".to_owned())]);
        assert_eq!(response.explanation.as_deref(), Some("No."));
        for field in ["content", "stop_reason"] {
            let mut lacking = message.clone();
            lacking[field] = Value::Null;
            assert_eq!(Response::from_json(lacking), None, "{field}");
        }
    }
}
