//! The documentation is true: the README's program is the one that is built, no link leads nowhere, and no page is lost.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

const README: &str = include_str!("../README.md");
const PROGRAM: &str = include_str!("../examples/program.rs");

#[test]
fn the_program_of_the_readme_is_the_example() {
    let (_, from_program) = README.split_once("```rust\n").unwrap();
    let (in_readme, _) = from_program.split_once("```").unwrap();
    let (_, example) = PROGRAM.split_once("\nuse ").unwrap();
    assert_eq!(in_readme, format!("use {example}"));
}

#[test]
fn every_link_to_a_file_leads_to_it_and_to_its_heading() {
    let pages = markdown_files(&root());
    assert!(pages.len() > 8, "{pages:?}");
    let links = pages.iter().flat_map(|page| links_of(page).into_iter().map(move |link| (page, link)));
    let broken: Vec<_> = links.filter(|(_, link)| !leads_somewhere(link)).collect();
    assert!(broken.is_empty(), "these lead nowhere: {broken:#?}");
}

#[test]
fn every_page_of_the_documentation_is_found_from_the_first_ones() {
    let documentation = root().join("docs");
    let linked: Vec<_> =
        [root().join("README.md"), documentation.join("README.md")].iter().flat_map(links_of).collect();
    for page in markdown_files(&documentation) {
        let page = page.canonicalize().unwrap();
        let is_linked = linked.iter().any(|link| link.file.canonicalize().is_ok_and(|file| file == page));
        assert!(is_linked, "neither README.md nor docs/README.md links to {}", page.display());
    }
}

#[test]
fn headings_are_named_as_github_names_them() {
    let page = "# A `page`: of [links](x.md), _and_ more\n```sh\n# a comment\n```\n## What to know\n## What to know\n";
    assert_eq!(headings_of(page), ["a-page-of-links-_and_-more", "what-to-know", "what-to-know-1"]);
}

/// A link from one page of the project to a file of it.
#[derive(Debug)]
struct Link {
    file: PathBuf,
    /// The heading there; empty where the whole file is meant.
    heading: String,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The links of a page, without those that leave the project.
fn links_of(page: &PathBuf) -> Vec<Link> {
    let text = fs::read_to_string(page).unwrap();
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let inner = targets.filter(|target| !target.contains("://"));
    inner
        .map(|target| {
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { page.clone() } else { page.with_file_name(file) };
            Link { file, heading: heading.to_owned() }
        })
        .collect()
}

fn leads_somewhere(link: &Link) -> bool {
    if link.heading.is_empty() {
        return link.file.exists();
    }
    fs::read_to_string(&link.file).is_ok_and(|text| headings_of(&text).contains(&link.heading))
}

/// What stands behind `#` in links to the headings of a page.
fn headings_of(page: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_code = false;
    for line in page.lines() {
        is_code ^= line.starts_with("```");
        if let Some((_, heading)) =
            line.split_once("# ").filter(|(marks, _)| !is_code && marks.chars().all(|c| c == '#'))
        {
            let name = name_of(heading);
            let earlier = names.iter().filter(|(of, _)| *of == name).count();
            names.push((name, earlier));
        }
    }
    let numbered = |(name, earlier)| if earlier == 0 { name } else { format!("{name}-{earlier}") };
    names.into_iter().map(numbered).collect()
}

/// As GitHub does: in lower case, blanks as hyphens, without punctuation and without the targets of links.
fn name_of(heading: &str) -> String {
    let mut parts = heading.split("](");
    let mut words = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        words.push_str(part.split_once(')').unwrap().1);
    }
    let kept = words.trim().chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// The pages of the project: what is built or hidden is not searched.
fn markdown_files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            found.extend(markdown_files(&path));
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
    found
}
