//! The clock and the random numbers of the stores. The feature `simulation` lets a test replace both for its thread, so
//! that the same seed gives the same run.

#[cfg(feature = "random")]
use std::io;
use std::time::SystemTime;

/// The present time.
pub fn now() -> SystemTime {
    #[cfg(feature = "simulation")]
    if let Some(simulation) = replaced::current() {
        return (simulation.now)();
    }
    SystemTime::now()
}

/// Fills the bytes with random ones.
///
/// # Errors
/// The operating system has no random numbers.
#[cfg(feature = "random")]
pub fn fill_random(bytes: &mut [u8]) -> io::Result<()> {
    #[cfg(feature = "simulation")]
    if let Some(simulation) = replaced::current() {
        bytes.fill_with(|| (simulation.random)());
        return Ok(());
    }
    getrandom::fill(bytes).map_err(|error| io::Error::other(error.to_string()))
}

/// A random number.
///
/// # Errors
/// The errors of [`fill_random`].
#[cfg(feature = "random")]
pub fn random_number() -> io::Result<u64> {
    let mut bytes = [0; size_of::<u64>()];
    fill_random(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Whether this thread simulates. Other threads would make its order random.
pub fn is_simulated() -> bool {
    #[cfg(feature = "simulation")]
    return replaced::current().is_some();
    #[cfg(not(feature = "simulation"))]
    false
}

#[cfg(feature = "simulation")]
pub use replaced::{Simulation, simulate};

#[cfg(feature = "simulation")]
mod replaced {
    use std::cell::Cell;

    use super::*;

    /// The sources of a simulation.
    #[derive(Clone, Copy, Debug)]
    #[expect(clippy::exhaustive_structs, reason = "a test fills it in")]
    pub struct Simulation {
        /// The present time.
        pub now: fn() -> SystemTime,
        /// A random byte.
        pub random: fn() -> u8,
    }

    thread_local! {
        static CURRENT: Cell<Option<Simulation>> = const { Cell::new(None) };
    }

    pub(super) fn current() -> Option<Simulation> {
        CURRENT.get()
    }

    /// Replaces the clock and the random numbers of this thread, or restores them.
    pub fn simulate(simulation: Option<Simulation>) {
        CURRENT.set(simulation);
    }
}
