//! What is stored, as far as `view` shows it: for backends of which nothing else can be asked.

use std::collections::BTreeSet;

use memory_tool_core::MemoryPath;
use serde_json::json;

use crate::failure::{Stop, expect_text};
use crate::subject::{Client, sorted_lines};

/// The bytes of a text file, put together again from the numbered lines of as many views as it takes.
pub(crate) async fn content(client: &Client, path: &MemoryPath) -> Result<Vec<u8>, Stop> {
    let mut lines: Vec<String> = Vec::new();
    loop {
        let next = lines.len() + 1;
        let input = if lines.is_empty() {
            json!({"command": "view", "path": path.as_str()})
        } else {
            json!({"command": "view", "path": path.as_str(), "view_range": [next, -1]})
        };
        let answer = client.send(input).await?;
        let text = answer.text(false)?;
        // Whether the header is right is for other cases to say.
        let Some((_, numbered)) = text.split_once('\n') else {
            return Err(answer.wrong("expected a header and numbered lines"));
        };
        let mut is_cut = false;
        for shown in numbered.split('\n') {
            match shown.split_once('\t') {
                Some((number, line)) if number.trim_start().parse() == Ok(lines.len() + 1) => {
                    lines.push(line.to_owned());
                }
                None if shown.starts_with("[Showing lines ") && lines.len() >= next => is_cut = true,
                _ => return Err(answer.wrong(format!("expected line {}, got {shown:?}", lines.len() + 1))),
            }
        }
        if !is_cut {
            return Ok(lines.join("\n").into_bytes());
        }
    }
}

/// Checks that these are all the files. Hidden ones are asked for by name, as no listing shows them.
pub(crate) async fn expect_files(client: &Client, expected: &[MemoryPath]) -> Result<(), Stop> {
    let (hidden, visible): (Vec<_>, Vec<_>) = expected.iter().cloned().partition(is_hidden);
    let listed = listed_files(client).await?;
    expect_text(&sorted_lines(visible), &sorted_lines(listed))?;
    for path in hidden {
        client.view(&path).await?.text(false)?;
    }
    Ok(())
}

fn is_hidden(path: &MemoryPath) -> bool {
    path.segments().any(|segment| segment.starts_with('.') || segment == "node_modules")
}

/// Every file that listings lead to.
async fn listed_files(client: &Client) -> Result<Vec<MemoryPath>, Stop> {
    let mut files = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut directories = vec!["/memories/".to_owned()];
    while let Some(directory) = directories.pop() {
        if !seen.insert(directory.clone()) {
            continue;
        }
        let answer = client.view(directory.trim_end_matches('/')).await?;
        for line in answer.text(false)?.split('\n').skip(2) {
            let Some((_, path)) = line.split_once('\t') else {
                return Err(answer.wrong(format!("expected an item of a listing, got {line:?}")));
            };
            if path.ends_with('/') {
                directories.push(path.to_owned());
            } else {
                let file = path.parse().map_err(|_| answer.wrong(format!("{path:?} is no path")))?;
                files.insert(file);
            }
        }
    }
    Ok(files.into_iter().collect())
}
