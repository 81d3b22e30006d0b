//! [`Report`]: the coverage of a test run.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use memory_tool_test_fixtures::Tier;
use memory_tool_test_fixtures::linearizability::Outcome;
use memory_tool_test_servers::{Record, Requests};

use crate::faults;
use crate::recording::Recording;

/// Counts of all recordings of a server.
#[derive(Default)]
pub(crate) struct Report {
    calls: usize,
    /// Calls that conflicted with another process.
    conflicts: usize,
    unknown: usize,
    failed: usize,
    faults: BTreeMap<String, usize>,
    requests: usize,
    /// Uploaded objects with the content of one file.
    objects: usize,
    /// Checkpoints that the processes wrote because of the number or size of commits, not the collector.
    checkpoints: usize,
    collected: usize,
    trimmed: usize,
    working: Duration,
    pub(crate) checking: Duration,
}

impl Report {
    pub(crate) fn add(&mut self, recording: &Recording) {
        let Recording { calls, requests, .. } = recording;
        let count = |outcome| calls.iter().filter(|call| call.outcome() == outcome).count();
        self.calls += calls.len();
        self.conflicts += calls.iter().filter(|call| calls.iter().any(|other| call.conflicts_with(other))).count();
        self.unknown += count(Outcome::Unknown);
        self.failed += count(Outcome::Failed);
        self.requests += requests.len();
        for fault in requests.iter().filter_map(|request| request.fault) {
            *self.faults.entry(format!("{fault:?}")).or_default() += 1;
        }
        self.objects += puts(requests, "/contents/files/");
        self.checkpoints += recording.checkpoints;
        self.collected += recording.collected.objects;
        self.trimmed += recording.collected.commits;
        self.working += calls.iter().map(|call| call.responded).max().unwrap_or_default();
    }

    /// Checks that the counts are high enough.
    ///
    /// # Errors
    /// The name of a count that is too low.
    pub(crate) fn check_coverage(&self) -> Result<(), String> {
        let Self { calls, conflicts, unknown, failed, faults, objects, checkpoints, collected, trimmed, .. } = self;
        let least = [
            ("successful calls", calls - failed, calls / 2),
            ("conflicting calls", *conflicts, calls / 5),
            ("unknown outcomes", *unknown, calls / 400),
            ("faults", faults.values().sum(), calls / 10),
            ("objects", *objects, calls / 100),
            ("checkpoints of the processes", *checkpoints, calls / 2_000),
            ("collected objects", *collected, calls / 2_000),
            ("trimmed commits", *trimmed, calls / 100),
        ];
        if let Some((what, count, least)) = least.into_iter().find(|(_, count, least)| count < least) {
            return Err(format!("only {count} {what}, expected at least {least}"));
        }
        if Tier::current() != Tier::Long {
            return Ok(()); // the rarest faults may not occur in so few requests
        }
        match faults::chances().iter().find(|(fault, _)| !faults.contains_key(&format!("{fault:?}"))) {
            Some((fault, _)) => Err(format!("no {fault:?} occurred")),
            None => Ok(()),
        }
    }
}

/// Counts the uploads of objects whose key contains `part`.
pub(crate) fn puts(requests: &[Record], part: &str) -> usize {
    requests.iter().filter(|request| Requests::of("PUT").with(part).include(request)).count()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { calls, conflicts, unknown, failed, faults, requests, working, checking, .. } = self;
        let Self { objects, checkpoints, collected, trimmed, .. } = self;
        writeln!(f, "{calls} calls in {working:.1?}, checked in {checking:.1?}")?;
        writeln!(f, "  {conflicts} conflicted with another call, {unknown} had an unknown outcome, {failed} failed")?;
        writeln!(f, "  uploaded {objects} objects, collected {collected}, trimmed {trimmed} commits")?;
        writeln!(f, "  {checkpoints} checkpoints outside of collections")?;
        writeln!(f, "  {} faults in {requests} requests:", faults.values().sum::<usize>())?;
        faults.iter().try_for_each(|(fault, count)| writeln!(f, "    {count} {fault}"))
    }
}
