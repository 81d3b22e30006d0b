//! Screening: what a memory may hold.

mod check_digits;
mod detector;
mod passwords;
mod redaction;
mod rules;
mod screen;
mod sensitive_data;
mod store;

pub use detector::Detector;
pub use screen::{Refusal, Screen, Verdict};
pub use sensitive_data::{Finding, SensitiveData, SensitiveDataBuilder};
pub use store::ScreenedStore;
