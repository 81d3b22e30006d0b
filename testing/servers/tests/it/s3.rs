//! Tests of ministack and SeaweedFS.

use std::sync::LazyLock;

use memory_tool_test_servers::S3Server;

static MINISTACK: LazyLock<S3Server> = LazyLock::new(|| S3Server::start().unwrap_or_else(|error| panic!("{error}")));
#[cfg(target_os = "linux")]
static SEAWEED: LazyLock<S3Server> =
    LazyLock::new(|| S3Server::start_seaweed().unwrap_or_else(|error| panic!("{error}")));

mod ministack {
    crate::contract::contract!(|prefix| Bucket::of(&*super::MINISTACK, prefix), 20);
}

#[cfg(target_os = "linux")]
mod seaweed {
    use std::sync::Arc;
    use std::time::Duration;

    use memory_tool_test_servers::{S3Server, Server as _};
    use object_store::ClientOptions;

    use crate::no_retries;

    // The losers of a race wait for seconds.
    crate::contract::contract!(patient, 2);

    /// A client that waits for the losers also on a busy machine, where all eight have exceeded the usual 30 seconds.
    fn patient(prefix: &'static str) -> Bucket {
        let options = ClientOptions::new().with_allow_http(true).with_timeout(Duration::from_secs(300));
        let server = &*super::SEAWEED;
        let client = server.builder(server.url()).with_client_options(options).with_retry(no_retries());
        Bucket::new(Arc::new(client.build().unwrap()), prefix)
    }

    #[tokio::test]
    async fn has_its_bucket_as_soon_as_it_is_ready() {
        let server = S3Server::start_seaweed().unwrap();
        let client = server.client(server.url(), no_retries()).unwrap();
        let listing = client.list_with_delimiter(None).await.unwrap();
        assert_eq!(listing.objects, []);
    }
}
