//! [`Site`]: a server behind a proxy that counts requests.

use std::time::Duration;

use memory_tool_bucket::BucketStore;
use memory_tool_core::OpenOptions;
use memory_tool_test_servers::{Proxy, Record, Server};
use object_store::RetryConfig;
use tokio::time::sleep;

use crate::usage::Usage;

/// Background work has ended after this time without a request.
const QUIET: Duration = Duration::from_millis(500);

pub(crate) struct Site {
    server: Box<dyn Server>,
    proxy: Proxy,
}

impl Site {
    pub(crate) fn new(server: impl Server + 'static) -> Self {
        Self { proxy: Proxy::start(server.url()).unwrap(), server: Box::new(server) }
    }

    /// Opens a store whose requests are counted.
    pub(crate) async fn open(&self, prefix: &str, options: OpenOptions) -> BucketStore {
        self.open_at(self.proxy.url(), prefix, options).await
    }

    /// Opens a store whose requests are neither counted nor delayed.
    pub(crate) async fn open_uncounted(&self, prefix: &str) -> BucketStore {
        self.open_at(self.server.url(), prefix, OpenOptions::new()).await
    }

    async fn open_at(&self, url: &str, prefix: &str, options: OpenOptions) -> BucketStore {
        // Like the clients of `BucketStoreBuilder::from_url`: the store itself retries.
        let client = self.server.client(url, RetryConfig { max_retries: 0, ..RetryConfig::default() }).unwrap();
        BucketStore::builder(client, prefix.into()).options(options).open().await.unwrap()
    }

    /// The requests since the last call, including background work, which it waits for.
    pub(crate) async fn take_all(&self) -> Vec<Record> {
        let mut records = self.proxy.take_records();
        loop {
            sleep(QUIET).await;
            let more = self.proxy.take_records();
            if more.is_empty() {
                return records;
            }
            records.extend(more);
        }
    }

    /// The mean usage of calls since the last measurement, including background work.
    pub(crate) async fn usage(&self, calls: usize) -> Usage {
        Usage::mean(&self.take_all().await, calls)
    }
}
