//! [`Content`]: the `content` of a `tool_result` block (`[W2]`).

use serde::{Deserialize, Serialize};

/// The `content` of a `tool_result` block: text, or content blocks.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(untagged)]
#[expect(clippy::exhaustive_enums, reason = "the API accepts these two")]
pub enum Content {
    /// Plain text.
    Text(String),
    /// Content blocks.
    Blocks(Vec<ContentBlock>),
}

/// A content block of a `tool_result`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ContentBlock {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An image.
    Image {
        /// The source of the image.
        source: ImageSource,
    },
}

/// The source of an image block.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ImageSource {
    /// The image, encoded in base64.
    Base64 {
        /// The media type, such as `image/png`.
        media_type: String,
        /// The encoded bytes.
        data: String,
    },
}
