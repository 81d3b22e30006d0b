//! The log, the audit log and `/readyz`, and refusals of unknown conditions.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use memory_tool::LogDetail;
use memory_tool::store::StorePath;
use memory_tool_server::{Grant, Right, TokenFile};
use memory_tool_test_fixtures::Log;
use serde_json::{Value, json};

use crate::page::Browser;
use crate::security::{Needs, ROUTES};
use crate::server::{Server, places};

#[tokio::test]
async fn a_request_is_followed_from_its_id_to_its_outcome() {
    let (directory, [place, _]) = places();
    let log = Log::of_this_thread();
    let audit = directory.path().join("audit");
    let server = Server::start_with(&place, |options| {
        (options.memory.log, options.memory.audit_log) = (Some(LogDetail::Commands), Some(audit.clone()));
        options.memory.actor = Some(memory_tool::Actor::from_trusted_name("server").unwrap());
    })
    .await;
    let alice = Grant::Name("alice".parse().unwrap());
    let header = server.with_token(alice, &Right::ALL, true).await;
    let call = |input: Value| {
        let path = "/v1/memory_stores/alice/tool";
        let (server, header, body) = (&server, header.clone(), input.to_string());
        async move {
            let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{header}");
            let reply = server.raw(format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())).await;
            reply.split("request-id: ").nth(1).unwrap().split('\r').next().unwrap().to_owned()
        }
    };
    let made = call(json!({"command": "create", "path": "/memories/a", "file_text": "tea"})).await;
    let refused = call(json!({"command": "delete", "path": "/memories/b"})).await;
    for (id, outcome) in [(&made, "done"), (&refused, "not_found")] {
        let lines = log.lines(id);
        assert!(lines.len() >= 2, "the request and its command: {lines:?}");
        for line in &lines {
            assert!(line.contains(r#"memory="alice""#) && line.contains(r#"actor="key""#), "{line}");
        }
        let request = lines.iter().find(|line| line.contains("milliseconds")).unwrap();
        assert!(request.contains(&format!("outcome=\"{outcome}\"")), "{request}");
        let records = fs::read_to_string(&audit).unwrap();
        let records: Vec<Value> = records.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let own: Vec<_> = records.iter().filter(|record| record["request"] == **id).collect();
        assert!(!own.is_empty(), "{records:?}");
        assert!(own.iter().all(|record| record["memory"] == "alice" && record["actor"] == "key"), "{own:?}");
    }
}

#[tokio::test]
async fn a_damaged_file_of_tokens_is_reported_once_and_to_monitors() {
    let (directory, [place, _]) = places();
    let log = Log::of_this_thread();
    let file = directory.path().join("tokens.json");
    let secret = {
        let actor = memory_tool::Actor::from_trusted_name("ops").unwrap();
        let generated = memory_tool_server::TokenEntry::generate(actor, vec![Grant::All], Right::ALL.to_vec());
        let (entry, secret) = generated.unwrap();
        TokenFile::new(&file).add(entry).unwrap();
        secret
    };
    let server = Server::start_with(&place, |options| options.tokens.clone_from(&file)).await;
    let ready = async || {
        let head = format!("GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx-api-key: {secret}");
        server.raw(format!("{head}\r\n\r\n")).await
    };
    assert!(ready().await.starts_with("HTTP/1.1 200"));
    let good = fs::read(&file).unwrap();
    fs::write(&file, "{").unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let reply = ready().await;
    assert!(reply.starts_with("HTTP/1.1 503") && reply.contains("the file of the tokens"), "{reply}");
    assert_eq!(log.lines("cannot read").len(), 1);
    fs::write(&file, good).unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(ready().await.starts_with("HTTP/1.1 200"));
    // A mode, too, makes it unreadable, and readable again.
    for (mode, status) in [(0o644, "503"), (0o440, "200"), (0o604, "503"), (0o600, "200")] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        let reply = ready().await;
        assert!(reply.starts_with(&format!("HTTP/1.1 {status}")), "{mode:o}: {reply}");
    }
}

#[tokio::test]
async fn a_condition_that_the_server_does_not_know_is_refused() {
    let (_directory, [place, _]) = places();
    let server = Server::start(&place).await;
    let changes = ROUTES.into_iter().filter(|(method, _, needs, _)| *needs != Needs::Nothing && *method != "GET");
    for (method, path, _, body) in changes {
        let path = path.replace("{id}", "alice").replace("{memory}", "mem_0").replace("{version}", "memver_1_0");
        for condition in ["if-match: \"x\"", "if-match: *", "if-none-match: *", "if-unmodified-since: x"] {
            let body = serde_json::from_str(body).ok();
            let (status, reply) = server.send(method, &path, body, &[condition]).await;
            assert!(status == 400 && reply.to_string().contains("is not supported"), "{method} {path}: {reply}");
        }
    }
}

#[tokio::test]
async fn an_administrator_who_cannot_read_learns_no_names() {
    let (_directory, [place, _]) = places();
    let expire = |options: &mut memory_tool_server::ServerOptions| {
        options.memory.expire_after = Some(Duration::from_secs(2));
    };
    let server = Server::start_with(&place, expire).await;
    let [creator, admin] = server
        .with_tokens([(Grant::All, &Right::ALL[..], true, None), (Grant::All, &[Right::Admin], false, None)])
        .await;
    let create = async |name: &str| {
        let call = json!({"command": "create", "path": format!("/memories/{name}"), "file_text": "x"});
        assert_eq!(server.send("POST", "/v1/memory_stores/alice/tool", Some(call), &[&creator]).await.0, 200);
    };
    create("hidden-name").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    create("another-name").await;
    let browser = Browser::sign_in(&server, &admin).await;
    for action in ["verify", "expire"] {
        let page = browser.submit("/memory/alice/limits", &[("action", action)]).await;
        assert!(page.status == 200 && !page.text.contains("-name"), "{action}: {}", page.text);
        assert!(action == "verify" || page.text.contains("Removed 1 expired"), "{}", page.text);
    }
    let tokens = browser.get("/tokens").await;
    assert!(tokens.status == 200 && !tokens.text.contains("alice"), "{}", tokens.text);
}

/// The file with this name in a directory, or below it.
fn find(directory: &Path, name: &str) -> Option<PathBuf> {
    let paths = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    paths.into_iter().find_map(|path| match path.file_name().is_some_and(|own| own == name) {
        true => Some(path),
        false if path.is_dir() => find(&path, name),
        false => None,
    })
}

/// Every front reports the same failure of the storage with the same status, and the log has its cause with the id of
/// the request.
#[tokio::test]
async fn each_failure_of_the_storage_has_its_status_and_its_cause_in_the_log() {
    let parts = ["/records/memory-stores/store", "/records/history/head"];
    for (part, cause) in
        parts.into_iter().zip(["reading the record of the memory failed", "reading the history failed"])
    {
        let (directory, [place, _]) = places();
        let log = Log::of_this_thread();
        let server = Server::start(&place).await;
        let memory = crate::page::memory(&place).await;
        memory.write("/memories/a", "text").await.unwrap();
        let header = server.with_token(Grant::Name("alice".parse().unwrap()), &Right::ALL, false).await;
        let browser = Browser::sign_in(&server, &header).await;
        let form = browser.form().await;
        if part.contains("store") {
            let batch = memory_tool::store::Batch::new().write(part.parse::<StorePath>().unwrap(), "damaged");
            memory.store().apply(batch).await.unwrap();
        } else {
            std::fs::write(find(directory.path(), "head").unwrap(), "damaged").unwrap();
        }
        let create = json!({"command": "create", "path": "/memories/b", "file_text": "x"});
        let post = format!("form={form}&name=b&text=x");
        for (method, path, body) in [
            ("GET", "/v1/memory_stores/alice/memories", String::new()),
            ("GET", "/v1/memory_stores/alice/memory_versions", String::new()),
            ("POST", "/v1/memory_stores/alice/memories", json!({"path": "/b", "content": "x"}).to_string()),
            ("POST", "/v1/memory_stores/alice/tool", create.to_string()),
            ("GET", "/memory/alice/log", String::new()),
            ("POST", "/memory/alice/new", post),
        ] {
            let who = if path.starts_with("/v1") { header.clone() } else { format!("cookie: {}", browser.cookie) };
            let head =
                format!("{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{who}\r\n", server.address);
            let more = "content-type: application/x-www-form-urlencoded\r\n";
            let reply = server.raw(format!("{head}{more}content-length: {}\r\n\r\n{body}", body.len())).await;
            let is_result = path.ends_with("/tool") && part.contains("history");
            let status = if is_result { 200 } else { 500 };
            assert!(reply.starts_with(&format!("HTTP/1.1 {status} ")), "{part} {path}: {reply}");
            assert!(!reply.contains(cause), "{part} {path}: {reply}");
            let id = reply.split("request-id: ").nth(1).unwrap().split('\r').next().unwrap();
            let lines = log.lines(id);
            assert!(lines.iter().any(|line| line.contains(cause)), "{part} {path}: {lines:?}");
        }
    }
}
