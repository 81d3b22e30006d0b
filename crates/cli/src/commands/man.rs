//! `memory-tool man`: man pages, from the same text as `--help`.

use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::command_line;
use crate::failure::{Context as _, Failure};
use crate::options::values::host_path;
use crate::terminal::output::write_text;

#[derive(Args, Debug)]
pub(crate) struct ManArguments {
    /// Write one page for each command into DIRECTORY
    ///
    /// DIRECTORY is created if it does not exist. Existing pages are overwritten.
    #[arg(long, value_name = "DIRECTORY", value_parser = host_path())]
    pub(crate) directory: Option<PathBuf>,
}

/// The start of each preformatted line of the help.
const INDENTATION: &str = "  ";

/// Prints the page of the program, or writes the pages of all commands.
pub(crate) fn run(arguments: &ManArguments) -> Result<(), Failure> {
    let mut command = command_line::command().disable_help_subcommand(true);
    command.build();
    match &arguments.directory {
        Some(directory) => write_pages(&command, directory),
        None => {
            let page = page(&command).map_err(Failure::Output)?;
            write_text(&mut io::stdout().lock(), &page).map(|_| ())
        }
    }
}

fn write_pages(command: &Command, directory: &Path) -> Result<(), Failure> {
    let message = |path: &Path| format!("cannot write {}", path.display());
    fs::create_dir_all(directory).context(message(directory))?;
    for command in command.get_subcommands().chain([command]) {
        let path = directory.join(Man::new(command.clone()).get_filename());
        page(command).and_then(|page| fs::write(&path, page)).context(message(&path))?;
    }
    Ok(())
}

fn page(command: &Command) -> io::Result<Vec<u8>> {
    let man =
        Man::new(command.clone()).source(concat!("memory-tool ", env!("CARGO_PKG_VERSION"))).manual("User Commands");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(ending) = command.get_after_long_help() {
        sections(&ending.to_string()).to_writer(&mut page)?;
    }
    Ok(page)
}

/// The end of `--help`, with a section for each block that starts with a line like `Heading:`.
fn sections(ending: &str) -> Roff {
    let mut roff = Roff::new();
    for block in ending.split("\n\n") {
        let body = match block.split_once(":\n") {
            Some((heading, body)) => {
                roff.control("SH", [heading.to_uppercase().as_str()]);
                body
            }
            None => {
                roff.control("PP", []);
                block
            }
        };
        let is_preformatted = body.starts_with(INDENTATION);
        if is_preformatted {
            roff.control("nf", []);
        }
        for line in body.lines() {
            roff.text([roman(line.strip_prefix(INDENTATION).unwrap_or(line))]);
        }
        if is_preformatted {
            roff.control("fi", []);
        }
    }
    roff
}
