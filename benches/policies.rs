//! Benchmarks of screening. See `README.md`.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints, and fails by panicking")]

mod measure;

use std::hint::black_box;
use std::time::Duration;

use memory_tool_policies::{Detector, Screen, SensitiveData};

use crate::measure::medians;

/// The size of a note, and the maximum file size of hosted memory stores.
const SIZES: [usize; 2] = [2_000, 100_000];
const ROUNDS: usize = 100;

/// A name, and the text to repeat up to the size.
type Text = (&'static str, &'static str);

/// Typical contents of memories.
const USUAL: [Text; 4] = [
    ("notes", "- The user prefers short answers; see section 4.2 of the report from 2026-11-21.\n"),
    ("code", "let response = client.get(\"https://api.example.com/v1/items?page=3\").send().await?;\n"),
    ("numbers", "2026-11-21 10:15:30,1732192200123,48.8566,2.3522,100 200 300,+12.5\n"),
    ("Chinese", "用户喜欢简短的回答，详见报告第四章。\n"),
];

/// Hostile contents: prefixes of values, and candidates that are rejected.
const HOSTILE: [Text; 9] = [
    ("invalid card numbers", "4929 7226 5379 7142 "),
    ("endless digits", "4929722653797142"),
    ("token prefixes", "eyJhbGciOi-eyJhbGciOi.eyJhbGciOi-"),
    ("tokens made of words", "glpat-glrt-"),
    ("URL prefixes", "a://a:aaa/"),
    ("private key headers", "-----BEGIN PRIVATE KEY-----"),
    ("IBAN prefixes", "DE89 "),
    ("passwords made of letters", "password: aaaaaaaaaaaaaaaaaaaa "),
    ("an endless password", "password=aaaaaa"),
];

fn main() {
    let usual = SensitiveData::new();
    let everything = SensitiveData::builder().refuse(Detector::ALL.iter().copied()).build();
    println!("| screening | size | default detectors, per KB | all detectors, per KB |\n|---|---|---|---|");
    for (name, line) in USUAL.into_iter().chain(HOSTILE) {
        for size in SIZES {
            let text = line.repeat(size.div_ceil(line.len()));
            let screen = |screen: &SensitiveData| {
                black_box(screen.screen_text(black_box(&text), ""));
            };
            let times = medians(ROUNDS, [&|_| screen(&usual), &|_| screen(&everything)]);
            let [usual, everything] = times.map(|time| per_kilobyte(time, text.len()));
            println!("| {name} | {} KB | {usual:.2?} | {everything:.2?} |", size / 1_000);
        }
    }
}

fn per_kilobyte(time: Duration, bytes: usize) -> Duration {
    time.mul_f64(1_000.0 / bytes as f64)
}
