//! [`Clause`]: the clauses of the contract that the cases test.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Each clause with what it is about, in the order of the contract.
const CLAUSES: [(&str, &str); 41] = [
    ("W1", "commands as they come in"),
    ("W2", "results as they go out"),
    ("W3", "the tool's definition"),
    ("W4", "the beta header and context editing"),
    ("W5", "no word of the host"),
    ("P1", "paths begin at /memories"),
    ("P2", "paths that are refused"),
    ("P3", "one spelling for one path"),
    ("P4", "links and special files"),
    ("P5", "directories are implicit"),
    ("P6", "the root is fixed"),
    ("V1", "view: the listing of a directory"),
    ("V2", "view: sizes"),
    ("V3", "view: the lines of a file"),
    ("V4", "view: ranges of lines"),
    ("V5", "view: the greatest number of lines"),
    ("V6", "view: nothing there"),
    ("V7", "view: an empty store"),
    ("V8", "view: the cap on characters"),
    ("V9", "view: images"),
    ("V10", "view: what is not text"),
    ("C1", "create: bytes as they were sent"),
    ("C2", "create: what is there stays"),
    ("C3", "create: a parent that is a file"),
    ("S1", "str_replace: the edit and its snippet"),
    ("S2", "str_replace: nothing there"),
    ("S3", "str_replace: no occurrence"),
    ("S4", "str_replace: several occurrences"),
    ("S5", "str_replace: how occurrences are counted"),
    ("I1", "insert: no other byte changes"),
    ("I2", "insert: a line outside the file"),
    ("I3", "insert: nothing there"),
    ("D1", "delete: files and directories"),
    ("D2", "delete: nothing there"),
    ("R1", "rename: files and directories"),
    ("R2", "rename: nothing is overwritten"),
    ("R3", "rename: where nothing can be moved"),
    ("X1", "atomic: the whole effect or none"),
    ("X2", "durable: what is acknowledged survives"),
    ("X3", "linearizable: no edit is lost"),
    ("X4", "limits"),
];

/// A clause of the contract, such as `V3`. Clauses are ordered as in the contract.
///
/// ```
/// use memory_tool_conformance::Clause;
///
/// let clause = Clause::all().find(|clause| clause.id() == "V3").unwrap();
/// assert_eq!(clause.to_string(), "V3");
/// assert_eq!(clause.title(), "view: the lines of a file");
/// ```
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Clause(usize);

impl Clause {
    /// Every clause, in the order of the contract.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..CLAUSES.len()).map(Self)
    }

    /// The name by which the contract and the cases call it.
    pub fn id(self) -> &'static str {
        CLAUSES[self.0].0
    }

    /// What it is about, in a few words.
    pub fn title(self) -> &'static str {
        CLAUSES[self.0].1
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
