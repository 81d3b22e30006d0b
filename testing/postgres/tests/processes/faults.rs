//! The faults of the recordings.

use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use libtest_mimic::Failed;
use memory_tool_test_fixtures::by_tier;
use memory_tool_test_postgres::{Database, server};
use memory_tool_test_servers::{Fault, Faults, PgBouncer, PgPool, PostgresOptions, Requests, SqlProxy};

use crate::recording::{Plan, Progress, Recording};

/// The probability that a client is killed during a command.
const KILLS: f64 = 0.05;

/// The pause between kills of the server's processes, after which some commands have run.
const PAUSE: Duration = Duration::from_millis(100);

/// How many kills a memory meets at least.
const LEAST_KILLS: usize = 5;

/// How late a request arrives that its client has given up, longer than the timeout of a command.
const LATE: Duration = Duration::from_millis(2_500);

/// No disturbance.
fn nothing(_: &Progress) {}

pub(crate) fn undisturbed(seed: u64) -> Result<(), Failed> {
    let database = Database::new(server());
    let recording = record(seed, &database.url(server()), 0.0)?;
    // A slow machine may be busy.
    match recording.unknown {
        0 => Ok(()),
        count => Err(format!("{count} commands had an unknown outcome").into()),
    }
}

pub(crate) fn killed_clients(seed: u64) -> Result<(), Failed> {
    let database = Database::new(server());
    at_least("killed clients", record(seed, &database.url(server()), KILLS)?.unknown, LEAST_KILLS)
}

pub(crate) fn killed_clients_of_pooler(seed: u64) -> Result<(), Failed> {
    let database = Database::new(server());
    let pooler = PgBouncer::start(server(), &[database.role()], 3)?;
    at_least("killed clients", record(seed, &pooler.url(database.role(), database.name()), KILLS)?.unknown, LEAST_KILLS)
}

/// Records processes with the same URL. `kills` is the probability that a command kills its process.
fn record(seed: u64, url: &str, kills: f64) -> Result<Recording, Failed> {
    let url_of_process = |_| url.to_owned();
    let plan = Plan { seed, url: url.to_owned(), url_of_process: &url_of_process, kills, least_faults: 0 };
    let recording = Recording::new(&plan, nothing, || ())?;
    println!("{recording}");
    Ok(recording)
}

pub(crate) fn killed_backends(seed: u64) -> Result<(), Failed> {
    let server = PostgresOptions::new().durable().start()?;
    let database = Database::new(&server);
    let url = database.url(&server);
    let disturb = |progress: &Progress| {
        while progress.pause(PAUSE) {
            progress.faults.fetch_add(server.kill_backends(database.name()).unwrap(), Ordering::Relaxed);
        }
    };
    record_kills(seed, &url, disturb)
}

pub(crate) fn killed_server(seed: u64) -> Result<(), Failed> {
    let server = Mutex::new(PostgresOptions::new().durable().start()?);
    let database = Database::new(&server.lock().unwrap());
    let url = database.url(&server.lock().unwrap());
    let disturb = |progress: &Progress| {
        while progress.pause(PAUSE) {
            let mut server = server.lock().unwrap();
            server.kill();
            server.restart().unwrap();
            progress.faults.fetch_add(1, Ordering::Relaxed);
        }
    };
    record_kills(seed, &url, disturb)
}

pub(crate) fn killed_pgpool(seed: u64) -> Result<(), Failed> {
    let primary = PostgresOptions::new().setting("recovery_min_apply_delay", "50ms").start()?;
    let database = Database::new(&primary);
    let standby = primary.standby()?;
    let pooler = Mutex::new(PgPool::start(&primary, &standby)?);
    let url = pooler.lock().unwrap().url(database.role(), database.name());
    let disturb = |progress: &Progress| {
        while progress.pause(PAUSE * 5) {
            pooler.lock().unwrap().restart(&primary).unwrap();
            progress.faults.fetch_add(1, Ordering::Relaxed);
        }
    };
    record_kills(seed, &url, disturb)
}

fn record_kills(seed: u64, url: &str, disturb: impl Fn(&Progress) + Sync) -> Result<(), Failed> {
    let url_of_process = |_| url.to_owned();
    let plan =
        Plan { seed, url: url.to_owned(), url_of_process: &url_of_process, kills: 0.0, least_faults: LEAST_KILLS };
    println!("{}", Recording::new(&plan, disturb, || ())?);
    Ok(())
}

pub(crate) fn failing_network(seed: u64) -> Result<(), Failed> {
    let database = Database::new(server());
    let proxies: Vec<_> = (0..4).map(|_| SqlProxy::start(server(), Duration::ZERO)).collect::<Result<_, _>>()?;
    let url_of_process = |process: usize| proxies[process].url(database.role(), database.name());
    let plan = Plan { seed, url: database.url(server()), url_of_process: &url_of_process, kills: 0.0, least_faults: 0 };
    let disturb = |_: &Progress| {
        for (seed, proxy) in (seed..).zip(&proxies) {
            proxy.fault_at_random(Faults { seed, requests: Requests::all(), chances: chances() });
        }
    };
    let heal = || {
        proxies.iter().for_each(SqlProxy::heal);
        while proxies.iter().any(|proxy| proxy.late() > 0) {
            thread::sleep(Duration::from_millis(5));
        }
    };
    let recording = Recording::new(&plan, disturb, heal)?;
    let faults = proxies.iter().map(SqlProxy::faults).sum();
    println!("{recording}, {faults} of the network");
    at_least("faults", faults, 20)
}

/// Faults of all kinds, with their probabilities.
fn chances() -> Vec<(Fault, f64)> {
    vec![
        (Fault::CutRequest, 0.01),
        (Fault::CloseUnanswered, 0.02),
        (Fault::ResetUnanswered, 0.01),
        (Fault::CutAnswer, 0.01),
        (Fault::Delay(Duration::from_millis(10)), 0.02),
        (Fault::DelayRequest(Duration::from_millis(10)), 0.02),
        (Fault::DelayRequest(LATE), 0.002),
        (Fault::Hang, by_tier(0.0005, 0.002)), // each takes as long as the timeout and its grace
        (Fault::Swallow, by_tier(0.0005, 0.002)),
    ]
}

fn at_least(what: &str, count: usize, least: usize) -> Result<(), Failed> {
    if count < least { Err(format!("only {count} {what}, expected at least {least}").into()) } else { Ok(()) }
}
