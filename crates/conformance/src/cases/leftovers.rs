//! Leftovers: the disk contains no deleted or replaced text, and no temporary file of a killed program.
//!
//! The cases need plain files, because a database may keep deleted text in free pages until it is compacted.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::cases::plain_memory::{Item, Tree, tree_of};
use crate::cases::restarts::{Moment, fence, send_and_kill};
use crate::disk::on_disk;
use crate::failure::{CaseError, Failure, check};
use crate::session::create;
use crate::target::Target;

/// How often a program is killed, each time a little later.
const KILLS: u32 = 12;

cases! {
    |target| &target;
    deleted_and_replaced, of_killed_programs;
}

/// Everything under the directory of the target, and the paths with this text in their names or contents.
async fn search(target: &Target, text: &str) -> Result<(Tree, Vec<PathBuf>), CaseError> {
    let directory = target.directory()?;
    let tree = on_disk("read the stored files", move || tree_of(&directory)).await?;
    let contains = |content: &[u8]| content.windows(text.len()).any(|part| part == text.as_bytes());
    let found = tree.iter().filter(|(path, item)| match item {
        Item::File(content) => contains(content) || contains(path.as_os_str().as_encoded_bytes()),
        _ => contains(path.as_os_str().as_encoded_bytes()),
    });
    let found = found.map(|(path, _)| path.clone()).collect();
    Ok((tree, found))
}

/// The paths that are only in the second tree, without directories: an empty one does not exist for Claude (`[P5]`).
fn new_files<'a>(usual: &Tree, tree: &'a Tree) -> Vec<&'a PathBuf> {
    let is_new = |path: &PathBuf, item: &Item| *item != Item::Directory && !usual.contains_key(path);
    tree.iter().filter(|(path, item)| is_new(path, item)).map(|(path, _)| path).collect()
}

async fn expect_nowhere(target: &Target, text: &str, event: &str) -> Result<(), CaseError> {
    let (_, found) = search(target, text).await?;
    check(found.is_empty(), || format!("{event}, the text is still in {found:?}"))
}

async fn deleted_and_replaced(target: &Target) -> Result<(), CaseError> {
    let client = target.client();
    let [path, moved] = ["/memories/notes.txt", "/memories/d/moved.txt"];
    let [first, second, third, name] = ["the first text", "the second text", "the third text", "name-of-a-file"];
    client.must_create(path, format!("{first}\nmore\n")).await?;
    let (_, found) = search(target, first).await?;
    check(!found.is_empty(), || "the case is wrong: the text of a file is not found in plain files".to_owned())?;
    client.str_replace(path, first, second).await?.text(false)?;
    expect_nowhere(target, first, "after it was replaced").await?;
    client.insert(path, 0, third).await?.text(false)?;
    client.rename(path, moved).await?.text(false)?;
    client.str_replace(moved, second, "").await?.text(false)?;
    expect_nowhere(target, second, "after it was deleted by str_replace").await?;
    client.delete(moved).await?.text(false)?;
    expect_nowhere(target, third, "after its file was deleted").await?;
    for number in 0..3 {
        client.must_create(format!("/memories/d/{number}/{name}.txt"), first).await?;
        client.must_create(format!("/memories/d/.{number}/.{name}"), second).await?;
    }
    client.rename("/memories/d", "/memories/e").await?.text(false)?;
    client.delete("/memories/e").await?.text(false)?;
    for text in [first, second, name] {
        expect_nowhere(target, text, "after its directory was deleted").await?;
    }
    Ok(())
}

async fn of_killed_programs(target: &Target) -> Result<(), CaseError> {
    let path = "/memories/d/large.txt";
    let mark = "the text that a killed program was writing";
    let text = format!("{mark}\n").repeat(20_000);
    let command = create(path, text);
    let mut client = target.process_client().await?;
    fence(&client).await?;
    let start = Instant::now();
    client.send(command.clone()).await?.text(false)?;
    let course: Duration = start.elapsed();
    client.delete_if_any(path).await?;
    let (usual, _) = search(target, mark).await?;
    for kill in 0..KILLS {
        send_and_kill(&client, &command, Moment::After(course * kill / KILLS)).await?;
        client = target.process_client().await?;
        fence(&client).await?;
        client.delete_if_any(path).await?;
        let (tree, found) = search(target, mark).await?;
        check(found.is_empty(), || format!("after a kill and a deletion, the text is still in {found:?}"))?;
        let new = new_files(&usual, &tree);
        if !new.is_empty() {
            return Err(Failure::new(format!("a killed program left {new:?}")).into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_directory_is_no_leftover() {
        let empty = || Item::File(Vec::new());
        let usual = Tree::from([("log".into(), empty())]);
        let killed = [("memories/d", Item::Directory), ("memories/.tmp", empty()), ("log", empty())];
        let tree = killed.map(|(path, item)| (path.into(), item)).into();
        assert_eq!(new_files(&usual, &tree), [&PathBuf::from("memories/.tmp")]);
    }
}
