//! Checks of a part of a run, after its end.

use std::collections::BTreeMap;

use memory_tool_test_checker::Model as _;
use memory_tool_test_fixtures::linearizability::{Call, Files, Outcome, Reference, check_order};

/// The results of a part of a run.
#[derive(Debug, Default)]
pub(crate) struct Part {
    pub(crate) start: Files,
    pub(crate) calls: Vec<Call>,
    pub(crate) end: Files,
    pub(crate) history: Option<PartOfHistory>,
}

/// The new entries of a history.
#[derive(Debug, Default)]
pub(crate) struct PartOfHistory {
    /// The actors of the entries, which are the numbers of the calls.
    pub(crate) entries: Vec<Option<String>>,
    /// The files after some of the entries, by their index, as the history returns them.
    pub(crate) past: BTreeMap<usize, Files>,
}

impl Part {
    /// Checks that the replies are linearizable, and that the history has one entry for each change, in their order.
    pub(crate) fn check(&self) -> Result<(), String> {
        check_order(&self.start, &self.calls)?;
        self.history.iter().try_for_each(|history| self.check_history(history))
    }

    fn check_history(&self, history: &PartOfHistory) -> Result<(), String> {
        let reference = Reference::new();
        let (mut files, mut seen, mut latest) = (self.start.clone(), vec![false; self.calls.len()], None);
        for (index, actor) in history.entries.iter().enumerate() {
            let number = actor.as_deref().and_then(|actor| actor.parse().ok());
            let number: usize = number.ok_or_else(|| format!("entry {index} is by {actor:?}"))?;
            let call = &self.calls[number];
            if std::mem::replace(&mut seen[number], true) {
                return Err(format!("the history has two entries of call {number}: {call:?}"));
            }
            if latest.is_some_and(|latest| call.responded < latest) {
                return Err(format!("the entry of call {number} comes after one of a later call: {call:?}"));
            }
            latest = latest.max(Some(call.called));
            let (reply, after) = reference.run(&files, &call.command);
            if call.outcome() == Outcome::Failed || call.outcome() == Outcome::Known && call.reply != Some(reply) {
                return Err(format!("the entry of call {number} contradicts its reply: {call:?}"));
            }
            files = after;
            if history.past.get(&index).is_some_and(|past| *past != files) {
                return Err(format!("the history has other files after entry {index}: {call:?}"));
            }
        }
        let is_missing = |(number, call): &(usize, &Call)| !seen[*number] && is_acknowledged_change(call);
        if let Some((number, call)) = self.calls.iter().enumerate().find(is_missing) {
            return Err(format!("the history has no entry of call {number}: {call:?}"));
        }
        if files == self.end { Ok(()) } else { Err("the changes in the history lead to other files".to_owned()) }
    }
}

fn is_acknowledged_change(call: &Call) -> bool {
    let is_refused = call.reply.as_ref().is_some_and(|reply| reply.contains("\"is_error\":true"));
    call.outcome() == Outcome::Known && call.command["command"] != "view" && !is_refused
}
