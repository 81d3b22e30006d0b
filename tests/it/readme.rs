//! The documentation is true: the README's program is the one that is built, no link leads nowhere, and no page is lost.

use std::fs;
use std::path::{Path, PathBuf};

const README: &str = include_str!("../../README.md");

/// The README is not longer than this.
const MAX_LINES: usize = 150;

#[test]
fn the_code_of_the_readme_is_that_of_the_examples() {
    let from = |source: &'static str, start| &source[source.find(start).unwrap()..];
    assert_eq!(block("rust"), from(include_str!("../../examples/program.rs"), "use "));
    assert_eq!(block("python"), from(include_str!("../../examples/bridge.py"), "import "));
    let app = include_str!("../../examples/app.rs");
    assert!(app.contains(&format!("\n{}\n", block("rust,ignore"))), "{app}");
}

#[test]
fn the_readme_is_short_and_its_first_commands_stand_alone() {
    assert!(README.lines().count() <= MAX_LINES, "{}", README.lines().count());
    assert_eq!(block("sh"), "cargo run -p customer-service\ncargo test\n");
}

#[test]
fn the_figures_of_the_readme_are_those_of_their_sources() {
    let cases = include_str!("../../crates/conformance/CASES.md");
    let cases = cases.lines().find_map(|line| line.strip_suffix(" cases.")).unwrap();
    assert!(README.contains(&format!("suite of {cases} cases")), "{cases}");
    let rust = env!("CARGO_PKG_RUST_VERSION");
    assert!(README.contains(&format!("Rust {rust} or newer")), "{rust}");
    let figures = |row: &str| {
        let tables = include_str!("../../benches/README.md");
        let row = tables.lines().find(|line| line.starts_with(&format!("| {row} |"))).unwrap();
        row.split(" | ").skip(1).map(|cell| cell.trim_end_matches(" |").to_owned()).collect::<Vec<_>>()
    };
    let text = README.split_whitespace().collect::<Vec<_>>().join(" ");
    let [view, create, list] =
        ["`view` of a file of 4 KB", "`create` of a file of 4 KB", "`view` of 10,000 files in 100 directories"]
            .map(figures);
    for figures in [
        format!("takes {}, {} times the time of the Python SDK's tool and {} times", view[0], view[3], view[4]),
        format!("takes {}, {} and {} times theirs", create[0], create[3], create[4]),
        format!("takes {}, {} times the time of the Python SDK's tool", list[0], list[3]),
    ] {
        assert!(text.contains(&figures), "{figures}");
    }
}

#[test]
fn the_pages_of_crates_link_to_nothing_that_they_are_published_without() {
    for (directory, _) in published_crates() {
        for link in links_of(&directory.join("README.md")) {
            let file = link.file.canonicalize().unwrap_or_default();
            assert!(file.starts_with(&directory), "{} links to {}", directory.display(), link.file.display());
        }
    }
}

#[test]
fn the_addresses_of_all_crates_are_one_setting() {
    for (directory, manifest) in published_crates() {
        for setting in ["documentation", "homepage", "repository"] {
            assert!(
                manifest.contains(&format!("\n{setting}.workspace = true\n")),
                "{setting}: {}",
                directory.display()
            );
        }
    }
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

/// The first block of code of the README in a language.
fn block(language: &str) -> &'static str {
    let (_, rest) = README.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("```").unwrap().0
}

/// The directories and the manifests of the crates that are published.
fn published_crates() -> Vec<(PathBuf, String)> {
    let directories = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let crates = directories.map(|directory| {
        let manifest = fs::read_to_string(directory.join("Cargo.toml")).unwrap();
        (directory.canonicalize().unwrap(), manifest)
    });
    let published: Vec<_> = crates.filter(|(_, manifest)| !manifest.contains("publish = false")).collect();
    assert!(published.len() > 8, "{published:?}");
    published
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
