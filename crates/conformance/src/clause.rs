//! [`Clause`]: the clauses of the contract.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The clauses and their titles, in the order of the contract.
const CLAUSES: [(&str, &str); 43] = [
    ("W1", "input"),
    ("W2", "output"),
    ("W3", "tool definition"),
    ("W4", "beta header and context editing"),
    ("W5", "no details of the host in replies"),
    ("P1", "paths start with /memories"),
    ("P2", "invalid paths"),
    ("P3", "canonical paths"),
    ("P4", "links and special files"),
    ("P5", "directories are implicit"),
    ("P6", "the root cannot be changed"),
    ("V1", "view: directory listings"),
    ("V2", "view: sizes"),
    ("V3", "view: lines of a file"),
    ("V4", "view: line ranges"),
    ("V5", "view: line limit"),
    ("V6", "view: missing path"),
    ("V7", "view: empty memory"),
    ("V8", "view: character cap"),
    ("V9", "view: images"),
    ("V10", "view: files that are not text"),
    ("C1", "create: exact bytes"),
    ("C2", "create: no overwriting"),
    ("C3", "create: parent is a file"),
    ("C4", "create: texts with U+0000"),
    ("S1", "str_replace: edit and snippet"),
    ("S2", "str_replace: missing path"),
    ("S3", "str_replace: no occurrence"),
    ("S4", "str_replace: several occurrences"),
    ("S5", "str_replace: counting occurrences"),
    ("I1", "insert: exact edit"),
    ("I2", "insert: line outside the file"),
    ("I3", "insert: missing path"),
    ("D1", "delete: files and directories"),
    ("D2", "delete: missing path"),
    ("R1", "rename: files and directories"),
    ("R2", "rename: missing source, no overwriting"),
    ("R3", "rename: invalid destination"),
    ("X1", "atomicity"),
    ("X2", "durability"),
    ("X3", "linearizability"),
    ("X5", "order"),
    ("X4", "limits"),
];

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
        CLAUSES[self.0].0
    }

    /// A title of a few words.
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
