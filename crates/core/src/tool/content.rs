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

impl Content {
    /// Replaces U+0000, which the API refuses (`[W2]`). Only another implementation of the tool can return it.
    pub(crate) fn without_nul(mut self) -> Self {
        let texts: Vec<&mut String> = match &mut self {
            Self::Text(text) => vec![text],
            Self::Blocks(blocks) => blocks.iter_mut().filter_map(ContentBlock::text_mut).collect(),
        };
        for text in texts.into_iter().filter(|text| text.contains('\0')) {
            *text = text.replace('\0', "\u{fffd}");
        }
        self
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
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

impl ContentBlock {
    fn text_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::Text { text } => Some(text),
            Self::Image { .. } => None,
        }
    }
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
