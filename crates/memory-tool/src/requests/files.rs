//! [`FileRequest`]: reads and writes files.

use std::fmt;

use memory_tool_core::StoreError;
use serde::de::{Deserialize, Deserializer, Error, Visitor};

use crate::memory::Memory;
use crate::requests::{Changes, Outcome};

/// A request that reads or writes files: a method of [`Memory`]. Paths are checked when it is performed.
#[derive(Debug, serde::Deserialize)]
#[expect(missing_docs, reason = "the fields are the arguments of the methods")]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum FileRequest {
    /// [`Memory::read_bytes`].
    Read { path: String },
    /// [`Memory::read_to_string`].
    ReadText { path: String },
    /// [`Memory::exists`].
    Exists { path: String },
    /// [`Memory::write`], or with a condition [`Memory::write_if`].
    Write {
        path: String,
        #[serde(alias = "text", alias = "bytes")]
        content: Contents,
        #[serde(default)]
        if_content: Option<Contents>,
        #[serde(default)]
        if_absent: bool,
    },
    /// [`Memory::append`].
    Append { path: String, content: Contents },
    /// [`Memory::list`].
    List { directory: String },
    /// [`Memory::remove`].
    Remove { path: String },
    /// [`Memory::rename`].
    Rename { old_path: String, new_path: String },
    /// [`Memory::clear`].
    Clear {},
    /// [`Memory::watch`].
    Watch {},
}

/// The contents of a file, in data text or bytes.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "it only reads data")]
pub struct Contents(pub Vec<u8>);

impl<'de> Deserialize<'de> for Contents {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrBytes)
    }
}

struct TextOrBytes;

impl Visitor<'_> for TextOrBytes {
    type Value = Contents;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or bytes")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Contents, E> {
        self.visit_bytes(text.as_bytes())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Contents, E> {
        Ok(Contents(text.into_bytes()))
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Contents, E> {
        Ok(Contents(bytes.to_vec()))
    }

    fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<Contents, E> {
        Ok(Contents(bytes))
    }
}

impl FileRequest {
    pub(super) fn is_read(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::ReadText { .. } | Self::Exists { .. } | Self::List { .. })
    }

    pub(super) async fn perform(self, memory: &Memory) -> Result<Outcome, StoreError> {
        match self {
            Self::Read { path } => return Ok(Outcome::Bytes(memory.read_bytes(&*path).await?)),
            Self::ReadText { path } => return Ok(Outcome::Text(memory.read_to_string(&*path).await?)),
            Self::Exists { path } => return Ok(Outcome::Data(memory.exists(&*path).await?.into())),
            Self::List { directory } => return Ok(Outcome::Files(memory.list(&*directory).await?)),
            Self::Watch {} => return Ok(Outcome::Changes(Changes::new(memory.watch().await))),
            Self::Write { path, content, if_content: None, if_absent: false } => {
                memory.write(&*path, content.0).await?;
            }
            Self::Write { path, content, if_content, .. } => {
                let expected = if_content.as_ref().map(|Contents(expected)| expected.as_slice());
                memory.write_if(&*path, content.0, expected).await?;
            }
            Self::Append { path, content } => memory.append(&*path, content.0).await?,
            Self::Remove { path } => memory.remove(&*path).await?,
            Self::Rename { old_path, new_path } => memory.rename(&*old_path, &*new_path).await?,
            Self::Clear {} => memory.clear().await?,
        }
        Ok(Outcome::Done)
    }
}
