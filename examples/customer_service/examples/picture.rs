//! The README's picture: the output of the second run of its first command, and a file that Claude wrote.
//!
//! `cargo run -p customer-service --example picture` draws it. With `-- --check`, it fails if the picture is stale.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;

use anstyle_svg::{Term, WIN10_CONSOLE};

type BoxError = Box<dyn Error>;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

const PROMPT: &str = "\u{1b}[1m$\u{1b}[0m";

fn main() -> Result<(), BoxError> {
    let (file, picture) = (Path::new(ROOT).join("docs/terminal.svg"), draw()?);
    if !std::env::args().any(|argument| argument == "--check") {
        return Ok(fs::write(file, picture)?);
    }
    if fs::read_to_string(file)? == picture { Ok(()) } else { Err("docs/terminal.svg is out of date".into()) }
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

fn run_example(directory: &Path) -> Result<String, BoxError> {
    let output = Command::new("cargo")
        .args(["run", "--quiet", "--package", "customer-service", "--manifest-path"])
        .arg(Path::new(ROOT).join("Cargo.toml"))
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
