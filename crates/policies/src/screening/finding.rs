//! [`Finding`]: a position with sensitive data.

use std::ops::Range;

use crate::screening::detector::Detector;

/// A piece of sensitive data in some text.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// The kind of data.
    pub detector: Detector,
    /// The position in bytes.
    pub range: Range<usize>,
}

impl Finding {
    pub(super) fn value<'a>(&self, text: &'a str) -> &'a str {
        &text[self.range.clone()]
    }

    pub(super) fn line(&self, text: &str) -> usize {
        text[..self.range.start].matches('\n').count() + 1
    }
}
