//! [`Conversation`]: the messages so far, in the format of the Messages API.

use memory_tool::ToolDefinition;
use memory_tool::api::{CacheControl, ClearToolUses, Compact};
use serde::Serialize;
use serde_json::{Value, json};

/// The number of user messages, from the last one back, with a cache breakpoint. Everything up to the last one is
/// written to the cache; everything up to the one before was written by the last request. With those of the tool and
/// the system prompt these are the four breakpoints that the API allows.
const CACHED_MESSAGES: usize = 2;

/// The settings of all requests of a conversation.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) model: String,
    pub(crate) max_tokens: u32,
    pub(crate) system: Option<String>,
    pub(crate) stream: bool,
    pub(crate) edits_context: bool,
    pub(crate) compacts: bool,
    pub(crate) shows_thinking: bool,
}

/// The messages of a conversation.
///
/// # Behavior
/// 1. Messages of the user and of Claude alternate, and the user begins: content of the same role is appended to the
///    last message.
/// 2. Messages and text blocks are never empty.
/// 3. A conversation can be reset to an earlier state.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    messages: Vec<Message>,
}

#[derive(Debug)]
struct Message {
    role: Role,
    content: Vec<Value>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    Assistant,
    User,
}

/// A state of a conversation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    messages: usize,
    /// The number of blocks in the last message.
    blocks: usize,
}

impl Conversation {
    /// Adds a message of the user.
    pub(crate) fn say(&mut self, text: &str) {
        self.add(Role::User, vec![json!({"type": "text", "text": text})]);
    }

    /// Adds the results of tools.
    pub(crate) fn add_results(&mut self, results: Vec<Value>) {
        self.add(Role::User, results);
    }

    /// Adds a response of Claude.
    pub(crate) fn answer(&mut self, content: Vec<Value>) {
        self.add(Role::Assistant, content);
    }

    /// Adds the last response of a turn, without thinking at its end: the API rejects messages that end with it.
    pub(crate) fn answer_last(&mut self, mut content: Vec<Value>) {
        let is_thinking = |block: &Value| block["type"] == "thinking" || block["type"] == "redacted_thinking";
        content.truncate(content.iter().rposition(|block| !is_thinking(block)).map_or(0, |last| last + 1));
        self.answer(content);
    }

    fn add(&mut self, role: Role, mut content: Vec<Value>) {
        content.retain(|block| {
            block["type"] != "text" || block["text"].as_str().is_some_and(|text| !text.trim().is_empty())
        });
        if content.is_empty() {
            return;
        }
        match self.messages.last_mut() {
            Some(last) if last.role == role => last.content.append(&mut content),
            _ => self.messages.push(Message { role, content }),
        }
    }

    /// The current state.
    pub(crate) fn mark(&self) -> Mark {
        Mark { messages: self.messages.len(), blocks: self.messages.last().map_or(0, |last| last.content.len()) }
    }

    /// Resets the conversation to an earlier state.
    pub(crate) fn reset_to(&mut self, mark: Mark) {
        self.messages.truncate(mark.messages);
        if let Some(last) = self.messages.last_mut() {
            last.content.truncate(mark.blocks);
        }
    }

    /// Replaces each successful result that Claude has not answered with an error. Returns the number of replaced
    /// results.
    pub(crate) fn withdraw_results(&mut self, message: &str) -> usize {
        let unanswered = self.messages.last_mut().filter(|last| last.role == Role::User);
        let blocks = unanswered.into_iter().flat_map(|message| &mut message.content);
        let results = blocks.filter(|block| block["type"] == "tool_result" && block["is_error"] != true);
        let withdrawn = results.map(|result| {
            result["content"] = json!(message);
            result["is_error"] = json!(true);
        });
        withdrawn.count()
    }

    /// Removes all messages.
    pub(crate) fn clear(&mut self) {
        self.messages.clear();
    }

    /// The body of the next request.
    pub(crate) fn request(&self, settings: &Settings) -> Value {
        let mut request = json!({
            "model": settings.model,
            "max_tokens": settings.max_tokens,
            "stream": settings.stream,
            "tools": [ToolDefinition::new().with_cache_control(CacheControl::ephemeral())],
            "messages": self.messages(),
        });
        if let Some(system) = &settings.system {
            request["system"] = json!([{"type": "text", "text": system, "cache_control": CacheControl::ephemeral()}]);
        }
        if settings.shows_thinking {
            // Some models think only on request, and most return no text of it by default.
            request["thinking"] = json!({"type": "adaptive", "display": "summarized"});
        }
        let clear = settings.edits_context.then(|| json!(ClearToolUses::new()));
        let compact = settings.compacts.then(|| json!(Compact::new()));
        let edits: Vec<_> = clear.into_iter().chain(compact).collect();
        if !edits.is_empty() {
            request["context_management"] = json!({"edits": edits});
        }
        request
    }

    fn messages(&self) -> Vec<Value> {
        let is_users = |message: &Message| message.role == Role::User;
        let users = self.messages.iter().filter(|message| is_users(message)).count();
        let mut before = 0;
        let messages = self.messages.iter().map(|message| {
            let mut content = message.content.clone();
            before += usize::from(is_users(message));
            if is_users(message)
                && before + CACHED_MESSAGES > users
                && let Some(Value::Object(last)) = content.last_mut()
            {
                last.insert("cache_control".to_owned(), json!(CacheControl::ephemeral()));
            }
            json!({"role": message.role, "content": content})
        });
        messages.collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn settings() -> Settings {
        Settings {
            model: "claude-test".to_owned(),
            max_tokens: 100,
            system: None,
            stream: true,
            edits_context: true,
            compacts: false,
            shows_thinking: false,
        }
    }

    fn text(text: &str) -> Value {
        json!({"type": "text", "text": text})
    }

    fn marked(mut block: Value) -> Value {
        block["cache_control"] = json!({"type": "ephemeral"});
        block
    }

    fn result(id: &str) -> Value {
        json!({"type": "tool_result", "tool_use_id": id, "content": "x"})
    }

    #[test]
    fn a_request_has_the_documented_format() {
        let mut conversation = Conversation::default();
        conversation.say("Hi");
        assert_eq!(
            conversation.request(&settings()),
            json!({
                "model": "claude-test",
                "max_tokens": 100,
                "stream": true,
                "tools": [marked(json!({"type": "memory_20250818", "name": "memory"}))],
                "messages": [{"role": "user", "content": [marked(text("Hi"))]}],
                "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
            })
        );
        let system = Settings { system: Some("Be brief.".to_owned()), compacts: true, ..settings() };
        let request = conversation.request(&system);
        assert_eq!(request["system"], json!([marked(text("Be brief."))]));
        let edits = json!([{"type": "clear_tool_uses_20250919"}, {"type": "compact_20260112"}]);
        assert_eq!(request["context_management"]["edits"], edits);
        let bare = Settings { edits_context: false, ..settings() };
        assert_eq!(conversation.request(&bare).get("context_management"), None);
        let thinking = Settings { shows_thinking: true, ..settings() };
        let asked = json!({"type": "adaptive", "display": "summarized"});
        assert_eq!(conversation.request(&thinking)["thinking"], asked);
    }

    #[test]
    fn the_last_two_user_messages_have_cache_breakpoints() {
        let mut conversation = Conversation::default();
        for round in ["a", "b", "c"] {
            conversation.say(round);
            conversation.answer(vec![text(round)]);
        }
        conversation.add_results(vec![result("1"), result("2")]);
        let messages = conversation.messages();
        let marks: Vec<_> =
            messages.iter().map(|message| message.to_string().matches("cache_control").count()).collect();
        assert_eq!(marks, [0, 0, 0, 0, 1, 0, 1]);
        assert_eq!(messages[6]["content"], json!([result("1"), marked(result("2"))]));
    }

    #[test]
    fn roles_alternate_and_empty_texts_are_removed() {
        let mut conversation = Conversation::default();
        conversation.say("a");
        conversation.answer(vec![text("")]);
        conversation.say("b");
        conversation.answer(vec![text(" \n"), text("c")]);
        conversation.answer(vec![text("d")]);
        assert_eq!(
            json!(conversation.messages()),
            json!([
                {"role": "user", "content": [text("a"), marked(text("b"))]},
                {"role": "assistant", "content": [text("c"), text("d")]},
            ])
        );
    }

    #[test]
    fn thinking_at_the_end_of_the_last_answer_is_removed() {
        let thinking = |kind| json!({"type": kind, "signature": "s"});
        let both = [thinking("thinking"), thinking("redacted_thinking")];
        let mut conversation = Conversation::default();
        conversation.say("a");
        conversation.answer_last(both.to_vec());
        conversation.say("b");
        assert_eq!(conversation.messages.len(), 1);
        conversation.answer_last([&both[..], &[text("c")], &both].concat());
        assert_eq!(conversation.messages[1].content, [&both[..], &[text("c")]].concat());
    }

    #[test]
    fn only_unanswered_results_are_withdrawn() {
        let mut conversation = Conversation::default();
        let failed = |id, why| json!({"type": "tool_result", "tool_use_id": id, "content": why, "is_error": true});
        conversation.say("a");
        conversation.answer(vec![text("b")]);
        conversation.add_results(vec![result("1"), failed("2", "no")]);
        conversation.say("c");
        assert_eq!(conversation.withdraw_results("gone"), 1);
        assert_eq!(conversation.messages[2].content, [failed("1", "gone"), failed("2", "no"), text("c")]);
        conversation.add_results(vec![result("3")]);
        conversation.answer(vec![text("d")]);
        assert_eq!(conversation.withdraw_results("gone"), 0);
    }

    #[test]
    fn a_reset_also_works_within_a_message() {
        let mut conversation = Conversation::default();
        let empty = conversation.mark();
        conversation.say("a");
        let before = conversation.messages();
        let mark = conversation.mark();
        conversation.say("b");
        conversation.answer(vec![text("c")]);
        conversation.reset_to(mark);
        assert_eq!(conversation.messages(), before);
        conversation.reset_to(empty);
        assert_eq!(conversation.messages(), [Value::Null; 0]);
    }
}
