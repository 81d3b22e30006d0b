//! The documentation is true: the README's program is the one that is built, and no link leads nowhere.

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
fn every_link_to_a_file_leads_to_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = markdown_files(root);
    assert!(pages.len() > 8, "{pages:?}");
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap_or_default();
            if !target.contains("://") && !file.is_empty() {
                assert!(page.parent().unwrap().join(file).exists(), "{} links to {target}", page.display());
            }
        }
    }
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
