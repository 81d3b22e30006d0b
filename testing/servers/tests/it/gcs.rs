//! Tests of [`GcsServer`].

use std::sync::LazyLock;
use std::time::Duration;

use futures::TryStreamExt as _;
use memory_tool_test_servers::{GcsServer, Server as _};
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path;
use object_store::{Error, GetOptions, ObjectStore as _, ObjectStoreExt as _, PutMode};

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
async fn writes_of_equal_content_have_different_versions() {
    let (client, path) = (builder().build().unwrap(), Path::from("generation/key"));
    let first = client.put(&path, "same".into()).await.unwrap();
    let second = client.put(&path, "same".into()).await.unwrap();
    let first_version = first.version.clone();
    assert_ne!(first_version, second.version);
    let stale = client.put_opts(&path, "".into(), PutMode::Update(first.into()).into()).await.unwrap_err();
    assert!(matches!(stale, Error::Precondition { .. }), "{stale:?}");
    let gone =
        client.get_opts(&path, GetOptions { version: first_version, ..GetOptions::default() }).await.unwrap_err();
    assert!(matches!(gone, Error::NotFound { .. }), "{gone:?}");
    client.get_opts(&path, GetOptions { version: second.version, ..GetOptions::default() }).await.unwrap();
    let options = GetOptions { if_none_match: second.e_tag, ..GetOptions::default() };
    let same = client.get_opts(&path, options).await.unwrap_err();
    assert!(matches!(same, Error::NotModified { .. }), "{same:?}");
}

#[tokio::test]
async fn copy_if_not_exists_refuses_existing_objects() {
    let client = builder().build().unwrap();
    let (from, to) = (Path::from("copy/from %"), Path::from("copy/to"));
    client.put(&from, "content".into()).await.unwrap();
    client.copy_if_not_exists(&from, &to).await.unwrap();
    let second = client.copy_if_not_exists(&from, &to).await.unwrap_err();
    assert!(matches!(second, Error::AlreadyExists { .. }), "{second:?}");
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
async fn joins_multipart_uploads() {
    let (client, path) = (builder().build().unwrap(), Path::from("parts/key"));
    let mut upload = client.put_multipart(&path).await.unwrap();
    for part in ["one ", "two ", "three"] {
        upload.put_part(part.into()).await.unwrap();
    }
    assert!(matches!(client.head(&path).await.unwrap_err(), Error::NotFound { .. }));
    let result = upload.complete().await.unwrap();
    let object = client.get(&path).await.unwrap();
    assert_eq!((object.meta.e_tag.clone(), object.meta.version.clone()), (result.e_tag, result.version));
    assert_eq!(object.bytes().await.unwrap(), "one two three");
    let mut aborted = client.put_multipart(&path).await.unwrap();
    aborted.abort().await.unwrap();
    aborted.put_part("".into()).await.unwrap_err();
}

#[tokio::test]
async fn writes_within_the_pause_are_refused() {
    let server = GcsServer::start_with_pause(Duration::from_secs(3600)).unwrap();
    let client = server.client(server.url(), no_retries()).unwrap();
    let path = Path::from("key");
    let first = client.put(&path, "first".into()).await.unwrap();
    let early = client.put(&path, "second".into()).await.unwrap_err();
    assert!(early.to_string().contains("429"), "{early}");
    client.put(&Path::from("other"), "".into()).await.unwrap();
    assert_eq!(client.head(&path).await.unwrap().e_tag, first.e_tag);
}

#[tokio::test]
async fn writes_after_the_pause_are_accepted() {
    let pause = Duration::from_millis(20);
    let server = GcsServer::start_with_pause(pause).unwrap();
    let client = server.client(server.url(), no_retries()).unwrap();
    let path = Path::from("key");
    let first = client.put(&path, "first".into()).await.unwrap();
    tokio::time::sleep(2 * pause).await;
    client.put_opts(&path, "second".into(), PutMode::Update(first.into()).into()).await.unwrap();
}
