//! [`SensitiveData`]: a screen for credentials and personal data.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use memory_tool_core::StorePath;
use regex::Regex;

use crate::screening::detector::Detector;
use crate::screening::finding::Finding;
use crate::screening::rules::{RULES, Rule};
use crate::screening::screen::{Refusal, Screen, Verdict};

const MAX_NAMED_FINDINGS: usize = 5;

/// A [`Screen`] that keeps credentials, payment card numbers and, optionally, personal data out of a memory.
///
/// By default it refuses the findings of [`Detector::CREDENTIALS`] and [`Detector::PaymentCard`]. Each [`Detector`] can
/// be set to refuse, redact or ignore. The default is to refuse because Claude then learns at once that nothing was
/// stored, and why. It notices a redaction only when it reads the file again.
///
/// ```
/// use memory_tool_policies::{Detector, Screen, SensitiveData, Verdict};
///
/// let screen = SensitiveData::builder().redact([Detector::EmailAddress]).ignore([Detector::PaymentCard]).build();
/// assert_eq!(
///     screen.screen_text("Ask maria@correio.pt about the invoice.", ""),
///     Verdict::Redact { text: "Ask [redacted: e-mail address] about the invoice.".to_owned() },
/// );
/// ```
///
/// # Behavior
/// 1. A refusal names the kind and line of each finding, and a mark names the kind. Neither contains any part of the
///    value.
/// 2. A value that the same detector found in the text before an edit does not count against the edit, even at another
///    position.
/// 3. If one finding is refused and another redacted, the text is refused.
/// 4. The time is proportional to the length of the text, because patterns are matched without backtracking.
/// 5. Published sample values and placeholders are accepted: `AKIAIOSFODNN7EXAMPLE`, `${PASSWORD}`,
///    `PASSWORD=changeme`, `-u root:root`, the card numbers for tests.
///
/// # Limits
/// It prevents accidents. It does not detect values that are reversed, encoded, written in words or split over two
/// files. [How well it finds](crate#screening) gives its precision and recall.
#[derive(Clone, Debug)]
pub struct SensitiveData {
    rules: Arc<[CompiledRule]>,
    actions: BTreeMap<Detector, Action>,
}

#[derive(Debug)]
struct CompiledRule {
    detector: Detector,
    /// Matches in every text with a match of the pattern. Several rules can share it.
    words: Option<Arc<Regex>>,
    pattern: Regex,
    value: fn(&str) -> Option<Range<usize>>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Action {
    Refuse,
    Redact,
}

impl SensitiveData {
    /// Creates a screen with the default detectors, which all refuse.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Returns a builder that starts with the default detectors.
    pub fn builder() -> SensitiveDataBuilder {
        SensitiveDataBuilder { actions: BTreeMap::new() }
            .refuse(Detector::CREDENTIALS.iter().copied())
            .refuse([Detector::PaymentCard])
    }

    /// Returns all findings in `text`, in order and without overlaps. Use it to check the files of an existing memory.
    pub fn findings(&self, text: &str) -> Vec<Finding> {
        let mut findings: BTreeMap<usize, Finding> = BTreeMap::new();
        let mut searched = None;
        let rules = self.rules.iter().filter(|rule| rule.may_match(text, &mut searched));
        for finding in rules.flat_map(|rule| rule.findings(text)) {
            let before = findings.range(..finding.range.end).next_back();
            // Rules are ordered from most to least specific: an apparent address may be the end of a password in a URL.
            if before.is_none_or(|(_, before)| before.range.end <= finding.range.start) {
                findings.insert(finding.range.start, finding);
            }
        }
        findings.into_values().collect()
    }

    fn refuses(&self, finding: &Finding) -> bool {
        self.actions.get(&finding.detector) == Some(&Action::Refuse)
    }
}

impl Default for SensitiveData {
    fn default() -> Self {
        Self::new()
    }
}

impl Screen for SensitiveData {
    fn screen_path(&self, path: &StorePath) -> Result<(), Refusal> {
        match self.findings(path.as_str()).first() {
            None => Ok(()),
            Some(finding) => Err(Refusal::new(format!(
                "The name was refused because it contains sensitive data: {}. Choose a name without it.",
                finding.detector
            ))),
        }
    }

    fn screen_text(&self, text: &str, before: &str) -> Verdict {
        let mut findings = self.findings(text);
        if findings.is_empty() {
            return Verdict::Accept;
        }
        let known = self.findings(before);
        let known: HashSet<_> = known.iter().map(|finding| (finding.detector, finding.value(before))).collect();
        findings.retain(|finding| !known.contains(&(finding.detector, finding.value(text))));
        if findings.is_empty() {
            Verdict::Accept
        } else if findings.iter().any(|finding| self.refuses(finding)) {
            Verdict::Refuse(refusal(text, &findings))
        } else {
            Verdict::Redact { text: redact(text, &findings) }
        }
    }
}

impl CompiledRule {
    /// Compiles rules in order.
    fn all<'a>(rules: impl Iterator<Item = &'a Rule>) -> Arc<[Self]> {
        let mut last: Option<(&str, Arc<Regex>)> = None;
        let compiled = rules.map(|rule| {
            last = rule.words.map(|words| match last.take() {
                Some((pattern, shared)) if pattern == words => (words, shared),
                _ => (words, Arc::new(regex(words))),
            });
            let words = last.as_ref().map(|(_, words)| Arc::clone(words));
            Self { detector: rule.detector, words, pattern: regex(rule.pattern), value: rule.value }
        });
        compiled.collect()
    }

    /// Whether the text has the words of the rule. `searched` is the result for the rule before.
    fn may_match<'a>(&'a self, text: &str, searched: &mut Option<(&'a Arc<Regex>, bool)>) -> bool {
        let Some(words) = &self.words else { return true };
        match searched {
            Some((last, found)) if Arc::ptr_eq(last, words) => *found,
            _ => searched.insert((words, words.is_match(text))).1,
        }
    }

    fn findings<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Finding> + 'a {
        let mut position = 0;
        std::iter::from_fn(move || {
            loop {
                let candidate = self.pattern.captures_at(text, position)?.get(1)?;
                if let Some(value) = (self.value)(candidate.as_str()) {
                    let range = candidate.start() + value.start..candidate.start() + value.end;
                    position = range.end;
                    return Some(Finding { detector: self.detector, range });
                }
                position = candidate.start() + first_word(candidate.as_str());
            }
        })
    }
}

#[expect(clippy::expect_used, reason = "the patterns are constants, and a test compiles all of them")]
fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is valid")
}

/// The length of the first word of a rejected candidate, after which the search continues. A value may begin after a
/// blank, like a card number after a year. It cannot begin elsewhere: tokens have no blanks, and no other separators
/// precede numbers.
fn first_word(candidate: &str) -> usize {
    candidate.find(' ').unwrap_or(candidate.len())
}

/// Replaces each finding with `[redacted: …]`. Findings must be in order and must not overlap.
fn redact(text: &str, findings: &[Finding]) -> String {
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

fn refusal(text: &str, findings: &[Finding]) -> Refusal {
    let named = findings.iter().take(MAX_NAMED_FINDINGS);
    let mut list: Vec<String> =
        named.map(|finding| format!("{} (line {})", finding.detector, finding.line(text))).collect();
    if findings.len() > MAX_NAMED_FINDINGS {
        list.push(format!("and {} more", findings.len() - MAX_NAMED_FINDINGS));
    }
    Refusal::new(format!(
        "The text was not stored because it contains sensitive data: {}. \
         Leave the value out, or note where to find it.",
        list.join(", ")
    ))
}

/// A builder for [`SensitiveData`], created by [`SensitiveData::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct SensitiveDataBuilder {
    actions: BTreeMap<Detector, Action>,
}

impl SensitiveDataBuilder {
    /// Refuses text and names with findings of these detectors.
    pub fn refuse(self, detectors: impl IntoIterator<Item = Detector>) -> Self {
        self.set(detectors, Action::Refuse)
    }

    /// Replaces findings of these detectors in text with marks. Names with findings are refused.
    pub fn redact(self, detectors: impl IntoIterator<Item = Detector>) -> Self {
        self.set(detectors, Action::Redact)
    }

    /// Disables these detectors.
    pub fn ignore(mut self, detectors: impl IntoIterator<Item = Detector>) -> Self {
        for detector in detectors {
            self.actions.remove(&detector);
        }
        self
    }

    /// Builds the screen. Compiling the patterns takes about 10 ms, so build it once and clone it.
    pub fn build(self) -> SensitiveData {
        let wanted = RULES.iter().filter(|rule| self.actions.contains_key(&rule.detector));
        SensitiveData { rules: CompiledRule::all(wanted), actions: self.actions }
    }

    fn set(mut self, detectors: impl IntoIterator<Item = Detector>, action: Action) -> Self {
        self.actions.extend(detectors.into_iter().map(|detector| (detector, action)));
        self
    }
}
