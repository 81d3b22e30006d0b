//! [`SensitiveData`]: the screen that comes with this crate.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use memory_tool_core::MemoryPath;
use regex::Regex;

use crate::screening::detector::Detector;
use crate::screening::finding::Finding;
use crate::screening::redaction::redact;
use crate::screening::rules::{RULES, Rule};
use crate::screening::screen::{Refusal, Screen, Verdict};

/// How many findings a refusal names, so that it stays short whatever the text.
const MAX_NAMED_FINDINGS: usize = 5;

/// A [`Screen`] that keeps credentials, payment card numbers and, where asked, personal data out of a memory.
///
/// By default it refuses what [`Detector::CREDENTIALS`] and [`Detector::PaymentCard`] find. Each [`Detector`] can be set to
/// refuse, to redact, or be left out. To refuse is the default because Claude then learns at once that nothing was stored, and why.
/// Of a redaction it learns when it reads the file the next time, and until then takes the text for what it wrote.
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
/// 1. A refusal names the kind of each finding and its line, a mark the kind: neither holds a character of the value.
/// 2. What is found in the text from before an edit, by the same detector with the same value, does not count against the edit,
///    wherever in the text it now stands.
/// 3. Where of two findings one is to be refused, the text is refused.
/// 4. Its time is in proportion to the text: the patterns are matched without backtracking.
///
/// # What it cannot see
/// What is written in another form: reversed, encoded, in words, across two files. It keeps accidents out, not somebody who wants
/// to get past it. The README of this crate says how well each detector finds what it is made for.
#[derive(Clone, Debug)]
pub struct SensitiveData {
    rules: Arc<[CompiledRule]>,
    actions: BTreeMap<Detector, Action>,
}

#[derive(Debug)]
struct CompiledRule {
    detector: Detector,
    pattern: Regex,
    value: fn(&str) -> Option<Range<usize>>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Action {
    Refuse,
    Redact,
}

impl SensitiveData {
    /// The screen with the default detectors, which all refuse.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// The screen with detectors of your choice.
    pub fn builder() -> SensitiveDataBuilder {
        SensitiveDataBuilder { actions: BTreeMap::new() }
            .refuse(Detector::CREDENTIALS.iter().copied())
            .refuse([Detector::PaymentCard])
    }

    /// All that is found in a text, in its order and without overlaps. For a look at what a memory holds already.
    pub fn findings(&self, text: &str) -> Vec<Finding> {
        let mut findings: BTreeMap<usize, Finding> = BTreeMap::new();
        for finding in self.rules.iter().flat_map(|rule| rule.findings(text)) {
            let before = findings.range(..finding.range.end).next_back();
            // The rules come from the most specific to the least: what looks like an address may be the end of a password in a URL.
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
    fn screen_path(&self, path: &MemoryPath) -> Result<(), Refusal> {
        match self.findings(path.as_str()).first() {
            None => Ok(()),
            Some(finding) => Err(Refusal::new(format!(
                "Nothing was stored. This memory does not accept sensitive data, and the path contains: {}. \
                 Choose a name without it.",
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
    #[expect(clippy::expect_used, reason = "the patterns are a part of the program, and a test compiles them all")]
    fn new(rule: &Rule) -> Self {
        let pattern = Regex::new(rule.pattern).expect("the pattern is legal");
        Self { detector: rule.detector, pattern, value: rule.value }
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

/// The length of what is left behind of a candidate that is turned down. A value may begin after a blank in it, as a card number does
/// after a year, and nowhere else: a token has no blanks, and a number is not preceded by other separators.
fn first_word(candidate: &str) -> usize {
    candidate.find(' ').unwrap_or(candidate.len())
}

fn refusal(text: &str, findings: &[Finding]) -> Refusal {
    let named = findings.iter().take(MAX_NAMED_FINDINGS);
    let mut list: Vec<String> =
        named.map(|finding| format!("{} (line {})", finding.detector, finding.line(text))).collect();
    if findings.len() > MAX_NAMED_FINDINGS {
        list.push(format!("and {} more", findings.len() - MAX_NAMED_FINDINGS));
    }
    Refusal::new(format!(
        "Nothing was stored. This memory does not accept sensitive data, and the text contains: {}. \
         Leave the value out, or note where to find it.",
        list.join(", ")
    ))
}

/// The detectors of a [`SensitiveData`]. Made by [`SensitiveData::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct SensitiveDataBuilder {
    actions: BTreeMap<Detector, Action>,
}

impl SensitiveDataBuilder {
    /// Refuse a text in which one of these finds something.
    pub fn refuse(self, detectors: impl IntoIterator<Item = Detector>) -> Self {
        self.set(detectors, Action::Refuse)
    }

    /// Put a mark in the place of what one of these finds in a text. A name is refused.
    pub fn redact(self, detectors: impl IntoIterator<Item = Detector>) -> Self {
        self.set(detectors, Action::Redact)
    }

    /// Look for none of these.
    pub fn ignore(mut self, detectors: impl IntoIterator<Item = Detector>) -> Self {
        for detector in detectors {
            self.actions.remove(&detector);
        }
        self
    }

    /// The screen. It compiles its patterns, which takes about 10 ms: build it once and clone it.
    pub fn build(self) -> SensitiveData {
        let wanted = RULES.iter().filter(|rule| self.actions.contains_key(&rule.detector));
        SensitiveData { rules: wanted.map(CompiledRule::new).collect(), actions: self.actions }
    }

    fn set(mut self, detectors: impl IntoIterator<Item = Detector>, action: Action) -> Self {
        self.actions.extend(detectors.into_iter().map(|detector| (detector, action)));
        self
    }
}
