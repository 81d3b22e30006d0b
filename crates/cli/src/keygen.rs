//! `memory-tool keygen`: makes a key for an encrypted store.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use memory_tool::encrypted::{KeyProvider as _, RawKey};

use crate::arguments::KeygenArguments;
use crate::failure::{Failure, eprint_line};

/// Makes a key and writes it, and tells the operator what it is called.
pub(crate) fn run(arguments: &KeygenArguments) -> Result<(), Failure> {
    let key = RawKey::generate().map_err(Failure::NewKey)?;
    let text = key.to_hex();
    match &arguments.output {
        Some(path) => {
            let written = write_file(path, &text);
            written.map_err(|source| Failure::KeyFile { path: path.clone(), source })?;
        }
        None => writeln!(io::stdout().lock(), "{}", *text).map_err(Failure::Output)?,
    }
    eprint_line(&format!("memory-tool: made the key {}", key.key_id()));
    Ok(())
}

/// Makes a file that nobody else can read. One that exists may be the only copy of a key.
fn write_file(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    let written = writeln!(file, "{text}").and_then(|()| file.sync_all());
    if written.is_err() {
        let _ = fs::remove_file(path); // what is no whole key would only be in the way of the next one
    }
    written
}
