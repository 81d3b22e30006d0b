//! The log: the last changes of one file that came with new records, such as the entries of a history.
//!
//! A record is a file, whose contents and name take two flushes. A frame of the log has the records of a change and
//! takes one, which is cheap, because it overwrites blocks that the log has already. The files of the records are
//! created as well. A loss of power may take unflushed files, and recovery creates them again.
//!
//! A frame is *prepared* when it is flushed before the change, and *settled* after the change is on the disk. After a
//! crash, the last frame may be prepared. The [file itself](Frame::step) shows whether it was changed. If not, the
//! frame is struck out, with its records. Recovery never changes the file, because people may have edited it.
//!
//! Each change of other records first flushes the files and clears the log, so that no deleted text stays in it.
//!
//! A store may be a copy from an unknown source, so the contents are not trusted. Texts in a frame cannot pass for
//! frames, because all frames since the log was cleared have a random number in common.

use std::borrow::Cow;
use std::fs::File;
use std::io;

use cap_fs_ext::MetadataExt as _;
use cap_std::fs::Dir;
use memory_tool_core::{Batch, BoxError, PathMap, StorePath};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::disk::{self, Access, Content};
use crate::name::{Name, TemporaryName};
use crate::step::Step;

const LOG: Name<'_> = Name::constant("log");

/// The only format so far. Others are rejected.
const FORMAT: u32 = 1;

/// The most bytes of the log. When it is full, it is cleared.
const MAX_BYTES: usize = 512 * 1024;

/// The most bytes of the records of a change. Larger ones go through the journal.
pub(crate) const MAX_RECORD_BYTES: usize = 128 * 1024;

/// The log grows by so many zeros, because a flush takes longer if the file grows.
const GROWTH: usize = 64 * 1024;

/// A disk writes a sector at once, so the state of a frame is never torn.
const SECTOR: usize = 512;

type State = [u8; 8];
const PREPARED: State = *b"prepared";
const SETTLED: State = *b"settled\0";

/// The offsets of the fields of a header: state, digest of the rest, random number, number of the frame, length of the
/// line with the [`Intent`], length of the records, and the frame.
const DIGEST: usize = 8;
const SERIES: usize = 40;
const NUMBER: usize = 56;
const LENGTHS: usize = 64;
const BODY: usize = 80;

/// The description of a frame. The contents of the records follow it.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Intent<'a> {
    format: u32,
    step: Cow<'a, Step>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    removed: Option<Cow<'a, [u8]>>,
    /// The records, and their sizes.
    records: Vec<(Cow<'a, StorePath>, usize)>,
}

/// A change of the log.
pub(crate) struct Frame {
    pub(crate) start: End,
    pub(crate) is_settled: bool,
    /// The change of the file.
    pub(crate) step: Step,
    /// The version of a file that is removed.
    pub(crate) removed: Option<Vec<u8>>,
    pub(crate) records: Vec<(StorePath, Vec<u8>)>,
}

/// The state of the log of a store.
#[derive(Debug, Default)]
pub(crate) struct KnownLog {
    /// Whether this process found that all its records exist. Later changes keep it so.
    pub(crate) is_complete: bool,
    /// Whether this process found texts of a change that was interrupted before its frame was whole.
    pub(crate) has_rest: bool,
    /// The place for the next frame after the change with this number.
    pub(crate) end: Option<(u64, End)>,
}

/// The place for the next frame.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct End {
    offset: usize,
    number: u64,
    series: [u8; TemporaryName::DIGITS],
}

impl End {
    pub(crate) fn is_empty(self) -> bool {
        self.offset == 0
    }
}

/// Reads the frames, the place of the next one, and whether texts of a frame follow that is not whole.
pub(crate) fn read(private: &Dir) -> io::Result<(Vec<Frame>, End, bool)> {
    if disk::metadata(private, LOG)?.is_none() {
        return Ok((Vec::new(), End::default(), false));
    }
    match disk::read_file(private, LOG, MAX_BYTES as u64)? {
        Content::Whole(log) => {
            let (frames, end) = parse(&log).map_err(damaged)?;
            let has_rest = log.iter().skip(end.offset).any(|byte| *byte != 0);
            Ok((frames, end, has_rest))
        }
        Content::TooLarge { size, .. } => Err(damaged(format!("it has {size} bytes").into())),
    }
}

/// Parses the frames up to the first that is not whole, which was never acknowledged.
pub(crate) fn parse(log: &[u8]) -> Result<(Vec<Frame>, End), BoxError> {
    let (mut frames, mut end) = (Vec::new(), End::default());
    while let Some((frame, next)) = log.get(end.offset..).and_then(|rest| split(rest, end)) {
        frames.push(Frame::parse(frame, end)?);
        end = next;
    }
    Ok((frames, end))
}

/// The frame at the beginning of the bytes, and the place after it.
fn split(bytes: &[u8], at: End) -> Option<(&[u8], End)> {
    let series: [u8; TemporaryName::DIGITS] = bytes.get(SERIES..NUMBER)?.try_into().ok()?;
    let frame = bytes.get(..BODY + number_at(bytes, LENGTHS)?.checked_add(number_at(bytes, LENGTHS + 8)?)?)?;
    let is_next = at.is_empty() || series == at.series;
    let is_whole = [PREPARED, SETTLED].iter().any(|state| frame.starts_with(state))
        && number_at(bytes, NUMBER)? as u64 == at.number
        && Sha256::digest(&frame[SERIES..])[..] == frame[DIGEST..SERIES];
    let offset = at.offset + frame.len().next_multiple_of(SECTOR);
    (is_next && is_whole).then_some((frame, End { offset, number: at.number + 1, series }))
}

fn number_at(bytes: &[u8], place: usize) -> Option<usize> {
    let number = u64::from_le_bytes(bytes.get(place..place + 8)?.try_into().ok()?);
    usize::try_from(number).ok().filter(|number| *number <= MAX_BYTES)
}

impl Frame {
    fn parse(frame: &[u8], start: End) -> Result<Self, BoxError> {
        let line = number_at(frame, LENGTHS).and_then(|length| frame.get(BODY..BODY + length)).unwrap_or_default();
        let Intent { format, step, removed, records } = serde_json::from_slice(line)?;
        if format != FORMAT {
            return Err(format!("unknown format {format}: a newer version of this program may have written it").into());
        }
        let mut rest = &frame[BODY + line.len()..];
        let mut take = |(path, size): (Cow<'_, StorePath>, usize)| {
            let (content, after) = rest.split_at_checked(size).ok_or("a record is cut off")?;
            rest = after;
            Ok::<_, BoxError>((path.into_owned(), content.to_vec()))
        };
        let records = records.into_iter().map(&mut take).collect::<Result<Vec<_>, _>>()?;
        let batch = records.iter().fold(step.add_to(Batch::new()), |batch, (path, _)| batch.write(path.clone(), ""));
        batch.check(&PathMap::<Vec<u8>>::new())?;
        if step.is_of_record() || !records.iter().all(|(path, _)| path.is_record()) {
            return Err("a path is under the wrong root".into());
        }
        let (step, removed) = (step.into_owned(), removed.map(Cow::into_owned));
        Ok(Self { start, is_settled: frame.starts_with(&SETTLED), step, removed, records })
    }
}

/// Encodes a prepared frame.
fn encode(end: End, step: &Step, removed: Option<&[u8]>, records: &[(&StorePath, &[u8])]) -> io::Result<Vec<u8>> {
    let sizes = records.iter().map(|(path, content)| (Cow::Borrowed(*path), content.len())).collect();
    let intent =
        Intent { format: FORMAT, step: Cow::Borrowed(step), removed: removed.map(Cow::Borrowed), records: sizes };
    let line = serde_json::to_vec(&intent)?;
    let contents: usize = records.iter().map(|(_, content)| content.len()).sum();
    let mut frame = [&PREPARED[..], &[0; SERIES - DIGEST], &end.series, &end.number.to_le_bytes()].concat();
    frame.extend([line.len() as u64, contents as u64].iter().flat_map(|length| length.to_le_bytes()));
    frame.extend(line);
    records.iter().for_each(|(_, content)| frame.extend_from_slice(content));
    let digest = Sha256::digest(&frame[SERIES..]);
    frame[DIGEST..SERIES].copy_from_slice(&digest);
    Ok(frame)
}

/// The open file.
pub(crate) struct Log(File);

impl Log {
    /// Opens the file, or creates it.
    pub(crate) fn open(private: &Dir) -> io::Result<Self> {
        match disk::metadata(private, LOG)? {
            None => {
                disk::create_file(private, LOG, &[0; GROWTH])?;
                disk::sync_directory(private)?;
            }
            Some(found) if !found.is_file() || found.nlink() > 1 => {
                return Err(damaged("not a regular file with a single link".into()));
            }
            Some(_) => {}
        }
        let opened = disk::open_existing_file(private, LOG, Access::ReadWrite)?;
        Ok(Self(opened.ok_or(io::ErrorKind::NotFound)?.into_std()))
    }

    /// Adds a prepared frame, which is then on the disk. Returns the place after it; `None` if the log is full.
    pub(crate) fn append(
        &self,
        mut end: End,
        step: &Step,
        removed: Option<&[u8]>,
        records: &[(&StorePath, &[u8])],
    ) -> io::Result<Option<End>> {
        if end.is_empty() {
            end.series.copy_from_slice(TemporaryName::random().as_name().as_os_str().as_encoded_bytes());
        }
        let frame = encode(end, step, removed, records)?;
        let offset = end.offset + frame.len().next_multiple_of(SECTOR);
        if offset > MAX_BYTES {
            return Ok(None);
        }
        let size = usize::try_from(self.0.metadata()?.len()).unwrap_or(MAX_BYTES);
        if size < offset {
            disk::write_at(&self.0, &vec![0; offset.next_multiple_of(GROWTH) - size], size as u64)?;
            self.0.sync_all()?;
        }
        disk::write_at(&self.0, &frame, end.offset as u64)?;
        self.0.sync_data()?;
        Ok(Some(End { offset, number: end.number + 1, series: end.series }))
    }

    /// Notes that the change of a frame is on the disk. The next frame flushes the note too.
    pub(crate) fn settle(&self, start: End) -> io::Result<()> {
        disk::write_at(&self.0, &SETTLED, start.offset as u64)
    }

    /// Removes the last frame, and all texts after its start.
    pub(crate) fn strike(&self, start: End) -> io::Result<()> {
        let size = usize::try_from(self.0.metadata()?.len()).unwrap_or(MAX_BYTES);
        disk::write_at(&self.0, &vec![0; size.min(MAX_BYTES).saturating_sub(start.offset)], start.offset as u64)?;
        self.0.sync_data()
    }

    /// Removes all frames and texts.
    pub(crate) fn clear(&self) -> io::Result<()> {
        self.strike(End::default())
    }

    pub(crate) fn flush(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

fn damaged(cause: BoxError) -> io::Error {
    let message =
        format!("invalid log `.memory-tool/{LOG}`: {cause}; check the origin of this store, then move the file away");
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: &str = r#"{"remove":{"path":"/memories/a","removed":null}}"#;

    fn frame(end: End, record: &str, content: &[u8]) -> Vec<u8> {
        let (step, path) = (serde_json::from_str(STEP).unwrap(), record.parse().unwrap());
        let mut frame = encode(end, &step, Some(&[1]), &[(&path, content)]).unwrap();
        frame.resize(frame.len().next_multiple_of(SECTOR), 0);
        frame
    }

    fn series(digit: u8) -> End {
        End { series: [digit; TemporaryName::DIGITS], ..End::default() }
    }

    #[test]
    fn frames_are_read_up_to_the_first_damaged_one() {
        let first = frame(series(b'1'), "/records/a", b"text");
        let next = End { offset: first.len(), number: 1, ..series(b'1') };
        let log = [first, frame(next, "/records/b", b"other")].concat();
        assert_eq!(parse(&log).unwrap().0.len(), 2);
        for damaged in (0..BODY + STEP.len()).flat_map(|place| [place, SECTOR + place]) {
            let mut log = log.clone();
            log[damaged] ^= 1;
            let (frames, end) = parse(&log).unwrap();
            assert_eq!((frames.len(), end.offset), (damaged / SECTOR, damaged / SECTOR * SECTOR), "{damaged}");
        }
    }

    /// A text in a frame that was written in part.
    #[test]
    fn a_text_cannot_pass_for_a_frame() {
        let first = frame(series(b'1'), "/records/a", b"text");
        let forged = |digit| frame(End { offset: first.len(), number: 1, ..series(digit) }, "/records/b", b"forged");
        assert_eq!(parse(&[first.clone(), forged(b'2')].concat()).unwrap().0.len(), 1);
        assert_eq!(parse(&[first.clone(), forged(b'1')].concat()).unwrap().0.len(), 2);
    }

    #[test]
    fn a_frame_that_this_program_cannot_have_written_is_refused() {
        for record in ["/memories/b", "/memories/a/b", "/records"] {
            assert!(parse(&frame(series(b'1'), record, b"")).is_err(), "{record}");
        }
    }
}
