//! The conformance suite on a memory in a bucket under all policies at once, as a service would have them, with generous settings: on
//! the servers of S3, Google Cloud Storage and Azure.
//!
//! Each policy by itself, over the other backends, is tested in `memory-tool-policies`.

#![allow(clippy::print_stdout, reason = "a test without a harness reports by printing")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod object_store;

use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use memory_tool_core::{BoxError, InMemoryStore, Store};
use memory_tool_policies::{
    Actor, AuditedStore, ExpiringStore, LimitedStore, Limits, ObservedStore, Scope, ScopedStore, ScreenedStore,
    SensitiveData, StoreLog,
};
use memory_tool_test_servers::{AzureServer, GcsServer, S3Server};
use object_store::Policies;

/// Says on which server the suite runs. By default it runs itself once for each.
const SERVER: &str = "MEMORY_TOOL_TEST_SERVER";
const SERVERS: [&str; 3] = ["S3", "Google Cloud Storage", "Azure"];

/// Short, so that the store takes paths of 1,015 bytes, which a case of the suite needs.
const SCOPE: &str = "z";
const SCOPE_DIRECTORY: &str = "/scope-z";

const ALL_POLICIES: Policies = Policies { over: under_all_policies, path_bytes: SCOPE_DIRECTORY.len() };

fn main() -> Result<ExitCode, BoxError> {
    match std::env::var(SERVER).as_deref() {
        Ok("S3") => object_store::run_suite(S3Server::start, ALL_POLICIES),
        Ok("Google Cloud Storage") => object_store::run_suite(GcsServer::start, ALL_POLICIES),
        Ok("Azure") => object_store::run_suite(AzureServer::start, ALL_POLICIES),
        _ => run_each(),
    }
}

/// Runs this test once for each server, with the same arguments.
fn run_each() -> Result<ExitCode, BoxError> {
    let mut outcome = ExitCode::SUCCESS;
    for server in SERVERS {
        println!("\n{server}:");
        let arguments = std::env::args_os().skip(1);
        let status = Command::new(std::env::current_exe()?).args(arguments).env(SERVER, server).status()?;
        if !status.success() {
            outcome = ExitCode::FAILURE;
        }
    }
    Ok(outcome)
}

fn under_all_policies(stored: Arc<dyn Store>) -> Arc<dyn Store> {
    let observed = ObservedStore::new(stored, "the suite");
    let scoped = ScopedStore::new(observed, Scope::from_trusted_name(SCOPE).unwrap());
    let expiring = ExpiringStore::builder(scoped, Duration::from_secs(24 * 60 * 60)).build().unwrap();
    let limits = Limits::none().with_files(100_000).with_bytes(1 << 40).with_file_bytes(1 << 40).with_depth(1_000);
    let limited = LimitedStore::new(expiring, limits);
    let actor = Actor::from_trusted_name("the suite").unwrap();
    let audited = AuditedStore::new(limited, StoreLog::new(InMemoryStore::new()), actor);
    Arc::new(ScreenedStore::new(audited, SensitiveData::new()))
}
