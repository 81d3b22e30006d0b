//! A model of the protocol in `docs/buckets.md`. The model checker explores every order of steps, with writers
//! that crash, requests and responses that are lost, delayed or repeated, and a concurrent garbage collection.
//!
//! The model has one file. Each edit appends its own name, so the file shows which edits took effect.

use std::collections::BTreeSet;

use stateright::{Checker, HasDiscoveries, Model, Property};

type Writer = u8;

/// An edit that a caller requested from a writer.
type Edit = (Writer, u8);

/// A content object: the edit that uploaded it, and the number of garbage collections when it was planned.
type Content = (Edit, u8);

/// The index object. `tag` stands for its entity tag or generation.
#[derive(Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
struct Index {
    tag: u8,
    revision: u8,
    /// The number of garbage collections.
    collections: u8,
    /// The last edit of each recent writer with its resulting revision, the newest last.
    writers: Vec<(Edit, u8)>,
    /// The edits in the file.
    file: Vec<Edit>,
    /// The content object of the file.
    content: Option<Content>,
}

/// A compare-and-swap of the index: the state to replace, and the edit with its content.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
struct Swap {
    base: Index,
    edit: Edit,
    content: Content,
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
enum Response {
    Done,
    Refused,
}

/// The phase of a writer.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Phase {
    /// Between two attempts.
    Idle,
    /// Has read the index. Next it uploads the content.
    Planned {
        base: Index,
    },
    /// Has uploaded the content. It sends the swap until it receives a response.
    Prepared {
        base: Index,
        is_sent: bool,
    },
    /// Was refused or timed out. Next it checks the index.
    InDoubt {
        base: Index,
    },
    Crashed,
}

/// The reported outcome of an edit.
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
    /// The content that was uploaded for this edit.
    content: Option<Content>,
    outcomes: Vec<Outcome>,
}

/// The phase of the garbage collection. It may stop at any point.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Collection {
    NotStarted,
    /// Has listed the bucket.
    Listed(BTreeSet<Content>),
    /// Is recorded in the index, and removes these contents.
    Removing(BTreeSet<Content>),
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct State {
    index: Index,
    contents: BTreeSet<Content>,
    clients: Vec<Client>,
    collection: Collection,
    /// Swaps in transit to the server. They stay after processing, because they may be repeated.
    requests: BTreeSet<Swap>,
    /// Responses in transit. A response that is never received is lost.
    responses: BTreeSet<(Edit, Response)>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Step {
    ReadIndex(Writer),
    UploadContent(Writer),
    SendSwap(Writer),
    Serve(Swap),
    Receive(Edit, Response),
    TimeOut(Writer),
    CheckIndex(Writer),
    GiveUp(Writer),
    Crash(Writer),
    ListContents,
    RecordCollection,
    Remove(Content),
}

/// A possible mistake of the protocol, which the model must detect.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mistake {
    /// Treats a refusal as final, although the first attempt of the same swap may have caused it.
    TrustsRefusals,
    /// Does not search the log for its own edit.
    IgnoresLog,
    /// Assumes that an edit failed if the log is too short to contain it.
    TrustsShortLog,
    /// Sends the swap before uploading the content.
    SwapsFirst,
    /// Does not record garbage collections in the index.
    HidesCollections,
    /// Uses a content that was uploaded before a garbage collection.
    ReusesContents,
    /// Reports a timeout as an unchanged file.
    ReportsUnknownAsUnchanged,
}

struct Protocol {
    writers: u8,
    edits: u8,
    attempts: u8,
    /// The number of writers in the log.
    remembered: usize,
    /// Whether garbage collection runs.
    collects: bool,
    mistake: Option<Mistake>,
}

impl Protocol {
    fn has(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// Starts the next attempt, because the sent swap can no longer take effect.
    fn retry(&self, client: &mut Client) {
        if client.attempt + 1 == self.attempts {
            finish(client, Outcome::Unchanged);
        } else {
            client.attempt += 1;
            client.phase = Phase::Idle;
        }
    }

    fn serve(&self, state: &mut State, swap: &Swap) {
        let response = if state.index.tag == swap.base.tag {
            state.index = self.swapped(swap);
            Response::Done
        } else {
            Response::Refused
        };
        state.responses.insert((swap.edit, response));
    }

    fn swapped(&self, swap: &Swap) -> Index {
        let mut index = swap.base.clone();
        self.log(&mut index, swap.edit);
        index.file.push(swap.edit);
        index.content = Some(swap.content);
        index
    }

    /// Adds the edit to the log in the index.
    fn log(&self, index: &mut Index, edit: Edit) {
        index.tag += 1;
        index.revision += 1;
        index.writers.retain(|((writer, _), _)| *writer != edit.0);
        if index.writers.len() == self.remembered {
            index.writers.remove(0);
        }
        index.writers.push((edit, index.revision));
    }

    fn upload_content(&self, contents: &mut BTreeSet<Content>, client: &mut Client, edit: Edit) {
        let Phase::Planned { base } = client.phase.clone() else { return };
        let reuses_any = self.has(Mistake::ReusesContents);
        let is_usable = |(_, collections)| collections == base.collections || reuses_any;
        if !client.content.is_some_and(is_usable) {
            let content = (edit, base.collections);
            client.content = Some(content);
            if !self.has(Mistake::SwapsFirst) {
                contents.insert(content);
            }
        }
        client.phase = Phase::Prepared { base, is_sent: false };
    }

    fn check_index(&self, index: &Index, client: &mut Client, base: &Index, edit: Edit) {
        let is_complete = index.writers.len() < self.remembered;
        let reaches_back = index.writers.first().is_some_and(|(_, revision)| *revision <= base.revision + 1);
        if index.writers.iter().any(|(known, _)| *known == edit) && !self.has(Mistake::IgnoresLog) {
            finish(client, Outcome::Done);
        } else if index.tag == base.tag {
            client.phase = Phase::Prepared { base: base.clone(), is_sent: true };
        } else if is_complete || reaches_back || self.has(Mistake::TrustsShortLog) {
            self.retry(client);
        } else {
            finish(client, Outcome::Unknown);
        }
    }

    /// Runs a step of the garbage collection, which is also a writer.
    fn collect(&self, state: &mut State, step: &Step) -> Option<()> {
        match (step, &mut state.collection) {
            (Step::ListContents, _) => state.collection = Collection::Listed(state.contents.clone()),
            (Step::RecordCollection, Collection::Listed(listed)) => {
                let unused = listed.iter().copied().filter(|content| state.index.content != Some(*content)).collect();
                if !self.has(Mistake::HidesCollections) {
                    state.index.collections += 1;
                    self.log(&mut state.index, (COLLECTOR, 0));
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

/// The garbage collection as a writer in the log.
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
            collection: Collection::NotStarted,
            requests: BTreeSet::new(),
            responses: BTreeSet::new(),
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for (writer, client) in (0..).zip(&state.clients) {
            match client.phase {
                Phase::Idle if client.edit < self.edits => steps.push(Step::ReadIndex(writer)),
                Phase::Idle | Phase::Crashed => continue,
                Phase::Planned { .. } => steps.push(Step::UploadContent(writer)),
                Phase::Prepared { is_sent: false, .. } => steps.push(Step::SendSwap(writer)),
                Phase::Prepared { is_sent: true, .. } => {
                    steps.extend([Step::SendSwap(writer), Step::TimeOut(writer)]);
                }
                Phase::InDoubt { .. } => steps.push(Step::CheckIndex(writer)),
            }
            if client.phase != Phase::Idle {
                steps.extend([Step::GiveUp(writer), Step::Crash(writer)]);
            }
        }
        steps.extend(state.requests.iter().cloned().map(Step::Serve));
        steps.extend(state.responses.iter().map(|&(edit, response)| Step::Receive(edit, response)));
        match &state.collection {
            Collection::NotStarted if !self.collects => {}
            Collection::NotStarted => steps.push(Step::ListContents),
            Collection::Listed(_) => steps.push(Step::RecordCollection),
            Collection::Removing(unused) => steps.extend(unused.iter().copied().map(Step::Remove)),
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::ReadIndex(writer) => {
                next.clients[usize::from(writer)].phase = Phase::Planned { base: state.index.clone() };
            }
            Step::UploadContent(writer) => {
                let client = &mut next.clients[usize::from(writer)];
                let edit = (writer, client.edit);
                self.upload_content(&mut next.contents, client, edit);
            }
            Step::SendSwap(writer) => {
                let client = &mut next.clients[usize::from(writer)];
                let content = client.content?;
                let Phase::Prepared { base, is_sent } = &mut client.phase else { return None };
                *is_sent = true;
                next.requests.insert(Swap { base: base.clone(), edit: (writer, client.edit), content });
            }
            Step::Serve(swap) => self.serve(&mut next, &swap),
            Step::Receive(edit, response) => {
                next.responses.remove(&(edit, response));
                let client = &mut next.clients[usize::from(edit.0)];
                let Phase::Prepared { base, is_sent: true } = &client.phase else { return None };
                match response {
                    Response::Done => finish(client, Outcome::Done),
                    Response::Refused if self.has(Mistake::TrustsRefusals) => self.retry(client),
                    Response::Refused => client.phase = Phase::InDoubt { base: base.clone() },
                }
            }
            Step::TimeOut(writer) => {
                let client = &mut next.clients[usize::from(writer)];
                let Phase::Prepared { base, .. } = &client.phase else { return None };
                client.phase = Phase::InDoubt { base: base.clone() };
            }
            Step::CheckIndex(writer) => {
                let client = &mut next.clients[usize::from(writer)];
                let edit = (writer, client.edit);
                let Phase::InDoubt { base } = client.phase.clone() else { return None };
                self.check_index(&state.index, client, &base, edit);
            }
            Step::GiveUp(writer) => {
                let client = &mut next.clients[usize::from(writer)];
                let is_certain = matches!(client.phase, Phase::Planned { .. } | Phase::Prepared { is_sent: false, .. });
                let is_unchanged = is_certain || self.has(Mistake::ReportsUnknownAsUnchanged);
                finish(client, if is_unchanged { Outcome::Unchanged } else { Outcome::Unknown });
            }
            Step::Crash(writer) => next.clients[usize::from(writer)].phase = Phase::Crashed,
            Step::ListContents | Step::RecordCollection | Step::Remove(_) => self.collect(&mut next, &step)?,
        }
        drop_messages_without_effect(&mut next);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always("an edit takes effect at most once", |_, state| {
                state.index.file.iter().collect::<BTreeSet<_>>().len() == state.index.file.len()
            }),
            Property::<Self>::always("an acknowledged edit is in the file", |_, state| {
                edits_with(state, Outcome::Done).all(|edit| state.index.file.contains(&edit))
            }),
            Property::<Self>::always("an edit that reported no change never takes effect", |_, state| {
                edits_with(state, Outcome::Unchanged).all(|edit| !state.index.file.contains(&edit))
            }),
            Property::<Self>::always("the content of the index exists", |_, state| {
                state.index.content.is_none_or(|content| state.contents.contains(&content))
            }),
            Property::<Self>::sometimes("every edit is acknowledged", |protocol, state| {
                edits_with(state, Outcome::Done).count() == usize::from(protocol.writers * protocol.edits)
            }),
            Property::<Self>::sometimes("a writer never learns the outcome of its edit", |_, state| {
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

/// Removes messages without effect: responses and refused swaps that no writer waits for. This reduces the number of
/// states.
fn drop_messages_without_effect(state: &mut State) {
    let State { clients, requests, responses, index, .. } = state;
    let is_awaited = |(writer, edit): Edit| {
        let client = &clients[usize::from(writer)];
        client.edit == edit && matches!(client.phase, Phase::Prepared { .. })
    };
    requests.retain(|swap| swap.base.tag == index.tag || is_awaited(swap.edit));
    responses.retain(|(edit, _)| is_awaited(*edit));
}

fn edits_with(state: &State, wanted: Outcome) -> impl Iterator<Item = Edit> + '_ {
    let outcomes = (0..).zip(&state.clients).flat_map(|(writer, client)| {
        (0..).zip(&client.outcomes).map(move |(edit, outcome)| ((writer, edit), *outcome))
    });
    outcomes.filter(move |(_, outcome)| *outcome == wanted).map(|(edit, _)| edit)
}

#[test]
fn three_writers_apply_each_edit_once() {
    let protocol = Protocol { writers: 3, edits: 1, attempts: 2, remembered: 2, collects: true, mistake: None };
    let checked = protocol.checker().threads(2).spawn_bfs().join();
    println!("{} states", checked.unique_state_count());
    checked.assert_properties();
}

#[test]
fn two_writers_apply_two_edits_each_once() {
    let protocol = Protocol { writers: 2, edits: 2, attempts: 2, remembered: 1, collects: false, mistake: None };
    let checked = protocol.checker().threads(2).spawn_bfs().join();
    println!("{} states", checked.unique_state_count());
    checked.assert_properties();
}

#[test]
fn mistakes_are_detected() {
    for (mistake, property) in [
        (Mistake::TrustsRefusals, "an edit that reported no change never takes effect"),
        (Mistake::IgnoresLog, "an edit that reported no change never takes effect"),
        (Mistake::TrustsShortLog, "an edit that reported no change never takes effect"),
        (Mistake::SwapsFirst, "the content of the index exists"),
        (Mistake::HidesCollections, "the content of the index exists"),
        (Mistake::ReusesContents, "the content of the index exists"),
        (Mistake::ReportsUnknownAsUnchanged, "an edit that reported no change never takes effect"),
    ] {
        let protocol =
            Protocol { writers: 3, edits: 1, attempts: 2, remembered: 1, collects: true, mistake: Some(mistake) };
        let checked = protocol.checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
        let found = checked.discoveries();
        assert!(found.contains_key(property), "{mistake:?}: {:?}", found.keys());
    }
}
