//! The README's picture: the output of the second run of its first command, and a file that Claude wrote.

use std::fs;
use std::path::Path;
use std::process::Command;

use anstyle_svg::{Term, WIN10_CONSOLE};

use crate::{BoxError, root};

/// The path of the picture, relative to the workspace.
pub(crate) const FILE: &str = "docs/terminal.svg";

const PROMPT: &str = "\u{1b}[1m$\u{1b}[0m";

/// Draws the picture.
pub(crate) fn write() -> Result<(), BoxError> {
    fs::write(root().join(FILE), draw()?).map_err(|error| format!("cannot write {FILE}: {error}").into())
}

/// Fails if the picture differs from the output of the commands.
pub(crate) fn check() -> Result<(), BoxError> {
    let current = fs::read_to_string(root().join(FILE)).map_err(|error| format!("cannot read {FILE}: {error}"))?;
    if current == draw()? { Ok(()) } else { Err(format!("{FILE} is out of date: run `cargo xtask picture`").into()) }
}

fn draw() -> Result<String, BoxError> {
    let directory = tempfile::tempdir()?;
    run_example(directory.path())?; // the first run fills the memory
    let second = run_example(directory.path())?;
    let log = "customer-service-memory/memories/ticket_log.txt";
    let file = fs::read_to_string(directory.path().join(log))?;
    let session = format!("{PROMPT} cargo run -p customer-service\n{second}\n{PROMPT} cat {log}\n{}", file.trim_end());
    let without_tabs = session.replace('\t', "    "); // SVG has no tab stops
    Ok(Term::new().palette(WIN10_CONSOLE).render_svg(&without_tabs))
}

/// Runs the example in a directory, and returns its terminal output.
fn run_example(directory: &Path) -> Result<String, BoxError> {
    let output = Command::new("cargo")
        .args(["run", "--quiet", "--package", "customer-service", "--manifest-path"])
        .arg(root().join("Cargo.toml"))
        .current_dir(directory)
        .env("CLICOLOR_FORCE", "1")
        .env_remove("NO_COLOR")
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("customer-service failed: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
