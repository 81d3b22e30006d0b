//! [`Session`]: the conversation with all that it takes, turn by turn.

use std::num::NonZeroU32;
use std::sync::Arc;

use futures::FutureExt as _;
use memory_tool::{MemoryTool, TOOL_NAME, ToolRunner};
use serde_json::{Value, json};

use crate::chat::api::{Answer, Api, Step, shortened};
use crate::chat::change::{changed_lines, in_words};
use crate::chat::conversation::{Conversation, Settings};
use crate::chat::response::{Part, Response};
use crate::chat::retries::{LONGEST_IN_ALL, Retries, chance};
use crate::chat::screen::Screen;
use crate::chat::usage::Usage;
use crate::chat_error::{ChatError, RequestError};
use crate::failure::{self, Failure};
use crate::interruption::Interruption;

/// What is told in the place of a result that the API refused.
const WITHDRAWN: &str = "The command was run, but its result could not be sent: the API refused it.";

/// A conversation with Claude, and what its turns work with.
pub(crate) struct Session {
    pub(crate) api: Api,
    pub(crate) settings: Settings,
    pub(crate) max_retries: u32,
    /// How many responses a turn may take: a model that never comes to an end would spend without one.
    pub(crate) max_responses: NonZeroU32,
    pub(crate) conversation: Conversation,
    pub(crate) runner: ToolRunner<Arc<dyn MemoryTool>>,
    pub(crate) screen: Screen,
    pub(crate) requests: u64,
    pub(crate) usage: Usage,
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum TurnEnd {
    /// Claude is done.
    Done,
    /// Claude declined to go on.
    Declined,
    /// Claude stopped before it was done.
    Cut,
    /// A signal came.
    Interrupted {
        /// What the program ends with, if it does.
        status: u8,
    },
}

/// What comes after a response.
enum Next {
    /// Another request.
    Request,
    End(TurnEnd),
}

impl Session {
    /// Says something to Claude, and does what it asks for.
    ///
    /// # Behavior
    /// 1. The calls of a response are run once it is whole and ends with them, one after another. Nothing else is.
    /// 2. A command that is running when a signal comes is let finish. Those after it are not begun, and are answered so.
    /// 3. However the turn ends, each call in the conversation is followed by its result. What Claude did not answer is taken out
    ///    of the conversation, back to the last results.
    /// 4. What was said in a turn that Claude refuses to go on with is taken out whole.
    /// 5. Results that Claude did not answer since the API refused what held them are withdrawn, or all that follows would be refused.
    /// 6. A turn ends after [`max_responses`](Self::max_responses). What came of them stays said.
    pub(crate) async fn take_turn(&mut self, text: &str, interruption: &mut Interruption) -> Result<TurnEnd, Failure> {
        let before = self.conversation.mark();
        let mut settled = before;
        self.conversation.say(text);
        for _ in 0..self.max_responses.get() {
            let response = tokio::select! {
                biased;
                status = interruption.status() => {
                    self.conversation.put_back(settled);
                    let told = "[chat] interrupted: what Claude had not answered is not part of the conversation";
                    self.screen.eprint_interruption(told).await?;
                    return Ok(TurnEnd::Interrupted { status });
                }
                response = self.respond() => response,
            };
            let response = match response {
                Ok(response) => response,
                Err(failure) => {
                    self.conversation.put_back(settled);
                    self.withdraw_refused_results(&failure).await?;
                    return Err(failure);
                }
            };
            self.usage += response.usage;
            if response.stop_reason == "refusal" {
                self.conversation.put_back(before);
                self.report_refusal(response.explanation.as_deref()).await?;
                return Ok(TurnEnd::Declined);
            }
            match self.follow(response, interruption).await? {
                Next::Request => settled = self.conversation.mark(),
                Next::End(end) => return Ok(end),
            }
        }
        let responses = self.max_responses;
        let told = format!("[chat] Claude is not done after {responses} responses; your next message lets it go on");
        self.screen.eprint_line(&told).await?;
        Ok(TurnEnd::Cut)
    }

    /// Takes what the API may have refused out of the results that wait for an answer.
    async fn withdraw_refused_results(&mut self, failure: &Failure) -> Result<(), Failure> {
        let Failure::Chat(ChatError::Request(error)) = failure else { return Ok(()) };
        if error.is_of_the_content() && self.conversation.withdraw_results(WITHDRAWN) > 0 {
            self.screen
                .eprint_line("[chat] the results of Claude's last commands cannot be sent, and Claude is told so")
                .await?;
        }
        Ok(())
    }

    /// Sends the conversation until there is a whole response, or no more attempt. A screen that is not live shows one attempt.
    async fn respond(&mut self) -> Result<Response, Failure> {
        let body = self.conversation.request(&self.settings).to_string();
        let mut retries = Retries::new(self.max_retries);
        loop {
            self.requests += 1;
            let mut held = String::new();
            let response = self.attempt(&body, &mut held).await;
            let (error, wait) = match response {
                Err(Failure::Chat(ChatError::Request(error))) if error.is_transient() => {
                    let wait = retries.next_wait(error.retry_after(), chance());
                    (error, wait)
                }
                done => {
                    self.screen.lines(&held).await?;
                    return done;
                }
            };
            let Some(wait) = wait else {
                self.screen.lines(&held).await?;
                return Err(given_up(error));
            };
            let told = failure::with_causes(&error);
            self.screen.eprint_line(&format!("[chat] {told}; asking again in {:.1} s", wait.as_secs_f64())).await?;
            tokio::time::sleep(wait).await;
        }
    }

    /// Sends a request, and shows the response on lines of its own. A screen that is not live leaves its text in `held`.
    async fn attempt(&mut self, body: &str, held: &mut String) -> Result<Response, Failure> {
        let response = self.show_response(body, held).await;
        self.screen.end_line().await?;
        response
    }

    async fn show_response(&mut self, body: &str, held: &mut String) -> Result<Response, Failure> {
        let Self { api, screen, settings, .. } = self;
        let begin = async {
            let mut answer = api.send(body.into()).await?;
            let step = next_shown(&mut answer, settings).await?;
            Ok((answer, step))
        };
        let (mut answer, mut step) = screen.wait_for(begin).await.map_err(failed)?;
        loop {
            match step {
                Step::Part(Part::Text(text)) if screen.is_live() => screen.text(&text).await?,
                Step::Part(Part::Text(text)) => held.push_str(&text),
                Step::Part(Part::Thinking(thoughts)) => screen.thoughts(&thoughts).await?,
                Step::Whole(response) => return Ok(response),
            }
            step = screen.wait_for(next_shown(&mut answer, settings)).await.map_err(failed)?;
        }
    }

    /// Takes the response into the conversation, and does what it asks for.
    async fn follow(&mut self, response: Response, interruption: &mut Interruption) -> Result<Next, Failure> {
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
                let not_run =
                    calls.iter().map(|call| refusal(call, "Not run: the response was not complete.")).collect();
                self.conversation.give_results(not_run);
                None
            }
        };
        if let Some(status) = interrupted {
            return Ok(Next::End(TurnEnd::Interrupted { status }));
        }
        if goes_on {
            return Ok(Next::Request);
        }
        let Some(told) = told(&stop_reason) else { return Ok(Next::End(TurnEnd::Done)) };
        self.screen.eprint_line(&format!("[chat] {told}")).await?;
        Ok(Next::End(TurnEnd::Cut))
    }

    /// Runs the calls, and takes their results into the conversation; gives the status of a signal that came meanwhile.
    async fn run(&mut self, calls: &[Value], interruption: &mut Interruption) -> Result<Option<u8>, Failure> {
        let mut interrupted = None;
        let mut results = Vec::with_capacity(calls.len());
        for call in calls {
            if interrupted.is_none() {
                interrupted = interruption.status().now_or_never();
                if interrupted.is_some() {
                    failure::eprint_line("[chat] interrupted: the memory commands that are not begun are not run");
                }
            }
            if interrupted.is_some() {
                results.push(refusal(call, "Not run: the user interrupted."));
                continue;
            }
            let (result, line) = self.answer(call, &mut interrupted, interruption).await;
            self.screen.eprint_line(&line).await?;
            // A log would keep what a memory may have redacted.
            if self.screen.is_watched() && call["name"] == TOOL_NAME && result["is_error"] != true {
                for line in changed_lines(&call["input"]) {
                    self.screen.eprint_line(&line).await?;
                }
            }
            results.push(result);
        }
        self.conversation.give_results(results);
        Ok(interrupted)
    }

    /// Runs one call to its end: its result, and the line about it.
    async fn answer(
        &mut self,
        call: &Value,
        interrupted: &mut Option<u8>,
        interruption: &mut Interruption,
    ) -> (Value, String) {
        if call["name"] != TOOL_NAME {
            let name = shortened(call["name"].as_str().unwrap_or_default());
            let why = format!("There is no tool `{name}`. The only one is `{TOOL_NAME}`.");
            return (refusal(call, &why), format!("[chat] Claude called the tool {name}, which there is not"));
        }
        let run = {
            let mut running = std::pin::pin!(self.runner.run(std::slice::from_ref(call)));
            loop {
                tokio::select! {
                    biased;
                    run = &mut running => break run,
                    status = interruption.status() => {
                        *interrupted = Some(status);
                        failure::eprint_line("[chat] interrupted: the memory command that is running ends first");
                    }
                }
            }
        };
        for told in &run.failures {
            failure::eprint_error(&told.error);
        }
        let result = run.results.first().map(|result| json!(result)).unwrap_or_default();
        let line = format!("[memory] {}{}", in_words(&call["input"]), error_of(&result));
        (result, line)
    }

    async fn report_refusal(&mut self, explanation: Option<&str>) -> Result<(), Failure> {
        let why = explanation.map(|explanation| format!(" ({})", shortened(explanation))).unwrap_or_default();
        let kept = "your message is taken out of the conversation; the memory stays as it is";
        self.screen.eprint_line(&format!("[chat] Claude declines to go on{why}: {kept}")).await
    }
}

/// The next step that is shown: what Claude thinks is only where it was asked for.
async fn next_shown(answer: &mut Answer<'_>, settings: &Settings) -> Result<Step, RequestError> {
    loop {
        match answer.next().await? {
            Step::Part(Part::Thinking(_)) if !settings.shows_thinking => {}
            step => return Ok(step),
        }
    }
}

fn failed(error: RequestError) -> Failure {
    Failure::Chat(ChatError::Request(error))
}

/// The error after the last attempt.
fn given_up(error: RequestError) -> Failure {
    match error.retry_after() {
        Some(asked) if asked > LONGEST_IN_ALL => {
            Failure::Chat(ChatError::LongWait { asked, limit: LONGEST_IN_ALL, source: error })
        }
        _ => failed(error),
    }
}

/// What to tell of a response that ended for this reason.
fn told(stop_reason: &str) -> Option<String> {
    Some(match stop_reason {
        "end_turn" | "stop_sequence" => return None,
        "max_tokens" => "the response reached --max-tokens and is cut off".to_owned(),
        "model_context_window_exceeded" => {
            "the conversation has filled the model's context window; /clear empties it, and the memory stays".to_owned()
        }
        other => format!("Claude stopped: {}", shortened(other)),
    })
}

/// A result that says why there is none.
fn refusal(call: &Value, why: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": call["id"], "content": why, "is_error": true})
}

/// The error that a result tells, if it is one.
fn error_of(result: &Value) -> String {
    if result["is_error"] != true {
        return String::new();
    }
    format!(": {}", error_in_words(result["content"].as_str().unwrap_or_default()))
}

/// The tool's error for a line of the program's own.
pub(crate) fn error_in_words(error: &str) -> String {
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

    /// What the results of a command say in the request after the one that this answers.
    async fn result_after(refusal: Answer) -> Value {
        let server = MessagesApi::start([calling(), refusal, done()]);
        let mut session = session(&server);
        let mut interruption = Interruption::listen().unwrap();
        session.take_turn("First", &mut interruption).await.unwrap_err();
        assert_eq!(session.take_turn("Second", &mut interruption).await.unwrap(), TurnEnd::Done);
        let last = server.finish()[2].last().to_vec();
        assert_eq!((last.len(), &last[1]["text"]), (2, &json!("Second")));
        last[0].clone()
    }

    #[tokio::test]
    async fn a_result_that_is_refused_does_not_stay_in_the_way() {
        let error = json!({"type": "error", "error": {"type": "invalid_request_error", "message": "no image"}});
        for refusal in [
            Answer::error(400, "invalid_request_error", "no image"),
            Answer::error(413, "request_too_large", "too large"),
            done().until("message_stop", End::Regular).and(error),
        ] {
            assert_eq!(result_after(refusal).await, super::refusal(&json!({"id": "toolu_1"}), WITHDRAWN));
        }
    }

    #[tokio::test]
    async fn a_result_stays_where_something_else_is_refused() {
        for status in [401, 403, 404, 503] {
            let result = result_after(Answer::error(status, "error", "no")).await;
            assert_eq!(result.get("is_error"), None, "{status}");
        }
    }

    #[test]
    fn a_line_has_the_error() {
        assert_eq!(error_of(&json!({"content": "Error: no", "is_error": true})), ": error: no");
        assert_eq!(error_of(&json!({"content": "Error: no"})), "");
    }

    #[test]
    fn what_ends_a_turn_early_is_told() {
        for silent in ["end_turn", "stop_sequence"] {
            assert_eq!(told(silent), None);
        }
        for (reason, word) in
            [("max_tokens", "--max-tokens"), ("model_context_window_exceeded", "/clear"), ("tired", "tired")]
        {
            assert!(told(reason).unwrap().contains(word), "{reason}");
        }
    }
}
