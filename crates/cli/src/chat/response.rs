//! [`Response`], and [`Assembly`], which puts one together from the events of a stream.

use serde_json::{Map, Value};

use crate::chat::usage::Usage;

/// A whole response of the Messages API.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Response {
    /// Its blocks as they came, of whatever type they are.
    pub(crate) content: Vec<Value>,
    /// Why the model stopped.
    pub(crate) stop_reason: String,
    /// What the API says of a refusal.
    pub(crate) explanation: Option<String>,
    /// What it took.
    pub(crate) usage: Usage,
}

impl Response {
    /// A response that came at once; `None` where the JSON is none.
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

    /// All that may be shown of it, in order.
    pub(crate) fn parts(&self) -> Vec<Part> {
        self.content.iter().filter_map(part_of).collect()
    }
}

/// A part of a response that may be shown.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Part {
    /// Claude's words.
    Text(String),
    /// What Claude thinks.
    Thinking(String),
}

/// What a block has to show, if it has any.
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

/// What an event came to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Applied {
    /// More to show.
    Part(Part),
    /// The response is whole.
    Whole(Response),
    /// The API breaks the response off.
    Error { kind: String, told: String },
    /// Nothing to show.
    Nothing,
}

/// A response in the making.
///
/// # Behavior
/// 1. Blocks of unknown types are kept as they came. Events and deltas of unknown types change nothing.
/// 2. The input of a tool is what its deltas say together; one that is no JSON is an empty object, which no tool takes.
/// 3. A response is whole with its last event alone, and with a reason why the model stopped.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    response: Response,
    /// The JSON so far of each block's input; empty for blocks that have none.
    inputs: Vec<String>,
}

impl Assembly {
    /// Takes the data of an event; an error says why it cannot be one of a response.
    pub(crate) fn apply(&mut self, event: &Value) -> Result<Applied, &'static str> {
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => self.response.usage.update(&event["message"]["usage"]),
            "content_block_start" => return self.start_block(event),
            "content_block_delta" => return self.extend_block(event),
            "message_delta" => self.apply_delta(event),
            "message_stop" => return self.finish(),
            "error" => {
                let field = |name: &str| event["error"][name].as_str().unwrap_or_default().to_owned();
                return Ok(Applied::Error { kind: field("type"), told: field("message") });
            }
            _ => {}
        }
        Ok(Applied::Nothing)
    }

    fn start_block(&mut self, event: &Value) -> Result<Applied, &'static str> {
        if event["index"].as_u64() != Some(self.response.content.len() as u64) {
            return Err("a block is not the one after the last");
        }
        let block = event["content_block"].clone();
        let part = part_of(&block);
        self.response.content.push(block);
        self.inputs.push(String::new());
        Ok(part.map_or(Applied::Nothing, Applied::Part))
    }

    fn extend_block(&mut self, event: &Value) -> Result<Applied, &'static str> {
        let index = event["index"].as_u64().and_then(|index| usize::try_from(index).ok()).unwrap_or(usize::MAX);
        let (Some(Value::Object(block)), Some(input)) =
            (self.response.content.get_mut(index), self.inputs.get_mut(index))
        else {
            return Err("more of a block comes that did not begin");
        };
        let delta = &event["delta"];
        let part = |name: &str| delta[name].as_str().unwrap_or_default();
        match part("type") {
            "text_delta" => {
                append(block, "text", part("text"));
                return Ok(Applied::Part(Part::Text(part("text").to_owned())));
            }
            "input_json_delta" => input.push_str(part("partial_json")),
            "thinking_delta" => {
                append(block, "thinking", part("thinking"));
                return Ok(Applied::Part(Part::Thinking(part("thinking").to_owned())));
            }
            "signature_delta" => {
                block.insert("signature".to_owned(), delta["signature"].clone());
            }
            "citations_delta" => match block.entry("citations").or_insert(Value::Null) {
                Value::Array(citations) => citations.push(delta["citation"].clone()),
                none => *none = Value::Array(vec![delta["citation"].clone()]),
            },
            "compaction_delta" => {
                let fields = delta.as_object().into_iter().flatten().filter(|(name, _)| *name != "type");
                block.extend(fields.map(|(name, value)| (name.clone(), value.clone())));
            }
            _ => {}
        }
        Ok(Applied::Nothing)
    }

    fn apply_delta(&mut self, event: &Value) {
        let delta = &event["delta"];
        if let Some(reason) = delta["stop_reason"].as_str() {
            reason.clone_into(&mut self.response.stop_reason);
        }
        self.response.explanation = explanation(&delta["stop_details"]).or_else(|| self.response.explanation.take());
        self.response.usage.update(&event["usage"]);
    }

    fn finish(&mut self) -> Result<Applied, &'static str> {
        let Self { mut response, inputs } = std::mem::take(self);
        if response.stop_reason.is_empty() {
            return Err("it ends without a reason");
        }
        for (block, input) in response.content.iter_mut().zip(inputs).filter(|(_, input)| !input.is_empty()) {
            let parsed = serde_json::from_str(&input).ok().filter(Value::is_object);
            if let Value::Object(block) = block {
                block.insert("input".to_owned(), parsed.unwrap_or_else(|| Value::Object(Map::new())));
            }
        }
        Ok(Applied::Whole(response))
    }
}

/// Appends to a field that is a text, or is none yet.
fn append(block: &mut Map<String, Value>, field: &str, more: &str) {
    match block.entry(field).or_insert(Value::Null) {
        Value::String(text) => text.push_str(more),
        none => *none = Value::from(more),
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
                Applied::Whole(response) => return Ok(response),
                Applied::Error { kind, .. } => return Err(kind),
                Applied::Part(_) | Applied::Nothing => {}
            }
        }
        Err("cut".to_owned())
    }

    #[test]
    fn blocks_of_all_types_are_put_together() {
        let unknown = json!({"type": "telepathy", "data": [1, {"a": null}]});
        let events = [
            json!({"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 3, "output_tokens": 1}}}),
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
        assert!(response.usage.in_words().starts_with("3 tokens of input"));
        assert!(response.usage.in_words().ends_with("9 tokens of output"));
    }

    #[test]
    fn an_input_that_is_cut_off_is_no_command() {
        let events = [
            start(0, json!({"type": "tool_use", "id": "toolu_1", "name": "memory", "input": {}})),
            delta(0, json!({"type": "input_json_delta", "partial_json": "{\"command\": \"del"})),
        ];
        let response = assemble(events.into_iter().chain(end("max_tokens"))).unwrap();
        assert_eq!(response.content[0]["input"], json!({}));
    }

    #[test]
    fn what_is_not_whole_is_no_response() {
        let text = || start(0, json!({"type": "text", "text": "a"}));
        let [reason, stop] = end("end_turn");
        assert_eq!(assemble([text(), reason.clone()]).unwrap_err(), "cut");
        assert!(assemble([text(), stop.clone()]).unwrap_err().contains("without a reason"));
        assert!(assemble([start(1, json!({"type": "text"})), reason.clone(), stop.clone()]).is_err());
        assert!(assemble([delta(0, json!({"type": "text_delta", "text": "a"})), reason, stop]).is_err());
        let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
        assert_eq!(assemble([text(), overloaded]).unwrap_err(), "overloaded_error");
    }

    #[test]
    fn a_response_that_comes_at_once_is_the_same() {
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
