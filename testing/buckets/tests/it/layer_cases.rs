//! The cases of the policies and of the history on bucket stores, on servers of S3, Google Cloud Storage and Azure.
//!
//! `memory-tool-policies` and `memory-tool-history` test local stores. The cases of the history make many requests: the
//! full tier runs them on one server, and only the long tier on all.

use std::sync::Arc;

use memory_tool_bucket::BucketStore;
use memory_tool_test_fixtures::layer_cases::LayerCase;
use memory_tool_test_fixtures::{by_tier, in_full};
use memory_tool_test_servers::{AzureServer, GcsServer, S3Server, Server};

#[tokio::test]
async fn layer_cases_pass_on_each_server() {
    let servers: [(Box<dyn Server>, &[LayerCase]); 3] = [
        (Box::new(GcsServer::start().unwrap()), in_full(&[], LayerCase::HISTORY)),
        (Box::new(S3Server::start().unwrap()), by_tier(&[], LayerCase::HISTORY)),
        (Box::new(AzureServer::start().unwrap()), by_tier(&[], LayerCase::HISTORY)),
    ];
    for (server, of_history) in servers {
        let bucket = memory_tool_test_buckets::client(&*server).unwrap();
        for case in LayerCase::POLICIES.iter().chain(of_history) {
            let store = BucketStore::open(Arc::clone(&bucket), case.id().into()).await.unwrap();
            let outcome = case.run(Arc::new(store)).await;
            assert!(outcome.is_ok(), "{} on {}: {outcome:?}", case.id(), server.bucket_url());
        }
    }
}
