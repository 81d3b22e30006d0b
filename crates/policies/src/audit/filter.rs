//! [`AuditFilter`] and [`AuditTrail`]: reading the audit log.

use std::collections::HashSet;
use std::time::SystemTime;

use memory_tool_core::MemoryPath;

use crate::audit::record::{AuditEvent, AuditRecord, AuditedChange};

/// Selects records of a log. Without conditions, all records match.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[must_use]
pub struct AuditFilter {
    actor: Option<String>,
    path: Option<MemoryPath>,
    since: Option<SystemTime>,
}

impl AuditFilter {
    /// Creates a filter that all records match.
    pub fn new() -> Self {
        Self::default()
    }

    /// Selects the records of the actor with this name.
    pub fn actor(mut self, actor: impl Into<String>) -> Self {
        self.actor = Some(actor.into());
        self
    }

    /// Selects records about this path, about paths under it, and about a directory above it that was removed or
    /// renamed.
    pub fn path(mut self, path: MemoryPath) -> Self {
        self.path = Some(path);
        self
    }

    /// Selects records with this time or later.
    pub fn since(mut self, since: SystemTime) -> Self {
        self.since = Some(since);
        self
    }

    pub(super) fn begins_after(&self, end: SystemTime) -> bool {
        self.since.is_some_and(|since| since > end)
    }
}

/// Records read from a log.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct AuditTrail {
    /// The records in the order in which they were appended, or in the order of time for a
    /// [`StoreLog`](crate::StoreLog).
    pub records: Vec<AuditRecord>,
    /// The number of skipped lines or files that are not records of this format: truncated, foreign, or from a later
    /// version of this crate.
    pub skipped: u64,
}

impl AuditTrail {
    /// Returns the intents without an outcome. Their process was killed or is still running. Compare the digests with
    /// the stored files to see whether the change was made.
    pub fn unfinished(&self) -> impl Iterator<Item = &AuditRecord> {
        let outcomes = self.records.iter().filter(|record| matches!(record.event, AuditEvent::Outcome { .. }));
        let ended: HashSet<_> = outcomes.map(|outcome| &outcome.id).collect();
        self.records.iter().filter(move |record| is_intent(record) && !ended.contains(&record.id))
    }
}

fn is_intent(record: &AuditRecord) -> bool {
    matches!(record.event, AuditEvent::Intent { .. })
}

/// Collects the records that match a filter.
#[derive(Debug)]
pub(super) struct Selection<'a> {
    filter: &'a AuditFilter,
    /// The ids of intents about the path of the filter. Their outcomes match as well, but do not contain the path.
    matching_intents: HashSet<String>,
    pub(super) trail: AuditTrail,
}

impl<'a> Selection<'a> {
    pub(super) fn new(filter: &'a AuditFilter) -> Self {
        Self { filter, matching_intents: HashSet::new(), trail: AuditTrail::default() }
    }

    /// Adds the next record if it matches. `None` stands for a line or file that is not a record.
    pub(super) fn add(&mut self, record: Option<AuditRecord>) {
        let Some(record) = record else {
            self.trail.skipped += 1;
            return;
        };
        self.register_intent(&record);
        if self.matches(&record) {
            self.trail.records.push(record);
        }
    }

    /// Registers a matching intent, so that its outcome matches. Needed in advance if outcomes can precede intents.
    pub(super) fn register_intent(&mut self, record: &AuditRecord) {
        if let (AuditEvent::Intent { .. }, Some(path)) = (&record.event, &self.filter.path)
            && self.is_about(record, path)
        {
            self.matching_intents.insert(record.id.clone());
        }
    }

    fn matches(&self, record: &AuditRecord) -> bool {
        let AuditFilter { actor, path, since } = self.filter;
        path.as_ref().is_none_or(|path| self.is_about(record, path))
            && actor.as_ref().is_none_or(|actor| *actor == record.actor)
            && since.is_none_or(|since| record.time >= since)
    }

    fn is_about(&self, record: &AuditRecord, path: &MemoryPath) -> bool {
        match &record.event {
            AuditEvent::Intent { changes } => {
                changes.iter().flat_map(AuditedChange::paths).any(|changed| changed.overlaps(path))
            }
            AuditEvent::Outcome { .. } => self.matching_intents.contains(&record.id),
            AuditEvent::Command { path: given, new_path, .. } => {
                given.iter().chain(new_path).any(|given| given.overlaps(path))
            }
        }
    }
}
