//! [`Archive`]: a tar archive to write.

use std::collections::BTreeSet;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use flate2::write::GzEncoder;
use memory_tool_core::{FileTimes, StorePath};
use tar::{Builder, EntryType, Header};
use tempfile::NamedTempFile;

use crate::transfer::error::TransferError;
use crate::transfer::existing::Existing;
use crate::transfer::export::target::{AddOutcome, FinishOutcome, Target, name_of, name_partial, open_partial};
use crate::transfer::{CREATION_TIME, NO_TIME};

const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;
/// The name of an entry that only describes the next one.
const EXTENSION: &str = "times";

/// The compression of an archive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Compression {
    None,
    Gzip,
}

/// A tar archive to write. The same files result in the same bytes.
///
/// # Behavior
/// 1. Directories are added before their files, and files are sorted by path.
/// 2. The file gets its name when the archive is complete. An incomplete archive in a writer lacks the two blocks at
///    its end.
pub(super) struct Archive {
    /// `None` after the archive is finished.
    builder: Option<Builder<Output>>,
    /// The path of the file, and whether it may exist. `None` for a writer.
    file: Option<(PathBuf, Existing)>,
    directories: BTreeSet<StorePath>,
}

impl Archive {
    pub(super) fn to_writer(writer: Box<dyn Write + Send>) -> Self {
        Self::to(Output::Writer(BufWriter::new(writer)), None)
    }

    /// Writes to a temporary file, which [`finish`](Self::finish) renames.
    pub(super) fn to_file(path: &Path, compression: Compression, existing: Existing) -> Result<Self, TransferError> {
        let partial = open_partial(path, existing)?;
        let output = match compression {
            Compression::None => Output::Plain(BufWriter::new(partial)),
            // The gzip header contains no name and no time.
            Compression::Gzip => Output::Gzip(GzEncoder::new(partial, flate2::Compression::default())),
        };
        Ok(Self::to(output, Some((path.to_owned(), existing))))
    }

    fn to(output: Output, file: Option<(PathBuf, Existing)>) -> Self {
        Self { builder: Some(Builder::new(output)), file, directories: BTreeSet::new() }
    }

    fn failure(&self, source: io::Error) -> TransferError {
        match &self.file {
            Some((path, _)) => TransferError::Target { path: path.clone(), source },
            None => TransferError::Writer(source),
        }
    }

    fn append(
        &mut self,
        name: String,
        kind: EntryType,
        mode: u32,
        time: u64,
        content: &[u8],
    ) -> Result<(), TransferError> {
        let Some(builder) = &mut self.builder else { return Ok(()) };
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_mtime(time);
        header.set_size(content.len() as u64);
        header.set_uid(0);
        header.set_gid(0);
        builder.append_data(&mut header, name, content).map_err(|source| self.failure(source))
    }
}

impl Target for Archive {
    fn add(&mut self, path: &StorePath, content: &[u8], times: FileTimes) -> Result<AddOutcome, TransferError> {
        let mut directories: Vec<_> = path.parents().filter(|parent| !parent.is_root()).collect();
        directories.reverse();
        for directory in directories {
            if self.directories.insert(directory.clone()) {
                let name = format!("{}/", name_of(&directory));
                self.append(name, EntryType::Directory, DIRECTORY_MODE, NO_TIME, &[])?;
            }
        }
        if let Some(created) = times.created.filter(|created| Some(*created) != times.modified) {
            let created = extension(CREATION_TIME, seconds(created));
            self.append(EXTENSION.to_owned(), EntryType::XHeader, FILE_MODE, NO_TIME, created.as_bytes())?;
        }
        let modified = times.modified.map_or(NO_TIME, seconds);
        self.append(name_of(path), EntryType::Regular, FILE_MODE, modified, content)?;
        Ok(AddOutcome::Written)
    }

    /// Completes the archive, and renames the temporary file. If it may not replace an existing archive, it is removed.
    fn finish(mut self: Box<Self>, allowed: Existing) -> Result<FinishOutcome, TransferError> {
        let Some(mut builder) = self.builder.take() else { return Ok(FinishOutcome::Written) };
        builder.finish().map_err(|source| self.failure(source))?;
        let written = builder.into_inner().and_then(Output::finish).map_err(|source| self.failure(source))?;
        let (Some(partial), Some((path, existing))) = (written, &self.file) else {
            return Ok(FinishOutcome::Written);
        };
        name_partial(partial, path, *existing, allowed).map_err(|source| self.failure(source))
    }
}

impl Drop for Archive {
    fn drop(&mut self) {
        // The builder completes the archive on drop, and it must stay incomplete.
        if let Some(builder) = &mut self.builder {
            *builder.get_mut() = Output::Discard;
        }
    }
}

/// Seconds since 1970.
fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// A record of a pax header: its length in decimal digits, which includes these digits, its key and its value.
fn extension(key: &str, value: u64) -> String {
    let rest = format!(" {key}={value}\n");
    let mut length = rest.len();
    while format!("{length}{rest}").len() != length {
        length += 1;
    }
    format!("{length}{rest}")
}

enum Output {
    Writer(BufWriter<Box<dyn Write + Send>>),
    Plain(BufWriter<NamedTempFile>),
    Gzip(GzEncoder<NamedTempFile>),
    Discard,
}

impl Output {
    fn writer(&mut self) -> Option<&mut dyn Write> {
        match self {
            Self::Writer(output) => Some(output),
            Self::Plain(file) => Some(file),
            Self::Gzip(file) => Some(file),
            Self::Discard => None,
        }
    }

    /// Completes the output. Returns the temporary file, if it is one.
    fn finish(self) -> io::Result<Option<NamedTempFile>> {
        match self {
            Self::Writer(mut output) => output.flush().map(|()| None),
            Self::Plain(file) => file.into_inner().map(Some).map_err(io::IntoInnerError::into_error),
            Self::Gzip(file) => file.finish().map(Some),
            Self::Discard => Ok(None),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer().map_or(Ok(bytes.len()), |writer| writer.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer().map_or(Ok(()), |writer| writer.flush())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::export::tests::Shared;

    fn archive(is_finished: bool) -> Vec<u8> {
        let written = Shared::default();
        let mut archive = Archive::to_writer(Box::new(written.clone()));
        archive.add(&"/memories/d/a".parse().unwrap(), b"text", FileTimes::new()).unwrap();
        if is_finished {
            Box::new(archive).finish(Existing::Replace).unwrap();
        } else {
            drop(archive);
        }
        std::mem::take(&mut *written.0.lock().unwrap())
    }

    #[test]
    fn an_unfinished_archive_lacks_its_end() {
        let incomplete = archive(false);
        assert_eq!(incomplete.len(), 3 * 512, "a directory, a file and its content");
        assert_eq!(archive(true), [incomplete.as_slice(), &[0; 1024]].concat());
    }
}
