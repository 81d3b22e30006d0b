//! Precision and recall of each detector on the labelled corpus.
//!
//! `cargo test -p memory-tool-policies --test it corpus -- --nocapture` prints the table, and each wrong or missed
//! value.

use std::collections::BTreeMap;
use std::ops::Range;

use memory_tool_policies::{Detector, Screen, SensitiveData, Verdict};
use serde::Deserialize;

/// Samples that the detectors were tuned on.
const TUNED: &str = include_str!("../corpus/tuned.json");
/// Samples that were written before the detectors, and are not used for tuning.
const HELD_OUT: &str = include_str!("../corpus/held_out.json");
/// Secrets as people write them in notes, and similar samples, written before the rules for them.
const NOTES: &str = include_str!("../corpus/notes.json");

#[derive(Deserialize)]
struct Corpus {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    text: Vec<Piece>,
}

/// A part of a sample. Secrets are split, because source code scanners would report them as real ones.
#[derive(Deserialize)]
#[serde(untagged)]
enum Piece {
    Harmless(String),
    Sensitive { finds: String, parts: Vec<String> },
}

/// The detector name and position of a value.
type Label = (&'static str, Range<usize>);

impl Case {
    fn assemble(&self) -> (String, Vec<Label>) {
        let (mut text, mut labels) = (String::new(), Vec::new());
        for piece in &self.text {
            match piece {
                Piece::Harmless(part) => text.push_str(part),
                Piece::Sensitive { finds, parts } => {
                    let start = text.len();
                    parts.iter().for_each(|part| text.push_str(part));
                    labels.push((detector(finds).name(), start..text.len()));
                }
            }
        }
        (text, labels)
    }
}

fn detector(name: &str) -> Detector {
    let known = Detector::ALL.iter().find(|detector| detector.name() == name);
    *known.unwrap_or_else(|| panic!("the corpus has the unknown detector {name}"))
}

#[derive(Clone, Copy, Default)]
struct Score {
    right: u32,
    wrong: u32,
    missed: u32,
}

impl Score {
    fn precision(self) -> f64 {
        ratio(self.right, self.wrong)
    }

    fn recall(self) -> f64 {
        ratio(self.right, self.missed)
    }

    fn add(&mut self, other: Self) {
        self.right += other.right;
        self.wrong += other.wrong;
        self.missed += other.missed;
    }
}

fn ratio(good: u32, bad: u32) -> f64 {
    if good + bad == 0 { 1.0 } else { f64::from(good) / f64::from(good + bad) }
}

fn everything() -> SensitiveData {
    SensitiveData::builder().refuse(Detector::ALL.iter().copied()).build()
}

fn cases(corpus: &str) -> Vec<(String, Vec<Label>)> {
    serde_json::from_str::<Corpus>(corpus).unwrap().cases.iter().map(Case::assemble).collect()
}

/// Compares the findings of a screen with the labels. A finding is right if a label has the same kind and position.
fn scores(screen: &SensitiveData, corpus: &str) -> BTreeMap<&'static str, Score> {
    let mut scores: BTreeMap<&str, Score> = BTreeMap::new();
    for (text, labels) in cases(corpus) {
        let found: Vec<Label> =
            screen.findings(&text).into_iter().map(|finding| (finding.detector.name(), finding.range)).collect();
        for finding in &found {
            let score = scores.entry(finding.0).or_default();
            if labels.contains(finding) {
                score.right += 1;
            } else {
                println!("wrong: {finding:?} in {text:?}");
                score.wrong += 1;
            }
        }
        for label in labels.iter().filter(|label| !found.contains(label)) {
            println!("missed: {label:?} in {text:?}");
            scores.entry(label.0).or_default().missed += 1;
        }
    }
    scores
}

fn total(scores: &BTreeMap<&str, Score>) -> Score {
    let mut total = Score::default();
    scores.values().for_each(|score| total.add(*score));
    total
}

#[test]
fn precision_and_recall_are_above_the_minimum() {
    let (tuned, held_out) = (scores(&everything(), TUNED), scores(&everything(), HELD_OUT));
    println!("| detector | tuned: precision | recall | held out: precision | recall |\n|---|---|---|---|---|");
    let row = |name: &str, tuned: Score, held_out: Score| {
        let figure = |ratio: f64, of: u32| format!("{ratio:.2} ({of})");
        let part = |score: Score| {
            let precision = figure(score.precision(), score.right + score.wrong);
            format!("{precision} | {}", figure(score.recall(), score.right + score.missed))
        };
        println!("| {name} | {} | {} |", part(tuned), part(held_out));
    };
    for detector in Detector::ALL {
        let of = |scores: &BTreeMap<&str, Score>| scores.get(detector.name()).copied().unwrap_or_default();
        row(detector.name(), of(&tuned), of(&held_out));
    }
    row("**all**", total(&tuned), total(&held_out));

    for (name, score) in &tuned {
        assert!(score.precision() >= 0.95 && score.recall() >= 0.95, "{name} on tuned.json");
    }
    let held_out = total(&held_out);
    assert!(held_out.precision() >= 0.95, "{}", held_out.precision());
    assert!(held_out.recall() >= 0.85, "{}", held_out.recall());
}

#[test]
fn most_secrets_in_notes_are_found() {
    let notes = total(&scores(&SensitiveData::new(), NOTES));
    println!("in notes: {} of {} found, {} wrong", notes.right, notes.right + notes.missed, notes.wrong);
    assert_eq!(notes.right + notes.missed, 30);
    assert!(notes.right >= 28, "{}", notes.right);
    assert!(notes.precision() >= 0.98, "{}", notes.precision());
}

#[test]
fn reasons_and_marks_do_not_repeat_values() {
    let refusing = everything();
    let redacting = SensitiveData::builder().redact(Detector::ALL.iter().copied()).build();
    for (text, _) in [TUNED, HELD_OUT, NOTES].into_iter().flat_map(cases) {
        let values: Vec<&str> = refusing.findings(&text).into_iter().map(|finding| &text[finding.range]).collect();
        match (refusing.screen_text(&text, ""), redacting.screen_text(&text, "")) {
            (Verdict::Accept, Verdict::Accept) => assert!(values.is_empty(), "{text}"),
            (Verdict::Refuse(refusal), Verdict::Redact { text: redacted }) => {
                for value in values {
                    assert!(!refusal.reason.contains(value), "{}", refusal.reason);
                    assert!(!redacted.contains(value), "{redacted}");
                }
                assert_eq!(redacting.screen_text(&redacted, ""), Verdict::Accept, "{redacted}");
            }
            other => panic!("{other:?} of {text}"),
        }
    }
}
