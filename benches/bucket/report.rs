//! The results as Markdown and JSON.

use serde_json::json;

use crate::commands::FOREIGN;
use crate::growth::{EDITS, SMALL_SIZE};
use crate::machine::Machine;
use crate::results::{Command, Growth, GrowthFigures, Import, Race, Results};
use crate::usage::{PRICE_DATE, READ_PRICE, Usage, WRITE_PRICE};
use crate::{DISTANCE, PAUSE};

const RACE_COLUMNS: [&str; 13] = [
    "processes × sessions",
    "edits / s",
    "bare `PUT`s / s",
    "slowest / mean",
    "p50",
    "p99",
    "max",
    "busy",
    "failed",
    "429s",
    "requests / edit",
    "sent / edit",
    "$ / million",
];

pub(crate) fn json(machine: &Machine, results: &Results) -> String {
    let Machine { kernel, file_system, processor, rust, commit } = machine;
    let report = json!({
        "machine": {
            "kernel": kernel,
            "file_system": file_system,
            "processor": processor,
            "rust": rust,
            "commit": commit,
        },
        "prices": {"date": PRICE_DATE, "write_or_list": WRITE_PRICE, "read": READ_PRICE, "delete": 0.0},
        "foreign_commits": FOREIGN,
        "results": results,
    });
    serde_json::to_string_pretty(&report).unwrap() + "\n"
}

pub(crate) fn markdown(machine: &Machine, results: &Results) -> String {
    let sections = [
        description(machine),
        "Store of 200 files of 4 KB, without other writers (S3):\n".to_owned(),
        commands_table(&results.commands),
        format!("Edits of a file of 4 KB among files of {SMALL_SIZE} bytes (S3):\n"),
        edits_table(&results.growth),
        "First `view` of a process (S3):\n".to_owned(),
        first_views_table(&results.growth),
        "Import of files of 1 KB (S3):\n".to_owned(),
        import_table(&results.import),
        format!("Concurrent edits of own files, {DISTANCE:?} away (GCS):\n"),
        races_table(&results.writers),
        format!("The same with one write to an object per {PAUSE:?}:\n"),
        races_table(std::slice::from_ref(&results.throttled)),
    ];
    sections.join("\n")
}

fn description(machine: &Machine) -> String {
    let Machine { kernel, processor, rust, commit, .. } = machine;
    format!(
        "{kernel}, {processor}, {rust}, commit {commit}. Prices in US dollars per million commands, by the list prices \
         of {PRICE_DATE}, which are the same for S3 Standard (us-east-1) and GCS Standard: `PUT`, `POST` and `LIST` \
         {WRITE_PRICE:.2}, `GET` and `HEAD` {READ_PRICE:.2}, `DELETE` free.\n"
    )
}

fn commands_table(commands: &[Command]) -> String {
    let mut columns: Vec<_> = ["command", "`GET`", "`PUT`", "`LIST`", "`DELETE`", "sent", "received", "$ / million"]
        .map(str::to_owned)
        .into();
    columns.extend(FOREIGN[1..].iter().map(|foreign| format!("with {foreign} foreign edits before it")));
    let columns: Vec<_> = columns.iter().map(String::as_str).collect();
    table(
        &columns,
        commands.iter().map(|Command { name, usage }| {
            let after = usage[1..].iter().map(|usage_after| added(&usage[0], usage_after)).collect();
            [vec![name.clone()], usage_cells(&usage[0]), after].concat()
        }),
    )
}

fn usage_cells(usage: &Usage) -> Vec<String> {
    let Usage { reads, writes, lists, deletes, bytes_sent, bytes_received, dollars_per_million } = *usage;
    let counts = [reads, writes, lists, deletes].map(number);
    [counts.to_vec(), [bytes_sent, bytes_received].map(bytes).into(), vec![format!("{dollars_per_million:.2}")]]
        .concat()
}

/// The difference to a command without foreign edits.
fn added(before: &Usage, after: &Usage) -> String {
    let more = |of: fn(&Usage) -> f64| of(after) - of(before);
    let requests = more(Usage::requests);
    let received = more(|usage| usage.bytes_received);
    let sent = more(|usage| usage.bytes_sent);
    format!("{requests:+.2} requests, {} sent, {} received", signed_bytes(sent), signed_bytes(received))
}

fn edits_table(growth: &[Growth]) -> String {
    let mean = format!("sent, mean of {EDITS} edits");
    let columns =
        ["files", "sent by the median edit", &mean, "`GET`", "`PUT`", "`LIST`", "`DELETE`", "received", "$ / million"];
    growth_table(&columns, growth, |figures| {
        let mut cells = usage_cells(&figures.edit);
        let sent = cells.remove(4);
        [vec![bytes(figures.edit_bytes_sent), sent], cells].concat()
    })
}

fn first_views_table(growth: &[Growth]) -> String {
    let columns =
        ["files", "opening", "`view`", "`GET`", "`PUT`", "`LIST`", "`DELETE`", "sent", "received", "$ / million"];
    growth_table(&columns, growth, |figures| {
        let times = [figures.opening_seconds, figures.first_view_seconds].map(milliseconds);
        [times.into(), usage_cells(&figures.first_view)].concat()
    })
}

fn growth_table(columns: &[&str], growth: &[Growth], cells: impl Fn(&GrowthFigures) -> Vec<String>) -> String {
    table(
        columns,
        growth.iter().map(|Growth { files, figures }| {
            let cells = figures.as_ref().map_or_else(|reason| vec![reason.clone()], &cells);
            [vec![files.to_string()], cells].concat()
        }),
    )
}

fn import_table(import: &Import) -> String {
    let columns = ["files", "seconds", "`GET`", "`PUT`", "`LIST`", "`DELETE`", "sent", "received", "$"];
    let mut row =
        [vec![import.files.to_string(), format!("{:.1}", import.seconds)], usage_cells(&import.usage)].concat();
    row.pop();
    row.push(format!("{:.3}", import.usage.dollars_per_million / 1e6));
    table(&columns, [row].into_iter())
}

fn races_table(races: &[Race]) -> String {
    table(
        &RACE_COLUMNS,
        races.iter().map(|race| {
            let [median, percentile_99, maximum] = [race.median, race.percentile_99, race.maximum].map(milliseconds);
            vec![
                format!("{} × {}", race.processes, race.sessions_per_process),
                format!("{:.1}", race.edits_per_second),
                race.bare_puts_per_second.map_or("—".to_owned(), |rate| format!("{rate:.0}")),
                format!("{:.2}", race.slowest_to_mean),
                median,
                percentile_99,
                maximum,
                race.busy.to_string(),
                race.failed.to_string(),
                race.refused_requests.to_string(),
                number(race.usage_per_edit.requests()),
                bytes(race.usage_per_edit.bytes_sent),
                format!("{:.2}", race.usage_per_edit.dollars_per_million),
            ]
        }),
    )
}

fn table(columns: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let header = format!("| {} |\n|{}\n", columns.join(" | "), "---|".repeat(columns.len()));
    header + &rows.map(|cells| format!("| {} |\n", cells.join(" | "))).collect::<String>()
}

/// A mean number of requests, with two decimals unless it is an integer.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.strip_suffix(".00").map_or(text.clone(), str::to_owned)
}

fn bytes(value: f64) -> String {
    match value {
        ..1e3 => format!("{value:.0} B"),
        ..1e6 => format!("{:.1} KB", value / 1e3),
        ..1e9 => format!("{:.2} MB", value / 1e6),
        _ => format!("{:.2} GB", value / 1e9),
    }
}

fn signed_bytes(value: f64) -> String {
    let sign = if value < 0.0 { "−" } else { "+" };
    format!("{sign}{}", bytes(value.abs()))
}

fn milliseconds(seconds: f64) -> String {
    format!("{:.1} ms", seconds * 1e3)
}
