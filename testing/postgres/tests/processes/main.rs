//! `[X2]`, `[X3]`: processes that share a memory lose no acknowledged change, make none by half and are linearizable,
//! while clients, processes of the server, or the whole server are killed, and while a proxy loses, delays and cuts
//! requests and responses.
//!
//! In the long tier, each recording has at least 1,000 commands with an effect. Half of the memories have a history,
//! which must agree with the files. Each process must work again after the faults. Faults and commands are derived from
//! a seed, which is printed. The test starts itself as the processes, so it has no harness.

#![cfg(test)]
#![cfg(target_os = "linux")]

mod faults;
mod inserts;
mod recording;

use std::io;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use memory_tool_conformance::serve;
use memory_tool_core::{BoxError, Engine};
use memory_tool_test_fixtures::{Tier, printed_seed};
use memory_tool_test_postgres::named_store;

fn main() -> Result<ExitCode, BoxError> {
    if let Some(url) = named_store() {
        // `serve` uses another runtime, so this one needs its own thread to drive connections to the server.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let store = runtime.block_on(recording::served_store(&url))?;
        serve(&Engine::new(store), io::stdin().lock(), io::stdout().lock())?;
        return Ok(ExitCode::SUCCESS);
    }
    let seed = printed_seed();
    let mut trials = vec![
        trial("inserts_of_8_processes_are_all_kept_in_order::direct", inserts::direct),
        trial("inserts_of_8_processes_are_all_kept_in_order::pgbouncer::transaction", || {
            inserts::through_pgbouncer("transaction")
        }),
        trial("inserts_of_8_processes_are_all_kept_in_order::pgpool", inserts::through_pgpool),
        trial("linearizable::undisturbed", move || faults::undisturbed(seed)),
        trial("linearizable::clients_are_killed", move || faults::killed_clients(seed)),
        trial("linearizable::backends_are_killed", move || faults::killed_backends(seed)),
        trial("linearizable::server_is_killed", move || faults::killed_server(seed)),
        trial("linearizable::network_fails", move || faults::failing_network(seed)),
        trial("linearizable::clients_of_a_pooler_are_killed", move || faults::killed_clients_of_pooler(seed)),
    ];
    if Tier::current() == Tier::Long {
        trials.extend(["session", "statement"].map(|mode| {
            trial(&format!("inserts_of_8_processes_are_all_kept_in_order::pgbouncer::{mode}"), move || {
                inserts::through_pgbouncer(mode)
            })
        }));
        trials.push(trial("linearizable::pgpool_is_killed", move || faults::killed_pgpool(seed)));
    }
    // More than processors, because each waits most of the time.
    let arguments = Arguments { test_threads: Some(3), ..Arguments::from_args() };
    Ok(libtest_mimic::run(&arguments, trials).exit_code())
}

fn trial(name: &str, run: impl FnOnce() -> Result<(), Failed> + Send + 'static) -> Trial {
    Trial::test(name, run)
}
