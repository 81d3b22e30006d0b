//! Links to other files: `broken-link`.

use memory_tool_core::StorePath;
use memory_tool_proposals::{is_markdown, linked_path};
use pulldown_cmark::{Event, LinkType, Options, Parser, Tag, TagEnd};

use crate::lint::hidden::has_secret;
use crate::lint::names::Names;
use crate::lint::{Findings, Lines, LintRule};

/// The characters of a link that a message has.
const MAX_SHOWN_CHARACTERS: usize = 200;

/// Checks the links of a Markdown file, and notes which files they name. `number` is the number of the file.
pub(super) fn check(number: usize, path: &StorePath, text: &str, names: &mut Names<'_>, findings: &mut Findings<'_>) {
    let is_on = findings.is_on(LintRule::BrokenLink) || findings.is_on(LintRule::Orphan);
    if !is_on || !is_markdown(path) {
        return;
    }
    let mut lines = Lines::new(text);
    let options = Options::ENABLE_TABLES | Options::ENABLE_WIKILINKS | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS;
    let mut is_data = false;
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        match &event {
            Event::Start(Tag::MetadataBlock(_)) => is_data = true,
            Event::End(TagEnd::MetadataBlock(_)) => is_data = false,
            Event::Text(text) if is_data => note_properties(number, text, names),
            _ => {}
        }
        let Event::Start(Tag::Link { dest_url: link, link_type, .. } | Tag::Image { dest_url: link, link_type, .. }) =
            event
        else {
            continue;
        };
        let exists = match link_type {
            LinkType::Autolink | LinkType::Email => continue,
            LinkType::WikiLink { .. } => names.wiki_link(number, &link),
            _ => linked_path(path, &link, false).is_none_or(|linked| names.link(number, &linked)),
        };
        if !exists {
            let message = format!("the link leads to no file: {}", shown(&link));
            findings.add(LintRule::BrokenLink, path, Some(lines.at(range.start)), message);
        }
    }
}

/// Notes the wiki links in front matter, which Obsidian writes in properties.
fn note_properties(number: usize, text: &str, names: &mut Names<'_>) {
    for (link, _) in text.split("[[").skip(1).filter_map(|rest| rest.split_once("]]")) {
        names.wiki_link(number, link.split('|').next().unwrap_or_default());
    }
}

/// A link in a message, which must not have a secret.
fn shown(link: &str) -> String {
    if has_secret(link) {
        return "[sensitive data]".to_owned();
    }
    let shown: String = link.chars().take(MAX_SHOWN_CHARACTERS).collect();
    if shown.len() < link.len() { shown + "…" } else { shown }
}
