//! Reads the stored files through `view`, for backends that support only commands.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::failure::{CaseError, Failure, expect_text};
use crate::session::{Answer, Client, sorted_lines, view_range};
use memory_tool_core::{DEFAULT_MAX_VIEW_CHARACTERS, MemoryPath};

/// The start of the note of a truncated reply (`[V8]`).
const NOTE: &str = "[Showing lines ";

impl Client {
    /// The text of a file, which must exist.
    pub(crate) async fn text(&self, path: impl fmt::Display) -> Result<String, CaseError> {
        let path: MemoryPath = path.to_string().parse().map_err(|_| Failure::new("not a path"))?;
        let content = content(self, &path).await?;
        String::from_utf8(content).map_err(|_| Failure::new(format!("{path} is not UTF-8 text")).into())
    }

    /// Checks that a file has exactly this text.
    pub(crate) async fn expect_text(&self, path: impl fmt::Display, text: &str) -> Result<(), CaseError> {
        let step = format!("reading {path}");
        let found = self.text(path).await.and_then(|found| expect_text(text, &found));
        found.map_err(|stop| stop.in_step(step))
    }

    /// Checks that nothing exists at a path.
    pub(crate) async fn expect_absent(&self, path: impl fmt::Display) -> Result<(), CaseError> {
        self.view(path).await?.error_with("does not exist")
    }

    /// Deletes a path, if it exists.
    pub(crate) async fn delete_if_any(&self, path: impl fmt::Display) -> Result<(), CaseError> {
        let answer = self.delete(path).await?;
        if answer.is_error() { answer.error_with("does not exist") } else { Ok(()) }
    }
}

/// Whether views show the whole file under the default cap: it is text without lines that are cut.
pub(crate) fn is_shown_whole(content: &[u8]) -> bool {
    const NUMBER: usize = 7; // with the tab
    let is_short = |line: &str| line.chars().count() + NUMBER <= DEFAULT_MAX_VIEW_CHARACTERS;
    str::from_utf8(content).is_ok_and(|text| text.split('\n').all(is_short))
}

/// The bytes of a text file, assembled from the numbered lines of one or more views. Any header, padding of numbers and
/// final line feed will do: other cases test them.
pub(crate) async fn content(client: &Client, path: &MemoryPath) -> Result<Vec<u8>, CaseError> {
    let mut lines: Vec<String> = Vec::new();
    loop {
        let next = lines.len() + 1;
        let answer = view_from(client, path.as_str(), next).await?;
        let mut is_cut = false;
        for shown in answer.body()?.split('\n') {
            match shown.split_once('\t') {
                Some((number, line)) if number.trim_start().parse() == Ok(lines.len() + 1) => {
                    lines.push(line.to_owned());
                }
                None if shown.starts_with(NOTE) && lines.len() >= next => is_cut = true,
                _ => return Err(answer.wrong(format!("expected line {}, got {shown:?}", lines.len() + 1))),
            }
        }
        if !is_cut {
            return Ok(lines.join("\n").into_bytes());
        }
    }
}

/// An item of a listing.
pub(crate) struct Item<'a> {
    /// Without a final slash.
    pub(crate) path: &'a str,
    pub(crate) size: Option<&'a str>,
    pub(crate) has_slash: bool,
}

/// The items of a listing after its header, without the directory itself. Any header, order and final line feed will
/// do, and lines without sizes: other cases test them.
pub(crate) fn listed<'a>(listing: &'a str, directory: &str) -> impl Iterator<Item = Item<'a>> {
    let lines = listing.split('\n').skip(1).filter(|line| !line.is_empty() && !line.starts_with(NOTE));
    let items = lines.map(|line| {
        let (size, path) = line.split_once('\t').map_or((None, line), |(size, path)| (Some(size), path));
        let cut = path.strip_suffix('/');
        Item { path: cut.unwrap_or(path), size, has_slash: cut.is_some() }
    });
    items.filter(move |item| item.path != directory)
}

impl Answer {
    /// Checks that it is a listing of these items, which begin with the directory itself, in any order.
    pub(crate) fn items<T: AsRef<str>>(&self, items: &[T]) -> Result<(), CaseError> {
        let sorted = |mut items: Vec<&str>| {
            items.sort_unstable();
            items.join("\n")
        };
        let directory = items.first().map_or("", AsRef::as_ref);
        let expected = sorted(items.iter().skip(1).map(AsRef::as_ref).collect());
        let found = sorted(listed(self.text(false)?, directory).map(|item| item.path).collect());
        self.judge(expect_text(&expected, &found))
    }
}

/// The first line of each view that it takes to read a text file.
pub(crate) async fn pages(client: &Client, path: &str) -> Result<Vec<usize>, CaseError> {
    let mut pages = vec![1];
    while let Some(&first) = pages.last() {
        let answer = view_from(client, path, first).await?;
        let mut lines = answer.text(false)?.lines().rev();
        if !lines.next().is_some_and(|line| line.starts_with(NOTE)) {
            break;
        }
        let last = lines.next().and_then(|line| line.split_once('\t')?.0.trim_start().parse::<usize>().ok());
        let last = last.filter(|last| *last >= first);
        pages.push(1 + last.ok_or_else(|| answer.wrong("expected numbered lines before the note"))?);
    }
    Ok(pages)
}

async fn view_from(client: &Client, path: &str, line: usize) -> Result<Answer, CaseError> {
    match line {
        1 => client.view(path).await,
        _ => client.send(view_range(path, line, -1)).await,
    }
}

/// Checks that exactly these files exist. Hidden files are viewed by name, because no listing shows them.
pub(crate) async fn expect_files(client: &Client, expected: &[MemoryPath]) -> Result<(), CaseError> {
    let (hidden, visible): (Vec<_>, Vec<_>) = expected.iter().cloned().partition(is_hidden);
    let listed = listed_files(client).await?;
    expect_text(&sorted_lines(visible), &sorted_lines(listed))?;
    for path in hidden {
        client.view(&path).await?.text(false)?;
    }
    Ok(())
}

fn is_hidden(path: &MemoryPath) -> bool {
    path.segments().any(|segment| segment.starts_with('.') || segment == "node_modules")
}

/// All files found by following listings.
async fn listed_files(client: &Client) -> Result<Vec<MemoryPath>, CaseError> {
    let mut files = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut directories = vec!["/memories".to_owned()];
    while let Some(directory) = directories.pop() {
        if !seen.insert(directory.clone()) {
            continue;
        }
        for (item, is_directory) in listed_items(client, &directory).await? {
            if is_directory {
                directories.push(item);
            } else {
                files.insert(item.parse().map_err(|_| Failure::new(format!("{item:?} is not a path")))?);
            }
        }
    }
    Ok(files.into_iter().collect())
}

/// The paths of the items of a listing, from one or more views, and whether each is a directory.
async fn listed_items(client: &Client, directory: &str) -> Result<BTreeMap<String, bool>, CaseError> {
    let mut items = BTreeMap::new();
    let mut next = 1;
    loop {
        let answer = view_from(client, directory, next).await?;
        let text = answer.text(false)?;
        let shown: Vec<_> = listed(text, directory).collect();
        // A form in which directories cannot be recognized.
        let is_above =
            |other: &Item<'_>, path: &str| other.path.strip_prefix(path).is_some_and(|it| it.starts_with('/'));
        let is_plain = shown.iter().any(|item| {
            !item.has_slash && (item.size.is_none() || shown.iter().any(|other| is_above(other, item.path)))
        });
        for item in &shown {
            let is_directory = item.has_slash || is_plain && is_listing(client, item.path).await?;
            items.insert(item.path.to_owned(), is_directory);
        }
        if !text.lines().next_back().is_some_and(|line| line.starts_with(NOTE)) {
            return Ok(items);
        }
        let lines_so_far = 1 + items.len();
        if lines_so_far < next {
            return Err(answer.wrong(format!("expected the listing to continue at line {next}")));
        }
        next = lines_so_far + 1;
    }
}

/// Whether a view shows no numbered line, for tools whose listings do not mark directories.
async fn is_listing(client: &Client, path: &str) -> Result<bool, CaseError> {
    let answer = client.view(path).await?;
    let first = answer.text(false)?.split('\n').nth(1).unwrap_or_default();
    Ok(first.split_once('\t').is_none_or(|(number, _)| number.trim_start() != "1"))
}
