//! [`Finding`]: where in a text sensitive data is.

use std::ops::Range;

use crate::screening::detector::Detector;

/// A piece of sensitive data in a text.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// What it is.
    pub detector: Detector,
    /// Where it is, in bytes.
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
