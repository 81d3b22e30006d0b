//! [`decide`]: which state of a file counts.

use crate::transfer::sync::table::{Noted, State};

/// The first or the second memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Which {
    First,
    Second,
}

impl Which {
    pub(super) const BOTH: [Self; 2] = [Self::First, Self::Second];

    pub(super) fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }
}

/// The state of a file that counts in both memories.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Decision {
    /// Both have the same.
    Same,
    /// The state in this memory.
    Of(Which),
    /// Both changed the file to different texts.
    Both,
}

/// Decides by the identities of the states. At least one is known.
///
/// - A state counts if it was made from the state of the other memory.
/// - If neither was made from the other, a changed file counts against a deletion.
pub(super) fn decide(first: Option<&Noted>, second: Option<&Noted>) -> Decision {
    let (Some(first), Some(second)) = (first, second) else {
        return Decision::Of(if first.is_some() { Which::First } else { Which::Second });
    };
    if first.id == second.id {
        return Decision::Same;
    }
    match (first.includes(second.id), second.includes(first.id)) {
        (true, false) => Decision::Of(Which::First),
        (false, true) => Decision::Of(Which::Second),
        // A table that was put together from two can have both.
        (true, true) | (false, false) => match (&first.state, &second.state) {
            (State::Deleted { .. }, State::Deleted { .. }) => Decision::Same,
            (State::File(_), State::Deleted { .. }) => Decision::Of(Which::First),
            (State::Deleted { .. }, State::File(_)) => Decision::Of(Which::Second),
            (State::File(one), State::File(other)) if one.digest == other.digest => Decision::Same,
            (State::File(_), State::File(_)) => Decision::Both,
        },
    }
}
