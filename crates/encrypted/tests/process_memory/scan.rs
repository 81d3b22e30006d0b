//! Where secrets lie in the memory of another process. Linux lets a process read that of its children.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;

/// How many bytes of a secret are searched for at once: half of a key, which is a round key of AES.
const PIECE_BYTES: usize = 16;

const PAGE_BYTES: usize = 4096;

/// The places of each secret in a process. A secret is searched for piece by piece, and has the places of the piece that has
/// the most.
pub(crate) fn places(process: u32, secrets: &[&[u8]]) -> io::Result<Vec<Vec<String>>> {
    let mut found: Vec<Vec<Vec<String>>> =
        secrets.iter().map(|secret| vec![Vec::new(); secret.len() / PIECE_BYTES]).collect();
    let memory = File::open(format!("/proc/{process}/mem"))?;
    for line in fs::read_to_string(format!("/proc/{process}/maps"))?.lines() {
        let Some(mapping) = Mapping::parse(line).filter(|mapping| mapping.is_writable) else { continue };
        let bytes = read(&memory, &mapping);
        for (secret, by_piece) in secrets.iter().zip(&mut found) {
            for (piece, places) in secret.chunks_exact(PIECE_BYTES).zip(by_piece) {
                let starts = occurrences(&bytes, piece).map(|start| mapping.start + start as u64);
                places.extend(starts.map(|start| format!("{start:#x} {}", mapping.name)));
            }
        }
    }
    Ok(found.into_iter().map(|by_piece| by_piece.into_iter().max_by_key(Vec::len).unwrap_or_default()).collect())
}

/// A part of the memory of a process.
struct Mapping {
    start: u64,
    end: u64,
    is_writable: bool,
    name: String,
}

impl Mapping {
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let is_writable = fields.next()?.starts_with("rw");
        let address = |text| u64::from_str_radix(text, 16).ok();
        Some(Self {
            start: address(start)?,
            end: address(end)?,
            is_writable,
            name: fields.last().unwrap_or_default().to_owned(),
        })
    }
}

/// The bytes of a mapping. Pages that cannot be read are zeros.
fn read(memory: &File, mapping: &Mapping) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(mapping.end - mapping.start).unwrap()];
    for (number, page) in bytes.chunks_mut(PAGE_BYTES).enumerate() {
        let _ = memory.read_exact_at(page, mapping.start + (number * PAGE_BYTES) as u64);
    }
    bytes
}

fn occurrences(bytes: &[u8], piece: &[u8]) -> impl Iterator<Item = usize> {
    let starts = bytes.iter().enumerate().filter(|(_, byte)| **byte == piece[0]).map(|(start, _)| start);
    starts.filter(|start| bytes[*start..].starts_with(piece))
}
