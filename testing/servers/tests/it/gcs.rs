//! Tests of [`GcsServer`].

use std::sync::LazyLock;
use std::time::Duration;

use futures::TryStreamExt as _;
use memory_tool_test_servers::{GcsServer, Server as _};
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path;
use object_store::{Error, ObjectStore as _, ObjectStoreExt as _};

use crate::no_retries;

static SERVER: LazyLock<GcsServer> = LazyLock::new(|| GcsServer::start().unwrap());

crate::contract::contract!(&*SERVER, 20);

fn builder() -> GoogleCloudStorageBuilder {
    SERVER.builder(SERVER.url()).with_retry(no_retries())
}

#[tokio::test]
async fn refuses_a_wrong_token_and_another_bucket() {
    let path = Path::from("refused/key");
    let client = builder().with_bearer_token("wrong").build().unwrap();
    let refused = client.put(&path, "".into()).await.unwrap_err();
    assert!(matches!(refused, Error::Unauthenticated { .. }), "{refused:?}");
    let client = builder().with_bucket_name("other").build().unwrap();
    let refused = client.put(&path, "".into()).await.unwrap_err();
    assert!(matches!(refused, Error::NotFound { .. }), "{refused:?}");
}

#[tokio::test]
async fn copies_the_named_object() {
    let client = builder().build().unwrap();
    let (from, to) = (Path::from("copy/from %"), Path::from("copy/to"));
    client.put(&from, "content".into()).await.unwrap();
    client.copy(&from, &to).await.unwrap();
    assert_eq!(client.get(&to).await.unwrap().bytes().await.unwrap(), "content");
    let missing = client.copy(&Path::from("copy/missing"), &to).await.unwrap_err();
    assert!(matches!(missing, Error::NotFound { .. }), "{missing:?}");
}

#[tokio::test]
async fn lists_from_an_offset() {
    let client = builder().build().unwrap();
    for key in ["offset/a", "offset/b", "offset/c"] {
        client.put(&key.into(), "".into()).await.unwrap();
    }
    let listed = client.list_with_offset(Some(&"offset".into()), &"offset/a".into());
    let keys: Vec<_> = listed.map_ok(|object| object.location.to_string()).try_collect().await.unwrap();
    assert_eq!(keys, ["offset/b", "offset/c"]);
}

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
