//! How `view` shows a directory: which files are visible, what they add up to, and where the cap falls.

use std::collections::HashMap;
use std::num::NonZeroUsize;

use crate::path::MemoryPath;
use crate::reply::{DirectoryItem, DirectoryView};
use crate::store::FileEntry;

/// How many levels below the directory are shown (`[V1]`).
const LEVELS: usize = 2;

/// The view of `directory`, which holds `files` (`[V1]`, `[V2]`), cut to `cap` characters (`[V8]`).
pub(crate) fn view_directory(directory: &MemoryPath, files: &[FileEntry], cap: Option<NonZeroUsize>) -> DirectoryView {
    let mut view = DirectoryView::new(directory.clone(), 0, Vec::new());
    let mut sums = HashMap::new();
    for file in files {
        add_file(&mut view, &mut sums, file);
    }
    view.items = sums.into_values().map(Sum::into_item).collect();
    view.items.sort_by(|left, right| left.path.cmp(&right.path));
    if let Some(cap) = cap {
        omit_beyond(cap, &mut view);
    }
    view
}

/// What is known of a line, while files are added. It borrows its path, since most files only add to lines that are there.
struct Sum<'a> {
    /// A file of whose path the line's path is the beginning.
    file: &'a FileEntry,
    /// The length of the line's path in bytes.
    length: usize,
    size: u64,
}

impl Sum<'_> {
    fn into_item(self) -> DirectoryItem {
        let is_directory = self.length < self.file.path.as_str().len();
        if self.file.is_damaged && !is_directory {
            return DirectoryItem::damaged(self.file.path.clone(), self.size);
        }
        DirectoryItem::new(self.file.path.truncated(self.length), self.size, is_directory)
    }
}

/// Adds the file's size to every visible directory above it, and the lines that it gives rise to.
fn add_file<'a>(view: &mut DirectoryView, sums: &mut HashMap<&'a str, Sum<'a>>, file: &'a FileEntry) {
    let path = file.path.as_str();
    let above = view.path.as_str().len();
    let names = || path[above..].split('/').skip(1);
    // What lies in a hidden directory, or is hidden itself, counts for nothing; a visible directory above it exists.
    let size = if names().all(is_visible) { file.size } else { 0 };
    view.size = view.size.saturating_add(size);
    let mut length = above;
    for name in names().take(LEVELS).take_while(|name| is_visible(name)) {
        length += 1 + name.len();
        let sum = sums.entry(&path[..length]).or_insert(Sum { file, length, size: 0 });
        sum.size = sum.size.saturating_add(size);
    }
}

fn is_visible(name: &str) -> bool {
    !name.starts_with('.') && name != "node_modules"
}

/// Leaves out the last items, so that what is shown keeps within `cap` characters.
fn omit_beyond(cap: NonZeroUsize, view: &mut DirectoryView) {
    let items = std::mem::take(&mut view.items);
    let mut characters = view.to_string().chars().count();
    for item in items {
        // With its line feed. The count goes on growing, so nothing follows the first item that is left out.
        characters += 1 + item.to_string().chars().count();
        if characters <= cap.get() {
            view.items.push(item);
        } else {
            view.omitted += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(directory: &str, files: &[(&str, u64)], cap: Option<usize>) -> String {
        let entry = |(path, size): &(&str, u64)| FileEntry::new(path.parse().unwrap(), *size);
        let files: Vec<_> = files.iter().map(entry).collect();
        view_directory(&directory.parse().unwrap(), &files, cap.and_then(NonZeroUsize::new)).to_string()
    }

    #[test]
    fn sizes_add_up_over_all_depths_and_leave_out_what_is_hidden() {
        let files = [
            ("/memories/z.txt", 1),
            ("/memories/a/c/d/e/deep.txt", 1024),
            ("/memories/a/.hidden/x", 7),
            ("/memories/a/node_modules/x", 7),
            ("/memories/only/.hidden", 7),
            ("/memories/.top", 7),
        ];
        let lines = view("/memories", &files, None);
        let lines: Vec<_> = lines.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "1.0K\t/memories",
                "1.0K\t/memories/a/",
                "1.0K\t/memories/a/c/",
                "0B\t/memories/only/",
                "1B\t/memories/z.txt"
            ]
        );
        assert!(
            view("/memories/a/.hidden", &[("/memories/a/.hidden/x", 7)], None).ends_with("7B\t/memories/a/.hidden/x")
        );
    }

    #[test]
    fn a_damaged_file_is_shown_as_damaged() {
        let root: MemoryPath = "/memories".parse().unwrap();
        let sound = FileEntry::new("/memories/a/sound".parse().unwrap(), 3);
        let damaged = |path: &str| FileEntry::damaged(path.parse().unwrap(), 2);
        let mut files = vec![damaged("/memories/a/b/c"), sound, damaged("/memories/d")];
        for _ in 0..files.len() {
            files.rotate_left(1);
            let shown = view_directory(&root, &files, None).to_string();
            let lines: Vec<_> = shown.lines().skip(2).collect();
            assert_eq!(
                lines,
                ["5B\t/memories/a/", "2B\t/memories/a/b/", "3B\t/memories/a/sound", "damaged\t/memories/d"]
            );
        }
    }

    #[test]
    fn a_capped_listing_says_how_many_items_it_leaves_out() {
        let files = [("/memories/a", 1), ("/memories/b", 2), ("/memories/c", 3)];
        let whole = view("/memories", &files, None);
        assert_eq!(view("/memories", &files, Some(whole.len())), whole);
        let cut = view("/memories", &files, Some(whole.len() - 1));
        let (shown, note) = cut.rsplit_once('\n').unwrap();
        assert!(whole.starts_with(shown) && shown.ends_with("2B\t/memories/b"));
        assert_eq!(note, "[1 more items are not shown. View a directory beneath to see them.]");
    }
}
