//! [`Scope`]: a tenant of a shared store.

use std::collections::BTreeSet;
use std::fmt;
use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

use memory_tool_core::{MemoryPath, Node, ReadOptions, Store, StoreError, StorePath};

/// The maximum length of a scope name in bytes.
pub const MAX_SCOPE_NAME_BYTES: usize = 80;

/// The prefix of every scope directory. It avoids reserved names such as `con`.
const DIRECTORY_PREFIX: &str = "scope-";

/// The directory of the inner store with the records of all scopes.
#[allow(clippy::expect_used, reason = "the path is constant")]
static RECORDS: LazyLock<StorePath> = LazyLock::new(|| "/records/scopes".parse().expect("the path is valid"));

/// A tenant of a shared store: a user, a customer or a project. Its name must come from a trusted source, not from the
/// model.
///
/// A name is 1 to [`MAX_SCOPE_NAME_BYTES`] bytes of any characters except control characters, without white space at
/// either end. Names are compared byte by byte: case matters, and `/`, `..`, `%` and quotes have no special meaning.
/// For a longer name, use its SHA-256 in hexadecimal digits.
///
/// [`from_trusted_name`](Self::from_trusted_name) is the only constructor. A scope has no default and cannot be
/// deserialized, so a program never gets one by omission or from a request:
///
/// ```compile_fail,E0599
/// let scope = memory_tool_policies::Scope::default();
/// ```
/// ```compile_fail,E0277
/// let scope: memory_tool_policies::Scope = serde_json::from_str("\"alice\"")?;
/// # Ok::<(), serde_json::Error>(())
/// ```
/// ```compile_fail,E0277
/// let scope = memory_tool_policies::Scope::from("alice".to_owned());
/// ```
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Scope {
    name: Arc<str>,
    directory: MemoryPath,
    records: StorePath,
}

impl Scope {
    /// Creates a scope.
    ///
    /// The name decides whose memory is read and changed. Take it from a trusted source, such as the user of an
    /// authenticated request, and never from the model.
    ///
    /// # Errors
    /// Returns [`ScopeError`] if the name is empty or invalid.
    ///
    /// ```
    /// use memory_tool_policies::{Scope, ScopeError};
    ///
    /// assert_eq!(Scope::from_trusted_name("user/42")?.name(), "user/42");
    /// assert_eq!(Scope::from_trusted_name(""), Err(ScopeError::Empty));
    /// # Ok::<(), ScopeError>(())
    /// ```
    pub fn from_trusted_name(name: &str) -> Result<Self, ScopeError> {
        let too_long = || ScopeError::TooLong { length: name.len() };
        if name.trim().is_empty() {
            return Err(ScopeError::Empty);
        }
        if name.len() > MAX_SCOPE_NAME_BYTES {
            return Err(too_long());
        }
        if let Some(character) = name.chars().find(|character| character.is_control()) {
            return Err(ScopeError::ControlCharacter { character });
        }
        if name.trim() != name {
            return Err(ScopeError::SurroundingWhiteSpace);
        }
        // An encoded name can only be invalid because of its length, which the limit above prevents.
        let encoded = encode(name);
        let directory = MemoryPath::root().join(&encoded).map_err(|_| too_long())?;
        let records = RECORDS.join(&encoded);
        Ok(Self { name: Arc::from(name), directory, records: records.map_err(|_| too_long())? })
    }

    /// Returns the sorted scopes that have a file or a record, such as a history, in `store`, which is the inner store
    /// of a [`ScopedStore`](crate::ScopedStore). Lists the whole store. Files outside all scopes are ignored.
    ///
    /// Files of other programs count as well, if their first directory has the form of a scope directory.
    ///
    /// # Errors
    /// The errors of [`Store::read_opts`].
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use memory_tool_core::{InMemoryStore, StoreExt};
    /// use memory_tool_policies::{Scope, ScopedStore};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let (store, alice) = (Arc::new(InMemoryStore::new()), Scope::from_trusted_name("alice")?);
    /// ScopedStore::new(Arc::clone(&store), alice.clone()).write("/memories/note.txt", "Hello").await?;
    /// assert_eq!(Scope::list_in(&store).await?, [alice]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn list_in(store: &(impl Store + ?Sized)) -> Result<Vec<Self>, StoreError> {
        let list = async |directory: &StorePath| {
            Ok::<_, StoreError>(store.read_opts(directory, ReadOptions::new()).await?.into_listing().files)
        };
        let mut entries = list(&StorePath::memories()).await?;
        entries.append(&mut list(&RECORDS).await?);
        let scopes: BTreeSet<Self> = entries.iter().filter_map(|entry| Self::of_entry(&entry.path)).collect();
        Ok(scopes.into_iter().collect())
    }

    /// Whether the scope has a file or a record, such as a history, in `store`, which is the inner store of a
    /// [`ScopedStore`](crate::ScopedStore).
    ///
    /// # Errors
    /// The errors of [`Store::read_opts`].
    pub async fn exists_in(&self, store: &(impl Store + ?Sized)) -> Result<bool, StoreError> {
        for directory in [StorePath::from(&self.directory), self.records()] {
            if store.read_opts(&directory, ReadOptions::new()).await? != Node::Absent {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The scope of a file or record in the inner store; `None` if it is in no scope.
    fn of_entry(path: &StorePath) -> Option<Self> {
        let above_scopes = if path.is_record() { RECORDS.clone() } else { StorePath::memories() };
        let directory = path.parents().find(|above| above.parent().as_ref() == Some(&above_scopes))?;
        let name = decode(directory.file_name()?)?;
        let scope = Self::from_trusted_name(&name).ok()?;
        (*scope.directory == directory || scope.records == directory).then_some(scope)
    }

    /// The name that was passed to [`from_trusted_name`](Self::from_trusted_name).
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The directory of the inner store in which a [`ScopedStore`](crate::ScopedStore) keeps the files of this scope.
    /// Use it to copy the data of a tenant. It stays the same in later versions.
    ///
    /// It is `scope-` followed by the name, in which every byte except `a` to `z`, `0` to `9` and `-` is encoded as an
    /// underscore and two hexadecimal digits. Different names therefore have different directories, even on file
    /// systems that ignore case or normalize Unicode, and no directory contains another.
    ///
    /// ```
    /// use memory_tool_policies::Scope;
    ///
    /// let scope = Scope::from_trusted_name("Zoë")?;
    /// assert_eq!(scope.directory().as_str(), "/memories/scope-_5ao_c3_ab");
    /// # Ok::<(), memory_tool_policies::ScopeError>(())
    /// ```
    pub fn directory(&self) -> &MemoryPath {
        &self.directory
    }

    /// The directory of the inner store for the records of this scope.
    pub(crate) fn records(&self) -> StorePath {
        self.records.clone()
    }
}

/// Writes the name, for the operator. The model never reads it.
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

fn encode(name: &str) -> String {
    let mut encoded = DIRECTORY_PREFIX.to_owned();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' => encoded.push(char::from(byte)),
            // Writing to a string cannot fail.
            _ => _ = write!(encoded, "_{byte:02x}"),
        }
    }
    encoded
}

/// Reverses [`encode`]. Returns `None` for text that is not encoded. It also accepts other spellings of an encoded
/// name.
fn decode(encoded: &str) -> Option<String> {
    let mut bytes = encoded.strip_prefix(DIRECTORY_PREFIX)?.bytes();
    let mut name = Vec::with_capacity(bytes.len());
    while let Some(byte) = bytes.next() {
        name.push(match byte {
            b'_' => {
                let digits = [char::from(bytes.next()?), char::from(bytes.next()?)].map(|digit| digit.to_digit(16));
                let [Some(high), Some(low)] = digits else { return None };
                u8::try_from(high << 4 | low).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(name).ok()
}

/// An invalid name for a [`Scope`].
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ScopeError {
    /// The name is empty or blank.
    #[error("scope name must not be empty")]
    Empty,
    /// The name is longer than [`MAX_SCOPE_NAME_BYTES`].
    #[error("scope name is {length} bytes long; the limit is {MAX_SCOPE_NAME_BYTES}")]
    TooLong {
        /// The length of the name in bytes.
        length: usize,
    },
    /// The name contains a control character, such as the line feed at the end of a file.
    #[error("scope name contains the control character {}", character.escape_default())]
    ControlCharacter {
        /// The first such character.
        character: char,
    },
    /// The name starts or ends with white space, which would silently make it a different scope.
    #[error("scope name must not start or end with white space")]
    SurroundingWhiteSpace,
}

#[cfg(test)]
mod tests {
    use memory_tool_core::MAX_SEGMENT_BYTES;

    use super::*;

    #[test]
    fn the_directory_of_the_longest_name_is_a_valid_path() {
        for character in ["a", "A", "é", "語", "𝄞"] {
            let name = character.repeat(MAX_SCOPE_NAME_BYTES / character.len());
            let scope = Scope::from_trusted_name(&name).unwrap();
            assert!(scope.directory().file_name().unwrap().len() <= MAX_SEGMENT_BYTES);
        }
        let refused = Scope::from_trusted_name(&"a".repeat(MAX_SCOPE_NAME_BYTES + 1));
        assert_eq!(refused, Err(ScopeError::TooLong { length: MAX_SCOPE_NAME_BYTES + 1 }));
    }

    #[test]
    fn an_empty_or_invalid_name_is_rejected() {
        for blank in ["", " ", "\n", "\u{3000}\t"] {
            assert_eq!(Scope::from_trusted_name(blank), Err(ScopeError::Empty), "{blank:?}");
        }
        assert_eq!(Scope::from_trusted_name(" alice"), Err(ScopeError::SurroundingWhiteSpace));
        let line_feed = ScopeError::ControlCharacter { character: '\n' };
        assert_eq!(Scope::from_trusted_name("alice\n"), Err(line_feed));
    }
}
