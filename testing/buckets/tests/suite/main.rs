//! The conformance suite on bucket stores on servers of S3, Google Cloud Storage and Azure, with encryption (on S3),
//! and under all policies at once. The long tier also runs the cases about changes under each policy. They add little,
//! because a policy uses a store only through [`Store`](memory_tool_core::Store), and each store passes the suite
//! without policies.
//!
//! The name of a test has the policy, the store and the case: `all_policies::s3::create::refuses-to-overwrite`. The
//! test starts and kills itself as another process that serves a store.

#![cfg(test)]

mod bucket;

use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use bucket::{BucketFixture, Cloud};
use memory_tool_core::BoxError;
use memory_tool_test_fixtures::{EncryptedFixture, Fixtures, Policy, Tier, Under};
use memory_tool_test_servers::{AzureServer, GcsServer, S3Server};
use tracing_subscriber::filter::LevelFilter;

fn main() -> Result<ExitCode, BoxError> {
    // Formats every event, so that a panic in formatting is detected.
    tracing_subscriber::fmt().with_max_level(LevelFilter::DEBUG).with_writer(io::sink).init();
    let (s3, gcs) = (Cloud::new(S3Server::start), Cloud::new(GcsServer::start));
    // Azurite collects garbage after ten minutes, and then may not respond for minutes. Each server is used only
    // briefly.
    let clouds = || {
        [("s3", Arc::clone(&s3)), ("google_cloud_storage", Arc::clone(&gcs)), ("azure", Cloud::new(AzureServer::start))]
    };
    let mut fixtures = Fixtures::default();
    for (cloud_name, cloud) in clouds() {
        fixtures.add(cloud_name, |name| BucketFixture::new(name, &cloud));
    }
    fixtures.add("encrypted::s3", |name| EncryptedFixture::over(BucketFixture::new(name, &s3)));
    for policy in Policy::ALL {
        if policy != Policy::All && Tier::current() != Tier::Long {
            continue;
        }
        for (cloud_name, cloud) in clouds() {
            fixtures.add(format!("{}::{cloud_name}", policy.name()), |name| {
                let under = Under::new(policy, BucketFixture::new(name, &cloud));
                if policy == Policy::All { under } else { under.only_changes() }
            });
        }
    }
    fixtures.run()
}
