//! Checks the effect of each fault, and the counts of requests.

use std::time::{Duration, Instant};

use futures::future::join_all;
use memory_tool_test_servers::{Fault, GcsServer, Proxy, Record, Refusal, Requests, Server as _};
use object_store::path::Path;
use object_store::{ClientOptions, Error, ObjectStore, ObjectStoreExt as _, PutMode, PutResult};

use crate::{few_retries, no_retries};

/// The timeout of an impatient client.
const PATIENCE: Duration = Duration::from_secs(1);

/// A server, a proxy, and clients with and without the proxy.
struct Line {
    proxy: Proxy,
    client: std::sync::Arc<dyn ObjectStore>,
    direct: std::sync::Arc<dyn ObjectStore>,
    server: GcsServer,
}

impl Line {
    fn new() -> Self {
        let server = GcsServer::start().unwrap();
        let proxy = Proxy::start(server.url()).unwrap();
        let client = server.client(proxy.url(), no_retries()).unwrap();
        let direct = server.client(server.url(), no_retries()).unwrap();
        Self { proxy, client, direct, server }
    }

    /// Returns a client of the proxy with a short timeout.
    fn impatient(&self) -> std::sync::Arc<dyn ObjectStore> {
        let options = ClientOptions::new().with_allow_http(true).with_timeout(PATIENCE);
        let builder = self.server.builder(self.proxy.url()).with_client_options(options).with_retry(no_retries());
        std::sync::Arc::new(builder.build().unwrap())
    }

    async fn create(&self, fault: Fault) -> object_store::Result<PutResult> {
        self.proxy.fault_at(Requests::of("PUT").with("/test/key"), 1, fault);
        self.client.put_opts(&key(), "content".into(), PutMode::Create.into()).await
    }

    /// Returns the content on the server.
    async fn stored(&self) -> Option<String> {
        match self.direct.get(&key()).await {
            Ok(object) => Some(String::from_utf8(object.bytes().await.unwrap().to_vec()).unwrap()),
            Err(Error::NotFound { .. }) => None,
            Err(other) => panic!("{other:?}"),
        }
    }

    /// Returns the only recorded request.
    fn record(&self) -> Record {
        let mut records = self.proxy.take_records();
        assert_eq!(records.len(), 1, "{records:?}");
        records.remove(0)
    }
}

fn key() -> Path {
    Path::from("key")
}

#[tokio::test]
async fn requests_are_counted() {
    let line = Line::new();
    line.client.put(&key(), "content".into()).await.unwrap();
    line.client.get(&key()).await.unwrap();
    line.client.head(&Path::from("missing")).await.unwrap_err();
    let seen: Vec<_> =
        line.proxy.records().into_iter().map(|record| (record.method, record.target, record.status)).collect();
    let expected = [("PUT", "/test/key", 200), ("GET", "/test/key", 200), ("HEAD", "/test/missing", 404)];
    assert_eq!(seen, expected.map(|(method, target, status)| (method.to_owned(), target.to_owned(), Some(status))));
    assert_eq!(line.proxy.count(&Requests::all()), 3);
    assert_eq!(line.proxy.count(&Requests::all().with("missing")), 1);
    assert_eq!(line.proxy.count(&Requests::of("GET")), 1);
    assert_eq!(line.proxy.take_records().len(), 3);
    assert_eq!(line.proxy.count(&Requests::all()), 0);
}

#[tokio::test]
async fn bytes_of_bodies_are_counted() {
    let line = Line::new();
    line.client.put(&key(), "content".into()).await.unwrap();
    line.client.get(&key()).await.unwrap().bytes().await.unwrap();
    line.client.head(&key()).await.unwrap();
    let bytes: Vec<_> =
        line.proxy.records().iter().map(|record| (record.request_bytes, record.response_bytes)).collect();
    assert_eq!(bytes, [("content".len(), 0), (0, "content".len()), (0, 0)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_of_concurrent_requests_are_exact() {
    let line = Line::new();
    let paths: Vec<_> = (0..500).map(|number| Path::from(format!("{number}"))).collect();
    for result in join_all(paths.iter().map(|path| line.client.put(path, vec![b'x'; 5_000].into()))).await {
        result.unwrap();
    }
    assert_eq!(line.proxy.count(&Requests::of("PUT")), 500);
    assert!(line.proxy.records().iter().all(|record| record.status == Some(200)));
}

#[tokio::test]
async fn truncated_requests_do_not_reach_the_server() {
    let line = Line::new();
    line.create(Fault::CutRequest).await.unwrap_err();
    assert_eq!(line.stored().await, None);
    assert_eq!(line.record().status, None);
}

#[tokio::test]
async fn requests_with_a_lost_response_take_effect() {
    for fault in [Fault::CloseUnanswered, Fault::ResetUnanswered, Fault::CutAnswer] {
        let line = Line::new();
        line.create(fault).await.unwrap_err();
        assert_eq!(line.stored().await.as_deref(), Some("content"), "{fault:?}");
        let record = line.record();
        assert_eq!((record.status, record.fault), (Some(200), Some(fault)));
    }
}

#[tokio::test]
async fn clients_distinguish_closed_from_reset_connections() {
    for (fault, expected) in [(Fault::CloseUnanswered, true), (Fault::ResetUnanswered, false)] {
        let mut line = Line::new();
        line.client = line.server.client(line.proxy.url(), few_retries()).unwrap();
        let error = line.create(fault).await.unwrap_err();
        assert_eq!(matches!(error, Error::AlreadyExists { .. }), expected, "{fault:?}: {error:?}");
        assert_eq!(line.proxy.count(&Requests::all()), 1 + usize::from(expected));
    }
}

#[tokio::test]
async fn truncated_bodies_are_errors() {
    let line = Line::new();
    line.direct.put(&key(), vec![b'x'; 100_000].into()).await.unwrap();
    line.proxy.fault_at(Requests::of("GET"), 1, Fault::CutAnswer);
    let object = line.client.get(&key()).await.unwrap();
    assert_eq!(object.meta.size, 100_000);
    object.bytes().await.unwrap_err();
    assert_eq!(line.client.get(&key()).await.unwrap().bytes().await.unwrap().len(), 100_000);
}

#[tokio::test]
async fn hanging_responses_end_with_the_timeout_of_the_client() {
    for (fault, stored) in [(Fault::Hang, Some("content")), (Fault::Swallow, None)] {
        let mut line = Line::new();
        line.client = line.impatient();
        let start = Instant::now();
        line.create(fault).await.unwrap_err();
        assert!(start.elapsed() >= PATIENCE);
        assert_eq!(line.stored().await.as_deref(), stored, "{fault:?}");
        assert_eq!(line.record().status, stored.map(|_| 200));
    }
}

#[tokio::test]
async fn delayed_requests_reach_the_server_after_a_disconnect() {
    let mut line = Line::new();
    line.client = line.impatient();
    line.create(Fault::DelayRequest(2 * PATIENCE)).await.unwrap_err();
    assert_eq!(line.stored().await, None);
    assert_eq!(line.proxy.late(), 1);
    while line.proxy.late() > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(line.stored().await.as_deref(), Some("content"));
    assert_eq!(line.record().status, Some(200));
}

#[tokio::test]
async fn repeated_requests_reach_the_server_twice() {
    let line = Line::new();
    line.create(Fault::RepeatRequest(PATIENCE / 4)).await.unwrap();
    line.direct.delete(&key()).await.unwrap();
    assert_eq!((line.proxy.late(), line.stored().await), (1, None));
    while line.proxy.late() > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(line.stored().await.as_deref(), Some("content"));
    assert_eq!(line.record().status, Some(200));
}

#[tokio::test]
async fn delayed_responses_arrive_late() {
    let line = Line::new();
    let start = Instant::now();
    line.create(Fault::Delay(Duration::from_millis(150))).await.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(150));
    assert_eq!(line.record().status, Some(200));
}

#[tokio::test]
async fn refusals_come_before_or_after_the_server() {
    use Refusal::{Conflict, InternalError, PreconditionFailed, TooManyRequests, Unavailable};
    for refusal in [Conflict, PreconditionFailed, TooManyRequests, InternalError, Unavailable] {
        for (fault, stored) in [(Fault::RefuseBefore(refusal), None), (Fault::RefuseAfter(refusal), Some("content"))] {
            let line = Line::new();
            let error = format!("{:?}", line.create(fault).await.unwrap_err());
            assert!(error.contains(&refusal.status().to_string()), "{refusal:?}: {error}");
            assert_eq!(line.stored().await.as_deref(), stored, "{fault:?}");
            assert_eq!(line.record().status, stored.map(|_| 200));
            line.client.put(&key(), "again".into()).await.unwrap(); // the connection stays open
        }
    }
}
