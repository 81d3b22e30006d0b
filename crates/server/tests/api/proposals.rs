//! The pages of changes that wait.

use memory_tool::history::LogFilter;
use memory_tool::{Actor, Memory};

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
    let fields = [("revision", revision.as_str()), ("action", "drop"), ("file-0", "on")];
    assert_eq!(browser.submit("/memory/alice/proposal/nightly", &fields).await.status, 303);
    assert!(!browser.get("/memory/alice").await.text.contains("waits"));
}
