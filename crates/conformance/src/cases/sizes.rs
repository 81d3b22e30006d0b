//! Many files, large files and long lines.

use std::fs;

use crate::cases::bytes::path;
use crate::cases::plain_memory::PlainMemory;
use crate::disk::on_disk;
use crate::failure::{CaseError, expect_all_of, expect_text};
use crate::read_back;
use crate::session::{Client, view_range};
use crate::target::Target;
use memory_tool_core::{Batch, MemoryPath};

/// More files than one page of any listing has, and the total size that a listing shows.
fn thousands(target: &Target) -> (usize, &'static str) {
    // A program needs a line for each file.
    if target.tool().is_ok() { (5_000, "19.5K") } else { (1_200, "4.7K") }
}

/// The number of lines of a file of 4 MiB.
const LINES: usize = 65_536;

cases! {
    |target| &target;
    listing_of_thousands, rename_and_delete_of_thousands, file_of_4_mib, line_of_1_mib, of_blocks, listed;
}

fn file_in(directory: &str, number: usize) -> String {
    format!("{directory}/{number:04}.txt")
}

/// Creates thousands of files in a directory: in one batch if possible, because each command may take a while.
async fn make_thousands(target: &Target, directory: &str) -> Result<(), CaseError> {
    let (files, _) = thousands(target);
    match target.store() {
        Ok(store) => {
            let write = |batch: Batch, number| Ok(batch.write(path(&file_in(directory, number))?, "text"));
            Ok(store.apply((0..files).try_fold(Batch::new(), write).map_err(|stop: CaseError| stop)?).await?)
        }
        Err(_) => {
            for number in 0..files {
                target.client().must_create(file_in(directory, number), "text").await?;
            }
            Ok(())
        }
    }
}

/// Checks that the thousands of files are in this directory, and that there are no others.
async fn expect_thousands(target: &Target, directory: &str) -> Result<(), CaseError> {
    let files = (0..thousands(target).0)
        .map(|number| MemoryPath::parse(&file_in(directory, number)))
        .collect::<Result<Vec<_>, _>>()?;
    read_back::expect_files(&target.client(), &files).await
}

async fn listing_of_thousands(target: &Target) -> Result<(), CaseError> {
    let directory = "/memories/d/many";
    make_thousands(target, directory).await?;
    let answer = target.client().view(directory).await?;
    // Other cases test whether listings have sizes.
    if let Some((size, of)) = answer.text(false)?.lines().nth(1).and_then(|line| line.split_once('\t'))
        && of == directory
    {
        answer.judge(expect_text(thousands(target).1, size))?;
    }
    expect_thousands(target, directory).await
}

async fn rename_and_delete_of_thousands(target: &Target) -> Result<(), CaseError> {
    let (from, to, client) = ("/memories/d/many", "/memories/d/moved", target.client());
    make_thousands(target, from).await?;
    client.rename(from, to).await?.text(false)?;
    expect_thousands(target, to).await?;
    client.delete("/memories/d").await?.text(false)?;
    read_back::expect_files(&client, &[]).await
}

/// Checks the shown lines of a range.
async fn expect_lines(
    client: &Client,
    path: &str,
    (first, last): (usize, i64),
    lines: &[(usize, &str)],
) -> Result<(), CaseError> {
    let view = client.send(view_range(path, first, last)).await?;
    let shown: Vec<_> = lines.iter().map(|(number, line)| format!("{number:6}\t{line}")).collect();
    view.judge(expect_text(&shown.join("\n"), view.body()?))
}

/// Checks the content of a file, where that takes no more than a read.
async fn expect_content(target: &Target, path: &str, expected: &str) -> Result<(), CaseError> {
    if target.store().is_err() {
        return Ok(()); // the lines in the ranges have to do
    }
    target.expect_content(&path.parse()?, expected.as_bytes()).await
}

async fn file_of_4_mib(target: &Target) -> Result<(), CaseError> {
    let (path, moved, client) = ("/memories/large.txt", "/memories/d/moved.txt", target.client());
    let line = |number: usize| format!("{number:05} {}", "x".repeat(57));
    let mut lines: Vec<_> = (1..=LINES).map(line).collect();
    let text = |lines: &[String]| lines.join("\n") + "\n";
    client.must_create(path, text(&lines)).await?;
    expect_content(target, path, &text(&lines)).await?;
    expect_lines(&client, path, (LINES, -1), &[(LINES, &line(LINES)), (LINES + 1, "")]).await?;
    let whole = client.view(path).await?;
    whole.judge(expect_all_of(&[line(1)], whole.text(false)?))?;

    let middle = LINES / 2;
    client.insert(path, middle, "inserted").await?.text(false)?;
    lines.insert(middle, "inserted".to_owned());
    let replaced = client.str_replace(path, &line(LINES), "replaced").await?;
    replaced.judge(expect_all_of(&[format!("{}\treplaced\n", LINES + 1)], replaced.text(false)?))?;
    lines[LINES] = "replaced".to_owned();
    client.str_replace(path, "x", "y").await?.error_with("Multiple occurrences")?;
    client.str_replace(path, "y", "x").await?.error_with("did not appear verbatim")?;
    client.create(path, "").await?.error_with("already exists")?;

    client.rename(path, moved).await?.text(false)?;
    client.view(path).await?.error_with("does not exist")?;
    expect_content(target, moved, &text(&lines)).await?;
    let around = [(middle, &*line(middle)), (middle + 1, "inserted"), (middle + 2, &*line(middle + 1))];
    expect_lines(&client, moved, (middle, middle as i64 + 2), &around).await?;
    expect_lines(&client, moved, (LINES, -1), &[(LINES, &line(LINES - 1)), (LINES + 1, "replaced"), (LINES + 2, "")])
        .await?;
    client.delete(moved).await?.text(false)?;
    read_back::expect_files(&client, &[]).await
}

async fn line_of_1_mib(target: &Target) -> Result<(), CaseError> {
    const LENGTH: usize = 1 << 20;
    let (path, client) = ("/memories/long.txt", target.client());
    let long = "x".repeat(LENGTH - 3) + "end";
    client.must_create(path, format!("one\n{long}\nthree")).await?;
    let view = client.send(view_range(path, 2, 2)).await?;
    view.judge(expect_all_of(&["     2\txxx".to_owned()], view.text(false)?))?;
    client.insert(path, 2, "inserted").await?.text(false)?;
    expect_content(target, path, &format!("one\n{long}\ninserted\nthree")).await?;
    client.str_replace(path, "end", "the end").await?.text(false)?;
    let long = "x".repeat(LENGTH - 3) + "the end";
    expect_content(target, path, &format!("one\n{long}\ninserted\nthree")).await?;
    client.str_replace(path, &format!("{long}y"), "").await?.error_with("did not appear verbatim")?;
    client.str_replace(path, &long, "short").await?.text(false)?;
    client.expect_text(path, "one\nshort\ninserted\nthree").await?;
    client.str_replace(path, "short", &long).await?.text(false)?;
    expect_content(target, path, &format!("one\n{long}\ninserted\nthree")).await
}

/// Texts on both sides of the sizes of blocks are stored and edited.
async fn of_blocks(target: &Target) -> Result<(), CaseError> {
    const LINE: usize = 64;
    let client = target.client();
    for block in [1_usize << 16, 1 << 20] {
        for size in block - 1..=block + 1 {
            let path = format!("/memories/{size}.txt");
            let lines = size / LINE;
            let last = format!("{size}: the end");
            let length = size - last.len();
            let mut text: String = (0..lines).map(|number| format!("{number:0width$}\n", width = LINE - 1)).collect();
            text.truncate(length - 1);
            text = format!("{text}\n{last}");
            let count = text.split('\n').count();
            client.must_create(&path, text.as_str()).await?;
            expect_lines(&client, &path, (count, -1), &[(count, &last)]).await?;
            // One byte more, and one less.
            client.str_replace(&path, ": the end", ":: the end").await?.text(false)?;
            expect_lines(&client, &path, (count, -1), &[(count, &format!("{size}:: the end"))]).await?;
            client.str_replace(&path, ":: the end", ": the end").await?.text(false)?;
            expect_lines(&client, &path, (count, -1), &[(count, &last)]).await?;
            expect_content(target, &path, &text).await?;
        }
    }
    Ok(())
}

async fn listed(target: &Target) -> Result<(), CaseError> {
    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;
    // Another case tests whole numbers of units.
    let sizes = [
        (MIB + MIB / 2, "1.5M"),
        (1000 * MIB + MIB / 2, "1000.5M"),
        (2 * GIB + GIB / 2, "2.5G"),
        (4 * GIB + GIB / 2, "4.5G"),
        (5 * GIB + GIB / 2, "5.5G"),
        (1100 * GIB + GIB / 2, "1100.5G"),
    ];
    let memory = PlainMemory::of(target).await?;
    memory.make_directory("/memories/d").await?;
    let mut expected = Vec::new();
    for (number, (size, shown)) in sizes.into_iter().enumerate() {
        let path = format!("/memories/d/{number}");
        let file = memory.file(&path);
        // Without any blocks on the disk.
        on_disk(format!("make a sparse file of {size} bytes"), move || fs::File::create(file)?.set_len(size)).await?;
        expected.push(format!("\n{shown}\t{path}"));
    }
    let listing = memory.client.view("/memories/d").await?;
    listing.judge(expect_all_of(&expected, listing.text(false)?))
}
