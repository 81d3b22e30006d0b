//! Links in Markdown between the files of a memory.

use memory_tool_core::{MemoryPath, StorePath};
use percent_encoding::percent_decode_str;
use pulldown_cmark::{Event, LinkType, Options, Parser, Tag};

/// Whether a file is Markdown, by its name.
pub fn is_markdown(path: &StorePath) -> bool {
    [".md", ".markdown"].iter().any(|end| path.as_str().ends_with(end))
}

/// The file or directory of the memory that a link in a file names, such as `b.md`, `../c.md` or `/memories/d.md`, or
/// `[[b]]` if it is a wiki link. `None` if the link leads to another place, or within its own file.
///
/// ```
/// use memory_tool_proposals::linked_path;
///
/// let file = "/memories/projects/a.md".parse()?;
/// let linked = |link| linked_path(&file, link, false).map(|path| path.to_string());
/// assert_eq!(linked("../b.md#plan").as_deref(), Some("/memories/b.md"));
/// assert_eq!(linked("https://example.org/b.md"), None);
/// # Ok::<(), memory_tool_core::PathError>(())
/// ```
pub fn linked_path(file: &StorePath, link: &str, is_wiki: bool) -> Option<MemoryPath> {
    let link = percent_decode_str(link.split(['#', '?']).next()?).decode_utf8().ok()?;
    let is_relative = !link.starts_with('/') && !link.split('/').next()?.contains(':');
    let full = match is_relative {
        _ if link.is_empty() => return None,
        true => format!("{file}/../{link}"),
        false => link.starts_with("/memories/").then(|| link.into_owned())?,
    };
    let mut names: Vec<&str> = Vec::new();
    for name in full.split('/').filter(|name| !["", "."].contains(name)) {
        match name {
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    let extension = if is_wiki && !names.last()?.contains('.') { ".md" } else { "" };
    MemoryPath::parse(&format!("/{}{extension}", names.join("/"))).ok()
}

/// The links of a Markdown file to paths of the memory, in its spelling and resolved.
pub(crate) fn links(file: &StorePath, markdown: &str) -> impl Iterator<Item = (String, StorePath)> {
    Parser::new_ext(markdown, Options::ENABLE_TABLES | Options::ENABLE_WIKILINKS).filter_map(move |event| {
        let Event::Start(Tag::Link { dest_url, link_type, .. }) = event else { return None };
        let path = linked_path(file, &dest_url, matches!(link_type, LinkType::WikiLink { .. }))?;
        Some((dest_url.into_string(), path.into()))
    })
}
