//! A session of a thousand commands, many of them refused, whose results are compared with the engine's in memory.

use memory_tool_core::{Engine, Error, InMemoryStore, MemoryTool as _, Reply};
use serde_json::{Value, json};

use crate::failure::{CaseError, expect_text};
use crate::session::{Answer, create, delete, insert, rename, str_replace, view};
use crate::target::Target;

const COMMANDS: usize = 1_000;

/// Few paths, so that half of the commands are refused.
const PATHS: [&str; 6] =
    ["/memories/a.txt", "/memories/b.txt", "/memories/d/a.txt", "/memories/d/.b", "/memories/d/e/c.txt", "/memories/d"];

cases! {
    |target| &target;
    thousand_commands;
}

async fn thousand_commands(target: &Target) -> Result<(), CaseError> {
    let (client, expected) = (target.client(), Engine::new(InMemoryStore::new()));
    for number in 0..COMMANDS {
        let command = command(number);
        let step = format!("command {number}: {command}");
        let outcome = expected.call(command.clone()).await;
        let answer = client.send(command).await.map_err(|stop| stop.in_step(step.clone()))?;
        expect_same(&answer, &outcome).map_err(|stop| stop.in_step(step))?;
    }
    for path in PATHS {
        expect_same(&client.view(path).await?, &expected.call(view(path)).await)?;
    }
    Ok(())
}

/// Checks that a view shows the same lines of a file, and that another command succeeds or fails like the expected one.
fn expect_same(answer: &Answer, expected: &Result<Reply, Error>) -> Result<(), CaseError> {
    match expected {
        Ok(Reply::File(view)) => {
            let expected = view.to_string();
            let lines = expected.split_once('\n').map_or("", |(_, lines)| lines);
            answer.judge(expect_text(lines, answer.body()?))
        }
        outcome => answer.text(outcome.is_err()).map(drop),
    }
}

/// The same series of commands in each run, without a pattern.
fn command(number: usize) -> Value {
    // A linear congruential generator, whose high bits are good enough.
    let random = (number as u64 + 1).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let pick = |shift: u32, choices: usize| usize::try_from((random >> shift) % choices as u64).unwrap_or_default();
    let path = PATHS[pick(32, PATHS.len())];
    match pick(48, 12) {
        0..=2 => create(path, format!("file {number}\n")),
        3 | 4 => insert(path, pick(40, 5), format!("line {number}\n")),
        5 | 6 => str_replace(path, "line", &format!("word {number}")),
        7 => str_replace(path, "file", "line"),
        8 => delete(path),
        9 => rename(path, PATHS[pick(20, PATHS.len())]),
        10 => json!({"command": "view", "path": path, "view_range": [1, pick(40, 5)]}),
        _ => view(path),
    }
}
