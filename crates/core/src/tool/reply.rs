//! [`Reply`]: the result of a command.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::store::node::UnlistedReason;
use crate::store::path::MemoryPath;
use crate::tool::content::{Content, ContentBlock, ImageSource};
use crate::tool::error::Error;
use crate::tool::lines::ViewRange;
use crate::tool::text::{Snippet, ViewCut, cap_lines, count_lines, number_lines, slice_lines};

/// The maximum number of lines of a file (`[V5]`). The message of [`Error::TooManyLines`] contains this number too.
const MAX_LINES: usize = 999_999;

/// The result of a successful command.
///
/// `Display` and [`to_content`](Self::to_content) return the exact text of the contract. To use another language, match
/// on the variants, and return [`Text`](Self::Text).
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Reply {
    /// `view` of a directory (`[V1]`).
    Directory(DirectoryView),
    /// `view` of a text file (`[V3]`).
    File(FileView),
    /// `view` of an image (`[V9]`).
    Image(ImageView),
    /// `create` created the file (`[C1]`).
    Created {
        /// The new file.
        path: MemoryPath,
    },
    /// `str_replace` edited the file (`[S1]`).
    Replaced {
        /// The file.
        path: MemoryPath,
        /// The lines around the start of the change.
        snippet: Snippet,
    },
    /// `insert` edited the file (`[I1]`).
    Inserted {
        /// The file.
        path: MemoryPath,
    },
    /// `delete` removed the file or directory (`[D1]`).
    Deleted {
        /// The deleted path.
        path: MemoryPath,
    },
    /// `rename` moved the file or directory (`[R1]`).
    Renamed {
        /// The old path.
        old_path: MemoryPath,
        /// The new path.
        new_path: MemoryPath,
    },
    /// [`clear_all_memory`](crate::MemoryTool::clear_all_memory) deleted all files.
    Cleared,
    /// Text from another implementation of [`MemoryTool`](crate::MemoryTool).
    Text(String),
    /// Content blocks from another implementation of [`MemoryTool`](crate::MemoryTool).
    Blocks(Vec<ContentBlock>),
}

impl Reply {
    /// The `content` of the `tool_result` block (`[W2]`): text, or content blocks for an image.
    pub fn to_content(&self) -> Content {
        match self {
            Self::Image(image) => Content::Blocks(vec![ContentBlock::Image {
                source: ImageSource::Base64 {
                    media_type: image.media_type.to_owned(),
                    data: BASE64.encode(&image.content),
                },
            }]),
            Self::Blocks(blocks) => Content::Blocks(blocks.clone()).without_nul(),
            text => Content::Text(text.to_string()).without_nul(),
        }
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(directory) => directory.fmt(f),
            Self::File(file) => file.fmt(f),
            Self::Image(image) => write!(f, "[{}: {}]", image.path, image.media_type),
            Self::Created { path } => write!(f, "File created successfully at: {path}"),
            Self::Replaced { snippet, .. } => write!(
                f,
                "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n\
                 {snippet}"
            ),
            Self::Inserted { path } => write!(f, "The file {path} has been edited."),
            Self::Deleted { path } => write!(f, "Successfully deleted {path}"),
            Self::Renamed { old_path, new_path } => write!(f, "Successfully renamed {old_path} to {new_path}"),
            Self::Cleared => f.write_str("All memory cleared"),
            Self::Text(text) => f.write_str(text),
            Self::Blocks(blocks) => {
                let texts = blocks.iter().filter_map(|block| match block {
                    ContentBlock::Text { text } => Some(text.as_str()),
                    ContentBlock::Image { .. } => None,
                });
                f.write_str(&texts.collect::<Vec<_>>().join("\n"))
            }
        }
    }
}

/// The listing of a directory by `view`: the directory and the visible items up to two levels below it (`[V1]`). A
/// range or the character limit can omit lines at either end (`[V4]`, `[V8]`).
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct DirectoryView {
    /// The directory.
    pub path: MemoryPath,
    /// The total size of the visible files under it, at any depth, in bytes (`[V2]`).
    pub size: u64,
    /// The number of the first line in the reply. Line 1 is the directory itself, and each item is a line.
    pub first_line: usize,
    /// The items in the reply, depth first, with siblings sorted by name.
    pub items: Vec<DirectoryItem>,
    /// The numbers of items under the directory that cannot be listed, by reason. Hidden ones are not counted.
    pub unlisted: BTreeMap<UnlistedReason, usize>,
    /// The position where the character limit truncated the listing (`[V8]`).
    pub cut: Option<ViewCut>,
}

impl DirectoryView {
    /// Creates a complete listing.
    pub fn new(path: MemoryPath, size: u64, items: Vec<DirectoryItem>) -> Self {
        Self { path, size, first_line: 1, items, unlisted: BTreeMap::new(), cut: None }
    }

    /// The first line of the listing, for the directory itself.
    pub(crate) fn own_line(&self) -> String {
        format!("{}\t{}", HumanSize(self.size), self.path)
    }
}

/// One line of a [`DirectoryView`].
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct DirectoryItem {
    /// The file or directory.
    pub path: MemoryPath,
    /// The size in bytes. For a directory, the total size of the visible files under it (`[V2]`).
    pub size: u64,
    /// Whether the item is a directory, displayed with a trailing slash.
    pub is_directory: bool,
    /// Whether the item is a damaged file, displayed with `damaged` in place of its size.
    pub is_damaged: bool,
}

impl DirectoryItem {
    /// Creates a line for a file or directory.
    pub fn new(path: MemoryPath, size: u64, is_directory: bool) -> Self {
        Self { path, size, is_directory, is_damaged: false }
    }

    /// Creates a line for a damaged file.
    pub fn damaged(path: MemoryPath, size: u64) -> Self {
        Self { path, size, is_directory: false, is_damaged: true }
    }
}

impl fmt::Display for DirectoryView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Here're the files and directories up to 2 levels deep in {}, excluding hidden items and node_modules:",
            self.path
        )?;
        if self.first_line == 1 {
            write!(f, "\n{}", self.own_line())?;
        }
        for item in &self.items {
            write!(f, "\n{item}")?;
        }
        write_unlisted(f, &self.unlisted)?;
        write_note(f, self.cut.as_ref())
    }
}

impl fmt::Display for DirectoryItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_damaged {
            return write!(f, "damaged\t{}", self.path);
        }
        write!(f, "{}\t{}{}", HumanSize(self.size), self.path, if self.is_directory { "/" } else { "" })
    }
}

/// A size in a listing (`[V2]`), such as `13B`, `1.5K`, `1.2M` or `1.0G`.
struct HumanSize(u64);

impl fmt::Display for HumanSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 1024 {
            return write!(f, "{}B", self.0);
        }
        // Rounded first: a size that would display as 1024.0 has the next unit.
        let (tenths, unit) = match (self.tenths(10), self.tenths(20), self.tenths(30)) {
            (kibibytes, _, _) if kibibytes < 10_240 => (kibibytes, 'K'),
            (_, mebibytes, _) if mebibytes < 10_240 => (mebibytes, 'M'),
            (_, _, gibibytes) => (gibibytes, 'G'),
        };
        write!(f, "{}.{}{unit}", tenths / 10, tenths % 10)
    }
}

impl HumanSize {
    /// The size in tenths of a unit of `2^shift` bytes, rounded to nearest, with ties to even.
    fn tenths(&self, shift: u32) -> u64 {
        let (mask, half) = ((1 << shift) - 1, 1 << (shift - 1));
        let below_one = (self.0 & mask) * 10;
        let (tenths, rest) = ((self.0 >> shift) * 10 + (below_one >> shift), below_one & mask);
        let rounds_up = rest > half || (rest == half && tenths % 2 == 1);
        tenths + u64::from(rounds_up)
    }
}

/// The view of a text file or a part of it (`[V3]`).
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct FileView {
    /// The file.
    pub path: MemoryPath,
    /// The lines in the reply, without line numbers.
    pub text: String,
    /// The 1-based number of the first line.
    pub first_line: usize,
    /// The number of lines of the whole file.
    pub total_lines: usize,
    /// The position where the character limit truncated the lines (`[V8]`).
    pub cut: Option<ViewCut>,
}

impl FileView {
    /// Creates a view that is not truncated.
    pub fn new(path: MemoryPath, text: impl Into<String>, first_line: usize, total_lines: usize) -> Self {
        Self { path, text: text.into(), first_line, total_lines, cut: None }
    }

    /// The view of a text file: the lines in `range` (`[V4]`), or all, up to `cap` characters with their numbers
    /// (`[V8]`).
    ///
    /// ```
    /// use memory_tool_core::{FileView, MemoryPath, ViewRange};
    ///
    /// let path = MemoryPath::parse("/memories/a.txt")?;
    /// let view = FileView::of_text(path, "one\ntwo\nthree", Some(&ViewRange::new(2, -1)), Some(16_000))?;
    /// assert_eq!(
    ///     view.to_string(),
    ///     "Here's the content of /memories/a.txt with line numbers:\n     2\ttwo\n     3\tthree"
    /// );
    /// # Ok::<(), memory_tool_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::TooManyLines`] (`[V5]`), [`Error::InvalidViewRange`] (`[V4]`).
    pub fn of_text(
        path: MemoryPath,
        text: impl Into<String>,
        range: Option<&ViewRange>,
        cap: Option<usize>,
    ) -> Result<Self, Error> {
        let text = text.into();
        let total_lines = count_lines(&text);
        if total_lines > MAX_LINES {
            return Err(Error::TooManyLines { path });
        }
        let (first_line, lines) = match range {
            None => (1, text.as_str()),
            Some(range) => {
                let invalid = || Error::InvalidViewRange { view_range: range.clone(), total_lines };
                let (first, last) = range.resolve(total_lines).ok_or_else(invalid)?;
                (first, slice_lines(&text, first, last))
            }
        };
        let (shown, cut) = cap_lines(lines, first_line, total_lines, cap);
        let shown = if shown.len() == text.len() { text } else { shown.to_owned() };
        Ok(Self { path, text: shown, first_line, total_lines, cut })
    }
}

impl fmt::Display for FileView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbered = number_lines(&self.text, self.first_line);
        write!(f, "Here's the content of {} with line numbers:\n{numbered}", self.path)?;
        write_note(f, self.cut.as_ref())
    }
}

impl fmt::Display for ViewCut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Lines { first, last, total } => {
                let next = last + 1;
                write!(f, "[Showing lines {first}-{last} of {total}. To read on, use view_range [{next}, -1].]")
            }
            Self::Characters { line, total, shown, length } => {
                write!(
                    f,
                    "[Line {line} of {total} has {length} characters; the first {shown} are shown. To read the rest, \
                     use str_replace to break the line after the last words shown."
                )?;
                if line < total {
                    write!(f, " To continue with the next line, use view_range [{}, -1].", line + 1)?;
                }
                f.write_str("]")
            }
        }
    }
}

/// Writes the number of items that cannot be listed on a separate line (`[V1]`).
fn write_unlisted(f: &mut fmt::Formatter<'_>, unlisted: &BTreeMap<UnlistedReason, usize>) -> fmt::Result {
    if unlisted.is_empty() {
        return Ok(());
    }
    let total: usize = unlisted.values().sum();
    let reasons = unlisted.iter().map(|(reason, count)| match (reason, count) {
        (UnlistedReason::Unreadable, _) => format!("{count} unreadable"),
        (UnlistedReason::IllegalName, 1) => "1 with an illegal name".to_owned(),
        (UnlistedReason::IllegalName, _) => format!("{count} with illegal names"),
    });
    write!(f, "\n[{total} items could not be listed: {}.]", reasons.collect::<Vec<_>>().join(", "))
}

fn write_note(f: &mut fmt::Formatter<'_>, cut: Option<&ViewCut>) -> fmt::Result {
    match cut {
        Some(cut) => write!(f, "\n{cut}"),
        None => Ok(()),
    }
}

/// The view of an image that another program created (`[V9]`).
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ImageView {
    /// The file.
    pub path: MemoryPath,
    /// The media type, `image/png` or `image/jpeg`.
    pub media_type: &'static str,
    /// The bytes of the image.
    pub content: Vec<u8>,
}

impl ImageView {
    /// Creates a view of an image.
    pub fn new(path: MemoryPath, media_type: &'static str, content: Vec<u8>) -> Self {
        Self { path, media_type, content }
    }
}

impl fmt::Display for Snippet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&number_lines(&self.text, self.first_line))?;
        write_note(f, self.cut.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_documented_format() {
        for (bytes, formatted) in [
            (0, "0B"),
            (13, "13B"),
            (1023, "1023B"),
            (1024, "1.0K"),
            (1280, "1.2K"), // 1.25
            (1281, "1.3K"),
            (1536, "1.5K"),
            (1792, "1.8K"), // 1.75
            (2048, "2.0K"),
            (1_048_524, "1023.9K"),
            (1_048_525, "1.0M"),
            (1024 * 1024 - 1, "1.0M"),
            (1024 * 1024, "1.0M"),
            (1_258_291, "1.2M"),
            (1024 * 1024 * 1024, "1.0G"),
            (5 * 1024_u64.pow(4), "5120.0G"),
            (u64::MAX, "17179869184.0G"),
        ] {
            assert_eq!(HumanSize(bytes).to_string(), formatted);
        }
    }
}
