//! [`CommandQueue`]: the order of the commands of one session.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use memory_tool_core::CommandName;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use tokio::task::unconstrained;

/// Runs the commands of one session in the order in which they were sent (`[X5]`).
///
/// A session can send several commands without waiting for replies, for example all calls of one turn. The program
/// calls [`enter`](Self::enter) for each command in that order, awaits the returned [`Turn`], and keeps its
/// [`TurnGuard`] while the command runs. Consecutive views overlap. Each session has its own queue.
///
/// ```
/// use memory_tool::command::{CommandName, CommandQueue};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let queue = CommandQueue::new();
/// let (delete, create) = (queue.enter(Some(CommandName::Delete)), queue.enter(Some(CommandName::Create)));
/// let create = tokio::spawn(async move {
///     let _guard = create.await; // waits, in any task
/// });
/// let guard = delete.await;
/// // The `delete` runs here.
/// drop(guard);
/// create.await
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct CommandQueue {
    /// Tokio's lock is fair: it serves readers and writers in the order in which they first asked.
    lock: Arc<RwLock<()>>,
}

impl CommandQueue {
    /// Creates an empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next place in the queue, before this method returns.
    ///
    /// Pass `None` for anything that is not one of the six commands. It waits as a command that changes files does.
    #[must_use = "dropping it gives up the place"]
    pub fn enter(&self, command: Option<CommandName>) -> Turn {
        let lock = Arc::clone(&self.lock);
        let is_read = command == Some(CommandName::View);
        // The first poll takes the place. A task without budget would make it return before that.
        let mut turn: Waiting = Box::pin(unconstrained(async move {
            TurnGuard(if is_read { Held::Read(lock.read_owned().await) } else { Held::Write(lock.write_owned().await) })
        }));
        match turn.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(guard) => Turn(Box::pin(std::future::ready(guard))),
            Poll::Pending => Turn(turn),
        }
    }
}

type Waiting = Pin<Box<dyn Future<Output = TurnGuard> + Send + Sync>>;

/// A place in a [`CommandQueue`]. As a future, it completes when the command can run. Dropping it gives up the place.
#[must_use = "dropping it gives up the place"]
pub struct Turn(Waiting);

impl Future for Turn {
    type Output = TurnGuard;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<TurnGuard> {
        self.0.as_mut().poll(context)
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").finish_non_exhaustive()
    }
}

/// Keeps later commands waiting until it is dropped.
#[derive(Debug)]
#[must_use = "dropping it lets later commands run"]
pub struct TurnGuard(#[expect(dead_code, reason = "held, not read")] Held);

#[derive(Debug)]
#[expect(dead_code, reason = "held, not read")]
enum Held {
    Read(OwnedRwLockReadGuard<()>),
    Write(OwnedRwLockWriteGuard<()>),
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    const VIEW: Option<CommandName> = Some(CommandName::View);
    const CREATE: Option<CommandName> = Some(CommandName::Create);

    fn is_ready(turn: &mut Turn) -> bool {
        Pin::new(turn).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn commands_run_in_the_order_of_their_places() {
        const COMMANDS: usize = 1_000;
        let (queue, order) = (CommandQueue::new(), Arc::new(Mutex::new(Vec::new())));
        // Started in the opposite order, in any task, and beyond the budget of this one.
        let turns: Vec<_> = (0..COMMANDS).map(|_| queue.enter(CREATE)).collect();
        let tasks = turns.into_iter().enumerate().rev().map(|(index, turn)| {
            let order = Arc::clone(&order);
            tokio::spawn(async move {
                let _guard = turn.await;
                tokio::task::yield_now().await;
                order.lock().unwrap().push(index);
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), (0..COMMANDS).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn views_overlap_views_only() {
        let queue = CommandQueue::new();
        let (first, second) = (queue.enter(VIEW).await, queue.enter(VIEW).await);
        let (mut create, mut later) = (queue.enter(CREATE), queue.enter(VIEW));
        assert!(!is_ready(&mut create) && !is_ready(&mut later));
        drop((first, second));
        assert!(!is_ready(&mut later));
        let creating = create.await;
        assert!(!is_ready(&mut later));
        drop(creating);
        let _viewing = later.await;
        assert!(is_ready(&mut queue.enter(VIEW)));
        assert!(!is_ready(&mut queue.enter(None)));
    }

    #[tokio::test]
    async fn a_dropped_turn_gives_up_its_place() {
        let queue = CommandQueue::new();
        let running = queue.enter(CREATE).await;
        let (cancelled, ready, waiting) = (queue.enter(CREATE), queue.enter(CREATE), queue.enter(VIEW));
        drop(cancelled);
        drop(running);
        drop(ready); // it could run, and never does
        let _guard = waiting.await;
    }
}
