//! The performance goals: ratios and figures with a limit.

use memory_tool_core::CommandName;

use crate::contestant::Contestant::{self, Floor, Local, Python, Sqlite, SqliteFloor, TypeScript};
use crate::report::{print_table, ratio};
use crate::results::{Figure, Results};
use crate::workloads::{Id, Place};

enum Limit {
    AtLeast(f64),
    AtMost(f64),
}
use Limit::{AtLeast, AtMost};

pub(crate) fn print(results: &Results, growth: &[usize]) {
    print_table("goal | measured | limit | met", all(results, growth).into_iter().map(row));
}

/// A goal: its title, the measured value if there is one, and the limit.
type Goal = (String, Option<f64>, Limit);

fn row((title, measured, limit): Goal) -> Vec<String> {
    let (limit, is_met) = match limit {
        AtLeast(limit) => (format!("at least {limit}"), measured.map(|measured| measured >= limit)),
        AtMost(limit) => (format!("at most {limit}"), measured.map(|measured| measured <= limit)),
    };
    let verdict = match is_met {
        Some(true) => "yes",
        Some(false) => "**no**",
        None => "not measured",
    };
    vec![title, measured.map(ratio).unwrap_or_default(), limit, verdict.to_owned()]
}

fn all(results: &Results, growth: &[usize]) -> Vec<Goal> {
    let to = |id: Id, of: Contestant, other: Contestant, limit| {
        (format!("{id}, {} / {}", of.title(), other.title()), results.ratio(id, of, other), limit)
    };
    let (view, list) = (Id::small(CommandName::View), Id::List { files: 100 });
    let mut goals = vec![
        to(view, Local, Floor, AtMost(2.0)),
        to(view, Python, Local, AtLeast(5.0)),
        to(view, TypeScript, Local, AtLeast(10.0)),
        to(list, Local, Floor, AtMost(2.0)),
        to(list, Python, Local, AtLeast(25.0)),
        to(list, TypeScript, Local, AtLeast(60.0)),
        to(view, Sqlite, SqliteFloor, AtMost(2.0)),
        to(Id::small(CommandName::Delete), Local, Floor, AtMost(1.3)),
        to(Id::small(CommandName::Rename), Local, Floor, AtMost(1.3)),
    ];
    for edit in [CommandName::Create, CommandName::StrReplace, CommandName::Insert].map(Id::small) {
        goals.extend([Python, TypeScript].map(|peer| to(edit, peer, Local, AtLeast(1.5))));
        let measured = quotient(results.median(edit, Local), results.median(Id::Log, Floor));
        goals.push((format!("{edit}, local / one flush of a log"), measured, AtMost(1.3)));
    }
    for place in [Place::OneFile, Place::OneStore] {
        let id = Id::Concurrent { name: CommandName::Insert, place, sessions: 64 };
        let kept = |of| results.figure(id, of).map(Figure::kept_per_second);
        goals.extend([Python, TypeScript].map(|peer| {
            let title = format!("{id}, 64 sessions, kept per second, local / {}", peer.title());
            (title, quotient(kept(Local), kept(peer)), AtLeast(5.0))
        }));
    }
    for of in [Local, Sqlite] {
        let title = of.title();
        goals.push((format!("lost insertions, {title}"), Some(results.lost(of) as f64), AtMost(0.0)));
        let milliseconds = results.median(Id::FirstReply, of).map(|seconds| seconds * 1e3);
        goals.push((format!("{}, {title}, in ms", Id::FirstReply), milliseconds, AtMost(5.0)));
        let megabytes = results.median(Id::PeakMemory, of).map(|bytes| bytes / 1e6);
        goals.push((format!("{}, {title}, in MB", Id::PeakMemory), megabytes, AtMost(10.0)));
        let [fewest, .., most] = growth else { continue };
        for name in [CommandName::View, CommandName::StrReplace] {
            let median = |files: &usize| results.median(Id::Growth { name, files: *files }, of);
            let title = format!("`{name}`, {title}, {most} files / {fewest} files");
            goals.push((title, quotient(median(most), median(fewest)), AtMost(1.2)));
        }
    }
    goals
}

fn quotient(dividend: Option<f64>, divisor: Option<f64>) -> Option<f64> {
    Some(dividend? / divisor?)
}
