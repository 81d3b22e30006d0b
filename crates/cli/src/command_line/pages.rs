//! The pages in `crates/cli/pages`. Each is the documentation of a command, its `--help` and its man page in one.
//!
//! A page consists of a title, the purpose in one line, examples, paragraphs and sections, separated by empty lines.
//! Lines of code have up to 78 columns, because clap breaks longer ones. A page without the section `Exit status` gets
//! that of the program.

use clap::Command;

use crate::commands::PAGES;

/// The heading of the exit statuses.
const EXIT_STATUS: &str = "Exit status";

/// The page of the program.
pub(super) const PROGRAM: &str = include_str!("../../pages/memory-tool.md");

/// A page in the parts that clap prints.
#[derive(Default)]
struct Page {
    purpose: String,
    examples: String,
    description: String,
    /// The sections except the exit statuses.
    details: String,
    exit_status: String,
}

impl Page {
    fn parse(text: &str) -> Self {
        let mut parts = text.trim_end().split("\n## ");
        let introduction = parts.next().unwrap_or_default();
        let mut blocks = introduction.split("\n\n").skip(1).map(plain);
        let mut page = Self {
            purpose: blocks.next().unwrap_or_default().trim_end_matches('.').to_owned(),
            examples: blocks.next().unwrap_or_default(),
            description: joined(blocks),
            ..Self::default()
        };
        let (exit_status, others) = parts.partition::<Vec<_>, _>(|section| section.starts_with(EXIT_STATUS));
        page.exit_status = joined(exit_status.into_iter().map(plain_section));
        page.details = joined(others.into_iter().map(plain_section));
        page
    }

    fn added_to(self, command: Command) -> Command {
        let Self { purpose, examples, description, details, exit_status } = self;
        let examples = format!("Examples:\n{examples}");
        let long_about = joined([purpose.clone(), description]);
        let after_long_help = joined([details, exit_status, examples.clone()]);
        command.about(purpose).long_about(long_about).after_help(examples).after_long_help(after_long_help)
    }
}

/// The page of a command.
fn of_command(name: &str) -> &'static str {
    PAGES.iter().find(|(command, _)| *command == name).map_or("", |(_, text)| text)
}

/// The purpose of a command.
pub(super) fn purpose(name: &str) -> &'static str {
    of_command(name).split("\n\n").nth(1).unwrap_or_default().trim_end_matches('.')
}

/// Adds the page of a command.
pub(super) fn with_page_of_command(command: Command) -> Command {
    let mut page = Page::parse(of_command(command.get_name()));
    if page.exit_status.is_empty() {
        page.exit_status = Page::parse(PROGRAM).exit_status;
    }
    page.added_to(command)
}

/// Adds the page of a program.
pub fn with_page(program: Command, text: &str) -> Command {
    Page::parse(text).added_to(program)
}

/// Joins paragraphs with empty lines.
fn joined(paragraphs: impl IntoIterator<Item = String>) -> String {
    paragraphs.into_iter().filter(|paragraph| !paragraph.is_empty()).collect::<Vec<_>>().join("\n\n")
}

fn plain_section(section: &str) -> String {
    let (heading, body) = section.split_once("\n\n").unwrap_or((section, ""));
    format!("{heading}:\n{}", joined(body.split("\n\n").map(plain)))
}

/// A block as plain text: code is indented, and a paragraph is one line, which clap wraps.
fn plain(block: &str) -> String {
    if !block.starts_with("```") {
        return block.lines().collect::<Vec<_>>().join(" ");
    }
    let code = block.lines().filter(|line| !line.starts_with("```"));
    code.map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::NAME;

    #[test]
    fn a_page_has_its_parts() {
        let text = "# a\n\nDo it.\n\n```sh\na b\n    c\n```\n\nOne\nparagraph.\n\nAnother.\n\n\
                    ## Table\n\n```text\n1  x\n```\n\nMore.\n\n## Exit status\n\n```text\n0  y\n```\n";
        let page = Page::parse(text);
        assert_eq!(page.purpose, "Do it");
        assert_eq!(page.examples, "  a b\n      c");
        assert_eq!(page.description, "One paragraph.\n\nAnother.");
        assert_eq!(page.details, "Table:\n  1  x\n\nMore.");
        assert_eq!(page.exit_status, "Exit status:\n  0  y");
    }

    #[test]
    fn each_page_has_the_name_of_its_command_as_title() {
        assert!(PROGRAM.starts_with(&format!("# {NAME}\n\n")));
        for (name, text) in PAGES {
            assert!(text.starts_with(&format!("# {NAME} {name}\n\n")), "{name}");
        }
    }
}
