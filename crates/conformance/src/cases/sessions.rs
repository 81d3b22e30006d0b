//! Two sessions: each sees every change at once, and never what was at a path before.

use std::collections::BTreeMap;

use memory_tool_core::{Engine, InMemoryStore, MemoryPath, MemoryTool};

use crate::cases::races::Contenders;
use crate::failure::{CaseError, Failure, expect_text};
use crate::read_back::{self, listed};
use crate::session::{Client, create, delete, insert, rename, str_replace, view};
use crate::target::Target;

cases! {
    |target| &target;
    listings, made_again, renamed_into;
}

/// Two sessions, or one twice if the memory cannot be opened twice.
async fn sessions(target: &Target) -> Result<Vec<Client>, CaseError> {
    Contenders::Sessions.clients(target, 2).await
}

/// The sessions take turns, and each listing has the names and sizes that it has in a correct tool.
async fn listings(target: &Target) -> Result<(), CaseError> {
    let clients = sessions(target).await?;
    let correct = Engine::new(InMemoryStore::new());
    let changes = [
        create("/memories/d/a", "1\n"),
        create("/memories/d/e/b", "12\n"),
        create("/memories/f", "123\n"),
        str_replace("/memories/d/a", "1", "12345"),
        insert("/memories/d/e/b", 0, "x"),
        str_replace("/memories/f", "123", "1"),
        rename("/memories/d/a", "/memories/d/e/c"),
        rename("/memories/f", "/memories/d/f"),
        rename("/memories/d/e", "/memories/e"),
        create("/memories/d/a", "1234567\n"),
        rename("/memories/d", "/memories/e/d"),
        delete("/memories/e/d/f"),
        delete("/memories/e/b"),
        delete("/memories/e/d"),
    ];
    let mut has_sums = true;
    for (number, change) in changes.into_iter().enumerate() {
        clients[number % 2].send(change.clone()).await?.text(false)?;
        correct.call(change).await.map_err(|error| Failure::new(format!("the case is wrong: {error}")))?;
        if number == 0 {
            let first = clients[0].view("/memories").await?;
            has_sums =
                listed(first.text(false)?, "/memories").any(|it| it.path == "/memories/d" && it.size == Some("2B"));
        }
        for directory in ["/memories", "/memories/d", "/memories/e"] {
            for client in &clients {
                expect_as_in(&correct, client, directory, has_sums).await?;
            }
        }
    }
    Ok(())
}

/// Checks that a listing has the names that it has in another tool, and the sizes, if it has any. Other cases test its
/// form, and the sizes of directories.
async fn expect_as_in(
    correct: &dyn MemoryTool,
    client: &Client,
    directory: &str,
    has_sums: bool,
) -> Result<(), CaseError> {
    let (answer, expected) = (client.view(directory).await?, correct.call(view(directory)).await);
    let Ok(expected) = expected else { return answer.error_with("does not exist") };
    let (found, expected) = (answer.text(false)?, expected.to_string());
    let expected: BTreeMap<_, _> = listed(&expected, directory).map(|item| (item.path, item)).collect();
    let line = |path: &str, size: Option<&str>| match expected.get(path) {
        Some(item) if has_sums || !item.has_slash => format!("{} {path}\n", size.unwrap_or("any size")),
        _ => format!("any size {path}\n"),
    };
    let sizes: BTreeMap<_, _> = listed(found, directory).map(|item| (item.path, item.size)).collect();
    let has_sizes = sizes.values().any(Option::is_some);
    let lines = expected.values().map(|item| line(item.path, item.size.filter(|_| has_sizes)));
    let found = sizes.iter().map(|(path, size)| line(path, *size));
    answer.judge(expect_text(&lines.collect::<String>(), &found.collect::<String>()))
}

/// Files, directories and the whole memory are deleted and made again, with as many files of the same sizes.
async fn made_again(target: &Target) -> Result<(), CaseError> {
    let clients = sessions(target).await?;
    let all = ["/memories/a", "/memories/d/a", "/memories/d/e/b"];
    for (deleted, files) in [
        (&["/memories/a"][..], &all[..1]),
        (&["/memories/d"], &all[1..]),
        (&["/memories/d/a", "/memories/d/e"], &all[1..]),
        (&["/memories/a", "/memories/d"], &all),
    ] {
        let paths = files.iter().map(|file| file.parse()).collect::<Result<Vec<MemoryPath>, _>>()?;
        for (number, text) in ["one\n", "two\n", "six\n", "one\n"].into_iter().enumerate() {
            for file in files {
                clients[number % 2].must_create(file, text).await?;
            }
            for client in &clients {
                read_back::expect_files(client, &paths).await?;
                for file in files {
                    client.expect_text(file, text).await?;
                }
            }
            for path in deleted {
                clients[number / 2].delete(path).await?.text(false)?;
            }
            for client in &clients {
                for file in files {
                    client.expect_absent(file).await?;
                }
            }
        }
    }
    Ok(())
}

/// Files and directories are renamed into a directory that both sessions have viewed, and out of it.
async fn renamed_into(target: &Target) -> Result<(), CaseError> {
    let clients = sessions(target).await?;
    let [directory, own] = ["/memories/d", "/memories/d/own"];
    for path in [own, "/memories/e/file", "/memories/f/g/file"] {
        clients[0].must_create(path, path).await?;
    }
    for (number, (from, to, file)) in [
        ("/memories/e/file", "/memories/d/file", "/memories/d/file"),
        ("/memories/f", "/memories/d/f", "/memories/d/f/g/file"),
        ("/memories/f/g/file", "/memories/d/file", "/memories/d/file"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut inside = vec![directory, own, to];
        inside.extend((file != to).then_some("/memories/d/f/g"));
        let there_and_back = [(from, to, inside), (to, from, vec![directory, own])];
        for (turn, (from, to, items)) in there_and_back.into_iter().enumerate() {
            clients[(number + turn) % 2].rename(from, to).await?.text(false)?;
            for client in &clients {
                client.view(directory).await?.items(&items)?;
            }
        }
    }
    Ok(())
}
