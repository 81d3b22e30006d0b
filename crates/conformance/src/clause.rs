//! [`Clause`]: the clauses of the contract.

use std::fmt;
use std::sync::LazyLock;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The clauses and their titles, in the order of the contract.
#[expect(clippy::expect_used, reason = "the file is part of the crate, and its tests parse it")]
static CLAUSES: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../vectors/clauses.json")).expect("the data matches its schema")
});

/// A clause of the contract, such as `V3`. Clauses are ordered as in the contract.
///
/// ```
/// use memory_tool_conformance::Clause;
///
/// let clause = Clause::all().find(|clause| clause.id() == "V3").unwrap();
/// assert_eq!(clause.to_string(), "V3");
/// assert_eq!(clause.title(), "view: lines of a file");
/// ```
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Clause(usize);

impl Clause {
    /// Every clause, in the order of the contract.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..CLAUSES.len()).map(Self)
    }

    /// The id in the contract, such as `V3`.
    pub fn id(self) -> &'static str {
        &CLAUSES[self.0].0
    }

    /// A title of a few words.
    pub fn title(self) -> &'static str {
        &CLAUSES[self.0].1
    }

    pub(crate) fn find(id: &str) -> Option<Self> {
        Self::all().find(|clause| clause.id() == id)
    }
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.id())
    }
}

impl fmt::Debug for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clause({})", self.id())
    }
}

impl Serialize for Clause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}

impl<'de> Deserialize<'de> for Clause {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let id = String::deserialize(deserializer)?;
        Self::find(&id).ok_or_else(|| de::Error::custom(format_args!("there is no clause {id:?}")))
    }
}
