//! Files that nobody uses expire, and no others do.

#[cfg(feature = "background")]
mod background;
mod checks;
mod costs;
mod harness;
mod interleaving;
mod interruption;
mod model;
