//! The tables of the results. A cell is empty if the contestant is not installed.

use memory_tool_core::CommandName;

use crate::contestant::Contestant::{self, Floor, Local, Python, Sqlite, SqliteFloor, TypeScript};
use crate::report::{megabytes, print_table, ratio, time};
use crate::results::{Figure, Results};
use crate::workloads::{Id, LISTINGS, Place, SESSIONS, SIZES};

pub(crate) fn print(results: &Results, growth: &[usize]) {
    print_commands(results, Local, &[Floor, Python, TypeScript]);
    print_commands(results, Sqlite, &[SqliteFloor]);
    print_whole(results);
    print_sessions(results);
    print_growth(results, growth);
}

/// Each command of a store, compared with its floor and with peers.
fn print_commands(results: &Results, ours: Contestant, others: &[Contestant]) {
    let floor = others[0];
    let ratios: String = others.iter().map(|other| format!(" | ours / {}", other.title())).collect();
    let columns = format!("{} | ours | {}{ratios} | quartiles", ours.title(), floor.title());
    let row = |id: Id| {
        let quartiles = results.figure(id, ours).map(|figure| figure.quartiles().map(time).join("–"));
        let mut cells = vec![id.to_string(), median(results, id, ours), median(results, id, floor)];
        cells.extend(others.iter().map(|other| results.ratio(id, ours, *other).map(ratio).unwrap_or_default()));
        cells.extend(quartiles);
        cells
    };
    let commands = SIZES.into_iter().flat_map(|bytes| CommandName::ALL.map(|name| Id::Command { name, bytes }));
    print_table(&columns, commands.chain(LISTINGS.map(|files| Id::List { files })).map(row));
}

fn median(results: &Results, id: Id, of: Contestant) -> String {
    results.median(id, of).map(time).unwrap_or_default()
}

fn print_whole(results: &Results) {
    let times = [Id::RecordedSession, Id::Log, Id::FirstReply]
        .map(|id| (id.to_string(), Contestant::ALL.map(|of| median(results, id, of))));
    let memory = Contestant::ALL.map(|of| results.median(Id::PeakMemory, of).map(megabytes).unwrap_or_default());
    print_contestants("", times.into_iter().chain([(Id::PeakMemory.to_string(), memory)]));
}

/// Commands per second, by the number of sessions.
fn print_sessions(results: &Results) {
    let mut rows = Vec::new();
    let own_files = CommandName::ALL.map(|name| (name, Place::OneStore));
    for (name, place) in own_files.into_iter().chain([(CommandName::Insert, Place::OneFile)]) {
        let by_sessions = |format: &dyn Fn(&Figure) -> String| {
            Contestant::ALL.map(|of| {
                let ids = SESSIONS.map(|sessions| Id::Concurrent { name, place, sessions });
                let cells: Vec<_> = ids.into_iter().filter_map(|id| results.figure(id, of).map(format)).collect();
                cells.join(" / ")
            })
        };
        let title = Id::Concurrent { name, place, sessions: 1 };
        rows.push((title.to_string(), by_sessions(&|figure| format!("{:.0}", 1.0 / figure.median()))));
        if name == CommandName::Insert {
            let lost = by_sessions(&|figure| format!("{:.1} %", figure.part_lost() * 100.0));
            rows.push((format!("lost, {title}"), lost));
        }
    }
    let sessions = SESSIONS.map(|sessions| sessions.to_string()).join(" / ");
    print_contestants(&format!("commands per second, {sessions} sessions"), rows);
}

fn print_contestants(title: &str, rows: impl IntoIterator<Item = (String, [String; 6])>) {
    let columns = format!("{title} | {}", Contestant::ALL.map(Contestant::title).join(" | "));
    print_table(&columns, rows.into_iter().map(|(title, cells)| [vec![title], cells.into()].concat()));
}

fn print_growth(results: &Results, growth: &[usize]) {
    let columns = "files | `view`, local | `str_replace`, local | `view`, SQLite | `str_replace`, SQLite";
    let row = |&files| {
        let names = [CommandName::View, CommandName::StrReplace];
        let cells = [Local, Sqlite].map(|of| names.map(|name| median(results, Id::Growth { name, files }, of)));
        [vec![format!("{files}")], cells.concat()].concat()
    };
    print_table(columns, growth.iter().map(row));
}
