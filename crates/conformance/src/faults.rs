//! [`Fault`]: what is known to be wrong with backends, and which cases tell.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

/// A fault that backends are known to have, and the cases that catch it.
///
/// The suite itself is tested by backends that each have one of these faults: each fails exactly the cases that the fault
/// names, and no other.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Fault {
    /// What it is called.
    pub name: String,
    /// What such a backend does, in one line.
    pub description: String,
    /// The ids of the cases that it fails.
    pub cases: Vec<String>,
}

/// A fault as `vectors/faults.json` describes it.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    description: String,
    cases: Vec<String>,
}

#[expect(clippy::expect_used, reason = "the file is a part of the program, and its tests read it")]
static FAULTS: LazyLock<Vec<Fault>> = LazyLock::new(|| {
    let described: BTreeMap<String, Description> =
        serde_json::from_str(include_str!("../vectors/faults.json")).expect("the data keeps to its schema");
    let fault = |(name, Description { description, cases })| Fault { name, description, cases };
    described.into_iter().map(fault).collect()
});

/// Every known fault.
pub(crate) fn all() -> Vec<Fault> {
    FAULTS.clone()
}

/// The names of the faults that a case catches.
pub(crate) fn faults_of(case: &str) -> Vec<String> {
    FAULTS.iter().filter(|fault| fault.cases.iter().any(|id| id == case)).map(|fault| fault.name.clone()).collect()
}
