//! `memory-tool chat`, end to end: the real program and a scripted server of the Messages API.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use memory_tool_test_fixtures::session::{PATIENCE, Place, program, wait_for_end};
use memory_tool_test_servers::messages_api::{Answer, End, MessagesApi, Request, call, text};
use serde_json::{Value, json};

#[cfg(unix)]
use crate::terminal::on_a_terminal;

/// The key, which must not appear in any output.
const KEY: &str = "sk-ant-test-0123456789";

/// Killed on drop.
struct Chat {
    process: Child,
    input: Option<ChildStdin>,
    output: Transcript,
    errors: Transcript,
}

/// The text of a stream so far.
#[derive(Clone, Default)]
struct Transcript(Arc<(Mutex<(String, bool)>, Condvar)>);

impl Transcript {
    fn of(mut stream: impl Read + Send + 'static) -> Self {
        let transcript = Self::default();
        let Self(shared) = transcript.clone();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let mut part = [0; 4096];
            loop {
                let read = stream.read(&mut part).unwrap_or(0);
                bytes.extend_from_slice(&part[..read]);
                let mut said = shared.0.lock().unwrap();
                *said = (String::from_utf8_lossy(&bytes).into_owned(), read == 0);
                shared.1.notify_all();
                if read == 0 {
                    break;
                }
            }
        });
        transcript
    }

    fn wait(&self, is_enough: impl Fn(&str, bool) -> bool) -> String {
        let said = self.0.0.lock().unwrap();
        let (said, waited) =
            self.0.1.wait_timeout_while(said, PATIENCE, |(said, ended)| !is_enough(said, *ended)).unwrap();
        assert!(!waited.timed_out(), "timeout: {said:?}");
        said.0.clone()
    }

    fn wait_for(&self, text: &str) {
        let said = self.wait(|said, ended| ended || said.contains(text));
        assert!(said.contains(text), "{text:?} is not in {said:?}");
    }

    fn whole(&self) -> String {
        self.wait(|_, ended| ended)
    }
}

/// The program with a key and a server, and without other variables that it reads.
fn command(place: &Place, url: &str, options: &[&str]) -> Command {
    command_for(place.store().as_os_str(), url, options)
}

fn command_for(store: &OsStr, url: &str, options: &[&str]) -> Command {
    let mut command = program();
    command.arg("chat").arg("--store").arg(store).args(options);
    command.env("ANTHROPIC_API_KEY", KEY).env("ANTHROPIC_BASE_URL", url).env_remove("ANTHROPIC_MODEL");
    command.env("NO_PROXY", "*").env("no_proxy", "*");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

impl Chat {
    fn start(place: &Place, api: &MessagesApi, options: &[&str]) -> Self {
        Self::spawn(command(place, api.url(), options))
    }

    fn spawn(mut command: Command) -> Self {
        let mut process = command.spawn().unwrap();
        let input = process.stdin.take();
        let output = Transcript::of(process.stdout.take().unwrap());
        let errors = Transcript::of(process.stderr.take().unwrap());
        Self { process, input, output, errors }
    }

    fn say(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    fn signal(&self, signal: &str) {
        let kill = Command::new("kill").args([signal, &self.process.id().to_string()]).status();
        assert!(kill.unwrap().success());
    }

    /// Closes the input, and returns the exit status, standard output and standard error.
    fn finish(mut self) -> (Option<i32>, String, String) {
        self.input = None;
        self.end()
    }

    /// The same without closing the input, for a program that ends on a signal or an error.
    fn end(mut self) -> (Option<i32>, String, String) {
        let status = wait_for_end(&mut self.process);
        let (output, errors) = (self.output.whole(), self.errors.whole());
        assert!(!output.contains(KEY) && !errors.contains(KEY), "{output}\n{errors}");
        let is_kept = |line: &&str| !line.starts_with("memory-tool: created the ");
        (status.code(), output, errors.split_inclusive('\n').filter(is_kept).collect())
    }
}

impl Drop for Chat {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn converse(place: &Place, api: &MessagesApi, options: &[&str], lines: &[&str]) -> (Option<i32>, String, String) {
    let mut chat = Chat::start(place, api, options);
    for line in lines {
        chat.say(line);
    }
    chat.finish()
}

/// A conversation that has ended.
struct Talk {
    place: Place,
    status: Option<i32>,
    output: String,
    errors: String,
    requests: Vec<Request>,
}

fn talk(answers: impl IntoIterator<Item = Answer>, options: &[&str], lines: &[&str]) -> Talk {
    let (place, api) = (Place::in_memory(), MessagesApi::start(answers));
    let (status, output, errors) = converse(&place, &api, options, lines);
    Talk { place, status, output, errors, requests: api.finish() }
}

fn done(text_shown: &str) -> Answer {
    Answer::stream("end_turn", &[text(text_shown)])
}

fn create(id: &str, path: &str, file_text: &str) -> Value {
    call(id, json!({"command": "create", "path": path, "file_text": file_text}))
}

fn view(id: &str, path: &str) -> Value {
    call(id, json!({"command": "view", "path": path}))
}

/// The block without its cache breakpoint.
fn unmarked(block: &Value) -> Value {
    let mut block = block.clone();
    block.as_object_mut().unwrap().remove("cache_control");
    block
}

fn unmarked_last(request: &Request) -> Vec<Value> {
    request.last().iter().map(unmarked).collect()
}

#[test]
fn claude_remembers_in_the_next_conversation() {
    for stream in [true, false] {
        let answer = if stream { Answer::stream } else { Answer::message };
        let options: &[&str] = if stream { &[] } else { &["--no-stream"] };
        let place = Place::in_memory();
        let first = [
            json!({"type": "thinking", "thinking": "I note it.", "signature": "c2ln"}),
            text("I'll note that."),
            json!({"type": "novel", "data": [1, {"a": null}]}),
            create("toolu_1", "/memories/tea.txt", "Tea, no milk: 茶\n"),
        ];
        let api = MessagesApi::start([answer("tool_use", &first), answer("end_turn", &[text("Noted: 茶.")])]);
        let (status, output, errors) = converse(&place, &api, options, &["I take tea, no milk"]);
        assert_eq!((status, output.as_str()), (Some(0), "I'll note that.\nNoted: 茶.\n"), "{errors}");
        assert_eq!(errors, "[memory] create /memories/tea.txt (1 line, 18 bytes)\n");
        let requests = api.finish();
        let ephemeral = json!({"type": "ephemeral"});
        let mut said = text("I take tea, no milk");
        said["cache_control"] = ephemeral.clone();
        assert_eq!(
            requests[0].body,
            json!({
                "model": "claude-opus-5-5",
                "max_tokens": 32_000,
                "stream": stream,
                "tools": [{"type": "memory_20250818", "name": "memory", "cache_control": ephemeral}],
                "messages": [{"role": "user", "content": [said.clone()]}],
                "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
            })
        );
        assert_eq!(requests[0].header("x-api-key"), Some(KEY));
        assert_eq!(requests[0].header("anthropic-beta"), Some("context-management-2025-06-27"));
        let result = json!({
            "type": "tool_result", "tool_use_id": "toolu_1",
            "content": "File created successfully at: /memories/tea.txt", "cache_control": ephemeral,
        });
        assert_eq!(
            requests[1].body["messages"],
            json!([
                {"role": "user", "content": [said]},
                {"role": "assistant", "content": first},
                {"role": "user", "content": [result]},
            ])
        );

        let api = MessagesApi::start([
            answer("tool_use", &[view("toolu_1", "/memories/tea.txt")]),
            answer("end_turn", &[text("Tea.")]),
        ]);
        let (status, output, errors) = converse(&place, &api, options, &["What do I take?"]);
        assert_eq!(
            (status, output.as_str(), errors.as_str()),
            (Some(0), "Tea.\n", "[memory] view /memories/tea.txt\n")
        );
        assert!(api.finish()[1].last()[0]["content"].as_str().unwrap().contains("Tea, no milk: 茶"));
    }
}

#[test]
fn streams_are_parsed_in_any_chunks() {
    let content = [text("Zoë drinks 茶 🍵.\n"), create("toolu_1", "/memories/茶.txt", "🍵 \"\\\n")];
    let script = [Answer::stream("tool_use", &content), done("はい")];
    let Talk { place, status, output, errors, requests, .. } =
        talk(script.map(|answer| answer.in_chunks(1)), &[], &["茶?"]);
    assert_eq!((status, output.as_str()), (Some(0), "Zoë drinks 茶 🍵.\nはい\n"), "{errors}");
    assert_eq!(fs::read_to_string(place.file("茶.txt")).unwrap(), "🍵 \"\\\n");
    assert_eq!(requests[1].messages()[1]["content"], json!(content));
}

#[test]
fn results_of_a_response_are_sent_in_order_in_one_message() {
    let calls = [
        create("toolu_1", "/memories/a", "one\n"),
        create("toolu_2", "/memories/a", "two\n"),
        json!({"type": "tool_use", "id": "toolu_3", "name": "bash", "input": {"command": "ls"}}),
        view("toolu_4", "/memories/a\n[memory] forged"),
        view("toolu_5", "/memories/a"),
    ];
    let Talk { status, output, errors, requests, .. } =
        talk([Answer::stream("tool_use", &calls), done("Done.")], &[], &["Go"]);
    assert_eq!((status, output.as_str()), (Some(0), "Done.\n"), "{errors}");
    let lines: Vec<_> = errors.lines().collect();
    assert_eq!(lines.len(), 5, "{errors}");
    assert_eq!(lines[0], "[memory] create /memories/a (1 line, 4 bytes)");
    assert_eq!(lines[1], "[memory] create /memories/a (1 line, 4 bytes): error: File /memories/a already exists");
    assert_eq!(lines[2], "[chat] Claude called an unknown tool: bash");
    assert!(lines[3].starts_with("[memory] view /memories/a\\n[memory] forged: error: "), "{errors}");
    assert_eq!(lines[4], "[memory] view /memories/a");
    let results = unmarked_last(&requests[1]);
    let expected: Vec<_> = results.iter().map(|result| (&result["tool_use_id"], result["is_error"] == true)).collect();
    let ids = ["toolu_1", "toolu_2", "toolu_3", "toolu_4", "toolu_5"].map(Value::from);
    assert_eq!(expected, ids.iter().zip([false, true, true, true, false]).collect::<Vec<_>>());
    assert!(results[4]["content"].as_str().unwrap().contains("one"));
}

#[test]
fn requests_are_retried_after_the_requested_delay() {
    let Talk { status, output, errors, requests, .. } = talk(
        [
            Answer::error(429, "rate_limit_error", "Slow down").with_header("retry-after", "0.6"),
            Answer::error(529, "overloaded_error", "Overloaded").with_header("retry-after", "0"),
            done("Hi"),
        ],
        &[],
        &["Hi"],
    );
    assert_eq!((status, output.as_str()), (Some(0), "Hi\n"), "{errors}");
    assert_eq!(
        errors,
        "[chat] the API returned 429: rate_limit_error: Slow down; retrying in 0.6 s\n\
         [chat] the API returned 529: overloaded_error: Overloaded; retrying in 0.0 s\n"
    );
    assert!(requests.iter().all(|request| request.body == requests[0].body));
}

#[test]
fn commands_of_an_incomplete_response_are_not_executed() {
    let calls = [text("Noting."), create("toolu_1", "/memories/a", "one\n"), create("toolu_2", "/memories/b", "two\n")];
    let calling = || Answer::stream("tool_use", &calls);
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    for (broken, words) in [
        (calling().until("message_stop", End::Cut), "broke before the response was complete"),
        (calling().until("toolu_2", End::Cut), "broke before the response was complete"),
        (calling().until("partial_json", End::Regular), "ended the response before it was complete"),
        (calling().until("message_stop", End::Regular), "ended the response before it was complete"),
        (
            calling().until("toolu_2", End::Regular).and(overloaded),
            "aborted the response: overloaded_error: Overloaded",
        ),
    ] {
        let Talk { status, output, errors, requests, .. } =
            talk([broken, calling(), done("Noted.")], &[], &["Note it"]);
        assert_eq!((status, output.as_str()), (Some(0), "Noting.\nNoted.\n"), "{errors}");
        let lines: Vec<_> = errors.lines().collect();
        assert!(lines[0].starts_with("[chat] ") && lines[0].contains(words), "{errors}");
        assert!(lines[0].contains("; retrying in 0."), "{errors}");
        // A second execution would fail.
        assert_eq!(lines[1..], ["a", "b"].map(|name| format!("[memory] create /memories/{name} (1 line, 4 bytes)")));
        assert_eq!(requests[1].body, requests[0].body);
    }
}

#[test]
fn retries_are_limited() {
    let place = Place::in_memory();
    let busy = || Answer::error(503, "api_error", "Busy").with_header("retry-after", "0");
    let api = MessagesApi::start([busy(), busy(), busy()]);
    let (status, output, errors) = converse(&place, &api, &["--max-retries", "2"], &["Hi", "Never sent"]);
    assert_eq!((status, output.as_str()), (Some(2), ""), "{errors}");
    assert!(errors.ends_with("memory-tool: the API returned 503: api_error: Busy\n"), "{errors}");
    api.finish();

    let api = MessagesApi::start([
        busy().with_header("retry-after", "0"),
        Answer::error(429, "a", "b").with_header("retry-after", "3600"),
    ]);
    let (status, _, errors) = converse(&place, &api, &[], &["Hi"]);
    assert_eq!(status, Some(2), "an hour exceeds the budget: {errors}");
    let expected =
        "the API asked for a 3600.0 s delay, longer than the 300 s retry budget: the API returned 429: a: b\n";
    assert!(errors.ends_with(expected), "{errors}");
    api.finish();
}

#[test]
fn a_pipe_gets_an_incomplete_answer_once() {
    for end in [End::Cut, End::Regular] {
        let cut = || done("Half a reply").until("message_delta", end);
        let Talk { status, output, errors, .. } =
            talk([done("Whole"), cut(), cut(), cut()], &["--max-retries", "2"], &["First", "Second", "Never sent"]);
        assert_eq!((status, output.as_str()), (Some(3), "Whole\nHalf a reply\n"), "{errors}");
        assert_eq!(errors.matches("; retrying in ").count(), 2, "{errors}");
        assert!(errors.lines().last().unwrap().starts_with("memory-tool: "), "{errors}");
    }
}

#[test]
fn the_last_message_without_a_complete_answer_decides_the_status() {
    let declined = || Answer::stream("refusal", &[text("I")]);
    let cut = || Answer::stream("max_tokens", &[text("It is")]);
    let wrong = || Answer::error(400, "invalid_request_error", "No");
    for (answers, expected) in [
        (vec![declined()], 1),
        (vec![declined(), done("Yes")], 1),
        (vec![cut(), declined()], 1),
        (vec![cut()], 3),
        (vec![declined(), cut(), done("Yes")], 3),
        (vec![cut(), wrong()], 2),
    ] {
        let place = Place::in_memory();
        let lines = vec!["Go on"; answers.len()];
        let api = MessagesApi::start(answers);
        let (status, _, errors) = converse(&place, &api, &[], &lines);
        assert_eq!(status, Some(expected), "{errors}");
        api.finish();
    }
}

/// The standard error of a conversation that ends with status 2 after this reply, without output.
fn error_of(answer: Answer) -> String {
    let api = MessagesApi::start([answer]);
    let (status, output, errors) = converse(&Place::in_memory(), &api, &[], &["Hi"]);
    assert_eq!((status, output.as_str()), (Some(2), ""), "{errors}");
    api.finish();
    errors
}

fn whole(status: u16, body: &str) -> Answer {
    Answer::Whole { status, headers: Vec::new(), body: body.to_owned() }
}

#[test]
fn a_permanent_error_is_reported_without_the_key() {
    let refused = Answer::error(401, "authentication_error", &format!("invalid x-api-key {KEY}"));
    let error = json!({"type": "error", "error": {"type": "invalid_request_error", "message": KEY}});
    let unordered = json!({"type": "content_block_delta", "index": 9, "delta": {"type": "text_delta", "text": "a"}});
    let unfinished = || done("").until("message_stop", End::Regular);
    let long = format!("{}{KEY}{}", "x".repeat(990), "y".repeat(1000));
    let shortened = |start: &str| format!("the API returned 403: {start}{}[API key]y…\n", "x".repeat(987));
    for (answer, words) in [
        (
            refused.with_header("request-id", "req_1"),
            "the API returned 401: authentication_error: invalid x-api-key [API key] (request req_1)\n",
        ),
        (unfinished().and(error), "the API aborted the response: invalid_request_error: [API key]\n"),
        (whole(403, "<html>\u{1b}[2J"), "403: <html>\\u{1b}[2J"),
        (whole(403, ""), "403: "),
        (whole(403, &long), &shortened("xxx")),
        (Answer::error(403, "a", &long["a: ".len()..]), &shortened("a: ")),
        (whole(200, "{}"), "invalid response from 127.0.0.1:"),
        (unfinished().and(unordered), "invalid response from 127.0.0.1:"),
    ] {
        let errors = error_of(answer);
        assert!(errors.starts_with("memory-tool: ") && errors.contains(words), "{words}\n{errors}");
        assert!(errors.lines().count() == 1 && !errors.contains("sk-ant"), "{errors}");
    }
}

#[test]
fn the_size_of_responses_is_limited() {
    let text = text(&"x".repeat(65 << 20));
    let novelty = json!({"type": "novelty", "data": "x".repeat(65 << 20)});
    for answer in [Answer::message("end_turn", &[text]), done("").until("message_stop", End::Silence).and(novelty)] {
        let errors = error_of(answer);
        assert!(errors.ends_with(": the response is longer than 64 MiB\n"), "{errors}");
    }
    let errors = error_of(whole(400, &"x".repeat(65 << 20)));
    assert_eq!(errors.len(), "memory-tool: the API returned 400: …\n".len() + 1000);
}

#[test]
fn redirects_are_not_followed() {
    let elsewhere = MessagesApi::start([]);
    let location = format!("{}/v1/messages", elsewhere.url());
    let errors = error_of(Answer::Whole { status: 307, headers: vec![("location", location)], body: String::new() });
    assert!(errors.contains("307"), "{errors}");
    elsewhere.finish();
}

#[test]
fn errors_name_missing_or_invalid_variables() {
    let place = Place::in_memory();
    for (name, value, words) in [
        ("ANTHROPIC_API_KEY", "", "no API key; set ANTHROPIC_API_KEY"),
        ("ANTHROPIC_API_KEY", "a\nb", "ANTHROPIC_API_KEY contains invalid characters"),
        ("ANTHROPIC_BASE_URL", "ftp://example.com", "ANTHROPIC_BASE_URL is not an http: or https: URL"),
        ("ANTHROPIC_BASE_URL", "example.com", "ANTHROPIC_BASE_URL is not an http: or https: URL"),
    ] {
        let mut command = command(&place, "http://127.0.0.1:1", &[]);
        command.env(name, value);
        let (status, output, errors) = Chat::spawn(command).finish();
        assert_eq!((status, output.as_str()), (Some(2), ""), "{value:?}");
        assert!(errors.starts_with("memory-tool: ") && errors.contains(words), "{errors}");
    }
    let mut command = command(&place, "http://127.0.0.1:1", &[]);
    command.env_remove("ANTHROPIC_API_KEY");
    let (status, _, errors) = Chat::spawn(command).finish();
    assert_eq!((status, errors.as_str()), (Some(2), "memory-tool: no API key; set ANTHROPIC_API_KEY\n"));
    assert!(!place.store().exists(), "no store is created");
}

#[test]
fn an_unreachable_host_is_named() {
    let place = Place::in_memory();
    let mut chat = Chat::spawn(command(&place, "http://user:password@127.0.0.1:1/", &["--max-retries", "1"]));
    chat.say("Hi");
    let (status, output, errors) = chat.finish();
    assert_eq!((status, output.as_str()), (Some(2), ""));
    let lines: Vec<_> = errors.lines().collect();
    assert_eq!(lines.len(), 2, "{errors}");
    assert!(lines[0].starts_with("[chat] cannot reach 127.0.0.1:1: ") && lines[0].contains("; retrying in "));
    assert!(lines[1].starts_with("memory-tool: cannot reach 127.0.0.1:1: "), "{errors}");
    assert!(!errors.contains("password"), "{errors}");
}

#[test]
fn ctrl_c_drops_the_message_and_ends_the_program_at_the_prompt() {
    let place = Place::in_memory();
    let calls = [text("Beginning\n"), create("toolu_2", "/memories/b", "two\n")];
    let api = MessagesApi::start([
        Answer::stream("tool_use", &[create("toolu_1", "/memories/a", "one\n")]),
        Answer::stream("tool_use", &calls).until("message_stop", End::Silence),
        done("Again\n").until("message_delta", End::Silence),
        done("Fine"),
    ]);
    let mut chat = Chat::start(&place, &api, &[]);
    chat.say("First");
    api.wait_for(2);
    chat.signal("-INT");
    chat.errors.wait_for("[chat] interrupted; unanswered messages were dropped\n");
    chat.say("Second");
    api.wait_for(3);
    chat.signal("-INT");
    chat.say("Third");
    chat.output.wait_for("Fine");
    chat.errors.wait(|said, _| said.matches("interrupted").count() == 2);
    // Between two messages, Ctrl-C ends the program.
    chat.say("/usage");
    chat.output.wait_for("requests:");
    chat.signal("-INT");
    let (status, output, errors) = chat.end();
    assert_eq!(status, Some(130), "{errors}");
    assert!(output.starts_with("Fine\n4 requests: "), "{output}");
    assert!(place.file("a").exists() && !place.file("b").exists());
    let requests = api.finish();
    // Executed commands and their results are kept, and unanswered messages are dropped.
    let last = requests[3].messages();
    assert_eq!(last[..2].len(), 2);
    assert_eq!(last[1]["content"], json!([create("toolu_1", "/memories/a", "one\n")]));
    let end = unmarked_last(&requests[3]);
    assert_eq!((end.len(), &end[0]["tool_use_id"], &end[1]), (2, &json!("toolu_1"), &text("Third")));
}

#[test]
fn sigterm_ends_the_program_during_a_response() {
    let place = Place::in_memory();
    let api = MessagesApi::start([done("One\n").until("message_delta", End::Silence)]);
    let mut chat = Chat::start(&place, &api, &[]);
    chat.say("First");
    api.wait_for(1);
    chat.signal("-TERM");
    assert_eq!(chat.end().0, Some(143));
    api.finish();
}

#[test]
fn signals_end_the_program_with_a_blocked_output() {
    for (signal, expected) in [("-TERM", 143), ("-INT", 130)] {
        let place = Place::in_memory();
        let api = MessagesApi::start([done(&"x".repeat(1 << 20))]); // exceeds the capacity of a pipe
        let mut process = command(&place, api.url(), &[]).spawn().unwrap();
        let mut output = process.stdout.take().unwrap();
        let mut chat = Chat {
            input: process.stdin.take(),
            output: Transcript::of(std::io::empty()),
            errors: Transcript::of(process.stderr.take().unwrap()),
            process,
        };
        chat.say("First");
        output.read_exact(&mut [0]).unwrap();
        chat.signal(signal);
        chat.errors.wait_for("[chat] interrupted; unanswered messages were dropped\n");
        if signal == "-INT" {
            chat.signal(signal);
        }
        assert_eq!(chat.end().0, Some(expected));
        api.finish();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_lets_the_running_command_finish_and_skips_others() {
    let place = Place::in_memory();
    let calls = [text("Noting"), create("toolu_1", "/memories/a", "one\n"), create("toolu_2", "/memories/b", "two\n")];
    let api = MessagesApi::start([done("Ready\n"), Answer::stream("tool_use", &calls), done("Fine")]);
    let mut chat = Chat::start(&place, &api, &[]);
    chat.say("/memory");
    chat.say("First");
    chat.output.wait_for("Ready");
    let lock = File::options().write(true).open(place.store().join(".memory-tool/lock")).unwrap();
    lock.lock().unwrap();
    chat.say("Second");
    wait_until_it_waits_for_the_lock(&place);
    chat.signal("-INT");
    chat.errors.wait_for("[chat] interrupted; waiting for the running memory command\n");
    chat.signal("-INT");
    chat.errors.wait(|said, _| said.matches("waiting for").count() == 2);
    drop(lock);
    chat.errors.wait_for("[memory] create /memories/a (1 line, 4 bytes)\n");
    chat.say("Third");
    let (status, output, errors) = chat.finish();
    assert_eq!(status, Some(0), "{errors}");
    assert!(output.ends_with("Ready\nNoting\nFine\n"), "{output}");
    assert!(place.file("a").exists() && !place.file("b").exists());
    let requests = api.finish();
    let results = unmarked_last(&requests[2]);
    assert_eq!(requests[2].messages()[3]["content"], json!(calls));
    assert_eq!(results[0]["content"], "File created successfully at: /memories/a");
    assert_eq!(results[1]["content"], "Not executed: the user interrupted.");
    assert_eq!((&results[1]["is_error"], &results[2]), (&json!(true), &text("Third")));
}

#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_stops_the_memory_command() {
    let place = Place::in_memory();
    let api = MessagesApi::start([]);
    for (signal, expected) in [("-INT", 0), ("-TERM", 143)] {
        let mut chat = Chat::start(&place, &api, &[]);
        chat.say("/memory");
        chat.output.wait_for("\t/memories\n");
        let lock = File::options().write(true).open(place.store().join(".memory-tool/lock")).unwrap();
        lock.lock().unwrap();
        chat.say("/memory");
        wait_until_it_waits_for_the_lock(&place);
        chat.signal(signal);
        chat.errors.wait_for("[chat] interrupted\n");
        if signal == "-INT" {
            chat.say("/usage");
            chat.output.wait_for("0 requests");
            chat.input = None;
        }
        let (status, _, errors) = chat.end();
        assert_eq!((status, errors.as_str()), (Some(expected), "[chat] interrupted\n"));
        drop(lock);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_works_between_two_commands() {
    // The first line exceeds the capacity of a pipe, so the program waits until its errors are read.
    let first = view("toolu_0", &format!("/memories/{}", "x".repeat(1 << 17)));
    let others = (1..300).map(|number| create(&format!("toolu_{number}"), &format!("/memories/{number}"), ""));
    let calls: Vec<_> = std::iter::once(first).chain(others).collect();
    let api = MessagesApi::start([Answer::stream("tool_use", &calls), done("Fine")]);
    let mut process = command_for("in-process:".as_ref(), api.url(), &[]).spawn().unwrap();
    let mut errors = process.stderr.take().unwrap();
    writeln!(process.stdin.as_mut().unwrap(), "First").unwrap();
    errors.read_exact(&mut [0]).unwrap();
    let mut chat = Chat {
        input: process.stdin.take(),
        output: Transcript::of(process.stdout.take().unwrap()),
        errors: Transcript::default(),
        process,
    };
    chat.signal("-INT");
    wait_until_it_sleeps(&chat); // so it has received the signal
    chat.errors = Transcript::of(errors);
    chat.errors.wait_for("[chat] interrupted; skipping the remaining memory commands\n");
    chat.say("Second");
    assert_eq!(chat.finish().0, Some(0));
    let results = unmarked_last(&api.finish()[1]);
    assert_eq!(results[299]["content"], "Not executed: the user interrupted.");
}

/// Waits until all threads of the program sleep. A thread that was woken does not count as asleep.
#[cfg(target_os = "linux")]
fn wait_until_it_sleeps(chat: &Chat) {
    let threads = format!("/proc/{}/task", chat.process.id());
    let is_asleep = |stat: String| stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('S'));
    let mut looks = 0;
    while looks < 20 {
        let mut stats =
            fs::read_dir(&threads).unwrap().map(|thread| fs::read_to_string(thread.unwrap().path().join("stat")));
        looks = if stats.all(|stat| stat.is_ok_and(is_asleep)) { looks + 1 } else { 0 };
        thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until a command waits for the lock. It then holds the turnstile.
#[cfg(target_os = "linux")]
fn wait_until_it_waits_for_the_lock(place: &Place) {
    let turnstile = File::open(place.store().join(".memory-tool/turnstile")).unwrap();
    let start = Instant::now();
    while turnstile.try_lock_shared().is_ok() {
        turnstile.unlock().unwrap();
        assert!(start.elapsed() < PATIENCE, "no command begins");
        thread::sleep(Duration::from_millis(1));
    }
}

/// The editor enables bracketed paste at each prompt.
#[cfg(unix)]
const PROMPT: &str = "\u{1b}[?2004h";
#[cfg(unix)]
const CTRL_C: &str = "\u{3}";
#[cfg(unix)]
const CTRL_D: &str = "\u{4}";
#[cfg(unix)]
const UP: &str = "\u{1b}[A";

#[cfg(unix)]
impl Chat {
    /// Starts the program on a terminal. The transcript of the output contains everything on it.
    fn on_a_terminal(place: &Place, api: &MessagesApi, options: &[&str]) -> Self {
        let chat = Self::spawn(on_a_terminal(&command(place, api.url(), options)));
        chat.output.wait_for(PROMPT);
        chat
    }

    fn press(&mut self, keys: &str) {
        self.input.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for the text after the last occurrence of another.
    fn wait_for_after(&self, before: &str, text: &str) {
        self.output.wait(|said, ended| ended || said.rsplit_once(before).is_some_and(|(_, rest)| rest.contains(text)));
    }

    /// Waits for a prompt after the last occurrence of the text, and presses the keys.
    fn press_after(&mut self, before: &str, keys: &str) {
        self.wait_for_after(before, PROMPT);
        self.press(keys);
    }
}

#[cfg(unix)]
#[test]
fn ctrl_c_clears_a_line_and_ends_the_program_on_an_empty_one() {
    let place = Place::in_memory();
    let api = MessagesApi::start([
        done("Beginning").until("message_delta", End::Silence),
        done("").until("content_block_start", End::Silence),
        done("Fine"),
    ]);
    let mut chat = Chat::on_a_terminal(&place, &api, &[]);
    chat.press("First\r");
    // A terminal shows the start before the end.
    chat.output.wait_for("Beginning");
    chat.press(CTRL_C);
    chat.output.wait_for("[chat] interrupted; unanswered messages were dropped");
    chat.press_after("interrupted", "half a line");
    chat.wait_for_after("interrupted", "half a line");
    chat.press(CTRL_C);
    chat.press("half a message\\\r");
    chat.press_after("half a message", CTRL_C);
    chat.wait_for_after("… ", "> ");
    chat.press("/usage\r");
    chat.output.wait_for("1 request: ");
    chat.press_after("1 request", "Second\r");
    // Claude sends nothing.
    chat.output.wait_for("\rthinking… 1 s");
    chat.output.wait_for("thinking… 2 s");
    chat.press(CTRL_C);
    chat.wait_for_after("thinking… ", &format!("\r{}\r", " ".repeat("thinking… 2 s".chars().count())));
    chat.wait_for_after("thinking… ", "[chat] interrupted");
    chat.press_after("interrupted", "Third\r");
    chat.output.wait_for("Fine");
    chat.press_after("Fine", CTRL_C);
    let (status, output, _) = chat.end();
    assert_eq!(status, Some(130), "{output}");
    let requests = api.finish();
    assert_eq!(unmarked_last(&requests[2]), [text("Third")]);
}

#[cfg(unix)]
#[test]
fn lines_are_edited_and_recalled() {
    let place = Place::in_memory();
    let api = MessagesApi::start((1..=4).map(|number| done(&format!("Answer {number}"))));
    let mut chat = Chat::on_a_terminal(&place, &api, &[]);
    chat.press("ct\u{1b}[Da\r");
    chat.press_after("Answer 1", &format!("{UP}s\r"));
    chat.press_after("Answer 2", "one\\\rtwo\r");
    chat.press_after("Answer 3", "\u{1b}[200~if a \\\n  b\u{1b}[201~\r");
    chat.press_after("Answer 4", CTRL_D);
    let (status, output, _) = chat.end();
    assert_eq!(status, Some(0), "{output}");
    let requests = api.finish();
    let messages: Vec<_> = requests.iter().map(|request| request.last()[0]["text"].as_str().unwrap()).collect();
    assert_eq!(messages, ["cat", "cats", "one\ntwo", "if a \\\n  b"]);
}

#[cfg(unix)]
#[test]
fn input_during_an_answer_is_kept() {
    let place = Place::in_memory();
    let slow = Answer::error(529, "overloaded_error", "Overloaded").with_header("retry-after", "1");
    let api = MessagesApi::start([slow, done("One"), done("Two"), done("Three")]);
    let mut chat = Chat::on_a_terminal(&place, &api, &[]);
    chat.press("First\r");
    chat.output.wait_for("retrying");
    chat.press("Second\rThird\r");
    chat.output.wait_for("Three");
    chat.press_after("Three", "/quit\r");
    assert_eq!(chat.end().0, Some(0));
    assert_eq!(api.finish()[3].last()[0]["text"], "Third");
}

#[cfg(unix)]
#[test]
fn a_terminal_shows_changes_and_thinking() {
    let place = Place::in_memory();
    let replace = json!({
        "command": "str_replace", "path": "/memories/a",
        "old_str": "tea\nwith milk", "new_str": "tea\nno\u{1b}[2J milk",
    });
    let insert = json!({"command": "insert", "path": "/memories/a", "insert_line": 2, "insert_text": "no sugar\n"});
    let missing = json!({"command": "str_replace", "path": "/memories/a", "old_str": "coffee", "new_str": "cocoa"});
    let content = [
        json!({"type": "thinking", "thinking": "Hm.", "signature": "s"}),
        text("Noting."),
        create("toolu_1", "/memories/a", "tea\nwith milk\n"),
        call("toolu_2", replace),
        call("toolu_3", insert),
        call("toolu_4", missing),
    ];
    let refused = Answer::stream("refusal", &[]);
    let api = MessagesApi::start([Answer::stream("tool_use", &content), done("Noted."), refused]);
    let mut chat = Chat::on_a_terminal(&place, &api, &["--show-thinking"]);
    chat.press("No milk\r");
    chat.press_after("Noted.", "More\r");
    chat.press_after("declined", "/quit\r");
    let (status, output, _) = chat.end();
    let shown = "\u{1b}[2m[thinking] Hm.\u{1b}[22m\n\
                 Noting.\n\
                 [memory] create /memories/a (2 lines, 14 bytes)\n\
                 [memory] str_replace /memories/a\n  - with milk\n  + no\\u{1b}[2J milk\n\
                 [memory] insert /memories/a after line 2\n  + no sugar\n\
                 [memory] str_replace /memories/a: error: No replacement was performed";
    assert!(output.replace('\r', "").contains(shown), "{output}");
    assert!(!output.contains("cocoa"), "{output}");
    assert_eq!(status, Some(0), "declining is only reported");
    api.finish();
}

#[cfg(unix)]
#[test]
fn a_signal_during_a_line_restores_the_terminal() {
    const AFTERWARDS: &str = r#"sh -c 'echo "pid $$."; exec "$@"' - "$@"; echo "[status $?]"; stty -a"#;
    let place = Place::in_memory();
    let api = MessagesApi::start([]);
    for (signal, expected) in [("-TERM", "[status 143]"), ("-INT", "[status 130]")] {
        let inner = command(&place, api.url(), &[]);
        let mut outer = Command::new("sh");
        outer.args(["-c", AFTERWARDS, "-"]).arg(inner.get_program()).args(inner.get_args());
        outer.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let mut chat = Chat::spawn(on_a_terminal(&outer));
        chat.output.wait_for(PROMPT);
        chat.press("half a line");
        chat.output.wait_for("half a line");
        let said = chat.output.wait(|said, _| said.contains("pid "));
        let process = said.split_once("pid ").and_then(|(_, rest)| rest.split_once('.')).unwrap().0.to_owned();
        // rustyline ignores a SIGINT between its last write and its next read, so the signal is repeated.
        let start = Instant::now();
        while Command::new("kill").args([signal, &process]).stderr(Stdio::null()).status().unwrap().success() {
            assert!(start.elapsed() < PATIENCE, "the program ignores {signal}");
            thread::sleep(Duration::from_millis(100));
        }
        let (_, output, _) = chat.end();
        let (_, afterwards) = output.split_once(expected).expect(&output);
        assert!(afterwards.contains(" icanon") && afterwards.contains(" echo "), "{output}");
        assert!(output.contains("\u{1b}[?2004l"), "{output}");
    }
}

#[test]
fn chat_commands_are_not_sent_to_claude() {
    let lines =
        ["/usage", "/memory", "", "First", "/memory", "/usage", "/clear", "/nonsense here", "Second", "/quit", "Third"];
    let Talk { status, output, errors, requests, .. } = talk(
        [Answer::stream("tool_use", &[create("toolu_1", "/memories/a", "one\n")]), done("One"), done("Two")],
        &[],
        &lines,
    );
    assert_eq!(status, Some(0), "{errors}");
    let listing =
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:";
    let expected = format!(
        "0 requests: 0 input tokens, 0 read from the cache, 0 written to the cache, 0 output tokens\n\
         {listing}\n0B\t/memories\n\
         One\n\
         {listing}\n4B\t/memories\n4B\t/memories/a\n\
         2 requests: 20 input tokens, 40 read from the cache, 60 written to the cache, 14 output tokens\n\
         Two\n"
    );
    assert_eq!(output, expected);
    assert_eq!(
        errors,
        "[memory] create /memories/a (1 line, 4 bytes)\n\
         [chat] conversation cleared; the memory is unchanged\n\
         [chat] unknown command /nonsense here; /help lists the commands\n"
    );
    assert_eq!(requests[2].messages().len(), 1);
    assert_eq!(unmarked_last(&requests[2]), [text("Second")]);
}

#[test]
fn the_memory_command_prints_files_and_directories() {
    let files = [
        create("toolu_1", "/memories/a b/one.txt", "tea\n\u{1b}[2Jno milk"),
        create("toolu_2", "/memories/two.txt", ""),
    ];
    let lines =
        ["Note it", "/memory /memories/a b/one.txt", "/memory /memories/a b/", "/memory /memories/none", "/memory one"];
    let Talk { status, output, errors, .. } = talk([Answer::stream("tool_use", &files), done("Noted")], &[], &lines);
    assert_eq!(
        (status, output.as_str()),
        (
            Some(0),
            "Noted\n\
             Here's the content of /memories/a b/one.txt with line numbers:\n     1\ttea\n     2\t\\u{1b}[2Jno milk\n\
             Here're the files and directories up to 2 levels deep in /memories/a b, excluding hidden items and \
             node_modules:\n15B\t/memories/a b\n15B\t/memories/a b/one.txt\n"
        )
    );
    let expected = "[memory] view /memories/none: error: The path /memories/none does not exist. \
                    Please provide a valid path.\n\
                [memory] view one: error: Path must start with /memories, got: one\n\
                [memory] did you mean /memories/one?\n";
    assert!(errors.ends_with(expected), "{errors}");
}

#[test]
fn help_lists_all_chat_commands() {
    let Talk { status, output, errors, .. } = talk([], &[], &["/help", "/x\u{1b}[2J"]);
    assert_eq!((status, errors.as_str()), (Some(0), "[chat] unknown command /x\\u{1b}[2J; /help lists the commands\n"));
    for word in ["/memory PATH", "/clear", "/usage", "/help", "/quit", "Ctrl-C", "backslash"] {
        assert!(output.contains(word), "{word} is not in {output}");
    }
    let help = program().args(["chat", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    for word in ["/memory PATH", "Ctrl-C:", "  1    Claude declined", "  3    an answer is cut off", "--show-thinking"]
    {
        assert!(help.contains(word), "{word} is not in {help}");
    }
}

#[test]
fn thinking_is_printed_on_request() {
    let content = [json!({"type": "thinking", "thinking": "Green\u{1b}?\nBlack.", "signature": "s"}), text("Tea.")];
    for (options, shown) in [
        (&["--show-thinking"][..], "[thinking] Green\\u{1b}?\nBlack.\n"),
        (&["--show-thinking", "--no-stream"][..], "[thinking] Green\\u{1b}?\nBlack.\n"),
        (&[][..], ""),
    ] {
        let answer = if options.contains(&"--no-stream") { Answer::message } else { Answer::stream };
        let Talk { status, output, errors, requests, .. } =
            talk([answer("end_turn", &content), done("Yes.")], options, &["What?", "Sure?"]);
        assert_eq!((status, output.as_str(), errors.as_str()), (Some(0), "Tea.\nYes.\n", shown));
        let asked = json!({"type": "adaptive", "display": "summarized"});
        assert_eq!(requests[0].body.get("thinking"), options.contains(&"--show-thinking").then_some(&asked));
        assert_eq!(requests[1].messages()[1]["content"], json!(content), "thinking is sent back without changes");
    }
}

#[test]
fn a_storage_failure_is_reported_to_claude_and_the_operator() {
    let place = Place::in_memory();
    let (opened, _, _) = converse(&place, &MessagesApi::start([]), &[], &["/memory"]);
    assert_eq!(opened, Some(0));
    place.break_storage();
    let api = MessagesApi::start([Answer::stream("tool_use", &[view("toolu_1", "/memories")]), done("Oh.")]);
    let (status, output, errors) = converse(&place, &api, &[], &["First", "/memory"]);
    assert_eq!((status, output.as_str()), (Some(0), "Oh.\n"), "{errors}");
    assert_eq!(errors.matches("memory-tool: ").count(), 2, "the causes are for the operator: {errors}");
    assert_eq!(errors.matches("[memory] view /memories: error: ").count(), 2, "{errors}");
    let requests = api.finish();
    let result = &requests[1].last()[0];
    assert_eq!(result["is_error"], true);
    assert!(!result.to_string().contains("lock"), "{result}");
}

#[test]
fn calls_of_a_truncated_response_are_not_executed() {
    for reason in ["max_tokens", "model_context_window_exceeded", "novelty"] {
        let mut calls = [create("toolu_1", "/memories/a", "one\n"), create("toolu_2", "/memories/b", "two\n")];
        let Talk { place, status, output, errors, requests, .. } =
            talk([Answer::stream(reason, &calls).without_last_delta(), done("Fine")], &[], &["First", "Second"]);
        assert_eq!((status, output.as_str()), (Some(3), "Fine\n"), "{errors}");
        let words = match reason {
            "max_tokens" => "--max-tokens",
            "model_context_window_exceeded" => "/clear",
            other => other,
        };
        assert!(errors.starts_with("[chat] ") && errors.contains(words) && errors.lines().count() == 1, "{errors}");
        assert!(!place.file("a").exists() && !place.file("b").exists());
        calls[1]["input"] = json!({});
        assert_eq!(requests[1].messages()[1]["content"], json!(calls));
        let results = unmarked_last(&requests[1]);
        assert_eq!((results.len(), &results[0]["is_error"], &results[2]), (3, &json!(true), &text("Second")));
    }
}

#[test]
fn all_messages_of_a_declined_turn_are_dropped() {
    let refusal = json!({
        "type": "message", "content": [text("I")], "stop_reason": "refusal", "usage": {},
        "stop_details": {"type": "refusal", "category": null, "explanation": "No weapons."},
    });
    let Talk { place, status, errors, requests, .. } = talk(
        [
            done("One"),
            Answer::stream("tool_use", &[create("toolu_1", "/memories/a", "one\n")]),
            Answer::Whole { status: 200, headers: Vec::new(), body: refusal.to_string() },
            done("Three"),
        ],
        &[],
        &["First", "Second", "Third"],
    );
    assert_eq!(status, Some(1));
    assert!(errors.contains("[chat] Claude declined to answer (No weapons.); your message was dropped"), "{errors}");
    assert!(place.file("a").exists(), "the memory is kept");
    assert_eq!(requests[3].messages().len(), 3);
    assert_eq!(unmarked_last(&requests[3]), [text("Third")]);
}

#[test]
fn a_paused_response_is_continued() {
    for reason in ["pause_turn", "compaction"] {
        let content = [json!({"type": "compaction", "content": "Summary"}), text("One ")];
        let Talk { status, output, errors, requests, .. } =
            talk([Answer::stream(reason, &content), done("two"), done("Three")], &[], &["First", "Second"]);
        assert_eq!((status, output.as_str(), errors.as_str()), (Some(0), "One \ntwo\nThree\n", ""));
        assert_eq!(requests[1].messages()[1], json!({"role": "assistant", "content": content}));
        assert_eq!(requests[2].messages()[1]["content"], json!([content[0], content[1], text("two")]));
    }
}

#[test]
fn the_number_of_responses_in_a_turn_is_limited() {
    let views = (0..100).map(|round| Answer::stream("tool_use", &[view(&format!("toolu_{round}"), "/memories")]));
    let pauses = (0..3).map(|round| Answer::stream("pause_turn", &[text(&format!("{round} "))]));
    let three: &[&str] = &["--max-responses", "3"];
    for (endless, options, results) in [(views.collect::<Vec<_>>(), &[][..], 1), (pauses.collect(), three, 0)] {
        let responses = endless.len();
        let Talk { status, output, errors, requests, .. } =
            talk(endless.into_iter().chain([done("Fine")]), options, &["First", "Second"]);
        assert_eq!(status, Some(3), "{errors}");
        assert!(output.ends_with("Fine\n"), "{output}");
        let expected =
            format!("[chat] stopped after {responses} responses (--max-responses); send a message to continue\n");
        assert!(errors.ends_with(&expected) && errors.matches("[chat]").count() == 1, "{errors}");
        let last = unmarked_last(&requests[responses]);
        assert_eq!((last.len(), &last[results]), (results + 1, &text("Second")));
    }
}

#[test]
fn options_change_the_request() {
    let place = Place::in_memory();
    let request = |options: &[&str], model: Option<&str>| {
        let api = MessagesApi::start([done("Hi")]);
        let mut command = command(&place, &format!("{}/", api.url()), options);
        command.envs(model.map(|model| ("ANTHROPIC_MODEL", model)));
        let mut chat = Chat::spawn(command);
        chat.say("Hi");
        assert_eq!(chat.finish().0, Some(0));
        api.finish().remove(0)
    };
    let options = ["--system", "Be brief.", "--max-tokens", "99", "--compact", "--model", "claude-a"];
    let all = request(&options, Some("claude-b"));
    assert_eq!((&all.body["model"], &all.body["max_tokens"]), (&json!("claude-a"), &json!(99)));
    let system = json!([{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]);
    assert_eq!(all.body["system"], system);
    let edits = json!([{"type": "clear_tool_uses_20250919"}, {"type": "compact_20260112"}]);
    assert_eq!(all.body["context_management"]["edits"], edits);
    assert_eq!(all.header("anthropic-beta"), Some("context-management-2025-06-27,compact-2026-01-12"));
    let bare = request(&["--no-context-editing"], Some("claude-b"));
    assert_eq!(bare.body["model"], "claude-b");
    assert_eq!((bare.body.get("context_management"), bare.header("anthropic-beta")), (None, None));
    assert_eq!(request(&[], Some("")).body["model"], "claude-opus-5-5");
}

#[test]
fn policies_apply_to_claude() {
    let place = Place::in_memory();
    fs::create_dir_all(place.file("")).unwrap(); // --read-only does not create a store
    let api = MessagesApi::start([
        Answer::stream("tool_use", &[create("toolu_1", "/memories/a", "one\n")]),
        done("Read-only."),
    ]);
    let (status, _, errors) = converse(&place, &api, &["--read-only"], &["Hi"]);
    assert_eq!(status, Some(0));
    assert!(errors.contains("read-only"), "{errors}");
    assert_eq!(api.finish()[1].last()[0]["is_error"], true);
}

#[test]
fn a_line_that_cannot_be_sent_is_reported() {
    let place = Place::in_memory();
    let api = MessagesApi::start([done("Hi")]);
    let mut chat = Chat::start(&place, &api, &[]);
    chat.input.as_mut().unwrap().write_all(b"\xff\n").unwrap();
    chat.say("Hi");
    let (status, output, errors) = chat.finish();
    assert_eq!((status, output.as_str()), (Some(0), "Hi\n"));
    assert_eq!(errors, "[chat] not sent: the line is not UTF-8 text\n");
    api.finish();
}

#[test]
fn a_closed_output_ends_the_program_without_an_error() {
    let place = Place::in_memory();
    let api = MessagesApi::start([Answer::stream("tool_use", &[text("One"), create("toolu_1", "/memories/a", "")])]);
    let mut process = command(&place, api.url(), &[]).spawn().unwrap();
    drop(process.stdout.take());
    writeln!(process.stdin.as_mut().unwrap(), "Hi").unwrap();
    let status = wait_for_end(&mut process);
    let mut errors = String::new();
    process.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert!(status.success() && errors.starts_with("memory-tool: created the "), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    api.finish();
}
