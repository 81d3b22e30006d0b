//! [`CommandContext`]: passes the actor and command to the store under the tool.
//!
//! It is a thread-local variable that is only set while the future of the command is polled. Futures that the command
//! awaits therefore have it, on any runtime; tasks that it spawns do not have it.

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use crate::audit::actor::Actor;
use crate::audit::id::random_id;
use crate::audit::log::AuditError;

thread_local! {
    static CURRENT: RefCell<Option<Arc<CommandContext>>> = const { RefCell::new(None) };
}

/// The actor and command of the future that is being polled.
#[derive(Debug)]
pub(super) struct CommandContext {
    pub(super) actor: Actor,
    pub(super) command: &'static str,
    /// Created for the first record, because most views have no record.
    id: OnceLock<String>,
    /// Whether the command writes files that it reads.
    edits: bool,
}

impl CommandContext {
    pub(super) fn begin(actor: &Actor, command: &'static str, edits: bool) -> Arc<Self> {
        Arc::new(Self { actor: actor.clone(), command, id: OnceLock::new(), edits })
    }

    /// The id that all records of this command share.
    pub(super) fn id(&self) -> Result<&str, AuditError> {
        match self.id.get() {
            Some(id) => Ok(id),
            None => {
                let id = random_id()?;
                Ok(self.id.get_or_init(|| id))
            }
        }
    }

    /// The current command, or the innermost one if audited tools are nested.
    pub(super) fn current() -> Option<Arc<Self>> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Whether a file that is read now may be written next. This is always possible outside of a command.
    pub(super) fn may_edit() -> bool {
        CURRENT.with_borrow(|command| command.as_ref().is_none_or(|command| command.edits))
    }

    /// Runs `work` in the context of this command.
    pub(super) fn run<W: Future + Unpin>(self: Arc<Self>, work: W) -> InCommand<W> {
        InCommand { command: self, work }
    }
}

/// A future that is polled in the context of a command.
pub(super) struct InCommand<W> {
    command: Arc<CommandContext>,
    work: W,
}

impl<W: Future + Unpin> Future for InCommand<W> {
    type Output = W::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<W::Output> {
        let _guard = RestoreOnDrop(CURRENT.replace(Some(Arc::clone(&self.command))));
        Pin::new(&mut self.work).poll(context)
    }
}

/// Restores the previous context of this thread, even if the work panics.
struct RestoreOnDrop(Option<Arc<CommandContext>>);

impl Drop for RestoreOnDrop {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}
