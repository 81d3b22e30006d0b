//! Reads an untrusted tar archive, with or without gzip compression.

use std::cell::Cell;
use std::io::{self, BufReader, Cursor, Read};
use std::rc::Rc;
use std::time::{Duration, UNIX_EPOCH};

use flate2::bufread::MultiGzDecoder;
use memory_tool_core::{FileTimes, Problem};
use tar::{Entry, EntryType};

use crate::transfer::error::TransferError;
use crate::transfer::import::filter::{Disconnected, ImportFilter, read_up_to};
use crate::transfer::{CREATION_TIME, NO_TIME};

/// The maximum size of the headers of an entry, including long names, in bytes.
const MAX_HEADER_BYTES: u64 = 1024 * 1024;

/// The maximum size of the padding after a compressed archive, in bytes. `tar` pads archives to a multiple of 10 KiB by
/// default.
const MAX_PADDING_BYTES: u64 = 1024 * 1024;

const GZIP: &[u8] = b"\x1f\x8b";

/// The first bytes of unsupported formats. A tar archive starts with a name, which is unlikely to match.
const OTHER_FORMATS: [(&[u8], &str); 6] = [
    (b"PK\x03\x04", "a zip archive"),
    (b"\x28\xb5\x2f\xfd", "zstd compression"),
    (b"BZh91AY&SY", "bzip2 compression"),
    (b"\xfd7zXZ\0", "xz compression"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!\x1a\x07", "a rar archive"),
];

/// The length of the longest of these prefixes.
const LONGEST_START: u64 = 10;

/// A tar archive.
pub(crate) struct Archive {
    reader: Box<dyn Read>,
    is_compressed: bool,
}

impl Archive {
    /// Detects the compression of an archive from its first bytes.
    pub(crate) fn open(mut reader: impl Read + 'static, name: &str) -> Result<Self, TransferError> {
        let mut start = Vec::new();
        let read = reader.by_ref().take(LONGEST_START).read_to_end(&mut start);
        read.map_err(|source| TransferError::Source { name: name.to_owned(), source })?;
        if let Some((_, format)) = OTHER_FORMATS.iter().find(|(first, _)| start.starts_with(first)) {
            return Err(TransferError::SourceFormat { name: name.to_owned(), format });
        }
        let is_compressed = start.starts_with(GZIP);
        let whole = BufReader::new(Cursor::new(start).chain(reader));
        let reader: Box<dyn Read> = if is_compressed { Box::new(MultiGzDecoder::new(whole)) } else { Box::new(whole) };
        Ok(Self { reader, is_compressed })
    }
}

/// Imports the files of an archive. Returns the reason if the archive could not be read completely.
pub(crate) fn import_files(archive: Archive, filter: &mut ImportFilter) -> Result<Option<String>, Disconnected> {
    let Archive { reader, is_compressed } = archive;
    let limit = Rc::new(ReadLimit::default());
    let mut archive = tar::Archive::new(LimitedReader { reader, limit: Rc::clone(&limit) });
    let taken = import_entries(&mut archive, &limit, filter).and_then(|()| {
        if limit.is_at_end.get() || !is_compressed {
            return Ok(());
        }
        // The checksum follows the end of the archive.
        limit.allowance.set(None);
        io::copy(&mut archive.into_inner().reader.take(MAX_PADDING_BYTES), &mut io::sink())?;
        Ok(())
    });
    match taken {
        Ok(()) if limit.is_at_end.get() => Ok(Some("the archive is truncated".to_owned())),
        Ok(()) => Ok(None),
        Err(StopReason::Archive(error)) => Ok(Some(format!("the archive cannot be read: {}", Problem::of(&error)))),
        Err(StopReason::Disconnected) => Err(Disconnected),
    }
}

enum StopReason {
    Archive(io::Error),
    Disconnected,
}

impl From<io::Error> for StopReason {
    fn from(error: io::Error) -> Self {
        Self::Archive(error)
    }
}

fn import_entries(
    archive: &mut tar::Archive<LimitedReader>,
    limit: &ReadLimit,
    filter: &mut ImportFilter,
) -> Result<(), StopReason> {
    let mut entries = archive.entries()?;
    let mut left = 0;
    loop {
        limit.allowance.set(Some(MAX_HEADER_BYTES.saturating_add(left)));
        let Some(entry) = entries.next() else { return Ok(()) };
        let mut entry = entry?;
        limit.allowance.set(None);
        import_entry(&mut entry, filter)?;
        left = skip_rest(&mut entry)?;
    }
}

/// Skips the rest of an entry. Returns the number of bytes that remain before the next header.
fn skip_rest(entry: &mut Entry<'_, LimitedReader>) -> io::Result<u64> {
    if !entry.header().entry_type().is_gnu_sparse() {
        return io::copy(entry, &mut io::sink()).map(|_| 0);
    }
    // Reading a sparse file includes the zeros between its blocks, and a single header can declare exabytes of zeros.
    if has_extension(entry, |key| key == b"size")? {
        return Err(io::Error::other("it contains a sparse file with two sizes"));
    }
    entry.header().entry_size()
}

fn import_entry(entry: &mut Entry<'_, LimitedReader>, filter: &mut ImportFilter) -> Result<(), StopReason> {
    let name = entry.path_bytes().into_owned();
    let skipped = match entry.header().entry_type() {
        // Directories exist implicitly. Old archives have no type for them, and mark them by a trailing slash.
        EntryType::Directory | EntryType::XGlobalHeader => return Ok(()),
        EntryType::Regular | EntryType::Continuous if name.ends_with(b"/") => return Ok(()),
        EntryType::Regular | EntryType::Continuous if is_sparse(entry)? => Some("it is a sparse file"),
        EntryType::Regular | EntryType::Continuous => None,
        EntryType::Symlink | EntryType::Link => Some("it is a link"),
        EntryType::GNUSparse => Some("it is a sparse file"),
        _ => Some("it is not a file"),
    };
    if let Some(reason) = skipped {
        filter.skip(&name, reason);
        return Ok(());
    }
    let size = entry.size();
    let Some(path) = filter.accept(&name, size) else { return Ok(()) };
    let times = times(entry)?;
    match read_up_to(filter.skip_above, &mut *entry)? {
        Some(content) if content.len() as u64 == size => {
            (filter.take)(path, content, times).map_err(|Disconnected| StopReason::Disconnected)
        }
        _ => Err(StopReason::Archive(io::ErrorKind::UnexpectedEof.into())),
    }
}

/// The times of an entry. Neither 0 nor [`NO_TIME`] is the time of a file.
fn times(entry: &mut Entry<'_, LimitedReader>) -> io::Result<FileTimes> {
    let time = |seconds: u64| UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
    let modified = entry.header().mtime().ok().filter(|seconds| ![0, NO_TIME].contains(seconds));
    let mut times = FileTimes::new().modified(modified.and_then(time));
    for extension in entry.pax_extensions()?.into_iter().flatten().flatten() {
        if extension.key() == Ok(CREATION_TIME) {
            // Other programs add a fraction.
            let seconds = extension.value().ok().and_then(|value| value.split('.').next()?.parse().ok());
            times = times.created(seconds.and_then(time));
        }
    }
    Ok(times)
}

/// Whether an entry is a sparse file in POSIX format. It has the type of a regular file, and its contents
/// lack the holes.
fn is_sparse(entry: &mut Entry<'_, LimitedReader>) -> io::Result<bool> {
    has_extension(entry, |key| key.starts_with(b"GNU.sparse."))
}

fn has_extension(entry: &mut Entry<'_, LimitedReader>, matches: impl Fn(&[u8]) -> bool) -> io::Result<bool> {
    let extensions = entry.pax_extensions()?;
    Ok(extensions.is_some_and(|found| found.flatten().any(|extension| matches(extension.key_bytes()))))
}

/// State that is shared with the reader of an archive, which the `tar` crate owns.
#[derive(Default)]
struct ReadLimit {
    /// The number of bytes that may still be read. `None` means no limit.
    allowance: Cell<Option<u64>>,
    is_at_end: Cell<bool>,
}

struct LimitedReader {
    reader: Box<dyn Read>,
    limit: Rc<ReadLimit>,
}

impl Read for LimitedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        if read == 0 && !buffer.is_empty() {
            self.limit.is_at_end.set(true);
        }
        if let Some(allowance) = self.limit.allowance.get() {
            let left = allowance
                .checked_sub(read as u64)
                .ok_or_else(|| io::Error::other("it contains a name that is too long"))?;
            self.limit.allowance.set(Some(left));
        }
        Ok(read)
    }
}
