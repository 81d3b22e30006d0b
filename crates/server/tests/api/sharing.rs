//! Memories that several tokens share: one tree by right.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use memory_tool::history::LogFilter;
use memory_tool_server::Right;
use memory_tool_test_fixtures::in_full;
use memory_tool_test_fixtures::session::PATIENCE;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::page::{Browser, field, memory_named};
use crate::server::{Server, places, sha256};

const TEAM: &str = "/memories/team=team:write";
const TEAM_READ: &str = "/memories/team=team:read";
const AGENT: [Right; 2] = [Right::Tool, Right::Read];

/// Memories of alice, bob and the team, and a secret memory.
async fn memories(place: &str) {
    for name in ["alice", "bob", "team", "secret"] {
        memory_named(place, name).await.write("/memories/own.md", format!("Canary of {name}.")).await.unwrap();
    }
}

fn create(path: &str, text: &str) -> Value {
    json!({"command": "create", "path": path, "file_text": text})
}

/// The result of a command, and whether it is an error.
async fn run(server: &Server, token: &str, memory: &str, input: Value) -> (String, bool) {
    let path = format!("/v1/memory_stores/{memory}/tool");
    let (status, reply) = server.send("POST", &path, Some(input), &[token]).await;
    assert_eq!(status, 200, "{reply}");
    (reply["content"][0]["content"].as_str().unwrap().to_owned(), reply["content"][0]["is_error"] == true)
}

async fn view(server: &Server, token: &str, memory: &str, path: &str) -> String {
    run(server, token, memory, json!({"command": "view", "path": path})).await.0
}

#[tokio::test]
async fn a_token_sees_one_tree_and_changes_the_memory_of_each_file() {
    let (_directory, places) = places();
    for place in places {
        memories(&place).await;
        let server = Server::start(&place).await;
        let alice = server.with_member("alice", "alice", &AGENT, &[TEAM]).await;
        let bob = server.with_member("bob", "bob", &AGENT, &[TEAM_READ]).await;
        let carol = server.with_member("carol", "bob", &AGENT, &[]).await;
        assert!(!run(&server, &alice, "alice", create("/memories/team/style.md", "Be brief.")).await.1);
        let listed = view(&server, &bob, "bob", "/memories").await;
        for expected in ["/memories/own.md", "/memories/team/own.md", "/memories/team/style.md"] {
            assert!(listed.contains(expected), "{expected}: {listed}");
        }
        assert!(view(&server, &bob, "bob", "/memories/team/style.md").await.ends_with("Be brief."));
        let edit =
            json!({"command": "str_replace", "path": "/memories/team/style.md", "old_str": "brief", "new_str": "long"});
        let (refused, is_error) = run(&server, &bob, "bob", edit.clone()).await;
        assert_eq!(refused, "Error: /memories/team is read-only. Its files can be viewed, but not changed.");
        assert!(is_error);
        let (refused, is_error) = run(&server, &bob, "team", create("/memories/x.md", "")).await;
        assert!(is_error && refused.contains("/memories is read-only"), "{refused}");
        let without = view(&server, &carol, "bob", "/memories").await;
        assert!(without.contains("own.md") && !without.contains("team"), "{without}");
        assert!(!run(&server, &alice, "alice", edit).await.1);

        let across = json!({"command": "rename", "old_path": "/memories/own.md", "new_path": "/memories/team/new.md"});
        let (refused, is_error) = run(&server, &alice, "alice", across).await;
        assert!(is_error && refused.contains("which is in a different store. Create the new files first"), "{refused}");
        let team = memory_named(&place, "team").await;
        assert_eq!(team.read_to_string("/memories/style.md").await.unwrap(), "Be long.");
        let log = team.history().unwrap().entries(&LogFilter::new().limit(2)).await.unwrap();
        assert!(log.iter().all(|entry| entry.actor.as_deref() == Some("alice")), "{log:?}");
        assert!(!memory_named(&place, "alice").await.exists("/memories/team").await.unwrap());

        #[cfg(feature = "mcp")]
        {
            let found = server.mcp(&bob, "memory_search", json!({"pattern": "long"})).await.1.to_string();
            assert!(found.contains("/memories/team/style.md"), "{found}");
            let past = json!({"path": "/memories/team/style.md"});
            let past = server.mcp(&bob, "memory_history", past).await.1.to_string();
            assert!(past.contains("by alice: changed /memories/team/style.md"), "{past}");
            let own = server.mcp(&bob, "memory_history", json!({})).await.1.to_string();
            assert!(own.contains("/memories/own.md") && !own.contains("alice"), "{own}");
            assert!(own.contains("have separate histories: give a path in /memories/team."), "{own}");
            let own = json!({"path": "/memories/own.md"});
            let own = server.mcp(&bob, "memory_history", own).await.1.to_string();
            assert!(!own.contains("separate histories"), "{own}");
            let shown = server.mcp(&bob, "memory_history", json!({"path": "/memories/team", "entry": 3})).await.1;
            assert!(shown.to_string().contains("+Be long."), "{shown}");
            let refused = server.mcp(&bob, "memory", create("/memories/team/x.md", "")).await.1;
            assert_eq!(refused["result"]["isError"], true, "{refused}");
        }
    }
}

#[tokio::test]
async fn a_person_sees_one_tree_and_moves_a_file_into_a_shared_memory() {
    let (_directory, places) = places();
    for place in places {
        memories(&place).await;
        let server = Server::start(&place).await;
        let rights = [Right::Read, Right::Write];
        let alice = server.with_member("alice", "alice", &rights, &[TEAM]).await;
        let alice = Browser::sign_in(&server, &alice).await;
        let bob = server.with_member("bob", "bob", &rights, &[TEAM_READ]).await;
        let bob = Browser::sign_in(&server, &bob).await;
        let tree = alice.show("/memory/alice").await;
        assert!(tree.contains("<bdi>team/</bdi>") && tree.contains("shared: team"), "{tree}");
        assert!(bob.show("/memory/bob").await.contains("shared, read-only: team"));
        let found = alice.show("/memory/alice/search?q=canary").await;
        assert!(found.contains("/memories/team/own.md") && !found.contains("secret"), "{found}");
        let file = alice.get("/memory/alice?path=/memories/team/own.md&view=source").await;
        assert_eq!((file.status, &*file.headers["location"]), (303, "/memory/team?path=/memories/own.md&view=source"));

        let fields =
            [("path", "/memories/own.md"), ("name", "hers.md"), ("directory", "team/of"), ("reason", "for all")];
        let moved = alice.submit("/memory/alice/rename", &fields).await;
        assert_eq!(moved.status, 303, "{}", moved.text);
        let (own, team) = (memory_named(&place, "alice").await, memory_named(&place, "team").await);
        assert!(!own.exists("/memories/own.md").await.unwrap());
        assert_eq!(team.read_to_string("/memories/of/hers.md").await.unwrap(), "Canary of alice.");
        for memory in [&own, &team] {
            let entry = memory.history().unwrap().entries(&LogFilter::new().limit(1)).await.unwrap().remove(0);
            let shown = (entry.actor.as_deref(), entry.command.as_deref(), entry.reason.as_deref());
            assert_eq!(shown, (Some("alice"), Some("rename"), Some("for all")));
        }
        // An erasure is of one memory, and names the others.
        let erase = alice.submit("/memory/alice/erase", &[("text", "Canary")]).await;
        assert!(erase.text.contains("Shared memories keep the text"), "{}", erase.text);
        assert!(erase.text.contains("/memory/team/search?q=Canary"), "{}", erase.text);
        // The form of a page that was opened before the memory was shared.
        let base = sha256("Canary of team.");
        let fields =
            [("path", "/memories/team/own.md"), ("base", &base), ("before", "Canary of team."), ("text", "Edited.")];
        assert_eq!(alice.submit("/memory/alice/edit", &fields).await.status, 303);
        assert_eq!(team.read_to_string("/memories/own.md").await.unwrap(), "Edited.");
        assert!(own.list("/memories").await.unwrap().is_empty());
        // A member who only reads sees no form and cannot send one.
        assert!(!bob.show("/memory/team?path=/memories/own.md").await.contains("/edit?"));
        let fields = [("path", "/memories/own.md"), ("name", "x.md"), ("directory", "team")];
        let refused = bob.submit("/memory/bob/rename", &fields).await;
        assert!(refused.text.contains("/memories/team is read-only"), "{}", refused.text);
        let fields = [("path", "/memories/team/own.md"), ("name", "copy.md"), ("directory", "")];
        let refused = bob.submit("/memory/bob/rename", &fields).await;
        assert!(refused.text.contains("/memories/team is read-only"), "{}", refused.text);
        let of_bob = memory_named(&place, "bob").await.list("/memories").await.unwrap();
        assert_eq!(of_bob.len(), 1, "nothing is copied that cannot be removed: {of_bob:?}");
        assert_eq!(bob.submit("/memory/team/delete", &[("path", "/memories/own.md")]).await.status, 403);
        assert_eq!(bob.get("/memory/team/erase").await.status, 403);
    }
}

/// Claude wrote them before the memory was shared.
#[tokio::test]
async fn own_files_at_a_mount_point_are_hidden_and_stay() {
    let (_directory, places) = places();
    for place in places {
        memories(&place).await;
        let own = memory_named(&place, "alice").await;
        own.write("/memories/team/lost.md", "Hidden text.").await.unwrap();
        own.write("/memories/team/deep/lost.md", "Hidden text.").await.unwrap();
        let server = Server::start(&place).await;
        let alice = server.with_member("alice", "alice", &Right::ALL, &[TEAM]).await;
        let alice = Browser::sign_in(&server, &alice).await;
        let tree = alice.show("/memory/alice").await;
        assert!(tree.contains("2 files") && tree.contains("hides 2 files of this memory"), "{tree}");
        assert!(!alice.show("/memory/alice?all=1").await.contains("<bdi>team/lost.md"));
        for page in ["/memory/alice/search?q=hidden", "/search?q=hidden"] {
            let found = alice.show(page).await;
            assert!(!found.contains("lost.md"), "{found}");
        }
        // A download has the files that the page lists.
        let (_, archive) = alice.bytes("/memory/alice/download").await;
        let archive = String::from_utf8_lossy(&archive).into_owned();
        assert!(archive.contains("team/own.md") && !archive.contains("lost.md"), "{archive}");
        for form in ["delete", "rename"] {
            assert_eq!(alice.get(&format!("/memory/team/{form}?path=/memories")).await.status, 400, "{form}");
            let fields = [("path", "/memories/team"), ("name", "other"), ("directory", "")];
            let refused = alice.submit(&format!("/memory/alice/{form}"), &fields).await;
            assert!(refused.text.contains("/memories/team is a mount point"), "{form}: {}", refused.text);
        }
        assert_eq!(own.list("/memories").await.unwrap().len(), 3);
    }
}

/// Each right, route and memory, for tokens with and without mounts.
#[tokio::test]
async fn a_mount_gives_the_rights_of_the_token_apart_from_those_of_administration() {
    let (_directory, [place, _]) = places();
    memories(&place).await;
    let server = Server::start(&place).await;
    let view = json!({"command": "view", "path": "/memories"});
    let new = |number: usize| json!({"path": format!("/{number}.md"), "content": "new"});
    let kinds = Right::ALL.map(|right| [None, Some(TEAM_READ), Some(TEAM)].map(|access| (right, access)));
    let tokens: Vec<_> = kinds
        .into_iter()
        .flatten()
        .map(|(right, access)| {
            let mounts: Vec<_> = access.into_iter().collect();
            let [program, person] = [&[right][..], &[Right::Read, Right::Write]]
                .map(|rights| server.add_member("key", "alice", rights, &mounts));
            (right, access, program, person)
        })
        .collect();
    server.with_member("key", "alice", &[Right::Read], &[]).await;
    for (number, (right, access, token, person)) in tokens.into_iter().enumerate() {
        let browser = Browser::sign_in(&server, &person).await;
        for memory in ["alice", "team", "secret", "none"] {
            let store = format!("/v1/memory_stores/{memory}");
            let (is_own, can_change) =
                (memory == "alice", memory == "alice" || access == Some(TEAM) && memory == "team");
            let is_reached = is_own || access.is_some() && memory == "team";
            let tool = if right == Right::Propose { Right::Propose } else { Right::Tool };
            for (method, path, body, needed, is_possible) in [
                ("GET", store.clone(), None, Right::Read, true),
                ("GET", format!("{store}/memories"), None, Right::Read, true),
                ("GET", format!("{store}/memory_versions"), None, Right::Read, true),
                ("POST", format!("{store}/tool"), Some(view.clone()), tool, true),
                ("POST", format!("{store}/memories"), Some(new(number)), Right::Write, can_change),
                ("POST", store.clone(), Some(json!({"description": "x"})), Right::Admin, is_own),
                ("POST", format!("{store}/archive"), None, Right::Admin, false),
                ("DELETE", store.clone(), None, Right::Admin, false),
            ] {
                if is_own && needed == Right::Admin && !is_possible {
                    continue; // it would end the memory
                }
                let expected = match (is_reached, right == needed && is_possible) {
                    (false, _) => 404,
                    (true, false) => 403,
                    (true, true) => 200,
                };
                let (status, reply) = server.send(method, &path, body, &[&token]).await;
                assert_eq!(status, expected, "{right:?} {access:?} {method} {path}: {reply}");
                assert!(is_reached || !reply.to_string().contains("Canary"), "{reply}");
            }
            for (path, is_possible) in [
                ("", true),
                ("/log", true),
                ("/search?q=x", true),
                ("/new", can_change),
                ("/erase", can_change),
                ("/limits", false),
            ] {
                let expected = if !is_reached {
                    404
                } else if is_possible {
                    200
                } else {
                    403
                };
                let page = browser.get(&format!("/memory/{memory}{path}")).await;
                assert_eq!(page.status, expected, "{access:?} /memory/{memory}{path}: {}", page.text);
            }
        }
        let names = server.send("GET", "/v1/memory_stores", None, &[&token]).await.1.to_string();
        assert!(!names.contains("secret") && !names.contains("bob"), "{names}");
        assert_eq!(names.contains("team"), right == Right::Read && access.is_some(), "{names}");
        let everywhere = browser.show("/search?q=canary").await;
        assert!(!everywhere.contains("secret") && !everywhere.contains("of bob"), "{everywhere}");
    }
    // A memory without a right differs from a missing one only by its name.
    let token = server.with_member("key", "alice", &Right::ALL, &[TEAM]).await;
    for (method, path) in [("GET", ""), ("GET", "/memories"), ("POST", "/tool"), ("DELETE", ""), ("POST", "/archive")] {
        let [secret, none] = ["secret", "none_x"].map(|memory| format!("/v1/memory_stores/{memory}{path}"));
        let replies = [secret, none].map(async |path| {
            let (status, mut reply) = server.send(method, &path, Some(view.clone()), &[&token]).await;
            reply["request_id"] = Value::Null;
            (status, reply.to_string().replace("none_x", "secret"))
        });
        let [secret, none] = replies;
        assert_eq!(secret.await, none.await, "{method} {path}");
    }
}

/// The text of a configuration file with these members of a group.
fn configuration(read: &[&str], write: &[&str]) -> String {
    format!("store = 'in-process:'\ntokens = 'unused'\n[groups.team]\nread = {read:?}\nwrite = {write:?}\n")
}

#[tokio::test]
async fn a_membership_begins_and_ends_within_a_second() {
    let (directory, places) = places();
    for place in places {
        memories(&place).await;
        let file = directory.path().join("server.toml");
        fs::write(&file, configuration(&[], &["alice"])).unwrap();
        let server = Server::start_with(&place, |options| options.configuration = Some(file.clone())).await;
        let rights = [Right::Tool, Right::Read, Right::Write];
        let alice = server.with_member("alice", "alice", &rights, &[]).await;
        let bob = server.with_member("bob", "bob", &rights, &[]).await;
        let sees = async |token: &str, memory: &str| view(&server, token, memory, "/memories").await.contains("/team/");
        assert!(sees(&alice, "alice").await && !sees(&bob, "bob").await);
        let browser = Browser::sign_in(&server, &alice).await;
        assert_eq!(browser.get("/memory/team").await.status, 200);

        fs::write(&file, configuration(&["bob"], &[])).unwrap();
        let begun = Instant::now();
        while sees(&alice, "alice").await || !sees(&bob, "bob").await {
            assert!(begun.elapsed() < PATIENCE);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(browser.get("/memory/team").await.status, 404);
        assert!(!browser.show("/memory/alice").await.contains("team"));
        let (refused, is_error) = run(&server, &bob, "bob", create("/memories/team/x.md", "")).await;
        assert!(is_error && refused.contains("read-only"), "{refused}");
        // A file that is not valid changes nothing.
        fs::write(&file, "[groups.team]\nread = [").unwrap();
        tokio::time::sleep(Duration::from_millis(1_200)).await;
        assert!(sees(&bob, "bob").await && !sees(&alice, "alice").await);
        // It keeps no revoked token.
        server.revoke(&bob).await;
    }
}

/// Two sessions of each of four users add lines to one file: by the tool, MCP, the API and the page.
#[tokio::test(flavor = "multi_thread")]
async fn all_fronts_of_all_members_keep_all_changes() {
    let changes = in_full(10, 50);
    let (_directory, places) = places();
    for place in places {
        memories(&place).await;
        for user in 0..4 {
            memory_named(&place, &format!("user{user}")).await.write("/memories/x.md", "").await.unwrap();
        }
        memory_named(&place, "team").await.write("/memories/log.md", "start\n").await.unwrap();
        let server = Arc::new(Server::start(&place).await);
        let mut sessions = JoinSet::new();
        for session in 0..8 {
            let (server, user) = (Arc::clone(&server), format!("user{}", session / 2));
            sessions.spawn(async move {
                let rights = [Right::Tool, Right::Read, Right::Write];
                let token = server.with_member(&user, &user, &rights, &[TEAM]).await;
                let browser = Browser::sign_in(&server, &token).await;
                for change in 0..changes {
                    let line = format!("{session}.{change}");
                    match session % 4 {
                        0 => by_tool(&server, &token, &user, &line).await,
                        1 => by_mcp(&server, &token, &user, &line).await,
                        2 => by_api(&server, &token, &line).await,
                        _ => by_page(&browser, &line).await,
                    }
                }
            });
        }
        sessions.join_all().await;
        let text = memory_named(&place, "team").await.read_to_string("/memories/log.md").await.unwrap();
        let mut lines: Vec<_> = text.lines().filter(|line| *line != "start").map(str::to_owned).collect();
        lines.sort_unstable();
        let mut expected: Vec<_> =
            (0..8).flat_map(|session| (0..changes).map(move |change| format!("{session}.{change}"))).collect();
        expected.sort_unstable();
        assert_eq!(lines, expected, "{place}");
    }
}

fn insert(line: &str) -> Value {
    json!({"command": "insert", "path": "/memories/team/log.md", "insert_line": 0, "insert_text": format!("{line}\n")})
}

async fn by_tool(server: &Server, token: &str, user: &str, line: &str) {
    let (reply, is_error) = run(server, token, user, insert(line)).await;
    assert!(!is_error, "{reply}");
}

#[cfg(feature = "mcp")]
async fn by_mcp(server: &Server, token: &str, _: &str, line: &str) {
    let (status, reply) = server.mcp(token, "memory", insert(line)).await;
    assert!(status == 200 && reply["result"]["isError"] != true, "{reply}");
}

#[cfg(not(feature = "mcp"))]
use by_tool as by_mcp;

async fn by_api(server: &Server, token: &str, line: &str) {
    let listed = server.send("GET", "/v1/memory_stores/team/memories", None, &[token]).await.1;
    let memories = listed["data"].as_array().unwrap();
    let id = memories.iter().find(|memory| memory["path"] == "/log.md").unwrap()["id"].as_str().unwrap();
    let one = format!("/v1/memory_stores/team/memories/{id}");
    loop {
        let before = server.send("GET", &one, None, &[token]).await.1["content"].as_str().unwrap().to_owned();
        let required = json!({"type": "content_sha256", "content_sha256": sha256(&before)});
        let update = json!({"content": format!("{line}\n{before}"), "precondition": required});
        match server.send("POST", &one, Some(update), &[token]).await {
            (200, _) => return,
            (409, _) => {}
            refused => panic!("{refused:?}"),
        }
    }
}

async fn by_page(browser: &Browser<'_>, line: &str) {
    loop {
        let form = browser.show("/memory/team/edit?path=/memories/log.md").await;
        let (base, secret) = (field(&form, "base"), field(&form, "form"));
        let text = form.split_once("<textarea").unwrap().1.split_once('>').unwrap().1;
        let text = text.split("</textarea>").next().unwrap().trim_start_matches('\n');
        let new = format!("{line}\n{text}");
        let fields =
            [("form", &*secret), ("path", "/memories/log.md"), ("base", &base), ("before", text), ("text", &new)];
        match browser.post("/memory/team/edit", &fields).await.status {
            303 => return,
            409 => {}
            status => panic!("{status}"),
        }
    }
}

/// Each of two memories is in the other one, so both orders of their turns exist.
#[tokio::test(flavor = "multi_thread")]
async fn memories_that_contain_each_other_do_not_wait_for_each_other() {
    let (_directory, [place, _]) = places();
    memories(&place).await;
    let server = Arc::new(Server::start(&place).await);
    let mut sessions = JoinSet::new();
    for session in 0..6 {
        let server = Arc::clone(&server);
        sessions.spawn(async move {
            let (own, other) = if session % 2 == 0 { ("alice", "bob") } else { ("bob", "alice") };
            let token = server.with_member("key", own, &AGENT, &[&format!("/memories/x={other}:write")]).await;
            for change in 0..10 {
                let paths = [format!("/memories/{session}.{change}"), format!("/memories/x/{session}.{change}")];
                let calls = paths
                    .map(|path| json!({"type": "tool_use", "id": "a", "name": "memory", "input": create(&path, "")}));
                let turn = json!({"type": "message", "role": "assistant", "stop_reason": "tool_use", "content": calls});
                let (status, reply) =
                    server.send("POST", &format!("/v1/memory_stores/{own}/tool"), Some(turn), &[&token]).await;
                assert!(status == 200 && !reply.to_string().contains("is_error"), "{reply}");
            }
        });
    }
    tokio::time::timeout(PATIENCE, sessions.join_all()).await.unwrap();
    assert_eq!(memory_named(&place, "alice").await.list("/memories").await.unwrap().len(), 61);
}
