//! [`Plan`]: the events of a run, drawn from its seed.

use std::time::Duration;

use memory_tool_test_fixtures::linearizability::workload::{command, generate};
use serde_json::Value;

use crate::bucket::{Cloud, Faults};
use crate::random::{happens, number, one_of, time_up_to, within};

/// The state of the bucket at the start of a run.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum Start {
    /// The sessions create the store.
    Nothing,
    /// A few files.
    Files,
    /// A few commits before the next checkpoint.
    BeforeCheckpoint,
    /// The author of the last checkpoint was killed.
    BeforeOverdueCheckpoint,
    /// A collection trimmed the log, and there are packs.
    Collected,
}

/// An event between the two parts of a run, while the sessions are idle.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Event {
    Nothing,
    /// The bucket is replaced by an older copy.
    Restored,
    /// `forget`: all files and records are removed.
    Forgotten,
    /// The bucket is emptied, and another store is created in it.
    Replaced,
    /// An object of the log or a checkpoint is lost, and the store is repaired.
    Damaged,
}

/// Work beside the sessions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Task {
    Collect,
    Verify,
    /// A repair of an intact store changes nothing. It does not run with collections.
    Repair,
    Open,
}

/// The work of a process.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) distance: Duration,
    /// The commands of each of its tasks, in both parts.
    pub(crate) commands: [Vec<Vec<Value>>; 2],
}

/// The events of a run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) cloud: Cloud,
    pub(crate) page: usize,
    pub(crate) start: Start,
    pub(crate) has_history: bool,
    pub(crate) faults: Faults,
    /// The chance that a process is killed, and that the future of a command is dropped.
    pub(crate) interruptions: f64,
    pub(crate) clocks_wrong_by: Duration,
    pub(crate) timeout: Duration,
    /// The longest pause between two commands.
    pub(crate) pause: Duration,
    pub(crate) processes: Vec<Process>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) event: Event,
}

impl Plan {
    /// Draws a plan. Each task of a process has at most `most` commands in a part.
    pub(crate) fn draw(most: usize) -> Self {
        let has_faults = happens(0.75);
        let has_history = happens(0.5);
        let mut plan = Self {
            cloud: one_of(&[Cloud::S3, Cloud::GoogleCloudStorage, Cloud::Azure]),
            page: one_of(&[7, 40, 1_000]),
            start: match within(0..20) {
                0..5 => Start::Nothing,
                5..12 => Start::Files,
                12..18 => Start::Collected,
                // Reading long logs takes most of the time.
                18 => Start::BeforeCheckpoint,
                _ => Start::BeforeOverdueCheckpoint,
            },
            has_history,
            faults: Faults { each: if has_faults { one_of(&[0.002, 0.01, 0.02]) } else { 0.0 } },
            interruptions: if has_faults { one_of(&[0.0, 0.05, 0.2]) } else { 0.0 },
            clocks_wrong_by: one_of(&[Duration::ZERO, Duration::from_secs(1), Duration::from_secs(3 * 24 * 60 * 60)]),
            timeout: Duration::from_secs(30),
            pause: Duration::from_millis(one_of(&[0, 20, 400])),
            processes: Vec::new(),
            tasks: one_of(&[
                vec![],
                vec![Task::Collect],
                vec![Task::Collect, Task::Collect],
                vec![Task::Collect, Task::Verify],
                vec![Task::Collect, Task::Open],
                vec![Task::Repair, Task::Verify],
            ]),
            event: one_of(&[
                Event::Nothing,
                Event::Nothing,
                Event::Restored,
                Event::Restored,
                Event::Forgotten,
                Event::Replaced,
                if has_history { Event::Forgotten } else { Event::Damaged },
            ]),
        };
        if has_faults {
            // An opening must be able to read a long log.
            let is_short = matches!(plan.start, Start::Nothing | Start::Files);
            plan.timeout = Duration::from_secs(one_of(&[if is_short { 1 } else { 10 }, 10, 30]));
        }
        let most_processes =
            if matches!(plan.start, Start::BeforeCheckpoint | Start::BeforeOverdueCheckpoint) { 4 } else { 7 };
        plan.processes = (0..within(2..most_processes)).map(|_| Process::draw(most)).collect();
        plan
    }
}

impl Process {
    fn draw(most: usize) -> Self {
        let tasks = one_of(&[1, 1, 3]);
        let commands = || {
            let count = within(1..8) as usize;
            generate(number(), command(), count).into_iter().take(most).collect()
        };
        Self {
            distance: time_up_to(Duration::from_millis(one_of(&[2, 20, 60]))),
            commands: [0, 1].map(|_| (0..tasks).map(|_| commands()).collect()),
        }
    }
}
