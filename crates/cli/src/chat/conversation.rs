//! [`Conversation`]: what was said so far, as the Messages API takes it.

use memory_tool::{CacheControl, ClearToolUses, Compact, ToolDefinition};
use serde::Serialize;
use serde_json::{Value, json};

/// How many messages of the user's, from the last one back, end what the API is to cache: all up to the last is written, and all
/// up to the one before was written by the last request. With the tool and the system prompt these are the four that it takes.
const CACHED_MESSAGES: usize = 2;

/// What is the same in all requests of a conversation.
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
/// 1. Messages of the user's and of Claude's take turns, and the user's is the first: what would follow one of the same role
///    belongs to it.
/// 2. No message is empty, and no text in it.
/// 3. It can be put back to what it was.
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

/// A conversation at some moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    messages: usize,
    /// The blocks of the last message.
    blocks: usize,
}

impl Conversation {
    /// Adds what the user says.
    pub(crate) fn say(&mut self, text: &str) {
        self.add(Role::User, vec![json!({"type": "text", "text": text})]);
    }

    /// Adds the results of tools.
    pub(crate) fn give_results(&mut self, results: Vec<Value>) {
        self.add(Role::User, results);
    }

    /// Adds what Claude answered.
    pub(crate) fn answer(&mut self, content: Vec<Value>) {
        self.add(Role::Assistant, content);
    }

    /// Adds an answer that Claude does not go on with. Thinking at its end led to nothing, and the API refuses a message that
    /// ends so.
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

    /// Where the conversation is.
    pub(crate) fn mark(&self) -> Mark {
        Mark { messages: self.messages.len(), blocks: self.messages.last().map_or(0, |last| last.content.len()) }
    }

    /// Puts the conversation back to where it was.
    pub(crate) fn put_back(&mut self, mark: Mark) {
        self.messages.truncate(mark.messages);
        if let Some(last) = self.messages.last_mut() {
            last.content.truncate(mark.blocks);
        }
    }

    /// Puts an error in the place of each result that Claude has not answered yet and that is none; gives how many there were.
    pub(crate) fn withdraw_results(&mut self, why: &str) -> usize {
        let unanswered = self.messages.last_mut().filter(|last| last.role == Role::User);
        let blocks = unanswered.into_iter().flat_map(|message| &mut message.content);
        let results = blocks.filter(|block| block["type"] == "tool_result" && block["is_error"] != true);
        let withdrawn = results.map(|result| {
            result["content"] = json!(why);
            result["is_error"] = json!(true);
        });
        withdrawn.count()
    }

    /// Forgets all that was said.
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
            // Some models think only when asked to, and most keep the text to themselves unless asked for it.
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
    fn a_request_is_as_documented() {
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
    fn the_last_two_messages_of_the_user_end_what_is_cached() {
        let mut conversation = Conversation::default();
        for round in ["a", "b", "c"] {
            conversation.say(round);
            conversation.answer(vec![text(round)]);
        }
        conversation.give_results(vec![result("1"), result("2")]);
        let messages = conversation.messages();
        let marks: Vec<_> =
            messages.iter().map(|message| message.to_string().matches("cache_control").count()).collect();
        assert_eq!(marks, [0, 0, 0, 0, 1, 0, 1]);
        assert_eq!(messages[6]["content"], json!([result("1"), marked(result("2"))]));
    }

    #[test]
    fn roles_take_turns_and_nothing_is_empty() {
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
    fn no_answer_ends_with_thinking() {
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
    fn results_are_withdrawn_until_they_are_answered() {
        let mut conversation = Conversation::default();
        let failed = |id, why| json!({"type": "tool_result", "tool_use_id": id, "content": why, "is_error": true});
        conversation.say("a");
        conversation.answer(vec![text("b")]);
        conversation.give_results(vec![result("1"), failed("2", "no")]);
        conversation.say("c");
        assert_eq!(conversation.withdraw_results("gone"), 1);
        assert_eq!(conversation.messages[2].content, [failed("1", "gone"), failed("2", "no"), text("c")]);
        conversation.give_results(vec![result("3")]);
        conversation.answer(vec![text("d")]);
        assert_eq!(conversation.withdraw_results("gone"), 0);
    }

    #[test]
    fn it_is_put_back_also_within_a_message() {
        let mut conversation = Conversation::default();
        let empty = conversation.mark();
        conversation.say("a");
        let before = conversation.messages();
        let mark = conversation.mark();
        conversation.say("b");
        conversation.answer(vec![text("c")]);
        conversation.put_back(mark);
        assert_eq!(conversation.messages(), before);
        conversation.put_back(empty);
        assert_eq!(conversation.messages(), [Value::Null; 0]);
    }
}
