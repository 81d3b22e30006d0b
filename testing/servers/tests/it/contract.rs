//! Requirements of every server that no other test would miss: exact preconditions and complete lists.

use std::sync::Arc;

use futures::TryStreamExt as _;
use futures::future::join_all;
use memory_tool_test_servers::Server;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt as _, PutMode, PutResult};

use crate::no_retries;

/// A client of a server with a prefix for one test.
pub(crate) struct Bucket {
    store: Arc<dyn ObjectStore>,
    prefix: &'static str,
}

impl Bucket {
    pub(crate) fn of(server: &dyn Server, prefix: &'static str) -> Self {
        Self::new(server.client(server.url(), no_retries()).unwrap(), prefix)
    }

    pub(crate) fn new(store: Arc<dyn ObjectStore>, prefix: &'static str) -> Self {
        Self { store, prefix }
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

/// Lists with several pages are complete.
pub(crate) async fn lists_more_than_a_page(bucket: Bucket) {
    let keys: Vec<_> = (0..1_050).map(|number| format!("many/{:02}/{number:04}", number % 100)).collect();
    // With 50 requests at a time on a busy machine, Azurite did not list 4 objects that it had accepted.
    for keys in keys.chunks(8) {
        join_all(keys.iter().map(|key| bucket.put(key, "", PutMode::Overwrite))).await;
    }
    let mut sorted = keys.clone();
    sorted.sort();
    assert_eq!(bucket.keys("many").await, sorted);
    let level = bucket.store.list_with_delimiter(Some(&bucket.path("many"))).await.unwrap();
    assert_eq!((level.common_prefixes.len(), level.objects.len()), (100, 0));
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

/// Defines the tests of a server. `$bucket` returns a client with a prefix, and `$rounds` is the number of races.
macro_rules! contract {
    ($bucket:expr, $rounds:expr) => {
        use $crate::contract::{self, Bucket};

        #[tokio::test]
        async fn lists_more_than_a_page() {
            contract::lists_more_than_a_page(($bucket)("pages")).await;
        }

        #[tokio::test]
        async fn has_one_creator() {
            contract::has_one_creator(($bucket)("creators"), $rounds).await;
        }
    };
}
pub(crate) use contract;
