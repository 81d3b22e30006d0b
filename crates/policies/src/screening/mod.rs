//! Checks new text and names before they are stored.

mod check_digits;
mod detector;
mod finding;
mod passwords;
mod readings;
mod rules;
mod screen;
mod sensitive_data;
mod store;

pub use detector::{Detector, UnknownKind};
pub use finding::Finding;
pub use screen::{Refusal, Screen, Verdict};
pub use sensitive_data::{SensitiveData, SensitiveDataBuilder};
pub use store::ScreenedStore;
