//! The results as JSON.

use serde_json::{Value, json};

use crate::goals::{self, Limit};
use crate::machine::Machine;
use crate::results::Results;
use crate::workloads::Unit;

pub(crate) fn render(machine: &Machine, results: &Results) -> String {
    let Machine { kernel, file_system, processor, rust, commit } = machine;
    let versions = results.versions.iter().map(|(contestant, version)| (contestant.name().to_owned(), json!(version)));
    let figures = results.figures.iter().map(|figure| {
        let summary = &figure.summary;
        let unit = match figure.id.unit() {
            Unit::Bytes => "bytes",
            Unit::Seconds => "seconds",
        };
        json!({
            "workload": figure.id.to_string().replace('`', ""),
            "contestant": figure.contestant.name(),
            "unit": unit,
            "median": summary.median,
            "lower_quartile": summary.lower_quartile,
            "upper_quartile": summary.upper_quartile,
            "samples": summary.samples,
            "insertions": figure.insertions.total,
            "lost_insertions": figure.insertions.lost,
            "failed_commands": figure.failures,
        })
    });
    let goals = goals::all(results).into_iter().map(|goal| {
        let (kind, limit) = match goal.limit {
            Limit::AtLeast(limit) => ("at_least", Some(limit)),
            Limit::AtMost(limit) => ("at_most", Some(limit)),
            Limit::Unlimited => ("unlimited", None),
        };
        json!({
            "goal": goal.title.replace('`', ""),
            "measured": goal.measured,
            "limit": limit,
            "kind": kind,
            "is_met": goal.is_met(),
        })
    });
    let report = json!({
        "machine": {
            "kernel": kernel,
            "file_system": file_system,
            "processor": processor,
            "rust": rust,
            "commit": commit,
        },
        "versions": versions.collect::<serde_json::Map<_, _>>(),
        "figures": figures.collect::<Vec<Value>>(),
        "goals": goals.collect::<Vec<Value>>(),
    });
    serde_json::to_string_pretty(&report).unwrap() + "\n"
}
