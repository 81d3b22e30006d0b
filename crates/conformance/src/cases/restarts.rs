//! Programs that are killed at any moment: acknowledged changes survive, and no change is applied in part.

use std::collections::{BTreeSet, VecDeque};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::future::{Either, select};
use memory_tool_core::MemoryPath;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::{spawn_blocking, yield_now};

use crate::cases::interruption::{Interruption, States, calls_of};
use crate::disk::on_disk;
use crate::failure::{CaseError, Failure, check, expect_text};
use crate::read_back;
use crate::sandbox::{self, CALLS_TO_SIGNAL, Call, Sandbox, Trace};
use crate::session::{Client, create, delete, insert, rename, str_replace, view_range};
use crate::target::Target;

/// How often a program is killed during a command, each time a little later.
const KILLS: u32 = 12;
/// At how many system calls of a command a program is killed.
const MOST_EXACT_KILLS: usize = 15;

/// A file in the directory `/memories/d`, and one in a directory in it.
const A: &str = "/memories/d/a.txt";
const B: &str = "/memories/d/e/b.txt";

cases! {
    |target| &target;
    acknowledged_changes_survive, odd_files, others_continue, changed_after_a_kill, bad_lines;
    killed_while_creating = |target| kill_in_the_middle(&target, &Interruption::creating());
    killed_while_editing = |target| kill_in_the_middle(&target, &Interruption::editing());
    killed_while_renaming = |target| kill_in_the_middle(&target, &Interruption::renaming());
    killed_while_deleting = |target| kill_in_the_middle(&target, &Interruption::deleting());
    killed_during_a_batch = |target| async move {
        kill_in_the_middle(&target, &Interruption::applying(&target).await?).await
    };
}

/// Checks that exactly these files exist, with these contents.
pub(super) async fn expect_files(client: &Client, expected: &[(&str, &str)]) -> Result<(), CaseError> {
    let paths: Result<Vec<MemoryPath>, _> = expected.iter().map(|(path, _)| path.parse()).collect();
    read_back::expect_files(client, &paths?).await?;
    for (path, text) in expected {
        client.expect_text(path, text).await?;
    }
    Ok(())
}

/// Runs each series of commands in a program, kills it when the last one is acknowledged, and checks what a new program
/// sees.
async fn acknowledged_changes_survive(target: &Target) -> Result<(), CaseError> {
    let both = || vec![create(A, "a"), create(B, "b")];
    let then = |mut commands: Vec<Value>, command| {
        commands.push(command);
        commands
    };
    let mut client = target.process_client().await?;
    for (commands, files) in [
        (vec![create(A, "one\ntwo\n")], &[(A, "one\ntwo\n")][..]),
        (vec![create(A, "one\n"), str_replace(A, "one", "two")], &[(A, "two\n")]),
        (vec![create(A, "two\n"), insert(A, 0, "one")], &[(A, "one\ntwo\n")]),
        (then(both(), delete(A)), &[(B, "b")]),
        (then(then(both(), create("/memories/d2", "c")), delete("/memories/d")), &[("/memories/d2", "c")]),
        (vec![create(A, "a"), rename(A, "/memories/f/a")], &[("/memories/f/a", "a")]),
        (
            then(both(), rename("/memories/d", "/memories/f/g")),
            &[("/memories/f/g/a.txt", "a"), ("/memories/f/g/e/b.txt", "b")],
        ),
    ] {
        let last = commands.last().map(Value::to_string).unwrap_or_default();
        for command in commands {
            client.send(command).await?.text(false)?;
        }
        client.kill().await?;
        client = target.process_client().await?;
        let survived = async {
            expect_files(&client, files).await?;
            for (path, _) in files {
                client.delete(path).await?.text(false)?;
            }
            read_back::expect_files(&client, &[]).await
        };
        survived.await.map_err(|stop| stop.in_step(format!("after a kill after {last}")))?;
    }
    Ok(())
}

/// Names that a program may take for its own, or for leftovers of another one. Another one has a blank.
const ODD_NAMES: &str = "\
    a.tmp .tmp tmp .tmp-1 tmp.1234 tmpab12cd a.txt.tmp .a.txt.swp a~ ~ ~a #a# .#a a.lock .lock lock LOCK \
    a.bak a.part a.new a.old a.journal a-wal a.log a.pid .hidden .git/HEAD .git/index.lock .DS_Store \
    .nfs0001 lost+found node_modules/a.js -a -rf %41 a% * _ index sequence manifest.json memory.db \
    memories records/a trash/a .trash/a é 日本 😀";

/// Files with odd names and contents are the same after the program is killed and started again.
async fn odd_files(target: &Target) -> Result<(), CaseError> {
    const TEXTS: [&str; 7] = ["", "a", "a\n", "\n", "a\r\nb\r\n", " \t", "\u{feff}a"];
    let mut client = target.process_client().await?;
    let mut files = Vec::new();
    let names: Vec<_> = ODD_NAMES.split(' ').chain(["a b"]).collect();
    for (name, text) in names.iter().zip(TEXTS.into_iter().cycle()) {
        let path: MemoryPath = format!("/memories/{name}").parse()?;
        // Not every backend can store every name.
        if !client.create(&path, text).await?.is_error() {
            files.push((path, text));
        }
    }
    check(files.len() > names.len() / 2, || format!("only {} odd names are accepted", files.len()))?;
    for _ in 0..2 {
        client.kill().await?;
        for (path, text) in &files {
            target.expect_content(path, text.as_bytes()).await?;
        }
        client = target.process_client().await?;
        let paths: Vec<_> = files.iter().map(|(path, _)| path.clone()).collect();
        read_back::expect_files(&client, &paths).await?;
        for (path, text) in &files {
            client.expect_text(path, text).await?;
        }
        client.must_create("/memories/new", "text").await?;
        client.delete("/memories/new").await?.text(false)?;
    }
    Ok(())
}

/// Kills a program at many moments during a command: before each of its system calls if they can be traced, and after
/// other delays.
async fn kill_in_the_middle(target: &Target, interruption: &Interruption) -> Result<(), CaseError> {
    let mut client = target.process_client().await?;
    interruption.prepare(&client).await?;
    let before = interruption.look(&client).await?;
    let start = Instant::now();
    client.send(interruption.command.clone()).await?.text(false)?;
    let course = start.elapsed();
    let after = interruption.look(&client).await?;
    let traces = on_disk("make a directory", TempDir::new).await?;
    let trace = |name: &str| Trace(traces.path().join(name));
    let mut moments = VecDeque::new();
    if target.limits.has_tracing && sandbox::expect_tracing().await.is_ok() {
        interruption.clear(&client).await?;
        interruption.prepare(&client).await?;
        let calls = calls_of(target, &interruption.command, trace("all"), CALLS_TO_SIGNAL).await?;
        client = target.process_client().await?; // a store for one process ends the programs before
        moments.extend(chosen(calls).map(|call| Sandbox::Signal("KILL", call, trace("one"))).map(Some));
    }
    let kills = if moments.is_empty() { KILLS } else { KILLS / 4 };
    moments.extend((0..kills).map(|_| None));
    for (kill, exactly) in (0..).zip(moments) {
        interruption.clear(&client).await?;
        interruption.prepare(&client).await?;
        let (doomed, event) = match &exactly {
            Some(sandbox @ Sandbox::Signal(_, call, _)) => {
                (target.process_client_under(sandbox).await?, format!("when the program is killed before {call}"))
            }
            _ => (client, "when the program is killed during it".to_owned()),
        };
        let is_acknowledged = match (exactly, interruption.views.first()) {
            // It may be killed sooner or later than the calls were counted.
            (Some(_), _) => {
                let answer = doomed.send(interruption.command.clone()).await;
                doomed.kill().await?;
                answer.is_ok_and(|answer| !answer.is_error())
            }
            (None, Some(view)) if kill % 2 == 0 && target.limits.has_concurrency => {
                let moment = Moment::FirstSign { onlooker: target.client(), view: view.clone() };
                send_and_kill(&doomed, &interruption.command, moment).await?
            }
            _ => send_and_kill(&doomed, &interruption.command, Moment::After(course * (kill % KILLS) / KILLS)).await?,
        };
        client = target.process_client().await?;
        fence(&client).await?;
        let found = interruption.look(&client).await?;
        interruption.judge(&event, is_acknowledged, &States { before: &before, after: &after, found: &found })?;
    }
    Ok(())
}

/// At most [`MOST_EXACT_KILLS`] of the calls. Calls that change names come first, because they are steps of a change.
fn chosen(calls: Vec<Call>) -> impl Iterator<Item = Call> {
    let names = ["rename", "link", "unlink", "rmdir", "mkdir"];
    let is_naming = |call: &Call| names.iter().any(|name| call.name.starts_with(name));
    let (naming, others): (Vec<_>, Vec<_>) = calls.into_iter().partition(is_naming);
    let naming: Vec<_> = spread(naming, MOST_EXACT_KILLS * 2 / 3).collect();
    let others = spread(others, MOST_EXACT_KILLS - naming.len());
    naming.into_iter().chain(others)
}

/// At most `most` of the calls, evenly spread, with the first and the last.
fn spread(calls: Vec<Call>, most: usize) -> impl Iterator<Item = Call> {
    let last = calls.len().saturating_sub(1);
    let chosen: BTreeSet<_> = (0..most).map(|number| number * last / most.saturating_sub(1).max(1)).collect();
    calls.into_iter().enumerate().filter(move |(number, _)| chosen.contains(number)).map(|(_, call)| call)
}

/// Creates and deletes a hidden file. The storage may not have received the last request of a killed program yet. That
/// request must not take effect after this change.
pub(super) async fn fence(client: &Client) -> Result<(), CaseError> {
    const FILE: &str = "/memories/.fence";
    client.must_create(FILE, "text").await?;
    client.delete(FILE).await?.text(false).map(drop)
}

/// When to kill a program after a command is sent.
pub(super) enum Moment {
    /// After this delay.
    After(Duration),
    /// As soon as another client sees a change, if that happens before the response.
    FirstSign { onlooker: Client, view: Value },
}

impl Moment {
    /// Waits for the moment, except if `is_over` is set first.
    async fn wait(self, is_over: &AtomicBool) -> Result<(), CaseError> {
        match self {
            // The runtime's timer is too coarse: a command can take less than its millisecond.
            Self::After(delay) => {
                let slept = spawn_blocking(move || std::thread::sleep(delay)).await;
                slept.map_err(|error| Failure::new(error.to_string()).into())
            }
            Self::FirstSign { onlooker, view } => {
                let before = onlooker.send(view.clone()).await?.result;
                while !is_over.load(Ordering::Relaxed) && onlooker.send(view.clone()).await?.result == before {
                    yield_now().await; // the tool may never yield
                }
                Ok(())
            }
        }
    }
}

/// Sends a command and kills the program at the given moment. Returns whether the command was acknowledged first.
pub(super) async fn send_and_kill(client: &Client, command: &Value, moment: Moment) -> Result<bool, CaseError> {
    let is_over = AtomicBool::new(false);
    let is_acknowledged = {
        let moment = pin!(moment.wait(&is_over));
        let answer = pin!(client.send(command.clone()));
        match select(answer, moment).await {
            Either::Left((answer, moment)) => {
                is_over.store(true, Ordering::Relaxed);
                moment.await?; // wait for the response to the last view
                answer?.text(false).map(|_| true)?
            }
            Either::Right((awaited, _)) => awaited.map(|()| false)?,
        }
    }; // drops the unanswered call
    client.kill().await?;
    Ok(is_acknowledged)
}

/// Kills a program during an edit. A running one then deletes, renames or replaces the file, and a new one starts. It
/// must not bring back the text of the killed one.
async fn changed_after_a_kill(target: &Target) -> Result<(), CaseError> {
    const DELAYS: u64 = 3;
    const EXACT_KILLS: usize = 6;
    let [path, moved, line] = ["/memories/d/a.txt", "/memories/e/a.txt", "of the killed program"];
    let old = "old text\n".repeat(20_000);
    let (survivor, edit) = (target.client(), insert(path, 0, line));
    survivor.must_create(path, old.as_str()).await?;
    let traces = on_disk("make a directory", TempDir::new).await?;
    let trace = |name: &str| Trace(traces.path().join(name));
    let mut moments: Vec<_> = (0..DELAYS).map(|_| None).collect();
    if target.limits.has_tracing && sandbox::expect_tracing().await.is_ok() {
        let calls = calls_of(target, &edit, trace("all"), CALLS_TO_SIGNAL).await?;
        let calls = spread(chosen(calls).collect(), EXACT_KILLS);
        moments = calls.map(|call| Some(Sandbox::Signal("KILL", call, trace("one")))).collect();
    }
    for (number, moment) in (1..).zip(&moments) {
        for (changes, left) in [
            (vec![delete(path)], None),
            (vec![rename(path, moved)], Some((moved, old.as_str()))),
            (vec![delete(path), create(path, "new text")], Some((path, "new text"))),
        ] {
            for leftover in [path, moved] {
                survivor.delete_if_any(leftover).await?;
            }
            survivor.must_create(path, old.as_str()).await?;
            kill_during(target, &edit, moment.as_ref(), Duration::from_millis(number)).await?;
            for change in changes {
                survivor.send(change).await?.text(false)?;
            }
            let newcomer = target.process_client().await?;
            fence(&newcomer).await?;
            for client in [&newcomer, &survivor] {
                let event =
                    "after a program was killed during an edit, another changed its file, and a new one started";
                expect_left(client, left, line).await.map_err(|stop| stop.in_step(event))?;
            }
        }
    }
    Ok(())
}

/// Starts a program, and kills it during a command: at a system call, or after a delay.
async fn kill_during(
    target: &Target,
    command: &Value,
    exactly: Option<&Sandbox>,
    delay: Duration,
) -> Result<(), CaseError> {
    if let Some(sandbox) = exactly {
        let doomed = target.process_client_under(sandbox).await?;
        let _ = doomed.send(command.clone()).await; // it may be killed sooner or later
        return doomed.kill().await;
    }
    let doomed = target.process_client().await?;
    doomed.view("/memories").await?.text(false)?;
    send_and_kill(&doomed, command, Moment::After(delay)).await.map(drop)
}

/// Checks that nothing exists but this file, with or without another first line.
async fn expect_left(client: &Client, left: Option<(&str, &str)>, first_line: &str) -> Result<(), CaseError> {
    let paths: Result<Vec<MemoryPath>, _> = left.iter().map(|(path, _)| path.parse()).collect();
    read_back::expect_files(client, &paths?).await?;
    let Some((path, text)) = left else { return Ok(()) };
    let found = client.text(path).await?;
    expect_text(text, found.strip_prefix(&format!("{first_line}\n")).unwrap_or(&found))
}

/// Kills a program during a series of edits. An older session must see its last edit and be able to continue.
async fn others_continue(target: &Target) -> Result<(), CaseError> {
    let path = "/memories/log.txt";
    let survivor = target.client();
    // Long enough that most of the time is spent reading and writing it.
    survivor.must_create(path, "edits: 0.\nkills: none.\n".to_owned() + &"x".repeat(100_000)).await?;
    let mut kills = "none".to_owned();
    let mut edits = 0;
    for kill in 0..KILLS {
        let program = target.process_client().await?;
        program.view("/memories").await?.text(false)?;
        let delay = Duration::from_micros(3_000 + u64::from(kill) * 7_919 % 11_000);
        let acknowledged = edit_until_killed(&program, path, edits, delay).await?;
        // The storage may not have received the last edit yet. That edit must not take effect after this one.
        let [old, new] = [format!("kills: {kills}."), format!("kills: {kill}.")];
        survivor.str_replace(path, &old, &new).await?.text(false)?;
        kills = kill.to_string();
        let first_line = survivor.send(view_range(path, 1, 1)).await?;
        let found = first_line.text(false)?.rsplit("edits: ").next().and_then(|number| number.strip_suffix('.'));
        let found = found.and_then(|number| number.parse::<u64>().ok());
        let found = found.ok_or_else(|| first_line.wrong("the first line is not the number of edits"))?;
        check(found == acknowledged || found == acknowledged + 1, || {
            format!("edit {acknowledged} was the last acknowledged one, but edit {found} is stored")
        })?;
        edits = found + 1;
        survivor.str_replace(path, &format!("edits: {found}."), &format!("edits: {edits}.")).await?.text(false)?;
        survivor.must_create(format!("/memories/{kill}/a.txt"), "text").await?;
        survivor.rename(format!("/memories/{kill}"), "/memories/moved").await?.text(false)?;
        survivor.delete("/memories/moved").await?.text(false)?;
    }
    Ok(())
}

/// Counts up in the first line of a file, kills the program after the delay, and returns the last acknowledged number.
async fn edit_until_killed(program: &Client, path: &str, start: u64, delay: Duration) -> Result<u64, CaseError> {
    let acknowledged = AtomicU64::new(start);
    {
        let editing = pin!(async {
            for number in start.. {
                let (old, new) = (format!("edits: {number}."), format!("edits: {}.", number + 1));
                program.str_replace(path, &old, &new).await?.text(false)?;
                acknowledged.store(number + 1, Ordering::Relaxed);
            }
            Ok::<_, CaseError>(())
        });
        if let Either::Left((ended, _)) = select(editing, spawn_blocking(move || std::thread::sleep(delay))).await {
            ended?;
        }
    } // drops the unfinished edit
    program.kill().await?;
    Ok(acknowledged.load(Ordering::Relaxed))
}

async fn bad_lines(target: &Target) -> Result<(), CaseError> {
    let client = target.process_client().await?;
    client.must_create("/memories/a.txt", "text").await?;
    let long = "x".repeat(5_000_000);
    for line in [
        "view /memories",
        "{\"command\":\"delete\",\"path\":\"/memories/a.txt\"",
        "null",
        &long,
        &json!({ "command": long }).to_string(),
        r#"{"command":"append","path":"/memories/a.txt"}"#,
        r#"{"command":"create","path":"/memories/b.txt"}"#,
        r#"{"command":"insert","path":"/memories/a.txt","insert_line":"0","insert_text":"x"}"#,
        r#"{"command":"create","path":"/memories/\ud800.txt","file_text":""}"#,
        r#"{"command":"create","path":"/memories/b.txt","file_text":"\ud800"}"#,
    ] {
        client.send_line(line).await?.text(true)?;
        expect_files(&client, &[("/memories/a.txt", "text")]).await?;
    }
    // The program may accept or refuse it, but must answer.
    let answer = client.create("/memories/long.txt", long).await?;
    if !answer.result["content"].is_string() {
        return Err(answer.wrong("expected a text"));
    }
    client.expect_text("/memories/a.txt", "text").await
}
