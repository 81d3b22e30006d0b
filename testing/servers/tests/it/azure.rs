//! Tests of Azurite.

use std::sync::LazyLock;

use memory_tool_test_servers::{AzureServer, Server as _};
use object_store::{Error, ObjectStoreExt as _};

static SERVER: LazyLock<AzureServer> = LazyLock::new(|| AzureServer::start().unwrap_or_else(|error| panic!("{error}")));

crate::contract::contract!(&*SERVER, 20);

#[tokio::test]
async fn refuses_a_wrong_key() {
    let client = SERVER.builder(SERVER.url()).with_access_key("d3Jvbmc=").build().unwrap();
    let refused = client.put(&"refused/key".into(), "".into()).await.unwrap_err();
    assert!(matches!(refused, Error::PermissionDenied { .. } | Error::Unauthenticated { .. }), "{refused:?}");
}
