//! Backends with one fault each.

/// Names what can be wrong with the backends of a module; `vectors/faults.json` says each in words.
macro_rules! faults {
    ($($name:literal $fault:ident,)*) => {
        /// What is wrong with a backend.
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

/// The argument with which this program is started to serve a memory; a fault, a directory and options follow.
#[cfg(unix)]
const SERVE: &str = "--serve";

/// Every broken backend: the name of its fault, and the suite on it.
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

/// What the broken backends would be without their faults.
pub(crate) fn without_fault() -> Vec<(&'static str, Suite)> {
    vec![
        #[cfg(unix)]
        ("without-fault::disk", disks::without_fault()),
        #[cfg(unix)]
        ("without-fault::program", programs::without_fault()),
        ("without-fault::scopes", scopes::without_fault()),
        ("without-fault::sealed", sealed::without_fault()),
        ("without-fault::store", stores::without_fault()),
        ("without-fault::tool", tools::without_fault()),
    ]
}

/// Serves a memory where this program was started for that by a case.
pub(crate) fn serve_when_asked() -> Option<ExitCode> {
    #[cfg(unix)]
    if let [_, serve, fault, directory, options @ ..] = std::env::args().collect::<Vec<_>>().as_slice()
        && serve == SERVE
    {
        return Some(programs::serve(fault, directory.as_ref(), options));
    }
    None
}
