//! [`Fault`]: known faults of backends, and the cases that detect them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

/// A fault that backends are known to have, and the cases that detect it.
///
/// The suite itself is tested on backends that each have one of these faults. Each backend fails exactly the cases
/// that its fault lists.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Fault {
    /// The name of the fault.
    pub name: String,
    /// The behavior of a backend with the fault, in one line.
    pub description: String,
    /// The ids of the cases that such a backend fails.
    pub cases: Vec<String>,
}

/// A fault as `vectors/faults.json` describes it.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    description: String,
    cases: Vec<String>,
}

#[expect(clippy::expect_used, reason = "the file is part of the crate, and its tests parse it")]
static FAULTS: LazyLock<Vec<Fault>> = LazyLock::new(|| {
    let described: BTreeMap<String, Description> =
        serde_json::from_str(include_str!("../vectors/faults.json")).expect("the data matches its schema");
    let fault = |(name, Description { description, cases })| Fault { name, description, cases };
    described.into_iter().map(fault).collect()
});

/// Every known fault.
pub(crate) fn all() -> Vec<Fault> {
    FAULTS.clone()
}

/// The names of the faults that a case detects.
pub(crate) fn faults_of(case: &str) -> Vec<String> {
    FAULTS.iter().filter(|fault| fault.cases.iter().any(|id| id == case)).map(|fault| fault.name.clone()).collect()
}
