//! The conformance suite on bucket stores on servers of S3, Google Cloud Storage and Azure. The default tier runs the
//! cases about batches, because the tests of the crate run all cases on a bucket in memory. The full tier runs all
//! cases on one server, and those about changes on the others, and on one server with encryption and under all policies
//! at once. The long tier runs all cases on all three, also with these layers, and the cases about changes under each
//! policy. They add little, because encryption and policies use a store only through
//! [`Store`](memory_tool_core::Store), and each store passes the suite without them.
//!
//! The name of a test has the layer, the store and the case: `all_policies::s3::create::refuses-to-overwrite`. The test
//! starts and kills itself as another process that serves a store.

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

/// The fastest server, on which the full tier runs the whole suite, and tests encryption and policies.
const FASTEST: &str = "google_cloud_storage";

fn main() -> Result<ExitCode, BoxError> {
    // Formats every event, so that a panic in formatting is detected.
    tracing_subscriber::fmt().with_max_level(LevelFilter::DEBUG).with_writer(io::sink).init();
    let (s3, gcs) = (Cloud::new(S3Server::start), Cloud::new(GcsServer::start));
    // Azurite collects garbage after ten minutes, and then may not respond for minutes. Each server is used only
    // briefly.
    let clouds = || [("s3", Arc::clone(&s3)), (FASTEST, Arc::clone(&gcs)), ("azure", Cloud::new(AzureServer::start))];
    let (is_full, is_long) = (Tier::current() != Tier::Default, Tier::current() == Tier::Long);
    let clouds_below_layers = || clouds().into_iter().filter(|(name, _)| is_long || is_full && *name == FASTEST);
    let mut fixtures = Fixtures::default();
    for (cloud_name, cloud) in clouds() {
        let make = |name: &str| BucketFixture::new(name, &cloud);
        if cloud_name == FASTEST && is_full {
            fixtures.add(cloud_name, make);
        } else {
            fixtures.add_part(cloud_name, make);
        }
    }
    for (cloud_name, cloud) in clouds_below_layers() {
        let encrypted = |name: &str| EncryptedFixture::over(BucketFixture::new(name, &cloud));
        fixtures.add_part(format!("encrypted::{cloud_name}"), encrypted);
    }
    for policy in Policy::ALL {
        if policy != Policy::All && !is_long {
            continue;
        }
        for (cloud_name, cloud) in clouds_below_layers() {
            fixtures.add_part(format!("{}::{cloud_name}", policy.name()), |name| {
                let under = Under::new(policy, BucketFixture::new(name, &cloud));
                if policy == Policy::All { under } else { under.only_changes() }
            });
        }
    }
    fixtures.run()
}
