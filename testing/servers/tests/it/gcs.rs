//! Tests of [`GcsServer`].

use std::sync::LazyLock;

use memory_tool_test_servers::GcsServer;

static SERVER: LazyLock<GcsServer> = LazyLock::new(|| GcsServer::start().unwrap());

crate::contract::contract!(|prefix| Bucket::of(&*SERVER, prefix), 20);
