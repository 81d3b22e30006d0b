//! [`FileRecord`]: what the index has for a file or a record, and where the contents are.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use memory_tool_core::{FileEntry, MemoryPath, PathMapEntry, Version};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A file or a record of the store.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileRecord {
    /// Unlike that of all other contents, in all stores. A rename keeps it.
    pub(crate) version: String,
    /// The write that made the contents, by the revision that it led to.
    pub(crate) revision: u64,
    /// In bytes.
    pub(crate) size: u64,
    pub(crate) content: Content,
}

/// Where the bytes of a file are.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Content {
    /// Here, as text.
    Text(String),
    /// Here, as they are not UTF-8.
    Base64(String),
    /// In an object.
    Object(Slice),
}

/// A part of an object.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Slice {
    /// The object's key beneath `contents/`.
    pub(crate) key: String,
    /// Where the bytes begin in it.
    pub(crate) offset: u64,
    /// Their digest in hexadecimal.
    pub(crate) sha256: String,
}

/// What is wrong with the contents of a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ContentError {
    #[error("the object {key:?} with the contents is gone")]
    Gone { key: Option<String> },
    #[error("the object {key} does not hold the contents that were put there")]
    Changed { key: String },
    #[error("the contents in the index are not of the size that it says")]
    WrongSize,
    #[error("the contents in the index are not base64")]
    NotBase64(#[source] base64::DecodeError),
    #[error("the index names an impossible object")]
    ImpossibleKey(#[source] object_store::path::Error),
}

impl Content {
    pub(crate) fn inline(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Base64(BASE64_STANDARD.encode(bytes)),
        }
    }

    /// How many characters of the index the contents are, about.
    pub(crate) fn inline_len(&self) -> usize {
        match self {
            Self::Text(text) | Self::Base64(text) => text.len(),
            Self::Object(_) => 0,
        }
    }

    /// The bytes, where they are in the index.
    fn inline_bytes(&self) -> Result<Option<Vec<u8>>, ContentError> {
        match self {
            Self::Text(text) => Ok(Some(text.clone().into_bytes())),
            Self::Base64(text) => BASE64_STANDARD.decode(text).map(Some).map_err(ContentError::NotBase64),
            Self::Object(_) => Ok(None),
        }
    }
}

impl FileRecord {
    /// The object that the contents are in, as the index names it.
    pub(crate) fn object(&self) -> Option<&str> {
        match &self.content {
            Content::Object(slice) => Some(&slice.key),
            Content::Text(_) | Content::Base64(_) => None,
        }
    }

    /// The bytes where they are in the index, checked.
    pub(crate) fn inline_bytes(&self) -> Result<Option<Vec<u8>>, ContentError> {
        let bytes = self.content.inline_bytes()?;
        match &bytes {
            Some(bytes) if bytes.len() as u64 != self.size => Err(ContentError::WrongSize),
            _ => Ok(bytes),
        }
    }
}

impl PathMapEntry for FileRecord {
    fn version(&self) -> Version {
        Version::new(self.version.as_bytes())
    }

    /// Without times, which the index does not have.
    fn to_entry(&self, path: &MemoryPath) -> FileEntry {
        FileEntry::new(path.clone(), self.size)
    }
}

/// The digest of contents in hexadecimal.
pub(crate) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
