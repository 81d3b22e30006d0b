//! The parts that the packages for Python and Node.js share: options, operations on an open memory, and the names and
//! arguments of errors.

mod bounded;
mod changes;
mod errors;
mod history;
mod opening;
mod operation;
mod place;
mod search;
mod wording;

pub use changes::{Changes, OnChange};
pub use errors::{CallError, Exception, failure_named, parse_store_error};
pub use opening::{Given, Location, Opening, OptionError};
pub use operation::{Argument, Operation, Outcome, memories, parse_command};
pub use place::Place;
pub use wording::parts_of_error;
