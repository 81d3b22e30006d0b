//! Expiry of unused files.

#[cfg(feature = "background")]
mod background;
mod checks;
mod costs;
mod harness;
mod interleaving;
mod interruption;
mod model;
