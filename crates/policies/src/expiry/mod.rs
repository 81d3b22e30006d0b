//! A store that records the last use of each file, hides files that were idle for too long, and removes them in sweeps.

mod access_times;
#[cfg(feature = "background")]
mod background;
mod rules;
mod store;
mod sweep;
mod table;

#[cfg(feature = "background")]
pub use background::SweepTask;
pub use rules::ExpiryError;
pub use store::{ExpiringStore, ExpiringStoreBuilder};
pub use sweep::{ExpiredFile, SweepReport};

#[cfg(any(fuzzing, test))]
pub(crate) fn fuzz_access_times(stored: &[u8]) {
    if let Ok(times) = access_times::AccessTimes::from_bytes(stored)
        && let Ok(written) = times.to_bytes()
    {
        assert_eq!(access_times::AccessTimes::from_bytes(&written), Ok(times));
    }
}
