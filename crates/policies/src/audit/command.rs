//! [`CommandContext`]: tells the store below which command it works for, and of which actor.
//!
//! It is kept with the thread while that command's future is polled, and at no other time. So it reaches everything that the command
//! awaits, on any runtime, and nothing else: a task that the command spawns does not have it.

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

/// A command that is going on.
#[derive(Debug)]
pub(super) struct CommandContext {
    pub(super) actor: Actor,
    pub(super) command: &'static str,
    /// Made when the first record needs it: most views have none.
    id: OnceLock<String>,
    /// Whether it writes back what it reads.
    edits: bool,
}

impl CommandContext {
    pub(super) fn begin(actor: &Actor, command: &'static str, edits: bool) -> Arc<Self> {
        Arc::new(Self { actor: actor.clone(), command, id: OnceLock::new(), edits })
    }

    /// What all records of this command have in common.
    pub(super) fn id(&self) -> Result<&str, AuditError> {
        match self.id.get() {
            Some(id) => Ok(id),
            None => {
                let id = random_id()?;
                Ok(self.id.get_or_init(|| id))
            }
        }
    }

    /// The command that this is polled within; the innermost, where one tool is over another.
    pub(super) fn current() -> Option<Arc<Self>> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Whether what this is polled within may write back what it reads. Of what is no command, that is not known.
    pub(super) fn may_edit() -> bool {
        CURRENT.with_borrow(|command| command.as_ref().is_none_or(|command| command.edits))
    }

    /// Does the work within the command.
    pub(super) fn run<W: Future + Unpin>(self: Arc<Self>, work: W) -> InCommand<W> {
        InCommand { command: self, work }
    }
}

/// Work that is polled within a command.
pub(super) struct InCommand<W> {
    command: Arc<CommandContext>,
    work: W,
}

impl<W: Future + Unpin> Future for InCommand<W> {
    type Output = W::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<W::Output> {
        let _restored = Restored(CURRENT.replace(Some(Arc::clone(&self.command))));
        Pin::new(&mut self.work).poll(context)
    }
}

/// Puts back what was under way on this thread before, also when the work panics.
struct Restored(Option<Arc<CommandContext>>);

impl Drop for Restored {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}
