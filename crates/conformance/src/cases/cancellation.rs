//! Dropped futures: no operation is applied in part.

use std::sync::Arc;
use std::time::Duration;

use memory_tool_core::{Batch, MemoryTool, Node, RecordName, Store, StoreError, StoreExt};
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::case::{Basis, Capability};
use crate::cases::CodeCase;
use crate::cases::bytes::{content, path, write};
use crate::failure::{CaseError, Failure};
use crate::target::{Target, check};

/// The number of operations to drop, each a little later than the one before.
const ROUNDS: u32 = 60;
/// How often and at what interval a case checks whether the store has settled; long enough for a busy machine.
const SETTLING_CHECKS: u32 = 400;
const BETWEEN_CHECKS: Duration = Duration::from_millis(25);

pub(crate) const CASES: &[CodeCase] = &[
    CodeCase {
        id: "cancellation.batch",
        clauses: &["X1"],
        basis: Basis::Project,
        needs: &[Capability::Store],
        reason: "a batch of files and a record is applied in part when its future is dropped",
        run: |target| Box::pin(async move { batch(target.store()?).await }),
    },
    CodeCase {
        id: "cancellation.rename",
        clauses: &["X1"],
        basis: Basis::Project,
        needs: &[Capability::Store],
        reason: "a directory is moved in part when the future of its rename is dropped",
        run: |target| Box::pin(async move { rename(target.store()?).await }),
    },
    CodeCase {
        id: "cancellation.edit",
        clauses: &["X1", "X3"],
        basis: Basis::Project,
        needs: &[Capability::Tool],
        reason: "an edit whose future is dropped happens twice, or blocks later edits",
        run: |target| Box::pin(async move { edit(&*target).await }),
    },
];

/// Runs the future for up to about a millisecond, longer in later rounds, then drops it.
async fn dropped<T>(round: u32, future: impl Future<Output = T>) -> Option<T> {
    let delay = Duration::from_micros(20) * round;
    timeout(delay, future).await.ok()
}

/// Waits until the store is in a valid state. A dropped operation may still be running in the background.
async fn expect_settled<F: Future<Output = Result<bool, CaseError>>>(
    is_whole: impl Fn() -> F,
) -> Result<(), CaseError> {
    for _ in 0..SETTLING_CHECKS {
        if is_whole().await? {
            return Ok(());
        }
        sleep(BETWEEN_CHECKS).await;
    }
    Err(Failure::new("a dropped operation was applied in part, and stayed so").into())
}

async fn batch(store: Arc<dyn Store>) -> Result<(), CaseError> {
    let name: RecordName = "suite/cancellation".parse()?;
    let numbered = |round: u32| {
        let content = round.to_string();
        let files = write("/memories/a/first", content.clone())?.write(path("/memories/z/last")?, content.clone());
        Ok::<_, CaseError>(files.write_record(name.clone(), content))
    };
    store.apply(numbered(0)?).await?;
    for round in 1..=ROUNDS {
        if let Some(outcome) = dropped(round, store.apply(numbered(round)?)).await {
            outcome?;
        }
        expect_settled(|| async {
            let first = content(&*store, "/memories/a/first").await?;
            let record = store.read_record(&name).await?.map(|record| record.content);
            Ok(first == content(&*store, "/memories/z/last").await? && record.as_ref() == Some(&first))
        })
        .await?;
    }
    Ok(())
}

async fn rename(store: Arc<dyn Store>) -> Result<(), CaseError> {
    const FILES: usize = 20;
    let ends = [path("/memories/here")?, path("/memories/there")?];
    let mut files = Batch::new();
    for number in 0..FILES {
        files = files.write(ends[0].join(&number.to_string())?, "x");
    }
    store.apply(files).await?;
    for round in 1..=ROUNDS {
        let here = matches!(store.read(&ends[0]).await?, Node::Directory(_));
        let (from, to) = if here { (&ends[0], &ends[1]) } else { (&ends[1], &ends[0]) };
        match dropped(round, store.apply(Batch::new().rename(from.clone(), to.clone()))).await {
            // The rename of the previous round finished after `here` was read.
            None | Some(Ok(()) | Err(StoreError::NotFound { .. })) => {}
            Some(Err(error)) => return Err(error.into()),
        }
        expect_settled(|| async {
            let counts = [store.list(&ends[0]).await?.len(), store.list(&ends[1]).await?.len()];
            Ok(counts == [FILES, 0] || counts == [0, FILES])
        })
        .await?;
    }
    Ok(())
}

async fn edit(target: &dyn Target) -> Result<(), CaseError> {
    let (tool, client): (Arc<dyn MemoryTool>, _) = (target.tool()?, target.client());
    let file = "/memories/log.txt";
    client.must_create(file, "").await?;
    let mut kept = Vec::new();
    for round in 1..=ROUNDS {
        let insert =
            json!({"command": "insert", "path": file, "insert_line": 0, "insert_text": format!("line {round}")});
        if dropped(round, tool.call(insert)).await.is_some() {
            kept.push(format!("line {round}"));
        }
    }
    client.insert(file, 0, "the end").await?.reply(&format!("The file {file} has been edited."))?;
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
