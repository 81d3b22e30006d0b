//! `memory-tool lint`: finds text that Claude misreads or does not see.

use std::str::FromStr as _;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use memory_tool::MemoryPath;
use memory_tool::lint::{LintFinding, LintOptions, LintReport, LintRule};

use crate::exit_status::ExitStatus;
use crate::failure::{Context as _, Failure, eprint_line};
use crate::files;
use crate::memory::Access;
use crate::options::MemoryArgument;
use crate::options::values::memory_path;
use crate::terminal::escapes::on_one_line;
use crate::terminal::interruption::{CLEANUP_TIME, run_until_interrupted};
use crate::terminal::output::{count, write_report};

#[derive(Args, Debug)]
pub(crate) struct LintArguments {
    /// Report only these files and directories
    #[arg(value_parser = memory_path)]
    path: Vec<MemoryPath>,

    /// Print the report as JSON
    ///
    /// Its fields are files, skipped, findings and more. A finding has the fields rule, path, line, which can be null,
    /// and message.
    #[arg(long)]
    json: bool,

    /// Turn a rule off; can be given several times
    #[arg(long, value_name = "RULE", value_parser = rule(), hide_possible_values = true)]
    off: Vec<LintRule>,

    /// Check only this rule; can be given several times
    #[arg(long, value_name = "RULE", value_parser = rule(), hide_possible_values = true)]
    only: Vec<LintRule>,

    #[command(flatten)]
    pub(crate) memory: MemoryArgument,
}

fn rule() -> impl TypedValueParser<Value = LintRule> {
    let names = PossibleValuesParser::new(LintRule::ALL.iter().map(|rule| rule.name()));
    names.try_map(|name| LintRule::from_str(&name))
}

/// Checks the memory, and prints the findings.
pub(crate) fn run(arguments: &LintArguments) -> Result<ExitStatus, Failure> {
    let LintArguments { path, json, off, only, memory } = arguments;
    let options = off.iter().copied().fold(LintOptions::new(), LintOptions::off);
    let options = only.iter().copied().fold(options, LintOptions::only);
    let options = path.iter().cloned().fold(options, LintOptions::within);
    let report = run_until_interrupted(CLEANUP_TIME, async {
        let memory = files::open(memory, "lint", Access::Read).await?;
        memory.lint(&options).await.context("cannot check the memory")
    })?;
    write_report(*json, &report, || to_text(&report))?;
    if report.skipped > 0 {
        let items = count(report.skipped, "item");
        eprint_line(&format!("memory-tool: {items} not checked: not readable, or not text"));
    }
    Ok(ExitStatus::of(report.findings.is_empty() && report.more == 0))
}

fn to_text(report: &LintReport) -> String {
    let found = report.findings.len() as u64;
    let more = if report.more > 0 { format!(", and {} more", report.more) } else { String::new() };
    let summary = format!("{}: {}{more}", count(report.files, "file"), count(found, "finding"));
    report.findings.iter().map(|finding| on_one_line(&line_of(finding)) + "\n").chain([summary]).collect()
}

/// A finding as compilers print it.
fn line_of(LintFinding { rule, path, line, message, .. }: &LintFinding) -> String {
    let line = line.map_or_else(String::new, |line| format!(":{line}"));
    format!("{path}{line}: {rule}: {message}")
}
