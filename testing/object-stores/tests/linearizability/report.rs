//! [`Report`]: how much was tested.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use memory_tool_test_fixtures::Tier;
use memory_tool_test_servers::Record;

use crate::faults;
use crate::recording::{Outcome, Recording};

/// What happened in all recordings of a server.
#[derive(Default)]
pub(crate) struct Report {
    calls: usize,
    /// Calls that met one of another process.
    meetings: usize,
    unknown: usize,
    failed: usize,
    /// How often each fault happened.
    faults: BTreeMap<String, usize>,
    requests: usize,
    /// Objects that were put for the contents of one file.
    objects: usize,
    /// Objects that were put for those of many.
    packs: usize,
    collected: usize,
    working: Duration,
    pub(crate) checking: Duration,
}

impl Report {
    pub(crate) fn add(&mut self, recording: &Recording) {
        let Recording { calls, requests, .. } = recording;
        let count = |outcome| calls.iter().filter(|call| call.outcome() == outcome).count();
        self.calls += calls.len();
        self.meetings += calls.iter().filter(|call| calls.iter().any(|other| call.meets(other))).count();
        self.unknown += count(Outcome::Unknown);
        self.failed += count(Outcome::Failed);
        self.requests += requests.len();
        for fault in requests.iter().filter_map(|request| request.fault) {
            *self.faults.entry(format!("{fault:?}")).or_default() += 1;
        }
        let puts = |part| requests.iter().filter(|request| is_put(request, part)).count();
        self.packs += puts("packs");
        self.objects += puts("contents") - puts("packs");
        self.collected += recording.collected;
        self.working += calls.iter().map(|call| call.answered).max().unwrap_or_default();
    }

    /// Checks that so much happened that the test means something.
    ///
    /// # Errors
    /// What happened too seldom.
    pub(crate) fn check_that_it_is_enough(&self) -> Result<(), String> {
        let Self { calls, meetings, unknown, failed, faults, objects, packs, collected, .. } = self;
        let least = [
            ("calls that did not fail", calls - failed, calls / 2),
            ("calls that met another", *meetings, calls / 5),
            ("unknown outcomes", *unknown, calls / 400),
            ("faults", faults.values().sum(), calls / 10),
            ("objects", *objects, calls / 100),
            ("packs", *packs, calls / 2_000),
            ("collected objects", *collected, calls / 100),
        ];
        if let Some((what, count, least)) = least.into_iter().find(|(_, count, least)| count < least) {
            return Err(format!("only {count} {what}, not {least}"));
        }
        if Tier::current() != Tier::Long {
            return Ok(()); // the rarest faults may be missing among so few requests
        }
        match faults::chances().iter().find(|(fault, _)| !faults.contains_key(&format!("{fault:?}"))) {
            Some((fault, _)) => Err(format!("not one {fault:?}")),
            None => Ok(()),
        }
    }
}

fn is_put(request: &Record, part: &str) -> bool {
    request.method == "PUT" && request.target.contains(part)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { calls, meetings, unknown, failed, faults, requests, objects, packs, collected, working, checking } =
            self;
        writeln!(f, "{calls} calls in {working:.1?}, checked in {checking:.1?}")?;
        writeln!(f, "  {meetings} met another on the same paths, {unknown} had an unknown outcome, {failed} failed")?;
        writeln!(f, "  {objects} objects and {packs} packs put, {collected} collected")?;
        writeln!(f, "  {} faults in {requests} requests:", faults.values().sum::<usize>())?;
        faults.iter().try_for_each(|(fault, count)| writeln!(f, "    {count} {fault}"))
    }
}
