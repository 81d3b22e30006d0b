//! Missing credentials: the error names the variables to set and no address. The metadata service of a machine still
//! supplies credentials if there is one.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use memory_tool_bucket::{BucketStoreBuilder, OpenFailure};
use memory_tool_core::OpenOptions;

const URL: &str = "MEMORY_TOOL_TEST_URL";

/// Opens the URL in another process with this environment only, and returns its output.
fn open(url: &str, environment: &[(&str, &str)]) -> String {
    let test = ["--exact", "credentials::open_a_url", "--ignored", "--nocapture"];
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(test).env_clear().env(URL, url).envs(environment.iter().copied());
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

#[tokio::test]
#[ignore = "the other tests run it in a separate process"]
async fn open_a_url() {
    let builder = BucketStoreBuilder::from_url(&std::env::var(URL).unwrap()).unwrap();
    match builder.options(OpenOptions::new().must_exist()).open().await {
        Ok(_) => println!("opened"),
        Err(error) if error.is_not_found() => println!("not found"),
        Err(error) => match std::error::Error::source(&error).and_then(|source| source.downcast_ref()) {
            Some(failure @ OpenFailure::NoCredentials { .. }) => println!("refused: {failure}"),
            _ => println!("failed: {error:?}"),
        },
    }
}

/// A server that calls `answer` with the first line of each request.
fn serve(answer: impl Fn(&str) -> String + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let Some(request) = read_request(&mut connection) else { continue };
            let answer = answer(&request);
            let _ = connection.write_all(answer.as_bytes());
        }
    });
    format!("http://{address}")
}

fn read_request(connection: &mut TcpStream) -> Option<String> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        connection.read_exact(&mut byte).ok()?;
        request.extend(byte);
    }
    String::from_utf8(request).ok()?.lines().next().map(str::to_owned)
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

const MISSING: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// The replies of S3 for a bucket without objects.
fn empty_bucket(request: &str) -> String {
    if !request.contains("list-type=2") {
        return MISSING.to_owned();
    }
    ok("<ListBucketResult><Name>bucket</Name><KeyCount>0</KeyCount><IsTruncated>false</IsTruncated></ListBucketResult>")
}

#[test]
fn what_to_set_is_reported() {
    let refusing = serve(|_| MISSING.to_owned());
    let host = refusing.trim_start_matches("http://");
    let google = [("GCE_METADATA_HOST", host), ("GCE_METADATA_IP", host), ("HOME", "/nowhere")];
    for (url, environment, advice) in [
        (
            "s3://bucket/prefix",
            &[("AWS_METADATA_ENDPOINT", &*refusing), ("AWS_ALLOW_HTTP", "true")][..],
            "AWS_ACCESS_KEY_ID",
        ),
        ("gs://bucket/prefix", &google, "GOOGLE_APPLICATION_CREDENTIALS"),
    ] {
        let told = open(url, environment);
        assert!(told.contains("refused: ") && told.contains(advice), "{url}: {told}");
        assert!(!told.contains("http"), "{url}: {told}");
    }
}

/// A service that takes the request and never answers.
#[test]
fn a_metadata_service_that_is_silent_is_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let told = open("s3://bucket/prefix", &[("AWS_METADATA_ENDPOINT", &endpoint), ("AWS_ALLOW_HTTP", "true")]);
    assert!(told.contains("refused: no AWS credentials: set AWS_ACCESS_KEY_ID"), "{told}");
    drop(listener);
}

#[test]
fn the_credentials_of_a_machine_are_used() {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&requests);
    let server = serve(move |request| {
        noted.lock().unwrap().push(request.to_owned());
        match request.split(' ').nth(1).unwrap_or_default() {
            "/latest/api/token" => ok("token"),
            path if path.ends_with("/security-credentials/") => ok("role"),
            path if path.ends_with("/security-credentials/role") => {
                ok(r#"{"AccessKeyId": "id", "SecretAccessKey": "secret", "Token": "token",
                    "Expiration": "2999-01-01T00:00:00Z"}"#)
            }
            _ => empty_bucket(request),
        }
    });
    let environment = [("AWS_METADATA_ENDPOINT", &*server), ("AWS_ENDPOINT", &server), ("AWS_ALLOW_HTTP", "true")];
    let told = open("s3://bucket/prefix", &environment);
    assert!(told.contains("not found"), "{told}");
    assert!(requests.lock().unwrap().iter().any(|request| request.contains("/bucket?list-type=2")));
}
