//! Tests of [`GcsServer`].

use std::sync::LazyLock;
use std::time::Duration;

use memory_tool_test_servers::{GcsServer, Server as _};
use object_store::ObjectStoreExt as _;
use object_store::path::Path;

use crate::no_retries;

static SERVER: LazyLock<GcsServer> = LazyLock::new(|| GcsServer::start().unwrap());

crate::contract::contract!(|prefix| Bucket::of(&*SERVER, prefix), 20);

#[tokio::test]
async fn writes_within_the_pause_are_refused() {
    for (pause, is_refused) in [(Duration::from_secs(3600), true), (Duration::from_millis(20), false)] {
        let server = GcsServer::start_with_pause(pause).unwrap();
        let client = server.client(server.url(), no_retries()).unwrap();
        let path = Path::from("key");
        let first = client.put(&path, "first".into()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(40)).await;
        client.put(&Path::from("other"), "".into()).await.unwrap();
        let second = client.put(&path, "second".into()).await;
        assert_eq!(second.as_ref().is_err_and(|error| error.to_string().contains("429")), is_refused, "{second:?}");
        assert_eq!(client.head(&path).await.unwrap().e_tag == first.e_tag, is_refused);
    }
}
