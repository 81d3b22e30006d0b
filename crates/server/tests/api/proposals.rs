//! The pages of changes that wait.

use memory_tool::history::LogFilter;
use memory_tool::store::{Batch, ReadOptions, StorePath};
use memory_tool::{Actor, Memory, Store as _};
use memory_tool_server::{Grant, Right};
use serde_json::{Value, json};

use crate::page::{Browser, field, memory};
use crate::server::{Server, places};

/// A session of the proposal `nightly` in the memory `alice`.
pub(crate) async fn session(place: &str) -> Memory {
    let url = if place.starts_with("sqlite:") { format!("{place}?memory=alice") } else { format!("{place}/alice") };
    let agent = Actor::from_trusted_name("agent").unwrap();
    Memory::builder(url).history().actor(agent).proposal("nightly".parse().unwrap()).build().await.unwrap()
}

#[tokio::test]
async fn a_person_takes_edits_and_drops_changes_that_wait() {
    let (_directory, places) = places();
    for place in places {
        let lines: Vec<_> = (0..20).map(|line| format!("{line}\n")).collect();
        let of_person = memory(&place).await;
        for name in ["a", "b", "c"] {
            of_person.write(format!("/memories/{name}").as_str(), lines.concat()).await.unwrap();
        }
        let agents = session(&place).await;
        let changed = lines.concat().replacen("1\n", "first\n", 1).replace("\n18\n", "\nlast\n");
        agents.write("/memories/a", changed.clone()).await.unwrap();
        agents.write("/memories/b", "short\n").await.unwrap();
        agents.remove("/memories/c").await.unwrap();

        let server = Server::start(&place).await;
        let browser = Browser::sign_in(&server, &server.token.clone()).await;
        let home = browser.get("/memory/alice").await;
        assert!(home.text.contains("3 changes wait"), "{}", home.text);
        let listed = browser.get("/memory/alice/proposals").await;
        assert!(listed.text.contains("/memory/alice/proposal/nightly"), "{}", listed.text);
        let shown = browser.get("/memory/alice/proposal/nightly").await;
        for expected in ["<bdi>changed</bdi> by <bdi>agent</bdi>", "Part 2 of", "<bdi>deleted</bdi>", "part-0.1"] {
            assert!(shown.text.contains(expected), "{expected}: {}", shown.text);
        }

        let revision = field(&shown.text, "revision");
        let decide = async |fields: &[(&str, &str)]| {
            let fields = [&[("revision", revision.as_str()), ("reason", "it is right")], fields].concat();
            browser.submit("/memory/alice/proposal/nightly", &fields).await
        };
        let nothing = decide(&[("action", "take")]).await;
        assert!(nothing.text.contains("Tick at least one change."), "{}", nothing.text);
        let taken = decide(&[("action", "take"), ("part-0.1", "on"), ("file-2", "on")]).await;
        assert_eq!(taken.status, 303, "{}", taken.text);
        let text = of_person.read_to_string("/memories/a").await.unwrap();
        assert_eq!(text, lines.concat().replace("\n18\n", "\nlast\n"));
        assert!(!of_person.exists("/memories/c").await.unwrap());
        let late = decide(&[("action", "take-all")]).await;
        assert!(late.text.contains("Somebody changed this proposal"), "{}", late.text);

        let edit = browser.get("/memory/alice/proposal/nightly/edit?path=/memories/b").await;
        let fields = [("revision", field(&edit.text, "revision")), ("path", "/memories/b".into())];
        let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let fields = [&fields[..], &[("text", "edited\r\n")]].concat();
        assert_eq!(browser.submit("/memory/alice/proposal/nightly/edit", &fields).await.status, 303);
        let again = browser.submit("/memory/alice/proposal/nightly/edit", &fields).await;
        assert!(again.status == 200 && again.text.contains("edited"), "the text stays: {}", again.text);
        let shown = browser.get("/memory/alice/proposal/nightly").await;
        let revision = field(&shown.text, "revision");
        let fields = [("revision", revision.as_str()), ("action", "take-all"), ("reason", "")];
        assert_eq!(browser.submit("/memory/alice/proposal/nightly", &fields).await.status, 303);
        assert_eq!(of_person.read_to_string("/memories/b").await.unwrap(), "edited\n");
        assert_eq!(browser.get("/memory/alice/proposal/nightly").await.status, 404);
        let entries = of_person.history().unwrap().entries(&LogFilter::new().limit(2)).await.unwrap();
        assert_eq!(entries[1].authors, ["agent"]);
        assert_eq!(entries[1].reason.as_deref(), Some("it is right"));
        let change = browser.get(&format!("/memory/alice/change/{}", entries[1].number)).await;
        assert!(change.text.contains("written by <bdi>agent</bdi>"), "{}", change.text);
    }
}

#[tokio::test]
async fn later_changes_of_the_memory_are_shown_beside_the_proposal() {
    let (_directory, [place, _]) = places();
    let of_person = memory(&place).await;
    of_person.write("/memories/a", "1\n2\n3\n").await.unwrap();
    session(&place).await.write("/memories/a", "one\n2\n3\n").await.unwrap();
    of_person.write("/memories/a", "uno\n2\n3\n").await.unwrap();
    let server = Server::start(&place).await;
    let browser = Browser::sign_in(&server, &server.token.clone()).await;
    let shown = browser.get("/memory/alice/proposal/nightly").await;
    assert!(shown.text.contains("The memory was changed at the same lines."), "{}", shown.text);
    let erasing = browser.submit("/memory/alice/erase", &[("text", "one")]).await;
    let names_it = erasing.text.contains("These changes wait and contain it") && erasing.text.contains("<bdi>a</bdi>");
    assert!(names_it, "{}", erasing.text);
    let revision = field(&shown.text, "revision");
    let fields = [("revision", revision.as_str()), ("action", "take-all")];
    let refused = browser.submit("/memory/alice/proposal/nightly", &fields).await;
    assert!(refused.text.contains("The memory was changed at the same lines: /memories/a"), "{}", refused.text);
    assert_eq!(of_person.read_to_string("/memories/a").await.unwrap(), "uno\n2\n3\n");
    // An edit is a change of the text that the person saw.
    let edit = browser.get("/memory/alice/proposal/nightly/edit?path=/memories/a").await;
    let state = field(&edit.text, "revision");
    of_person.write("/memories/a", "uno!\n2\n3\n").await.unwrap();
    let fields = [("revision", state.as_str()), ("path", "/memories/a"), ("text", "both\n2\n3\n")];
    let kept = browser.submit("/memory/alice/proposal/nightly/edit", &fields).await;
    assert!(kept.text.contains("Somebody changed this file") && kept.text.contains("both"), "{}", kept.text);
    let state = field(&kept.text, "revision");
    let fields = [("revision", state.as_str()), ("path", "/memories/a"), ("text", "both\n2\n3\n")];
    assert_eq!(browser.submit("/memory/alice/proposal/nightly/edit", &fields).await.status, 303);
    let shown = browser.get("/memory/alice/proposal/nightly").await;
    assert!(!shown.text.contains("The memory was changed at the same lines."), "{}", shown.text);
    let revision = field(&shown.text, "revision");
    let fields = [("revision", revision.as_str()), ("action", "drop"), ("file-0", "on"), ("reason", "we say uno")];
    assert_eq!(browser.submit("/memory/alice/proposal/nightly", &fields).await.status, 303);
    assert!(!browser.get("/memory/alice").await.text.contains("waits"));
    let log = browser.get("/memory/alice/log?command=drop").await;
    assert!(log.text.contains("dropped changes that waited (<bdi>we say uno</bdi>)"), "{}", log.text);
}

#[tokio::test]
async fn a_damaged_proposal_is_listed_and_dropped() {
    let (_directory, [place, _]) = places();
    let of_person = memory(&place).await;
    of_person.write("/memories/a", "1\n").await.unwrap();
    session(&place).await.write("/memories/a", "2\n").await.unwrap();
    let index: StorePath = "/records/proposals/nightly/index".parse().unwrap();
    let server = Server::start(&place).await;
    let browser = Browser::sign_in(&server, &server.token.clone()).await;
    let clear = async || browser.submit("/memory/alice/proposal/nightly", &[("action", "clear")]).await;
    assert!(clear().await.text.contains("/memory/alice/proposal/nightly"), "it can be read");
    let mut damaged =
        of_person.store().read_opts(&index, ReadOptions::new()).await.unwrap().into_file().unwrap().content;
    damaged.pop();
    of_person.store().apply(Batch::new().write(index, damaged)).await.unwrap();
    assert!(browser.get("/memory/alice").await.text.contains("A change waits"));
    let start = browser.get("/").await.text;
    assert!(start.contains("<a href=\"/memory/alice/proposals\">a change waits</a>"), "{start}");
    let listed = browser.get("/memory/alice/proposals").await;
    assert!(listed.text.contains("It is damaged") && listed.text.contains("Drop nightly"), "{}", listed.text);
    assert_eq!(clear().await.status, 303);
    assert!(browser.get("/memory/alice/proposals").await.text.contains("No changes wait."));
}

#[tokio::test]
async fn a_token_that_proposes_changes_nothing_that_others_see() {
    let (_directory, places) = places();
    for place in places {
        let server = Server::start(&place).await;
        let alice = || Grant::Name("alice".parse().unwrap());
        let (proposing, both) = ([Right::Propose], [Right::Propose, Right::Tool]);
        let tokens = [(alice(), &proposing[..], true, None), (alice(), &both[..], false, None)];
        let [agent, person] = server.with_tokens(tokens).await;
        let call = async |token: &str, input: Value| {
            let (status, reply) = server.send("POST", "/v1/memory_stores/alice/tool", Some(input), &[token]).await;
            assert_eq!(status, 200, "{reply}");
            reply["content"][0]["content"].as_str().unwrap().to_owned()
        };
        let create = json!({"command": "create", "path": "/memories/a", "file_text": "proposed"});
        let view = || json!({"command": "view", "path": "/memories/a"});
        assert_eq!(call(&agent, create).await, "File created successfully at: /memories/a");
        assert!(call(&agent, view()).await.contains("proposed"));
        assert!(server.get("/v1/memory_stores").await["data"][0]["id"] == "alice", "people find it");
        assert!(call(&person, view()).await.contains("does not exist"));
        let listed = server.get("/v1/memory_stores/alice/memories").await;
        assert_eq!(listed["data"], json!([]));
        // It neither reads by the API, nor decides on the page.
        assert_eq!(server.send("GET", "/v1/memory_stores/alice/memories", None, &[&agent]).await.0, 403);
        let of_agent = Browser::sign_in(&server, agent.strip_prefix("x-api-key: ").unwrap()).await;
        assert_eq!(of_agent.get("/memory/alice/proposals").await.status, 403);

        let browser = Browser::sign_in(&server, &server.token.clone()).await;
        let listed = browser.get("/memory/alice/proposals").await;
        let address = listed.text.split("href=\"").find(|rest| rest.starts_with("/memory/alice/proposal/")).unwrap();
        let address = address.split('"').next().unwrap();
        let shown = browser.get(address).await;
        let revision = field(&shown.text, "revision");
        let fields = [("revision", revision.as_str()), ("action", "take-all")];
        assert_eq!(browser.submit(address, &fields).await.status, 303);
        assert!(call(&person, view()).await.contains("proposed"));
    }
}

#[tokio::test]
async fn a_server_can_make_all_agents_propose() {
    let (_directory, [place, _]) = places();
    let of_person = memory(&place).await;
    of_person.write("/memories/a", "1\n").await.unwrap();
    let nightly = || "nightly".parse().unwrap();
    let server = Server::start_with(&place, |options| options.memory.propose = Some(nightly())).await;
    let edit = json!({"command": "str_replace", "path": "/memories/a", "old_str": "1", "new_str": "2"});
    let (status, _) = server.send("POST", "/v1/memory_stores/alice/tool", Some(edit), &[]).await;
    assert_eq!((status, of_person.read_to_string("/memories/a").await.unwrap()), (200, "1\n".to_owned()));
    assert_eq!(of_person.proposals().unwrap().get(&nightly()).await.unwrap().changes.len(), 1);
    // People change files at once.
    let new = json!({"path": "/b", "content": "by a person"});
    let (status, _) = server.send("POST", "/v1/memory_stores/alice/memories", Some(new), &[]).await;
    assert_eq!((status, of_person.read_to_string("/memories/b").await.unwrap()), (200, "by a person".to_owned()));
}
