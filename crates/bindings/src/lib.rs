//! The parts that the packages for Python and Node.js share: options, operations on an open memory, and the names and
//! arguments of errors.

mod bounded;
mod errors;
mod history;
mod opening;
mod operation;
mod place;
mod search;

pub use errors::{CallError, Exception, failure_named, parse_store_error};
pub use opening::{Given, Location, Opening, OptionError};
pub use operation::{Operation, Outcome, parse_command};
pub use place::Place;
