//! Copies of plain files that are put back while a session stays open.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tempfile::NamedTempFile;

use crate::cases::restarts::expect_files;
use crate::disk::{entries_under, on_disk};
use crate::failure::CaseError;
use crate::session::Client;
use crate::target::Target;

const EDITED: &str = "/memories/edited.txt";
const OLD: &str = "/memories/d/old.txt";
const MOVED: &str = "/memories/e/moved.txt";
const NEW: &str = "/memories/e/new.txt";

cases! {
    restored = |target| restore(&target, target.plain_files());
    restored_with_its_directory = |target| restore(&target, target.directory());
}

/// Copies the directory, makes changes, puts the copy back, and makes as many changes of the same sizes in a new
/// session. The open session must see what the new one sees, and change it.
async fn restore(target: &Target, directory: Result<PathBuf, CaseError>) -> Result<(), CaseError> {
    let (session, directory) = (target.client(), directory?);
    for looks_at_once in [true, false] {
        let files_of_copy = [(EDITED, "one\n"), (OLD, "text\n")];
        for (path, text) in files_of_copy {
            session.must_create(path, text).await?;
        }
        expect_files(&session, &files_of_copy).await?;
        let copied = directory.clone();
        let copy = on_disk("copy the memory", move || copy_of(&copied)).await?;
        change(&session, "two", "new\n").await?;
        let restored = directory.clone();
        on_disk("put a copy of the memory back", move || put_back(&copy, &restored)).await?;
        let newcomer = target.another_client_if_any().await?;
        if looks_at_once {
            expect_in_each(&[&session, &newcomer], &files_of_copy, "after a copy was put back").await?;
        }
        change(&newcomer, "six", "old\n").await?;
        let files = [(EDITED, "six\n"), (MOVED, "text\n"), (NEW, "old\n")];
        expect_in_each(&[&session], &files, "after a copy was put back and a new session changed it").await?;
        session.str_replace(EDITED, "six", "ten").await?.text(false)?;
        session.delete("/memories/e").await?.text(false)?;
        let event = "after a copy was put back under this session, and it made changes";
        expect_in_each(&[&newcomer, &session], &[(EDITED, "ten\n")], event).await?;
        newcomer.delete(EDITED).await?.text(false)?;
    }
    Ok(())
}

/// Makes three changes and looks at them.
async fn change(client: &Client, word: &str, text: &str) -> Result<(), CaseError> {
    client.str_replace(EDITED, "one", word).await?.text(false)?;
    client.rename(OLD, MOVED).await?.text(false)?;
    client.must_create(NEW, text).await?;
    let edited = format!("{word}\n");
    expect_files(client, &[(EDITED, edited.as_str()), (MOVED, "text\n"), (NEW, text)]).await
}

async fn expect_in_each(clients: &[&Client], files: &[(&str, &str)], event: &str) -> Result<(), CaseError> {
    for client in clients {
        expect_files(client, files).await.map_err(|stop| stop.in_step(event))?;
    }
    Ok(())
}

/// A file or directory of a copy.
struct Copied {
    /// The bytes of a file.
    content: Option<Vec<u8>>,
    permissions: Permissions,
    modified: SystemTime,
}

fn copy_of(directory: &Path) -> io::Result<BTreeMap<PathBuf, Copied>> {
    let entries = entries_under(directory)?.into_iter();
    let entries = entries.filter(|(_, file_type)| file_type.is_dir() || file_type.is_file());
    let copied = entries.map(|(path, file_type)| {
        let metadata = fs::metadata(&path)?;
        let content = file_type.is_file().then(|| fs::read(&path)).transpose()?;
        Ok((path, Copied { content, permissions: metadata.permissions(), modified: metadata.modified()? }))
    });
    copied.collect()
}

/// Puts a copy back as `rsync --archive --checksum --delete` does: each file with other bytes is replaced in one step.
fn put_back(copy: &BTreeMap<PathBuf, Copied>, directory: &Path) -> io::Result<()> {
    // Reversed, so that the files of a directory come before it.
    for (path, file_type) in entries_under(directory)?.into_iter().rev().filter(|(path, _)| !copy.contains_key(path)) {
        if file_type.is_dir() { fs::remove_dir(path)? } else { fs::remove_file(path)? }
    }
    for (path, copied) in copy {
        match &copied.content {
            None if path.is_dir() => {}
            None => {
                fs::create_dir(path)?;
                fs::set_permissions(path, copied.permissions.clone())?;
            }
            Some(content) if fs::read(path).is_ok_and(|found| found == *content) => {}
            Some(content) => replace(path, content, copied)?,
        }
    }
    Ok(())
}

fn replace(path: &Path, content: &[u8], copied: &Copied) -> io::Result<()> {
    let mut file = NamedTempFile::new_in(path.parent().unwrap_or(path))?;
    file.write_all(content)?;
    file.as_file().set_permissions(copied.permissions.clone())?;
    file.as_file().set_modified(copied.modified)?;
    file.persist(path)?;
    Ok(())
}
