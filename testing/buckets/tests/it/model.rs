//! A model of the protocol in `docs/bucket-protocol.md`. The model checker explores every order of steps, with requests
//! and responses that are lost, delayed or repeated, and concurrent checkpoints, trims and garbage collections.
//!
//! The model has one file. Each edit replaces its content. Crashes and lost requests have no step: every property
//! applies to every state, also if a process takes no further step and a request is never served.

use std::collections::BTreeSet;

use memory_tool_test_fixtures::{by_tier, in_full};
use stateright::{Checker, HasDiscoveries, Model, Property};

type Writer = u8;

/// An edit that a caller requested from a writer.
type Edit = (Writer, u8);

/// The number of a commit. The first commit of a store, which is never trimmed, has the number 0 here.
type Number = u8;

/// A content object: the edit that uploaded it, and the number of garbage collections that its writer knew.
type Content = (Edit, u8);

/// A checkpoint and the run that it adds. Each is written once, under a unique name.
type Checkpoint = u8;

/// An object with a unique name.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
enum Object {
    Content(Content),
    Run(Checkpoint),
    Manifest(Checkpoint),
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
enum Commit {
    Edit(Edit, Content),
    Collection,
    Checkpoint(Checkpoint),
}

/// The creation of an edit's commit. Its number and its edit stand for the commit's id.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
struct Create {
    number: Number,
    edit: Edit,
    content: Content,
}

/// The object under a number of the log.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Slot {
    Free,
    Commit,
    Marker,
}

/// A number of the log with every commit that was ever created under it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Entry {
    slot: Slot,
    commits: Vec<Commit>,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Phase {
    /// Between two attempts.
    Idle,
    /// Has planned on its state and uploaded the content.
    Prepared,
    /// Has sent the commit, maybe several times, and waits for success.
    Sent,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Outcome {
    Done,
    Unchanged,
    Unknown,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Client {
    phase: Phase,
    /// The last commit that this writer has read. Its next commit has the number after it.
    known: Number,
    edit: u8,
    attempt: u8,
    /// The content that was uploaded for this edit.
    content: Option<Content>,
    outcomes: Vec<Outcome>,
}

/// The next step of a checkpoint.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Stage {
    Plan,
    PutRun,
    PutManifest,
    /// Appends a commit that refers to the manifest.
    Note,
    End,
}

/// A process that writes one checkpoint.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct CheckpointWriter {
    stage: Stage,
    /// The commit whose state the checkpoint has.
    number: Number,
    /// Its run, and the runs of the checkpoint that it extends.
    runs: Vec<Checkpoint>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Collection {
    NotStarted,
    /// Has listed the bucket.
    Listed(BTreeSet<Object>),
    /// Is in the log, and removes these objects.
    Removing(BTreeSet<Object>),
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Reader {
    /// Has not opened the store.
    Closed,
    /// Between two reads.
    Asleep { known: Number },
    /// Must return a state that is at least `owed`. `seen` contains the manifests of the last listing, `ahead` an early
    /// response for the number after the next one.
    Polling { known: Number, owed: Number, seen: Vec<Checkpoint>, ahead: Option<Slot> },
    /// Tries the manifests of `left`, the newest last. `runs` are missing from the one that it has read.
    Loading { owed: Number, seen: Vec<Checkpoint>, left: Vec<Checkpoint>, runs: Option<Vec<Checkpoint>> },
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct State {
    log: Vec<Entry>,
    objects: BTreeSet<Object>,
    /// Objects that were removed. A repeated upload may restore them.
    removed: BTreeSet<Object>,
    clients: Vec<Client>,
    checkpoints: Vec<CheckpointWriter>,
    collections: Vec<Collection>,
    reader: Reader,
    reads: u8,
    /// Requests in transit. They stay after processing, because they may be repeated.
    requests: BTreeSet<Create>,
    /// Whether a read returned an old state.
    is_stale: bool,
    /// Whether a process reported the store as damaged.
    is_damaged: bool,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Step {
    ReadNext(Writer),
    Plan(Writer),
    Send(Writer),
    Serve(Create),
    ReceiveSuccess(Writer),
    ReceiveRefusal(Writer),
    Check(Writer),
    GiveUp(Writer),
    PlanCheckpoint(Checkpoint, bool),
    WriteCheckpoint(Checkpoint),
    Trim(Number),
    ListObjects(u8),
    NoteCollection(u8),
    Remove(u8, Object),
    RepeatUpload(Object),
    Read,
    ReadAhead,
}

/// A possible mistake of the protocol, which the model must detect.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mistake {
    /// Treats a refusal as final, although the first attempt of the same request may have caused it.
    TrustsRefusals,
    /// Plans again after a refusal without comparing the commit's id.
    IgnoresIds,
    /// Sends another commit under the next number when the log does not have the first one yet.
    SkipsNumbers,
    /// Reports a timeout as an unchanged file.
    ReportsUnknownAsUnchanged,
    /// Reports an edit as unchanged if its number was trimmed.
    TrustsMarkers,
    /// Removes trimmed commits, so that their numbers are free.
    FreesNumbers,
    /// Trims a commit that no checkpoint covers.
    TrimsUncovered,
    /// Treats an existing manifest like a checkpoint of the log: trims under it, and spares it in a collection.
    TrustsManifests,
    /// Sends the commit before uploading the content.
    CommitsFirst,
    /// Does not record garbage collections in the log.
    HidesCollections,
    /// Uses a content that was uploaded before a garbage collection.
    ReusesContents,
    /// Collects the checkpoint of the log if a newer manifest exists.
    KeepsNewestManifest,
    /// Collects the checkpoint of the log.
    CollectsCheckpoints,
    /// Refers to a checkpoint that was planned before a garbage collection.
    ReusesRuns,
    /// Reports damage if an object of a listed checkpoint is missing.
    ListsOnce,
}

struct Protocol {
    writers: u8,
    edits: u8,
    attempts: u8,
    checkpoints: u8,
    /// Whether a checkpoint can contain the runs of an earlier one.
    extends: bool,
    collections: u8,
    reads: u8,
    /// Whether uploads can be repeated after a removal.
    repeats: bool,
    mistake: Option<Mistake>,
}

impl State {
    fn slot(&self, number: Number) -> Slot {
        self.log.get(usize::from(number)).map_or(Slot::Free, |entry| entry.slot)
    }

    fn last(&self) -> Number {
        (0..).zip(&self.log).filter(|(_, entry)| !entry.commits.is_empty()).map(|(n, _)| n).last().unwrap_or(0)
    }

    /// Returns every commit that was created up to `number`.
    fn commits(&self, number: Number) -> impl Iterator<Item = Commit> + '_ {
        self.log.iter().take(usize::from(number) + 1).flat_map(|entry| entry.commits.iter().copied())
    }

    fn collections(&self, number: Number) -> usize {
        self.commits(number).filter(|commit| *commit == Commit::Collection).count()
    }

    /// Returns the newest checkpoint that the log refers to.
    fn base(&self, number: Number) -> Option<Checkpoint> {
        let noted = self.commits(number).filter_map(|commit| match commit {
            Commit::Checkpoint(checkpoint) => Some(checkpoint),
            _ => None,
        });
        noted.max_by_key(|checkpoint| self.number_of(*checkpoint))
    }

    fn number_of(&self, checkpoint: Checkpoint) -> Number {
        self.checkpoints[usize::from(checkpoint)].number
    }

    /// Returns the manifests that exist, the newest last.
    fn manifests(&self) -> Vec<Checkpoint> {
        let manifests = self.objects.iter().filter_map(|object| match object {
            Object::Manifest(checkpoint) => Some(*checkpoint),
            _ => None,
        });
        let mut manifests: Vec<_> = manifests.collect();
        manifests.sort_by_key(|checkpoint| self.number_of(*checkpoint));
        manifests
    }

    fn objects_of(&self, checkpoint: Checkpoint) -> impl Iterator<Item = Object> + '_ {
        let runs = self.checkpoints[usize::from(checkpoint)].runs.iter().copied().map(Object::Run);
        runs.chain([Object::Manifest(checkpoint)])
    }

    /// Returns the contents that the last state or a commit that is not trimmed refers to.
    fn used_contents(&self) -> BTreeSet<Object> {
        let contents = self.log.iter().flat_map(|entry| {
            entry.commits.iter().filter_map(|commit| match commit {
                Commit::Edit(_, content) => Some((entry.slot, Object::Content(*content))),
                _ => None,
            })
        });
        let contents: Vec<_> = contents.collect();
        let last = contents.last().map(|(_, content)| *content);
        contents.into_iter().filter(|(slot, _)| *slot == Slot::Commit).map(|(_, content)| content).chain(last).collect()
    }

    fn append(&mut self, commit: Commit) {
        self.put(self.last() + 1, commit);
    }

    fn put(&mut self, number: Number, commit: Commit) {
        let free = Entry { slot: Slot::Free, commits: Vec::new() };
        self.log.resize(self.log.len().max(usize::from(number) + 1), free);
        let entry = &mut self.log[usize::from(number)];
        entry.slot = Slot::Commit;
        entry.commits.push(commit);
    }

    /// Whether the commit of this edit was ever created under this number.
    fn has(&self, number: Number, edit: Edit) -> bool {
        let commits = self.log.get(usize::from(number)).map_or(&[][..], |entry| &entry.commits);
        commits.iter().any(|commit| matches!(commit, Commit::Edit(other, _) if *other == edit))
    }
}

impl Protocol {
    fn has(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// Starts the next attempt after the commit `known`, because the sent one can no longer take effect.
    fn retry(&self, client: &mut Client, known: Number) {
        client.known = known;
        if client.attempt + 1 == self.attempts {
            finish(client, Outcome::Unchanged);
        } else {
            client.attempt += 1;
            client.phase = Phase::Idle;
        }
    }

    fn read_next(&self, state: &mut State, writer: Writer) -> Option<()> {
        let known = state.clients[usize::from(writer)].known;
        let known = match state.slot(known + 1) {
            Slot::Free => return None,
            Slot::Commit => known + 1,
            Slot::Marker => {
                let loaded = self.loadable(state);
                state.is_damaged |= loaded <= known;
                loaded.max(known)
            }
        };
        state.clients[usize::from(writer)].known = known;
        Some(())
    }

    /// Returns the number of the newest checkpoint that is complete.
    fn loadable(&self, state: &State) -> Number {
        let is_complete =
            |checkpoint: &Checkpoint| state.objects_of(*checkpoint).all(|object| state.objects.contains(&object));
        state.manifests().into_iter().rfind(is_complete).map_or(0, |checkpoint| state.number_of(checkpoint))
    }

    fn plan(&self, state: &mut State, writer: Writer) {
        let client = &state.clients[usize::from(writer)];
        let collections = state.collections(client.known) as u8;
        let edit = (writer, client.edit);
        let content = client.content.filter(|content| content.1 == collections || self.has(Mistake::ReusesContents));
        let content = content.unwrap_or((edit, collections));
        if client.content != Some(content) && !self.has(Mistake::CommitsFirst) {
            state.objects.insert(Object::Content(content));
        }
        let client = &mut state.clients[usize::from(writer)];
        client.content = Some(content);
        client.phase = Phase::Prepared;
    }

    fn check(&self, state: &mut State, writer: Writer) -> Option<()> {
        let client = &state.clients[usize::from(writer)];
        let number = client.known + 1;
        let is_own = state.has(number, (writer, client.edit));
        let slot = state.slot(number);
        let client = &mut state.clients[usize::from(writer)];
        match slot {
            Slot::Commit if is_own && !self.has(Mistake::IgnoresIds) => finish(client, Outcome::Done),
            Slot::Commit => self.retry(client, number),
            Slot::Marker if self.has(Mistake::TrustsMarkers) => finish(client, Outcome::Unchanged),
            Slot::Marker => finish(client, Outcome::Unknown),
            Slot::Free if self.has(Mistake::SkipsNumbers) => self.retry(client, number),
            // Sends the same bytes again, which changes nothing here, as requests may be repeated.
            Slot::Free => return None,
        }
        Some(())
    }

    fn give_up(&self, client: &mut Client) {
        let is_certain = client.phase != Phase::Sent || self.has(Mistake::ReportsUnknownAsUnchanged);
        finish(client, if is_certain { Outcome::Unchanged } else { Outcome::Unknown });
    }

    /// Plans a checkpoint of the last state. It lags behind if others continue before its next step.
    fn plan_checkpoint(&self, state: &mut State, checkpoint: Checkpoint, extends: bool) {
        let number = state.last();
        let base = state.base(number).filter(|_| extends);
        let mut runs = base.map_or(Vec::new(), |base| state.checkpoints[usize::from(base)].runs.clone());
        runs.push(checkpoint);
        state.checkpoints[usize::from(checkpoint)] = CheckpointWriter { stage: Stage::PutRun, number, runs };
    }

    fn write_checkpoint(&self, state: &mut State, checkpoint: Checkpoint) {
        let writer = &mut state.checkpoints[usize::from(checkpoint)];
        match writer.stage {
            Stage::PutRun => {
                writer.stage = Stage::PutManifest;
                state.objects.insert(Object::Run(checkpoint));
            }
            Stage::PutManifest => {
                writer.stage = Stage::Note;
                state.objects.insert(Object::Manifest(checkpoint));
            }
            Stage::Plan | Stage::Note | Stage::End => {
                writer.stage = Stage::End;
                let number = writer.number;
                let last = state.last();
                let is_newest = state.base(last).is_none_or(|base| state.number_of(base) < number);
                let is_whole = state.collections(last) == state.collections(number);
                if is_newest && (is_whole || self.has(Mistake::ReusesRuns)) {
                    state.append(Commit::Checkpoint(checkpoint));
                }
            }
        }
    }

    /// Returns the last number that may be trimmed.
    fn trim_limit(&self, state: &State) -> Number {
        let base = match self.mistake {
            Some(Mistake::TrustsManifests) => state.manifests().last().copied(),
            _ => state.base(state.last()),
        };
        let limit = base.map_or(0, |base| state.number_of(base));
        limit + Number::from(self.has(Mistake::TrimsUncovered))
    }

    fn note_collection(&self, state: &State, listed: &BTreeSet<Object>) -> BTreeSet<Object> {
        let mut used = state.used_contents();
        let base = match self.mistake {
            Some(Mistake::KeepsNewestManifest) => state.manifests().last().copied(),
            Some(Mistake::CollectsCheckpoints) => None,
            _ => state.base(state.last()),
        };
        let trusted = if self.has(Mistake::TrustsManifests) { state.manifests() } else { Vec::new() };
        used.extend(base.into_iter().chain(trusted).flat_map(|checkpoint| state.objects_of(checkpoint)));
        listed.difference(&used).copied().collect()
    }

    fn collect(&self, state: &mut State, step: &Step) -> Option<()> {
        match *step {
            Step::ListObjects(index) => {
                state.collections[usize::from(index)] = Collection::Listed(state.objects.clone());
            }
            Step::NoteCollection(index) => {
                let Collection::Listed(listed) = &state.collections[usize::from(index)] else { return None };
                let unused = self.note_collection(state, listed);
                if !self.has(Mistake::HidesCollections) && !unused.is_empty() {
                    state.append(Commit::Collection);
                }
                state.collections[usize::from(index)] = Collection::Removing(unused);
            }
            Step::Remove(index, object) => {
                let Collection::Removing(unused) = &mut state.collections[usize::from(index)] else { return None };
                unused.remove(&object);
                if state.objects.remove(&object) && self.repeats {
                    state.removed.insert(object);
                }
            }
            _ => return None,
        }
        Some(())
    }

    /// Makes the next request of the reader. A read begins with its first request.
    fn read(&self, state: &mut State) {
        let last = state.last();
        match state.reader.clone() {
            Reader::Closed => self.list_checkpoints(state, last, None),
            Reader::Asleep { known } => self.poll(state, known, last, Vec::new(), None),
            Reader::Polling { known, owed, seen, ahead } => self.poll(state, known, owed, seen, ahead),
            Reader::Loading { owed, seen, left, runs } => self.load(state, owed, seen, left, runs),
        }
    }

    /// Reads two numbers at once. The later one is served first.
    fn read_ahead(&self, state: &mut State) -> Option<()> {
        let (known, owed, seen) = match state.reader.clone() {
            Reader::Asleep { known } => (known, state.last(), Vec::new()),
            Reader::Polling { known, owed, seen, ahead: None } => (known, owed, seen),
            _ => return None,
        };
        state.reader = Reader::Polling { known, owed, seen, ahead: Some(state.slot(known + 2)) };
        Some(())
    }

    fn poll(&self, state: &mut State, known: Number, owed: Number, seen: Vec<Checkpoint>, ahead: Option<Slot>) {
        match (state.slot(known + 1), ahead) {
            (Slot::Free, _) => answer(state, known, owed),
            (Slot::Commit, Some(Slot::Free)) => answer(state, known + 1, owed),
            (Slot::Commit, None) => state.reader = Reader::Polling { known: known + 1, owed, seen, ahead: None },
            (Slot::Commit, Some(Slot::Commit)) => {
                state.reader = Reader::Polling { known: known + 2, owed, seen, ahead: None };
            }
            (Slot::Marker, _) | (Slot::Commit, Some(Slot::Marker)) => self.list_checkpoints(state, owed, Some(seen)),
        }
    }

    /// Lists the checkpoints after a marker. Reports damage if an earlier listing contained all of them: a number
    /// is trimmed after a checkpoint covers it.
    fn list_checkpoints(&self, state: &mut State, owed: Number, earlier: Option<Vec<Checkpoint>>) {
        let left = state.manifests();
        if let Some(earlier) = earlier {
            state.is_damaged |= left.iter().all(|checkpoint| earlier.contains(checkpoint));
        }
        state.reader = Reader::Loading { owed, seen: left.clone(), left, runs: None };
    }

    /// Reads the newest manifest that is left, or a run of it. If it is missing, continues with an older one. The last
    /// resort is the log from its first commit.
    fn load(
        &self,
        state: &mut State,
        owed: Number,
        seen: Vec<Checkpoint>,
        mut left: Vec<Checkpoint>,
        runs: Option<Vec<Checkpoint>>,
    ) {
        let Some(&checkpoint) = left.last() else {
            return self.poll(state, 0, owed, seen, None);
        };
        let mut missing = runs.clone().unwrap_or_else(|| state.checkpoints[usize::from(checkpoint)].runs.clone());
        let object = if runs.is_none() { Object::Manifest(checkpoint) } else { Object::Run(missing.remove(0)) };
        if !state.objects.contains(&object) {
            state.is_damaged |= self.has(Mistake::ListsOnce);
            left.pop();
            state.reader = Reader::Loading { owed, seen, left, runs: None };
        } else if missing.is_empty() {
            state.reader = Reader::Polling { known: state.number_of(checkpoint), owed, seen, ahead: None };
        } else {
            state.reader = Reader::Loading { owed, seen, left, runs: Some(missing) };
        }
    }

    fn client_steps(&self, state: &State, writer: Writer, client: &Client, steps: &mut Vec<Step>) {
        match client.phase {
            Phase::Idle if client.edit < self.edits => {
                steps.extend([Step::ReadNext(writer), Step::Plan(writer)]);
                if client.attempt > 0 {
                    steps.push(Step::GiveUp(writer));
                }
            }
            Phase::Idle => {}
            Phase::Prepared => steps.extend([Step::Send(writer), Step::GiveUp(writer)]),
            Phase::Sent => {
                steps.extend([Step::Check(writer), Step::GiveUp(writer)]);
                if state.has(client.known + 1, (writer, client.edit)) {
                    steps.push(Step::ReceiveSuccess(writer));
                }
                if self.has(Mistake::TrustsRefusals) && state.slot(client.known + 1) != Slot::Free {
                    steps.push(Step::ReceiveRefusal(writer));
                }
            }
        }
    }

    fn checkpoint_steps(&self, state: &State, steps: &mut Vec<Step>) {
        for (checkpoint, writer) in (0..).zip(&state.checkpoints) {
            match writer.stage {
                // The processes are alike, so they start in order.
                Stage::Plan
                    if checkpoint > 0 && state.checkpoints[usize::from(checkpoint) - 1].stage == Stage::Plan => {}
                Stage::Plan if state.last() == 0 => {}
                Stage::Plan => {
                    steps.push(Step::PlanCheckpoint(checkpoint, false));
                    if self.extends && state.base(state.last()).is_some() {
                        steps.push(Step::PlanCheckpoint(checkpoint, true));
                    }
                }
                Stage::End => {}
                Stage::PutRun | Stage::PutManifest | Stage::Note => steps.push(Step::WriteCheckpoint(checkpoint)),
            }
        }
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let client = Client { phase: Phase::Idle, known: 0, edit: 0, attempt: 0, content: None, outcomes: Vec::new() };
        let checkpoint = CheckpointWriter { stage: Stage::Plan, number: 0, runs: Vec::new() };
        vec![State {
            log: vec![Entry { slot: Slot::Commit, commits: Vec::new() }],
            objects: BTreeSet::new(),
            removed: BTreeSet::new(),
            clients: vec![client; usize::from(self.writers)],
            checkpoints: vec![checkpoint; usize::from(self.checkpoints)],
            collections: vec![Collection::NotStarted; usize::from(self.collections)],
            reader: Reader::Closed,
            reads: 0,
            requests: BTreeSet::new(),
            is_stale: false,
            is_damaged: false,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for (writer, client) in (0..).zip(&state.clients) {
            self.client_steps(state, writer, client, steps);
        }
        steps.extend(state.requests.iter().copied().map(Step::Serve));
        self.checkpoint_steps(state, steps);
        steps.extend((1..=self.trim_limit(state)).filter(|number| state.slot(*number) == Slot::Commit).map(Step::Trim));
        for (index, collection) in (0..).zip(&state.collections) {
            match collection {
                // Processes that are alike start in order.
                Collection::NotStarted
                    if index > 0 && state.collections[usize::from(index) - 1] == Collection::NotStarted => {}
                Collection::NotStarted => steps.push(Step::ListObjects(index)),
                Collection::Listed(_) => steps.push(Step::NoteCollection(index)),
                Collection::Removing(unused) => {
                    steps.extend(unused.iter().map(|object| Step::Remove(index, *object)));
                }
            }
        }
        steps.extend(state.removed.iter().copied().map(Step::RepeatUpload));
        if state.reads < self.reads {
            steps.extend([Step::Read, Step::ReadAhead]);
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::ReadNext(writer) => self.read_next(&mut next, writer)?,
            Step::Plan(writer) => self.plan(&mut next, writer),
            Step::Send(writer) => {
                let client = &mut next.clients[usize::from(writer)];
                client.phase = Phase::Sent;
                let (number, edit, content) = (client.known + 1, (writer, client.edit), client.content?);
                next.requests.insert(Create { number, edit, content });
            }
            Step::Serve(create) if next.slot(create.number) == Slot::Free => {
                next.put(create.number, Commit::Edit(create.edit, create.content));
            }
            Step::Serve(_) => return None,
            Step::ReceiveSuccess(writer) => {
                let client = &mut next.clients[usize::from(writer)];
                client.known += 1;
                finish(client, Outcome::Done);
            }
            Step::ReceiveRefusal(writer) => finish(&mut next.clients[usize::from(writer)], Outcome::Unchanged),
            Step::Check(writer) => self.check(&mut next, writer)?,
            Step::GiveUp(writer) => self.give_up(&mut next.clients[usize::from(writer)]),
            Step::PlanCheckpoint(checkpoint, extends) => self.plan_checkpoint(&mut next, checkpoint, extends),
            Step::WriteCheckpoint(checkpoint) => self.write_checkpoint(&mut next, checkpoint),
            Step::Trim(number) => {
                let is_freed = self.has(Mistake::FreesNumbers);
                next.log[usize::from(number)].slot = if is_freed { Slot::Free } else { Slot::Marker };
            }
            Step::ListObjects(_) | Step::NoteCollection(_) | Step::Remove(..) => self.collect(&mut next, &step)?,
            Step::RepeatUpload(object) => {
                next.removed.remove(&object);
                next.objects.insert(object);
            }
            Step::Read => self.read(&mut next),
            Step::ReadAhead => self.read_ahead(&mut next)?,
        }
        // A request for a number that is taken has no effect, ever.
        if !self.has(Mistake::FreesNumbers) {
            let State { log, requests, .. } = &mut next;
            requests.retain(|create| log.get(usize::from(create.number)).is_none_or(|entry| entry.slot == Slot::Free));
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always("an edit takes effect at most once", |_, state| {
                let edits: Vec<_> = effective(state).collect();
                edits.iter().collect::<BTreeSet<_>>().len() == edits.len()
            }),
            Property::<Self>::always("an acknowledged edit is in the log", |_, state| {
                edits_with(state, Outcome::Done).all(|edit| effective(state).any(|other| other == edit))
            }),
            Property::<Self>::always("an edit that reported no change never takes effect", |_, state| {
                edits_with(state, Outcome::Unchanged).all(|edit| effective(state).all(|other| other != edit))
            }),
            Property::<Self>::always("each number up to the last has exactly one commit", |_, state| {
                state.log[1..].iter().all(|entry| entry.commits.len() == 1)
            }),
            Property::<Self>::always("the contents of the state and of the log exist", |_, state| {
                state.used_contents().is_subset(&state.objects)
            }),
            Property::<Self>::always("the checkpoint of the log exists", |_, state| {
                let base = state.base(state.last());
                base.is_none_or(|base| state.objects_of(base).all(|object| state.objects.contains(&object)))
            }),
            Property::<Self>::always("no read returns an old state", |_, state| !state.is_stale),
            Property::<Self>::always("no process reports damage", |_, state| !state.is_damaged),
            Property::<Self>::sometimes("every edit is acknowledged", |protocol, state| {
                edits_with(state, Outcome::Done).count() == usize::from(protocol.writers * protocol.edits)
            }),
            Property::<Self>::sometimes("a writer never learns the outcome of its edit", |_, state| {
                edits_with(state, Outcome::Unknown).any(|edit| effective(state).any(|other| other == edit))
            }),
            Property::<Self>::sometimes("every checkpoint is in the log", |protocol, state| {
                (0..protocol.checkpoints).all(|checkpoint| {
                    state.log.iter().any(|entry| entry.commits.contains(&Commit::Checkpoint(checkpoint)))
                })
            }),
            Property::<Self>::sometimes("a checkpoint ends after a collection", |protocol, state| {
                protocol.checkpoints == 0
                    || protocol.collections == 0
                    || state.checkpoints.iter().zip(0..).any(|(writer, checkpoint)| {
                        writer.stage == Stage::End
                            && state.commits(state.last()).all(|commit| commit != Commit::Checkpoint(checkpoint))
                    })
            }),
            Property::<Self>::sometimes("a checkpoint disappears while a reader loads it", |protocol, state| {
                let is_gone = |run| !state.objects.contains(&Object::Run(run));
                protocol.reads * protocol.checkpoints * protocol.collections == 0
                    || matches!(&state.reader, Reader::Loading { runs: Some(runs), .. } if is_gone(runs[0]))
            }),
            Property::<Self>::sometimes("a reader has to list the checkpoints again", |protocol, state| {
                protocol.reads * protocol.checkpoints == 0
                    || matches!(state.reader, Reader::Polling { known, .. } if state.slot(known + 1) == Slot::Marker)
            }),
            Property::<Self>::sometimes("every read returns", |protocol, state| state.reads == protocol.reads),
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

fn answer(state: &mut State, known: Number, owed: Number) {
    state.is_stale |= known < owed;
    state.reads += 1;
    state.reader = Reader::Asleep { known };
}

/// Returns the edits that took effect, once for each time.
fn effective(state: &State) -> impl Iterator<Item = Edit> + '_ {
    state.commits(state.last()).filter_map(|commit| match commit {
        Commit::Edit(edit, _) => Some(edit),
        _ => None,
    })
}

fn edits_with(state: &State, wanted: Outcome) -> impl Iterator<Item = Edit> + '_ {
    let outcomes = (0..).zip(&state.clients).flat_map(|(writer, client)| {
        (0..).zip(&client.outcomes).map(move |(edit, outcome)| ((writer, edit), *outcome))
    });
    outcomes.filter(move |(_, outcome)| *outcome == wanted).map(|(edit, _)| edit)
}

/// A small configuration, from which the others differ.
const SMALL: Protocol = Protocol {
    writers: 1,
    edits: 1,
    attempts: 2,
    checkpoints: 1,
    extends: false,
    collections: 1,
    reads: 0,
    repeats: false,
    mistake: None,
};

fn assert_correct(protocol: Protocol) {
    let checked = protocol.checker().threads(2).spawn_bfs().join();
    println!("{} states", checked.unique_state_count());
    checked.assert_properties();
}

#[test]
fn three_writers_and_a_collection() {
    assert_correct(Protocol { writers: 3, attempts: by_tier(1, 2), checkpoints: 0, ..SMALL });
}

#[test]
fn two_writers_of_two_edits_and_a_trim() {
    // The second attempt or edit multiplies the states.
    assert_correct(Protocol { writers: 2, edits: in_full(1, 2), attempts: by_tier(1, 2), collections: 0, ..SMALL });
}

#[test]
fn two_writers_and_a_reader_that_sleeps_during_a_trim() {
    assert_correct(Protocol { writers: 2, collections: 0, reads: 2, ..SMALL });
}

#[test]
fn two_checkpoints_and_a_reader_that_sleeps_during_a_collection() {
    let (extends, reads) = by_tier((false, 1), (true, 2));
    assert_correct(Protocol { checkpoints: in_full(1, 2), extends, reads, ..SMALL });
}

#[test]
fn three_checkpoints_and_a_collection() {
    assert_correct(Protocol { checkpoints: in_full(2, 3), extends: true, ..SMALL });
}

#[test]
fn two_collections_and_repeated_uploads() {
    assert_correct(Protocol { collections: 2, reads: by_tier(0, 1), repeats: true, ..SMALL });
}

/// The long tier combines everything. The others leave out the reads.
#[test]
fn two_writers_a_checkpoint_and_a_collection() {
    assert_correct(Protocol { writers: 2, reads: by_tier(0, 2), ..SMALL });
}

#[test]
fn mistakes_are_detected() {
    let writers = || Protocol { writers: 2, checkpoints: 0, ..SMALL };
    let trims = || Protocol { collections: 0, reads: 2, ..SMALL };
    let loads = || Protocol { reads: 1, ..SMALL };
    let checkpoints = || Protocol { checkpoints: 2, ..SMALL };
    for (protocol, mistake, property) in [
        (writers(), Mistake::TrustsRefusals, "an edit that reported no change never takes effect"),
        (writers(), Mistake::IgnoresIds, "an edit takes effect at most once"),
        (writers(), Mistake::IgnoresIds, "an edit that reported no change never takes effect"),
        (writers(), Mistake::SkipsNumbers, "an edit takes effect at most once"),
        (writers(), Mistake::SkipsNumbers, "each number up to the last has exactly one commit"),
        (writers(), Mistake::ReportsUnknownAsUnchanged, "an edit that reported no change never takes effect"),
        (trims(), Mistake::TrustsMarkers, "an edit that reported no change never takes effect"),
        (trims(), Mistake::FreesNumbers, "each number up to the last has exactly one commit"),
        (trims(), Mistake::FreesNumbers, "no read returns an old state"),
        (trims(), Mistake::TrimsUncovered, "no process reports damage"),
        (loads(), Mistake::TrustsManifests, "no process reports damage"),
        (writers(), Mistake::CommitsFirst, "the contents of the state and of the log exist"),
        (writers(), Mistake::HidesCollections, "the contents of the state and of the log exist"),
        (writers(), Mistake::ReusesContents, "the contents of the state and of the log exist"),
        (checkpoints(), Mistake::KeepsNewestManifest, "the checkpoint of the log exists"),
        (checkpoints(), Mistake::CollectsCheckpoints, "the checkpoint of the log exists"),
        (loads(), Mistake::ReusesRuns, "the checkpoint of the log exists"),
        (loads(), Mistake::ReusesRuns, "no process reports damage"),
        (loads(), Mistake::ListsOnce, "no process reports damage"),
    ] {
        let wanted = HasDiscoveries::AllOf(BTreeSet::from([property]));
        let checker = Protocol { mistake: Some(mistake), ..protocol }.checker().threads(2).finish_when(wanted);
        let found = checker.spawn_bfs().join().discoveries();
        assert!(found.contains_key(property), "{mistake:?}: {:?}", found.keys());
    }
}
