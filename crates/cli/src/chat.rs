//! `memory-tool chat`: a conversation with Claude, which keeps its memory in the store.

mod api;
mod body;
mod change;
mod conversation;
mod editor;
pub(crate) mod error;
mod input;
mod response;
mod retries;
mod screen;
mod session;
mod usage;

use std::io::ErrorKind;

use memory_tool::MemoryTool as _;
use serde_json::json;

use crate::arguments::{ChatArguments, pages};
use crate::chat::api::{Api, quoted, variable};
use crate::chat::conversation::{Conversation, Settings};
use crate::chat::editor::Editor;
use crate::chat::input::{Input, InputEvent, Lines};
use crate::chat::screen::{InputMode, Screen};
use crate::chat::session::{Session, TurnEnd, format_error};
use crate::chat::usage::Usage;
use crate::commands::intended;
use crate::exit_status::ExitStatus;
use crate::failure::{self, Context as _, Failure, with_causes};
use crate::history;
use crate::interruption::{CTRL_C, Interruption};
use crate::output::count;
use crate::run::{open_or_create, start_runtime};

const DEFAULT_MODEL: &str = "claude-opus-5-5";

/// Runs the conversation until the input ends, the user quits, or a signal arrives between two turns.
pub(crate) fn run(arguments: &ChatArguments) -> Result<ExitStatus, Failure> {
    let screen = Screen::of_this_process();
    let mut lines = match screen.input_mode() {
        InputMode::Editor => Lines::FromEditor(Editor::start()),
        InputMode::Plain | InputMode::Piped => Lines::read(),
    };
    let runtime = start_runtime()?;
    let ended = runtime.block_on(async {
        let mut interruption = Interruption::listen().context("cannot start")?;
        let mut session = match interruption.or(begin(arguments, screen)).await {
            Ok(session) => session?,
            Err(status) => return Ok(ExitStatus::Interrupted { status }),
        };
        converse(&mut session, &mut lines, &mut interruption).await
    });
    // A write to a blocked output must not delay the end.
    runtime.shutdown_background();
    match ended {
        Err(Failure::Output(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitStatus::Success),
        Err(Failure::Chat(error)) if error.is_truncated() => {
            failure::eprint_error(&error);
            Ok(ExitStatus::CutOff)
        }
        ended => ended,
    }
}

async fn begin(arguments: &ChatArguments, screen: Screen) -> Result<Session, Failure> {
    let settings = settings(arguments);
    let api = Api::from_environment(&settings)?;
    let memory = open_or_create(&arguments.serving).await?;
    Ok(Session {
        api,
        settings,
        max_retries: arguments.max_retries,
        max_responses: arguments.max_responses,
        conversation: Conversation::default(),
        runner: memory.runner(),
        history: memory.history(),
        screen,
        requests: 0,
        usage: Usage::default(),
    })
}

fn settings(arguments: &ChatArguments) -> Settings {
    let model = arguments.model.clone().or_else(|| variable("ANTHROPIC_MODEL"));
    Settings {
        model: model.unwrap_or_else(|| DEFAULT_MODEL.to_owned()),
        max_tokens: arguments.max_tokens.get(),
        system: arguments.system.clone(),
        stream: !arguments.no_stream,
        edits_context: !arguments.no_context_editing,
        compacts: arguments.compact,
        shows_thinking: arguments.show_thinking,
    }
}

async fn converse(
    session: &mut Session,
    lines: &mut Lines,
    interruption: &mut Interruption,
) -> Result<ExitStatus, Failure> {
    // Interactive users see the result of each message, so it does not determine the status.
    let is_counted = !session.screen.has_prompt();
    let mut ended = ExitStatus::Success;
    loop {
        session.screen.prompt().await?;
        let typed = tokio::select! {
            biased;
            status = interruption.status() => {
                session.screen.leave_prompt();
                return Ok(ExitStatus::Interrupted { status });
            }
            typed = lines.next() => typed?,
        };
        match typed {
            InputEvent::Input(Input::Quit) => return Ok(ended),
            InputEvent::Interrupted => return Ok(ExitStatus::Interrupted { status: CTRL_C }),
            InputEvent::End => {
                if session.screen.input_mode() == InputMode::Plain {
                    session.screen.leave_prompt();
                }
                return Ok(ended);
            }
            InputEvent::Input(Input::Message(text)) => match take_turn(session, &text, interruption).await? {
                TurnEnd::Interrupted { status } if status != CTRL_C => return Ok(ExitStatus::Interrupted { status }),
                TurnEnd::Declined if is_counted => ended = ExitStatus::Problem,
                TurnEnd::CutOff if is_counted => ended = ExitStatus::CutOff,
                TurnEnd::Interrupted { .. } | TurnEnd::Declined | TurnEnd::CutOff | TurnEnd::Done => {}
            },
            InputEvent::Input(input) => {
                // All other commands are instant, so Ctrl-C ends the program.
                let takes_long = matches!(input, Input::Memory(_) | Input::Log | Input::Undo);
                tokio::select! {
                    biased;
                    status = interruption.status() => {
                        session.screen.eprint_interruption("[chat] interrupted").await?;
                        if status != CTRL_C || !takes_long {
                            return Ok(ExitStatus::Interrupted { status });
                        }
                    }
                    done = run_slash_command(session, input) => done?,
                }
            }
        }
    }
}

/// Takes a turn. In an interactive session, an error is reported and the conversation continues.
async fn take_turn(session: &mut Session, text: &str, interruption: &mut Interruption) -> Result<TurnEnd, Failure> {
    match session.take_turn(text, interruption).await {
        Err(error @ Failure::Chat(_)) if session.screen.has_prompt() => {
            failure::eprint_error(&error);
            let note = "[chat] unanswered messages were dropped; if the API still rejects the conversation, use /clear";
            session.screen.eprint_line(note).await?;
            Ok(TurnEnd::Done)
        }
        ended => ended,
    }
}

/// Runs a command of the user. It changes no memory, so it may be dropped at any time.
async fn run_slash_command(session: &mut Session, input: Input) -> Result<(), Failure> {
    match input {
        Input::Memory(path) => view_memory(session, &path).await,
        Input::Log => print_log(session).await,
        Input::Undo => undo(session).await,
        Input::Clear => {
            session.conversation.clear();
            session.screen.eprint_line("[chat] conversation cleared; the memory is unchanged").await
        }
        Input::Usage => {
            let requests = count(session.requests, "request");
            session.screen.lines(&format!("{requests}: {}", session.usage)).await
        }
        Input::Help => session.screen.lines(&pages::chat_sections()).await,
        Input::Unknown(command) => {
            let note = format!("[chat] unknown command {}; /help lists the commands", quoted(&command));
            session.screen.eprint_line(&note).await
        }
        Input::Invalid(reason) => session.screen.eprint_line(&format!("[chat] not sent: {reason}")).await,
        Input::Nothing | Input::Message(_) | Input::Quit => Ok(()),
    }
}

async fn print_log(session: &mut Session) -> Result<(), Failure> {
    match history::newest(session.history.as_ref()).await {
        Ok(log) => session.screen.lines(&log).await,
        Err(failure) => report(session, &failure).await,
    }
}

async fn undo(session: &mut Session) -> Result<(), Failure> {
    match history::undo_last(session.history.as_ref()).await {
        Ok(undone) => session.screen.lines(&undone).await,
        Err(failure) => report(session, &failure).await,
    }
}

async fn report(session: &mut Session, failure: &Failure) -> Result<(), Failure> {
    session.screen.eprint_line(&format!("[memory] {}", with_causes(failure))).await
}

async fn view_memory(session: &mut Session, path: &str) -> Result<(), Failure> {
    let outcome = session.runner.tool().call(json!({"command": "view", "path": path})).await;
    match outcome {
        Ok(reply) => session.screen.lines(&reply.to_string()).await,
        Err(error) => {
            failure::eprint_causes(&error);
            session.screen.eprint_line(&format!("[memory] view {path}: {}", format_error(&error.to_string()))).await?;
            match intended(path) {
                Some(path) => session.screen.eprint_line(&format!("[memory] did you mean {path}?")).await,
                None => Ok(()),
            }
        }
    }
}
