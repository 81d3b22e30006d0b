//! Memory that is encrypted: what is seen and what can be done beneath the encryption.

use std::sync::Arc;

use memory_tool_core::{Batch, MemoryPath, Node, RecordName, Store, StoreError, StoreExt};

use crate::case::{Basis, Need};
use crate::cases::CodeCase;
use crate::cases::bytes::path;
use crate::failure::{Failure, Stop};
use crate::subject::{Subject, check};

/// What nobody may find who has not the key.
const SECRETS: [&str; 4] =
    ["the customer called about her divorce", "a second text, of another file", "divorce", "customers"];

/// The content of a record.
const RECORD: &str = "who read about what, and when";

macro_rules! sealed_case {
    ($id:literal, $reason:literal, $run:ident) => {
        CodeCase {
            id: $id,
            clauses: &["X1"],
            basis: Basis::Project,
            needs: &[Need::Sealed, Need::Store],
            reason: $reason,
            run: |subject| Box::pin(async move { $run(&*subject).await }),
        }
    };
}

pub(crate) const CASES: &[CodeCase] = &[
    sealed_case!("sealed.contents", "no text of a file is seen beneath the encryption", contents),
    sealed_case!("sealed.names", "no name of a file or directory is seen beneath the encryption", names),
    sealed_case!("sealed.records", "no content of a record is seen beneath the encryption", records),
    sealed_case!(
        "sealed.nonces",
        "a text that is written again, or to another file, makes a ciphertext that never was before",
        nonces
    ),
    sealed_case!(
        "sealed.flipped-bit",
        "where a bit was flipped there is an error or what was written, never another text",
        flipped_bit
    ),
    sealed_case!(
        "sealed.truncated",
        "where the end is missing there is an error or what was written, never another text",
        truncated
    ),
    sealed_case!("sealed.swapped", "two files whose ciphertexts were swapped never read as each other", swapped),
    sealed_case!("sealed.moved", "a ciphertext that was copied to another's place never reads there", moved),
    sealed_case!(
        "sealed.from-another-memory",
        "a ciphertext of another memory with the same key never reads in this one",
        from_another_memory
    ),
    sealed_case!(
        "sealed.older-put-back",
        "an older ciphertext that was put back is noticed or reads as what it was, and is no version that was read since",
        older_put_back
    ),
    sealed_case!(
        "sealed.plaintext-among-ciphertexts",
        "a file that nobody encrypted is never shown as memory",
        plaintext_among_ciphertexts
    ),
    sealed_case!(
        "sealed.damage-stays-where-it-is",
        "a damaged file breaks neither the listing nor the other files",
        damage_stays_where_it_is
    ),
    sealed_case!("sealed.wrong-key", "the wrong key shows nothing and destroys nothing", wrong_key),
];

/// The memory with two files, and the store beneath it.
async fn two_files(subject: &dyn Subject) -> Result<(Arc<dyn Store>, Arc<dyn Store>), Stop> {
    let store = subject.store()?;
    for (file, content) in files()? {
        store.write(file, content).await?;
    }
    Ok((store, subject.beneath().await?))
}

fn files() -> Result<[(MemoryPath, &'static str); 2], Stop> {
    Ok([(path("/memories/customers/divorce.txt")?, SECRETS[0]), (path("/memories/customers/second.txt")?, SECRETS[1])])
}

/// Everything beneath the encryption.
async fn sealed_files(beneath: &dyn Store) -> Result<Vec<(MemoryPath, Vec<u8>)>, Stop> {
    let mut found = Vec::new();
    for entry in beneath.list(MemoryPath::root()).await? {
        if let Node::File(file) = beneath.read(&entry.path).await? {
            found.push((entry.path, file.content));
        }
    }
    check(!found.is_empty(), || "nothing is stored beneath the encryption".to_owned())?;
    found.sort();
    Ok(found)
}

async fn tamper(beneath: &dyn Store, file: &MemoryPath, content: Vec<u8>) -> Result<(), Stop> {
    Ok(beneath.write(file, content).await?)
}

/// Each file is an error, or gone, or as it was written.
async fn expect_nothing_else(store: &dyn Store, what: &str) -> Result<(), Stop> {
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

async fn contents(subject: &dyn Subject) -> Result<(), Stop> {
    let (_, beneath) = two_files(subject).await?;
    for (file, sealed) in sealed_files(&*beneath).await? {
        for secret in &SECRETS[..2] {
            // Any part of a text is as bad as all of it.
            for part in secret.as_bytes().chunks_exact(8) {
                let part = String::from_utf8_lossy(part);
                check(!contains(&sealed, &part), || format!("{part:?} stands in {file} beneath the encryption"))?;
            }
        }
    }
    Ok(())
}

async fn names(subject: &dyn Subject) -> Result<(), Stop> {
    let (_, beneath) = two_files(subject).await?;
    for (file, sealed) in sealed_files(&*beneath).await? {
        for secret in &SECRETS[2..] {
            check(!file.as_str().contains(secret), || {
                format!("the name {file} beneath the encryption holds {secret:?}")
            })?;
            check(!contains(&sealed, secret), || format!("{secret:?} stands in {file} beneath the encryption"))?;
        }
    }
    Ok(())
}

async fn records(subject: &dyn Subject) -> Result<(), Stop> {
    let name: RecordName = "suite/state".parse()?;
    let (store, beneath) = two_files(subject).await?;
    store.apply(Batch::new().write_record(name.clone(), RECORD)).await?;
    let mut stored = sealed_files(&*beneath).await?;
    if let Some(record) = beneath.read_record(&name).await? {
        stored.push((MemoryPath::root(), record.content));
    }
    for (_, sealed) in stored {
        check(!contains(&sealed, RECORD), || "the content of a record stands beneath the encryption".to_owned())?;
    }
    Ok(())
}

async fn nonces(subject: &dyn Subject) -> Result<(), Stop> {
    let (store, beneath) = (subject.store()?, subject.beneath().await?);
    // Each ciphertext that ever was, and where it stood.
    let mut seen: Vec<(Vec<u8>, MemoryPath)> = Vec::new();
    for round in 0..3 {
        for file in ["/memories/a", "/memories/b"] {
            store.write(path(file)?, b"0123456789abcdef0123456789abcdef".to_vec()).await?;
            let mut is_new = false;
            for (place, ciphertext) in sealed_files(&*beneath).await? {
                match seen.iter().find(|(known, _)| *known == ciphertext) {
                    Some((_, known_place)) => check(*known_place == place, || {
                        format!("in round {round} a ciphertext stood at {known_place} and at {place}")
                    })?,
                    None => {
                        is_new = true;
                        seen.push((ciphertext, place));
                    }
                }
            }
            check(is_new, || format!("in round {round} {file} was written, and no ciphertext is new"))?;
        }
    }
    Ok(())
}

async fn flipped_bit(subject: &dyn Subject) -> Result<(), Stop> {
    let (store, beneath) = two_files(subject).await?;
    for (file, sealed) in sealed_files(&*beneath).await? {
        for place in 0..sealed.len() {
            let mut flipped = sealed.clone();
            flipped[place] ^= 1 << (place % 8);
            tamper(&*beneath, &file, flipped).await?;
            expect_nothing_else(&*store, &format!("a bit of byte {place} was flipped")).await?;
        }
        tamper(&*beneath, &file, sealed).await?;
    }
    expect_intact(&*store).await
}

/// Both files read as they were written.
async fn expect_intact(store: &dyn Store) -> Result<(), Stop> {
    for (file, content) in files()? {
        expect_file(store, &file, content).await?;
    }
    Ok(())
}

async fn expect_file(store: &dyn Store, file: &MemoryPath, content: &str) -> Result<(), Stop> {
    match store.read(file).await? {
        Node::File(found) if found.content == content.as_bytes() => Ok(()),
        other => Err(Failure::new(format!("{file} is not as it was written: {other:?}")).into()),
    }
}

async fn truncated(subject: &dyn Subject) -> Result<(), Stop> {
    let (store, beneath) = two_files(subject).await?;
    for (file, sealed) in sealed_files(&*beneath).await? {
        for length in 0..sealed.len() {
            tamper(&*beneath, &file, sealed[..length].to_vec()).await?;
            expect_nothing_else(&*store, &format!("all after byte {length} was cut off")).await?;
        }
        tamper(&*beneath, &file, sealed).await?;
    }
    expect_intact(&*store).await
}

async fn swapped(subject: &dyn Subject) -> Result<(), Stop> {
    let (store, beneath) = two_files(subject).await?;
    let sealed = sealed_files(&*beneath).await?;
    for (index, (left, left_content)) in sealed.iter().enumerate() {
        for (right, right_content) in &sealed[index + 1..] {
            tamper(&*beneath, left, right_content.clone()).await?;
            tamper(&*beneath, right, left_content.clone()).await?;
            expect_nothing_else(&*store, "two ciphertexts were swapped").await?;
            tamper(&*beneath, left, left_content.clone()).await?;
            tamper(&*beneath, right, right_content.clone()).await?;
        }
    }
    expect_intact(&*store).await
}

async fn moved(subject: &dyn Subject) -> Result<(), Stop> {
    let (store, beneath) = two_files(subject).await?;
    let sealed = sealed_files(&*beneath).await?;
    for (source, content) in &sealed {
        for (target, original) in sealed.iter().filter(|(target, _)| target != source) {
            tamper(&*beneath, target, content.clone()).await?;
            expect_nothing_else(&*store, "a ciphertext was copied to another's place").await?;
            tamper(&*beneath, target, original.clone()).await?;
        }
    }
    expect_intact(&*store).await
}

async fn from_another_memory(subject: &dyn Subject) -> Result<(), Stop> {
    let (store, beneath) = two_files(subject).await?;
    let (other_store, other_beneath) = subject.another_of_the_key().await?;
    for (file, _) in files()? {
        other_store.write(file, b"what another customer said".to_vec()).await?;
    }
    let own = sealed_files(&*beneath).await?;
    for (other_place, foreign) in sealed_files(&*other_beneath).await? {
        for (place, content) in &own {
            tamper(&*beneath, place, foreign.clone()).await?;
            expect_nothing_else(&*store, "a ciphertext came from another memory").await?;
            tamper(&*beneath, place, content.clone()).await?;
        }
        if own.iter().all(|(place, _)| *place != other_place) {
            tamper(&*beneath, &other_place, foreign).await?;
            expect_intact(&*store).await?;
            beneath.remove(other_place).await?;
        }
    }
    expect_intact(&*store).await
}

async fn older_put_back(subject: &dyn Subject) -> Result<(), Stop> {
    const NEWER: &str = "what was written since";
    let (store, beneath) = two_files(subject).await?;
    let older = sealed_files(&*beneath).await?;
    let [(first, first_content), (second, second_content)] = files()?;
    store.write(first.clone(), NEWER).await?;
    let Node::File(newer) = store.read(&first).await? else {
        return Err(Failure::new(format!("{first} is gone")).into());
    };
    let stored = older.len();
    for (number, (place, content)) in older.into_iter().enumerate() {
        tamper(&*beneath, &place, content).await?;
        let found = store.read(&first).await;
        if let Ok(Node::File(found)) = &found {
            let is_known = found.content == first_content.as_bytes() || found.content == NEWER.as_bytes();
            check(is_known, || format!("{first} reads as {:?}", String::from_utf8_lossy(&found.content)))?;
            check(found.content == NEWER.as_bytes() || found.version != newer.version, || {
                format!("{first} is another text of the same version")
            })?;
        }
        // With the last one, everything is as it was: a store that has seen a newer state may refuse that as a whole.
        let is_refused = number + 1 == stored && matches!(store.read(&second).await, Err(StoreError::Failure { .. }));
        if !is_refused {
            expect_file(&*store, &second, second_content).await?;
        }
    }
    Ok(())
}

async fn plaintext_among_ciphertexts(subject: &dyn Subject) -> Result<(), Stop> {
    const PLAIN: &str = "nobody encrypted this";
    let (store, beneath) = two_files(subject).await?;
    for name in ["/memories/plain.txt", "/memories/customers/plain.txt"] {
        tamper(&*beneath, &path(name)?, PLAIN.into()).await?;
        if let Ok(Node::File(found)) = store.read(&path(name)?).await {
            check(!contains(&found.content, PLAIN), || format!("{name} reads as what was put there unencrypted"))?;
        }
    }
    for (sealed, _) in sealed_files(&*beneath).await? {
        tamper(&*beneath, &sealed, PLAIN.into()).await?;
    }
    expect_nothing_else(&*store, "every ciphertext was replaced by a plain text").await
}

async fn damage_stays_where_it_is(subject: &dyn Subject) -> Result<(), Stop> {
    let store = subject.store()?;
    let beneath = subject.beneath().await?;
    let [(first, first_content), (second, second_content)] = files()?;
    store.write(first.clone(), first_content).await?;
    let before = sealed_files(&*beneath).await?;
    store.write(second, second_content).await?;
    // What came with the second file is its own.
    let of_second =
        sealed_files(&*beneath).await?.into_iter().filter(|(file, _)| before.iter().all(|(other, _)| other != file));
    for (file, mut sealed) in of_second {
        if let Some(byte) = sealed.last_mut() {
            *byte ^= 1;
        }
        tamper(&*beneath, &file, sealed).await?;
    }
    expect_file(&*store, &first, first_content).await?;
    let listed = store.list(MemoryPath::root()).await?;
    check(listed.iter().any(|file| file.path == first), || "the undamaged file is not listed".to_owned())?;
    let third = path("/memories/third")?;
    store.write(third.clone(), b"third".to_vec()).await?;
    expect_file(&*store, &third, "third").await
}

async fn wrong_key(subject: &dyn Subject) -> Result<(), Stop> {
    let (store, _) = two_files(subject).await?;
    if let Some(other) = subject.with_wrong_key().await? {
        for (file, _) in files()? {
            if let Ok(Node::File(found)) = other.read(&file).await {
                return Err(Failure::new(format!("with the wrong key {file} reads as {:?}", found.content)).into());
            }
        }
        let names: Vec<_> = other.list(MemoryPath::root()).await.unwrap_or_default();
        let shown = names.iter().find(|file| SECRETS[2..].iter().any(|secret| file.path.as_str().contains(secret)));
        check(shown.is_none(), || format!("with the wrong key the listing shows {shown:?}"))?;
    }
    expect_intact(&*store).await
}
