//! `[V8]`: what is too long for one `view` is read page by page, as Claude does by the note at the end of each.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashSet;

use memory_tool_core::{Batch, Engine, InMemoryStore, MemoryTool, Store};
use serde_json::{Value, json};

const FILE: &str = "/memories/long.txt";
const BYTES: usize = 2_000_000;
/// The characters of a file that one `view` shows, and room for the numbers and the note.
const PAGE: usize = 16_000;

#[tokio::test]
async fn every_byte_of_a_long_file_comes_once() {
    let text = long_text();
    let store = InMemoryStore::new();
    store.apply(Batch::new().write(FILE.parse().unwrap(), text.clone().into_bytes()).unwrap()).await.unwrap();
    let tool = Engine::new(store);
    let (mut read, mut range, mut pages) = (Vec::new(), Value::Null, 0);
    loop {
        let page = tool.call(json!({"command": "view", "path": FILE, "view_range": range})).await.unwrap().to_string();
        let numbered: Vec<_> = page.lines().filter_map(|line| line.trim_start().split_once('\t')).collect();
        assert!(numbered.iter().map(|(_, line)| line.chars().count() + 1).sum::<usize>() <= PAGE + 1);
        for (number, line) in numbered {
            assert_eq!(number, (read.len() + 1).to_string());
            read.push(line.to_owned());
        }
        pages += 1;
        match next_range(&page) {
            Some(next) => range = next,
            None => break,
        }
    }
    assert!(read.join("\n") == text, "what was read is not what was written");
    assert!(pages > BYTES / PAGE / 4, "{pages}");
}

/// Lines of all lengths that fit on a page, in several scripts.
fn long_text() -> String {
    let words = ["memory", "Grüße", "記憶", "🧠", "a b"];
    let mut text = String::new();
    for number in 0.. {
        if text.len() >= BYTES {
            break;
        }
        text.push_str(&words[number % words.len()].repeat(number * 7 % 150));
        text.push('\n');
    }
    text
}

/// The range that the note at the end of a page says to send next.
fn next_range(page: &str) -> Option<Value> {
    let (_, note) = page.lines().last()?.split_once("To read on, use view_range ")?;
    Some(serde_json::from_str(note.strip_suffix(".]")?).unwrap())
}

#[tokio::test]
async fn a_listing_of_10_000_files_is_cut_and_counts_the_rest() {
    const FILES: usize = 10_000;
    let batch = (0..FILES).fold(Batch::new(), |batch, number| {
        batch.write(format!("/memories/{number:05}.md").parse().unwrap(), Vec::new()).unwrap()
    });
    let store = InMemoryStore::new();
    store.apply(batch).await.unwrap();
    let page = Engine::new(store).call(json!({"command": "view", "path": "/memories"})).await.unwrap().to_string();
    let shown: HashSet<_> = page.lines().filter(|line| line.ends_with(".md")).collect();
    let note = format!("[{} more items are not shown. View a directory beneath to see them.]", FILES - shown.len());
    assert_eq!(page.lines().last(), Some(note.as_str()));
    assert!(page.chars().count() <= PAGE + note.len() + 1, "{}", page.chars().count());
    assert!(shown.len() > 500, "{}", shown.len());
}
