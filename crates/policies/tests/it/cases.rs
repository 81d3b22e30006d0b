//! The cases of the policies on all local stores.

use memory_tool_test_fixtures::layer_cases::{LayerCase, expect_success_on_local_stores};

#[tokio::test]
async fn policy_cases_pass_on_all_local_stores() {
    expect_success_on_local_stores(LayerCase::POLICIES).await;
}
