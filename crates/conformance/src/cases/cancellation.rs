//! Dropped futures: no operation is applied in part.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use memory_tool_core::{Batch, MemoryTool, Node, ReadOptions, Store, StoreError, StoreExt, StorePath};
use serde_json::Value;
use tokio::time::sleep;

use crate::cases::bytes::{file, path, shown, write};
use crate::failure::{CaseError, Failure, check};
use crate::session::{self, Client, create, delete, insert, str_replace};
use crate::target::Target;

/// The most polls after which an operation is dropped.
const MAX_POLLS: usize = 200;
/// How often a case drops its operations after each number of polls. Each time, threads are scheduled differently.
const PASSES: usize = 6;
/// How often and at what interval a case checks whether the store has settled; long enough for a busy machine.
const SETTLING_CHECKS: u32 = 400;
const BETWEEN_CHECKS: Duration = Duration::from_millis(25);

cases! {
    |target| &target.store()?;
    batch, rename;
    edit = |target| edit(&target);
    commands = |target| commands(&target);
}

/// Polls the future up to `polls` times, then drops it.
async fn dropped<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut polled = 0;
    poll_fn(|context| {
        polled += 1;
        match future.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if polled >= polls => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// The numbers of polls after which the operations of a case are dropped: one more each time, until an operation
/// completes. Then they start again.
struct Polls {
    polls: usize,
    pass: usize,
    /// The number of all operations so far.
    round: usize,
}

impl Polls {
    fn new() -> Self {
        Self { polls: 0, pass: 0, round: 0 }
    }

    /// The number of polls for the next operation, if there is one. `is_done` tells whether the last one completed.
    fn next(&mut self, is_done: bool) -> Option<usize> {
        let is_over = is_done || self.polls == MAX_POLLS;
        (self.polls, self.pass) = if is_over { (1, self.pass + 1) } else { (self.polls + 1, self.pass) };
        self.round += 1;
        (self.pass < PASSES).then_some(self.polls)
    }
}

/// Waits until the store is in a valid state, and returns it. A dropped operation may still run in the background.
async fn settled<T, F: Future<Output = Result<Option<T>, CaseError>>>(look: impl Fn() -> F) -> Result<T, CaseError> {
    for _ in 0..SETTLING_CHECKS {
        if let Some(state) = look().await? {
            return Ok(state);
        }
        sleep(BETWEEN_CHECKS).await;
    }
    Err(Failure::new("a dropped operation was applied in part, and stayed so").into())
}

async fn batch(store: &dyn Store) -> Result<(), CaseError> {
    let name: StorePath = "/records/suite/cancellation".parse()?;
    let numbered = |round: usize| {
        let content = round.to_string();
        let files = write("/memories/a/first", content.clone())?.write(path("/memories/z/last")?, content.clone());
        Ok::<_, CaseError>(files.write(name.clone(), content))
    };
    store.apply(numbered(0)?).await?;
    // The contents that the store may have: the last known one, and the contents of dropped batches.
    let mut possible = BTreeSet::from([b"0".to_vec()]);
    let (mut polls, mut is_done) = (Polls::new(), false);
    while let Some(count) = polls.next(is_done) {
        let round = polls.round;
        possible.insert(round.to_string().into_bytes());
        let outcome = dropped(count, store.apply(numbered(round)?)).await;
        is_done = outcome.is_some();
        outcome.transpose()?;
        let found = settled(|| async {
            let first = file(store, "/memories/a/first").await?.content;
            let record = store.read_opts(&name, ReadOptions::new()).await?.into_file().map(|record| record.content);
            let is_whole = first == file(store, "/memories/z/last").await?.content && record.as_ref() == Some(&first);
            Ok(is_whole.then_some(first))
        });
        let found = found.await?;
        check(possible.contains(&found), || {
            format!("after batch {round} was dropped, the files hold {:?} of an earlier one", shown(&found))
        })?;
    }
    Ok(())
}

async fn rename(store: &dyn Store) -> Result<(), CaseError> {
    const FILES: usize = 20;
    let ends = [path("/memories/here")?, path("/memories/there")?];
    let mut files = Batch::new();
    for number in 0..FILES {
        files = files.write(ends[0].join(&number.to_string())?, "x");
    }
    store.apply(files).await?;
    let (mut polls, mut is_done) = (Polls::new(), false);
    while let Some(count) = polls.next(is_done) {
        let here = matches!(store.read(&ends[0]).await?, Node::Directory(_));
        let (from, to) = if here { (&ends[0], &ends[1]) } else { (&ends[1], &ends[0]) };
        let outcome = dropped(count, store.apply(Batch::new().rename(from.clone(), to.clone()))).await;
        is_done = outcome.is_some();
        match outcome {
            // The rename of the previous round finished after `here` was read.
            None | Some(Ok(()) | Err(StoreError::NotFound { .. })) => {}
            Some(Err(error)) => return Err(error.into()),
        }
        settled(|| async {
            let listed = store.list(StorePath::memories()).await?;
            let counts = [&ends[0], &ends[1]].map(|end| listed.iter().filter(|file| file.path.is_under(end)).count());
            Ok((counts == [FILES, 0] || counts == [0, FILES]).then_some(()))
        })
        .await?;
    }
    Ok(())
}

async fn edit(target: &Target) -> Result<(), CaseError> {
    let (tool, client): (Arc<dyn MemoryTool>, _) = (target.tool()?, target.client());
    let file = "/memories/log.txt";
    client.must_create(file, "").await?;
    let mut kept = Vec::new();
    let (mut polls, mut is_done) = (Polls::new(), false);
    while let Some(count) = polls.next(is_done) {
        let line = format!("line {}", polls.round);
        is_done = dropped(count, tool.call(insert(file, 0, line.clone()))).await.is_some();
        if is_done {
            kept.push(line);
        }
    }
    client.insert(file, 0, "the end").await?.text(false)?;
    kept.push("the end".to_owned());
    let text = client.text(file).await?;
    let lines: Vec<_> = text.lines().collect();
    for line in &kept {
        check(lines.contains(&line.as_str()), || format!("{line:?} was acknowledged, but is lost"))?;
    }
    for line in &lines {
        let count = lines.iter().filter(|other| *other == line).count();
        check(line.is_empty() || count == 1, || format!("{line:?} was inserted {count} times"))?;
    }
    Ok(())
}

/// A command, and its files: the path of each relative to a directory, and its text before and after the command.
type Change = (fn(&str) -> Value, &'static [(&'static str, Option<&'static str>, Option<&'static str>)]);

/// Each command that changes something.
const CHANGES: [Change; 5] = [
    (|directory| create(format!("{directory}/d/a.txt"), "one\n"), &[("d/a.txt", None, Some("one\n"))]),
    (|directory| str_replace(format!("{directory}/a.txt"), "one", "two"), &[("a.txt", Some("one\n"), Some("two\n"))]),
    (|directory| insert(format!("{directory}/a.txt"), 1, "two"), &[("a.txt", Some("one\n"), Some("one\ntwo\n"))]),
    (
        |directory| session::rename(format!("{directory}/from"), format!("{directory}/to")),
        &[
            ("from/a.txt", Some("one\n"), None),
            ("from/b.txt", Some("two\n"), None),
            ("to/a.txt", None, Some("one\n")),
            ("to/b.txt", None, Some("two\n")),
        ],
    ),
    (
        |directory| delete(format!("{directory}/d")),
        &[("d/a.txt", Some("one\n"), None), ("d/b.txt", Some("two\n"), None)],
    ),
];

/// Drops each command after each number of polls. Each time, it is about other files, because a dropped command may
/// still be running in the background.
async fn commands(target: &Target) -> Result<(), CaseError> {
    let (tool, client) = (target.tool()?, target.client());
    for (number, (command, files)) in CHANGES.into_iter().enumerate() {
        let (mut polls, mut is_done) = (Polls::new(), false);
        while let Some(count) = polls.next(is_done) {
            let directory = format!("/memories/{number}-{}", polls.round);
            for (file, before, _) in files {
                if let Some(text) = before {
                    client.must_create(format!("{directory}/{file}"), *text).await?;
                }
            }
            let command = command(&directory);
            let step = format!("{command}, dropped after {count} polls");
            let outcome = dropped(count, tool.call(command)).await;
            is_done = outcome.is_some();
            if let Some(Err(error)) = outcome {
                return Err(Failure::new(format!("the command failed: {error}")).in_step(step).into());
            }
            let settled = settled(|| async {
                let mut found = Vec::new();
                for (file, ..) in files {
                    found.push(text_if_any(&client, &format!("{directory}/{file}")).await?);
                }
                let found = || found.iter().map(Option::as_deref);
                let is_after = found().eq(files.iter().map(|(_, _, after)| *after));
                let is_before = found().eq(files.iter().map(|(_, before, _)| *before));
                Ok((is_after || is_before && !is_done).then_some(()))
            });
            settled.await.map_err(|stop| stop.in_step(step))?;
        }
    }
    Ok(())
}

/// The text of a short file, if it exists. One view shows it whole, so no change comes between.
async fn text_if_any(client: &Client, path: &str) -> Result<Option<String>, CaseError> {
    let answer = client.view(path).await?;
    if answer.is_error() {
        return answer.error_with("does not exist").map(|()| None);
    }
    let lines: Vec<_> =
        answer.body()?.split('\n').map(|line| line.split_once('\t').map_or(line, |(_, text)| text)).collect();
    Ok(Some(lines.join("\n")))
}
