//! [`ZipArchive`]: a zip archive to write.

use std::fmt::Write as _;
use std::io::{BufWriter, IntoInnerError, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use memory_tool_core::{FileTimes, StorePath};
use tempfile::NamedTempFile;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use crate::transfer::error::TransferError;
use crate::transfer::existing::Existing;
use crate::transfer::export::target::{AddOutcome, FinishOutcome, Target, name_of, name_partial, open_partial};

const FILE_MODE: u32 = 0o600;

/// A zip archive to write, which every system opens. It has the times of changes in UTC, to two seconds, and no others.
pub(super) struct ZipArchive {
    writer: ZipWriter<BufWriter<NamedTempFile>>,
    path: PathBuf,
    existing: Existing,
}

impl ZipArchive {
    /// Writes to a temporary file, which [`finish`](Self::finish) renames.
    pub(super) fn to_file(path: &Path, existing: Existing) -> Result<Self, TransferError> {
        let writer = ZipWriter::new(BufWriter::new(open_partial(path, existing)?));
        Ok(Self { writer, path: path.to_owned(), existing })
    }
}

impl Target for ZipArchive {
    fn add(&mut self, path: &StorePath, content: &[u8], times: FileTimes) -> Result<AddOutcome, TransferError> {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .last_modified_time(times.modified.and_then(date).unwrap_or(DateTime::DEFAULT))
            .large_file(u32::try_from(content.len()).is_err())
            .unix_permissions(FILE_MODE);
        let added = self.writer.start_file(name_of(path), options).map_err(Into::into);
        let added = added.and_then(|()| self.writer.write_all(content));
        added.map_err(|source| TransferError::Target { path: self.path.clone(), source })?;
        Ok(AddOutcome::Written)
    }

    fn finish(self: Box<Self>, allowed: Existing) -> Result<FinishOutcome, TransferError> {
        let Self { writer, path, existing } = *self;
        let finished = writer.finish().map_err(Into::into);
        let finished = finished.and_then(|file| file.into_inner().map_err(IntoInnerError::into_error));
        let named = finished.and_then(|partial| name_partial(partial, &path, existing, allowed));
        named.map_err(|source| TransferError::Target { path, source })
    }
}

/// The time, unless an archive cannot contain it.
fn date(time: SystemTime) -> Option<DateTime> {
    time.duration_since(SystemTime::UNIX_EPOCH).ok()?; // `format_rfc3339_seconds` would panic
    let mut text = String::new();
    write!(text, "{}", humantime::format_rfc3339_seconds(time)).ok()?; // after 9999
    let mut parts = text.split(['-', 'T', ':', 'Z']);
    let year = parts.next()?.parse().ok()?;
    let mut part = || parts.next()?.parse().ok();
    DateTime::from_date_and_time(year, part()?, part()?, part()?, part()?, part()?).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_those_that_an_archive_can_have() {
        let shown = |seconds| date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).map(|date| date.to_string());
        assert_eq!(shown(1_795_770_300).as_deref(), Some("2026-11-27 09:05:00"));
        assert_eq!(shown(0), None);
        assert_eq!(shown(400_000_000_000), None);
    }
}
