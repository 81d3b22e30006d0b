//! Tokens of an identity provider.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use memory_tool_server::ServerOptions;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

use crate::client::{Client, PATIENCE, Place, Running, call, create, initialize, start, start_with, text, view};

const PUBLIC_URL: &str = "https://memory.example";

/// A key of the provider.
enum Key {
    Elliptic(EcdsaKeyPair),
    Edwards(Ed25519KeyPair),
}

impl Key {
    fn elliptic() -> Self {
        let (random, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Self::Elliptic(EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).unwrap())
    }

    fn edwards() -> Self {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::Edwards(Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap())
    }

    fn algorithm(&self) -> &str {
        if matches!(self, Self::Elliptic(_)) { "ES256" } else { "EdDSA" }
    }

    fn public(&self, id: &str) -> Value {
        match self {
            Self::Elliptic(key) => {
                let (x, y) = key.public_key().as_ref()[1..].split_at(32);
                json!({"kty": "EC", "crv": "P-256", "kid": id, "x": encoded(x), "y": encoded(y)})
            }
            Self::Edwards(key) => {
                json!({"kty": "OKP", "crv": "Ed25519", "kid": id, "x": encoded(key.public_key().as_ref())})
            }
        }
    }

    /// A token with these claims, whose header has the id and the algorithm.
    fn sign(&self, id: &str, algorithm: &str, claims: &Value) -> String {
        let mut header = json!({"typ": "at+jwt", "alg": algorithm});
        if !id.is_empty() {
            header["kid"] = id.into();
        }
        let header = header.to_string();
        let message = format!("{}.{}", encoded(header.as_bytes()), encoded(claims.to_string().as_bytes()));
        let signature = match self {
            Self::Elliptic(key) => key.sign(&SystemRandom::new(), message.as_bytes()).unwrap().as_ref().to_vec(),
            Self::Edwards(key) => key.sign(message.as_bytes()).as_ref().to_vec(),
        };
        format!("{message}.{}", encoded(&signature))
    }
}

fn encoded(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// An identity provider, with documents that a test can change.
struct Provider {
    url: String,
    documents: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Provider {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let documents = Arc::<Mutex<Vec<(String, Value)>>>::default();
        let served = Arc::clone(&documents);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut line = String::new();
                BufReader::new(&stream).read_line(&mut line).unwrap();
                let path = line.split(' ').nth(1).unwrap_or_default();
                let found =
                    served.lock().unwrap().iter().find(|(known, _)| known == path).map(|(_, it)| it.to_string());
                let (status, body) = found.map_or(("404 Not Found", String::new()), |body| ("200 OK", body));
                let length = body.len();
                let _ =
                    write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
            }
        });
        let provider = Self { url, documents };
        let keys = format!("{}/keys", provider.url);
        let metadata = json!({"issuer": provider.url, "jwks_uri": keys});
        provider.serve("/.well-known/oauth-authorization-server", metadata);
        provider
    }

    fn serve(&self, path: &str, document: Value) {
        let mut documents = self.documents.lock().unwrap();
        documents.retain(|(known, _)| known != path);
        documents.push((path.to_owned(), document));
    }

    /// The claims of a token of a person for the server.
    fn claims(&self, person: &str) -> Value {
        let audience = format!("{PUBLIC_URL}/mcp");
        json!({"iss": self.url, "aud": audience, "sub": person, "name": person, "exp": seconds() + 300})
    }

    /// The settings of a server that accepts tokens of this provider.
    fn settings(&self, options: &mut ServerOptions) {
        let text = format!(
            "store = 'in-process:'\ntokens = 'x'\npublic_url = '{PUBLIC_URL}'\n[issuer]\nurl = '{}'\nactor = 'name'\n\
             [[issuer.access]]\nclaim = 'groups'\nvalue = 'staff'\nmemory = 'staff'\nrights = ['tool']\n\
             [[issuer.access]]\nclaim = 'scope'\nvalue = 'memory'\nmemory = 'users/{{sub}}'\n\
             rights = ['tool', 'read']\ncreate = true\n",
            self.url
        );
        let given = ServerOptions::from_toml(&text).unwrap();
        (options.public_url, options.issuer) = (given.public_url, given.issuer);
    }

    fn server(&self, place: &Place) -> Running {
        start_with(place, &place.database(), |options| self.settings(options))
    }
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn with(mut claims: Value, name: &str, value: impl Into<Value>) -> Value {
    claims[name] = value.into();
    claims
}

fn status(client: &Client) -> u16 {
    client.post(&[], &initialize()).status
}

/// Sends requests until the server has read the keys again, which it does seldom.
fn until_accepted(client: &Client) {
    let start = Instant::now();
    while status(client) != 200 {
        assert!(start.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn a_client_without_a_token_is_led_to_the_provider() {
    let (place, provider) = (Place::new(), Provider::start());
    let server = provider.server(&place);
    let client = server.client("memtok_wrong");
    let refused = client.post(&[], &initialize());
    let document = format!("{PUBLIC_URL}/.well-known/oauth-protected-resource/mcp");
    assert_eq!(
        (refused.status, refused.header("www-authenticate")),
        (401, Some(&*format!("Bearer resource_metadata=\"{document}\"")))
    );
    let other = client.send_to("/v1/memory_stores", "GET", &[], b"");
    assert_eq!((other.status, other.header("www-authenticate")), (401, Some("Bearer")));
    for path in ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"] {
        let found = client.send_to(path, "GET", &[("host", "memory.example")], b"");
        assert_eq!(found.status, 200, "{found:?}");
        let expected = json!({
            "resource": format!("{PUBLIC_URL}/mcp"),
            "authorization_servers": [provider.url],
            "bearer_methods_supported": ["header"],
            "resource_name": "memory-tool",
        });
        assert_eq!(found.message(), expected);
    }
    // Without a provider, there is nothing to find.
    let plain = start(&place, &place.database()).client("memtok_wrong");
    assert_eq!(plain.post(&[], &initialize()).header("www-authenticate"), Some("Bearer"));
    assert_ne!(plain.send_to("/.well-known/oauth-protected-resource/mcp", "GET", &[], b"").status, 200);
}

#[test]
fn a_token_reaches_the_memory_of_its_claims() {
    let (place, provider) = (Place::new(), Provider::start());
    let (one, other) = (Key::elliptic(), Key::edwards());
    // Keys of an unknown kind, and for encryption with a secret, are left out.
    let strange = json!({"kty": "new", "kid": "strange"});
    provider.serve("/keys", json!({"keys": [strange, one.public("one"), other.public("other")]}));
    let server = provider.server(&place);
    let claims = |person| with(provider.claims(person), "scope", "openid memory");
    let alice = server.client(&one.sign("one", "ES256", &claims("alice")));
    let bob = server.client(&other.sign("other", "EdDSA", &claims("bob")));
    for (client, name) in [(&alice, "alice"), (&bob, "bob")] {
        let session = client.session();
        client.ask(&session, &call(1, create(&format!("/memories/{name}.md"), name)));
        let reply = client.ask(&session, &view(2));
        let (listed, others) = (text(&reply), if name == "alice" { "bob.md" } else { "alice.md" });
        assert!(listed.contains(&format!("{name}.md")) && !listed.contains(others), "{listed}");
    }
    // A token may lack the id of its key.
    assert_eq!(status(&server.client(&other.sign("", "EdDSA", &claims("bob")))), 200);
    // The session stays over a new token of the same person, and is not of another.
    let session = alice.session();
    let renewed = server.client(&one.sign("one", "ES256", &with(claims("alice"), "exp", seconds() + 900)));
    assert!(text(&renewed.ask(&session, &view(3))).contains("alice.md"));
    assert_eq!(bob.post(&[("mcp-session-id", &session)], &view(3)).status, 404);
    // Another client of this person has separate sessions.
    let other = server.client(&one.sign("one", "ES256", &with(claims("alice"), "client_id", "other")));
    assert_eq!(other.post(&[("mcp-session-id", &session)], &view(3)).status, 404);
    // The history names the person.
    let history = json!({"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "memory_history"}});
    assert!(text(&alice.ask(&session, &history)).contains("create by alice"));
    // The first rule counts. It does not create the memory.
    let staff = with(claims("alice"), "groups", json!(["staff"]));
    assert_eq!(status(&server.client(&one.sign("one", "ES256", &staff))), 404);
    // Only MCP accepts such a token.
    let elsewhere = alice.send_to("/v1/memory_stores", "GET", &[], b"");
    assert_eq!(elsewhere.status, 401);
}

#[test]
fn each_wrong_token_is_refused() {
    let (place, provider) = (Place::new(), Provider::start());
    let (known, unknown) = (Key::elliptic(), Key::elliptic());
    provider.serve("/keys", json!({"keys": [known.public("one")]}));
    let server = provider.server(&place);
    let claims = with(provider.claims("alice"), "scope", "memory");
    let signed = |claims: &Value| known.sign("one", "ES256", claims);
    assert_eq!(status(&server.client(&signed(&claims))), 200);
    let without = |name: &str| {
        // Staff needs no name for its memory.
        let mut claims = with(claims.clone(), "groups", json!(["staff"]));
        claims.as_object_mut().unwrap().remove(name);
        signed(&claims)
    };
    let unsigned = format!("{}.{}.", encoded(br#"{"alg":"none"}"#), encoded(claims.to_string().as_bytes()));
    let cut = signed(&claims);
    for (wrong, token) in [
        ("ended", signed(&with(claims.clone(), "exp", seconds() - 120))),
        ("not begun", signed(&with(claims.clone(), "nbf", seconds() + 120))),
        ("for another server", signed(&with(claims.clone(), "aud", "https://other.example/mcp"))),
        ("for a part of the name", signed(&with(claims.clone(), "aud", format!("{PUBLIC_URL}/mcp/x")))),
        ("of another issuer", signed(&with(claims.clone(), "iss", "https://other.example"))),
        ("of an issuer with a slash", signed(&with(claims.clone(), "iss", format!("{}/", provider.url)))),
        ("without an end", without("exp")),
        ("without an audience", without("aud")),
        ("without an issuer", without("iss")),
        ("without a person", without("sub")),
        ("without an actor", without("name")),
        ("without the scope", signed(&with(claims.clone(), "scope", "openid"))),
        ("for the memory of another", signed(&with(claims.clone(), "sub", "x/alice"))),
        ("by an unknown key", unknown.sign("two", "ES256", &claims)),
        ("by a key with a known id", unknown.sign("one", "ES256", &claims)),
        ("by another algorithm", known.sign("one", "EdDSA", &claims)),
        ("with a public key as the secret", known.sign("one", "HS256", &claims)),
        ("unsigned", unsigned),
        ("cut", cut[..cut.len() - 4].to_owned()),
        ("too long", signed(&with(claims.clone(), "x", "x".repeat(16 * 1024)))),
        ("no token", "a.b.c".to_owned()),
    ] {
        let refused = server.client(&token).post(&[], &initialize());
        assert_eq!(refused.status, 401, "{wrong}: {refused:?}");
        assert!(refused.header("www-authenticate").unwrap().contains("resource_metadata"), "{wrong}");
        assert!(!refused.body.contains("alice"), "{wrong}: {}", refused.body);
    }
}

#[test]
fn a_person_of_the_provider_is_a_member_of_a_group_as_long_as_it_is_named() {
    let (place, provider, key) = (Place::new(), Provider::start(), Key::edwards());
    provider.serve("/keys", json!({"keys": [key.public("one")]}));
    let configuration = place.path("server.toml");
    let settings = |members: &str| {
        let text = format!("store = 'in-process:'\ntokens = 'x'\n[groups.team]\nread = [{members}]\n");
        std::fs::write(&configuration, text).unwrap();
    };
    settings("'alice'");
    let server = start_with(&place, &place.database(), |options| {
        provider.settings(options);
        options.configuration = Some(configuration.clone());
    });
    let owner = server.client(&place.agent("team").1);
    crate::until_admitted(|| owner.post(&[], &initialize()));
    owner.ask(&owner.session(), &call(1, create("/memories/shared.md", "")));
    let claims = with(provider.claims("alice"), "scope", "memory");
    let alice = server.client(&key.sign("one", "EdDSA", &claims));
    let session = alice.session();
    alice.ask(&session, &call(1, create("/memories/own.md", "")));
    let sees = || text(&alice.ask(&session, &view(2))).contains("/memories/team/shared.md");
    let start = Instant::now();
    while !sees() {
        assert!(start.elapsed() < PATIENCE);
    }
    settings("");
    while sees() {
        assert!(start.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_stream_ends_with_its_token() {
    let (place, provider, key) = (Place::new(), Provider::start(), Key::elliptic());
    provider.serve("/keys", json!({"keys": [key.public("one")]}));
    let server = provider.server(&place);
    let claims = with(provider.claims("alice"), "scope", "memory");
    // A minute is allowed for clocks that differ, but not to streams.
    let client = server.client(&key.sign("one", "ES256", &with(claims, "exp", seconds() + 3)));
    let session = client.session();
    let mut stream = client.stream(&session);
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn keys_are_read_again_when_one_is_unknown() {
    let (place, provider) = (Place::new(), Provider::start());
    // Metadata of another issuer leads nowhere.
    let metadata = json!({"issuer": "https://other.example", "jwks_uri": format!("{}/keys", provider.url)});
    provider.serve("/.well-known/openid-configuration", metadata);
    let key = Key::edwards();
    provider.serve("/keys", json!({"keys": [key.public("one")]}));
    let server = provider.server(&place);
    let claims = with(provider.claims("alice"), "scope", "memory");
    let client = server.client(&key.sign("one", key.algorithm(), &claims));
    let refused = client.post(&[], &initialize());
    assert_eq!(refused.status, 503, "{refused:?}");
    // The metadata of RFC 8414 counts, if the other address has a page for people.
    provider.serve("/.well-known/openid-configuration", json!("a page"));
    // A provider that starts later is found by the first request.
    assert_eq!(status(&client), 200);
    let new = Key::elliptic();
    provider.serve("/keys", json!({"keys": [new.public("two")]}));
    let renewed = server.client(&new.sign("two", new.algorithm(), &claims));
    until_accepted(&renewed);
    // The provider withdrew the first one.
    assert_eq!(status(&client), 401);
}
