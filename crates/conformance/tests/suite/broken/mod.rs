//! Backends with one fault each.

/// Declares the faults of a module. `vectors/faults.json` describes them: `SizesOf32Bits` as `sizes-of-32-bits`.
macro_rules! faults {
    ($($fault:ident,)*) => {
        /// The fault of a backend.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        enum Fault {
            $($fault,)*
        }

        impl Fault {
            const ALL: &[Self] = &[$(Self::$fault,)*];

            fn name(self) -> String {
                $crate::broken::in_kebab_case(&format!("{self:?}"))
            }
        }
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
pub(crate) fn all() -> Vec<(String, Suite)> {
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

/// Begins a word at each capital letter, and at each number.
fn in_kebab_case(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        let is_in_number = words.ends_with(|last: char| last.is_ascii_digit());
        let begins_word = letter.is_ascii_uppercase() || letter.is_ascii_digit() && !is_in_number;
        words.extend((begins_word && !words.is_empty()).then_some('-'));
        words.push(letter.to_ascii_lowercase());
    }
    words
}

/// The suites on the same backends without faults.
pub(crate) fn without_fault() -> Vec<(&'static str, Suite)> {
    vec![
        #[cfg(unix)]
        ("without-fault::disk", disks::without_fault()),
        #[cfg(unix)]
        ("without-fault::program-in-its-directory", disks::in_their_directories()),
        #[cfg(unix)]
        ("without-fault::closed-by-their-directory", disks::closed_by_their_directory()),
        #[cfg(unix)]
        ("without-fault::lease", disks::with_leases()),
        #[cfg(unix)]
        ("without-fault::one-process", disks::without_concurrency()),
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
