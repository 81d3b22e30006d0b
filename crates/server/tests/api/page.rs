//! The page by plain HTTP. The tests in `downloads` use a browser.

use std::collections::HashMap;

use memory_tool::Memory;
use memory_tool_server::{Grant, Right};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::server::{Server, places};

/// A response: its status, headers and text.
struct Page {
    status: u16,
    headers: HashMap<String, String>,
    text: String,
}

/// A browser without a style sheet: it keeps the cookie, and sends forms with the origin of the page.
struct Browser<'a> {
    server: &'a Server,
    cookie: String,
    origin: String,
}

fn encode(fields: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
}

impl<'a> Browser<'a> {
    fn new(server: &'a Server) -> Self {
        Self { server, cookie: String::new(), origin: format!("http://{}", server.address) }
    }

    /// Signs in with the token in a header.
    async fn sign_in(server: &'a Server, header: &str) -> Self {
        let mut browser = Self::new(server);
        let token = header.trim_start_matches("x-api-key: ");
        let page = browser.post("/sign-in", &[("token", token)]).await;
        assert_eq!((page.status, page.headers["location"].as_str()), (303, "/"), "{}", page.text);
        let cookie = &page.headers["set-cookie"];
        for attribute in ["HttpOnly", "SameSite=Strict", "Max-Age=43200", "Path=/"] {
            assert!(cookie.contains(attribute), "{cookie}");
        }
        assert!(!cookie.contains(token), "{cookie}");
        browser.cookie = cookie.split(';').next().unwrap().to_owned();
        browser
    }

    async fn send(&self, method: &str, path: &str, more: &str, body: &str) -> Page {
        let (address, cookie) = (&self.server.address, &self.cookie);
        let head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\ncookie: {cookie}\r\nconnection: close\r\n");
        let request = format!("{head}{more}content-length: {}\r\n\r\n{body}", body.len());
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = Vec::new();
        stream.read_to_end(&mut response).await.unwrap();
        let response = String::from_utf8_lossy(&response).into_owned();
        let (head, text) = response.split_once("\r\n\r\n").unwrap();
        let headers = head.lines().skip(1).filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Page { status: head.split(' ').nth(1).unwrap().parse().unwrap(), headers, text: text.to_owned() }
    }

    async fn get(&self, path: &str) -> Page {
        self.send("GET", path, "", "").await
    }

    async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        let origin = &self.origin;
        let more = format!("origin: {origin}\r\ncontent-type: application/x-www-form-urlencoded\r\n");
        self.send("POST", path, &more, &encode(fields)).await
    }

    /// The text of a page that exists.
    async fn show(&self, path: &str) -> String {
        let page = self.get(path).await;
        assert_eq!(page.status, 200, "{path}: {}", page.text);
        page.text
    }

    /// The secret of the forms of this session.
    async fn form(&self) -> String {
        field(&self.show("/").await, "form")
    }

    /// Sends a form of this session.
    async fn submit(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        let form = self.form().await;
        self.post(path, &[fields, &[("form", form.as_str())]].concat()).await
    }
}

/// The value of a hidden field.
fn field(text: &str, name: &str) -> String {
    let start = format!("name=\"{name}\" value=\"");
    text.split_once(&start).unwrap_or_else(|| panic!("{name}: {text}")).1.split('"').next().unwrap().to_owned()
}

async fn memory(place: &str) -> Memory {
    let url = if place.starts_with("sqlite:") { format!("{place}?memory=alice") } else { format!("{place}/alice") };
    Memory::builder(url).history().build().await.unwrap()
}

#[tokio::test]
async fn a_person_corrects_a_file_and_takes_it_back() {
    let (_directory, places) = places();
    for place in places {
        let memory = memory(&place).await;
        memory.write("/memories/notes/a.md", "# Tea\r\nGreen.\r\n").await.unwrap();
        let server = Server::start(&place).await;
        let browser = Browser::sign_in(&server, &server.token).await;
        assert!(browser.show("/").await.contains("<bdi>alice</bdi>"));
        assert!(browser.show("/memory/alice").await.contains("<bdi>notes/</bdi>"));
        assert!(browser.show("/memory/alice?path=/memories/notes/a.md").await.contains("<h1>Tea</h1>"));
        let source = browser.show("/memory/alice?path=/memories/notes/a.md&view=source").await;
        assert!(source.contains("id=\"L2\"") && source.contains("Green."), "{source}");
        let found = browser.show("/memory/alice/search?q=green").await;
        assert!(found.contains("<mark>Green</mark>") && found.contains("from=0#L2"), "{found}");

        let base = field(&browser.show("/memory/alice/edit?path=/memories/notes/a.md").await, "base");
        let path = ("path", "/memories/notes/a.md");
        let saved = [path, ("base", base.as_str()), ("text", "# Tea\r\nBlack.\r\n")];
        assert_eq!(browser.submit("/memory/alice/edit", &saved).await.status, 303);
        assert_eq!(memory.read_to_string("/memories/notes/a.md").await.unwrap(), "# Tea\r\nBlack.\r\n");
        // The form is old now. The page has both texts, and a new form.
        let conflict = browser.submit("/memory/alice/edit", &[path, saved[1], ("text", "White & <b>")]).await;
        assert_eq!(conflict.status, 409);
        for text in ["Black.", "White &#38; &#60;b&#62;</textarea>"] {
            assert!(conflict.text.contains(text), "{}", conflict.text);
        }
        assert_eq!(memory.read_to_string("/memories/notes/a.md").await.unwrap(), "# Tea\r\nBlack.\r\n");
        let base = field(&conflict.text, "base");
        let again = [path, ("base", base.as_str()), ("text", "White")];
        assert_eq!(browser.submit("/memory/alice/edit", &again).await.status, 303);

        let new = [("path", "/memories/b.txt"), ("text", "\nfirst\n")];
        assert_eq!(browser.submit("/memory/alice/new", &new).await.status, 303);
        let taken = browser.submit("/memory/alice/new", &[new[0], ("text", "lost?")]).await;
        assert!(taken.status == 409 && taken.text.contains("lost?</textarea>"), "{}", taken.text);
        let outside = browser.submit("/memory/alice/new", &[("path", "/etc/passwd"), ("text", "x")]).await;
        assert!(outside.status == 409 && outside.text.contains("must start with /memories"), "{}", outside.text);
        let edit = browser.show("/memory/alice/edit?path=/memories/b.txt").await;
        assert!(edit.contains("dir=\"auto\">\n\nfirst\n</textarea>"), "{edit}");
        let renamed = [("path", "/memories/b.txt"), ("to", "/memories/notes/c.txt")];
        assert_eq!(browser.submit("/memory/alice/rename", &renamed).await.status, 303);
        assert_eq!(memory.read_to_string("/memories/notes/c.txt").await.unwrap(), "\nfirst\n");

        let deleted = browser.submit("/memory/alice/delete", &[("path", "/memories/notes")]).await;
        assert_eq!(memory.list("/memories").await.unwrap(), []);
        let change = deleted.headers["location"].split('?').next().unwrap().to_owned();
        let shown = browser.show(&deleted.headers["location"]).await;
        assert!(shown.contains("Deleted.") && shown.contains("by <bdi class=\"actor\">key</bdi>"), "{shown}");
        let number = change.rsplit('/').next().unwrap();
        assert_eq!(browser.submit("/memory/alice/undo", &[("entry", number)]).await.status, 303);
        assert_eq!(memory.list("/memories").await.unwrap().len(), 2);
        let first = [("path", "/memories/notes/a.md"), ("entry", "1")];
        assert_eq!(browser.submit("/memory/alice/restore", &first).await.status, 303);
        assert_eq!(memory.read_to_string("/memories/notes/a.md").await.unwrap(), "# Tea\r\nGreen.\r\n");
        assert!(browser.show("/memory/alice/redact?entry=2").await.contains("cannot be taken back"));
        assert_eq!(browser.submit("/memory/alice/redact", &[("entry", "2")]).await.status, 303);
        let log = browser.show("/memory/alice/log").await;
        for what in ["took back", "restored the state after #1", "redacted #2"] {
            assert!(log.contains(what), "{what}: {log}");
        }
        assert!(browser.show("/memory/alice/change/2").await.contains("are not known"));
        for action in ["verify", "expire"] {
            let page = browser.submit("/memory/alice/operate", &[("action", action)]).await;
            assert!(page.status == 200 && page.text.contains("class=\"done\""), "{}", page.text);
        }
    }
}

#[tokio::test]
async fn names_can_have_any_letter() {
    let (_directory, [_, place]) = places();
    let url = place.parse::<memory_tool::StoreUrl>().unwrap().child("Zo\u{eb}/4 2% & \u{5d0}?").unwrap();
    let memory = Memory::builder(url.to_string()).history().build().await.unwrap();
    memory.write("/memories/\u{e4} b.txt", "x").await.unwrap();
    let server = Server::start(&place).await;
    let browser = Browser::sign_in(&server, &server.token).await;
    let home = browser.show("/").await;
    let link = home.split("href=\"/memory/").nth(1).unwrap().split('"').next().unwrap();
    let page = |page: &str| format!("/memory/{link}{page}");
    assert!(browser.show(&page("")).await.contains("\u{e4} b.txt"));
    let (path, to) = (("path", "/memories/\u{e4} b.txt"), ("to", "/memories/\u{5d0} c.txt"));
    let renamed = browser.submit(&page("/rename"), &[path, to]).await;
    assert!(browser.show(&renamed.headers["location"]).await.contains("\u{5d0} c.txt"));
    let deleted = browser.submit(&page("/delete"), &[("path", to.1)]).await;
    assert!(browser.show(&deleted.headers["location"]).await.contains("Deleted."));
}

#[tokio::test]
async fn tokens_are_created_and_revoked() {
    let (_directory, [place, _]) = places();
    memory(&place).await.write("/memories/a", "x").await.unwrap();
    let server = Server::start(&place).await;
    let operator = Browser::sign_in(&server, &server.token).await;
    let fields = [("actor", "support"), ("memory", "alice"), ("days", "7"), ("read", "on")];
    let created = operator.submit("/tokens", &fields).await.text;
    let token = created.split("<code>").nth(1).unwrap().split('<').next().unwrap().to_owned();
    let id = created.rsplit("name=\"id\" value=\"").next().unwrap().split('"').next().unwrap().to_owned();
    let reader = loop {
        if Browser::new(&server).post("/sign-in", &[("token", &token)]).await.status == 303 {
            break Browser::sign_in(&server, &token).await;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    assert!(!reader.show("/memory/alice").await.contains("New file"));
    assert_eq!(reader.get("/tokens").await.status, 403);
    assert!(!operator.show("/tokens").await.contains(&token));
    assert_eq!(operator.submit("/tokens/revoke", &[("id", &id)]).await.status, 303);
    // The session ends with its token.
    while reader.get("/memory/alice").await.status == 200 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(reader.get("/memory/alice").await.headers["location"], "/sign-in");
    for wrong in [[("actor", "a\nb"), ("days", "7")], [("actor", "a"), ("days", "0")], [("actor", "a"), ("days", "x")]]
    {
        let refused = operator.submit("/tokens", &[&wrong[..], &[("read", "on")]].concat()).await;
        assert!(refused.text.contains("role=\"alert\"") && !refused.text.contains("memtok_"), "{}", refused.text);
    }
}

#[tokio::test]
async fn an_operator_gives_no_right_that_he_lacks_and_a_tenant_checks_no_whole_storage() {
    let (_directory, [place, _]) = places();
    memory(&place).await.write("/memories/a", "x").await.unwrap();
    let server = Server::start(&place).await;
    let limited = server.with_token(Grant::All, &[Right::Admin, Right::Read], false).await;
    let operator = Browser::sign_in(&server, &limited).await;
    let fields = [("actor", "a"), ("days", "7"), ("read", "on")];
    let refused = operator.submit("/tokens", &[&fields[..], &[("write", "on")]].concat()).await;
    assert!(refused.text.contains("rights that you have") && !refused.text.contains("memtok_"), "{}", refused.text);
    assert!(operator.submit("/tokens", &fields).await.text.contains("memtok_"));
    let tenant = server.with_token(Grant::Name("alice".parse().unwrap()), &Right::ALL, false).await;
    let tenant = Browser::sign_in(&server, &tenant).await;
    for (action, status) in [("verify", 403), ("expire", 200)] {
        assert_eq!(tenant.submit("/memory/alice/operate", &[("action", action)]).await.status, status, "{action}");
    }
}

const PAGES: [&str; 12] = [
    "/memory/alice",
    "/memory/alice/raw?path=/memories/a",
    "/memory/alice/live",
    "/memory/alice/search?q=x",
    "/memory/alice/new",
    "/memory/alice/edit?path=/memories/a",
    "/memory/alice/rename?path=/memories/a",
    "/memory/alice/delete?path=/memories/a",
    "/memory/alice/log",
    "/memory/alice/change/1",
    "/memory/alice/redact?entry=1",
    "/memory/alice/operate",
];

const FORMS: [(&str, &[(&str, &str)]); 8] = [
    ("/memory/alice/new", &[("path", "/memories/b"), ("text", "x")]),
    ("/memory/alice/edit", &[("path", "/memories/b"), ("text", "x"), ("base", "")]),
    ("/memory/alice/rename", &[("path", "/memories/a"), ("to", "/memories/c")]),
    ("/memory/alice/delete", &[("path", "/memories/a")]),
    ("/memory/alice/undo", &[("entry", "1")]),
    ("/memory/alice/restore", &[("path", "/memories/a"), ("entry", "1")]),
    ("/memory/alice/redact", &[("entry", "1")]),
    ("/memory/alice/operate", &[("action", "expire")]),
];

#[tokio::test]
async fn each_page_and_form_asks_for_its_right() {
    let (_directory, [place, _]) = places();
    memory(&place).await.write("/memories/a", "the secret").await.unwrap();
    let server = Server::start(&place).await;
    let stranger = server.with_token(Grant::Name("bob".parse().unwrap()), &Right::ALL, true).await;
    let reader = server.with_token(Grant::All, &[Right::Read], false).await;
    let writer = server.with_token(Grant::All, &[Right::Tool, Right::Write], false).await;
    let nobody = Browser::new(&server);
    let [stranger, reader, writer] = [
        Browser::sign_in(&server, &stranger).await,
        Browser::sign_in(&server, &reader).await,
        Browser::sign_in(&server, &writer).await,
    ];
    for page in PAGES {
        assert_eq!(nobody.get(page).await.headers["location"], "/sign-in", "{page}");
        let refused = stranger.get(page).await;
        assert!(refused.status == 404 && !refused.text.contains("secret"), "{page}: {}", refused.text);
        let is_of_reader = ["", "/raw", "/search", "/log", "/change"].iter().any(|of_reader| {
            let rest = page.strip_prefix("/memory/alice").unwrap();
            if of_reader.is_empty() { rest.is_empty() } else { rest.starts_with(of_reader) }
        });
        if !page.ends_with("/live") {
            assert_eq!(reader.get(page).await.status, if is_of_reader { 200 } else { 403 }, "{page}");
        }
        if is_of_reader {
            assert_eq!(writer.get(page).await.status, 403, "{page}");
        }
    }
    for (path, fields) in FORMS {
        assert_eq!(nobody.post(path, fields).await.headers["location"], "/sign-in", "{path}");
        assert_eq!(stranger.submit(path, fields).await.status, 404, "{path}");
        assert_eq!(reader.submit(path, fields).await.status, 403, "{path}");
    }
    for (path, fields) in [("/tokens", &[][..]), ("/tokens/revoke", &[("id", "x")])] {
        assert_eq!(writer.submit(path, fields).await.status, 403, "{path}");
    }
    assert_eq!(reader.get("/memory/bob").await.status, 404);
}

#[tokio::test]
async fn forms_of_other_sites_and_sessions_change_nothing() {
    let (_directory, [place, _]) = places();
    let memory = memory(&place).await;
    memory.write("/memories/a", "kept").await.unwrap();
    let server = Server::start(&place).await;
    let mut browser = Browser::sign_in(&server, &server.token).await;
    let other = Browser::sign_in(&server, &server.token).await.form().await;
    let form = browser.form().await;
    for (path, fields) in FORMS.into_iter().chain([("/tokens", &[("actor", "x")][..]), ("/sign-out", &[])]) {
        for wrong in [&other[..], "", &form[1..]] {
            let refused = browser.post(path, &[fields, &[("form", wrong)]].concat()).await;
            assert!(refused.status == 400 && refused.text.contains("the form is too old"), "{path}: {}", refused.text);
        }
        assert_eq!(browser.post(path, fields).await.status, 400, "{path}");
    }
    for origin in ["null", "http://evil.example", "https://localhost"] {
        let own = std::mem::replace(&mut browser.origin, origin.to_owned());
        for (path, fields) in FORMS {
            let refused = browser.post(path, &[fields, &[("form", form.as_str())]].concat()).await;
            assert_eq!(refused.status, 403, "{origin} {path}");
        }
        browser.origin = own;
    }
    assert_eq!(memory.read_to_string("/memories/a").await.unwrap(), "kept");
    // The API does not accept the cookie, and the page does not accept a token in a header.
    assert_eq!(browser.get("/v1/memory_stores").await.status, 401);
    let key = format!("x-api-key: {}\r\n", server.token);
    assert_eq!(Browser::new(&server).send("GET", "/", &key, "").await.headers["location"], "/sign-in");
    // Cookies that are signed out or invented are refused.
    assert_eq!(browser.submit("/sign-out", &[]).await.status, 303);
    assert_eq!(browser.get("/").await.headers["location"], "/sign-in");
    browser.cookie = "memory-tool=".to_owned() + &"0".repeat(64);
    assert_eq!(browser.get("/").await.headers["location"], "/sign-in");
    let refused = Browser::new(&server).post("/sign-in", &[("token", "memtok_wrong")]).await;
    assert!(refused.status == 403 && !refused.headers.contains_key("set-cookie"), "{}", refused.text);
}

#[tokio::test]
async fn every_page_is_protected() {
    let (_directory, [place, _]) = places();
    memory(&place).await.write("/memories/a", "text").await.unwrap();
    let server = Server::start(&place).await;
    let browser = Browser::sign_in(&server, &server.token).await;
    for path in
        ["/", "/sign-in", "/style.css", "/live.js", "/memory/alice", "/memory/no", "/tokens", "/memory/alice/log"]
    {
        let page = browser.get(path).await;
        let policy = &page.headers["content-security-policy"];
        for part in ["default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"] {
            assert!(policy.contains(part) && !policy.contains("unsafe"), "{path}: {policy}");
        }
        assert_eq!((&*page.headers["x-content-type-options"], &*page.headers["x-frame-options"]), ("nosniff", "DENY"));
        for inline in ["<style", "style=", "onclick", "<script>", "javascript:"] {
            assert!(!page.text.contains(inline), "{path}: {inline}");
        }
    }
    for wrong in ["/memory/alice?from=x", "/memory/alice/change/x", "/memory/%ff", "/memory/alice/log?before=-1"] {
        let page = browser.get(wrong).await;
        assert!(page.status == 400 && page.text.contains("not valid"), "{wrong}: {}", page.text);
    }
    let raw = browser.get("/memory/alice/raw?path=/memories/a").await;
    assert_eq!(raw.headers["content-type"], "text/plain; charset=utf-8");
    assert!(raw.headers["content-security-policy"].contains("sandbox"), "{:?}", raw.headers);
}

/// Texts that try to become markup, a style, a script, a request or another page.
pub(crate) const ATTACKS: [&str; 64] = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<svg><animate onbegin=alert(1) attributeName=x>",
    "<math><mi xlink:href=\"javascript:alert(1)\">",
    "<iframe src=\"javascript:alert(1)\">",
    "<iframe srcdoc=\"<script>alert(1)</script>\">",
    "<object data=\"data:text/html,x\">",
    "<embed src=\"//evil.example\">",
    "<link rel=stylesheet href=//evil.example>",
    "<style>*{display:none}</style>",
    "<style>@import '//evil.example'</style>",
    "<meta http-equiv=refresh content=\"0;url=//evil.example\">",
    "<base href=//evil.example>",
    "<form action=//evil.example><button>Sign in",
    "<input autofocus onfocus=alert(1)>",
    "<textarea></textarea><script>alert(1)</script>",
    "</textarea><script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "</pre><script>alert(1)</script>",
    "--><script>alert(1)</script><!--",
    "<!--<script>alert(1)</script>",
    "<![CDATA[<script>alert(1)</script>]]>",
    "<?xml version=\"1.0\"?><x/>",
    "\"><script>alert(1)</script>",
    "'><script>alert(1)</script>",
    "\" onmouseover=\"alert(1)",
    "' onmouseover='alert(1)",
    "` onmouseover=`alert(1)",
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    "java\tscript:alert(1)",
    "vbscript:msgbox(1)",
    "data:text/html;base64,PHNjcmlwdD4=",
    "[a](javascript:alert(1))",
    "[a](JAVASCRIPT:alert(1))",
    "[a](javascript&colon;alert(1))",
    "[a](&#106;avascript:alert(1))",
    "[a](data:text/html,<script>alert(1)</script>)",
    "[a](vbscript:x)",
    "[a](file:///etc/passwd)",
    "[a](//evil.example)",
    "[a](https://e.example \"\\\" onmouseover=alert(1)\")",
    "[a](https://e.example/\"onmouseover=alert(1))",
    "![a](https://evil.example/pixel.png)",
    "![a](javascript:alert(1))",
    "[![a](https://evil.example/p.png)](https://evil.example)",
    "<https://e.example/\"onmouseover=alert(1)>",
    "<javascript:alert(1)>",
    "[a]: javascript:alert(1)\n\n[a]",
    "```\"onmouseover=\"alert(1)\nx\n```",
    "| a |\n|---|\n| <img src=x onerror=alert(1)> |",
    "{{ frame.form }}",
    "{% include \"head.html\" %}",
    "${7*7}",
    "#{7*7}",
    "<%= 7*7 %>",
    "a\r\nset-cookie: x=1\r\n\r\n<script>alert(1)</script>",
    "%0d%0aset-cookie:x=1",
    "\u{202e}<script>alert(1)</script>",
    "\u{feff}<script>alert(1)</script>",
    "\u{2028}<script>alert(1)</script>\u{0}",
];

/// The tags of a page must be those of a page with plain text, apart from what Markdown makes of it.
fn is_harmless(text: &str) -> Result<(), String> {
    let known = [
        "a",
        "article",
        "bdi",
        "blockquote",
        "body",
        "br",
        "button",
        "code",
        "div",
        "em",
        "fieldset",
        "form",
        "h1",
        "h2",
        "head",
        "header",
        "html",
        "input",
        "label",
        "legend",
        "li",
        "link",
        "main",
        "mark",
        "meta",
        "nav",
        "ol",
        "p",
        "pre",
        "script",
        "small",
        "span",
        "strong",
        "table",
        "tbody",
        "td",
        "textarea",
        "th",
        "thead",
        "time",
        "title",
        "tr",
        "ul",
        "hr",
        "del",
        "!doctype",
    ];
    for (at, _) in text.match_indices('<') {
        let tag = text[at + 1..].split('>').next().unwrap();
        let name = tag.trim_start_matches('/').split([' ', '\n']).next().unwrap().to_lowercase();
        if !known.contains(&name.as_str()) {
            return Err(format!("<{tag}>"));
        }
        let is_own_script = tag == "script src=\"/live.js\" defer" || tag == "/script";
        let acts = tag.split('"').step_by(2).any(|outside| outside.to_lowercase().contains(" on"));
        if (name == "script" && !is_own_script) || acts || tag.to_lowercase().contains("href=\"javascript") {
            return Err(format!("<{tag}>"));
        }
        if name == "img" || (name == "meta" && tag.contains("refresh")) || tag.contains("src=\"http") {
            return Err(format!("<{tag}>"));
        }
        let link = tag.split("href=\"").nth(1).map(|link| link.split('"').next().unwrap());
        let is_followed =
            |link: &str| ["/", "#", "https://", "http://", "mailto:"].iter().any(|own| link.starts_with(own));
        if link.is_some_and(|link| !is_followed(link) || link.starts_with("//")) {
            return Err(format!("<{tag}>"));
        }
    }
    Ok(())
}

#[tokio::test]
async fn attack_texts_stay_text() {
    let (_directory, [place, _]) = places();
    let memory = memory(&place).await;
    let mut names = Vec::new();
    for (number, attack) in ATTACKS.iter().enumerate() {
        memory.write(&format!("/memories/{number}.md"), *attack).await.unwrap();
        memory.write(&format!("/memories/{number}.txt"), *attack).await.unwrap();
        // Not every text is a legal name.
        let name = format!("/memories/{}", attack.replace('/', ":"));
        if memory.write(name.as_str(), "x").await.is_ok() {
            names.push(name);
        }
    }
    assert!(names.len() > 40, "{}", names.len());
    let server = Server::start(&place).await;
    let browser = Browser::sign_in(&server, &server.token).await;
    let check = async |path: String| {
        let page = browser.get(&path).await;
        assert!(page.status < 500 && !page.headers.contains_key("set-cookie"), "{path}: {}", page.text);
        is_harmless(&page.text).unwrap_or_else(|tag| panic!("{path}: {tag}\n{}", page.text));
        page.text
    };
    for (number, attack) in ATTACKS.iter().enumerate() {
        for file in [format!("{number}.md"), format!("{number}.md&view=source"), format!("{number}.txt")] {
            check(format!("/memory/alice?path=/memories/{file}")).await;
        }
        let edit = check(format!("/memory/alice/edit?path=/memories/{number}.txt")).await;
        assert!(!edit.contains("<script>"), "{edit}");
        let query = encode(&[("q", attack)]);
        for page in ["search?", "search?regex=on&", "log?path=x&", "edit?path=x&", "new?x=y&"] {
            check(format!("/memory/alice/{page}{query}")).await;
        }
        let path = encode(&[("path", attack)]);
        for page in ["?", "/edit?", "/log?", "/new?", "/delete?"] {
            check(format!("/memory/alice{page}{path}")).await;
        }
    }
    for name in names {
        let path = encode(&[("path", &name)]);
        for page in ["?", "/edit?", "/rename?", "/delete?", "/log?"] {
            check(format!("/memory/alice{page}{path}")).await;
        }
    }
    check("/memory/alice".to_owned()).await;
    check("/memory/alice/log".to_owned()).await;
}
