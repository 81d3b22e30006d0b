//! Requirements of every server.

use std::process::Command;
use std::sync::Arc;

use futures::future::join_all;
use futures::{StreamExt as _, TryStreamExt as _};
use memory_tool_test_servers::{Fault, Proxy, Requests, Server};
use object_store::path::Path;
use object_store::{Error, GetRange, ObjectStore, ObjectStoreExt as _, PutMode, PutResult};

use crate::{few_retries, no_retries};

/// A client of a server with a prefix for one test.
pub(crate) struct Bucket {
    store: Arc<dyn ObjectStore>,
    prefix: &'static str,
}

impl Bucket {
    pub(crate) fn of(server: &dyn Server, prefix: &'static str) -> Self {
        Self { store: server.client(server.url(), no_retries()).unwrap(), prefix }
    }

    fn path(&self, key: &str) -> Path {
        Path::parse(format!("{}/{key}", self.prefix)).unwrap()
    }

    async fn put(&self, key: &str, content: &str, mode: PutMode) -> object_store::Result<PutResult> {
        self.store.put_opts(&self.path(key), content.to_owned().into(), mode.into()).await
    }

    async fn get(&self, key: &str) -> String {
        let content = self.store.get(&self.path(key)).await.unwrap().bytes().await.unwrap();
        String::from_utf8(content.to_vec()).unwrap()
    }

    async fn keys(&self, prefix: &str) -> Vec<String> {
        let objects = self.store.list(Some(&self.path(prefix)));
        let mut keys: Vec<_> = objects.map_ok(|object| object.location.to_string()).try_collect().await.unwrap();
        keys.sort();
        keys.into_iter().map(|key| key[self.prefix.len() + 1..].to_owned()).collect()
    }
}

/// Objects can be written, read completely and partially, listed and deleted.
pub(crate) async fn keeps_objects(bucket: Bucket) {
    for (key, content) in [("a/1", "first"), ("a/2", ""), ("a/b/3", "third"), ("c", "fourth")] {
        bucket.put(key, content, PutMode::Overwrite).await.unwrap();
        assert_eq!(bucket.get(key).await, content);
    }
    let head = bucket.store.head(&bucket.path("a/1")).await.unwrap();
    assert_eq!(head.size, 5);
    assert!(head.e_tag.is_some());
    let part = bucket.store.get_range(&bucket.path("a/1"), 1..3).await.unwrap();
    assert_eq!(part, "ir");
    let from = object_store::GetOptions { range: Some(GetRange::Offset(2)), ..Default::default() };
    let rest = bucket.store.get_opts(&bucket.path("a/1"), from).await.unwrap().bytes().await.unwrap();
    assert_eq!(rest, "rst");

    assert_eq!(bucket.keys("a").await, ["a/1", "a/2", "a/b/3"]);
    let level = bucket.store.list_with_delimiter(Some(&bucket.path("a"))).await.unwrap();
    assert_eq!(level.common_prefixes, [bucket.path("a/b")]);
    assert_eq!(level.objects.len(), 2);

    let copy = bucket.store.copy(&bucket.path("a/1"), &bucket.path("copy")).await;
    copy.unwrap();
    assert_eq!(bucket.get("copy").await, "first");

    bucket.store.delete(&bucket.path("a/1")).await.unwrap();
    let gone = bucket.store.get(&bucket.path("a/1")).await.unwrap_err();
    assert!(matches!(gone, Error::NotFound { .. }), "{gone:?}");
    let all = ["a/2", "a/b/3"].map(|key| Ok(bucket.path(key)));
    let deleted = bucket.store.delete_stream(futures::stream::iter(all).boxed()).try_collect::<Vec<_>>().await;
    assert_eq!(deleted.unwrap().len(), 2);
    assert_eq!(bucket.keys("a").await, [""; 0]);
}

/// Lists with several pages are complete.
pub(crate) async fn lists_more_than_a_page(bucket: Bucket) {
    let keys: Vec<_> = (0..1_050).map(|number| format!("many/{:02}/{number:04}", number % 100)).collect();
    for keys in keys.chunks(50) {
        join_all(keys.iter().map(|key| bucket.put(key, "", PutMode::Overwrite))).await;
    }
    let mut sorted = keys.clone();
    sorted.sort();
    assert_eq!(bucket.keys("many").await, sorted);
    let level = bucket.store.list_with_delimiter(Some(&bucket.path("many"))).await.unwrap();
    assert_eq!((level.common_prefixes.len(), level.objects.len()), (100, 0));
}

/// Only one of two creations of an object succeeds.
pub(crate) async fn creates_once(bucket: Bucket) {
    bucket.put("key", "first", PutMode::Create).await.unwrap();
    let second = bucket.put("key", "second", PutMode::Create).await.unwrap_err();
    assert!(matches!(second, Error::AlreadyExists { .. }), "{second:?}");
    assert_eq!(bucket.get("key").await, "first");
}

/// Only one of eight concurrent creations succeeds, and the object has its content.
pub(crate) async fn has_one_creator(bucket: Bucket, rounds: usize) {
    for round in 0..rounds {
        let (bucket, key) = (&bucket, format!("{round}"));
        let create = |writer: usize| {
            let key = &key;
            async move { (writer, bucket.put(key, &writer.to_string(), PutMode::Create).await) }
        };
        let results = join_all((0..8).map(create)).await;
        let winners: Vec<_> = results.iter().filter(|(_, result)| result.is_ok()).map(|(writer, _)| writer).collect();
        assert_eq!(winners.len(), 1, "{results:?}");
        assert_eq!(bucket.get(&key).await, winners[0].to_string());
        let lost = |result: &object_store::Result<_>| matches!(result, Ok(_) | Err(Error::AlreadyExists { .. }));
        assert!(results.iter().all(|(_, result)| lost(result)), "{results:?}");
    }
}

/// Keys with special characters are preserved.
pub(crate) async fn preserves_special_keys(bucket: Bucket) {
    let keys = [
        "two words",
        " lead and trail ",
        "ünïcödé",
        "漢字",
        "🦀",
        "100%",
        "a%20b",
        "a%2Fb",
        "a+b&c=d",
        "?#",
        "[x]{y}",
        "it's \"quoted\"",
        "<&>",
        "~.-_",
        "a:b;c,d",
        "x",
        "x/y",
        "*",
    ];
    for key in keys {
        bucket.put(key, key, PutMode::Create).await.unwrap_or_else(|error| panic!("{key}: {error:?}"));
        assert_eq!(bucket.get(key).await, key);
    }
    let mut sorted = keys;
    sorted.sort();
    assert_eq!(bucket.keys("").await, sorted);
    let all = keys.map(|key| Ok(bucket.path(key)));
    let deleted = bucket.store.delete_stream(futures::stream::iter(all).boxed()).try_collect::<Vec<_>>().await;
    assert_eq!(deleted.unwrap().len(), keys.len());
    assert_eq!(bucket.keys("").await, [""; 0]);
}

/// A proxy preserves signatures, counts requests exactly, and injects the planned fault.
pub(crate) async fn works_through_a_proxy(server: &dyn Server) {
    let proxy = Proxy::start(server.url()).unwrap();
    let store = server.client(proxy.url(), few_retries()).unwrap();
    let bucket = Bucket { store, prefix: "proxy" };
    proxy.fault_at(Requests::of("PUT").with("lost"), 1, Fault::CloseUnanswered);
    bucket.put("found", "content", PutMode::Create).await.unwrap();
    let lost = bucket.put("lost", "content", PutMode::Create).await.unwrap_err();
    assert!(matches!(lost, Error::AlreadyExists { .. }), "{lost:?}"); // the first attempt created it
    assert_eq!(bucket.get("lost").await, "content");
    assert_eq!(bucket.keys("").await, ["found", "lost"]);
    assert_eq!(bucket.store.head(&bucket.path("lost")).await.unwrap().size, 7);
    let methods: Vec<_> = proxy.records().into_iter().map(|record| record.method).collect();
    assert_eq!(methods, ["PUT", "PUT", "PUT", "GET", "GET", "HEAD"]);
}

/// Another program can use the bucket with only its URL and environment.
pub(crate) fn environment_configures_clients(server: &dyn Server) {
    let proxy = Proxy::start(server.url()).unwrap();
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", "contract::program", "--ignored"]).env_clear();
    program.env("BUCKET_URL", server.bucket_url()).envs(server.environment(proxy.url()));
    let output = program.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&[output.stdout, output.stderr].concat()));
    assert_eq!(proxy.count(&Requests::of("PUT").with("environment")), 2);
}

#[tokio::test]
#[ignore = "`environment_configures_clients` runs this in a process"]
async fn program() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let url = std::env::var("BUCKET_URL").unwrap().parse().unwrap();
    let options = std::env::vars().map(|(name, value)| (name.to_lowercase(), value));
    let (store, _) = object_store::parse_url_opts(&url, options).unwrap();
    let bucket = Bucket { store: store.into(), prefix: "environment" };
    bucket.put("a", "", PutMode::Create).await.unwrap();
    bucket.put("b", "", PutMode::Create).await.unwrap();
    let after = bucket.store.list_with_offset(Some(&bucket.path("")), &bucket.path("a"));
    let keys: Vec<_> = after.map_ok(|object| object.location).try_collect().await.unwrap();
    assert_eq!(keys, [bucket.path("b")]);
}

/// Defines the tests of a server. `$rounds` is the number of races between eight creations.
macro_rules! contract {
    ($server:expr, $rounds:expr) => {
        use $crate::contract::{self, Bucket};

        #[tokio::test]
        async fn keeps_objects() {
            contract::keeps_objects(Bucket::of($server, "objects")).await;
        }

        #[tokio::test]
        async fn lists_more_than_a_page() {
            contract::lists_more_than_a_page(Bucket::of($server, "pages")).await;
        }

        #[tokio::test]
        async fn creates_once() {
            contract::creates_once(Bucket::of($server, "create")).await;
        }

        #[tokio::test]
        async fn has_one_creator() {
            contract::has_one_creator(Bucket::of($server, "creators"), $rounds).await;
        }

        #[tokio::test]
        async fn works_through_a_proxy() {
            contract::works_through_a_proxy($server).await;
        }

        #[test]
        fn environment_configures_clients() {
            contract::environment_configures_clients($server);
        }

        #[tokio::test]
        async fn preserves_special_keys() {
            contract::preserves_special_keys(Bucket::of($server, "odd")).await;
        }
    };
}
pub(crate) use contract;
