//! Full, read-only and failing disks, and permissive umasks: commands fail clearly and leave no partial files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::cases::interruption::{Interruption, States, calls_of};
use crate::cases::plain_memory::system;
use crate::disk::{entries_under, on_disk};
use crate::failure::{CaseError, Failure, check};
use crate::read_back::expect_files;
use crate::sandbox::{CALLS, Sandbox, Trace};
use crate::session::{create, delete, insert, rename, str_replace};
use crate::target::Target;

cases! {
    |target| &target;
    umask, file_size_limit, descriptor_limit, full, read_only;
    fails_while_creating = |target| fail_each_call(&target, &Interruption::creating());
    fails_while_editing = |target| fail_each_call(&target, &Interruption::editing());
    fails_while_renaming = |target| fail_each_call(&target, &Interruption::renaming());
    fails_while_deleting = |target| fail_each_call(&target, &Interruption::deleting());
    fails_during_a_batch = |target| async move {
        fail_each_call(&target, &Interruption::applying(&target).await?).await
    };
}

async fn umask(target: &Target) -> Result<(), CaseError> {
    let client = target.process_client_under(&Sandbox::OpenUmask).await?;
    client.must_create("/memories/a/b/c.txt", "text").await?;
    client.insert("/memories/a/b/c.txt", 0, "line").await?.text(false)?;
    client.rename("/memories/a/b/c.txt", "/memories/d/e/f.txt").await?.text(false)?;
    client.must_create("/memories/g/h.txt", "text").await?;
    let directory = target.directory()?;
    let stored = on_disk("read the stored files", move || {
        let entries = entries_under(&directory)?.into_iter();
        let stored = entries.filter(|(_, file_type)| file_type.is_file() || file_type.is_dir());
        stored.map(|(path, _)| system::mode(&path).map(|mode| (path, mode))).collect()
    });
    let stored: BTreeMap<PathBuf, u32> = stored.await?;
    check(!stored.is_empty(), || "nothing is stored in the directory".to_owned())?;
    match stored.iter().find(|(path, _)| is_open_to_others(path, &stored)) {
        Some((path, mode)) => Err(Failure::new(format!("{} has mode {mode:03o}", path.display())).into()),
        None => Ok(()),
    }
}

/// Whether the group or all users can read or change a path, by its mode and the modes of all directories above it.
/// The directory of the suite, which is not among the stored ones, protects nothing.
fn is_open_to_others(path: &Path, stored: &BTreeMap<PathBuf, u32>) -> bool {
    let allows = |path: &Path, bits: u32| stored.get(path).is_none_or(|mode| mode & bits != 0);
    [0o010, 0o001]
        .into_iter()
        .any(|enter| allows(path, 6 * enter) && path.ancestors().skip(1).all(|directory| allows(directory, enter)))
}

async fn file_size_limit(target: &Target) -> Result<(), CaseError> {
    let client = target.process_client_under(&Sandbox::SmallFiles).await?;
    client.must_create("/memories/a.txt", "text\n").await?;
    let large = incompressible_text(1_000_000, 0);
    client.create("/memories/large.txt", large.as_str()).await?.text(true)?;
    client.insert("/memories/a.txt", 1, large).await?.text(true)?;
    client.must_create("/memories/b.txt", "text").await?;
    client.expect_text("/memories/a.txt", "text\n").await?;
    client.expect_text("/memories/b.txt", "text").await?;
    client.expect_absent("/memories/large.txt").await
}

/// Lines of random letters, which no store can compress below half of their size.
fn incompressible_text(length: usize, seed: u64) -> String {
    let mut state = 0x2545_f491_4f6c_dd1d ^ seed;
    let letters = (0..length).map(|number| {
        state ^= state << 13; // xorshift
        state ^= state >> 7;
        state ^= state << 17;
        if number % LINE == LINE - 1 { '\n' } else { char::from(b'a' + (state >> 32) as u8 % 26) }
    });
    letters.collect()
}

/// The length of a line of [`incompressible_text`], with its line feed.
const LINE: usize = 5_000;

async fn descriptor_limit(target: &Target) -> Result<(), CaseError> {
    /// Enough for the program itself.
    const LIMIT: usize = 64;
    let client = target.process_client_under(&Sandbox::FewDescriptors(LIMIT)).await?;
    let [file, other, moved] = ["/memories/d/e/a.txt", "/memories/d/b.txt", "/memories/f/g/a.txt"];
    for _ in 0..LIMIT {
        client.must_create(file, "text").await?;
        client.must_create(other, "text").await?;
        client.create(other, "new").await?.error_with("already exists")?;
        client.create(format!("{other}/c.txt"), "text").await?.text(true)?;
        client.insert(file, 0, "line").await?.text(false)?;
        client.str_replace(file, "nowhere", "").await?.error_with("did not appear verbatim")?;
        client.view("/memories").await?.text(false)?;
        client.view(moved).await?.error_with("does not exist")?;
        client.rename(file, moved).await?.text(false)?;
        client.rename("/memories/f", other).await?.text(true)?;
        client.rename("/memories/f", "/memories/h").await?.text(false)?;
        for directory in ["/memories/d", "/memories/h"] {
            client.delete(directory).await?.text(false)?;
        }
        client.delete("/memories/h").await?.error_with("does not exist")?;
    }
    expect_files(&client, &[]).await
}

async fn full(target: &Target) -> Result<(), CaseError> {
    /// More files than fit on a disk of 1 MiB.
    const FILES: usize = 50;
    const LINES: usize = 1 + 50_000 / LINE;
    let client = target.process_client_under(&Sandbox::SmallDisk(target.directory()?)).await?;
    let text = |number: usize| format!("{number} of the files\n{}", incompressible_text(50_000, number as u64));
    let path = |number: usize| format!("/memories/d/{number}.txt");
    let mut created = Vec::new();
    let mut refused = Vec::new();
    for number in 0..FILES {
        let answer = client.create(path(number), text(number)).await?;
        answer.text(answer.is_error())?;
        if answer.is_error() { &mut refused } else { &mut created }.push(number);
    }
    check(!refused.is_empty(), || format!("{FILES} files of 50 KB were accepted on a disk of 1 MiB"))?;
    check(!created.is_empty(), || "no file of 50 KB was accepted on a disk of 1 MiB".to_owned())?;
    for &number in &created {
        // An edit that makes the file longer succeeds or changes nothing.
        let longer = text(number) + &text(number);
        let answer = client.insert(path(number), LINES, text(number)).await?;
        answer.text(answer.is_error())?;
        let expected = if answer.is_error() { text(number) } else { longer };
        client.expect_text(path(number), &expected).await?;
    }
    for number in refused {
        client.expect_absent(path(number)).await?;
    }
    Ok(())
}

async fn read_only(target: &Target) -> Result<(), CaseError> {
    let path = "/memories/d/a.txt";
    target.client().must_create(path, "text\n").await?;
    let client = target.process_client_under(&Sandbox::ReadOnly(target.directory()?)).await?;
    client.expect_text(path, "text\n").await?;
    for change in [
        create("/memories/b.txt", "text"),
        str_replace(path, "text", "other"),
        insert(path, 0, "line"),
        rename(path, "/memories/b.txt"),
        rename("/memories/d", "/memories/e"),
        delete(path),
        delete("/memories/d"),
    ] {
        client.send(change).await?.text(true)?;
    }
    client.expect_text(path, "text\n").await?;
    client.expect_absent("/memories/b.txt").await?;
    // Once the disk is writable again, commands work as before.
    let client = target.process_client().await?;
    client.insert(path, 0, "line").await?.text(false)?;
    client.expect_text(path, "line\ntext\n").await
}

/// Runs the command once for each of its system calls that reach the disk, with that call failing.
async fn fail_each_call(target: &Target, interruption: &Interruption) -> Result<(), CaseError> {
    let onlooker = target.client();
    interruption.prepare(&onlooker).await?;
    let before = interruption.look(&onlooker).await?;
    let directory = on_disk("make a directory", TempDir::new).await?;
    let trace = |name: &str| Trace(directory.path().join(name));
    let calls = calls_of(target, &interruption.command, trace("all"), CALLS).await?;
    let after = interruption.look(&onlooker).await?;
    let mut failures = 0;
    for call in calls {
        interruption.clear(&onlooker).await?;
        interruption.prepare(&onlooker).await?;
        let event = format!("when {call} fails");
        let client = target.process_client_under(&Sandbox::FailingCall(call, trace("one"))).await?;
        // The injected failure may also end the program.
        let answer = client.send(interruption.command.clone()).await;
        let is_acknowledged = answer.is_ok_and(|answer| !answer.is_error());
        client.kill().await?;
        let found = interruption.look(&onlooker).await?;
        interruption.judge(&event, is_acknowledged, &States { before: &before, after: &after, found: &found })?;
        let one = trace("one");
        failures += usize::from(on_disk("read a trace", move || one.has_failed_call()).await?);
    }
    check(failures > 0, || "no call that reaches the disk was made to fail".to_owned())
}
