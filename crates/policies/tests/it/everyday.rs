//! Secrets as people write them and texts that look similar, with the exact outcome of the default detectors.
//!
//! `cargo test -p memory-tool-policies --test it everyday -- --nocapture` prints recall and precision.

use std::ops::Range;

use memory_tool_policies::SensitiveData;
use serde::Deserialize;

const SAMPLES: &str = include_str!("../corpus/everyday.json");

#[derive(Deserialize)]
struct Samples {
    /// Secrets that are found, each with one value between « and ».
    found: Vec<String>,
    /// Secrets that are not found.
    missed: Vec<String>,
    /// Texts without a secret and without a finding.
    accepted: Vec<String>,
    /// Texts without a secret, but with a finding.
    false_alarms: Vec<String>,
}

/// The text without marks, and the position of its secret.
fn unmark(sample: &str) -> (String, Range<usize>) {
    let (before, rest) = sample.split_once('«').unwrap();
    let (secret, after) = rest.split_once('»').unwrap();
    ([before, secret, after].concat(), before.len()..before.len() + secret.len())
}

#[test]
fn each_sample_has_its_known_outcome() {
    let samples: Samples = serde_json::from_str(SAMPLES).unwrap();
    let screen = SensitiveData::new();
    let findings = |text: &str| screen.findings(text).into_iter().map(|finding| finding.range).collect::<Vec<_>>();
    let mut changed = Vec::new();
    for (secrets, is_found) in [(&samples.found, true), (&samples.missed, false)] {
        for sample in secrets {
            let (text, secret) = unmark(sample);
            if findings(&text) != if is_found { vec![secret] } else { vec![] } {
                changed.push(sample);
            }
        }
    }
    for (texts, is_reported) in [(&samples.accepted, false), (&samples.false_alarms, true)] {
        changed.extend(texts.iter().filter(|text| findings(text).is_empty() == is_reported));
    }
    assert_eq!(changed, [""; 0], "these samples have a different outcome now");

    let [found, missed, accepted, false_alarms] =
        [samples.found, samples.missed, samples.accepted, samples.false_alarms].map(|samples| samples.len());
    println!("recall: {found} of {}", found + missed);
    println!("precision: {found} of {} in {} samples", found + false_alarms, found + missed + accepted + false_alarms);
    assert!(found + missed >= 60 && accepted + false_alarms >= 150);
}
