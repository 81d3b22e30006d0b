//! Replaces findings with marks.

use crate::screening::finding::Finding;

/// Replaces each finding with `[redacted: …]`. Findings must be in order and must not overlap.
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
