//! `memory-tool chat`: a conversation with Claude, which keeps what it remembers in the store.

mod api;
mod body;
mod change;
mod conversation;
mod editor;
pub(crate) mod help;
mod input;
mod response;
mod retries;
mod screen;
mod session;
mod usage;

use std::io::ErrorKind;

use memory_tool::{MemoryTool as _, OpenMode, ToolRunner};
use serde_json::json;

use crate::arguments::ChatArguments;
use crate::chat::api::{Api, shortened, variable};
use crate::chat::conversation::{Conversation, Settings};
use crate::chat::editor::Editor;
use crate::chat::help::COMMANDS_AND_KEYS;
use crate::chat::input::{Input, Lines, Typed};
use crate::chat::screen::{Screen, Typing};
use crate::chat::session::{Session, TurnEnd, error_in_words};
use crate::chat::usage::Usage;
use crate::failure::{self, Failure};
use crate::interruption::{CTRL_C, Interruption};
use crate::output::count;
use crate::run::{open_tool, start_runtime};

/// The model, unless another is named.
const DEFAULT_MODEL: &str = "claude-opus-5-5";

/// How a conversation ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ended {
    /// The user ended it, or nobody reads the output any more.
    Done,
    /// Claude declined to answer the last message that has no answer.
    Declined,
    /// The answer of the last message that has no whole one is cut off.
    Cut,
    /// A signal came.
    Interrupted {
        /// What the program ends with, as a shell does.
        status: u8,
    },
}

/// Converses until the input ends, the user quits, or a signal comes between two turns.
pub(crate) fn run(arguments: &ChatArguments) -> Result<Ended, Failure> {
    let screen = Screen::of_this_process();
    let mut lines = match screen.typing() {
        Typing::Editor => Lines::Edited(Editor::start()),
        Typing::Plain | Typing::Nobody => Lines::read(),
    };
    let runtime = start_runtime()?;
    let ended = runtime.block_on(async {
        let mut interruption = Interruption::listen().map_err(Failure::Start)?;
        let mut session = tokio::select! {
            biased;
            status = interruption.status() => return Ok(Ended::Interrupted { status }),
            session = begin(arguments, screen) => session?,
        };
        converse(&mut session, &mut lines, &mut interruption).await
    });
    // An output that nobody takes any more must not keep us from ending.
    runtime.shutdown_background();
    match ended {
        Err(Failure::Output(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(Ended::Done),
        Err(Failure::Chat(error)) if error.is_cut() => {
            failure::eprint_error(&error);
            Ok(Ended::Cut)
        }
        ended => ended,
    }
}

async fn begin(arguments: &ChatArguments, screen: Screen) -> Result<Session, Failure> {
    let settings = settings(arguments);
    let api = Api::from_environment(&settings).map_err(Failure::Chat)?;
    let tool = open_tool(OpenMode::Create, &arguments.memory, arguments.overwrites, arguments.cap).await?;
    Ok(Session {
        api,
        settings,
        max_retries: arguments.max_retries,
        max_responses: arguments.max_responses,
        conversation: Conversation::default(),
        runner: ToolRunner::new(tool),
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

async fn converse(session: &mut Session, lines: &mut Lines, interruption: &mut Interruption) -> Result<Ended, Failure> {
    // A person sees what became of each message.
    let is_counted = !session.screen.has_prompt();
    let mut ended = Ended::Done;
    loop {
        session.screen.prompt().await?;
        let typed = tokio::select! {
            biased;
            status = interruption.status() => {
                session.screen.leave_prompt();
                return Ok(Ended::Interrupted { status });
            }
            typed = lines.next() => typed?,
        };
        match typed {
            Typed::Input(Input::Quit) => return Ok(ended),
            Typed::Interrupted => return Ok(Ended::Interrupted { status: CTRL_C }),
            Typed::End => {
                if session.screen.typing() == Typing::Plain {
                    session.screen.leave_prompt();
                }
                return Ok(ended);
            }
            Typed::Input(Input::Message(text)) => match take_turn(session, &text, interruption).await? {
                TurnEnd::Interrupted { status } if status != CTRL_C => return Ok(Ended::Interrupted { status }),
                TurnEnd::Declined if is_counted => ended = Ended::Declined,
                TurnEnd::Cut if is_counted => ended = Ended::Cut,
                TurnEnd::Interrupted { .. } | TurnEnd::Declined | TurnEnd::Cut | TurnEnd::Done => {}
            },
            Typed::Input(input) => {
                // All else is over at once: who interrupts it means the program.
                let takes_long = matches!(input, Input::Memory(_));
                tokio::select! {
                    biased;
                    status = interruption.status() => {
                        session.screen.eprint_interruption("[chat] interrupted").await?;
                        if status != CTRL_C || !takes_long {
                            return Ok(Ended::Interrupted { status });
                        }
                    }
                    done = run_slash_command(session, input) => done?,
                }
            }
        }
    }
}

/// A turn. Where a person types, one that fails is told, and they may try again.
async fn take_turn(session: &mut Session, text: &str, interruption: &mut Interruption) -> Result<TurnEnd, Failure> {
    match session.take_turn(text, interruption).await {
        Err(error @ Failure::Chat(_)) if session.screen.has_prompt() => {
            failure::eprint_error(&error);
            let told = "[chat] what Claude had not answered is not part of the conversation; /clear empties it where the rest is refused, too";
            session.screen.eprint_line(told).await?;
            Ok(TurnEnd::Done)
        }
        ended => ended,
    }
}

/// Does what the user asks the program for. It changes no memory: dropped, it leaves nothing half done.
async fn run_slash_command(session: &mut Session, input: Input) -> Result<(), Failure> {
    match input {
        Input::Memory(path) => show_memory(session, &path).await,
        Input::Clear => {
            session.conversation.clear();
            session.screen.eprint_line("[chat] the conversation is empty; the memory stays as it is").await
        }
        Input::Usage => {
            let requests = count(session.requests, "request");
            session.screen.lines(&format!("{requests}: {}", session.usage.in_words())).await
        }
        Input::Help => session.screen.lines(COMMANDS_AND_KEYS).await,
        Input::Unknown(command) => {
            let told = format!("[chat] unknown command {}; /help lists the commands", shortened(&command));
            session.screen.eprint_line(&told).await
        }
        Input::Unusable(why) => session.screen.eprint_line(&format!("[chat] not sent: {why}")).await,
        Input::Nothing | Input::Message(_) | Input::Quit => Ok(()),
    }
}

async fn show_memory(session: &mut Session, path: &str) -> Result<(), Failure> {
    let outcome = session.runner.tool().call(json!({"command": "view", "path": path})).await;
    match outcome {
        Ok(reply) => session.screen.lines(&reply.to_string()).await,
        Err(error) => {
            failure::eprint_causes(&error);
            session.screen.eprint_line(&format!("[memory] view {path}: {}", error_in_words(&error.to_string()))).await
        }
    }
}
