//! Sessions, and texts that people typed in one that has ended.

use std::time::Duration;

use memory_tool_server::{Grant, Right};
use memory_tool_test_fixtures::Tier;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::page::{Browser, field, memory};
use crate::server::{Server, places};

const TYPED: &str = "twenty minutes of \"work\" & <b>\r\nmore";
const SHOWN: &str = "twenty minutes of &#34;work&#34; &#38; &#60;b&#62;\nmore";

/// Whether a page has these lines, with any line breaks.
fn has(page: &str, text: &str) -> bool {
    page.replace("\r\n", "\n").contains(text)
}

/// The fields of a form that a page has in hidden inputs, as a browser sends them.
fn hidden(page: &str) -> Vec<(String, String)> {
    let plain =
        |text: &str| text.replace("&#34;", "\"").replace("&#60;", "<").replace("&#62;", ">").replace("&#38;", "&");
    let inputs = page.split("<input type=\"hidden\" name=\"").skip(1);
    let field = |input: &str| {
        let (name, rest) = input.split_once("\" value=\"").unwrap();
        (name.to_owned(), plain(rest.split('"').next().unwrap()))
    };
    inputs.map(field).collect()
}

fn borrowed(fields: &[(String, String)]) -> Vec<(&str, &str)> {
    fields.iter().map(|(name, value)| (&**name, &**value)).collect()
}

#[tokio::test]
async fn sessions_survive_a_restart_and_end_with_a_sign_out() {
    let (_directory, [place, _]) = places();
    let memory = memory(&place).await;
    memory.write("/memories/a", "old").await.unwrap();
    let mut server = Server::start(&place).await;
    let browser = Browser::sign_in(&server, &server.token).await;
    let edit = browser.show("/memory/alice/edit?path=/memories/a").await;
    let (cookie, form, base) = (browser.cookie.clone(), field(&edit, "form"), field(&edit, "base"));
    server.restart(&place).await;
    let mut browser = Browser::new(&server);
    browser.cookie.clone_from(&cookie);
    let fields = [("form", &*form), ("path", "/memories/a"), ("base", &base), ("text", TYPED)];
    assert_eq!(browser.post("/memory/alice/edit", &fields).await.status, 303);
    assert_eq!(memory.read_to_string("/memories/a").await.unwrap(), TYPED.replace("\r\n", "\n"));
    assert_eq!(browser.submit("/sign-out", &[]).await.status, 303);
    server.restart(&place).await;
    let mut browser = Browser::new(&server);
    browser.cookie = cookie;
    assert_eq!(browser.get("/").await.headers["location"], "/sign-in");
}

/// Two servers with one file of tokens, as behind a balancer.
#[tokio::test]
async fn a_sign_out_holds_at_each_server_also_after_an_old_file_is_restored() {
    let (_directory, [place, _]) = places();
    let one = Server::start(&place).await;
    let tokens = one.token_file();
    let beside = |options: &mut memory_tool_server::ServerOptions| options.tokens.clone_from(&tokens);
    let other = Server::start_with(&place, beside).await;
    // Browsers send one cookie to all servers behind a name. Here, its name has a port.
    let is_signed_in = async |server: &Server, session: &str| {
        let mut browser = Browser::new(server);
        browser.cookie = format!("memory-tool-{}={session}", server.address.rsplit(':').next().unwrap());
        browser.get("/").await.status == 200
    };
    let within_a_second = async |server: &Server, session: &str, expected: bool| {
        for _ in 0..20 {
            if is_signed_in(server, session).await == expected {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        false
    };
    let session = |browser: &Browser<'_>| browser.cookie.split_once('=').unwrap().1.to_owned();
    let first = Browser::sign_in(&one, &one.token).await;
    let (ended, kept) = (session(&first), session(&Browser::sign_in(&one, &one.token).await));
    assert!(within_a_second(&other, &ended, true).await && within_a_second(&other, &kept, true).await);
    let file = one.token_file().with_extension("sessions");
    let backup = std::fs::read(&file).unwrap();
    assert_eq!(first.submit("/sign-out", &[]).await.status, 303);
    let later = session(&Browser::sign_in(&one, &one.token).await);
    assert!(within_a_second(&other, &ended, false).await && within_a_second(&other, &later, true).await);
    std::fs::write(&file, &backup).unwrap();
    // The running server corrects the file, also for a server that starts now.
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    let new = Server::start_with(&place, beside).await;
    for server in [&other, &new] {
        for (session, expected) in [(&ended, false), (&kept, true), (&later, true)] {
            assert_eq!(is_signed_in(server, session).await, expected);
        }
    }
}

/// The session ended, and the person signs in again in the same step.
#[tokio::test]
async fn a_text_survives_the_end_of_its_session() {
    let (_directory, [place, _]) = places();
    let memory = memory(&place).await;
    memory.write("/memories/a", "old").await.unwrap();
    let server = Server::start(&place).await;
    for (path, fields, shown) in [
        ("/memory/alice/edit", vec![("path", "/memories/a"), ("before", "old"), ("text", TYPED)], SHOWN),
        ("/memory/alice/new", vec![("directory", "d"), ("name", "b"), ("text", TYPED)], SHOWN),
        ("/memory/alice/rename", vec![("path", "/memories/a"), ("directory", "d"), ("name", "c\"c")], "c&#34;c"),
        ("/tokens", vec![("actor", "maria"), ("memory", "alice"), ("days", "7"), ("read", "on")], "maria"),
    ] {
        let browser = Browser::sign_in(&server, &server.token).await;
        let mut fields = fields;
        let (form, base) = (browser.form().await, browser.show("/memory/alice/edit?path=/memories/a").await);
        let base = field(&base, "base");
        fields.extend([("form", &*form), ("base", &base)]);
        browser.submit("/sign-out", &[]).await;
        // The cookie is unknown now, or the browser has dropped it.
        for cookie in [browser.cookie.clone(), String::new()] {
            let mut browser = Browser::new(&server);
            browser.cookie = cookie;
            let late = browser.post(path, &fields).await;
            assert!(late.status == 403 && late.text.contains("You were signed out"), "{path}: {}", late.text);
            let mut kept = hidden(&late.text);
            assert!(kept.iter().all(|(name, _)| name != "form"), "{kept:?}");
            // A mistyped token loses nothing either.
            let wrong = browser.post(path, &[&borrowed(&kept)[..], &[("token", "memtok_0")]].concat()).await;
            assert!(wrong.status == 403 && wrong.text.contains("not valid"), "{path}: {}", wrong.text);
            kept = hidden(&wrong.text);
            let again = browser.post(path, &[&borrowed(&kept)[..], &[("token", &server.token)]].concat()).await;
            assert!(has(&again.text, shown) && again.text.contains("it is not saved yet"), "{path}: {}", again.text);
            browser.cookie = again.headers["set-cookie"].split(';').next().unwrap().to_owned();
            if path.ends_with("edit") {
                assert_eq!(memory.read_to_string("/memories/a").await.unwrap(), "old");
                let mut fields = hidden(&again.text[again.text.find("<main").unwrap()..]);
                fields.push(("text".to_owned(), TYPED.to_owned()));
                assert_eq!(browser.post(path, &borrowed(&fields)).await.status, 303);
                assert_eq!(memory.read_to_string("/memories/a").await.unwrap(), TYPED.replace("\r\n", "\n"));
                memory.write("/memories/a", "old").await.unwrap();
            }
        }
    }
    // Other forms are not kept, and other sites cannot sign anyone in.
    let mut browser = Browser::new(&server);
    let delete = browser.post("/memory/alice/delete", &[("path", "/memories/a"), ("token", &server.token)]).await;
    assert_eq!(delete.headers["location"], "/sign-in?ended=unsaved");
    browser.origin = "http://evil.example".to_owned();
    let other = [("path", "/memories/a"), ("text", "x"), ("token", &server.token)];
    assert_eq!(browser.post("/memory/alice/edit", &other).await.status, 403);
    assert_eq!(memory.read_to_string("/memories/a").await.unwrap(), "old");
    let large = "x".repeat(9 * 1024 * 1024);
    let late = Browser::new(&server).post("/memory/alice/edit", &[("text", &large)]).await;
    assert_eq!(late.headers["location"], "/sign-in?ended=unsaved");
}

/// Another tab signed out and in again, so that the form has the secret of the old session.
#[tokio::test]
async fn a_text_survives_a_new_session_in_another_tab() {
    let (_directory, [place, _]) = places();
    let memory = memory(&place).await;
    memory.write("/memories/a", "old").await.unwrap();
    let server = Server::start(&place).await;
    let form = Browser::sign_in(&server, &server.token).await.form().await;
    let browser = Browser::sign_in(&server, &server.token).await;
    for (path, name) in [("edit", ("path", "/memories/a")), ("new", ("name", "b"))] {
        let fields = [name, ("form", &form), ("text", TYPED)];
        let page = browser.post(&format!("/memory/alice/{path}"), &fields).await;
        assert!(has(&page.text, SHOWN) && page.text.contains("it is not saved yet"), "{path}: {}", page.text);
    }
    assert_eq!(memory.list("/memories").await.unwrap().len(), 1);
}

/// A refusal of a form, and the state of the server that leads to it.
#[derive(Clone, Copy, Debug)]
enum Cause {
    NoPlaceOfToken,
    NoPlace,
    LockedStorage,
    DamagedStorage,
    NoSpace,
    Archived,
    NoRight,
    Revoked,
    Deleted,
    WrongAddress,
    /// These do not arrive.
    Slow,
    TooLong,
    TooLongInParts,
    OtherOrigin,
}

/// A form of a person, in pieces of HTTP.
struct Sent {
    head: String,
    body: String,
}

impl Sent {
    fn new(browser: &Browser<'_>, server: &Server, path: &str, fields: &[(&str, &str)]) -> Self {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let (address, cookie, origin) = (&server.address, &browser.cookie, &browser.origin);
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\norigin: {origin}\r\ncookie: {cookie}\r\n\
             content-type: application/x-www-form-urlencoded\r\nconnection: close\r\n"
        );
        Self { head, body }
    }

    async fn post(&self, server: &Server, cause: Cause) -> String {
        let Self { head, body } = self;
        let length = body.len();
        let request = match cause {
            Cause::Slow => format!("{head}content-length: {}\r\n\r\n{body}", length + 1),
            Cause::TooLong => format!("{head}content-length: {}\r\n\r\n{body}", 20 * 1024 * 1024),
            Cause::TooLongInParts => {
                let part = "x".repeat(64 * 1024);
                let parts = format!("{:x}\r\n{part}\r\n", part.len()).repeat(300);
                format!("{head}transfer-encoding: chunked\r\n\r\n{length:x}\r\n{body}\r\n{parts}0\r\n\r\n")
            }
            _ => format!("{head}content-length: {length}\r\n\r\n{body}"),
        };
        server.raw(request).await
    }
}

/// The page of each refusal has the text, and can send it again, or leads back to the form.
#[tokio::test(flavor = "multi_thread")]
async fn a_text_survives_each_refusal_of_its_form() {
    let refusals = [
        (Cause::NoPlaceOfToken, 429, true),
        (Cause::NoPlace, 503, true),
        (Cause::LockedStorage, 503, true), // it waits for 30 seconds
        (Cause::DamagedStorage, 500, true),
        (Cause::NoSpace, 409, true),
        (Cause::Archived, 400, true),
        (Cause::NoRight, 403, true),
        (Cause::Revoked, 403, true),
        (Cause::Deleted, 404, true),
        (Cause::WrongAddress, 404, true),
        (Cause::Slow, 408, false),
        (Cause::TooLong, 413, false),
        (Cause::TooLongInParts, 413, false),
        (Cause::OtherOrigin, 403, false),
    ];
    let is_run = |cause: Cause| Tier::current() >= Tier::Full || !matches!(cause, Cause::LockedStorage);
    let refused = refusals.into_iter().filter(|(cause, ..)| is_run(*cause));
    futures::future::join_all(refused.map(|(cause, status, has_form)| refuse(cause, status, has_form))).await;
}

/// Requests that wait for the rest of their bodies, and so keep their places.
async fn waiting(server: &Server, token: &str, number: usize) -> Vec<TcpStream> {
    let mut waiting = Vec::new();
    for _ in 0..number {
        let mut stream = TcpStream::connect(&server.address).await.unwrap();
        let head = format!("POST /v1/memory_stores/alice/tool HTTP/1.1\r\nhost: localhost\r\n{token}\r\n");
        stream.write_all(format!("{head}content-length: 2\r\n\r\n").as_bytes()).await.unwrap();
        waiting.push(stream);
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    waiting
}

async fn refuse(cause: Cause, status: u16, has_form: bool) {
    let (directory, [disk, database]) = places();
    let place = if matches!(cause, Cause::LockedStorage) { database } else { disk };
    let memory = memory(&place).await;
    memory.write("/memories/a", "old").await.unwrap();
    let server = Server::start_with(&place, |options| {
        (options.limits.requests_of_token, options.memory.max_bytes) = (2, Some(100));
        options.limits.requests = if matches!(cause, Cause::NoPlace) { 0 } else { 256 };
        options.limits.body_time = Duration::from_millis(if matches!(cause, Cause::Slow) { 700 } else { 60_000 });
    })
    .await;
    let header = server.with_token(Grant::Name("alice".parse().unwrap()), &Right::ALL, false).await;
    let mut browser = Browser::sign_in(&server, &header).await;
    // With no place for any request, the page cannot be opened either.
    let (form, base) = if matches!(cause, Cause::NoPlace) {
        ("of the page".to_owned(), "of the page".to_owned())
    } else {
        let edit = browser.show("/memory/alice/edit?path=/memories/a").await;
        (field(&edit, "form"), field(&edit, "base"))
    };
    let mut held = Vec::new();
    let mut path = "/memory/alice/edit";
    let mut lock = None;
    match cause {
        Cause::NoPlaceOfToken => held = waiting(&server, &header, 2).await,
        Cause::LockedStorage => {
            let connection = rusqlite::Connection::open(directory.path().join("memory.db")).unwrap();
            connection.execute_batch("BEGIN EXCLUSIVE").unwrap();
            lock = Some(connection);
        }
        Cause::DamagedStorage => {
            let record = "/records/memory-stores/store".parse::<memory_tool::store::StorePath>().unwrap();
            let batch = memory_tool::store::Batch::new().write(record, "damaged");
            memory.store().apply(batch).await.unwrap();
        }
        Cause::NoSpace => memory.write("/memories/large", "x".repeat(95)).await.unwrap(),
        Cause::Archived => _ = server.post("/v1/memory_stores/alice/archive", json!({})).await,
        Cause::NoRight => {
            let reader = server.with_token(Grant::Name("alice".parse().unwrap()), &[Right::Read], false).await;
            browser = Browser::sign_in(&server, &reader).await;
        }
        Cause::Revoked => server.revoke(&header).await,
        Cause::Deleted => _ = server.send("DELETE", "/v1/memory_stores/alice", None, &[]).await,
        Cause::WrongAddress => path = "/memory/other/edit",
        Cause::OtherOrigin => browser.origin = "http://evil.example".to_owned(),
        Cause::NoPlace | Cause::Slow | Cause::TooLong | Cause::TooLongInParts => {}
    }
    let fields = [("form", &*form), ("path", "/memories/a"), ("base", &base), ("before", "old"), ("text", TYPED)];
    let sent = Sent::new(&browser, &server, path, &fields);
    let refused = sent.post(&server, cause).await;
    assert!(refused.starts_with(&format!("HTTP/1.1 {status} ")), "{cause:?}: {refused}");
    assert_eq!(has(&refused, SHOWN), has_form, "{cause:?}: {refused}");
    if !has_form {
        let is_explained = refused.contains("The form did not arrive, so nothing was saved.");
        assert!(is_explained || matches!(cause, Cause::OtherOrigin), "{cause:?}: {refused}");
        return;
    }
    drop((held, lock));
    // The same fields can be sent again.
    let mut again = hidden(&refused[refused.find("<main").unwrap()..]);
    assert!(again.iter().any(|(name, value)| name == "base" && *value == base), "{cause:?}: {again:?}");
    again.push(("text".to_owned(), TYPED.to_owned()));
    if matches!(cause, Cause::NoPlaceOfToken | Cause::LockedStorage) {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let saved = browser.post(path, &borrowed(&again)).await;
        assert_eq!(saved.status, 303, "{cause:?}: {}", saved.text);
        assert_eq!(memory.read_to_string("/memories/a").await.unwrap(), TYPED.replace("\r\n", "\n"));
    } else if !matches!(cause, Cause::Deleted) {
        assert_eq!(memory.read_to_string("/memories/a").await.unwrap(), "old");
    }
}

#[tokio::test]
async fn servers_of_one_host_have_their_own_cookies() {
    let (_directory, [place, _]) = places();
    let (one, other) = (Server::start(&place).await, Server::start(&place).await);
    let [mut first, second] = [Browser::sign_in(&one, &one.token).await, Browser::sign_in(&other, &other.token).await];
    let port = one.address.rsplit(':').next().unwrap();
    assert!(first.cookie.starts_with(&format!("memory-tool-{port}=")), "{}", first.cookie);
    let own = first.cookie.clone();
    first.cookie = format!("{own}; {}", second.cookie);
    first.show("/").await;
    // A page of another port set it for a part of the addresses.
    first.cookie = format!("{own}; memory-tool-{port}=attacker");
    assert_eq!(first.get("/").await.status, 303);
    // With TLS, the browser accepts it only from this host.
    let body = format!("token={}", one.token);
    let tls = "x-forwarded-proto: https\r\n";
    let signed_in = first.send("POST", "/sign-in", tls, &body).await;
    let cookie = &signed_in.headers["set-cookie"];
    assert!(cookie.starts_with(&format!("__Host-memory-tool-{port}=")), "{cookie}");
    assert!(cookie.ends_with("; Secure") && cookie.contains("Path=/;") && !cookie.contains("Domain"), "{cookie}");
    first.cookie = cookie.split(';').next().unwrap().to_owned();
    assert_eq!(first.send("GET", "/", tls, "").await.status, 200);
    assert_eq!(first.get("/").await.status, 303);
}

/// nginx accepts 4 KiB of headers.
#[tokio::test]
async fn redirections_are_short() {
    let (_directory, [place, _]) = places();
    let memory = memory(&place).await;
    let longest = format!("/memories{}/{}", format!("/{}", "\u{5d0}".repeat(120)).repeat(4), "\u{5d0}".repeat(25));
    memory.write(longest.as_str(), "x").await.unwrap();
    let server = Server::start(&place).await;
    let browser = Browser::sign_in(&server, &server.token).await;
    let asked: String = form_urlencoded::byte_serialize(longest.as_bytes()).collect();
    let size = |headers: &std::collections::HashMap<String, String>| {
        headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum::<usize>()
    };
    let signed_out = Browser::new(&server).get(&format!("/memory/alice?path={asked}")).await;
    assert_eq!(signed_out.headers["location"], "/sign-in?next=/memory/alice");
    let base = field(&browser.show(&format!("/memory/alice/edit?path={asked}")).await, "base");
    let saved = browser.submit("/memory/alice/edit", &[("path", &longest), ("base", &base), ("text", "y")]).await;
    assert_eq!((saved.status, size(&saved.headers) < 4_000), (303, true), "{:?}", saved.headers);
    assert!(browser.show(&saved.headers["location"]).await.contains("Saved."));
}
