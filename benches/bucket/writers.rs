//! Concurrent sessions. Each edits its own file of one store.

use crate::commands::{SIZE, fill, path};
use crate::measure::{median, quantile};
use crate::report::{print_table, ratio, time};
use crate::site::Site;
use crate::usage::{Usage, bytes, number};
use crate::worker::{Job, READY, Session};

const PROCESSES: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// The number of sessions in one process.
const SESSIONS: usize = 32;
const THROTTLED_PROCESSES: usize = 8;
/// Throttled writers make few edits, so they take more time.
const THROTTLED_FACTOR: f64 = 5.0;
const TOO_MANY_REQUESTS: u16 = 429;
const COLUMNS: &str = "processes × sessions | edits / s | slowest / mean | p50 | p99 | max | busy | failed | 429s | \
    requests / edit | sent / edit | $ / million";

pub(crate) async fn print(site: &Site, seconds: f64) {
    let mut rows = Vec::new();
    for processes in PROCESSES {
        let mut row = edit(site, processes, 1, seconds).await;
        row.push(format!("{:.0}", put(site, processes, seconds).await));
        rows.push(row);
    }
    rows.push(edit(site, 1, SESSIONS, seconds).await);
    print_table(&format!("{COLUMNS} | bare `PUT`s / s"), rows);
}

pub(crate) async fn print_throttled(site: &Site, seconds: f64) {
    print_table(COLUMNS, [edit(site, THROTTLED_PROCESSES, 1, THROTTLED_FACTOR * seconds).await]);
}

async fn edit(site: &Site, processes: usize, sessions: usize, seconds: f64) -> Vec<String> {
    let prefix = format!("writers-{processes}-{sessions}");
    fill(&site.open_uncounted(&prefix).await).await;
    let jobs = (0..processes).map(|process| Job::Edit {
        paths: (0..sessions).map(|session| path(process * sessions + session)).collect(),
        seconds,
    });
    let outcomes = run(site, &prefix, jobs);
    let records = site.take_all().await;
    let count = |of: fn(&Session) -> usize| outcomes.iter().map(of).sum::<usize>();
    let (done, busy, failed) = (count(|one| one.done), count(|one| one.busy), count(|one| one.failed));
    let slowest = outcomes.iter().map(|session| session.done).min().unwrap_or_default();
    let latencies: Vec<_> = outcomes.iter().flat_map(|session| &session.latencies).copied().collect();
    let usage = Usage::mean(&records, (latencies.len() - busy - failed).max(1));
    vec![
        format!("{processes} × {sessions}"),
        format!("{:.1}", done as f64 / seconds),
        ratio(slowest as f64 * outcomes.len() as f64 / done.max(1) as f64),
        time(median(&latencies)),
        time(quantile(&latencies, 0.99)),
        time(quantile(&latencies, 1.0)),
        busy.to_string(),
        failed.to_string(),
        records.iter().filter(|record| record.status == Some(TOO_MANY_REQUESTS)).count().to_string(),
        number(usage.requests()),
        bytes(usage.sent),
        usage.price(),
    ]
}

/// The bare `PUT`s per second of as many processes, each to its own object: the limit of the machine and the server.
async fn put(site: &Site, processes: usize, seconds: f64) -> f64 {
    let jobs = (0..processes).map(|process| Job::Put { object: format!("bare/{process}"), bytes: SIZE, seconds });
    let outcomes = run(site, "bare", jobs);
    site.take_all().await;
    outcomes.iter().map(|session| session.done).sum::<usize>() as f64 / seconds
}

/// Runs each job in its own process, all at the same time.
fn run(site: &Site, prefix: &str, jobs: impl Iterator<Item = Job>) -> Vec<Session> {
    let mut workers: Vec<_> = jobs.map(|job| site.start(prefix, &job)).collect();
    workers.iter_mut().for_each(|worker| assert_eq!(worker.read_line().trim(), READY));
    site.take();
    workers.iter_mut().for_each(|worker| worker.write_line(""));
    workers.iter_mut().flat_map(|worker| worker.read_json::<Vec<Session>>().unwrap()).collect()
}
