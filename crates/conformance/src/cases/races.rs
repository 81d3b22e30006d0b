//! Concurrent clients: no edit is lost, each race has one winner, and no client sees a partial change.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::Barrier;
use tokio::task::yield_now;

use crate::cases::Code;
use crate::cases::threads::Threads;
use crate::failure::{CaseError, Failure, check, expect_text};
use crate::read_back;
use crate::session::{Answer, Client, create, delete, rename, str_replace, view, view_range};
use crate::target::Target;

/// How often the views of a race run at least, unless the race takes too long.
const LOOKS: usize = 10;
const LONGEST_RACE: Duration = Duration::from_secs(2);

/// Defines each race twice: for clients in this process, and for separate programs.
macro_rules! races {
    ($($race:ident $of_processes:literal),+ $(,)?) => {
        pub(crate) const OF_EQUAL_CLIENTS: &[(&str, Code)] = &[$(
            (stringify!($race), |target| Box::pin(async move { $race(&target, Contenders::Sessions).await })),
            ($of_processes, |target| Box::pin(async move { $race(&target, Contenders::Processes).await })),
        )+];
    };
}

races! {
    inserts "inserts_of_processes",
    replacements "replacements_of_processes",
    replacements_of_own_words "replacements_of_own_words_by_processes",
    creates "creates_of_processes",
    renames_to_one_path "renames_to_one_path_of_processes",
    renames_of_one_path "renames_of_one_path_of_processes",
    deletes "deletes_of_processes",
    edits_against_recreation "edits_against_recreation_by_processes",
    views_of_a_file "views_of_a_file_by_processes",
    views_of_a_directory "views_of_a_directory_by_processes",
    views_of_a_swap "views_of_a_swap_by_processes",
    sees_others "sees_other_processes",
}

cases! {
    |target| &target;
    delete_against_creates;
}

/// The kind of clients in a race.
#[derive(Clone, Copy)]
pub(super) enum Contenders {
    /// Tasks of two sessions, or of one if the memory cannot be opened twice. With a program under test, each session
    /// is a separate program.
    Sessions,
    /// Two separate programs, because more take long to start.
    Processes,
}

impl Contenders {
    /// This many clients, or two programs.
    pub(super) async fn clients(self, target: &Target, count: usize) -> Result<Vec<Client>, CaseError> {
        let clients = match self {
            Self::Sessions => {
                let other = target.another_client_if_any().await?;
                [target.client(), other].into_iter().cycle().take(count).collect()
            }
            Self::Processes => vec![target.process_client().await?, target.process_client().await?],
        };
        for client in &clients {
            client.view("/memories").await?; // waits until a program has started, so that no client has a head start
        }
        Ok(clients)
    }

    /// The number of races, four clients or two programs, and another client, which looks at the outcomes.
    async fn line_up(self, target: &Target) -> Result<(usize, Vec<Client>, Client), CaseError> {
        Ok((target.limits.races, self.clients(target, 4).await?, target.client()))
    }
}

/// Lets all clients act at the same time, and returns the results in the order of the clients.
async fn at_once<T, F>(clients: &[Client], act: impl Fn(usize, Client) -> F) -> Result<Vec<T>, CaseError>
where
    T: Send + 'static,
    F: Future<Output = Result<T, CaseError>> + Send + 'static,
{
    let mut threads = Threads::new();
    let start = Arc::new(Barrier::new(clients.len()));
    for (number, client) in clients.iter().enumerate() {
        let (start, act) = (Arc::clone(&start), act(number, client.clone()));
        threads.spawn(async move {
            start.wait().await;
            Ok((number, act.await?))
        });
    }
    Ok(threads.join().await?.into_iter().collect::<BTreeMap<_, _>>().into_values().collect())
}

/// Runs a number of races between all clients, and returns the winner of each. In each race, exactly one client must
/// succeed and all others must get an error that contains `error`.
///
/// The clients do not wait for each other between races: losing takes less time than winning, so late clients catch up.
async fn race(
    races: usize,
    clients: &[Client],
    command: impl Fn(usize, usize) -> Value,
    error: &str,
) -> Result<Vec<usize>, CaseError> {
    let answers = at_once(clients, |number, client| {
        let commands: Vec<_> = (0..races).map(|race| command(race, number)).collect();
        async move {
            let mut answers = Vec::new();
            for command in commands {
                answers.push(client.send(command).await?);
            }
            Ok(answers)
        }
    });
    let mut answers: Vec<_> = answers.await?.into_iter().map(Vec::into_iter).collect();
    (0..races).map(|_| winner(answers.iter_mut().filter_map(Iterator::next), error)).collect()
}

fn winner(answers: impl Iterator<Item = Answer>, error: &str) -> Result<usize, CaseError> {
    let (losers, mut winners): (Vec<_>, Vec<_>) = answers.enumerate().partition(|(_, answer)| answer.is_error());
    for (_, winner) in &winners {
        winner.text(false)?;
    }
    let winner = winners.pop();
    if let Some((_, other)) = winners.pop() {
        return Err(other.wrong("several clients succeeded in one race"));
    }
    for (_, loser) in losers {
        loser.error_with(error)?;
    }
    winner.map(|(number, _)| number).ok_or_else(|| Failure::new("no client succeeded in a race").into())
}

/// Enough nested directories that creating or removing them takes time.
const DEEP: &str = "/a/b/c/d/e";

/// The file to create for this race: `path` itself in even races, and a file inside the directory `path` in odd ones.
fn file_at(race: usize, path: &str) -> String {
    if race.is_multiple_of(2) { path.to_owned() } else { format!("{path}{DEEP}") }
}

/// A line that makes a file large, because slower reads and writes overlap more often.
pub(super) fn long_line() -> String {
    "x".repeat(10_000)
}

/// Each client inserts a line for every four races, or for every two if there are only two clients.
async fn inserts(target: &Target, contenders: Contenders) -> Result<(), CaseError> {
    let path = "/memories/log.txt";
    let clients = contenders.clients(target, 8).await?;
    let inserts = target.limits.races.div_ceil(clients.len().min(4));
    let last = long_line();
    target.client().must_create(path, format!("{last}\n")).await?;
    let line = |writer, number| format!("{writer}-{number}");
    let writing = at_once(&clients, |writer, client| async move {
        for number in 0..inserts {
            client.insert(path, 0, line(writer, number)).await?.text(false)?;
        }
        Ok(())
    });
    writing.await?;
    let text = target.client().text(path).await?;
    let mut lines: Vec<_> = text.lines().collect();
    check(lines.pop() == Some(last.as_str()), || "the original line is lost".to_owned())?;
    for writer in 0..clients.len() {
        // Each line is inserted at the start, so each writer's lines are in reverse order.
        let own: Vec<_> = lines.iter().filter(|line| line.starts_with(&format!("{writer}-"))).copied().collect();
        let expected: Vec<_> = (0..inserts).rev().map(|number| line(writer, number)).collect();
        expect_text(&expected.join("\n"), &own.join("\n"))?;
    }
    let expected = clients.len() * inserts;
    check(lines.len() == expected, || format!("found {} inserted lines instead of {expected}", lines.len()))
}

async fn replacements(target: &Target, contenders: Contenders) -> Result<(), CaseError> {
    let (races, clients, looker) = contenders.line_up(target).await?;
    let path = |number: usize| format!("/memories/{number}.txt");
    let new = |number: usize| format!("from {number}");
    let above = long_line();
    for number in 0..races {
        looker.must_create(path(number), format!("{above}\nthe same\nbelow")).await?;
    }
    let replace = |number, contender| str_replace(path(number), "the same", &new(contender));
    for (number, winner) in race(races, &clients, replace, "did not appear verbatim").await?.into_iter().enumerate() {
        looker.expect_text(path(number), &format!("{above}\n{}\nbelow", new(winner))).await?;
    }
    Ok(())
}

/// Each client replaces its own word in one file, always by a word of the same length.
async fn replacements_of_own_words(target: &Target, contenders: Contenders) -> Result<(), CaseError> {
    let path = "/memories/words.txt";
    let clients = contenders.clients(target, 4).await?;
    let edits = target.limits.races.div_ceil(clients.len());
    let word = |client: usize, number: usize| format!("word {number:04} of client {client}");
    let text = |number| (0..clients.len()).map(|client| word(client, number) + "\n").collect::<String>();
    target.client().must_create(path, text(0)).await?;
    let writing = at_once(&clients, |writer, client| async move {
        for number in 0..edits {
            client.str_replace(path, &word(writer, number), &word(writer, number + 1)).await?.text(false)?;
        }
        Ok(())
    });
    writing.await?;
    target.client().expect_text(path, &text(edits)).await
}

async fn creates(target: &Target, contenders: Contenders) -> Result<(), CaseError> {
    let (races, clients, looker) = contenders.line_up(target).await?;
    let path = |number: usize| format!("/memories/{number}{DEEP}");
    let text = |contender: usize| "x".repeat(contender * 1_000) + &contender.to_string();
    let create = |number, contender| create(path(number), text(contender));
    for (number, winner) in race(races, &clients, create, "already exists").await?.into_iter().enumerate() {
        looker.expect_text(path(number), &text(winner)).await?;
    }
    Ok(())
}

async fn renames_to_one_path(target: &Target, contenders: Contenders) -> Result<(), CaseError> {
    let (races, clients, looker) = contenders.line_up(target).await?;
    let from = |number: usize, contender: usize| format!("/memories/from-{contender}/{number}");
    let to = |number: usize| format!("/memories/to/{number}{DEEP}");
    for number in 0..races {
        for contender in 0..clients.len() {
            looker.must_create(file_at(number, &from(number, contender)), contender.to_string()).await?;
        }
    }
    let rename = |number, contender| rename(from(number, contender), to(number));
    for (number, winner) in race(races, &clients, rename, "already exists").await?.into_iter().enumerate() {
        looker.expect_text(file_at(number, &to(number)), &winner.to_string()).await?;
        for contender in 0..clients.len() {
            let path = from(number, contender);
            if contender == winner {
                looker.expect_absent(path).await?;
            } else {
                looker.expect_text(file_at(number, &path), &contender.to_string()).await?;
            }
        }
    }
    Ok(())
}

async fn renames_of_one_path(target: &Target, contenders: Contenders) -> Result<(), CaseError> {
    let (races, clients, looker) = contenders.line_up(target).await?;
    let from = |number: usize| format!("/memories/from/{number}");
    let to = |number: usize, contender: usize| format!("/memories/to-{contender}/{number}{DEEP}");
    for number in 0..races {
        looker.must_create(file_at(number, &from(number)), "moved").await?;
    }
    let rename = |number, contender| rename(from(number), to(number, contender));
    for (number, winner) in race(races, &clients, rename, "does not exist").await?.into_iter().enumerate() {
        looker.expect_absent(from(number)).await?;
        for contender in 0..clients.len() {
            let path = to(number, contender);
            if contender == winner {
                looker.expect_text(file_at(number, &path), "moved").await?;
            } else {
                looker.expect_absent(path).await?;
            }
        }
    }
    Ok(())
}

async fn deletes(target: &Target, contenders: Contenders) -> Result<(), CaseError> {
    let (races, clients, looker) = contenders.line_up(target).await?;
    let path = |number: usize| format!("/memories/{number}");
    for number in 0..races {
        looker.must_create(file_at(number, &path(number)), "text").await?;
    }
    let delete = |number, _| delete(path(number));
    race(races, &clients, delete, "does not exist").await?;
    read_back::expect_files(&looker, &[]).await
}

/// One client deletes a directory while another creates files in it. The delete must remove every file that exists at
/// that time, and files created later must remain.
async fn delete_against_creates(target: &Target) -> Result<(), CaseError> {
    const OLD: usize = 15;
    const NEW: usize = 6;
    let rounds = target.limits.races.div_ceil(3); // a round takes longer than a race between single commands
    let clients = Contenders::Sessions.clients(target, 2).await?;
    let looker = target.client();
    for round in 0..rounds {
        let directory = format!("/memories/{round}");
        let old = |number: usize| format!("{directory}/old-{number}.txt");
        let new = |number: usize| format!("{directory}/new-{number}.txt");
        for number in 0..OLD {
            looker.must_create(old(number), "old").await?;
        }
        let acting = at_once(&clients, |client_number, client| {
            let (directory, new) = (directory.clone(), (0..NEW).map(new).collect::<Vec<_>>());
            async move {
                if client_number == 0 {
                    return client.delete(&directory).await?.text(false).map(drop);
                }
                for path in new {
                    client.must_create(path, "new").await?;
                }
                Ok(())
            }
        });
        acting.await?;
        for number in 0..OLD {
            looker.expect_absent(old(number)).await?;
        }
        let mut is_after_delete = false;
        for path in (0..NEW).map(new) {
            is_after_delete |= !looker.view(&path).await?.is_error();
            if is_after_delete {
                looker.expect_text(path, "new").await?;
            } else {
                looker.expect_absent(path).await?;
            }
        }
    }
    Ok(())
}

/// One client inserts lines into a file, while the other deletes and recreates it. A deleted file must stay deleted, a
/// recreated one must have its new text, and no line that was inserted later may be lost.
async fn edits_against_recreation(target: &Target, contenders: Contenders) -> Result<(), CaseError> {
    let rounds = target.limits.races;
    let path = "/memories/a.txt";
    // Half of the time, the file is recreated with the same text.
    let last_line = |round: usize| format!("text {:04}", round / 2);
    let text = move |round: usize| format!("{}\n{}\n", long_line(), last_line(round));
    let clients = contenders.clients(target, 2).await?;
    target.client().must_create(path, text(0)).await?;
    let is_over = Arc::new(AtomicBool::new(false));
    let acting = at_once(&clients, |number, client| {
        let is_over = Arc::clone(&is_over);
        async move {
            if number == 0 {
                return insert_until(&client, path, &is_over).await;
            }
            let recreated = async {
                for round in 1..=rounds {
                    client.delete(path).await?.text(false)?;
                    client.expect_absent(path).await?;
                    client.must_create(path, text(round)).await?;
                    let found = client.text(path).await?;
                    expect_text(&last_line(round), found.lines().next_back().unwrap_or_default())?;
                }
                Ok(Vec::new())
            };
            let recreated = recreated.await;
            is_over.store(true, Ordering::Relaxed);
            recreated
        }
    });
    let inserted: Vec<_> = acting.await?.into_iter().flatten().collect();
    let found = target.client().text(path).await?;
    let Some(found) = found.strip_suffix(&text(rounds)) else {
        return Err(Failure::new("the file does not have the text with which it was recreated last").into());
    };
    let kept = inserted.iter().rev().take(found.lines().count());
    expect_text(&kept.map(|line| format!("{line}\n")).collect::<String>(), found)
}

/// Inserts lines at the start of a file that is missing now and then, and returns the inserted lines.
async fn insert_until(client: &Client, path: &str, is_over: &AtomicBool) -> Result<Vec<String>, CaseError> {
    let mut inserted = Vec::new();
    for number in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let answer = client.insert(path, 0, format!("line {number}")).await?;
        if answer.is_error() {
            answer.error_with("exist")?;
        } else {
            inserted.push(format!("line {number}"));
        }
        yield_now().await; // the tool may never yield
    }
    Ok(inserted)
}

async fn views_of_a_file(target: &Target, contenders: Contenders) -> Result<(), CaseError> {
    const LINES: usize = 2_560; // 200 KB, so that writing takes a while
    let path = "/memories/large.txt";
    let line = |letter: &str| letter.repeat(79) + "\n";
    let text = |letter: &str| line(letter).repeat(LINES);
    target.client().must_create(path, text("a")).await?;
    // One view shows only the start, so each page is viewed.
    let pages = read_back::pages(&target.client(), path).await?;
    let views: Vec<_> = pages.into_iter().map(|first| view_range(path, first, -1)).collect();
    let clients = contenders.clients(target, 2).await?;
    // With small commands, writing takes most of the time.
    target.client().insert(path, 0, "one").await?.text(false)?;
    look_on(&clients, &[str_replace(path, "one", "two"), str_replace(path, "two", "one")], 5, views.clone()).await?;
    // Another case tests edits across lines.
    if target.client().send(str_replace(path, &text("a"), &text("b"))).await?.is_error() {
        return Ok(());
    }
    let rewrites = [str_replace(path, &text("b"), &text("a")), str_replace(path, &text("a"), &text("b"))];
    look_on(&clients, &rewrites, 3, views).await
}

async fn views_of_a_directory(target: &Target, contenders: Contenders) -> Result<(), CaseError> {
    let (left, right) = ("/memories/left", "/memories/right");
    for number in 0..10 {
        target.client().must_create(format!("{left}/{number}.txt"), "x".repeat(number)).await?;
    }
    let views = ["", "/left", "/right", "/left/9.txt", "/right/0.txt"].map(|path| view(format!("/memories{path}")));
    let clients = contenders.clients(target, 2).await?;
    look_on(&clients, &[rename(left, right), rename(right, left)], 30, views.into()).await
}

/// One client swaps the names of two files, which takes three renames.
async fn views_of_a_swap(target: &Target, contenders: Contenders) -> Result<(), CaseError> {
    let [one, other, aside] = ["/memories/one", "/memories/other", "/memories/aside"];
    target.client().must_create(one, "1").await?;
    target.client().must_create(other, "22").await?;
    let clients = contenders.clients(target, 2).await?;
    let swap = [rename(one, aside), rename(other, one), rename(aside, other)];
    let views = ["/memories", one, other, aside].map(view);
    look_on(&clients, &[&swap[..], &swap[..]].concat(), 10, views.into()).await
}

/// The first client changes the memory to other states and back, `times` times or until the second has run the views
/// often enough. Each view must show one of the states, and finally the last one.
async fn look_on(
    clients: &[Client],
    there_and_back: &[Value],
    times: usize,
    views: Vec<Value>,
) -> Result<(), CaseError> {
    let [actor, onlooker] = clients else {
        return Err(Failure::new("the case is wrong: it needs two clients").into());
    };
    let states = states_between(actor, onlooker, there_and_back, &views).await?;
    let (is_over, looks) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut threads = Threads::new();
    let (actor, onlooker, changes) = (actor.clone(), onlooker.clone(), there_and_back.to_vec());
    let (acted, looked, started) = (Arc::clone(&is_over), Arc::clone(&looks), Instant::now());
    threads.spawn(async move {
        for round in 0.. {
            let is_seen = looks.load(Ordering::Relaxed) >= LOOKS || started.elapsed() > LONGEST_RACE;
            if round >= times && is_seen {
                break;
            }
            for change in &changes {
                actor.send(change.clone()).await?.text(false)?;
            }
        }
        acted.store(true, Ordering::Relaxed);
        Ok(())
    });
    threads.spawn(async move {
        while !is_over.load(Ordering::Relaxed) {
            for (number, view) in views.iter().enumerate() {
                let answer = onlooker.send(view.clone()).await?;
                let is_whole = states.iter().any(|state| state[number] == answer.result);
                if !is_whole {
                    return Err(answer.wrong("the view shows none of the valid states"));
                }
                yield_now().await; // the tool may never yield
            }
            looked.fetch_add(1, Ordering::Relaxed);
        }
        for (view, last) in views.into_iter().zip(&states[0]) {
            let answer = onlooker.send(view).await?;
            if answer.result != *last {
                return Err(answer.wrong("after the last change, the view shows an earlier state"));
            }
        }
        Ok(())
    });
    threads.join().await.map(drop)
}

/// The results of views before each change.
async fn states_between(
    actor: &Client,
    onlooker: &Client,
    changes: &[Value],
    views: &[Value],
) -> Result<Vec<Vec<Value>>, CaseError> {
    let mut states = Vec::new();
    for change in changes {
        let mut state = Vec::new();
        for view in views {
            state.push(onlooker.send(view.clone()).await?.result);
        }
        states.push(state);
        actor.send(change.clone()).await?.text(false)?;
    }
    Ok(states)
}

/// Each client in turn changes a file that the other has read, and the other reads it again.
async fn sees_others(target: &Target, contenders: Contenders) -> Result<(), CaseError> {
    let clients = contenders.clients(target, 2).await?;
    let [one, other] = clients.as_slice() else {
        return Err(Failure::new("the case is wrong: it needs two clients").into());
    };
    for (round, (writer, reader)) in [(one, other), (other, one), (one, other), (other, one)].into_iter().enumerate() {
        let (path, moved) = (format!("/memories/{round}/a.txt"), format!("/memories/{round}/b.txt"));
        reader.expect_absent(&path).await?;
        writer.must_create(&path, "one\n").await?;
        reader.expect_text(&path, "one\n").await?;
        writer.str_replace(&path, "one", "two").await?.text(false)?; // the same length
        reader.expect_text(&path, "two\n").await?;
        writer.insert(&path, 0, "zero").await?.text(false)?;
        reader.expect_text(&path, "zero\ntwo\n").await?;
        reader.str_replace(&path, "zero", "null").await?.text(false)?; // based on the other client's change
        writer.expect_text(&path, "null\ntwo\n").await?;
        writer.rename(&path, &moved).await?.text(false)?;
        reader.expect_absent(&path).await?;
        reader.expect_text(&moved, "null\ntwo\n").await?;
        writer.delete(&moved).await?.text(false)?;
        reader.expect_absent(&moved).await?;
    }
    Ok(())
}
