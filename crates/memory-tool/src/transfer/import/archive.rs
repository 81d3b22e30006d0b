//! Reading a tar archive that anybody may have written, compressed with gzip or not.

use std::cell::Cell;
use std::io::{self, BufReader, Cursor, Read};
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;
use memory_tool_core::Problem;
use tar::{Entry, EntryType};

use crate::transfer::error::TransferError;
use crate::transfer::import::intake::{Abandoned, Intake, read_up_to};

/// The most bytes of headers before one entry, long names included. The longest path of a memory has 1,024.
const MAX_HEADER_BYTES: u64 = 1024 * 1024;

/// The most bytes that are read behind the end of a compressed archive. `tar` fills archives up to 10 KiB, or to what it is given.
const MAX_PADDING_BYTES: u64 = 1024 * 1024;

/// What a gzip stream begins with.
const GZIP: &[u8] = b"\x1f\x8b";

/// What files of other formats begin with. No name in a tar archive, which would stand there, is likely to.
const OTHER_FORMATS: [(&[u8], &str); 6] = [
    (b"PK\x03\x04", "a zip archive"),
    (b"\x28\xb5\x2f\xfd", "zstd compression"),
    (b"BZh91AY&SY", "bzip2 compression"),
    (b"\xfd7zXZ\0", "xz compression"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!\x1a\x07", "a rar archive"),
];

/// The most bytes that one of these formats is known by.
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

/// Takes the files of an archive; why it could not be read to its end, if it could not.
pub(crate) fn take_files(archive: Archive, intake: &mut Intake) -> Result<Option<String>, Abandoned> {
    let Archive { reader, is_compressed } = archive;
    let gauge = Rc::new(Gauge::default());
    let mut archive = tar::Archive::new(Gauged { reader, gauge: Rc::clone(&gauge) });
    let taken = take_entries(&mut archive, &gauge, intake).and_then(|()| {
        if gauge.is_at_end.get() || !is_compressed {
            return Ok(());
        }
        // The checksum is behind the end of the archive.
        gauge.allowance.set(None);
        io::copy(&mut archive.into_inner().reader.take(MAX_PADDING_BYTES), &mut io::sink())?;
        Ok(())
    });
    match taken {
        Ok(()) if gauge.is_at_end.get() => Ok(Some("the archive is cut off: it lacks its end".to_owned())),
        Ok(()) => Ok(None),
        Err(Stop::Archive(error)) => Ok(Some(format!("the archive cannot be read: {}", Problem::of(&error)))),
        Err(Stop::Abandoned) => Err(Abandoned),
    }
}

/// Why the reading of an archive ends before its end.
enum Stop {
    Archive(io::Error),
    Abandoned,
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Archive(error)
    }
}

fn take_entries(archive: &mut tar::Archive<Gauged>, gauge: &Gauge, intake: &mut Intake) -> Result<(), Stop> {
    let mut entries = archive.entries()?;
    let mut left = 0;
    loop {
        gauge.allowance.set(Some(MAX_HEADER_BYTES.saturating_add(left)));
        let Some(entry) = entries.next() else { return Ok(()) };
        let mut entry = entry?;
        gauge.allowance.set(None);
        take_entry(&mut entry, intake)?;
        left = pass_over(&mut entry)?;
    }
}

/// Reads what is left of an entry, which is no header. How many bytes of it are still to come before the next one.
fn pass_over(entry: &mut Entry<'_, Gauged>) -> io::Result<u64> {
    if !entry.header().entry_type().is_gnu_sparse() {
        return io::copy(entry, &mut io::sink()).map(|_| 0);
    }
    // Of a sparse file, the zeros between its blocks would be read as well: a single header can ask for exabytes of them.
    if has_extension(entry, |key| key == b"size")? {
        return Err(io::Error::other("a sparse file in it has two sizes"));
    }
    entry.header().entry_size()
}

fn take_entry(entry: &mut Entry<'_, Gauged>, intake: &mut Intake) -> Result<(), Stop> {
    let name = entry.path_bytes().into_owned();
    let left_out = match entry.header().entry_type() {
        // Directories are where their files are. Archives from before there was a type for them mark them by a slash.
        EntryType::Directory | EntryType::XGlobalHeader => return Ok(()),
        EntryType::Regular | EntryType::Continuous if name.ends_with(b"/") => return Ok(()),
        EntryType::Regular | EntryType::Continuous if is_sparse(entry)? => Some("it is a sparse file"),
        EntryType::Regular | EntryType::Continuous => None,
        EntryType::Symlink | EntryType::Link => Some("it is a link"),
        EntryType::GNUSparse => Some("it is a sparse file"),
        _ => Some("it is no file"),
    };
    if let Some(reason) = left_out {
        intake.leave_out(&name, reason);
        return Ok(());
    }
    let size = entry.size();
    let Some(path) = intake.place(&name, size) else { return Ok(()) };
    match read_up_to(intake.skip_above(), &mut *entry)? {
        Some(content) if content.len() as u64 == size => intake.put(path, content).map_err(|Abandoned| Stop::Abandoned),
        _ => Err(Stop::Archive(io::ErrorKind::UnexpectedEof.into())),
    }
}

/// Whether an entry is a sparse file as POSIX has them: with the type of any other, and a content that lacks the holes.
fn is_sparse(entry: &mut Entry<'_, Gauged>) -> io::Result<bool> {
    has_extension(entry, |key| key.starts_with(b"GNU.sparse."))
}

/// Whether the extensions of an entry say anything by such a key.
fn has_extension(entry: &mut Entry<'_, Gauged>, is_meant: impl Fn(&[u8]) -> bool) -> io::Result<bool> {
    let extensions = entry.pax_extensions()?;
    Ok(extensions.is_some_and(|found| found.flatten().any(|extension| is_meant(extension.key_bytes()))))
}

/// What is known of an archive that is read by somebody else.
#[derive(Default)]
struct Gauge {
    /// How much may still be read; `None` is no limit.
    allowance: Cell<Option<u64>>,
    is_at_end: Cell<bool>,
}

/// The bytes of an archive, counted.
struct Gauged {
    reader: Box<dyn Read>,
    gauge: Rc<Gauge>,
}

impl Read for Gauged {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        if read == 0 && !buffer.is_empty() {
            self.gauge.is_at_end.set(true);
        }
        if let Some(allowance) = self.gauge.allowance.get() {
            let left =
                allowance.checked_sub(read as u64).ok_or_else(|| io::Error::other("a name in it is too long"))?;
            self.gauge.allowance.set(Some(left));
        }
        Ok(read)
    }
}
