//! The goals, which are figures with a limit, and the tables of the results. A cell is empty if the contestant is not
//! installed.

use memory_tool_core::CommandName;

use crate::contestant::Contestant::{self, Local, Python, Sqlite, TypeScript};
use crate::measure::median;
use crate::report::{megabytes, print_table, ratio, time};
use crate::rounds::{Figure, Results};
use crate::workloads::{Id, LISTINGS, Place, SESSIONS};

enum Limit {
    AtLeast(f64),
    AtMost(f64),
}
use Limit::{AtLeast, AtMost};

/// A goal: its title, the measured value if there is one, and the limit.
type Goal = (String, Option<f64>, Limit);

pub(crate) fn print_goals(results: &Results, flush_of_a_log: f64) {
    print_table("goal | measured | limit | met", goals(results, flush_of_a_log).into_iter().map(row));
}

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

fn goals(results: &Results, flush_of_a_log: f64) -> Vec<Goal> {
    let to_peers = |id: Id, limits: [f64; 2]| {
        [(Python, limits[0]), (TypeScript, limits[1])].map(|(peer, limit)| {
            (format!("{id}, {} / local", peer.title()), results.ratio(id, peer, Local), AtLeast(limit))
        })
    };
    let mut goals = Vec::new();
    goals.extend(to_peers(Id::Command(CommandName::View), [5.0, 10.0]));
    goals.extend(to_peers(Id::List { files: 100 }, [25.0, 60.0]));
    for edit in [CommandName::Create, CommandName::StrReplace, CommandName::Insert] {
        goals.extend(to_peers(Id::Command(edit), [1.5, 1.5]));
        let measured = results.median(Id::Command(edit), Local).map(|seconds| seconds / flush_of_a_log);
        goals.push((format!("`{edit}`, local / one flush of a log"), measured, AtMost(1.3)));
    }
    for place in [Place::OneFile, Place::OneStore] {
        let id = Id::Concurrent { name: CommandName::Insert, place, sessions: 64 };
        let kept = |of| results.figure(id, of).map(Figure::kept_per_second);
        goals.extend([Python, TypeScript].map(|peer| {
            let title = format!("{id}, 64 sessions, kept per second, local / {}", peer.title());
            (title, kept(Local).zip(kept(peer)).map(|(ours, peer)| ours / peer), AtLeast(5.0))
        }));
    }
    for of in [Local, Sqlite] {
        let title = of.title();
        goals.push((format!("lost insertions, {title}"), Some(results.lost(of) as f64), AtMost(0.0)));
        let milliseconds = results.median(Id::FirstReply, of).map(|seconds| seconds * 1e3);
        goals.push((format!("{}, {title}, in ms", Id::FirstReply), milliseconds, AtMost(5.0)));
        let megabytes = results.median(Id::PeakMemory, of).map(|bytes| bytes / 1e6);
        goals.push((format!("{}, {title}, in MB", Id::PeakMemory), megabytes, AtMost(10.0)));
    }
    goals
}

pub(crate) fn print(results: &Results) {
    print_single(results);
    print_sessions(results);
}

fn print_single(results: &Results) {
    let ids = CommandName::ALL.map(Id::Command).into_iter().chain(LISTINGS.map(|files| Id::List { files }));
    let rows = ids.chain([Id::FirstReply, Id::PeakMemory]).map(|id| {
        let cell = |value| if id == Id::PeakMemory { megabytes(value) } else { time(value) };
        let ratios = [Python, TypeScript].map(|peer| results.ratio(id, Local, peer).map(ratio).unwrap_or_default());
        let medians = Contestant::ALL.map(|of| results.median(id, of).map(cell).unwrap_or_default());
        [vec![id.to_string()], medians.into(), ratios.into()].concat()
    });
    print_table(&columns("4 KB", " | local / Python SDK | local / TypeScript SDK"), rows);
}

/// Commands per second, by the number of sessions.
fn print_sessions(results: &Results) {
    let mut rows = Vec::new();
    let own_files = CommandName::ALL.map(|name| (name, Place::OneStore));
    for (name, place) in own_files.into_iter().chain([(CommandName::Insert, Place::OneFile)]) {
        let title = Id::Concurrent { name, place, sessions: 1 };
        let mut push = |title: String, format: &dyn Fn(&Figure) -> String| {
            let cells = Contestant::ALL.map(|of| {
                let ids = SESSIONS.map(|sessions| Id::Concurrent { name, place, sessions });
                ids.iter().filter_map(|id| results.figure(*id, of).map(format)).collect::<Vec<_>>().join(" / ")
            });
            rows.push([vec![title], cells.into()].concat());
        };
        push(title.to_string(), &|figure| format!("{:.0}", 1.0 / median(&figure.samples)));
        if name == CommandName::Insert {
            push(format!("lost, {title}"), &|figure| format!("{:.1} %", figure.part_lost() * 100.0));
        }
    }
    let sessions = SESSIONS.map(|sessions| sessions.to_string()).join(" / ");
    print_table(&columns(&format!("commands per second, {sessions} sessions"), ""), rows);
}

fn columns(title: &str, more: &str) -> String {
    format!("{title} | {}{more}", Contestant::ALL.map(Contestant::title).join(" | "))
}
