//! [`Session`]: the turns of a conversation.

use std::num::NonZeroU32;
use std::sync::Arc;

use futures::FutureExt as _;
use memory_tool::api::TOOL_NAME;
use memory_tool::{MemoryTool, ToolRunner};
use serde_json::{Value, json};

use crate::chat::api::{Api, PendingResponse, Step, quoted};
use crate::chat::change::{changed_lines, summary};
use crate::chat::conversation::{Conversation, Settings};
use crate::chat::error::RequestError;
use crate::chat::response::{Part, Response};
use crate::chat::retries::{MAX_TOTAL_DELAY, Retries, random_jitter};
use crate::chat::screen::Screen;
use crate::chat::usage::Usage;
use crate::failure::{self, Failure};
use crate::history::StoreHistory;
use crate::interruption::Interruption;

/// Replaces a result that the API rejected. Claude reads it.
const WITHDRAWN: &str = "The command was executed, but the API rejected its result.";
/// The result of a command in an incomplete response. Claude reads it.
const INCOMPLETE: &str = "Not executed: the response was incomplete.";
/// The result of a command after Ctrl-C. Claude reads it.
const INTERRUPTED: &str = "Not executed: the user interrupted.";

/// A conversation with Claude and its environment.
pub(crate) struct Session {
    pub(crate) api: Api,
    pub(crate) settings: Settings,
    pub(crate) max_retries: u32,
    /// The maximum number of responses in a turn, because a model that never stops would cost without limit.
    pub(crate) max_responses: NonZeroU32,
    pub(crate) conversation: Conversation,
    pub(crate) runner: ToolRunner<Arc<dyn MemoryTool>>,
    pub(crate) history: Option<StoreHistory>,
    pub(crate) screen: Screen,
    pub(crate) requests: u64,
    pub(crate) usage: Usage,
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum TurnEnd {
    Done,
    Declined,
    CutOff,
    Interrupted {
        /// The exit status, if the program ends.
        status: u8,
    },
}

impl Session {
    /// Sends a message to Claude, and executes the commands of the responses.
    ///
    /// # Behavior
    /// 1. The calls of a response are executed one after another, once the response is complete, if it stopped for
    ///    them.
    /// 2. A signal does not interrupt the running command. Later ones are not executed, and their results say so.
    /// 3. At the end of a turn, each call in the conversation is followed by its result. Later messages without a
    ///    response are dropped from the conversation.
    /// 4. If Claude declines to answer, all messages of the turn are dropped.
    /// 5. If the API rejects the content of a request, unanswered results are replaced with errors, because the API
    ///    would also reject all later requests.
    /// 6. A turn ends after [`max_responses`](Self::max_responses) and keeps its messages.
    pub(crate) async fn take_turn(&mut self, text: &str, interruption: &mut Interruption) -> Result<TurnEnd, Failure> {
        let before = self.conversation.mark();
        let mut settled = before;
        self.conversation.say(text);
        for _ in 0..self.max_responses.get() {
            let response = tokio::select! {
                biased;
                status = interruption.status() => {
                    self.conversation.reset_to(settled);
                    self.screen.eprint_interruption("[chat] interrupted; unanswered messages were dropped").await?;
                    return Ok(TurnEnd::Interrupted { status });
                }
                response = self.respond() => response,
            };
            let response = match response {
                Ok(response) => response,
                Err(failure) => {
                    self.conversation.reset_to(settled);
                    self.withdraw_rejected_results(&failure).await?;
                    return Err(failure);
                }
            };
            self.usage += response.usage;
            if response.stop_reason == "refusal" {
                self.conversation.reset_to(before);
                self.report_refusal(response.explanation.as_deref()).await?;
                return Ok(TurnEnd::Declined);
            }
            if let Some(end) = self.follow(response, interruption).await? {
                return Ok(end);
            }
            settled = self.conversation.mark();
        }
        let responses = self.max_responses;
        let note = format!("[chat] stopped after {responses} responses (--max-responses); send a message to continue");
        self.screen.eprint_line(&note).await?;
        Ok(TurnEnd::CutOff)
    }

    /// Replaces unanswered results, if the API rejected the content of the request.
    async fn withdraw_rejected_results(&mut self, failure: &Failure) -> Result<(), Failure> {
        let Failure::Chat(error) = failure else { return Ok(()) };
        if error.rejects_content() && self.conversation.withdraw_results(WITHDRAWN) > 0 {
            self.screen
                .eprint_line(
                    "[chat] replaced the results of the last commands with an error, because the API rejected them",
                )
                .await?;
        }
        Ok(())
    }

    /// Sends the conversation, with retries, until there is a complete response. Without a terminal, only the last
    /// attempt is printed.
    async fn respond(&mut self) -> Result<Response, Failure> {
        let body = self.conversation.request(&self.settings).to_string();
        let mut retries = Retries::new(self.max_retries);
        loop {
            self.requests += 1;
            let mut held = String::new();
            let response = self.show_response(&body, &mut held).await;
            self.screen.end_line().await?;
            let error = match response {
                Err(Failure::Chat(error)) if error.is_transient() => error,
                done => {
                    self.screen.lines(&held).await?;
                    return done;
                }
            };
            let Some(delay) = retries.next_delay(error.retry_after(), random_jitter()) else {
                self.screen.lines(&held).await?;
                return Err(given_up(error));
            };
            let message = failure::with_causes(&error);
            self.screen.eprint_line(&format!("[chat] {message}; retrying in {:.1} s", delay.as_secs_f64())).await?;
            tokio::time::sleep(delay).await;
        }
    }

    /// Sends a request, and prints the response. Without a terminal, its text is added to `held`.
    async fn show_response(&mut self, body: &str, held: &mut String) -> Result<Response, Failure> {
        let Self { api, screen, settings, .. } = self;
        let begin = async {
            let mut answer = api.send(body.into()).await?;
            let step = next_shown(&mut answer, settings).await?;
            Ok((answer, step))
        };
        let (mut answer, mut step) = screen.wait_for(begin).await.map_err(Failure::Chat)?;
        loop {
            match step {
                Step::Part(Part::Text(text)) if screen.is_live() => screen.text(&text).await?,
                Step::Part(Part::Text(text)) => held.push_str(&text),
                Step::Part(Part::Thinking(thinking)) => screen.thinking(&thinking).await?,
                Step::Complete(response) => return Ok(response),
            }
            step = screen.wait_for(next_shown(&mut answer, settings)).await.map_err(Failure::Chat)?;
        }
    }

    /// Adds the response to the conversation, and executes its commands. Returns the end of the turn, unless another
    /// request follows.
    async fn follow(
        &mut self,
        response: Response,
        interruption: &mut Interruption,
    ) -> Result<Option<TurnEnd>, Failure> {
        let Response { content, stop_reason, .. } = response;
        let calls: Vec<_> = content.iter().filter(|block| block["type"] == "tool_use").cloned().collect();
        let goes_on = match stop_reason.as_str() {
            "tool_use" => !calls.is_empty(),
            "pause_turn" | "compaction" => !content.is_empty(),
            _ => false,
        };
        if goes_on {
            self.conversation.answer(content);
        } else {
            self.conversation.answer_last(content);
        }
        let interrupted = match stop_reason.as_str() {
            "tool_use" => self.run(&calls, interruption).await?,
            _ => {
                let not_run = calls.iter().map(|call| error_result(call, INCOMPLETE)).collect();
                self.conversation.add_results(not_run);
                None
            }
        };
        if let Some(status) = interrupted {
            return Ok(Some(TurnEnd::Interrupted { status }));
        }
        if goes_on {
            return Ok(None);
        }
        let Some(note) = stop_note(&stop_reason) else { return Ok(Some(TurnEnd::Done)) };
        self.screen.eprint_line(&format!("[chat] {note}")).await?;
        Ok(Some(TurnEnd::CutOff))
    }

    /// Executes the calls, and adds their results to the conversation. Returns the status of a signal that arrived
    /// during them.
    async fn run(&mut self, calls: &[Value], interruption: &mut Interruption) -> Result<Option<u8>, Failure> {
        let mut interrupted = None;
        let mut results = Vec::with_capacity(calls.len());
        for call in calls {
            if interrupted.is_none() {
                interrupted = interruption.status().now_or_never();
                if interrupted.is_some() {
                    failure::eprint_line("[chat] interrupted; skipping the remaining memory commands");
                }
            }
            if interrupted.is_some() {
                results.push(error_result(call, INTERRUPTED));
                continue;
            }
            let (result, line) = self.execute(call, &mut interrupted, interruption).await;
            self.screen.eprint_line(&line).await?;
            // Only on a terminal: a log would keep secrets that the memory may have redacted.
            if self.screen.is_watched() && call["name"] == TOOL_NAME && result["is_error"] != true {
                for line in changed_lines(&call["input"]) {
                    self.screen.eprint_line(&line).await?;
                }
            }
            results.push(result);
        }
        self.conversation.add_results(results);
        Ok(interrupted)
    }

    /// Executes a call. Returns its result and the line about it.
    async fn execute(
        &mut self,
        call: &Value,
        interrupted: &mut Option<u8>,
        interruption: &mut Interruption,
    ) -> (Value, String) {
        if call["name"] != TOOL_NAME {
            let name = quoted(call["name"].as_str().unwrap_or_default());
            let message = format!("Unknown tool `{name}`. The only available tool is `{TOOL_NAME}`.");
            return (error_result(call, &message), format!("[chat] Claude called an unknown tool: {name}"));
        }
        let run = {
            let mut running = std::pin::pin!(self.runner.run(std::slice::from_ref(call)));
            loop {
                tokio::select! {
                    biased;
                    run = &mut running => break run,
                    status = interruption.status() => {
                        *interrupted = Some(status);
                        failure::eprint_line("[chat] interrupted; waiting for the running memory command");
                    }
                }
            }
        };
        for failed in &run.failures {
            failure::eprint_error(&failed.error);
        }
        let result = run.results.first().map(|result| json!(result)).unwrap_or_default();
        let line = format!("[memory] {}{}", summary(&call["input"]), error_of(&result));
        (result, line)
    }

    async fn report_refusal(&mut self, explanation: Option<&str>) -> Result<(), Failure> {
        let reason = explanation.map(|explanation| format!(" ({})", quoted(explanation))).unwrap_or_default();
        let note = format!("[chat] Claude declined to answer{reason}; your message was dropped, the memory is kept");
        self.screen.eprint_line(&note).await
    }
}

/// The next step to print: thinking is skipped unless it was requested.
async fn next_shown(answer: &mut PendingResponse<'_>, settings: &Settings) -> Result<Step, RequestError> {
    loop {
        match answer.next().await? {
            Step::Part(Part::Thinking(_)) if !settings.shows_thinking => {}
            step => return Ok(step),
        }
    }
}

/// The error after the last attempt.
fn given_up(error: RequestError) -> Failure {
    Failure::Chat(match error.retry_after() {
        Some(requested) if requested > MAX_TOTAL_DELAY => RequestError::LongWait { requested, source: Box::new(error) },
        _ => error,
    })
}

/// The note about a stop reason, unless it is a regular one.
fn stop_note(stop_reason: &str) -> Option<String> {
    Some(match stop_reason {
        "end_turn" | "stop_sequence" => return None,
        "max_tokens" => "the response was cut off at --max-tokens".to_owned(),
        "model_context_window_exceeded" => {
            "the context window is full; /clear empties the conversation and keeps the memory".to_owned()
        }
        other => format!("Claude stopped: {}", quoted(other)),
    })
}

fn error_result(call: &Value, message: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": call["id"], "content": message, "is_error": true})
}

/// The error of a result, if it is one.
fn error_of(result: &Value) -> String {
    if result["is_error"] != true {
        return String::new();
    }
    format!(": {}", format_error(result["content"].as_str().unwrap_or_default()))
}

/// The tool's error for a line of the program.
pub(crate) fn format_error(error: &str) -> String {
    format!("error: {}", error.strip_prefix("Error: ").unwrap_or(error))
}

#[cfg(test)]
mod tests {
    use memory_tool::{Engine, InMemoryStore};
    use memory_tool_test_servers::messages_api::{Answer, End, MessagesApi, call, text};

    use super::*;
    use crate::chat::conversation::tests::settings;

    fn session(server: &MessagesApi) -> Session {
        let settings = settings();
        let tool: Arc<dyn MemoryTool> = Arc::new(Engine::new(InMemoryStore::new()));
        Session {
            api: Api::new("key".to_owned(), server.url(), &settings).unwrap(),
            settings,
            max_retries: 0,
            max_responses: NonZeroU32::MAX,
            conversation: Conversation::default(),
            runner: ToolRunner::new(tool),
            history: None,
            screen: Screen::of_this_process(),
            requests: 0,
            usage: Usage::default(),
        }
    }

    fn done() -> Answer {
        Answer::stream("end_turn", &[text("Fine\n")])
    }

    fn calling() -> Answer {
        Answer::stream("tool_use", &[call("toolu_1", json!({"command": "view", "path": "/memories"}))])
    }

    /// The result of a command in the request after the rejected one.
    async fn result_after(rejection: Answer) -> Value {
        let server = MessagesApi::start([calling(), rejection, done()]);
        let mut session = session(&server);
        let mut interruption = Interruption::listen().unwrap();
        session.take_turn("First", &mut interruption).await.unwrap_err();
        assert_eq!(session.take_turn("Second", &mut interruption).await.unwrap(), TurnEnd::Done);
        let last = server.finish()[2].last().to_vec();
        assert_eq!((last.len(), &last[1]["text"]), (2, &json!("Second")));
        last[0].clone()
    }

    #[tokio::test]
    async fn a_rejected_result_is_replaced_with_an_error() {
        let error = json!({"type": "error", "error": {"type": "invalid_request_error", "message": "no image"}});
        for rejection in [
            Answer::error(400, "invalid_request_error", "no image"),
            Answer::error(413, "request_too_large", "too large"),
            done().until("message_stop", End::Regular).and(error),
        ] {
            assert_eq!(result_after(rejection).await, error_result(&json!({"id": "toolu_1"}), WITHDRAWN));
        }
    }

    #[tokio::test]
    async fn a_result_is_kept_after_other_errors() {
        for status in [401, 403, 404, 503] {
            let result = result_after(Answer::error(status, "error", "no")).await;
            assert_eq!(result.get("is_error"), None, "{status}");
        }
    }

    #[test]
    fn the_line_of_a_command_ends_with_its_error() {
        assert_eq!(error_of(&json!({"content": "Error: no", "is_error": true})), ": error: no");
        assert_eq!(error_of(&json!({"content": "Error: no"})), "");
    }

    #[test]
    fn an_early_end_of_a_turn_is_reported() {
        for silent in ["end_turn", "stop_sequence"] {
            assert_eq!(stop_note(silent), None);
        }
        for (reason, word) in
            [("max_tokens", "--max-tokens"), ("model_context_window_exceeded", "/clear"), ("tired", "tired")]
        {
            assert!(stop_note(reason).unwrap().contains(word), "{reason}");
        }
    }
}
