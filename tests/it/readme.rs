//! Checks the documentation: code blocks and figures of the README, names of features, versions, links, and unreachable
//! pages.

use std::fs;
use std::path::{Path, PathBuf};

const README: &str = include_str!("../../README.md");

const MAX_LINES: usize = 150;

#[test]
fn readme_code_matches_the_examples() {
    let from = |source: &'static str, start| &source[source.find(start).unwrap()..];
    assert_eq!(block("rust"), from(include_str!("../../examples/program.rs"), "use "));
    assert_eq!(block("python"), from(include_str!("../../crates/python/examples/agent.py"), "import "));
    let app = include_str!("../../examples/app.rs");
    assert!(app.contains(&format!("\n{}\n", block("rust,ignore"))), "{app}");
}

#[test]
fn readme_is_short_and_its_first_commands_are_runnable() {
    assert!(README.lines().count() <= MAX_LINES, "{}", README.lines().count());
    assert_eq!(block("sh"), "cargo run -p customer-service\ncargo test\n");
}

#[test]
fn readme_figures_match_their_sources() {
    let cases = memory_tool_conformance::Suite::all_cases().len();
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
    let percent = |ratio: &str| format!("{:.0} %", ratio.parse::<f64>().unwrap() * 100.0);
    for figures in [
        format!("4 KB file takes {}, {} of the Python SDK's time", view[0], percent(&view[2])),
        format!("10,000 files takes {}, {} of it", list[0], percent(&list[2])),
        format!("A durable `create` takes {}, {} of it", create[0], percent(&create[2])),
    ] {
        assert!(text.contains(&figures), "{figures}");
    }
}

#[test]
fn crate_readmes_link_only_to_published_files() {
    for (directory, _) in published_crates() {
        for link in links_of(&directory.join("README.md")) {
            let file = link.file.canonicalize().unwrap_or_default();
            assert!(file.starts_with(&directory), "{} links to {}", directory.display(), link.file.display());
        }
    }
}

#[test]
fn crates_inherit_the_address_of_the_workspace() {
    for (directory, manifest) in published_crates() {
        assert!(manifest.contains("\nrepository.workspace = true\n"), "{}", directory.display());
    }
}

#[test]
fn links_lead_to_existing_files_and_headings() {
    let pages = markdown_files(&root());
    assert!(pages.len() > 8, "{pages:?}");
    let links = pages.iter().flat_map(|page| links_of(page).into_iter().map(move |link| (page, link)));
    let broken: Vec<_> = links.filter(|(_, link)| !is_valid(link)).collect();
    assert!(broken.is_empty(), "broken links: {broken:#?}");
}

#[test]
fn every_page_is_linked_from_the_readme_or_the_index() {
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
fn heading_anchors_match_github() {
    let page = "# A `page`: of [links](x.md), _and_ more\n```sh\n# a comment\n```\n## What to know\n## What to know\n";
    assert_eq!(anchors_of(page), ["a-page-of-links-_and_-more", "what-to-know", "what-to-know-1"]);
}

#[test]
fn features_in_pages_exist() {
    let all = features_of(&root().join("crates/memory-tool"));
    let mut checked = 0;
    for page in markdown_files(&root()) {
        let own = features_of(page.parent().unwrap());
        let known = if own.is_empty() { &all } else { &own };
        for name in features_in(&fs::read_to_string(&page).unwrap()) {
            assert!(known.contains(&name), "{}: there is no feature `{name}`", page.display());
            checked += 1;
        }
    }
    assert!(checked > 30, "{checked}");
    let page = features_in(&fs::read_to_string(root().join("crates/memory-tool/README.md")).unwrap());
    for name in all.iter().filter(|name| *name != "default") {
        assert!(page.contains(name), "the page of memory-tool does not have the feature `{name}`");
    }
}

#[test]
fn features_are_found_in_tables_sentences_and_commands() {
    let page = "| a | feature |\n|---|---|\n| `x` | `a`, `b` (default) |\n\nThe features `c`, `d` and `e` of `y`,\n\
                the `f` feature, feature `g`.\n\ncargo add --git X memory-tool --features h,i tokio/macros\n";
    assert_eq!(features_in(page), ["a", "b", "h", "i", "g", "c", "d", "e", "f"]);
}

#[test]
fn versions_of_crates_in_pages_are_current() {
    let names: Vec<_> =
        published_crates().into_iter().map(|(_, manifest)| manifest.split('"').nth(1).unwrap().to_owned()).collect();
    let version = env!("CARGO_PKG_VERSION").rsplit_once('.').unwrap().0;
    let mut checked = 0;
    for page in markdown_files(&root()) {
        let text = fs::read_to_string(&page).unwrap();
        for (name, rest) in text.lines().filter_map(|line| line.split_once(" = \"")) {
            if name.starts_with("memory-tool") {
                assert!(names.iter().any(|known| known == name), "{}: there is no crate {name}", page.display());
                assert!(rest.starts_with(&format!("{version}\"")), "{}: {name} {rest}", page.display());
                checked += 1;
            }
        }
    }
    assert!(checked > 3, "{checked}");
}

/// Returns the features of the crate in a directory.
fn features_of(directory: &Path) -> Vec<String> {
    let manifest = fs::read_to_string(directory.join("Cargo.toml")).unwrap_or_default();
    let Some((_, section)) = manifest.split_once("\n[features]\n") else { return Vec::new() };
    let lines = section.lines().take_while(|line| !line.starts_with('['));
    lines.filter_map(|line| line.split_once(" = [")).map(|(name, _)| name.to_owned()).collect()
}

/// Returns the names of features in a page: in the column `feature` of tables, in sentences, and in commands.
fn features_in(page: &str) -> Vec<String> {
    let quoted = |text: &str| text.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let mut names = Vec::new();
    let mut column = None;
    let mut sentences = String::new();
    for line in page.lines() {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        if !line.starts_with('|') {
            column = None;
            sentences.extend([line, " "]);
        } else if let Some(column) = column {
            names.extend(quoted(cells[column]));
        } else {
            column = cells.iter().position(|cell| *cell == "feature");
        }
        if let Some((_, features)) = line.split_once("--features ").filter(|_| line.contains("memory-tool")) {
            let list = features.split_whitespace().next().unwrap_or_default();
            names.extend(list.split(',').map(|name| name.trim_matches('"').to_owned()));
        }
    }
    for start in ["feature `", "features `"] {
        for rest in sentences.split(start).skip(1) {
            // The list ends with the first word between names that does not join them.
            for (index, part) in rest.split('`').enumerate() {
                match index % 2 {
                    0 => names.push(part.to_owned()),
                    _ if [", ", " and ", " or "].contains(&part) => {}
                    _ => break,
                }
            }
        }
    }
    let before = sentences.match_indices("` feature").map(|(at, _)| &sentences[..at]);
    names.extend(before.filter_map(|text| text.rsplit('`').next()).map(str::to_owned));
    names
}

/// Returns the README's first code block in a language.
fn block(language: &str) -> &'static str {
    let (_, rest) = README.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("```").unwrap().0
}

/// Returns the directories and manifests of the published crates.
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

#[derive(Debug)]
struct Link {
    file: PathBuf,
    /// The anchor of a heading, or empty for the whole file.
    heading: String,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

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

fn is_valid(link: &Link) -> bool {
    if link.heading.is_empty() {
        return link.file.exists();
    }
    fs::read_to_string(&link.file).is_ok_and(|text| anchors_of(&text).contains(&link.heading))
}

fn anchors_of(page: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_code = false;
    for line in page.lines() {
        is_code ^= line.starts_with("```");
        if let Some((_, heading)) =
            line.split_once("# ").filter(|(marks, _)| !is_code && marks.chars().all(|c| c == '#'))
        {
            let name = anchor_of(heading);
            let earlier = names.iter().filter(|(of, _)| *of == name).count();
            names.push((name, earlier));
        }
    }
    let numbered = |(name, earlier)| if earlier == 0 { name } else { format!("{name}-{earlier}") };
    names.into_iter().map(numbered).collect()
}

/// Returns the anchor of a heading as on GitHub: lower case, hyphens for spaces, no punctuation and no link targets.
fn anchor_of(heading: &str) -> String {
    let mut parts = heading.split("](");
    let mut words = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        words.push_str(part.split_once(')').unwrap().1);
    }
    let kept = words.trim().chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// Returns the Markdown files under a directory, except in `target`, `node_modules` and hidden directories.
fn markdown_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !["target", "node_modules"].contains(&name.as_str()) && !name.starts_with('.') {
            files.extend(markdown_files(&path));
        } else if name.ends_with(".md") {
            files.push(path);
        }
    }
    files
}
