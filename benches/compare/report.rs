//! The results as Markdown.

use crate::contestant::Contestant::{self, Floor, Local, Python, Sqlite, SqliteFloor, TypeScript};
use crate::goals::{self, Goal, Limit};
use crate::machine::Machine;
use crate::results::{Figure, Insertions, Results};
use crate::workloads::{Id, LISTINGS, Operation, Place, SESSIONS, SIZES, Unit};

pub(crate) fn markdown(machine: &Machine, results: &Results) -> String {
    let sections = [
        description(machine, results),
        goals_table(results),
        local_table(results),
        sqlite_table(results),
        whole_table(results),
        sessions_table(results),
        growth_table(results),
    ];
    sections.join("\n")
}

fn description(machine: &Machine, results: &Results) -> String {
    let Machine { kernel, file_system, processor, rust, commit } = machine;
    let versions =
        [(Python, "anthropic"), (TypeScript, "@anthropic-ai/sdk"), (SqliteFloor, "SQLite")].map(|(of, name)| {
            let version = results.versions.iter().find(|(contestant, _)| *contestant == of);
            format!("{name} {}", version.map_or("not installed", |(_, version)| version))
        });
    format!("{kernel}, {file_system}, {processor}, {rust}, commit {commit}, {}.\n", versions.join(", "))
}

fn goals_table(results: &Results) -> String {
    let row = |goal: &Goal| {
        let limit = match goal.limit {
            Limit::AtLeast(limit) => format!("at least {limit}"),
            Limit::AtMost(limit) => format!("at most {limit}"),
            Limit::Unlimited => "—".to_owned(),
        };
        let verdict = match (goal.is_met(), goal.measured) {
            (Some(true), _) => "met",
            (Some(false), _) => "**missed**",
            (None, Some(_)) => "",
            (None, None) => "not measured",
        };
        vec![goal.title.clone(), goal.measured.map_or("—".to_owned(), number), limit, verdict.to_owned()]
    };
    table(&["goal", "measured", "limit", ""], goals::all(results).iter().map(row))
}

fn command_ids() -> impl Iterator<Item = Id> {
    let commands = SIZES.into_iter().flat_map(|bytes| Operation::ALL.map(|operation| Id::Command { operation, bytes }));
    commands.chain(LISTINGS.map(|files| Id::List { files }))
}

fn local_table(results: &Results) -> String {
    let columns =
        ["local disk", "ours", "floor", "ours / floor", "ours / Python SDK", "ours / TypeScript SDK", "quartiles"];
    let row = |id: Id| {
        let ratio = |other| cell(results, other, results.ratio(id, Local, other).map(number));
        let [ours, floor] = [Local, Floor].map(|of| cell(results, of, results.median(id, of).map(time)));
        vec![id.to_string(), ours, floor, ratio(Floor), ratio(Python), ratio(TypeScript), quartiles(results, id, Local)]
    };
    table(&columns, command_ids().map(row))
}

fn sqlite_table(results: &Results) -> String {
    let columns = ["SQLite", "ours", "bare statement", "ours / bare", "quartiles"];
    let row = |id: Id| {
        let [ours, bare] = [Sqlite, SqliteFloor].map(|of| cell(results, of, results.median(id, of).map(time)));
        let ratio = results.ratio(id, Sqlite, SqliteFloor).map(number);
        vec![id.to_string(), ours, bare, cell(results, SqliteFloor, ratio), quartiles(results, id, Sqlite)]
    };
    table(&columns, command_ids().map(row))
}

fn quartiles(results: &Results, id: Id, contestant: Contestant) -> String {
    let quartiles = results
        .figure(id, contestant)
        .map(|figure| format!("{}–{}", time(figure.summary.lower_quartile), time(figure.summary.upper_quartile)));
    cell(results, contestant, quartiles)
}

/// Figures of whole sessions and processes.
fn whole_table(results: &Results) -> String {
    let ids = [Id::RecordedSession, Id::Log, Id::FirstReply, Id::PeakMemory];
    let row = |id: Id| {
        let format = match id.unit() {
            Unit::Bytes => megabytes,
            Unit::Seconds => time,
        };
        (id.to_string(), Contestant::ALL.map(|of| cell(results, of, results.median(id, of).map(format))))
    };
    contestants_table("", ids.into_iter().map(row))
}

/// Commands per second, by the number of sessions.
fn sessions_table(results: &Results) -> String {
    let mut rows = Vec::new();
    for operation in Operation::ALL {
        for place in [Place::OneFile, Place::OneStore, Place::OwnStores] {
            let figures =
                |of| SESSIONS.map(|sessions| results.figure(Id::Concurrent { operation, place, sessions }, of));
            let by_sessions = |of, format: &dyn Fn(&Figure) -> String| {
                let cells = figures(of).map(|figure| figure.map(format));
                cell(results, of, cells.into_iter().collect::<Option<Vec<_>>>().map(|cells| cells.join(" / ")))
            };
            if figures(Local)[0].is_none() {
                continue;
            }
            let place = match place {
                Place::OneFile => "one file",
                Place::OneStore => "one store, own files",
                Place::OwnStores => "own stores",
            };
            let title = format!("`{}`, {place}", operation.name());
            let rates = Contestant::ALL
                .map(|of| by_sessions(of, &|figure| with_separators((1.0 / figure.summary.median).round())));
            rows.push((title.clone(), rates));
            if operation == Operation::Insert {
                let lost = Contestant::ALL.map(|of| by_sessions(of, &|figure| percent_lost(figure.insertions)));
                rows.push((format!("lost, {title}"), lost));
            }
        }
    }
    let sessions = SESSIONS.map(|sessions| sessions.to_string()).join(" / ");
    contestants_table(&format!("commands per second, {sessions} sessions"), rows.into_iter())
}

fn percent_lost(insertions: Insertions) -> String {
    match insertions.lost {
        0 => "0 %".to_owned(),
        lost => format!("{:.0} %", (lost as f64 / insertions.total as f64 * 100.0).max(1.0)),
    }
}

fn contestants_table(title: &str, rows: impl Iterator<Item = (String, [String; 6])>) -> String {
    let columns: Vec<_> = [title].into_iter().chain(Contestant::ALL.map(Contestant::title)).collect();
    table(&columns, rows.map(|(title, cells)| [vec![title], cells.into()].concat()))
}

fn growth_table(results: &Results) -> String {
    let series = growth_series();
    let columns = series.iter().map(|(contestant, operation)| growth_title(*contestant, *operation));
    let columns: Vec<_> = ["files".to_owned()].into_iter().chain(columns).collect();
    let columns: Vec<_> = columns.iter().map(String::as_str).collect();
    let rows = results.growth().into_iter().map(|files| {
        let cells = series
            .map(|(of, operation)| results.median(Id::Growth { operation, files }, of).map_or("—".to_owned(), time));
        [vec![with_separators(files as f64)], cells.into()].concat()
    });
    table(&columns, rows)
}

pub(crate) fn growth_series() -> [(Contestant, Operation); 4] {
    let of = |contestant| [(contestant, Operation::View), (contestant, Operation::StrReplace)];
    let ([a, b], [c, d]) = (of(Local), of(Sqlite));
    [a, b, c, d]
}

pub(crate) fn growth_title(contestant: Contestant, operation: Operation) -> String {
    format!("`{}`, {}", operation.name(), contestant.title())
}

fn table(columns: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let header = format!("| {} |\n|{}\n", columns.join(" | "), "---|".repeat(columns.len()));
    header + &rows.map(|cells| format!("| {} |\n", cells.join(" | "))).collect::<String>()
}

/// The text of a figure, or the reason why it is missing.
fn cell(results: &Results, contestant: Contestant, text: Option<String>) -> String {
    let reason = if results.is_installed(contestant) { "" } else { "not installed" };
    text.unwrap_or(reason.to_owned())
}

/// A time in seconds, with at least two digits.
fn time(seconds: f64) -> String {
    let (value, unit) = match seconds {
        ..1e-3 => (seconds * 1e6, "µs"),
        ..1.0 => (seconds * 1e3, "ms"),
        _ => (seconds, "s"),
    };
    if value < 9.95 { format!("{value:.1}{unit}") } else { format!("{value:.0}{unit}") }
}

fn megabytes(bytes: f64) -> String {
    format!("{:.1} MB", bytes / 1e6)
}

fn number(value: f64) -> String {
    let decimals = match value {
        ..10.0 => 2,
        ..100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// A number with separators of thousands. Values over 1 are rounded.
pub(crate) fn with_separators(value: f64) -> String {
    if value < 1.0 {
        return value.to_string();
    }
    let digits = value.round().to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
