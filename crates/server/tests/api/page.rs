//! The page by plain HTTP. The tests in `downloads` use a browser.

use std::collections::HashMap;

use memory_tool::{Actor, Memory};
use memory_tool_server::{Grant, Right};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::proposals::session;
use crate::server::{Server, places};

/// A response: its status, headers and text.
pub(crate) struct Page {
    pub(crate) status: u16,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) text: String,
}

/// A browser without a style sheet: it keeps the cookie, and sends forms with the origin of the page.
pub(crate) struct Browser<'a> {
    server: &'a Server,
    pub(crate) cookie: String,
    pub(crate) origin: String,
}

fn encode(fields: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
}

impl<'a> Browser<'a> {
    pub(crate) fn new(server: &'a Server) -> Self {
        Self { server, cookie: String::new(), origin: format!("http://{}", server.address) }
    }

    /// Signs in with the token in a header.
    pub(crate) async fn sign_in(server: &'a Server, header: &str) -> Self {
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

    pub(crate) async fn send(&self, method: &str, path: &str, more: &str, body: &str) -> Page {
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

    /// The headers and the bytes of a response in chunks or of a known length.
    pub(crate) async fn bytes(&self, path: &str) -> (String, Vec<u8>) {
        let request =
            format!("GET {path} HTTP/1.0\r\nhost: {}\r\ncookie: {}\r\n\r\n", self.server.address, self.cookie);
        let mut stream = TcpStream::connect(&self.server.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = Vec::new();
        stream.read_to_end(&mut response).await.unwrap();
        let end = response.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
        let body = response.split_off(end);
        (String::from_utf8(response).unwrap(), body)
    }

    pub(crate) async fn get(&self, path: &str) -> Page {
        self.send("GET", path, "", "").await
    }

    pub(crate) async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        let origin = &self.origin;
        let more = format!("origin: {origin}\r\ncontent-type: application/x-www-form-urlencoded\r\n");
        self.send("POST", path, &more, &encode(fields)).await
    }

    /// The text of a page that exists.
    pub(crate) async fn show(&self, path: &str) -> String {
        let page = self.get(path).await;
        assert_eq!(page.status, 200, "{path}: {}", page.text);
        page.text
    }

    /// The secret of the forms of this session.
    pub(crate) async fn form(&self) -> String {
        field(&self.show("/").await, "form")
    }

    /// Sends a form of this session.
    pub(crate) async fn submit(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        let form = self.form().await;
        self.post(path, &[fields, &[("form", form.as_str())]].concat()).await
    }
}

/// The value of a field.
pub(crate) fn field(text: &str, name: &str) -> String {
    let start = format!("name=\"{name}\" value=\"");
    text.split_once(&start).unwrap_or_else(|| panic!("{name}: {text}")).1.split('"').next().unwrap().to_owned()
}

pub(crate) async fn memory(place: &str) -> Memory {
    memory_named(place, "alice").await
}

pub(crate) async fn memory_named(place: &str, name: &str) -> Memory {
    let url = if place.starts_with("sqlite:") { format!("{place}?memory={name}") } else { format!("{place}/{name}") };
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
        assert!(browser.show("/memory/alice?path=/memories/notes/a.md").await.contains("<h2>Tea</h2>"));
        let source = browser.show("/memory/alice?path=/memories/notes/a.md&view=source").await;
        assert!(source.contains("id=\"L2\"") && source.contains("Green."), "{source}");
        let found = browser.show("/memory/alice/search?q=green").await;
        assert!(found.contains("<mark>Green</mark>") && found.contains("from=0#L2"), "{found}");

        let base = field(&browser.show("/memory/alice/edit?path=/memories/notes/a.md").await, "base");
        let path = ("path", "/memories/notes/a.md");
        let before = ("before", "# Tea\r\nGreen.\r\n");
        let saved = [path, ("base", base.as_str()), before, ("text", "# Tea\r\nBlack.\r\n")];
        assert_eq!(browser.submit("/memory/alice/edit", &saved).await.status, 303);
        assert_eq!(memory.read_to_string("/memories/notes/a.md").await.unwrap(), "# Tea\r\nBlack.\r\n");
        // The form is old now. The page has what both changed, and a new form.
        let fields = [path, saved[1], before, ("text", "# Tea\r\nWhite & <b>\r\n")];
        let conflict = browser.submit("/memory/alice/edit", &fields).await;
        assert_eq!(conflict.status, 409);
        for text in ["The last change is by <bdi>key</bdi>", "White &#38; &#60;b&#62;\r\n</textarea>"] {
            assert!(conflict.text.contains(text), "{text}: {}", conflict.text);
        }
        let (theirs, rest) = conflict.text.split_once("What you changed").unwrap();
        let mine = rest.split("Your text").next().unwrap();
        for (changed, by_them, by_me) in [("Green", true, true), ("Black", true, false), ("White", false, true)] {
            assert_eq!((theirs.contains(changed), mine.contains(changed)), (by_them, by_me), "{changed}");
        }
        assert_eq!(memory.read_to_string("/memories/notes/a.md").await.unwrap(), "# Tea\r\nBlack.\r\n");
        let base = field(&conflict.text, "base");
        let again = [path, ("base", base.as_str()), ("text", "White")];
        assert_eq!(browser.submit("/memory/alice/edit", &again).await.status, 303);
        // Changes of different lines are both in the new form.
        memory.write("/memories/lines", "1\n2\n3\nfour\n").await.unwrap();
        let fields =
            [("path", "/memories/lines"), ("base", "old"), ("before", "1\n2\n3\n4\n"), ("text", "one\n2\n3\n4\n")];
        let merged = browser.submit("/memory/alice/edit", &fields).await;
        assert!(merged.status == 409 && merged.text.contains("one\n2\n3\nfour\n</textarea>"), "{}", merged.text);
        memory.remove("/memories/lines").await.unwrap();
        let newest = memory.history().unwrap().newest().await.unwrap();
        let same = browser.submit("/memory/alice/edit", &again).await;
        assert!(browser.show(&same.headers["location"]).await.contains("There was nothing to save"));
        assert_eq!(memory.history().unwrap().newest().await.unwrap(), newest);

        let new = [("name", "b.txt"), ("text", "\nfirst\n")];
        assert_eq!(browser.submit("/memory/alice/new", &new).await.status, 303);
        let taken = browser.submit("/memory/alice/new", &[new[0], ("text", "lost?")]).await;
        assert!(taken.status == 409 && taken.text.contains("lost?</textarea>"), "{}", taken.text);
        for (directory, name, problem) in [
            ("/etc", "passwd", "must start with /memories"),
            ("../../etc", "passwd", "would escape"),
            ("notes", "", "a name"),
        ] {
            let fields = [("directory", directory), ("name", name), ("text", "kept")];
            let refused = browser.submit("/memory/alice/new", &fields).await;
            assert!(refused.status == 409 && refused.text.contains(problem), "{name}: {}", refused.text);
            assert!(refused.text.contains("kept</textarea>"), "{name}: {}", refused.text);
            assert_eq!((&*field(&refused.text, "directory"), &*field(&refused.text, "name")), (directory, name));
        }
        let edit = browser.show("/memory/alice/edit?path=/memories/b.txt").await;
        assert!(edit.contains("dir=\"auto\">\n\nfirst\n</textarea>"), "{edit}");
        // A directory can also be called memories.
        for (from, directory, name, to) in [
            ("/memories/b.txt", "", "c.txt", "/memories/c.txt"),
            ("/memories/c.txt", "memories", "c.txt", "/memories/memories/c.txt"),
            ("/memories/memories/c.txt", "/memories/notes/", "d.txt", "/memories/notes/d.txt"),
        ] {
            let form = browser.show(&format!("/memory/alice/rename?path={from}")).await;
            let shown =
                from.strip_prefix("/memories/").unwrap().rsplit_once('/').map_or("", |(directory, _)| directory);
            assert_eq!(field(&form, "directory"), shown);
            let fields = [("path", from), ("directory", directory), ("name", name)];
            assert_eq!(browser.submit("/memory/alice/rename", &fields).await.status, 303);
            assert_eq!(memory.read_to_string(to).await.unwrap(), "\nfirst\n");
        }

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
        assert_eq!(browser.submit("/memory/alice/redact", &[("entry-2", "on")]).await.status, 303);
        let log = browser.show("/memory/alice/log").await;
        for what in ["took back", "restored the state after #1", "erased #2 from the history"] {
            assert!(log.contains(what), "{what}: {log}");
        }
        for action in ["verify", "expire"] {
            let page = browser.submit("/memory/alice/limits", &[("action", action)]).await;
            assert!(page.status == 200 && page.text.contains("class=\"done\""), "{}", page.text);
        }
    }
}

#[tokio::test]
async fn the_check_names_files_and_lines() {
    let (_directory, [place, _]) = places();
    let memory = memory(&place).await;
    let server = Server::start(&place).await;
    let browser = Browser::sign_in(&server, &server.token).await;
    memory.write("/memories/ok.md", "fine").await.unwrap();
    assert!(browser.show("/memory/alice").await.contains("href=\"/memory/alice/lint\""));
    let check = browser.show("/memory/alice/lint").await;
    assert!(check.contains("in 1 file.") && check.contains("Nothing was found."), "{check}");
    let token = format!("ghp_{}", "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1bC2");
    let text = format!("{}[<b>](none.md)\n{token}\n", "x\n".repeat(1_500));
    memory.write("/memories/a.md", text).await.unwrap();
    memory.write("/memories/empty.md", "").await.unwrap();
    let check = browser.show("/memory/alice/lint").await;
    let line = "?path=/memories/a.md&amp;view=source&amp;from=1000#L1501\">Line 1501</a>";
    for found in
        [line, "the link leads to no file: none.md", "GitHub token", "the file is empty", "<small>broken-link</small>"]
    {
        assert!(check.contains(found), "{found}: {check}");
    }
    assert!(!check.contains(&token[..12]) && !check.contains("<b>"), "{check}");
}

#[tokio::test]
async fn a_text_is_found_and_erased_from_files_and_history() {
    let (_directory, [place, _]) = places();
    let memory = memory(&place).await;
    memory.write("/memories/a.md", "call 0170-1 now\n").await.unwrap();
    memory.write("/memories/b.md", "0170-1, 0170-1\n").await.unwrap();
    memory.write("/memories/a.md", "call me\n").await.unwrap();
    let server = Server::start(&place).await;
    let browser = Browser::sign_in(&server, &server.token).await;
    assert!(browser.show("/memory/alice/log").await.contains("href=\"/memory/alice/erase\""));
    assert!(browser.show("/memory/alice/erase").await.contains("Find it"));
    let log = browser.show("/memory/alice/log?text=0170-1").await;
    for number in 1..=3 {
        assert!(log.contains(&format!("/change/{number}\"")), "{number}: {log}");
    }
    let log = browser.show("/memory/alice/log?text=call+me").await;
    assert!(!log.contains("/change/1\"") && !log.contains("/change/2\"") && log.contains("/change/3\""), "{log}");
    assert!(browser.show("/memory/alice/log?text=x").await.contains("There are no changes with this text"));
    assert!(browser.show("/memory/alice/search?q=nothing").await.contains("/log?text=nothing\""));
    let found = browser.show("/memory/alice/search?q=0170-1").await;
    assert!(found.contains("action=\"/memory/alice/erase\""), "{found}");
    for (text, problem) in [("0171", "The text was not found."), ("", "The text is empty.")] {
        let refused = browser.submit("/memory/alice/erase", &[("text", text)]).await.text;
        assert!(refused.contains(problem) && refused.contains("Find it"), "{refused}");
    }
    let asked = browser.submit("/memory/alice/erase", &[("text", "0170-1")]).await.text;
    for part in ["b.md</bdi></a> (2 places)", "of 3 changes", "2 places in 1 file, and 3 changes of the history"] {
        assert!(asked.contains(part), "{part}: {asked}");
    }
    assert_eq!(memory.read_to_string("/memories/b.md").await.unwrap(), "0170-1, 0170-1\n");
    let erased = browser.submit("/memory/alice/erase", &[("text", "0170-1"), ("confirmed", "on")]).await;
    assert!(browser.show(&erased.headers["location"]).await.contains("Erased from the files and the history."));
    assert_eq!(memory.read_to_string("/memories/b.md").await.unwrap(), "[redacted], [redacted]\n");
    for number in 1..=4 {
        let page = browser.show(&format!("/memory/alice/change/{number}")).await;
        assert!(!page.contains("0170-1"), "{page}");
    }
}

#[tokio::test]
async fn a_secret_is_erased_from_all_changes_of_its_file() {
    let (_directory, [place, _]) = places();
    let memory = memory(&place).await;
    memory.write("/memories/keys.md", "token: s3cr3t\n").await.unwrap();
    memory.write("/memories/other.md", "tea\n").await.unwrap();
    memory.write("/memories/keys.md", "token: removed\n").await.unwrap();
    let server = Server::start(&place).await;
    let browser = Browser::sign_in(&server, &server.token).await;
    let form = browser.show("/memory/alice/redact?entry=3").await;
    for (number, is_listed) in [(1, true), (2, false), (3, true)] {
        assert_eq!(form.contains(&format!("name=\"entry-{number}-")), is_listed, "{number}: {form}");
    }
    let erased = browser.submit("/memory/alice/redact", &[("entry-1", "on"), ("entry-3", "on")]).await;
    assert!(browser.show(&erased.headers["location"]).await.contains("Erased from the history."));
    for number in 1..=4 {
        let page = browser.show(&format!("/memory/alice/change/{number}")).await;
        assert!(!page.contains("s3cr3t"), "{page}");
        // Other changes are as before, and nothing can be done with the erased ones.
        let is_whole = number == 2;
        for part in ["tea", "/undo\"", "/redact?entry="] {
            assert_eq!(page.contains(part), is_whole, "{part}: {page}");
        }
    }
    let refused = browser.submit("/memory/alice/redact", &[("entry", "2")]).await;
    assert!(refused.text.contains("Tick at least one change."), "{}", refused.text);
    // A file can be restored over erased changes of others.
    memory.write("/memories/other.md", "coffee\n").await.unwrap();
    let page = browser.show("/memory/alice/change/2").await;
    assert!(page.contains("cannot be taken back") && page.contains("/restore\""), "{page}");
    let restored = browser.submit("/memory/alice/restore", &[("path", "/memories/other.md"), ("entry", "2")]).await;
    assert!(browser.show(&restored.headers["location"]).await.contains("Restored."));
    assert_eq!(memory.read_to_string("/memories/other.md").await.unwrap(), "tea\n");
    let since = browser.show("/memory/alice/log?since=2020-01-01").await;
    assert!(since.contains("other.md") && !since.contains("s3cr3t"), "{since}");
}

#[tokio::test]
async fn a_secret_is_erased_under_all_names_of_its_file() {
    let (_directory, [place, _]) = places();
    let memory = memory(&place).await;
    memory.write("/memories/secret.md", "s3cr3t").await.unwrap();
    memory.rename("/memories/secret.md", "/memories/public.md").await.unwrap();
    for number in 0..60 {
        memory.write("/memories/public.md", format!("{number}\ns3cr3t")).await.unwrap();
    }
    let server = Server::start(&place).await;
    let browser = Browser::sign_in(&server, &server.token).await;
    for number in [1, 2, 30, 62] {
        let form = browser.show(&format!("/memory/alice/redact?entry={number}")).await;
        assert_eq!(form.matches(" checked>").count(), 62, "{number}");
    }
    // Another file with its name hides no change.
    memory.remove("/memories/public.md").await.unwrap();
    memory.write("/memories/other.md", "x").await.unwrap();
    memory.rename("/memories/other.md", "/memories/public.md").await.unwrap();
    let form = browser.show("/memory/alice/redact?entry=1").await;
    assert!(form.contains("name=\"entry-63-"), "{form}");
    // It is offered for a file, and for a change that cannot be taken back any more.
    assert!(
        browser.show("/memory/alice/log?path=/memories/public.md").await.contains("/redact?path=/memories/public.md")
    );
    let change = browser.show("/memory/alice/change/30").await;
    assert!(change.contains("cannot be taken back") && change.contains("/redact?entry=30"), "{change}");
}

/// A directory was deleted and taken back: the history of the other files stays.
#[tokio::test]
async fn the_old_texts_of_one_file_are_erased_and_those_of_its_neighbours_stay() {
    let (_directory, [place, _]) = places();
    let memory = memory(&place).await;
    memory.write("/memories/customers/ada.md", "ada likes mate").await.unwrap();
    memory.write("/memories/customers/bob.md", "bob likes tea").await.unwrap();
    memory.remove("/memories/customers").await.unwrap();
    memory.history().unwrap().undo(1).await.unwrap();
    memory.write("/memories/customers/ada.md", "none").await.unwrap();
    let server = Server::start(&place).await;
    let browser = Browser::sign_in(&server, &server.token).await;
    let address = "/memory/alice/redact?path=/memories/customers/ada.md";
    assert!(browser.show("/memory/alice/log?path=/memories/customers/ada.md").await.contains(&format!("{address}\"")));
    let form = browser.show(address).await;
    assert!(form.contains("Erase the old texts of ada.md") && !form.contains("bob.md"), "{form}");
    let names = form.split("name=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let ticked: Vec<_> = names.filter(|name| name.starts_with("entry-")).collect();
    assert_eq!(ticked.len(), 4, "{form}");
    let path = ("path", "/memories/customers/ada.md");
    let refused = browser.submit("/memory/alice/redact", &[path]).await.text;
    assert!(refused.contains("Tick at least one change.") && refused.contains("ada.md"), "{refused}");
    let fields: Vec<_> = ticked.iter().map(|name| (*name, "on")).chain([path]).collect();
    let erased = browser.submit("/memory/alice/redact", &fields).await;
    assert!(browser.show(&erased.headers["location"]).await.contains("Erased from the history."));
    for number in 1..=6 {
        let page = browser.show(&format!("/memory/alice/change/{number}")).await;
        assert!(!page.contains("ada.md") && !page.contains("ada likes"), "{page}");
        assert_eq!(page.contains("bob likes tea"), matches!(number, 2..=4), "{number}: {page}");
    }
    memory.remove("/memories/customers/bob.md").await.unwrap();
    memory.history().unwrap().restore(&"/memories/customers/bob.md".parse().unwrap(), 2).await.unwrap();
    let asked = browser.show(address).await;
    assert!(asked.contains("nothing to erase here"), "{asked}");
}

#[tokio::test]
async fn all_memories_of_a_visitor_are_searched() {
    let (_directory, [place, _]) = places();
    for name in ["alice", "bob", "carol"] {
        let memory = memory_named(&place, name).await;
        for number in 0..25 {
            let text = if name == "alice" || number == 0 { format!("{name} drinks green tea") } else { "x".to_owned() };
            memory.write(&format!("/memories/{number}.md"), text).await.unwrap();
        }
    }
    let server = Server::start(&place).await;
    let browser = Browser::sign_in(&server, &server.token).await;
    assert!(browser.show("/").await.contains("action=\"/search\""));
    let found = browser.show("/search?q=green+tea").await;
    assert!(found.contains("Search in all memories") && found.contains("Found in 22 files."), "{found}");
    assert!(found.contains("<a href=\"/memory/bob\"><bdi>bob</bdi></a>"), "{found}");
    assert!(found.contains("href=\"/memory/alice/search?q=green%20tea\">5 more in <bdi>alice</bdi>"), "{found}");
    assert!(!found.contains("/erase\""), "{found}");
    let invalid = browser.show("/search?q=(&regex=on").await;
    assert_eq!(invalid.matches("role=\"alert\"").count(), 1, "{invalid}");
    assert!(browser.show("/search").await.contains("Search in all memories"));
    assert!(browser.show("/search?q=green&after=bob").await.contains("Found in 1 file."));
    let of_bob = server.with_token(Grant::Name("bob".parse().unwrap()), &[Right::Read], true).await;
    let found = Browser::sign_in(&server, &of_bob).await.show("/search?q=green").await;
    assert!(found.contains("Found in 1 file.") && !found.contains("alice"), "{found}");
    let writer = server.with_token(Grant::All, &[Right::Tool, Right::Write], false).await;
    let found = Browser::sign_in(&server, &writer).await.show("/search?q=green").await;
    assert!(found.contains("Nothing was found."), "{found}");
    assert!(Browser::new(&server).get("/search?q=green").await.headers["location"].starts_with("/sign-in?next="));
}

#[tokio::test]
async fn forms_keep_texts_as_they_are_or_refuse_them() {
    let (_directory, [place, _]) = places();
    let memory = memory(&place).await;
    let server = Server::start(&place).await;
    memory.write("/memories/mixed", "a\r\nb\nc\n").await.unwrap();
    let browser = Browser::sign_in(&server, &server.token).await;
    let base = field(&browser.show("/memory/alice/edit?path=/memories/mixed").await, "base");
    let unedited = [("path", "/memories/mixed"), ("base", &base), ("text", "a\r\nb\r\nc\r\n")];
    let saved = browser.submit("/memory/alice/edit", &unedited).await;
    assert!(browser.show(&saved.headers["location"]).await.contains("nothing to save"));
    assert_eq!(memory.read_to_string("/memories/mixed").await.unwrap(), "a\r\nb\nc\n");
    for text in ["a\0b", "a\rb"] {
        memory.write("/memories/odd", text).await.unwrap();
        let refused = browser.get("/memory/alice/edit?path=/memories/odd").await;
        assert!(refused.status == 409 && refused.text.contains("a form can keep"), "{}", refused.text);
    }
    // Others make it something that no form can edit, but the text stays.
    memory.remove("/memories/odd").await.unwrap();
    memory.write("/memories/odd/file", "x").await.unwrap();
    let fields = [("path", "/memories/odd"), ("base", &base), ("text", "my text")];
    let kept = browser.submit("/memory/alice/edit", &fields).await;
    assert!(kept.status == 409 && kept.text.contains("my text</textarea>"), "{}", kept.text);
    assert!(kept.text.contains("is a directory"), "{}", kept.text);
    // Browsers send two bytes for each line break, which do not count.
    let many_lines = "a\r\n".repeat(400_000);
    let fields = [("name", "many"), ("directory", ""), ("text", &many_lines)];
    assert_eq!(browser.submit("/memory/alice/new", &fields).await.status, 303);
    let base_of_many = field(&browser.show("/memory/alice/edit?path=/memories/many").await, "base");
    let edited = format!("{many_lines}b");
    let fields = [("path", "/memories/many"), ("base", &base_of_many), ("text", &edited)];
    assert_eq!(browser.submit("/memory/alice/edit", &fields).await.status, 303);
    let large = "x".repeat(1024 * 1024 + 1);
    for (form, path) in [("new", ("name", "large")), ("edit", ("path", "/memories/mixed"))] {
        let fields = [path, ("base", &base), ("text", &large)];
        let refused = browser.submit(&format!("/memory/alice/{form}"), &fields).await;
        assert!(refused.status == 409 && refused.text.contains("too large for this form"), "{form}");
    }
    let root = browser.submit("/memory/alice/delete", &[("path", "/memories")]).await;
    assert_eq!((root.status, memory.list("/memories").await.unwrap().len()), (400, 3));
}

#[tokio::test]
async fn files_can_have_any_time() {
    let (directory, [place, _]) = places();
    memory(&place).await.write("/memories/a", "x").await.unwrap();
    let file = std::fs::File::options().write(true).open(directory.path().join("disk/alice/memories/a")).unwrap();
    let server = Server::start(&place).await;
    let browser = Browser::sign_in(&server, &server.token).await;
    for seconds in [-1_000_000_000_i64, 316_516_896_000] {
        let offset = std::time::Duration::from_secs(seconds.unsigned_abs());
        let begin = std::time::SystemTime::UNIX_EPOCH;
        file.set_modified(if seconds < 0 { begin - offset } else { begin + offset }).unwrap();
        assert!(browser.show("/memory/alice").await.contains("<bdi>a</bdi>"));
        server.get("/v1/memory_stores/alice/memories?view=full").await;
    }
}

#[tokio::test]
async fn visitors_without_a_token_keep_nobody_out() {
    let (_directory, [place, _]) = places();
    let server = Server::start(&place).await;
    let mut waiting = Vec::new();
    for _ in 0..300 {
        let mut stream = TcpStream::connect(&server.address).await.unwrap();
        let head = format!("POST /sign-in HTTP/1.1\r\nhost: {}\r\ncontent-length: 10\r\n\r\n", server.address);
        stream.write_all(head.as_bytes()).await.unwrap();
        waiting.push(stream);
    }
    let browser = Browser::sign_in(&server, &server.token).await;
    for path in ["/", "/sign-in", "/style.css"] {
        browser.show(path).await;
    }
    let large = "x".repeat(9_000);
    assert_eq!(browser.post("/sign-in", &[("token", &large)]).await.status, 413);
}

#[tokio::test]
async fn the_log_shows_all_that_changed_since_a_day() {
    let (_directory, [place, _]) = places();
    let memory = memory(&place).await;
    memory.write("/memories/a.md", "green tea\n").await.unwrap();
    memory.write("/memories/a.md", "black tea\n").await.unwrap();
    let server = Server::start(&place).await;
    let browser = Browser::sign_in(&server, &server.token).await;
    let all = browser.show("/memory/alice/log?since=2020-01-01").await;
    let (log, together) = all.split_once("The result of all changes").unwrap();
    assert!(log.contains("Change #1") && log.contains("Change #2"), "{log}");
    assert!(together.contains("black tea") && !together.contains("green"), "{together}");
    let none = browser.show("/memory/alice/log?since=2100-01-01").await;
    assert!(none.contains("no changes since that day"), "{none}");
    assert_eq!(browser.get("/memory/alice/log?since=yesterday").await.status, 400);
}

/// The texts of the links of a table's rows.
fn rows(page: &str) -> Vec<String> {
    let rows = page.split("<th scope=\"row\"><a ").skip(1);
    rows.map(|row| row.split(['<', '>']).nth(3).unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn files_are_sorted_and_listed_with_those_below() {
    let (_directory, places) = places();
    for place in places {
        let memory = memory(&place).await;
        for (name, length) in [("10.md", 5), ("2.md", 30), ("z/a/large", 2_000), ("B", 1)] {
            memory.write(format!("/memories/{name}").as_str(), "x".repeat(length)).await.unwrap();
        }
        let server = Server::start(&place).await;
        let browser = Browser::sign_in(&server, &server.token).await;
        for (query, shown) in [
            ("", &["z/", "2.md", "10.md", "B"][..]),
            ("?sort=size", &["z/", "2.md", "10.md", "B"]),
            ("?sort=size&all=1", &["z/a/large", "2.md", "10.md", "B"]),
            ("?all=1", &["2.md", "10.md", "B", "z/a/large"]),
            ("?sort=changed", &["B", "z/", "2.md", "10.md"]),
            ("?path=/memories/z&all=1", &["a/large"]),
        ] {
            let page = browser.show(&format!("/memory/alice{query}")).await;
            let mut found = rows(&page);
            if query == "?sort=changed" {
                found.truncate(shown.len()); // files of one moment are in any order
                found.sort();
                assert_eq!(found, ["10.md", "2.md", "B", "z/"], "{place}");
            } else {
                assert_eq!(found, shown, "{place} {query}");
            }
            assert!(page.contains("aria-sort=\""), "{query}");
        }
        assert!(browser.show("/memory/alice").await.contains("4 files, 2 KiB, last change <time"));
        assert_eq!(browser.get("/memory/alice?sort=other").await.status, 400);
    }
}

#[tokio::test]
async fn two_versions_are_compared_and_changes_found_by_their_actor() {
    let (_directory, places) = places();
    for place in places {
        let memory = memory(&place).await;
        for (actor, text) in [("Ada", "one\n"), ("Ben & Co", "one\ntwo\n"), ("Ada", "three\n")] {
            let by = memory.by(Actor::from_trusted_name(actor).unwrap());
            by.write("/memories/a.md", text).await.unwrap();
        }
        let server = Server::start(&place).await;
        let browser = Browser::sign_in(&server, &server.token).await;
        let log = browser.show("/memory/alice/log?path=/memories/a.md").await;
        assert!(log.contains("<option value=\"2\" selected>#2, "), "{log}");
        for (query, lines) in
            [("from=1&to=2", ["", "two"]), ("from=3&to=1", ["one", "three"]), ("from=2&to=2", ["", ""])]
        {
            let page = browser.show(&format!("/memory/alice/compare?path=/memories/a.md&{query}")).await;
            for (class, line) in ["delete", "insert"].into_iter().zip(lines) {
                assert_eq!(page.contains(&format!("<tr class=\"{class}\">")), !line.is_empty(), "{query}: {page}");
            }
            assert!(lines.iter().all(|line| page.contains(line)), "{query}: {page}");
        }
        for query in ["from=1&to=9", "from=x&to=1", "from=1"] {
            let page = browser.get(&format!("/memory/alice/compare?path=/memories/a.md&{query}")).await;
            assert!((400..500).contains(&page.status), "{query} {}", page.status);
        }
        assert!(log.contains("/memory/alice/log?path=/memories/a.md&amp;actor=Ben%20%26%20Co"), "{log}");
        let by_ben = browser.show("/memory/alice/log?actor=Ben%20%26%20Co").await;
        assert!(by_ben.contains("Change #2") && !by_ben.contains("Change #1"), "{by_ben}");
        let file = browser.show("/memory/alice?path=/memories/a.md").await;
        assert!(file.contains("by <bdi>Ada</bdi> (<a href=\"/memory/alice/change/3\">"), "{file}");
        assert!(browser.show("/memory/alice/log?deleted=on").await.contains("There are no deleted files"));
        memory.remove("/memories/a.md").await.unwrap();
        let deleted = browser.show("/memory/alice/log?deleted=on").await;
        assert!(deleted.contains("deleted a.md") && !deleted.contains("changed a.md"), "{deleted}");
    }
}

#[tokio::test]
async fn changes_have_reasons_and_lines_their_writers() {
    let (_directory, places) = places();
    for place in places {
        let memory = memory(&place).await;
        let claude = memory.by(Actor::from_trusted_name("claude").unwrap()).for_command("insert");
        for text in ["one\n", "one\ntwo\n", "one\ntwo\nthree\n"] {
            claude.write("/memories/a.txt", text).await.unwrap();
        }
        let server = Server::start(&place).await;
        let token = server.with_token(Grant::All, &Right::ALL, false).await;
        let browser = Browser::sign_in(&server, &token).await;
        let edit = browser.show("/memory/alice/edit?path=/memories/a.txt").await;
        let base = field(&edit, "base");
        let save = async |base: &str| {
            let (text, reason) = ("1\ntwo\nthree\n", "<asked> by\nphone 0170-1");
            let fields = [("path", "/memories/a.txt"), ("text", text), ("base", base), ("reason", reason)];
            browser.submit("/memory/alice/edit", &fields).await
        };
        let refused = save("another").await;
        assert!(refused.text.contains("value=\"&#60;asked&#62; by"), "{}", refused.text);
        assert_eq!(save(&base).await.status, 303);
        let log = browser.show("/memory/alice/log").await;
        assert!(log.contains("3 changes by <bdi>claude</bdi> in a minute"), "{log}");
        assert!(log.contains("(<bdi>&#60;asked&#62; by phone 0170-1</bdi>)"), "{log}");
        let change = browser.show("/memory/alice/change/4").await;
        assert!(change.contains("Reason: <bdi>&#60;asked&#62; by phone 0170-1</bdi>"), "{change}");
        let by_command = async |command: &str| {
            let log = browser.show(&format!("/memory/alice/log?command={command}")).await;
            (1..=4).filter(|number| log.contains(&format!("Change #{number}<"))).collect::<Vec<_>>()
        };
        assert_eq!((by_command("edit").await, by_command("insert").await), (vec![4], vec![1, 2, 3]));
        let blame = browser.show("/memory/alice?path=/memories/a.txt&view=blame").await;
        let lines: Vec<_> = blame.split("<span class=\"line\"").skip(1).collect();
        for (line, number) in lines.iter().zip([4, 2, 3]) {
            assert!(line.contains(&format!("/change/{number}\">#{number}</a>")), "{line}");
        }
        assert_eq!(lines.len(), 3);
        assert!(!browser.show("/memory/alice?path=/memories/a.txt").await.contains("/change/2"));
        // A reason is erased with its text, and with its change.
        let undo = [("entry", "4"), ("reason", "0170-1 again")];
        let undone = browser.submit("/memory/alice/undo", &undo).await;
        assert!(browser.show(&undone.headers["location"]).await.contains("Reason: <bdi>0170-1 again"));
        memory.history().unwrap().redact_text("phone 0170-1").await.unwrap();
        memory.history().unwrap().redact(&[5]).await.unwrap();
        let log = browser.show("/memory/alice/log").await;
        assert!(!log.contains("0170-1") && log.contains("changed a.txt"), "{log}");
    }
}

#[tokio::test]
async fn a_change_below_others_is_taken_back_in_the_editor() {
    let (_directory, places) = places();
    for place in places {
        let memory = memory(&place).await;
        for text in ["a\nb\nc\n", "A\nb\nc\n", "A\nB\nc\n", "A\nB\nC\n"] {
            memory.write("/memories/a.txt", text).await.unwrap();
        }
        let server = Server::start(&place).await;
        let browser = Browser::sign_in(&server, &server.token).await;
        let change = browser.show("/memory/alice/change/3").await;
        let address = change.split("href=\"/memory/alice/edit?").nth(1).unwrap().split('"').next().unwrap();
        let address = format!("/memory/alice/edit?{}", address.replace("&amp;", "&"));
        let edit = browser.show(&address).await;
        assert!(edit.contains("Later changes of this file are in the same or neighboring lines"), "{edit}");
        assert!(edit.contains("The change, taken back") && !edit.contains("is not saved yet"), "{edit}");
        assert!(edit.contains("\nA\nb\nc\n</textarea>"), "{edit}");
        let fields = [("path", "/memories/a.txt"), ("text", "A\nb\nC\n"), ("base", &field(&edit, "base"))];
        assert_eq!(browser.submit("/memory/alice/edit", &fields).await.status, 303);
        assert_eq!(memory.read_to_string("/memories/a.txt").await.unwrap(), "A\nb\nC\n");
        assert!(!browser.show("/memory/alice/change/5").await.contains("edit?"));
        // The identity of the change counts, and its file.
        let other = address.replace("without=3-", "without=4-");
        for (address, status) in [
            (&other, 409),
            (&"/memory/alice/edit?path=/memories/a.txt&without=x".to_owned(), 400),
            (&address.replace("a.txt", "b.txt"), 404),
        ] {
            assert_eq!(browser.get(address).await.status, status, "{address}");
        }
    }
}

#[tokio::test]
async fn memories_are_found_by_a_part_of_their_name() {
    let (_directory, [place, _]) = places();
    for number in 0..202 {
        memory_named(&place, &format!("user-{number:03}")).await.write("/memories/a", "x").await.unwrap();
    }
    let server = Server::start(&place).await;
    let browser = Browser::sign_in(&server, &server.token).await;
    let listed = async |query: &str| {
        let page = browser.show(&format!("/{query}")).await;
        (page.matches("<tr><th scope=\"row\">").count(), page.contains("More memories"))
    };
    assert_eq!(listed("").await, (200, true));
    assert_eq!(listed("?after=user-199").await, (2, false));
    assert_eq!(listed("?name=USER-01").await, (10, false));
    assert_eq!(listed("?name=none").await, (0, false));
}

#[tokio::test]
async fn files_directories_and_memories_are_downloaded() {
    let (directory, places) = places();
    for place in places {
        let memory = memory(&place).await;
        memory.write("/memories/a/é.md", "one").await.unwrap();
        memory.write("/memories/b", vec![0xff; 300_000]).await.unwrap();
        let server = Server::start(&place).await;
        let browser = Browser::sign_in(&server, &server.token).await;
        for (path, name, files) in [
            ("/memories/b", "b", None),
            ("/memories/a", "a.zip", Some("a/é.md\n")),
            ("/memories", "alice.zip", Some("a/é.md\nb\n")),
        ] {
            let (headers, body) = browser.bytes(&format!("/memory/alice/download?path={path}")).await;
            let disposition = format!("content-disposition: attachment; filename*=UTF-8''{name}\r\n");
            assert!(headers.contains(&disposition), "{headers}");
            let Some(files) = files else {
                assert_eq!(body, vec![0xff; 300_000]);
                continue;
            };
            let archive = directory.path().join("downloaded.zip");
            std::fs::write(&archive, body).unwrap();
            let script = "import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None; \
                          print(*sorted(z.namelist()), sep='\\n')";
            let listed = std::process::Command::new("python3").args(["-c", script]).arg(&archive).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&listed.stdout), files, "{listed:?}");
        }
        assert_eq!(browser.get("/memory/alice/download?path=/memories/c").await.status, 404);
        assert_eq!(browser.get("/memory/bob/download").await.status, 404);
    }
}

#[tokio::test]
async fn a_memory_is_deleted_by_its_name() {
    let (_directory, places) = places();
    for place in places {
        memory(&place).await.write("/memories/a", "x").await.unwrap();
        let server = Server::start(&place).await;
        let browser = Browser::sign_in(&server, &server.token).await;
        let form = browser.show("/memory/alice/forget").await;
        assert!(form.contains("1 file (1 byte)") && form.contains("cannot be taken back"), "{form}");
        let refused = browser.submit("/memory/alice/forget", &[("name", "bob")]).await;
        assert!(refused.text.contains("Nothing was deleted"), "{}", refused.text);
        assert!(browser.show("/memory/alice").await.contains("<bdi>a</bdi>"));
        let deleted = browser.submit("/memory/alice/forget", &[("name", "alice")]).await;
        let home = browser.show(&deleted.headers["location"]).await;
        assert!(home.contains("Deleted.") && !home.contains("alice"), "{home}");
        assert_eq!(browser.get("/memory/alice").await.status, 404);
    }
}

#[tokio::test]
async fn a_visitor_gets_to_the_page_that_he_asked_for() {
    let (_directory, [place, _]) = places();
    memory(&place).await.write("/memories/a b", "x").await.unwrap();
    let server = Server::start(&place).await;
    let mut browser = Browser::new(&server);
    let asked = "/memory/alice?path=/memories/a%20b";
    let sign_in = browser.get(asked).await.headers["location"].clone();
    let next = field(&browser.show(&sign_in).await, "next").replace("&#38;", "&");
    assert_eq!(next, asked);
    let token = server.token.trim_start_matches("x-api-key: ");
    let signed_in = browser.post("/sign-in", &[("token", token), ("next", &next)]).await;
    assert_eq!(signed_in.headers["location"], asked);
    // The session is unknown, for example after a restart.
    browser.cookie = "memory-tool=unknown".to_owned();
    let ended = browser.get(asked).await.headers["location"].clone();
    assert!(browser.show(&ended).await.contains("You were signed out."));
    let unsaved = browser.post("/memory/alice/new", &[("name", "b")]).await.headers["location"].clone();
    assert!(browser.show(&unsaved).await.contains("signed out before this was saved"));
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
    let (path, to) = (("path", "/memories/\u{e4} b.txt"), "/memories/\u{5d0} c.txt");
    let renamed = browser.submit(&page("/rename"), &[path, ("name", "\u{5d0} c.txt")]).await;
    assert!(browser.show(&renamed.headers["location"]).await.contains("\u{5d0} c.txt"));
    let deleted = browser.submit(&page("/delete"), &[("path", to)]).await;
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
    let id = created.rsplit("/revoke?id=").next().unwrap().split('"').next().unwrap().to_owned();
    let reader = loop {
        if Browser::new(&server).post("/sign-in", &[("token", &token)]).await.status == 303 {
            break Browser::sign_in(&server, &token).await;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    assert!(!reader.show("/memory/alice").await.contains("New file"));
    assert_eq!(reader.get("/tokens").await.status, 403);
    assert!(!operator.show("/tokens").await.contains(&token));
    let first = created.split("/tokens/revoke?id=").nth(1).unwrap().split('"').next().unwrap();
    let own = operator.show(&format!("/tokens/revoke?id={first}")).await;
    assert!(own.contains("You are signed in with this token."), "{own}");
    assert!(operator.show(&format!("/tokens/revoke?id={id}")).await.contains("Revoke the token of support"));
    for (id, status) in [("no-such-id", 404), (&id, 303)] {
        assert_eq!(operator.submit("/tokens/revoke", &[("id", id)]).await.status, status);
    }
    // The session ends with its token.
    while reader.get("/memory/alice").await.status == 200 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert!(reader.get("/memory/alice").await.headers["location"].starts_with("/sign-in?"));
    let of_alice = ("memory", "alice");
    for wrong in [
        [("actor", "a\nb"), of_alice, ("days", "7")],
        [("actor", "a"), of_alice, ("days", "0")],
        [("actor", "a"), of_alice, ("days", "x")],
        [("actor", "a"), ("memory", ""), ("days", "7")],
        [("actor", "a"), ("memory", "alize"), ("days", "7")],
    ] {
        let refused = operator.submit("/tokens", &[&wrong[..], &[("read", "on")]].concat()).await.text;
        assert!(refused.contains("role=\"alert\"") && !refused.contains("memtok_"), "{refused}");
        assert!(refused.contains("name=\"read\" checked"), "{refused}");
        let memory = wrong[1].1;
        assert!(refused.contains(&format!("name=\"memory\" value=\"{memory}\"")), "{refused}");
    }
    let both = [("actor", "a"), of_alice, ("all", "on"), ("days", "7"), ("read", "on")];
    assert!(operator.submit("/tokens", &both).await.text.contains("not both"));
    assert!(operator.submit("/tokens", &both[..4]).await.text.contains("role=\"alert\""));
}

#[tokio::test]
async fn an_operator_gives_no_right_that_he_lacks_and_a_tenant_checks_no_whole_storage() {
    let (_directory, [place, _]) = places();
    memory(&place).await.write("/memories/a", "x").await.unwrap();
    let server = Server::start(&place).await;
    let limited = server.with_token(Grant::All, &[Right::Admin, Right::Read], false).await;
    let operator = Browser::sign_in(&server, &limited).await;
    let fields = [("actor", "a"), ("all", "on"), ("days", "7"), ("read", "on")];
    let refused = operator.submit("/tokens", &[&fields[..], &[("write", "on")]].concat()).await;
    assert!(refused.text.contains("rights that you have") && !refused.text.contains("memtok_"), "{}", refused.text);
    assert!(operator.submit("/tokens", &fields).await.text.contains("memtok_"));
    let tenant = server.with_token(Grant::Name("alice".parse().unwrap()), &Right::ALL, false).await;
    let tenant = Browser::sign_in(&server, &tenant).await;
    for (action, status) in [("verify", 403), ("expire", 200)] {
        assert_eq!(tenant.submit("/memory/alice/limits", &[("action", action)]).await.status, status, "{action}");
    }
}

pub(crate) const PAGES: [&str; 22] = [
    "/memory/alice",
    "/memory/alice/raw?path=/memories/a",
    "/memory/alice/live",
    "/memory/alice/download?path=/memories/a",
    "/memory/alice/proposals",
    "/memory/alice/proposal/nightly",
    "/memory/alice/proposal/nightly/edit?path=/memories/a",
    "/memory/alice/compare?path=/memories/a&from=1&to=1",
    "/memory/alice/search?q=x",
    "/memory/alice/lint",
    "/memory/alice/new",
    "/memory/alice/edit?path=/memories/a",
    "/memory/alice?path=/memories/a&view=blame",
    "/memory/alice/rename?path=/memories/a",
    "/memory/alice/delete?path=/memories/a",
    "/memory/alice/log",
    "/memory/alice/change/1",
    "/memory/alice/redact?entry=1",
    "/memory/alice/redact?path=/memories/a",
    "/memory/alice/erase",
    "/memory/alice/limits",
    "/memory/alice/forget",
];

pub(crate) const FORMS: [(&str, &[(&str, &str)]); 12] = [
    ("/memory/alice/new", &[("name", "b"), ("text", "x")]),
    ("/memory/alice/edit", &[("path", "/memories/b"), ("text", "x"), ("base", "")]),
    ("/memory/alice/rename", &[("path", "/memories/a"), ("name", "c")]),
    ("/memory/alice/delete", &[("path", "/memories/a")]),
    ("/memory/alice/proposal/nightly", &[("action", "take-all")]),
    ("/memory/alice/proposal/nightly/edit", &[("path", "/memories/a"), ("text", "x")]),
    ("/memory/alice/undo", &[("entry", "1")]),
    ("/memory/alice/restore", &[("path", "/memories/a"), ("entry", "1")]),
    ("/memory/alice/redact", &[("entry-1", "on")]),
    ("/memory/alice/erase", &[("text", "the secret"), ("confirmed", "on")]),
    ("/memory/alice/limits", &[("action", "expire")]),
    ("/memory/alice/forget", &[("name", "alice")]),
];

#[tokio::test]
async fn each_page_and_form_asks_for_its_right() {
    let (_directory, [place, _]) = places();
    memory(&place).await.write("/memories/a", "the secret").await.unwrap();
    session(&place).await.write("/memories/a", "another secret").await.unwrap();
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
        assert!(nobody.get(page).await.headers["location"].starts_with("/sign-in?next="), "{page}");
        let refused = stranger.get(page).await;
        assert!(refused.status == 404 && !refused.text.contains("secret"), "{page}: {}", refused.text);
        let is_of_reader = ["", "/raw", "/search", "/lint", "/log", "/change", "/compare", "/download", "/proposal"]
            .iter()
            .any(|of_reader| {
                let rest = page.strip_prefix("/memory/alice").unwrap();
                if rest.ends_with("/edit?path=/memories/a") {
                    false
                } else if of_reader.is_empty() {
                    rest.is_empty() || rest.starts_with('?')
                } else {
                    rest.starts_with(of_reader)
                }
            });
        if !page.ends_with("/live") {
            assert_eq!(reader.get(page).await.status, if is_of_reader { 200 } else { 403 }, "{page}");
        }
        assert_eq!(writer.get(page).await.status, 403, "{page}");
    }
    for (path, fields) in FORMS {
        let late = nobody.post(path, fields).await;
        if fields.iter().any(|(name, _)| *name == "text") {
            assert!(late.status == 403 && late.text.contains("You were signed out"), "{path}: {}", late.text);
        } else {
            assert_eq!(late.headers["location"], "/sign-in?ended=unsaved", "{path}");
        }
        assert_eq!(stranger.submit(path, fields).await.status, 404, "{path}");
        assert_eq!(reader.submit(path, fields).await.status, 403, "{path}");
        // Some forms contain files.
        assert_eq!(writer.submit(path, fields).await.status, 403, "{path}");
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
            let is_kept = ["new", "edit", "rename", "tokens"].contains(&path.rsplit('/').next().unwrap());
            let message = if is_kept { "it is not saved yet" } else { "The form is too old" };
            let is_refused = is_kept || refused.status == 400;
            assert!(is_refused && refused.text.contains(message), "{path}: {}", refused.text);
            assert!(!refused.text.contains("memtok_"), "{path}: {}", refused.text);
        }
        assert_ne!(browser.post(path, fields).await.status, 303, "{path}");
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
        ["/", "/sign-in", "/style.css", "/page.js", "/memory/alice", "/memory/no", "/tokens", "/memory/alice/log"]
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
    for from in ["5", "18446744073709551615"] {
        for path in ["/memories", "/memories/a"] {
            browser.show(&format!("/memory/alice?path={path}&from={from}")).await;
        }
    }
    let form = browser.get("/memory/alice/undo").await;
    assert!(form.status == 405 && form.text.contains("The method is not allowed"), "{}", form.text);
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
        "dialog",
        "kbd",
        "option",
        "select",
        "!doctype",
    ];
    for (at, _) in text.match_indices('<') {
        let tag = text[at + 1..].split('>').next().unwrap();
        let name = tag.trim_start_matches('/').split([' ', '\n']).next().unwrap().to_lowercase();
        if !known.contains(&name.as_str()) {
            return Err(format!("<{tag}>"));
        }
        let is_own_script =
            (tag.starts_with("script src=\"/page.js?") && tag.ends_with("\" defer")) || tag == "/script";
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
        // Not every text is a legal name of an actor.
        let actor = Actor::from_trusted_name(attack).unwrap_or(Actor::from_trusted_name("a").unwrap());
        memory.by(actor.because(attack)).write(&format!("/memories/{number}.md"), *attack).await.unwrap();
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
        for view in ["md", "md&view=source", "md&view=blame", "txt"] {
            let file = format!("{number}.{view}");
            check(format!("/memory/alice?path=/memories/{file}")).await;
        }
        let edit = check(format!("/memory/alice/edit?path=/memories/{number}.txt")).await;
        assert!(!edit.contains("<script>"), "{edit}");
        let query = encode(&[("q", attack)]);
        for page in ["search?", "search?regex=on&", "log?path=x&", "edit?path=x&", "new?x=y&"] {
            check(format!("/memory/alice/{page}{query}")).await;
        }
        check(format!("/?{}", encode(&[("name", attack)]))).await;
        check(format!("/memory/alice/log?{}", encode(&[("command", attack)]))).await;
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
    let newest = memory.history().unwrap().newest().await.unwrap();
    for number in 1..=newest {
        check(format!("/memory/alice/change/{number}")).await;
        check(format!("/memory/alice/log?before={number}")).await;
    }
    for page in ["/memory/alice", "/memory/alice/log?since=2020-01-01"] {
        check(page.to_owned()).await;
    }
}

/// Access times must not keep a memory from being deleted.
#[tokio::test]
async fn a_memory_whose_files_expire_is_deleted() {
    let (_directory, places) = places();
    for place in places {
        let server = Server::start_with(&place, |options| {
            options.memory.expire_after = Some(std::time::Duration::from_secs(3_600));
        })
        .await;
        let creating = server.with_token(Grant::All, &Right::ALL, true).await;
        let browser = Browser::sign_in(&server, &creating).await;
        for name in ["by-page", "by-api"] {
            let call = serde_json::json!({"command": "create", "path": "/memories/a", "file_text": "x"});
            let path = format!("/v1/memory_stores/{name}");
            assert_eq!(server.send("POST", &format!("{path}/tool"), Some(call), &[&creating]).await.0, 200);
            if name == "by-api" {
                assert_eq!(server.send("DELETE", &path, None, &[]).await.0, 200, "{place}");
            } else {
                let deleted = browser.submit(&format!("/memory/{name}/forget"), &[("name", name)]).await;
                assert_eq!(deleted.status, 303, "{place}: {}", deleted.text);
            }
            assert_eq!(server.refused("GET", &path, None).await.0, 404, "{place}");
        }
    }
}
