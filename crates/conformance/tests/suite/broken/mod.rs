//! Backends with one fault each.

/// Declares the faults of a module. `vectors/faults.json` describes them.
macro_rules! faults {
    ($($name:literal $fault:ident,)*) => {
        /// The fault of a backend.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        enum Fault {
            $($fault,)*
        }

        const FAULTS: &[(&str, Fault)] = &[$(($name, Fault::$fault),)*];
    };
}

#[cfg(unix)]
mod disks;
#[cfg(unix)]
mod programs;
mod scopes;
mod sealed;
mod stores;
mod tools;

use std::process::ExitCode;

use memory_tool_conformance::Suite;

/// The first argument of this program to serve a memory, before a fault, a directory and options.
#[cfg(unix)]
const SERVE: &str = "--serve";

/// The suites on all broken backends, with the names of their faults.
pub(crate) fn all() -> Vec<(&'static str, Suite)> {
    let groups = [
        #[cfg(unix)]
        disks::all(),
        #[cfg(unix)]
        programs::all(),
        scopes::all(),
        sealed::all(),
        stores::all(),
        tools::all(),
    ];
    groups.into_iter().flatten().collect()
}

/// The suites on the same backends without faults.
pub(crate) fn without_fault() -> Vec<(&'static str, Suite)> {
    vec![
        #[cfg(unix)]
        ("without-fault::disk", disks::without_fault()),
        #[cfg(unix)]
        ("without-fault::program", programs::without_fault()),
        #[cfg(unix)]
        ("without-fault::program-that-lands-late", programs::landing_late()),
        ("without-fault::scopes", scopes::without_fault()),
        ("without-fault::sealed", sealed::without_fault()),
        ("without-fault::store", stores::without_fault()),
        ("without-fault::tool", tools::without_fault()),
    ]
}

/// Serves a memory if a case started this program to do so.
pub(crate) fn serve_if_requested() -> Option<ExitCode> {
    #[cfg(unix)]
    if let [_, serve, fault, directory, options @ ..] = std::env::args().collect::<Vec<_>>().as_slice()
        && serve == SERVE
    {
        return Some(programs::serve(fault, directory.as_ref(), options));
    }
    None
}
