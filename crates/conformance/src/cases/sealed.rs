//! Encrypted memories, attacked by someone with access to the ciphertexts.

use std::sync::Arc;

use memory_tool_core::{Batch, Node, ReadOptions, Store, StoreError, StoreExt, StorePath};

use crate::cases::bytes::{expect_content, path};
use crate::failure::{CaseError, Failure, check};
use crate::target::Target;

/// Contents and names that must not be readable without the key.
const SECRETS: [&str; 4] =
    ["the customer called about her divorce", "a second text, of another file", "divorce", "customers"];

/// The content of a record.
const RECORD: &str = "who read about what, and when";

cases! {
    |target| &target;
    contents, names, records, nonces, damaged, at_another_place, from_another_memory, older_put_back,
    plaintext_among_ciphertexts, damage_is_isolated, wrong_key;
}

/// A memory with two files, and its underlying store.
async fn two_files(target: &Target) -> Result<(Arc<dyn Store>, Arc<dyn Store>), CaseError> {
    let store = target.store()?;
    for (file, content) in files()? {
        store.write(file, content).await?;
    }
    Ok((store, target.ciphertexts().await?))
}

fn files() -> Result<[(StorePath, &'static str); 2], CaseError> {
    Ok([(path("/memories/customers/divorce.txt")?, SECRETS[0]), (path("/memories/customers/second.txt")?, SECRETS[1])])
}

/// All files of the underlying store.
async fn sealed_files(underlying: &dyn Store) -> Result<Vec<(StorePath, Vec<u8>)>, CaseError> {
    let mut found = Vec::new();
    for entry in underlying.list(StorePath::memories()).await? {
        if let Node::File(file) = underlying.read(&entry.path).await? {
            found.push((entry.path, file.content));
        }
    }
    check(!found.is_empty(), || "the underlying store is empty".to_owned())?;
    found.sort();
    Ok(found)
}

/// Checks that each file fails to read, is missing, or has its original content.
async fn expect_nothing_else(store: &dyn Store, what: &str) -> Result<(), CaseError> {
    for (file, content) in files()? {
        if let Ok(Node::File(found)) = store.read(&file).await {
            check(found.content == content.as_bytes(), || {
                format!("{what}, and {file} reads as {:?}", String::from_utf8_lossy(&found.content))
            })?;
        }
    }
    Ok(())
}

fn contains(haystack: &[u8], needle: &str) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle.as_bytes())
}

async fn contents(target: &Target) -> Result<(), CaseError> {
    let (_, underlying) = two_files(target).await?;
    for (file, sealed) in sealed_files(&*underlying).await? {
        for secret in &SECRETS[..2] {
            // A fragment must not be readable either.
            for part in secret.as_bytes().chunks_exact(8) {
                let part = String::from_utf8_lossy(part);
                check(!contains(&sealed, &part), || format!("{part:?} is readable in {file} of the underlying store"))?;
            }
        }
    }
    Ok(())
}

async fn names(target: &Target) -> Result<(), CaseError> {
    let (_, underlying) = two_files(target).await?;
    for (file, sealed) in sealed_files(&*underlying).await? {
        for secret in &SECRETS[2..] {
            check(!file.as_str().contains(secret), || {
                format!("the name {file} in the underlying store contains {secret:?}")
            })?;
            check(!contains(&sealed, secret), || format!("{secret:?} is readable in {file} of the underlying store"))?;
        }
    }
    Ok(())
}

async fn records(target: &Target) -> Result<(), CaseError> {
    let name: StorePath = "/records/suite/state".parse()?;
    let (store, underlying) = two_files(target).await?;
    store.apply(Batch::new().write(name.clone(), RECORD)).await?;
    let mut stored = sealed_files(&*underlying).await?;
    if let Some(record) = underlying.read_opts(&name, ReadOptions::new()).await?.into_file() {
        stored.push((StorePath::memories(), record.content));
    }
    for (_, sealed) in stored {
        check(!contains(&sealed, RECORD), || "the content of a record is readable in the underlying store".to_owned())?;
    }
    Ok(())
}

async fn nonces(target: &Target) -> Result<(), CaseError> {
    let (store, underlying) = (target.store()?, target.ciphertexts().await?);
    // All ciphertexts so far, with their paths.
    let mut seen: Vec<(Vec<u8>, StorePath)> = Vec::new();
    for round in 0..3 {
        for file in ["/memories/a", "/memories/b"] {
            store.write(path(file)?, b"0123456789abcdef0123456789abcdef".to_vec()).await?;
            let mut is_new = false;
            for (place, ciphertext) in sealed_files(&*underlying).await? {
                match seen.iter().find(|(known, _)| *known == ciphertext) {
                    Some((_, known_place)) => check(*known_place == place, || {
                        format!("in round {round}, the same ciphertext was at {known_place} and at {place}")
                    })?,
                    None => {
                        is_new = true;
                        seen.push((ciphertext, place));
                    }
                }
            }
            check(is_new, || format!("in round {round}, writing {file} made no new ciphertext"))?;
        }
    }
    Ok(())
}

async fn damaged(target: &Target) -> Result<(), CaseError> {
    let (store, underlying) = two_files(target).await?;
    for (file, sealed) in sealed_files(&*underlying).await? {
        for place in 0..sealed.len() {
            let mut flipped = sealed.clone();
            flipped[place] ^= 1 << (place % 8);
            underlying.write(&file, flipped).await?;
            expect_nothing_else(&*store, &format!("a bit of byte {place} was flipped")).await?;
        }
        for length in (0..sealed.len()).step_by(8).chain([sealed.len().saturating_sub(1)]) {
            underlying.write(&file, sealed[..length].to_vec()).await?;
            expect_nothing_else(&*store, &format!("a ciphertext was truncated to {length} bytes")).await?;
        }
        underlying.write(&file, sealed).await?;
    }
    expect_intact(&*store).await
}

/// Checks that both files have their original content.
async fn expect_intact(store: &dyn Store) -> Result<(), CaseError> {
    for (file, content) in files()? {
        expect_content(store, file.as_str(), content.as_bytes()).await?;
    }
    Ok(())
}

async fn at_another_place(target: &Target) -> Result<(), CaseError> {
    let (store, underlying) = two_files(target).await?;
    let sealed = sealed_files(&*underlying).await?;
    for (left, left_content) in &sealed {
        for (right, right_content) in sealed.iter().filter(|(right, _)| right != left) {
            underlying.write(right, left_content.clone()).await?;
            expect_nothing_else(&*store, "a ciphertext was copied over another one").await?;
            underlying.write(left, right_content.clone()).await?;
            expect_nothing_else(&*store, "two ciphertexts were swapped").await?;
            underlying.write(left, left_content.clone()).await?;
            underlying.write(right, right_content.clone()).await?;
        }
    }
    expect_intact(&*store).await
}

async fn from_another_memory(target: &Target) -> Result<(), CaseError> {
    let (store, underlying) = two_files(target).await?;
    let (other_store, other_underlying) = target.another_with_same_key().await?;
    for (file, _) in files()? {
        other_store.write(file, b"what another customer said".to_vec()).await?;
    }
    let own = sealed_files(&*underlying).await?;
    for (other_place, foreign) in sealed_files(&*other_underlying).await? {
        for (place, content) in &own {
            underlying.write(place, foreign.clone()).await?;
            expect_nothing_else(&*store, "a ciphertext came from another memory").await?;
            underlying.write(place, content.clone()).await?;
        }
        if own.iter().all(|(place, _)| *place != other_place) {
            underlying.write(&other_place, foreign).await?;
            expect_intact(&*store).await?;
            underlying.remove(other_place).await?;
        }
    }
    expect_intact(&*store).await
}

async fn older_put_back(target: &Target) -> Result<(), CaseError> {
    const NEWER: &str = "what was written since";
    let (store, underlying) = two_files(target).await?;
    let older = sealed_files(&*underlying).await?;
    let [(first, first_content), (second, second_content)] = files()?;
    store.write(first.clone(), NEWER).await?;
    let Node::File(newer) = store.read(&first).await? else {
        return Err(Failure::new(format!("{first} is missing")).into());
    };
    let stored = older.len();
    for (number, (place, content)) in older.into_iter().enumerate() {
        underlying.write(&place, content).await?;
        let found = store.read(&first).await;
        if let Ok(Node::File(found)) = &found {
            let is_known = found.content == first_content.as_bytes() || found.content == NEWER.as_bytes();
            check(is_known, || format!("{first} reads as {:?}", String::from_utf8_lossy(&found.content)))?;
            check(found.content == NEWER.as_bytes() || found.version != newer.version, || {
                format!("{first} reads as another text with the same version")
            })?;
        }
        // The last one completes a rollback of the whole store, which a store that has seen a newer state may refuse.
        let is_refused = number + 1 == stored && matches!(store.read(&second).await, Err(StoreError::Failure { .. }));
        if !is_refused {
            expect_content(&*store, second.as_str(), second_content.as_bytes()).await?;
        }
    }
    Ok(())
}

async fn plaintext_among_ciphertexts(target: &Target) -> Result<(), CaseError> {
    const PLAIN: &str = "nobody encrypted this";
    let (store, underlying) = two_files(target).await?;
    for name in ["/memories/plain.txt", "/memories/customers/plain.txt"] {
        underlying.write(&path(name)?, PLAIN).await?;
        if let Ok(Node::File(found)) = store.read(&path(name)?).await {
            check(!contains(&found.content, PLAIN), || format!("{name} reads as the unencrypted content"))?;
        }
    }
    for (sealed, _) in sealed_files(&*underlying).await? {
        underlying.write(&sealed, PLAIN).await?;
    }
    expect_nothing_else(&*store, "every ciphertext was replaced by plaintext").await
}

async fn damage_is_isolated(target: &Target) -> Result<(), CaseError> {
    let (store, underlying) = (target.store()?, target.ciphertexts().await?);
    let [(first, first_content), (second, second_content)] = files()?;
    store.write(first.clone(), first_content).await?;
    let before = sealed_files(&*underlying).await?;
    store.write(second, second_content).await?;
    // Damage every stored file that belongs to the second file.
    let of_second =
        sealed_files(&*underlying).await?.into_iter().filter(|(file, _)| before.iter().all(|(other, _)| other != file));
    for (file, mut sealed) in of_second {
        if let Some(byte) = sealed.last_mut() {
            *byte ^= 1;
        }
        underlying.write(&file, sealed).await?;
    }
    expect_content(&*store, first.as_str(), first_content.as_bytes()).await?;
    let listed = store.list(StorePath::memories()).await?;
    check(listed.iter().any(|file| file.path == first), || "the undamaged file is not listed".to_owned())?;
    store.write("/memories/third", "third").await?;
    expect_content(&*store, "/memories/third", b"third").await
}

async fn wrong_key(target: &Target) -> Result<(), CaseError> {
    let (store, _) = two_files(target).await?;
    if let Some(other) = target.with_wrong_key().await? {
        for (file, _) in files()? {
            if let Ok(Node::File(found)) = other.read(&file).await {
                return Err(Failure::new(format!("with the wrong key {file} reads as {:?}", found.content)).into());
            }
        }
        let names: Vec<_> = other.list(StorePath::memories()).await.unwrap_or_default();
        let shown = names.iter().find(|file| SECRETS[2..].iter().any(|secret| file.path.as_str().contains(secret)));
        check(shown.is_none(), || format!("with the wrong key the listing shows {shown:?}"))?;
    }
    expect_intact(&*store).await
}
