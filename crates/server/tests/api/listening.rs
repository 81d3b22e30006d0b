//! Sockets, TLS, proxies, and the endpoints for monitors.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use memory_tool_server::{Grant, Right, ServerOptions, TlsFiles};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::server::{Server, places};

const PATIENCE: Duration = Duration::from_secs(60);

/// The response to a request with these headers, as text.
async fn get(mut stream: impl AsyncRead + AsyncWrite + Unpin, path: &str, headers: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response
}

#[tokio::test]
async fn a_unix_socket_replaces_that_of_a_killed_server() {
    let (directory, [place, _]) = places();
    let path = directory.path().join("socket");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap()); // leaves the file
    let listen = format!("unix:{}", path.display());
    let server = Server::start_with(&place, |options| {
        options.listen = listen.parse().unwrap();
        options.socket_mode = Some(0o606);
    })
    .await;
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o606); // no umask makes it
    let headers = format!("host: localhost\r\nx-api-key: {}\r\n", server.token);
    let response = get(UnixStream::connect(&path).await.unwrap(), "/v1/memory_stores", &headers).await;
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");

    let mut options = memory_tool_server::ServerOptions::new(place.parse().unwrap(), directory.path().join("tokens"));
    options.listen = listen.parse().unwrap();
    let second = memory_tool_server::Server::listen(options.clone()).await.unwrap_err();
    assert_eq!(second.kind(), std::io::ErrorKind::AddrInUse);
    let file = directory.path().join("file");
    fs::write(&file, "text").unwrap();
    options.listen = format!("unix:{}", file.display()).parse().unwrap();
    memory_tool_server::Server::listen(options).await.unwrap_err();
    assert_eq!(fs::read_to_string(file).unwrap(), "text");
}

/// Writes a new certificate, and returns a client that accepts it.
fn certify(files: &TlsFiles) -> TlsConnector {
    certify_for(files, &[])
}

/// [`certify`] for a client of these protocols.
fn certify_for(files: &TlsFiles, protocols: &[&[u8]]) -> TlsConnector {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    write_key(&files.key, &signing_key.serialize_pem(), 0o600);
    fs::write(&files.certificate, cert.pem()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    TlsConnector::from(Arc::new(config))
}

fn write_key(path: &Path, key: &str, mode: u32) {
    fs::write(path, key).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The status line of a response over TLS, if the certificate is the expected one.
async fn status(server: &Server, client: &TlsConnector) -> std::io::Result<String> {
    let stream = TcpStream::connect(&server.address).await?;
    let stream = client.connect("localhost".try_into().unwrap(), stream).await?;
    Ok(get(stream, "/healthz", "host: localhost\r\n").await.lines().next().unwrap().to_owned())
}

#[tokio::test]
async fn tls_follows_its_files() {
    let (directory, [place, _]) = places();
    let files = TlsFiles::new(directory.path().join("certificate.pem"), directory.path().join("key.pem"));
    let first = certify(&files);
    let server = Server::start_with(&place, |options| options.tls = Some(files.clone())).await;
    assert_eq!(status(&server, &first).await.unwrap(), "HTTP/1.1 200 OK");
    // A client without TLS does not stop the others.
    let mut plain = TcpStream::connect(&server.address).await.unwrap();
    plain.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    assert!(!String::from_utf8_lossy(&read_all(plain).await).contains("200"));

    // Half of a change keeps the old certificate.
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    for half in [&other.cert.pem(), "not a certificate"] {
        fs::write(&files.certificate, half).unwrap();
        sleep(Duration::from_millis(1_200)).await;
        assert_eq!(status(&server, &first).await.unwrap(), "HTTP/1.1 200 OK");
    }
    let second = certify(&files);
    let changed = async {
        while status(&server, &second).await.is_err() {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, changed).await.unwrap();
    status(&server, &first).await.unwrap_err();
}

async fn read_all(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    bytes
}

#[test]
fn a_certificate_is_checked() {
    let directory = tempfile::tempdir().unwrap();
    let files = TlsFiles::new(directory.path().join("certificate.pem"), directory.path().join("key.pem"));
    assert!(files.check().unwrap_err().to_string().contains("certificate.pem"));
    certify(&files);
    files.check().unwrap();
    let key = fs::read_to_string(&files.key).unwrap();
    write_key(&files.key, &key, 0o644);
    assert!(files.check().unwrap_err().to_string().contains("run `chmod 600` on it"));
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    write_key(&files.key, &other.signing_key.serialize_pem(), 0o600);
    let message = files.check().unwrap_err().to_string();
    assert!(message.contains("certificate.pem") && !message.contains("BEGIN"), "{message}");
}

#[tokio::test]
async fn only_a_proxy_may_name_another_host() {
    let (_directory, [place, _]) = places();
    for (proxies, expected) in [(vec!["127.0.0.0/8"], 200), (vec!["192.0.2.0/24"], 403), (vec![], 403)] {
        let server = Server::start_with(&place, |options| {
            options.proxies = proxies.iter().map(|network| network.parse().unwrap()).collect();
            options.allow_hosts = vec!["memory.example".to_owned()];
        })
        .await;
        let headers = format!("host: inside\r\nx-forwarded-host: memory.example\r\nx-api-key: {}\r\n", server.token);
        let response = get(TcpStream::connect(&server.address).await.unwrap(), "/v1/memory_stores", &headers).await;
        assert!(response.starts_with(&format!("HTTP/1.1 {expected} ")), "{proxies:?}: {response}");
    }
}

#[tokio::test]
async fn a_memory_can_have_limits_of_its_own() {
    let (_directory, places) = places();
    for place in places {
        let server = Server::start_with(&place, |options| {
            let toml = "store = \"in-process:\"\ntokens = \"t\"\n[quotas.alice]\nmax_files = 4\nmax_bytes = 1000";
            options.quotas = ServerOptions::from_toml(toml).unwrap().quotas;
            options.memory.max_files = Some(1);
        })
        .await;
        let header = server.with_token(Grant::All, &Right::ALL, true).await;
        let create = async |name: &str, file: &str| {
            let call = json!({"command": "create", "path": file, "file_text": "x"});
            let path = format!("/v1/memory_stores/{name}/tool");
            let (status, reply) = server.send("POST", &path, Some(call), &[&header]).await;
            assert_eq!(status, 200, "{reply}");
            reply["content"][0]["is_error"] == true
        };
        let files = ["/memories/a", "/memories/b", "/memories/c", "/memories/d", "/memories/e"];
        for (file, is_refused) in files.into_iter().zip([false, false, false, false, true]) {
            assert_eq!(create("alice", file).await, is_refused, "{file}");
        }
        for (file, is_refused) in files.into_iter().zip([false, true]) {
            assert_eq!(create("b\"o", file).await, is_refused, "{file}");
        }
        let headers = format!("host: localhost\r\n{header}\r\n");
        let metrics = get(TcpStream::connect(&server.address).await.unwrap(), "/metrics", &headers).await;
        for share in [r#"{memory="alice"} 1"#, r#"{memory="b\"o"} 1"#] {
            assert!(metrics.contains(&format!("\nmemory_server_used_share{share}\n")), "{metrics}");
        }
    }
}

#[tokio::test]
async fn monitors_need_a_token() {
    let (directory, [place, _]) = places();
    let server = Server::start(&place).await;
    let tenant = server.with_token(Grant::Prefix("a".to_owned()), &Right::ALL, false).await;
    let reader = server.with_token(Grant::All, &[Right::Read], false).await;
    let get = async |path: &str, header: &str| {
        let headers = format!("host: localhost\r\n{header}\r\n");
        let response = get(TcpStream::connect(&server.address).await.unwrap(), path, &headers).await;
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse::<u16>().unwrap(), body.to_owned())
    };
    for path in ["/readyz", "/metrics", "/openapi.json"] {
        assert_eq!(get(path, "x-no: token").await.0, 401, "{path}");
    }
    assert_eq!(get("/metrics", &tenant).await.0, 403);
    assert_eq!(get("/metrics", &reader).await, (200, "metrics".to_owned()));
    assert_eq!(get("/readyz", &tenant).await, (200, "ok\n".to_owned()));
    let document: Value = serde_json::from_str(&get("/openapi.json", &tenant).await.1).unwrap();
    assert_eq!(document["openapi"], "3.1.0");
    // A file is in the place of the directory.
    fs::remove_dir_all(directory.path().join("disk")).unwrap();
    fs::write(directory.path().join("disk"), "").unwrap();
    assert_eq!(get("/readyz", &tenant).await.0, 503);
}

/// People open the address that the server prints.
#[tokio::test]
async fn people_sign_in_with_tls() {
    let (directory, [place, _]) = places();
    let files = TlsFiles::new(directory.path().join("certificate.pem"), directory.path().join("key.pem"));
    let client = certify(&files);
    let server = Server::start_with(&place, |options| options.tls = Some(files)).await;
    let body = format!("token={}", server.token);
    for (origin, status) in [("https", "303"), ("http", "403")] {
        let stream = TcpStream::connect(&server.address).await.unwrap();
        let mut stream = client.connect("localhost".try_into().unwrap(), stream).await.unwrap();
        let (address, length) = (&server.address, body.len());
        let head = format!("POST /sign-in HTTP/1.1\r\nhost: {address}\r\norigin: {origin}://{address}\r\n");
        let request = format!("{head}connection: close\r\ncontent-length: {length}\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = Vec::new();
        let _ = stream.read_to_end(&mut response).await;
        let response = String::from_utf8(response).unwrap();
        assert_eq!(response.split(' ').nth(1), Some(status), "{response}");
        assert_eq!(response.contains("; Secure"), status == "303", "{response}");
    }
}

/// Browsers have six connections to a host with HTTP/1.1, and one connection with HTTP/2.
#[tokio::test]
async fn one_connection_has_many_streams_with_tls() {
    let (directory, [place, _]) = places();
    memory_tool::Memory::open(format!("{place}/alice")).await.unwrap().write("/memories/a", "x").await.unwrap();
    let files = TlsFiles::new(directory.path().join("certificate.pem"), directory.path().join("key.pem"));
    let client = certify_for(&files, &[b"h2"]);
    let server = Server::start_with(&place, |options| options.tls = Some(files)).await;
    let stream = TcpStream::connect(&server.address).await.unwrap();
    let stream = client.connect("localhost".try_into().unwrap(), stream).await.unwrap();
    let executor = hyper_util::rt::TokioExecutor::new();
    let handshake = hyper::client::conn::http2::handshake(executor, hyper_util::rt::TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    let mut send = async |method: &str, path: &str, host: &str, cookie: &str, body: String| {
        let request = hyper::Request::builder().method(method).uri(format!("https://{host}{path}"));
        let request = request.header("cookie", cookie).body(body).unwrap();
        sender.ready().await.unwrap();
        timeout(PATIENCE, sender.send_request(request)).await.unwrap().unwrap()
    };
    let (host, body) = (&server.address, format!("token={}", server.token));
    assert_eq!(send("GET", "/sign-in", "evil.example", "", String::new()).await.status(), 403);
    let signed_in = send("POST", "/sign-in", host, "", body).await;
    let cookie = signed_in.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let mut streams = Vec::new();
    for _ in 0..20 {
        let live = send("GET", "/memory/alice/live", host, &cookie, String::new()).await;
        assert_eq!(live.headers()["content-type"], "text/event-stream");
        streams.push(live);
    }
    assert_eq!(send("GET", "/memory/alice", host, &cookie, String::new()).await.status(), 200);
}
