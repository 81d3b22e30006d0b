//! [`CommandName`]: the names of the six commands.

use std::fmt;

/// The name of a command.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "memory_20250818 has exactly these commands")]
pub enum CommandName {
    /// `view`
    View,
    /// `create`
    Create,
    /// `str_replace`
    StrReplace,
    /// `insert`
    Insert,
    /// `delete`
    Delete,
    /// `rename`
    Rename,
}

impl CommandName {
    /// All commands, in the order of the documentation.
    pub const ALL: [Self; 6] = [Self::View, Self::Create, Self::StrReplace, Self::Insert, Self::Delete, Self::Rename];

    /// The name in the input of a call.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::View => "view",
            Self::Create => "create",
            Self::StrReplace => "str_replace",
            Self::Insert => "insert",
            Self::Delete => "delete",
            Self::Rename => "rename",
        }
    }
}

impl fmt::Display for CommandName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
