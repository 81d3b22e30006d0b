//! [`ExitStatus`]: how a subcommand ended.

/// The end of a subcommand that ran.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ExitStatus {
    /// Everything was done.
    Success,
    /// It reports a problem: an error reply, a failed case, damage, or an incomplete transfer.
    Problem,
    /// A path that `ls` was given does not exist.
    Missing,
    /// A signal ended it.
    Interrupted { status: u8 },
}

impl ExitStatus {
    /// The status of a [`Failure`](crate::failure::Failure). clap uses it for wrong usage.
    pub(crate) const FAILED: u8 = 2;

    pub fn of(is_success: bool) -> Self {
        if is_success { Self::Success } else { Self::Problem }
    }

    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Problem => 1,
            Self::Missing => 2,
            Self::Interrupted { status } => status,
        }
    }
}

impl From<()> for ExitStatus {
    /// A command that can only succeed or fail.
    fn from((): ()) -> Self {
        Self::Success
    }
}
