//! `memory-tool keygen`: generates a key for an encrypted store.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use memory_tool::encrypted::{KeyProvider as _, RawKey};

use crate::failure::{Context as _, Failure, eprint_line};
use crate::options::values::host_path;

#[derive(Args, Debug)]
pub(crate) struct KeygenArguments {
    /// Write the key to FILE, which must not exist [default: standard output]
    ///
    /// Only the owner of FILE can read it.
    #[arg(long, value_name = "FILE", value_parser = host_path())]
    pub(crate) output: Option<PathBuf>,
}

/// Generates a key, writes it, and prints its id to standard error.
pub(crate) fn run(arguments: &KeygenArguments) -> Result<(), Failure> {
    let key = RawKey::generate().context("cannot generate a key")?;
    let text = key.to_hex();
    match &arguments.output {
        Some(path) => {
            let written = write_file(path, &text);
            written.context(format!("cannot write the key to {}", path.display()))?;
        }
        None => writeln!(io::stdout().lock(), "{}", *text).map_err(Failure::Output)?,
    }
    eprint_line(&format!("memory-tool: generated key {}", key.key_id()));
    Ok(())
}

/// Writes a file that only its owner can read. An existing file may be the only copy of a key, so it is an error.
fn write_file(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    let written = writeln!(file, "{text}").and_then(|()| file.sync_all());
    if written.is_err() {
        let _ = fs::remove_file(path); // an incomplete key would only block the next attempt
    }
    written
}
