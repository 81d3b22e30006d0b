//! Hooks around batches, where the store calls them: in the order of the changes, and each to its end.

use std::sync::{Arc, Mutex, PoisonError};

use futures::future::join_all;
use memory_tool_core::{Batch, BatchHook, Expected, FailureKind, NoHook, Store, StoreError};

use crate::case::{Basis, Need};
use crate::cases::CodeCase;
use crate::cases::bytes::{content, expect_content, path, write};
use crate::cases::cancellation::{dropped, expect_settled};
use crate::failure::{Failure, Stop};
use crate::subject::{Subject, check, hooked};

/// The batches of a race.
const RACERS: usize = 8;
/// How often a race is run.
const ROUNDS: usize = 20;
/// How many batches are dropped, each a little later in its course than the one before.
const DROPPED: u32 = 60;

const FILE: &str = "/memories/file";
/// What a hook was doing that refuses a batch.
const REFUSING: &str = "refusing a batch";

pub(crate) const CASES: &[CodeCase] = &[
    CodeCase {
        id: "hooks.around-a-batch",
        clauses: &["X1"],
        basis: Basis::Project,
        needs: &[Need::Store, Need::Hooks],
        reason: "a hook is called before a batch and after it, whatever comes of it, and what it refuses is not done",
        run: |subject| Box::pin(async move { around_a_batch(&*subject.store()?).await }),
    },
    CodeCase {
        id: "hooks.in-order",
        clauses: &["X3", "X1"],
        basis: Basis::Project,
        needs: &[Need::Store, Need::Hooks, Need::Sessions],
        reason: "the order in which hooks are called before batches is that of their changes",
        run: |subject| Box::pin(async move { in_order(&*subject).await }),
    },
    CodeCase {
        id: "hooks.of-a-dropped-batch",
        clauses: &["X1"],
        basis: Basis::Project,
        needs: &[Need::Store, Need::Hooks],
        reason: "a batch whose future is dropped has had no call of its hook, or both and its changes",
        run: |subject| Box::pin(async move { of_a_dropped_batch(&*subject.store()?).await }),
    },
];

/// A call of a hook, with the number of its batch.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Call {
    Before(usize),
    /// With the error, where there was one.
    After(usize, Option<String>),
}

/// The calls of all hooks, in their order.
#[derive(Clone, Debug, Default)]
struct Calls(Arc<Mutex<Vec<Call>>>);

impl Calls {
    fn note(&self, call: Call) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(call);
    }

    fn taken(&self) -> Vec<Call> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn all(&self) -> Vec<Call> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A hook that notes its calls.
    fn hook(&self, number: usize) -> Box<dyn BatchHook> {
        Box::new(Noting { calls: self.clone(), number, refuses: false })
    }

    /// A hook that notes its calls, and refuses the batch.
    fn refusing_hook(&self, number: usize) -> Box<dyn BatchHook> {
        Box::new(Noting { calls: self.clone(), number, refuses: true })
    }
}

struct Noting {
    calls: Calls,
    number: usize,
    refuses: bool,
}

impl BatchHook for Noting {
    fn before(&mut self) -> Result<(), StoreError> {
        self.calls.note(Call::Before(self.number));
        if self.refuses {
            return Err(StoreError::failure(FailureKind::AccessDenied, REFUSING, "the hook refuses the batch"));
        }
        Ok(())
    }

    fn after(self: Box<Self>, result: &Result<(), StoreError>) {
        self.calls.note(Call::After(self.number, result.as_ref().err().map(ToString::to_string)));
    }
}

async fn around_a_batch(store: &dyn Store) -> Result<(), Stop> {
    let hooked = hooked(store)?;
    let calls = Calls::default();
    hooked.apply_hooked(write(FILE, "one")?, calls.hook(1)).await?;
    expect_content(store, FILE, b"one").await?;
    expect_calls(&calls, &[Call::Before(1), Call::After(1, None)])?;

    let required = write(FILE, "two")?.require(path(FILE)?, Expected::Absent);
    let unmet = StoreError::AlreadyExists { path: path(FILE)? }.to_string();
    let error = error_of(hooked.apply_hooked(required, calls.hook(2)).await)?;
    check(error.to_string() == unmet, || format!("expected the error \"{unmet}\", got \"{error}\""))?;
    expect_calls(&calls, &[Call::Before(2), Call::After(2, Some(unmet))])?;

    let error = error_of(hooked.apply_hooked(write(FILE, "three")?, calls.refusing_hook(3)).await)?;
    let is_of_hook = matches!(error, StoreError::Failure { kind: FailureKind::AccessDenied, operation: REFUSING, .. });
    check(is_of_hook, || format!("the hook refused the batch, and the error is \"{error}\""))?;
    expect_calls(&calls, &[Call::Before(3)])?;
    expect_content(store, FILE, b"one").await?;

    hooked.apply_hooked(write(FILE, "four")?, Box::new(NoHook)).await?;
    expect_content(store, FILE, b"four").await
}

fn error_of(result: Result<(), StoreError>) -> Result<StoreError, Stop> {
    result.err().ok_or_else(|| Failure::new("the batch was applied, and should have been refused").into())
}

fn expect_calls(calls: &Calls, expected: &[Call]) -> Result<(), Stop> {
    let calls = calls.taken();
    check(calls == expected, || format!("expected the calls {expected:?} of hooks, got {calls:?}"))
}

async fn in_order(subject: &dyn Subject) -> Result<(), Stop> {
    let [first, second] = [subject.store()?, subject.another_store().await?];
    let calls = Calls::default();
    for _ in 0..ROUNDS {
        let racers = (0..RACERS).map(|number| {
            let store = if number.is_multiple_of(2) { &first } else { &second };
            let calls = &calls;
            async move { Ok::<_, Stop>(hooked(&**store)?.apply_hooked(numbered(number)?, calls.hook(number)).await?) }
        });
        join_all(racers).await.into_iter().collect::<Result<(), _>>()?;
        let held = content(&*first, FILE).await?;
        expect_order(&calls.taken(), &held, RACERS)?;
    }
    Ok(())
}

fn numbered(number: usize) -> Result<Batch, Stop> {
    write(FILE, number.to_string())
}

/// Checks that each of so many batches had both calls, and that the file holds what the last of them wrote.
fn expect_order(calls: &[Call], held: &[u8], batches: usize) -> Result<(), Stop> {
    let begun: Vec<_> = calls.iter().filter_map(number_of_begun).collect();
    let is_whole = |number| calls.contains(&Call::After(number, None));
    check(begun.len() == batches && calls.len() == 2 * batches && begun.iter().copied().all(is_whole), || {
        format!("{batches} batches were applied, and the calls of their hooks are {calls:?}")
    })?;
    check(begun.last().is_none_or(|last| held == last.to_string().as_bytes()), || {
        format!("the file holds what batch {} wrote, and hooks were called so: {calls:?}", held.escape_ascii())
    })
}

fn number_of_begun(call: &Call) -> Option<usize> {
    match call {
        Call::Before(number) => Some(*number),
        Call::After(..) => None,
    }
}

async fn of_a_dropped_batch(store: &dyn Store) -> Result<(), Stop> {
    let hooked = hooked(store)?;
    let calls = Calls::default();
    let mut number = 0;
    for round in 1..=DROPPED {
        number += 1;
        if let Some(outcome) = dropped(round, hooked.apply_hooked(numbered(number)?, calls.hook(number))).await {
            outcome?;
        }
    }
    hooked.apply_hooked(numbered(0)?, calls.hook(0)).await?;
    expect_settled(|| async {
        let calls = calls.all();
        let begun = calls.iter().filter_map(number_of_begun).count();
        let held = content(store, FILE).await?;
        Ok(expect_order(&calls, &held, begun).is_ok())
    })
    .await
}
