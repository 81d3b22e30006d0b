//! [`LintRule`]: the rules and their names.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

macro_rules! rules {
    ($($(#[doc = $doc:literal])+ $rule:ident = $name:literal,)+) => {
        /// A rule of [`Memory::lint`](crate::Memory::lint).
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        #[non_exhaustive]
        pub enum LintRule {
            $($(#[doc = $doc])+ $rule,)+
        }

        impl LintRule {
            /// All rules.
            pub const ALL: &'static [Self] = &[$(Self::$rule,)+];

            /// The name, such as `broken-link`.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$rule => $name,)+
                }
            }
        }
    };
}

rules! {
    /// An index, `MEMORY.md` or `index.md`, of more than 200 lines or 25,000 bytes. Claude Code loads no more of it.
    LongIndex = "long-index",
    /// A text that `view` cuts after 16,000 characters (`[V8]`).
    CutView = "cut-view",
    /// Files that `view /memories` leaves out (`[V1]`, `[V8]`), with one finding for a directory.
    CutListing = "cut-listing",
    /// A file that no other one names, in or under a directory with an index.
    Orphan = "orphan",
    /// A link or wiki link of a Markdown file to a path or name that does not exist.
    BrokenLink = "broken-link",
    /// A paragraph of 80 characters or more that was already in this file or in another one.
    RepeatedParagraph = "repeated-paragraph",
    /// A path that differs from another one only by upper and lower case.
    Case = "case",
    /// A file without text.
    Empty = "empty",
    /// The markers of a conflict, as Git writes them.
    MergeMarker = "merge-marker",
    /// A credential or payment card number, which [`SensitiveData`](crate::policies::SensitiveData) finds.
    Secret = "secret",
    /// A character that people do not see, outside of emoji and of scripts that need it.
    Invisible = "invisible",
}

/// No rule has this name.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("expected one of {}", names().join(", "))]
#[non_exhaustive]
pub struct UnknownLintRule;

fn names() -> Vec<&'static str> {
    LintRule::ALL.iter().map(|rule| rule.name()).collect()
}

impl FromStr for LintRule {
    type Err = UnknownLintRule;

    fn from_str(name: &str) -> Result<Self, UnknownLintRule> {
        Self::ALL.iter().copied().find(|rule| rule.name() == name).ok_or(UnknownLintRule)
    }
}

impl fmt::Display for LintRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl<'de> Deserialize<'de> for LintRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl Serialize for LintRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
