//! [`AuditFilter`] and [`AuditTrail`]: reading back what was recorded.

use std::collections::HashSet;
use std::time::SystemTime;

use memory_tool_core::MemoryPath;

use crate::audit::record::{AuditEvent, AuditRecord, AuditedChange};

/// Which records to read. Without any condition all of them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[must_use]
pub struct AuditFilter {
    actor: Option<String>,
    path: Option<MemoryPath>,
    since: Option<SystemTime>,
}

impl AuditFilter {
    /// A filter that lets everything through.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets through what the actor of this name did.
    pub fn actor(mut self, actor: impl Into<String>) -> Self {
        self.actor = Some(actor.into());
        self
    }

    /// Lets through what concerns this path: what is at it, beneath it, or a directory above it that was changed as a whole.
    pub fn path(mut self, path: MemoryPath) -> Self {
        self.path = Some(path);
        self
    }

    /// Lets through what was recorded at this time or later.
    pub fn since(mut self, since: SystemTime) -> Self {
        self.since = Some(since);
        self
    }

    pub(super) fn begins_after(&self, end: SystemTime) -> bool {
        self.since.is_some_and(|since| since > end)
    }
}

/// What was read of a log.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct AuditTrail {
    /// The records, in the order in which they were appended.
    pub records: Vec<AuditRecord>,
    /// How many lines or files of the log were passed over, because they are no records of this format: cut short, foreign, or of a
    /// later version of this crate.
    pub skipped: u64,
}

impl AuditTrail {
    /// The intents without an outcome: the process was killed, or is still at it. Whether such a change was made, a comparison of the
    /// digests with what is stored tells.
    pub fn unfinished(&self) -> impl Iterator<Item = &AuditRecord> {
        let outcomes = self.records.iter().filter(|record| matches!(record.event, AuditEvent::Outcome { .. }));
        let ended: HashSet<_> = outcomes.map(|outcome| &outcome.id).collect();
        self.records.iter().filter(move |record| is_intent(record) && !ended.contains(&record.id))
    }
}

fn is_intent(record: &AuditRecord) -> bool {
    matches!(record.event, AuditEvent::Intent { .. })
}

/// Takes what a filter lets through out of all records, which it is given in their order.
#[derive(Debug)]
pub(super) struct Selection<'a> {
    filter: &'a AuditFilter,
    /// The intents that concern the path. An outcome says nothing of it but this.
    concerned: HashSet<String>,
    pub(super) trail: AuditTrail,
}

impl<'a> Selection<'a> {
    pub(super) fn new(filter: &'a AuditFilter) -> Self {
        Self { filter, concerned: HashSet::new(), trail: AuditTrail::default() }
    }

    /// Takes the next record; `None` is something that is no record.
    pub(super) fn take(&mut self, record: Option<AuditRecord>) {
        let Some(record) = record else {
            self.trail.skipped += 1;
            return;
        };
        self.note(&record);
        if self.lets_through(&record) {
            self.trail.records.push(record);
        }
    }

    /// Notes whether the outcome of an intent is to be let through, where that may be taken before its intent.
    pub(super) fn note(&mut self, record: &AuditRecord) {
        if let (AuditEvent::Intent { .. }, Some(path)) = (&record.event, &self.filter.path)
            && self.concerns(record, path)
        {
            self.concerned.insert(record.id.clone());
        }
    }

    fn lets_through(&self, record: &AuditRecord) -> bool {
        let AuditFilter { actor, path, since } = self.filter;
        path.as_ref().is_none_or(|path| self.concerns(record, path))
            && actor.as_ref().is_none_or(|actor| *actor == record.actor)
            && since.is_none_or(|since| record.time >= since)
    }

    fn concerns(&self, record: &AuditRecord, path: &MemoryPath) -> bool {
        match &record.event {
            AuditEvent::Intent { changes } => {
                changes.iter().flat_map(AuditedChange::paths).any(|changed| changed.overlaps(path))
            }
            AuditEvent::Outcome { .. } => self.concerned.contains(&record.id),
            AuditEvent::Command { path: given, new_path, .. } => {
                given.iter().chain(new_path).any(|given| given.overlaps(path))
            }
        }
    }
}
