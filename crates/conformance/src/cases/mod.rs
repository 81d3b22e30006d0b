//! The cases written in code, because they need more than a sequence of commands.

use std::pin::Pin;
use std::sync::Arc;

use crate::failure::CaseError;
use crate::target::Target;

/// Defines `CASES`, the code of the cases of a group. Each case has the name of its function, or of a closure. The
/// first line is the argument of the functions.
macro_rules! cases {
    ($(|$target:ident| $argument:expr; $($function:ident),+;)? $($name:ident = |$own:ident| $body:expr;)*) => {
        pub(crate) const CASES: &[$crate::cases::NamedCode] = &[
            $($((stringify!($function), |$target| Box::pin(async move { $function($argument).await })),)+)?
            $((stringify!($name), |$own| Box::pin(async move { $body.await })),)*
        ];
    };
}

mod bytes;
mod cancellation;
mod disk;
mod interruption;
mod leftovers;
mod lines;
mod listings;
mod long_session;
mod plain_files;
mod plain_memory;
mod power_loss;
mod quota;
mod races;
mod records;
mod restarts;
mod restored;
mod scopes;
mod sealed;
mod sessions;
mod sizes;
mod stopped;
mod store;
pub(crate) mod threads;
mod tool;

/// The code of a case, which gets a fresh target.
pub(crate) type Code = fn(Arc<Target>) -> Pin<Box<dyn Future<Output = Result<(), CaseError>> + Send>>;

/// The name of a case, with underscores instead of hyphens, and its code.
type NamedCode = (&'static str, Code);

/// The code of the cases in `vectors/code.json`, by group.
const GROUPS: &[(&str, &[NamedCode])] = &[
    ("races", races::OF_EQUAL_CLIENTS),
    ("races", races::CASES),
    ("races", stopped::CASES),
    ("restarts", restarts::CASES),
    ("sessions", sessions::CASES),
    ("plain_files", plain_files::CASES),
    ("plain_files", restored::CASES),
    ("disk", disk::CASES),
    ("power_loss", power_loss::CASES),
    ("leftovers", leftovers::CASES),
    ("lines", lines::CASES),
    ("beyond", long_session::CASES),
    ("sizes", sizes::CASES),
    ("cancellation", cancellation::CASES),
    ("store", store::CASES),
    ("store", listings::CASES),
    ("records", records::CASES),
    ("store", quota::CASES),
    ("tool", tool::CASES),
    ("scopes", scopes::CASES),
    ("sealed", sealed::CASES),
];

/// The code of a case with this id.
pub(crate) fn code_of(id: &str) -> Option<Code> {
    let (group, name) = id.split_once('.')?;
    let name = name.replace('-', "_");
    let mut cases = GROUPS.iter().filter(|(of, _)| *of == group).flat_map(|(_, cases)| *cases);
    cases.find(|(case, _)| *case == name).map(|(_, code)| *code)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::vectors;

    #[test]
    fn each_case_has_either_steps_or_code() {
        let with_code: BTreeSet<_> =
            vectors::all().iter().filter(|case| !case.has_steps()).map(|case| case.case().id).collect();
        let name = |group: &str, name: &str| format!("{group}.{}", name.replace('_', "-"));
        let coded = GROUPS.iter().flat_map(|(group, cases)| cases.iter().map(|(case, _)| name(group, case)));
        assert_eq!(with_code, coded.collect());
    }
}
