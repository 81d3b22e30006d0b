//! All figures of a run.

use serde::Serialize;

use crate::usage::Usage;

#[derive(Serialize)]
pub(crate) struct Results {
    pub(crate) commands: Vec<Command>,
    pub(crate) growth: Vec<Growth>,
    pub(crate) import: Import,
    pub(crate) writers: Vec<Race>,
    pub(crate) throttled: Race,
}

/// The mean usage of a command.
#[derive(Serialize)]
pub(crate) struct Command {
    pub(crate) name: String,
    /// By [the numbers of commits](crate::commands::FOREIGN) that another store makes before each command.
    pub(crate) usage: Vec<Usage>,
}

/// A store of many small files.
#[derive(Serialize)]
pub(crate) struct Growth {
    pub(crate) files: usize,
    /// Or the reason why the store cannot have as many files.
    pub(crate) figures: Result<GrowthFigures, String>,
}

#[derive(Serialize)]
pub(crate) struct GrowthFigures {
    /// The bytes sent by the median edit, which has no background work.
    pub(crate) edit_bytes_sent: f64,
    /// The mean of many edits, with background work.
    pub(crate) edit: Usage,
    /// The mean of the opening and the first `view` of a process.
    pub(crate) first_view: Usage,
    /// The medians, in seconds.
    pub(crate) opening_seconds: f64,
    pub(crate) first_view_seconds: f64,
}

#[derive(Serialize)]
pub(crate) struct Import {
    pub(crate) files: usize,
    pub(crate) seconds: f64,
    pub(crate) usage: Usage,
}

/// Concurrent sessions that edit their own files of one store.
#[derive(Serialize)]
pub(crate) struct Race {
    pub(crate) processes: usize,
    pub(crate) sessions_per_process: usize,
    pub(crate) edits_per_second: f64,
    /// The edits of the slowest session divided by the mean.
    pub(crate) slowest_to_mean: f64,
    /// In seconds, of all edits, including the ones that failed.
    pub(crate) median: f64,
    pub(crate) percentile_99: f64,
    pub(crate) maximum: f64,
    /// The number of edits that failed because the store was busy.
    pub(crate) busy: usize,
    /// The number of edits that failed for another reason.
    pub(crate) failed: usize,
    /// The number of requests that the server refused with 429.
    pub(crate) refused_requests: usize,
    pub(crate) usage_per_edit: Usage,
    /// The bare `PUT`s of 4 KB that as many processes make: the limit of the machine and of the server.
    pub(crate) bare_puts_per_second: Option<f64>,
}
