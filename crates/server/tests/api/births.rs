//! Other processes delete, clear, restore and rename memories: nothing comes back, and each request reaches only the
//! memory that it names.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use memory_tool::{Memory, history::LogFilter};
use memory_tool_server::{Grant, Right};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::server::{Server, places};
use crate::{id, new_memory};

const STORE: &str = "/v1/memory_stores/alice";
const SECRET: &str = "s3cr3t";

fn url(place: &str) -> String {
    match place.strip_prefix("sqlite:") {
        Some(_) => format!("{place}?memory=alice"),
        None => format!("{place}/alice"),
    }
}

/// Another process on the memory.
async fn other(place: &str) -> Memory {
    Memory::builder(url(place)).history().build().await.unwrap()
}

/// All versions, newest first.
async fn versions(server: &Server) -> Vec<Value> {
    let (mut all, mut page) = (Vec::new(), String::new());
    loop {
        let found = server.get(&format!("{STORE}/memory_versions?view=full&limit=20{page}")).await;
        all.extend(found["data"].as_array().unwrap().clone());
        match found["next_page"].as_str() {
            Some(next) => page = format!("&page={next}"),
            None => return all,
        }
    }
}

/// The old memory: a removed secret, and as many other changes as a server remembers in a block.
async fn fill_with_secret(memory: &Memory) {
    memory.write(format!("/memories/{SECRET}.md").as_str(), SECRET).await.unwrap();
    memory.remove(format!("/memories/{SECRET}.md").as_str()).await.unwrap();
    fill(memory, 73).await;
}

async fn fill(memory: &Memory, changes: usize) {
    for number in 0..changes {
        memory.write("/memories/a.md", number.to_string()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_memory_that_is_made_again_shows_nothing_of_the_former_one() {
    let (_directory, places) = places();
    for place in places {
        for is_cleared in [false, true] {
            let server = Server::start(&place).await;
            let memory = other(&place).await;
            fill_with_secret(&memory).await;
            let old = versions(&server).await;
            assert!(old.iter().any(|version| version["path"] == format!("/{SECRET}.md")));
            let (old_version, old_memory) = (old[old.len() - 1]["id"].clone(), old[old.len() - 1]["memory_id"].clone());
            let cleaner = other(&place).await;
            if is_cleared {
                cleaner.history().unwrap().clear().await.unwrap();
            } else {
                cleaner.forget().await.unwrap();
            }
            // As many changes as before, by a session that knew the former log.
            fill(&memory, 75).await;
            let new = versions(&server).await;
            // A history that was cleared begins with a file that no entry created.
            assert_eq!(new.len(), 75 + usize::from(is_cleared));
            let text = json!(new).to_string();
            assert!(!text.contains(SECRET) && new.iter().all(|version| version["content"].is_string()), "{text}");
            for (kind, id) in [("memory_versions", &old_version), ("memories", &old_memory)] {
                let path = format!("{STORE}/{kind}/{}", id.as_str().unwrap());
                assert_eq!(server.refused("GET", &path, None).await.0, 404, "{path}");
            }
            let list = server.get(&format!("{STORE}/memories")).await;
            assert_eq!(list["data"].as_array().unwrap().len(), 1);
            assert_eq!(memory.history().unwrap().verify().await.unwrap().damage, Vec::<String>::new());
            memory.forget().await.unwrap();
        }
    }
}

/// The server knows the memory without a history, which another process then starts.
#[tokio::test(flavor = "multi_thread")]
async fn a_history_that_another_process_starts_refuses_no_change_of_a_server() {
    let (_directory, places) = places();
    for place in places {
        let server = Server::start(&place).await;
        let all = Grant::Name("alice".parse().unwrap());
        let agent = server.with_token(all, &[Right::Tool], false).await;
        let creating = server.with_token(Grant::All, &[Right::Tool], true).await;
        let tool = format!("{STORE}/tool");
        let insert = json!({"command": "insert", "path": "/memories/a.md", "insert_line": 0, "insert_text": "x"});
        let (status, missing) = server.send("POST", &tool, Some(insert.clone()), &[&creating]).await;
        assert!(status == 200 && missing["content"][0]["is_error"] == true, "{missing}");
        other(&place).await.write("/memories/a.md", "one").await.unwrap();
        let (_, inserted) = server.send("POST", &tool, Some(insert), &[&agent]).await;
        assert!(inserted["content"][0].get("is_error").is_none(), "{inserted}");
        other(&place).await.forget().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_never_reaches_another_memory_while_others_rename() {
    let (_directory, places) = places();
    for place in places {
        let server = Arc::new(Server::start(&place).await);
        let memory = other(&place).await;
        for name in ["A", "B"] {
            memory.write(format!("/memories/{name}.md").as_str(), name).await.unwrap();
        }
        let list = server.get(&format!("{STORE}/memories?view=full")).await;
        let ids: Vec<_> = list["data"].as_array().unwrap().iter().map(id).collect();
        let is_done = Arc::new(AtomicBool::new(false));
        let renaming = tokio::spawn({
            let (memory, is_done) = (memory.clone(), Arc::clone(&is_done));
            async move {
                while !is_done.load(Ordering::Relaxed) {
                    for (from, to) in [("A", "C"), ("B", "A"), ("C", "B")] {
                        let path = |name: &str| format!("/memories/{name}.md");
                        memory.rename(path(from).as_str(), path(to).as_str()).await.unwrap();
                    }
                    sleep(Duration::from_millis(20)).await; // or a slow machine makes more changes than it can read
                }
            }
        });
        for round in 0..15 {
            for (id, text) in ids.iter().zip(["A", "B"]) {
                let one = format!("{STORE}/memories/{id}");
                let (status, found) = server.send("GET", &one, None, &[]).await;
                let is_own = || found["content"].as_str().unwrap().starts_with(text);
                assert!(status == 503 || status == 200 && is_own(), "round {round}: {found}"); // or it is busy
                let new = format!("{text}{round}");
                let (status, updated) = server.send("POST", &one, Some(json!({"content": new})), &[]).await;
                let is_refused = matches!(status, 409 | 503);
                assert!(is_refused || status == 200 && updated["id"] == *id, "round {round}: {updated}");
            }
        }
        let (status, _) = server.send("DELETE", &format!("{STORE}/memories/{}", ids[0]), None, &[]).await;
        is_done.store(true, Ordering::Relaxed);
        drop(renaming.await);
        let left = memory.list("/memories").await.unwrap();
        if status == 200 {
            assert_eq!(left.len(), 1);
            let text = memory.read_to_string(left[0].path.as_str()).await.unwrap();
            assert!(text.starts_with('B'), "{text}");
        }
        for version in versions(&server).await {
            let (Some(content), file) = (version["content"].as_str(), &version["memory_id"]) else { continue };
            let own = if file == ids[0] { "A" } else { "B" };
            assert!(content.starts_with(own), "{version}");
        }
        memory.forget().await.unwrap();
    }
}

#[tokio::test]
async fn a_token_without_create_does_not_make_a_memory_again_that_another_process_deleted() {
    let (_directory, places) = places();
    for place in places {
        let server = Server::start(&place).await;
        other(&place).await.write("/memories/a.md", "text").await.unwrap();
        let agent = server.with_token(Grant::Name("alice".parse().unwrap()), &[Right::Tool, Right::Read], false).await;
        let call = |input: Value| {
            let (server, agent) = (&server, agent.clone());
            async move { server.send("POST", &format!("{STORE}/tool"), Some(input), &[&agent]).await }
        };
        assert_eq!(call(json!({"command": "view", "path": "/memories"})).await.0, 200);
        other(&place).await.forget().await.unwrap();
        let create = json!({"command": "create", "path": "/memories/b.md", "file_text": "text"});
        assert_eq!(call(create).await.0, 404);
        assert!(other(&place).await.list("/memories").await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn no_record_keeps_a_redacted_path_or_digest() {
    let (_directory, places) = places();
    for place in places {
        let server = Server::start(&place).await;
        let memory = other(&place).await;
        memory.write("/memories/a.md", "text").await.unwrap();
        let secret = new_memory(&server, STORE, &format!("/{SECRET}.md"), "PIN 4711").await;
        fill(&memory, 40).await;
        drop(versions(&server).await);
        let one = format!("{STORE}/memories/{}", id(&secret));
        server.post(&one, json!({"content": "clean", "path": "/clean.md"})).await;
        let history = memory.history().unwrap();
        let numbers: Vec<_> = history.entries(&LogFilter::new()).await.unwrap().iter().map(|it| it.number).collect();
        history.redact(&numbers[..1]).await.unwrap();
        history.redact(&numbers[numbers.len() - 2..]).await.unwrap();
        drop(versions(&server).await);
        assert_eq!(server.get(&one).await["content"], "clean");
        let digest = secret["content_sha256"].as_str().unwrap();
        let whole = memory.store();
        let records = whole.read_opts(&memory_tool::store::StorePath::records(), Default::default()).await.unwrap();
        for record in records.into_listing().files {
            let node = whole.read_opts(&record.path, Default::default()).await.unwrap();
            let text = String::from_utf8_lossy(&node.into_file().unwrap().content).into_owned();
            assert!(!text.contains(SECRET) && !text.contains(digest), "{}: {text}", record.path);
        }
        memory.forget().await.unwrap();
    }
}

#[tokio::test]
async fn pages_of_a_list_have_each_memory_once_beside_renames() {
    let (_directory, [place, _]) = places();
    let server = Server::start(&place).await;
    let memory = other(&place).await;
    for number in 10..30 {
        memory.write(format!("/memories/{number}.md").as_str(), "text").await.unwrap();
    }
    let (mut found, mut page) = (Vec::new(), String::new());
    for round in 0.. {
        let list = server.get(&format!("{STORE}/memories?limit=4{page}")).await;
        found.extend(list["data"].as_array().unwrap().iter().map(|memory| id(memory).to_owned()));
        // One from behind the page to before it, one from before the page to behind it.
        for (from, to) in [(29 - round, format!("0{round}")), (10 + round, format!("9{round}"))] {
            memory
                .rename(format!("/memories/{from}.md").as_str(), format!("/memories/{to}.md").as_str())
                .await
                .unwrap();
        }
        match list["next_page"].as_str() {
            Some(next) => page = format!("&page={next}"),
            None => break,
        }
    }
    let mut distinct = found.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!((found.len(), distinct.len()), (20, 20));
}
