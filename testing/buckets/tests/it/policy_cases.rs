//! The cases of the policies on bucket stores, on servers of S3, Google Cloud Storage and Azure.
//!
//! `memory-tool-policies` tests local stores.

use std::sync::Arc;

use memory_tool_bucket::BucketStore;
use memory_tool_conformance::PolicyCase;
use memory_tool_test_servers::{AzureServer, GcsServer, S3Server, Server};

async fn run(server: &dyn Server) {
    let bucket = memory_tool_test_buckets::client(server).unwrap();
    for case in PolicyCase::ALL {
        let store = BucketStore::open(Arc::clone(&bucket), case.id().into()).await.unwrap();
        let outcome = case.run(Arc::new(store)).await;
        assert!(outcome.is_ok(), "{}: {outcome:?}", case.id());
    }
}

#[tokio::test]
async fn policy_cases_pass_on_s3() {
    run(&S3Server::start().unwrap()).await;
}

#[tokio::test]
async fn policy_cases_pass_on_gcs() {
    run(&GcsServer::start().unwrap()).await;
}

#[tokio::test]
async fn policy_cases_pass_on_azure() {
    run(&AzureServer::start().unwrap()).await;
}
