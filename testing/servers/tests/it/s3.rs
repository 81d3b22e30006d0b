//! Tests of ministack and SeaweedFS.

use std::sync::LazyLock;

use memory_tool_test_servers::S3Server;

static MINISTACK: LazyLock<S3Server> = LazyLock::new(|| S3Server::start().unwrap_or_else(|error| panic!("{error}")));
#[cfg(target_os = "linux")]
static SEAWEED: LazyLock<S3Server> =
    LazyLock::new(|| S3Server::start_seaweed().unwrap_or_else(|error| panic!("{error}")));

mod ministack {
    crate::contract::contract!(&*super::MINISTACK, 20);
}

#[cfg(target_os = "linux")]
mod seaweed {
    use memory_tool_test_servers::{S3Server, Server as _};

    use crate::no_retries;

    // The losers of a race wait for seconds.
    crate::contract::contract!(&*super::SEAWEED, 2);

    #[tokio::test]
    async fn has_its_bucket_as_soon_as_it_is_ready() {
        let server = S3Server::start_seaweed().unwrap();
        let client = server.client(server.url(), no_retries()).unwrap();
        let listing = client.list_with_delimiter(None).await.unwrap();
        assert_eq!(listing.objects, []);
    }
}
