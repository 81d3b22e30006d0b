//! `Memory::open`, on a place of each kind; and the prefixes of buckets, as their clients take them.
//!
//! The settings of a bucket come from the environment, which a test cannot change for itself: it runs itself as the process that
//! has them, so it has no harness.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Failed, Trial};
use memory_tool::{Memory, StoreUrl};
use memory_tool_core::BoxError;
use memory_tool_test_servers::{S3Server, Server as _};
use object_store::path::Path;
use serde_json::json;
use tokio::runtime::Runtime;

/// The variable that names the store which the process is to open.
const STORE: &str = "MEMORY_TOOL_TEST_OPEN";

fn main() -> Result<ExitCode, BoxError> {
    if let Some(url) = std::env::var_os(STORE) {
        Runtime::new()?.block_on(keep(url.to_str().unwrap()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let trials = vec![
        Trial::test("a_directory", || Ok(on_disk("")?)),
        Trial::test("a_database", || Ok(on_disk("sqlite:")?)),
        Trial::test("a_bucket_of_s3", || Ok(in_a_bucket()?)),
        Trial::test("what_is_taken_for_a_prefix_is_one", what_is_taken_for_a_prefix_is_one),
    ];
    Ok(libtest_mimic::run(&Arguments::from_args(), trials).exit_code())
}

/// Keeps a file by the tool of one memory, and reads it by another.
async fn keep(url: &str) -> Result<(), BoxError> {
    let create = json!({"command": "create", "path": "/memories/a", "file_text": "kept"});
    Memory::open(url).await?.tool().call(create).await?;
    let seen = Memory::open(url).await?.read_to_string("/memories/a").await?;
    if seen == "kept" { Ok(()) } else { Err(seen.into()) }
}

fn on_disk(scheme: &str) -> Result<(), BoxError> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("store");
    Runtime::new()?.block_on(keep(&format!("{scheme}{}", path.display())))?;
    if path.exists() { Ok(()) } else { Err("it lies elsewhere".into()) }
}

fn in_a_bucket() -> Result<(), BoxError> {
    let server = S3Server::start()?;
    let mut process = Command::new(std::env::current_exe()?);
    process.envs(server.environment(server.url())).env(STORE, format!("{}/a%20prefix", server.bucket_url()));
    let output = process.output()?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into()) }
}

/// Both agree on whether it is one. A line feed or `..` is not asked about as it stands: a URL drops it without a word.
fn what_is_taken_for_a_prefix_is_one() -> Result<(), Failed> {
    let names =
        ["", "a", "é", "...", "%2E", "%2e%2E", "a%20b", "%00", "%0A", "%7F", "%C2%85", "%ff", "%2F", "%25", "~", "\\"];
    for one in names {
        for other in names {
            for prefix in
                [one.to_owned(), format!("{one}/{other}"), format!("{one}/{other}/"), format!("a/{one}{other}")]
            {
                let parsed = StoreUrl::parse(format!("s3://bucket/{prefix}"));
                let taken = Path::from_url_path(format!("/{prefix}"));
                if parsed.is_ok() != taken.is_ok() {
                    return Err(format!("{prefix:?}: {parsed:?}, but {taken:?}").into());
                }
            }
        }
    }
    Ok(())
}
