//! Limits of the tool and of Claude Code: `long-index`, `cut-view`, `cut-listing` and `empty`.

use std::collections::BTreeMap;

use memory_tool_core::{DEFAULT_MAX_VIEW_CHARACTERS, DirectoryView, FileView, Listing, MemoryPath, StorePath, ViewCut};

use crate::lint::{Findings, LintRule, count, is_index, is_visible};

/// The lines and bytes of an index that Claude Code loads.
const INDEX_LINES: u64 = 200;
const INDEX_BYTES: usize = 25_000;

/// The levels below `/memories` that `view /memories` lists (`[V1]`).
const LEVELS: usize = 2;

pub(super) fn check(path: &StorePath, text: &str, findings: &mut Findings<'_>) {
    if text.trim().is_empty() {
        let message = if text.is_empty() { "the file is empty" } else { "the file has only white space" };
        findings.add(LintRule::Empty, path, None, message);
    }
    if is_index(path) {
        check_index(path, text, findings);
    }
    if findings.is_on(LintRule::CutView) {
        check_view(path, text, findings);
    }
}

fn check_index(path: &StorePath, text: &str, findings: &mut Findings<'_>) {
    let (mut lines, mut bytes, mut first) = (0, 0, None);
    for line in text.split_inclusive('\n') {
        (lines, bytes) = (lines + 1, bytes + line.len());
        if lines > INDEX_LINES || bytes > INDEX_BYTES {
            first.get_or_insert(lines);
        }
    }
    if let Some(first) = first {
        let cut = count(lines + 1 - first, "line");
        let message = format!("Claude Code loads 200 lines and 25,000 bytes of an index, and cuts {cut} from here");
        findings.add(LintRule::LongIndex, path, Some(first), message);
    }
}

fn check_view(path: &StorePath, text: &str, findings: &mut Findings<'_>) {
    let Ok(viewed) = MemoryPath::try_from(path) else { return };
    let (line, message) = match FileView::of_text(viewed, text, None, Some(DEFAULT_MAX_VIEW_CHARACTERS)) {
        Ok(FileView { cut: None, .. }) => return,
        Ok(FileView { cut: Some(ViewCut::Lines { last, total, .. }), .. }) => {
            let more = count((total - last) as u64, "line");
            (Some(last as u64 + 1), format!("`view` stops before this line, and leaves out {more}"))
        }
        Ok(FileView { cut: Some(ViewCut::Characters { line, shown, length, .. }), .. }) => {
            (Some(line as u64), format!("`view` shows {shown} of the {length} characters of this line"))
        }
        Ok(_) => (None, "`view` cuts the text".to_owned()),
        Err(error) => (None, format!("`view` fails: {error}")),
    };
    findings.add(LintRule::CutView, path, line, message);
}

/// Why `view /memories` leaves files out.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum LeftOut {
    Hidden,
    Deep,
}

/// Reports files that `view /memories` leaves out: the hidden ones of each visible directory, and the others under each
/// directory that it lists but does not open.
pub(super) fn check_listing(listing: &Listing, findings: &mut Findings<'_>) {
    let mut left_out: BTreeMap<(&str, LeftOut), u64> = BTreeMap::new();
    for path in listing.files.iter().map(|file| file.path.as_str()) {
        let mut end = StorePath::memories().as_str().len();
        for (level, name) in path.split('/').skip(2).enumerate() {
            let reason = match is_visible(name) {
                _ if level == LEVELS => LeftOut::Deep,
                true => {
                    end += 1 + name.len();
                    continue;
                }
                false => LeftOut::Hidden,
            };
            *left_out.entry((&path[..end], reason)).or_default() += 1;
            break;
        }
    }
    for ((directory, reason), files) in left_out {
        let Ok(directory) = MemoryPath::parse(directory) else { continue };
        let (files, directory) = (count(files, "file"), StorePath::from(directory));
        let message = match reason {
            LeftOut::Hidden => format!("`view /memories` leaves out {files} with a hidden name or directory"),
            LeftOut::Deep => format!("`view /memories` leaves out {files}, more than 2 levels deep"),
        };
        findings.add(LintRule::CutListing, &directory, None, message);
    }
    let view = DirectoryView::of_listing(MemoryPath::root(), listing, None, Some(DEFAULT_MAX_VIEW_CHARACTERS));
    if let Some(ViewCut::Lines { last, total, .. }) = view.cut {
        let message = format!("`view /memories` shows {last} of {total} lines");
        findings.add(LintRule::CutListing, &StorePath::memories(), None, message);
    }
}
