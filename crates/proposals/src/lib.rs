#![doc = include_str!("../README.md")]
#![doc(test(attr(deny(warnings))))]

mod error;
mod limits;
mod links;
mod name;
mod overlay;
mod proposal;
mod proposals;
mod records;
mod report;
mod rules;
mod selection;
mod store;

pub use error::ProposalError;
pub use limits::WaitingLimits;
pub use links::{is_markdown, linked_path};
pub use name::{InvalidName, MAX_NAME_BYTES, ProposalName};
pub use proposal::{Outcome, Proposal, ProposalSummary, ProposedChange};
pub use proposals::Proposals;
pub use report::{Files, LineOfFile, Listed, RepeatedLine, Report, Size};
pub use rules::Rules;
pub use selection::Selection;
pub use store::ProposalStore;
