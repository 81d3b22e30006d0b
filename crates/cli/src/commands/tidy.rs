//! `memory-tool tidy`: how an agent tidies a memory in a proposal, and a report of the changes that wait in it.

use std::fmt::Write as _;
use std::path::{self, Path};

use clap::Args;
use memory_tool::proposals::{LineOfFile, Listed, Proposal, ProposalError, ProposalName, RepeatedLine, Report, Size};
use memory_tool::store::StorePath;
use memory_tool::{MemoryOptions, StoreUrl, ToolDefinition};
use memory_tool_server::Mcp;
use serde_json::{Value, json};

use crate::command_line::NAME;
use crate::commands::proposals::IN_A_PROPOSAL;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::files::{Stop, perform};
use crate::memory::Access;
use crate::options::MemoryArgument;
use crate::terminal::escapes::on_one_line;
use crate::terminal::output::{count, write_report};

#[derive(Args, Debug)]
pub(crate) struct TidyArguments {
    /// The proposal in which the agent's changes wait
    #[arg(default_value = "tidy")]
    pub(crate) name: ProposalName,

    /// Print JSON
    ///
    /// Its fields are proposal, revision (null if no changes wait), mcp, definition, prompt, removes_much and report.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) memory: MemoryArgument,
}

pub(crate) fn run(arguments: &TidyArguments) -> Result<ExitStatus, Failure> {
    perform(&arguments.memory, "tidy", Access::Read, async |memory| {
        let proposals = memory.proposals().ok_or_else(|| Stop::Wrong(IN_A_PROPOSAL.to_owned()))?;
        let proposal = match proposals.get(&arguments.name).await {
            Err(ProposalError::NotFound { .. }) => None,
            proposal => Some(proposal?),
        };
        let changes = proposal.as_ref().map_or(&[][..], |proposal| &proposal.changes);
        let report = proposals.report(changes).await?;
        let task = Task::new(arguments);
        write_report(arguments.json, &task.in_json(proposal.as_ref(), &report), || match &proposal {
            Some(proposal) => task.report_in_words(proposal, &report),
            None => task.in_words(&report),
        })?;
        Ok(ExitStatus::Success)
    })
}

/// The task of an agent that tidies the memory.
struct Task<'a> {
    name: &'a ProposalName,
    /// The options of the memory for another command, in any directory.
    memory: Vec<String>,
    definition: ToolDefinition,
    prompt: String,
}

impl<'a> Task<'a> {
    fn new(arguments: &'a TidyArguments) -> Self {
        let TidyArguments { name, memory: MemoryArgument { store, policies }, .. } = arguments;
        let mut options = MemoryOptions::new();
        options.propose = Some(name.clone());
        let scope = policies.scope.iter().map(|scope| format!("--scope={}", scope.name()));
        let encryption = store.encryption.to_arguments().into_iter();
        let encryption = encryption.map(|argument| argument.to_string_lossy().into_owned());
        let memory = [format!("--store={}", absolute(&store.url))].into_iter().chain(scope).chain(encryption).collect();
        let (definition, prompt) = (ToolDefinition::new(), Mcp::new(&options).tidy_prompt());
        Self { name, memory, definition, prompt }
    }

    /// The arguments of the server for the agent.
    fn server(&self, command: &str) -> Vec<String> {
        let session = vec![format!("--propose={}", self.name), "--actor=agent".to_owned()];
        [vec![command.to_owned()], self.memory.clone(), session].concat()
    }

    fn client_configuration(&self) -> Value {
        json!({"mcpServers": {"memory": {"command": NAME, "args": self.server("mcp")}}})
    }

    fn in_json(&self, proposal: Option<&Proposal>, report: &Report) -> Value {
        json!({
            "proposal": self.name,
            "revision": proposal.map(|proposal| proposal.revision),
            "mcp": self.client_configuration(),
            "definition": self.definition,
            "prompt": self.prompt,
            "removes_much": report.removes_much(),
            "report": report,
        })
    }

    /// How to run the agent.
    fn in_words(&self, report: &Report) -> String {
        let Self { name, definition, prompt, .. } = self;
        let (mcp, run) = (command_line(&self.server("mcp")), command_line(&self.server("run")));
        let configuration = self.client_configuration();
        let definition = serde_json::to_string(definition).unwrap_or_default();
        let again = self.later(&["tidy", name.as_str()]);
        format!(
            "No changes wait in the proposal {name}. To let an agent make some:\n\n\
             1. Give it the memory, by MCP:\n\n   {mcp}\n   {configuration}\n\n   \
             or as the tool {definition} of the Messages API:\n\n   {run}\n\n\
             2. Give it this prompt, which is also the prompt tidy_memory of MCP:\n\n{prompt}\n\n\
             3. Look at the report of its changes:\n\n   {again}\n\n\
             The memory has {}.\n{}",
            in_words(&report.before),
            leads(report)
        )
    }

    /// The report of changes that wait.
    fn report_in_words(&self, proposal: &Proposal, report: &Report) -> String {
        let (before, after, gone) = (&report.before, &report.after, &report.removed_lines);
        let mut text = format!("before: {}\nafter: {}\n", in_words(before), in_words(after));
        let much = if report.removes_much() { ", more than a third of all" } else { "" };
        text += &section(&format!("removed lines that no file has after the changes{much}"), gone, of_file);
        text += &leads(report);
        let name = self.name.as_str();
        let revision = format!("--revision={}", proposal.revision);
        for (purpose, command) in [
            ("look", &["proposal", "show", name][..]),
            ("take", &["proposal", "take", name, &revision]),
            ("drop", &["proposal", "drop", name]),
        ] {
            _ = write!(text, "\nto {purpose}: {}", self.later(command));
        }
        text
    }

    /// The command line of a later command.
    fn later(&self, command: &[&str]) -> String {
        command_line(&[command.iter().map(|word| (*word).to_owned()).collect(), self.memory.clone()].concat())
    }
}

/// The store, in any directory.
fn absolute(url: &StoreUrl) -> StoreUrl {
    let absolute = |path: &Path| path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut url = url.clone();
    if let StoreUrl::Local(path) | StoreUrl::TrustedDirectory { path, .. } | StoreUrl::Sqlite { path, .. } = &mut url {
        *path = absolute(path);
    }
    url
}

/// The program with arguments that contain no zero bytes.
fn command_line(arguments: &[String]) -> String {
    let words = arguments.iter().map(|word| shlex::try_quote(word).unwrap_or_default());
    let words: Vec<_> = words.map(|word| on_one_line(&word)).collect();
    format!("{NAME} {}", words.join(" "))
}

fn in_words(size: &Size) -> String {
    let Size { files, bytes, lines, .. } = *size;
    let (files, lines) = (count(files as u64, "file"), count(lines as u64, "different line"));
    format!("{files}, {}, {lines}", count(bytes, "byte"))
}

/// The dead links and duplicates.
fn leads(report: &Report) -> String {
    let paths = |paths: &Listed<StorePath>| listed(paths, |path| on_one_line(path.as_str()), ", ");
    let line = |line: &RepeatedLine| format!("{}: {}", paths(&line.paths), on_one_line(&line.text));
    let (links, files) = (&report.dead_links, &report.equal_files);
    section("dead links", links, of_file)
        + &section("files with the same contents", files, paths)
        + &section("repeated lines", &report.repeated_lines, line)
}

fn of_file(line: &LineOfFile) -> String {
    format!("{}: {}", on_one_line(line.path.as_str()), on_one_line(&line.text))
}

/// A heading with the number of items, and the items under it.
fn section<T>(heading: &str, items: &Listed<T>, in_words: impl Fn(&T) -> String) -> String {
    let under = if items.count == 0 { String::new() } else { format!("\n  {}", listed(items, in_words, "\n  ")) };
    format!("{heading}: {}{under}\n", items.count)
}

fn listed<T>(items: &Listed<T>, in_words: impl Fn(&T) -> String, separator: &str) -> String {
    let more = items.count - items.first.len();
    let more = (more > 0).then(|| format!("and {more} more"));
    items.first.iter().map(in_words).chain(more).collect::<Vec<_>>().join(separator)
}
