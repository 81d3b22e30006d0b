//! Concurrent sessions. Each edits its own file of one store.

use crate::commands::{SIZE, fill, path};
use crate::results::Race;
use crate::site::Site;
use crate::usage::Usage;
use crate::worker::{Job, Session};

const PROCESSES: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// The number of sessions in one process.
const SESSIONS: usize = 32;
const THROTTLED_PROCESSES: usize = 8;
/// Throttled writers make few edits, so they take more time.
const THROTTLED_FACTOR: f64 = 5.0;
const TOO_MANY_REQUESTS: u16 = 429;

pub(crate) async fn measure(site: &Site, seconds: f64) -> Vec<Race> {
    let mut races = Vec::new();
    for processes in PROCESSES {
        let mut edited = edit(site, processes, 1, seconds).await;
        edited.bare_puts_per_second = Some(put(site, processes, seconds).await);
        races.push(edited);
    }
    races.push(edit(site, 1, SESSIONS, seconds).await);
    races
}

pub(crate) async fn measure_throttled(site: &Site, seconds: f64) -> Race {
    edit(site, THROTTLED_PROCESSES, 1, THROTTLED_FACTOR * seconds).await
}

async fn edit(site: &Site, processes: usize, sessions: usize, seconds: f64) -> Race {
    let prefix = format!("writers-{processes}-{sessions}");
    fill(&site.open_uncounted(&prefix).await).await;
    let jobs = (0..processes).map(|process| Job::Edit {
        paths: (0..sessions).map(|session| path(process * sessions + session)).collect(),
        seconds,
    });
    let outcomes = run(site, &prefix, jobs);
    let records = site.take_all().await;
    let refused_requests = records.iter().filter(|record| record.status == Some(TOO_MANY_REQUESTS)).count();
    summarize(processes, sessions, seconds, &outcomes, refused_requests, records.into())
}

/// The bare `PUT`s per second of as many processes, each to its own object.
async fn put(site: &Site, processes: usize, seconds: f64) -> f64 {
    let jobs = (0..processes).map(|process| Job::Put { object: format!("bare/{process}"), bytes: SIZE, seconds });
    let outcomes = run(site, "bare", jobs);
    site.take_all().await;
    outcomes.iter().map(|session| session.done).sum::<usize>() as f64 / seconds
}

/// Runs each job in its own process, all at the same time.
fn run(site: &Site, prefix: &str, jobs: impl Iterator<Item = Job>) -> Vec<Session> {
    let mut workers: Vec<_> = jobs.map(|job| site.start(prefix, &job)).collect();
    workers.iter_mut().for_each(|worker| worker.wait_until_ready());
    site.take();
    workers.iter_mut().for_each(|worker| worker.go());
    workers.iter_mut().flat_map(|worker| worker.outcome::<Vec<Session>>()).collect()
}

fn summarize(
    processes: usize,
    sessions_per_process: usize,
    seconds: f64,
    sessions: &[Session],
    refused_requests: usize,
    usage: Usage,
) -> Race {
    let done: usize = sessions.iter().map(|session| session.done).sum();
    let slowest = sessions.iter().map(|session| session.done).min().unwrap_or_default();
    let mut latencies: Vec<_> = sessions.iter().flat_map(|session| &session.latencies).copied().collect();
    latencies.sort_by(f64::total_cmp);
    let (busy, failed) = sessions.iter().fold((0, 0), |(busy, failed), one| (busy + one.busy, failed + one.failed));
    Race {
        processes,
        sessions_per_process,
        edits_per_second: done as f64 / seconds,
        slowest_to_mean: slowest as f64 * sessions.len() as f64 / done.max(1) as f64,
        median: latencies[latencies.len() / 2],
        percentile_99: latencies[latencies.len() * 99 / 100],
        maximum: latencies[latencies.len() - 1],
        busy,
        failed,
        refused_requests,
        usage_per_edit: usage / (latencies.len() - busy - failed).max(1),
        bare_puts_per_second: None,
    }
}
