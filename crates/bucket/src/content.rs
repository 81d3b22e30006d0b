//! [`FileRecord`]: the version, size and location of the contents of a file or record.

use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use memory_tool_core::{FileEntry, PathMapEntry, StorePath, Version};
use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// A file or a record of the store.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct FileRecord {
    /// Differs from the version of all other contents in all stores. A rename keeps it.
    pub(crate) version: String,
    pub(crate) commit: u64,
    /// In bytes.
    pub(crate) size: u64,
    /// When the contents were written, in seconds since 1970. By default, it is the time of the commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) modified: Option<u64>,
    /// When the file was created, if that was earlier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) created: Option<u64>,
    pub(crate) content: Content,
}

/// The location of the bytes of a file.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(from = "WrittenContent", into = "WrittenContent")]
pub(crate) enum Content {
    Inline(Bytes),
    Object(Slice),
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum WrittenContent {
    Text(String),
    /// Bytes that are not UTF-8.
    #[serde(with = "base64_text")]
    Base64(Vec<u8>),
    Object(Slice),
}

/// A part of an object.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Slice {
    /// The key of the object under `contents/`.
    pub(crate) key: String,
    pub(crate) offset: u64,
    pub(crate) sha256: Digest,
}

impl Slice {
    /// The place of contents of this size in the object.
    pub(crate) fn range(&self, size: u64) -> Range<u64> {
        self.offset..self.offset.saturating_add(size)
    }

    /// Checks that bytes are contents of this size.
    pub(crate) fn check(&self, size: u64, bytes: Bytes) -> Result<Vec<u8>, ContentError> {
        let is_intact = bytes.len() as u64 == size && Digest::of(&bytes) == self.sha256;
        if is_intact { Ok(bytes.into()) } else { Err(ContentError::Changed { key: self.key.clone() }) }
    }
}

/// Damage to the contents of a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ContentError {
    #[error("the object {key} with the contents is missing")]
    Missing { key: String },
    #[error("the object {key} does not hold the contents that were put there")]
    Changed { key: String },
    #[error("the contents are not of the size that was recorded")]
    WrongSize,
    #[error("the log names an impossible object")]
    ImpossibleKey(#[source] object_store::path::Error),
}

impl From<WrittenContent> for Content {
    fn from(written: WrittenContent) -> Self {
        match written {
            WrittenContent::Text(text) => Self::Inline(text.into()),
            WrittenContent::Base64(bytes) => Self::Inline(bytes.into()),
            WrittenContent::Object(slice) => Self::Object(slice),
        }
    }
}

impl From<Content> for WrittenContent {
    fn from(content: Content) -> Self {
        match content {
            Content::Inline(bytes) => match String::from_utf8(bytes.into()) {
                Ok(text) => Self::Text(text),
                Err(error) => Self::Base64(error.into_bytes()),
            },
            Content::Object(slice) => Self::Object(slice),
        }
    }
}

mod base64_text {
    use base64::Engine as _;
    use serde::{Deserializer, Serializer, de};

    use super::{BASE64_STANDARD, Deserialize};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64_STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        BASE64_STANDARD.decode(String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// Seconds since 1970.
pub(crate) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl FileRecord {
    /// The part of an object with the contents, unless they are in this record.
    pub(crate) fn slice(&self) -> Option<&Slice> {
        match &self.content {
            Content::Object(slice) => Some(slice),
            Content::Inline(_) => None,
        }
    }

    /// The contents, cut from the start of the object that holds them.
    pub(crate) fn cut(&self, object: &Bytes) -> Result<Bytes, ContentError> {
        let Some(slice) = self.slice() else { return Err(ContentError::WrongSize) };
        let changed = || ContentError::Changed { key: slice.key.clone() };
        let end = slice.offset.checked_add(self.size).and_then(|end| usize::try_from(end).ok());
        let begin = usize::try_from(slice.offset).map_err(|_| changed())?;
        let end = end.filter(|end| *end <= object.len()).ok_or_else(changed)?;
        let bytes = object.slice(begin..end);
        if Digest::of(&bytes) == slice.sha256 { Ok(bytes) } else { Err(changed()) }
    }

    pub(crate) fn created(&self) -> Option<u64> {
        self.created.or(self.modified)
    }

    /// Adds the times that a commit of this time left out. The clocks of authors differ, so a file is not modified
    /// before the last time.
    pub(crate) fn date(&mut self, time: u64, replaced: Option<&Self>) {
        let last = replaced.and_then(|replaced| replaced.modified);
        let modified = self.modified.unwrap_or_else(|| time.max(last.unwrap_or(0)));
        self.created = self.created.or_else(|| replaced.and_then(Self::created)).filter(|created| *created < modified);
        self.modified = Some(modified);
    }

    /// Whether the contents are in a pack.
    pub(crate) fn is_packed(&self) -> bool {
        self.slice().is_some_and(|slice| slice.key.starts_with("packs/"))
    }

    /// The number of bytes of contents in this record.
    pub(crate) fn inline_len(&self) -> usize {
        match &self.content {
            Content::Inline(bytes) => bytes.len(),
            Content::Object(_) => 0,
        }
    }
}

impl PathMapEntry for FileRecord {
    fn version(&self) -> Version {
        Version::new(self.version.as_bytes())
    }

    fn to_entry(&self, path: &StorePath) -> FileEntry {
        let time = |seconds: u64| UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
        let entry = FileEntry::new(path.clone(), self.size);
        entry.with_created(self.created().and_then(time)).with_modified(self.modified.and_then(time))
    }
}
