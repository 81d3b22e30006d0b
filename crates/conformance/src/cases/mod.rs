//! The cases written in code, because they need more than a sequence of commands.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::case::{Basis, Capability, Case};
use crate::clause::Clause;
use crate::failure::CaseError;
use crate::faults::faults_of;
use crate::target::Target;

/// Defines the cases of a group. The first line is the argument of their functions. A case has its id, the clauses, the
/// needs, the basis unless it is the project, the reason, and a function, or a closure for other arguments.
macro_rules! cases {
    (@basis []) => { $crate::case::Basis::Project };
    (@basis [$basis:ident]) => { $crate::case::Basis::$basis };
    (@run [|$target:ident| $argument:expr] $function:ident) => {
        |$target| Box::pin(async move { $function($argument).await })
    };
    (@run $argument:tt |$target:ident| $body:expr) => { |$target| Box::pin(async move { $body.await }) };
    (@case $id:expr, $clauses:tt, [$($need:ident),*], $basis:tt, $reason:expr, $($run:tt)+) => {
        $crate::cases::CodeCase {
            id: $id,
            clauses: &$clauses,
            basis: cases!(@basis $basis),
            needs: &[$($crate::case::Capability::$need),*],
            reason: $reason,
            run: cases!(@run $($run)+),
        }
    };
    (|$target:ident| $argument:expr; $($id:literal $clauses:tt $needs:tt $($basis:ident)? $reason:literal,
        $($function:ident)? $(|$own:ident| $body:expr)?;)+) => {
        pub(crate) const CASES: &[$crate::cases::CodeCase] =
            &[$(cases!(@case $id, $clauses, $needs, [$($basis)?], $reason,
                [|$target| $argument] $($function)? $(|$own| $body)?)),+];
    };
}

mod bytes;
mod cancellation;
mod disk;
mod interruption;
mod leftovers;
mod lines;
mod plain_files;
mod plain_memory;
mod power_loss;
mod quota;
mod races;
mod records;
mod restarts;
mod scopes;
mod sealed;
mod sizes;
mod store;
mod threads;
mod tool;

/// The body of a case, which gets a fresh target.
type Run = fn(Arc<dyn Target>) -> Pin<Box<dyn Future<Output = Result<(), CaseError>> + Send>>;

/// A case written in code.
#[derive(Clone, Copy)]
pub(crate) struct CodeCase {
    pub(crate) id: &'static str,
    pub(crate) clauses: &'static [&'static str],
    pub(crate) basis: Basis,
    pub(crate) needs: &'static [Capability],
    pub(crate) reason: &'static str,
    pub(crate) run: Run,
}

/// Every case written in code, by group.
pub(crate) fn all() -> impl Iterator<Item = CodeCase> {
    [
        races::OF_EQUAL_CLIENTS,
        races::CASES,
        restarts::CASES,
        plain_files::CASES,
        disk::CASES,
        power_loss::CASES,
        leftovers::CASES,
        lines::CASES,
        sizes::CASES,
        cancellation::CASES,
        store::CASES,
        records::CASES,
        quota::CASES,
        tool::CASES,
        scopes::CASES,
        sealed::CASES,
    ]
    .into_iter()
    .flatten()
    .copied()
}

impl CodeCase {
    pub(crate) fn case(&self) -> Case {
        Case {
            id: self.id.to_owned(),
            clauses: self.clauses.iter().filter_map(|id| Clause::find(id)).collect(),
            bases: vec![self.basis],
            reason: self.reason.to_owned(),
            needs: self.needs.to_vec(),
            faults: faults_of(self.id),
        }
    }
}
