//! The cases of the policies and of the history on a real server.

use std::sync::Arc;

use memory_tool_test_fixtures::layer_cases::LayerCase;
use memory_tool_test_postgres::{Database, open, server};

#[tokio::test(flavor = "multi_thread")]
async fn layer_cases_pass() {
    let database = Database::new(server());
    for case in LayerCase::POLICIES.iter().chain(LayerCase::HISTORY) {
        let store = open(&format!("{}?memory={}", database.url(server()), case.id())).await.unwrap();
        let outcome = case.run(Arc::new(store)).await;
        assert!(outcome.is_ok(), "{}: {outcome:?}", case.id());
    }
}
