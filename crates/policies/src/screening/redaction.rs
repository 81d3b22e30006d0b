//! Texts with marks in place of what was found in them.

use crate::screening::finding::Finding;

/// The text with `[redacted: …]` in place of each finding. They come in order and do not overlap.
pub(super) fn redact(text: &str, findings: &[Finding]) -> String {
    let mut redacted = String::with_capacity(text.len());
    let mut end = 0;
    for finding in findings {
        redacted.push_str(&text[end..finding.range.start]);
        redacted.push_str("[redacted: ");
        redacted.push_str(finding.detector.name());
        redacted.push(']');
        end = finding.range.end;
    }
    redacted.push_str(&text[end..]);
    redacted
}
