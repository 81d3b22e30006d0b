//! Listing of a directory by `view`.

use std::collections::HashMap;
use std::fmt::{self, Write as _};

use crate::store::node::{FileEntry, Listing};
use crate::store::path::MemoryPath;
use crate::store::path_rules::split_names;
use crate::store::store_path::StorePath;
use crate::tool::lines::ViewRange;
use crate::tool::reply::{DirectoryItem, DirectoryView};
use crate::tool::text::{ViewCut, count_fitting};

/// The number of listed levels below the directory (`[V1]`).
const LEVELS: usize = 2;

impl DirectoryView {
    /// The view of a directory with this `listing` of all files under it: the visible items two levels deep, and the
    /// sizes of directories (`[V1]`, `[V2]`). A valid `range` selects lines (`[V4]`), and `cap` limits the number of
    /// characters (`[V8]`).
    ///
    /// ```
    /// use memory_tool_core::{DirectoryView, FileEntry, Listing, MemoryPath};
    ///
    /// let files = [("/memories/d/a.txt", 3), ("/memories/d/e/b.txt", 4)];
    /// let files = files.map(|(path, size)| path.parse().map(|path| FileEntry::new(path, size)));
    /// let listing = Listing::from(files.into_iter().collect::<Result<Vec<_>, _>>()?);
    /// let view = DirectoryView::of_listing(MemoryPath::root(), &listing, None, None);
    /// assert!(view.to_string().ends_with("\n7B\t/memories\n7B\t/memories/d/\n3B\t/memories/d/a.txt\n4B\t/memories/d/e/"));
    /// # Ok::<(), memory_tool_core::PathError>(())
    /// ```
    pub fn of_listing(directory: MemoryPath, listing: &Listing, range: Option<&ViewRange>, cap: Option<usize>) -> Self {
        let mut view = Self::new(directory.clone(), 0, Vec::new());
        let mut directories = HashMap::new();
        for file in listing.files.iter().filter(|file| file.path.is_under(&directory)) {
            add_file(&mut view, &mut directories, file);
        }
        let is_within = |path: &StorePath| *path == *directory || path.is_under(&directory);
        for item in listing.unlisted.iter().filter(|item| is_within(&item.directory)) {
            let above = split_names(&item.directory.as_str()[directory.as_str().len()..]).skip(1);
            if above.chain([item.name.as_str()]).all(is_visible) {
                *view.unlisted.entry(item.reason).or_default() += 1;
            }
        }
        view.items.sort_unstable_by(|left, right| left.path.cmp(&right.path));
        keep_lines(&mut view, range, cap);
        view
    }
}

/// Adds the line of a file, or the lines of the visible directories above it, and adds its size to these directories.
/// `directories` contains the positions of their lines in `view`.
fn add_file<'a>(view: &mut DirectoryView, directories: &mut HashMap<&'a str, usize>, file: &'a FileEntry) {
    let Ok(whole) = MemoryPath::try_from(&file.path) else { return }; // no listing of a memory has records
    let path = file.path.as_str();
    let above = view.path.as_str().len();
    let names = || split_names(&path[above..]).skip(1);
    // A hidden file, or a file in a hidden directory, has no size, but makes the visible directories above it exist.
    let size = if names().all(is_visible) { file.size } else { 0 };
    view.size = view.size.saturating_add(size);
    let mut length = above;
    for name in names().take(LEVELS).take_while(|name| is_visible(name)) {
        length += 1 + name.len();
        if length == path.len() {
            view.items.push(file_item(whole, file));
            return;
        }
        let position = *directories.entry(&path[..length]).or_insert_with(|| {
            view.items.push(DirectoryItem::new(whole.truncated(length), 0, true));
            view.items.len() - 1
        });
        let directory = &mut view.items[position];
        directory.size = directory.size.saturating_add(size);
    }
}

fn file_item(path: MemoryPath, file: &FileEntry) -> DirectoryItem {
    if file.is_damaged { DirectoryItem::damaged(path, file.size) } else { DirectoryItem::new(path, file.size, false) }
}

pub(crate) fn is_visible(name: &str) -> bool {
    !name.starts_with('.') && name != "node_modules"
}

/// Keeps the lines that are in `range` and fit into `cap` characters. Lines of a listing are not split, so at least one
/// line remains.
fn keep_lines(view: &mut DirectoryView, range: Option<&ViewRange>, cap: Option<usize>) {
    let total = 1 + view.items.len();
    let (first, last) = range.and_then(|range| range.resolve(total)).unwrap_or((1, total));
    let shown = match cap {
        Some(cap) => count_fitting((first..=last).map(|line| line_length(view, line)), cap).max(1),
        None => last + 1 - first,
    };
    let end = first + shown - 1;
    view.items.truncate(end - 1);
    view.items.drain(..first.saturating_sub(2));
    view.first_line = first;
    view.cut = (end < last).then_some(ViewCut::Lines { first, last: end, total });
}

/// The length of a line of the complete listing in characters.
fn line_length(view: &DirectoryView, line: usize) -> usize {
    let mut length = CharacterCount(0);
    // A counter never fails.
    let _ = match line.checked_sub(2) {
        None => write!(length, "{}", view.own_line()),
        Some(index) => write!(length, "{}", view.items[index]),
    };
    length.0
}

struct CharacterCount(usize);

impl fmt::Write for CharacterCount {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.chars().count();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::node::{UnlistedItem, UnlistedReason};

    fn listing(files: &[(&str, u64)]) -> Listing {
        files.iter().map(|(path, size)| FileEntry::new(path.parse().unwrap(), *size)).collect()
    }

    fn view(directory: &str, files: &[(&str, u64)], range: Option<ViewRange>, cap: Option<usize>) -> String {
        DirectoryView::of_listing(directory.parse().unwrap(), &listing(files), range.as_ref(), cap).to_string()
    }

    #[test]
    fn visible_items_that_cannot_be_listed_are_counted() {
        use UnlistedReason::{IllegalName, Unreadable};
        let unlisted = [
            ("/memories", "e\u{301}", IllegalName),
            ("/memories/a/b/c", "locked", Unreadable),
            ("/memories/a", "tab\t", IllegalName),
            ("/memories", ".git", Unreadable),
            ("/memories/node_modules/x", "tab\t", IllegalName),
        ];
        let unlisted =
            unlisted.map(|(directory, name, reason)| UnlistedItem::new(directory.parse().unwrap(), name, reason));
        let shown = |unlisted: &[UnlistedItem], cap| {
            let listing = listing(&[("/memories/a/f", 1), ("/memories/z", 2)]).with_unlisted(unlisted.to_vec());
            let view = DirectoryView::of_listing(MemoryPath::root(), &listing, None, cap).to_string();
            view.lines().skip(3).map(str::to_owned).collect::<Vec<_>>()
        };
        let all = "[3 items could not be listed: 1 unreadable, 2 with illegal names.]";
        assert_eq!(shown(&unlisted, None), ["1B\t/memories/a/f", "2B\t/memories/z", all]);
        let one = "[1 items could not be listed: 1 with an illegal name.]";
        assert_eq!(
            shown(&unlisted[..1], Some(31)),
            [one, "[Showing lines 1-2 of 4. To read on, use view_range [3, -1].]"]
        );
        assert_eq!(shown(&unlisted[3..], None), ["1B\t/memories/a/f", "2B\t/memories/z"]);
        let of_the_directory = Listing::default().with_unlisted(vec![unlisted[4].clone()]);
        let directory = MemoryPath::try_from(&unlisted[4].directory).unwrap();
        let view = DirectoryView::of_listing(directory, &of_the_directory, None, None).to_string();
        assert!(view.ends_with("\n[1 items could not be listed: 1 with an illegal name.]"), "{view}");
    }

    #[test]
    fn sizes_include_all_depths_and_exclude_hidden_items() {
        let files = [
            ("/memories/z.txt", 1),
            ("/memories/a/c/d/e/deep.txt", 1024),
            ("/memories/a/.hidden/x", 7),
            ("/memories/a/node_modules/x", 7),
            ("/memories/only/.hidden", 7),
            ("/memories/.top", 7),
        ];
        let lines = view("/memories", &files, None, None);
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
            view("/memories/a/.hidden", &[("/memories/a/.hidden/x", 7)], None, None)
                .ends_with("7B\t/memories/a/.hidden/x")
        );
    }

    #[test]
    fn a_damaged_file_is_listed_as_damaged() {
        let root: MemoryPath = "/memories".parse().unwrap();
        let intact = FileEntry::new("/memories/a/intact".parse().unwrap(), 3);
        let damaged = |path: &str| FileEntry::damaged(path.parse().unwrap(), 2);
        let mut files = Listing::from(vec![damaged("/memories/a/b/c"), intact, damaged("/memories/d")]);
        for _ in 0..files.files.len() {
            files.files.rotate_left(1);
            let shown = DirectoryView::of_listing(root.clone(), &files, None, None).to_string();
            let lines: Vec<_> = shown.lines().skip(2).collect();
            assert_eq!(
                lines,
                ["5B\t/memories/a/", "2B\t/memories/a/b/", "3B\t/memories/a/intact", "damaged\t/memories/d"]
            );
        }
    }

    #[test]
    fn ranges_and_caps_select_lines_of_a_listing() {
        let files = [("/memories/a", 1), ("/memories/b", 2), ("/memories/c", 3)];
        let shown = |range: Option<[i64; 2]>, cap| {
            let range = range.map(|[first, last]| ViewRange::new(first, last));
            let view = view("/memories", &files, range, cap);
            view.split_once('\n').unwrap().1.to_owned()
        };
        const LINES: [&str; 4] = ["6B\t/memories", "1B\t/memories/a", "2B\t/memories/b", "3B\t/memories/c"];
        const CAP: usize = 12 + 1 + 14 + 1 + 14;
        let whole = LINES.join("\n");
        for (range, cap, lines, note) in [
            (None, Some(CAP + 15), &LINES[..], ""),
            (None, Some(CAP + 14), &LINES[..3], "\n[Showing lines 1-3 of 4. To read on, use view_range [4, -1].]"),
            (None, Some(CAP), &LINES[..3], "\n[Showing lines 1-3 of 4. To read on, use view_range [4, -1].]"),
            (None, Some(CAP - 1), &LINES[..2], "\n[Showing lines 1-2 of 4. To read on, use view_range [3, -1].]"),
            (None, Some(0), &LINES[..1], "\n[Showing lines 1-1 of 4. To read on, use view_range [2, -1].]"),
            (None, Some(1), &LINES[..1], "\n[Showing lines 1-1 of 4. To read on, use view_range [2, -1].]"),
            (Some([4, -1]), Some(CAP), &LINES[3..], ""),
            (Some([2, 3]), Some(CAP), &LINES[1..3], ""),
            (Some([2, 3]), Some(1), &LINES[1..2], "\n[Showing lines 2-2 of 4. To read on, use view_range [3, -1].]"),
            (Some([1, 1]), None, &LINES[..1], ""),
            (Some([3, 9]), None, &LINES[2..], ""),
        ] {
            assert_eq!(shown(range, cap), format!("{}{note}", lines.join("\n")), "{range:?} {cap:?}");
        }
        for unfit in [[5, 5], [5, -1], [0, 2], [3, 2], [-1, -1]] {
            assert_eq!(shown(Some(unfit), None), whole, "{unfit:?}");
        }
    }
}
