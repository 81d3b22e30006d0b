//! The protocol of `docs/object-stores.md`, explored in every order of its steps: writers that crash at any step,
//! requests and answers that are lost, late or repeated, and a collection of unused contents among them.
//!
//! The model knows one file, to which each edit appends its own name: what came of an edit can be read from the file.

#![allow(clippy::print_stdout, reason = "the count of states is the measure of the test")]

use std::collections::BTreeSet;

use stateright::{Checker, HasDiscoveries, Model, Property};

type Writer = u8;

/// What a caller asked a writer for.
type Edit = (Writer, u8);

/// A content object: the edit that put it, and the count of collections that it was planned under.
type Content = (Edit, u8);

/// The index object, and what tells one state of it from another: an entity tag or a generation.
#[derive(Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
struct Index {
    tag: u8,
    revision: u8,
    /// How often unused contents were collected.
    collections: u8,
    /// The last edit of each of the last writers with the revision that it led to, the newest last.
    writers: Vec<(Edit, u8)>,
    /// The edits that the file consists of.
    file: Vec<Edit>,
    /// The content object that the file lies in.
    content: Option<Content>,
}

/// A conditional put of the index: the state that it replaces, and what makes the new one.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
struct Swap {
    base: Index,
    edit: Edit,
    content: Content,
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
enum Answer {
    Done,
    Refused,
}

/// Where a writer is in its course.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Phase {
    /// Between two attempts.
    Idle,
    /// Has read the index, and puts the content next.
    Planned {
        base: Index,
    },
    /// Has put the content, and sends the swap until it hears of it.
    Prepared {
        base: Index,
        is_sent: bool,
    },
    /// Was refused, or heard nothing for long: looks at the index.
    InDoubt {
        base: Index,
    },
    Crashed,
}

/// What a caller is told of its edit.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Outcome {
    Done,
    Unchanged,
    Unknown,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Client {
    phase: Phase,
    edit: u8,
    attempt: u8,
    /// The content that it has put for this edit.
    content: Option<Content>,
    outcomes: Vec<Outcome>,
}

/// Where the collection of unused contents is. It may stop anywhere.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Collection {
    NotBegun,
    /// Knows what is in the bucket.
    Listed(BTreeSet<Content>),
    /// Has noted itself in the index, and removes these.
    Removing(BTreeSet<Content>),
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct State {
    index: Index,
    contents: BTreeSet<Content>,
    clients: Vec<Client>,
    collection: Collection,
    /// Swaps on their way to the server. One that was served stays: it may come again.
    requests: BTreeSet<Swap>,
    /// Answers on their way back. One that is never heard is lost.
    answers: BTreeSet<(Edit, Answer)>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Step {
    ReadIndex(Writer),
    PutContent(Writer),
    SendSwap(Writer),
    Serve(Swap),
    Hear(Edit, Answer),
    StopWaiting(Writer),
    LookAtIndex(Writer),
    ReachDeadline(Writer),
    Crash(Writer),
    ListContents,
    NoteCollection,
    Remove(Content),
}

/// A mistake that the protocol could have: the model has to find what comes of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mistake {
    /// A refusal is believed, though a repeated swap is refused by its own first attempt.
    BelievesRefusals,
    /// Whether a write has landed is not looked for in the log.
    LooksForNoId,
    /// What the log no longer holds is taken for what never landed.
    TrustsAShortLog,
    /// The swap is sent before the content is put.
    SwapsFirst,
    /// A collection does not note itself in the index.
    CollectsInSecret,
    /// A content that was put before a collection is used after it.
    KeepsContents,
    /// A deadline is reported as a change that was not made.
    CallsUnknownUnchanged,
}

struct Protocol {
    writers: u8,
    edits: u8,
    attempts: u8,
    /// How many writers the index remembers.
    remembered: usize,
    /// Whether unused contents are collected.
    collects: bool,
    mistake: Option<Mistake>,
}

impl Protocol {
    fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// Plans anew, as the swap that was sent can no longer take effect.
    fn try_again(&self, client: &mut Client) {
        if client.attempt + 1 == self.attempts {
            finish(client, Outcome::Unchanged);
        } else {
            client.attempt += 1;
            client.phase = Phase::Idle;
        }
    }

    fn serve(&self, state: &mut State, swap: &Swap) {
        let answer = if state.index.tag == swap.base.tag {
            state.index = self.swapped(swap);
            Answer::Done
        } else {
            Answer::Refused
        };
        state.answers.insert((swap.edit, answer));
    }

    fn swapped(&self, swap: &Swap) -> Index {
        let mut index = swap.base.clone();
        self.remember(&mut index, swap.edit);
        index.file.push(swap.edit);
        index.content = Some(swap.content);
        index
    }

    /// Notes in the index who made it.
    fn remember(&self, index: &mut Index, edit: Edit) {
        index.tag += 1;
        index.revision += 1;
        index.writers.retain(|((writer, _), _)| *writer != edit.0);
        if index.writers.len() == self.remembered {
            index.writers.remove(0);
        }
        index.writers.push((edit, index.revision));
    }

    fn put_content(&self, contents: &mut BTreeSet<Content>, client: &mut Client, edit: Edit) {
        let Phase::Planned { base } = client.phase.clone() else { return };
        let keeps_any = self.makes(Mistake::KeepsContents);
        let is_good = |(_, collections)| collections == base.collections || keeps_any;
        if !client.content.is_some_and(is_good) {
            let content = (edit, base.collections);
            client.content = Some(content);
            if !self.makes(Mistake::SwapsFirst) {
                contents.insert(content);
            }
        }
        client.phase = Phase::Prepared { base, is_sent: false };
    }

    fn look_at_index(&self, index: &Index, client: &mut Client, base: &Index, edit: Edit) {
        let forgot_nobody = index.writers.len() < self.remembered;
        let reaches_back = index.writers.first().is_some_and(|(_, revision)| *revision <= base.revision + 1);
        if index.writers.iter().any(|(known, _)| *known == edit) && !self.makes(Mistake::LooksForNoId) {
            finish(client, Outcome::Done);
        } else if index.tag == base.tag {
            client.phase = Phase::Prepared { base: base.clone(), is_sent: true };
        } else if forgot_nobody || reaches_back || self.makes(Mistake::TrustsAShortLog) {
            self.try_again(client);
        } else {
            finish(client, Outcome::Unknown);
        }
    }

    /// The steps of the collection, which is a writer as well.
    fn collect(&self, state: &mut State, step: &Step) -> Option<()> {
        match (step, &mut state.collection) {
            (Step::ListContents, _) => state.collection = Collection::Listed(state.contents.clone()),
            (Step::NoteCollection, Collection::Listed(listed)) => {
                let unused = listed.iter().copied().filter(|content| state.index.content != Some(*content)).collect();
                if !self.makes(Mistake::CollectsInSecret) {
                    state.index.collections += 1;
                    self.remember(&mut state.index, (COLLECTOR, 0));
                }
                state.collection = Collection::Removing(unused);
            }
            (Step::Remove(content), Collection::Removing(unused)) => {
                unused.remove(content);
                state.contents.remove(content);
            }
            _ => return None,
        }
        Some(())
    }
}

/// The collection, among the writers that an index remembers.
const COLLECTOR: Writer = u8::MAX;

impl Model for Protocol {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let client = Client { phase: Phase::Idle, edit: 0, attempt: 0, content: None, outcomes: Vec::new() };
        vec![State {
            index: Index::default(),
            contents: BTreeSet::new(),
            clients: vec![client; usize::from(self.writers)],
            collection: Collection::NotBegun,
            requests: BTreeSet::new(),
            answers: BTreeSet::new(),
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for (writer, client) in (0..).zip(&state.clients) {
            match client.phase {
                Phase::Idle if client.edit < self.edits => steps.push(Step::ReadIndex(writer)),
                Phase::Idle | Phase::Crashed => continue,
                Phase::Planned { .. } => steps.push(Step::PutContent(writer)),
                Phase::Prepared { is_sent: false, .. } => steps.push(Step::SendSwap(writer)),
                Phase::Prepared { is_sent: true, .. } => {
                    steps.extend([Step::SendSwap(writer), Step::StopWaiting(writer)]);
                }
                Phase::InDoubt { .. } => steps.push(Step::LookAtIndex(writer)),
            }
            if client.phase != Phase::Idle {
                steps.extend([Step::ReachDeadline(writer), Step::Crash(writer)]);
            }
        }
        steps.extend(state.requests.iter().cloned().map(Step::Serve));
        steps.extend(state.answers.iter().map(|&(edit, answer)| Step::Hear(edit, answer)));
        match &state.collection {
            Collection::NotBegun if !self.collects => {}
            Collection::NotBegun => steps.push(Step::ListContents),
            Collection::Listed(_) => steps.push(Step::NoteCollection),
            Collection::Removing(unused) => steps.extend(unused.iter().copied().map(Step::Remove)),
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::ReadIndex(writer) => {
                next.clients[usize::from(writer)].phase = Phase::Planned { base: state.index.clone() };
            }
            Step::PutContent(writer) => {
                let client = &mut next.clients[usize::from(writer)];
                let edit = (writer, client.edit);
                self.put_content(&mut next.contents, client, edit);
            }
            Step::SendSwap(writer) => {
                let client = &mut next.clients[usize::from(writer)];
                let content = client.content?;
                let Phase::Prepared { base, is_sent } = &mut client.phase else { return None };
                *is_sent = true;
                next.requests.insert(Swap { base: base.clone(), edit: (writer, client.edit), content });
            }
            Step::Serve(swap) => self.serve(&mut next, &swap),
            Step::Hear(edit, answer) => {
                next.answers.remove(&(edit, answer));
                let client = &mut next.clients[usize::from(edit.0)];
                let Phase::Prepared { base, is_sent: true } = &client.phase else { return None };
                match answer {
                    Answer::Done => finish(client, Outcome::Done),
                    Answer::Refused if self.makes(Mistake::BelievesRefusals) => self.try_again(client),
                    Answer::Refused => client.phase = Phase::InDoubt { base: base.clone() },
                }
            }
            Step::StopWaiting(writer) => {
                let client = &mut next.clients[usize::from(writer)];
                let Phase::Prepared { base, .. } = &client.phase else { return None };
                client.phase = Phase::InDoubt { base: base.clone() };
            }
            Step::LookAtIndex(writer) => {
                let client = &mut next.clients[usize::from(writer)];
                let edit = (writer, client.edit);
                let Phase::InDoubt { base } = client.phase.clone() else { return None };
                self.look_at_index(&state.index, client, &base, edit);
            }
            Step::ReachDeadline(writer) => {
                let client = &mut next.clients[usize::from(writer)];
                let is_certain = matches!(client.phase, Phase::Planned { .. } | Phase::Prepared { is_sent: false, .. });
                let is_unchanged = is_certain || self.makes(Mistake::CallsUnknownUnchanged);
                finish(client, if is_unchanged { Outcome::Unchanged } else { Outcome::Unknown });
            }
            Step::Crash(writer) => next.clients[usize::from(writer)].phase = Phase::Crashed,
            Step::ListContents | Step::NoteCollection | Step::Remove(_) => self.collect(&mut next, &step)?,
        }
        forget_what_has_no_effect(&mut next);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always("an edit takes effect at most once", |_, state| {
                state.index.file.iter().collect::<BTreeSet<_>>().len() == state.index.file.len()
            }),
            Property::<Self>::always("an acknowledged edit is there", |_, state| {
                edits_with(state, Outcome::Done).all(|edit| state.index.file.contains(&edit))
            }),
            Property::<Self>::always("an edit that is said to have changed nothing never takes effect", |_, state| {
                edits_with(state, Outcome::Unchanged).all(|edit| !state.index.file.contains(&edit))
            }),
            Property::<Self>::always("what the index refers to is there", |_, state| {
                state.index.content.is_none_or(|content| state.contents.contains(&content))
            }),
            Property::<Self>::sometimes("every edit is acknowledged", |protocol, state| {
                edits_with(state, Outcome::Done).count() == usize::from(protocol.writers * protocol.edits)
            }),
            Property::<Self>::sometimes("a writer never learns what came of its edit", |_, state| {
                edits_with(state, Outcome::Unknown).any(|edit| state.index.file.contains(&edit))
            }),
        ]
    }
}

fn finish(client: &mut Client, outcome: Outcome) {
    client.outcomes.push(outcome);
    client.edit += 1;
    client.attempt = 0;
    client.content = None;
    client.phase = Phase::Idle;
}

/// Swaps that can only be refused, and answers, where nobody waits for them: without them there are far fewer states.
fn forget_what_has_no_effect(state: &mut State) {
    let State { clients, requests, answers, index, .. } = state;
    let is_awaited = |(writer, edit): Edit| {
        let client = &clients[usize::from(writer)];
        client.edit == edit && matches!(client.phase, Phase::Prepared { .. })
    };
    requests.retain(|swap| swap.base.tag == index.tag || is_awaited(swap.edit));
    answers.retain(|(edit, _)| is_awaited(*edit));
}

fn edits_with(state: &State, wanted: Outcome) -> impl Iterator<Item = Edit> + '_ {
    let outcomes = (0..).zip(&state.clients).flat_map(|(writer, client)| {
        (0..).zip(&client.outcomes).map(move |(edit, outcome)| ((writer, edit), *outcome))
    });
    outcomes.filter(move |(_, outcome)| *outcome == wanted).map(|(edit, _)| edit)
}

#[test]
fn three_writers_lose_nothing_and_do_nothing_twice() {
    let protocol = Protocol { writers: 3, edits: 1, attempts: 2, remembered: 2, collects: true, mistake: None };
    let checked = protocol.checker().threads(2).spawn_bfs().join();
    println!("{} states", checked.unique_state_count());
    checked.assert_properties();
}

#[test]
fn two_writers_of_two_edits_each_lose_nothing_and_do_nothing_twice() {
    let protocol = Protocol { writers: 2, edits: 2, attempts: 2, remembered: 1, collects: false, mistake: None };
    let checked = protocol.checker().threads(2).spawn_bfs().join();
    println!("{} states", checked.unique_state_count());
    checked.assert_properties();
}

#[test]
fn each_mistake_is_found() {
    for (mistake, property) in [
        (Mistake::BelievesRefusals, "an edit that is said to have changed nothing never takes effect"),
        (Mistake::LooksForNoId, "an edit that is said to have changed nothing never takes effect"),
        (Mistake::TrustsAShortLog, "an edit that is said to have changed nothing never takes effect"),
        (Mistake::SwapsFirst, "what the index refers to is there"),
        (Mistake::CollectsInSecret, "what the index refers to is there"),
        (Mistake::KeepsContents, "what the index refers to is there"),
        (Mistake::CallsUnknownUnchanged, "an edit that is said to have changed nothing never takes effect"),
    ] {
        let protocol =
            Protocol { writers: 3, edits: 1, attempts: 2, remembered: 1, collects: true, mistake: Some(mistake) };
        let checked = protocol.checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
        let found = checked.discoveries();
        assert!(found.contains_key(property), "{mistake:?}: {:?}", found.keys());
    }
}
