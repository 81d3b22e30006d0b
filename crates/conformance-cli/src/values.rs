//! Types of arguments and their values.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use memory_tool_cli::options::values::by_name;
use memory_tool_conformance::Capability;

/// The format of a report.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// For people: a line for each clause, then failed cases, then ignored cases.
    #[default]
    Table,
    /// One JSON value with all cases.
    Json,
    /// The table and the failures in Markdown.
    Markdown,
}

/// A selection of cases.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Profile {
    /// Cases that depend on the storage.
    Storage,
}

/// The timeout of a reply in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerTimeout(pub(crate) Duration);

impl fmt::Display for AnswerTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_secs_f64().fmt(f)
    }
}

impl FromStr for AnswerTimeout {
    type Err = &'static str;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        let seconds = given.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        seconds
            .filter(|duration| !duration.is_zero())
            .map(Self)
            .ok_or("expected a number of seconds above 0, such as 2.5")
    }
}

/// Parses a capability that the backend lacks, with the reason.
pub(crate) fn lack(given: &str) -> Result<(Capability, String), String> {
    let parts = given.split_once('=').filter(|(_, reason)| !reason.is_empty());
    let (need, reason) = parts.ok_or("expected NEED=REASON")?;
    Ok((by_name(need)?, reason.to_owned()))
}

/// Checks that the directory contains the placeholder. Otherwise all cases would share it.
pub(crate) fn directory_of_a_case(given: &str) -> Result<String, &'static str> {
    if given.contains("{dir}") {
        Ok(given.to_owned())
    } else {
        Err("expected the placeholder {dir}, the directory of a case")
    }
}
