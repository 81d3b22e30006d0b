//! The conformance suite on what crosses crates: stores in buckets, on the servers of S3, Google Cloud Storage and Azure, encrypted
//! on S3's; and stores under policies with generous settings.
//!
//! | store | under all policies | under each policy |
//! | --- | --- | --- |
//! | in memory | every case | every case |
//! | a local directory, SQLite, and encrypted stores over these two | every case | every case, in the long tier |
//! | buckets | every case | the cases of [`CHANGES`], in the long tier |
//!
//! A policy reaches a store only through [`Store`](memory_tool_core::Store), and each store passes the suite by itself, so each policy
//! on each store adds little. Every case under each policy on each server would take a quarter of an hour. Under a policy the
//! cases of races run fewer races than they do on the store by itself, for the same reason.
//!
//! A test is named after the policy, the store and the case, such as `limits::sqlite::create::refuses-to-overwrite`. The test starts
//! itself again as the program that serves a store and is killed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bucket;
#[path = "../object_store/mod.rs"]
mod object_store;
mod policy;
mod under;

use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use bucket::{BucketFixture, Cloud};
use memory_tool_core::BoxError;
use memory_tool_test_fixtures::{
    EncryptedFixture, Fixtures, InMemoryFixture, LocalFixture, SqliteFixture, is_long_tier,
};
use memory_tool_test_servers::{AzureServer, GcsServer, S3Server};
use policy::Policy;
use tracing_subscriber::filter::LevelFilter;
use under::Under;

/// The groups of cases about changes, and of several memories in one bucket. The others run there under all policies at once.
const CHANGES: &[&str] = &["create.", "str_replace.", "insert.", "delete.", "rename.", "store.", "records.", "scopes."];

fn main() -> Result<ExitCode, BoxError> {
    // So that what is observed is put into words.
    tracing_subscriber::fmt().with_max_level(LevelFilter::DEBUG).with_writer(io::sink).init();
    let (s3, gcs) = (Cloud::new(S3Server::start), Cloud::new(GcsServer::start));
    // Azurite collects its garbage when it is ten minutes old, and answers nobody for minutes if much was written to it. So none is
    // used for long.
    let clouds = || {
        [("s3", Arc::clone(&s3)), ("google_cloud_storage", Arc::clone(&gcs)), ("azure", Cloud::new(AzureServer::start))]
    };
    let mut fixtures = Fixtures::default();
    for (cloud_name, cloud) in clouds() {
        fixtures.add(cloud_name, |name| BucketFixture::new(name, &cloud));
    }
    fixtures.add("encrypted::s3", |name| EncryptedFixture::over(BucketFixture::new(name, &s3)));
    for policy in Policy::ALL {
        let on = |store| format!("{}::{store}", policy.name());
        fixtures.add(on("in_memory"), |name| Under::new(policy, InMemoryFixture::new(name)));
        if policy != Policy::All && !is_long_tier() {
            continue;
        }
        fixtures.add(on("local"), |name| Under::new(policy, LocalFixture::new(name)));
        fixtures.add(on("sqlite"), |name| Under::new(policy, SqliteFixture::new(name)));
        fixtures.add(on("encrypted_local"), |name| Under::new(policy, EncryptedFixture::over(LocalFixture::new(name))));
        fixtures
            .add(on("encrypted_sqlite"), |name| Under::new(policy, EncryptedFixture::over(SqliteFixture::new(name))));
        for (cloud_name, cloud) in clouds() {
            let groups = if policy == Policy::All { &[] } else { CHANGES };
            fixtures.add(on(cloud_name), |name| Under::new(policy, BucketFixture::new(name, &cloud)).only(groups));
        }
    }
    if !is_long_tier() {
        fixtures.leave_out("each_policy_on_each_store", "ignored: set MEMORY_TOOL_TESTS=long to run it");
    }
    fixtures.run()
}
