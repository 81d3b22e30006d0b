//! [`CommandLine`]: tests a program in any language.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use async_trait::async_trait;
use tempfile::TempDir;

use crate::access::{Access, Factory, Opened};
use crate::case::Capability;
use crate::failure::Failure;
use crate::fixture::{FixtureError, ToolOptions};
use crate::program::Program;

const DIRECTORY: &str = "{dir}";
const OPTIONS: &str = "{options}";

/// The reason why a command line is invalid.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidCommandLine {
    /// It names no program.
    #[error("the command line names no program")]
    Empty,
    /// It does not contain `{dir}`.
    #[error("the command line lacks {DIRECTORY}, the placeholder for the directory that holds the memory of a case")]
    NoDirectory,
    /// A quote is not closed, or a backslash is the last character.
    #[error("the command line has an unclosed quote")]
    UnclosedQuote,
}

/// A command that starts a program that serves a memory over its standard input and output, as `memory-tool run` does.
///
/// The suite starts the program at least once per case, in the current directory and without a shell. Words are
/// separated by spaces, and quotes and backslashes have their usual meaning. `{dir}` is replaced by a directory that is
/// new and empty at the start. `{options}` is replaced by the options of the case: `--create-overwrites`,
/// `--max-view-chars N` or `--max-view-chars none`. Without `{options}`, cases that set options are ignored.
///
/// ```
/// use memory_tool_conformance::{CommandLine, InvalidCommandLine};
///
/// let command_line = CommandLine::parse("python3 my_driver.py '{dir}' {options}")?;
/// let suite = memory_tool_conformance::Suite::for_command(command_line.plain_files("{dir}/memories"));
/// assert!(!suite.cases().is_empty());
/// assert_eq!(CommandLine::parse("python3 my_driver.py").unwrap_err(), InvalidCommandLine::NoDirectory);
/// # Ok::<(), InvalidCommandLine>(())
/// ```
#[derive(Clone, Debug)]
pub struct CommandLine {
    words: Vec<String>,
    plain_files: Option<String>,
}

impl CommandLine {
    /// Parses a command line.
    ///
    /// # Errors
    /// If it names no program, lacks `{dir}`, or has an unclosed quote.
    pub fn parse(line: &str) -> Result<Self, InvalidCommandLine> {
        let words = shlex::split(line).ok_or(InvalidCommandLine::UnclosedQuote)?;
        if words.is_empty() {
            return Err(InvalidCommandLine::Empty);
        }
        if !words.iter().any(|word| word.contains(DIRECTORY)) {
            return Err(InvalidCommandLine::NoDirectory);
        }
        Ok(Self { words, plain_files: None })
    }

    /// Declares that the program keeps each file of the memory as a plain file of the same name under this directory,
    /// such as `{dir}/memories`. This enables the cases of links, special files and files that are not text.
    #[must_use]
    pub fn plain_files(mut self, directory: impl Into<String>) -> Self {
        self.plain_files = Some(directory.into());
        self
    }

    /// Starts the program like a case does, waits for its response to a command, and kills it. Any `tool_result` block
    /// will do.
    ///
    /// Requires a tokio runtime with timer and I/O enabled.
    ///
    /// # Errors
    /// If it cannot be started, or does not respond with a `tool_result` block in time.
    pub async fn try_start(&self, answer_timeout: Duration) -> Result<(), Box<Failure>> {
        let failed = |error| Failure::new(format!("cannot create a directory for the case: {error}"));
        let directory = directory_for_a_case().map_err(failed)?;
        let command = self.command(&directory, &ToolOptions::default());
        let program = Program::start(command.map_err(|error| Failure::new(error.to_string()))?, answer_timeout)?;
        program.try_out().await
    }

    fn command(&self, directory: &TempDir, options: &ToolOptions) -> Result<Command, FixtureError> {
        let directory = directory.path().to_string_lossy();
        let mut words = Vec::new();
        let mut takes_options = false;
        for word in &self.words {
            if word == OPTIONS {
                takes_options = true;
                words.extend(words_for(options));
            } else {
                words.push(word.replace(DIRECTORY, &directory));
            }
        }
        if !takes_options && !options.is_default() {
            return Err(FixtureError::unsupported("the command line has no {options}"));
        }
        let mut words = words.into_iter();
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        Ok(command)
    }
}

fn words_for(options: &ToolOptions) -> Vec<String> {
    let mut words = Vec::new();
    if options.create_overwrites {
        words.push("--create-overwrites".to_owned());
    }
    if options.max_view_characters != ToolOptions::default().max_view_characters {
        let cap = options.max_view_characters.map_or("none".to_owned(), |cap| cap.to_string());
        words.extend(["--max-view-chars".to_owned(), cap]);
    }
    words
}

#[async_trait]
impl Factory for CommandLine {
    async fn fresh(&self, options: &ToolOptions) -> Result<(Opened, Box<dyn Access>), FixtureError> {
        let directory = directory_for_a_case()?;
        let command = self.command(&directory, options)?;
        Ok((Opened::Program(command), Box::new(CommandAccess { command_line: self.clone(), directory })))
    }

    fn missing_capabilities(&self) -> &'static [Capability] {
        &[Capability::Tool, Capability::Store, Capability::Scopes, Capability::Sealed]
    }
}

/// Creates a directory, in `/dev/shm` if it exists, because a run syncs thousands of small files.
fn directory_for_a_case() -> std::io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("memory-tool-test-");
    let shared_memory = Path::new("/dev/shm");
    if shared_memory.is_dir() { builder.tempdir_in(shared_memory) } else { builder.tempdir() }
}

struct CommandAccess {
    command_line: CommandLine,
    directory: TempDir,
}

#[async_trait]
impl Access for CommandAccess {
    async fn reopen(&self) -> Result<Opened, FixtureError> {
        self.program().map(Opened::Program)
    }

    fn program(&self) -> Result<Command, FixtureError> {
        self.command_line.command(&self.directory, &ToolOptions::default())
    }

    fn plain_files(&self) -> Result<PathBuf, FixtureError> {
        let reason = "needs `--plain-files`: the suite does not know where the program keeps plain files";
        let plain = self.command_line.plain_files.as_ref().ok_or_else(|| FixtureError::unsupported(reason))?;
        Ok(plain.replace(DIRECTORY, &self.directory.path().to_string_lossy()).into())
    }

    fn directory(&self) -> Result<PathBuf, FixtureError> {
        match &self.command_line.plain_files {
            Some(plain) if plain.contains(DIRECTORY) => Ok(self.directory.path().to_owned()),
            _ => Err(FixtureError::unsupported(
                "needs `--plain-files` with {dir}: the suite does not know where files are stored",
            )),
        }
    }

    fn secrets(&self) -> Vec<String> {
        let name = self.directory.path().file_name();
        name.map(|name| name.to_string_lossy().into_owned()).into_iter().collect()
    }
}
