//! Tests of Azurite.

use std::sync::LazyLock;

use memory_tool_test_servers::AzureServer;

static SERVER: LazyLock<AzureServer> = LazyLock::new(|| AzureServer::start().unwrap_or_else(|error| panic!("{error}")));

crate::contract::contract!(|prefix| Bucket::of(&*SERVER, prefix), 20);
