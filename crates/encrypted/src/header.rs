//! [`Header`]: the plain-text header of a stored object. `docs/encryption.md` specifies each byte.
//!
//! A header is authenticated together with the ciphertext after it. Until then, its fields are untrusted and are only
//! used to find the key.

use memory_tool_core::StorePath;

use crate::cipher::{NONCE_BYTES, Nonce, TAG_BYTES};
use crate::failure::Damage;
use crate::id::{ID_BYTES, Id};
use crate::keys::KeyId;

/// The format version that this crate reads and writes.
pub(crate) const FORMAT_VERSION: u8 = 1;

/// The first bytes of every stored object. The first byte is not ASCII, and the last bytes change if a program converts
/// line breaks.
const MAGIC: [u8; 8] = *b"\x8dMTE\r\n\x1a\n";

/// The length of the header, without the slots of an index.
pub(crate) const HEADER_BYTES: usize = 92;

/// The number of bytes that an object adds to an unpadded content.
pub(crate) const OVERHEAD_BYTES: usize = HEADER_BYTES + TAG_BYTES;

const KIND_INDEX: u8 = 1;
const KIND_CONTENT: u8 = 2;
const FLAG_PADDED: u8 = 1;

/// The name of a stored object. The header repeats it, which makes the object invalid under any other name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ObjectName {
    Index(IndexCopy),
    Content(Id),
}

/// One of the two copies of the index.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum IndexCopy {
    First,
    Second,
}

impl ObjectName {
    /// The path in the inner store.
    pub(crate) fn path(self) -> StorePath {
        let name = match self {
            Self::Index(copy) => format!("index-{}", copy.number()),
            Self::Content(id) => id.to_string(),
        };
        // Both are valid names. For an invalid name, the root would be used, which is a directory and never an object.
        StorePath::memories().join(&name).unwrap_or_else(|_| StorePath::memories())
    }

    fn kind(self) -> u8 {
        match self {
            Self::Index(_) => KIND_INDEX,
            Self::Content(_) => KIND_CONTENT,
        }
    }

    fn id(self) -> Id {
        match self {
            Self::Index(copy) => {
                let mut bytes = [0; ID_BYTES];
                bytes[ID_BYTES - 1] = copy.number();
                Id::from_bytes(bytes)
            }
            Self::Content(id) => id,
        }
    }
}

impl IndexCopy {
    fn number(self) -> u8 {
        match self {
            Self::First => 1,
            Self::Second => 2,
        }
    }
}

/// A data key, wrapped by a key of a key ring.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Slot {
    pub(crate) data_key: Id,
    pub(crate) key: KeyId,
    pub(crate) wrapped: Vec<u8>,
}

/// The header of a stored object.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Header {
    pub(crate) kind: u8,
    pub(crate) is_padded: bool,
    pub(crate) store: Id,
    /// The id of the file, or the number of the copy of the index.
    pub(crate) object: Id,
    pub(crate) data_key: Id,
    pub(crate) nonce: Nonce,
    pub(crate) slots: Vec<Slot>,
}

impl Header {
    pub(crate) fn new(name: ObjectName, store: Id, data_key: Id, is_padded: bool, nonce: Nonce) -> Self {
        Self { kind: name.kind(), is_padded, store, object: name.id(), data_key, nonce, slots: Vec::new() }
    }

    /// Checks that the object was encrypted for this name.
    pub(crate) fn expect_name(&self, name: ObjectName) -> Result<(), Damage> {
        if (self.kind, self.object) == (name.kind(), name.id()) { Ok(()) } else { Err(Damage::OtherObject) }
    }

    /// Checks that the object was encrypted for this store.
    pub(crate) fn expect_store(&self, store: Id) -> Result<(), Damage> {
        if self.store == store { Ok(()) } else { Err(Damage::OtherStore) }
    }

    /// Appends the header of a ciphertext of `sealed_bytes`, including its tag. `None` if a slot is too long to encode.
    pub(crate) fn encode(&self, sealed_bytes: usize, buffer: &mut Vec<u8>) -> Option<()> {
        buffer.extend_from_slice(&MAGIC);
        buffer.extend_from_slice(&[FORMAT_VERSION, self.kind, if self.is_padded { FLAG_PADDED } else { 0 }, 0]);
        for id in [self.store, self.object, self.data_key] {
            buffer.extend_from_slice(id.as_bytes());
        }
        buffer.extend_from_slice(&self.nonce.0);
        buffer.extend_from_slice(&u64::try_from(sealed_bytes).ok()?.to_be_bytes());
        if self.kind == KIND_INDEX {
            encode_slots(&self.slots, buffer)?;
        }
        Some(())
    }
}

fn encode_slots(slots: &[Slot], buffer: &mut Vec<u8>) -> Option<()> {
    buffer.extend_from_slice(&u16::try_from(slots.len()).ok()?.to_be_bytes());
    for Slot { data_key, key, wrapped } in slots {
        buffer.extend_from_slice(data_key.as_bytes());
        buffer.push(u8::try_from(key.as_str().len()).ok()?);
        buffer.extend_from_slice(key.as_str().as_bytes());
        buffer.extend_from_slice(&u16::try_from(wrapped.len()).ok()?.to_be_bytes());
        buffer.extend_from_slice(wrapped);
    }
    Some(())
}

/// Whether the bytes begin like an object of an encrypted store.
pub(crate) fn has_magic(stored: &[u8]) -> bool {
    stored.starts_with(&MAGIC)
}

/// Parses the header of a stored object, and returns it with the offset of the ciphertext.
pub(crate) fn parse(stored: &[u8]) -> Result<(Header, usize), Damage> {
    let mut reader = Reader { rest: stored, past_end: Damage::Truncated };
    reader.expect_magic()?;
    let found = reader.byte()?;
    if found != FORMAT_VERSION {
        return Err(Damage::UnknownFormat { found, known: FORMAT_VERSION });
    }
    let [kind, flags, reserved] = reader.array()?;
    if flags & !FLAG_PADDED != 0 || reserved != 0 {
        return Err(Damage::Header("unknown flags"));
    }
    let (store, object, data_key) = (reader.id()?, reader.id()?, reader.id()?);
    let nonce = Nonce(reader.array::<NONCE_BYTES>()?);
    let sealed_bytes = u64::from_be_bytes(reader.array()?);
    let slots = match kind {
        KIND_INDEX => reader.slots()?,
        KIND_CONTENT => Vec::new(),
        _ => return Err(Damage::Header("neither an index nor a content")),
    };
    if sealed_bytes < TAG_BYTES as u64 {
        return Err(Damage::Header("ciphertext shorter than its tag"));
    }
    match (reader.rest.len() as u64).cmp(&sealed_bytes) {
        std::cmp::Ordering::Less => return Err(Damage::Truncated),
        std::cmp::Ordering::Greater => return Err(Damage::TrailingBytes),
        std::cmp::Ordering::Equal => {}
    }
    let header = Header { kind, is_padded: flags & FLAG_PADDED != 0, store, object, data_key, nonce, slots };
    Ok((header, stored.len() - reader.rest.len()))
}

/// The bytes that have not been read yet.
pub(crate) struct Reader<'a> {
    pub(crate) rest: &'a [u8],
    /// The error of reading past the end.
    pub(crate) past_end: Damage,
}

impl<'a> Reader<'a> {
    fn expect_magic(&mut self) -> Result<(), Damage> {
        match self.rest.strip_prefix(&MAGIC) {
            Some(rest) => self.rest = rest,
            None if MAGIC.starts_with(self.rest) => return Err(Damage::Truncated),
            None => return Err(Damage::NotEncrypted),
        }
        Ok(())
    }

    fn bytes(&mut self, length: usize) -> Result<&'a [u8], Damage> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or_else(|| self.past_end.clone())?;
        self.rest = rest;
        Ok(bytes)
    }

    /// Reads bytes after a length of 2 bytes.
    pub(crate) fn short_bytes(&mut self) -> Result<&'a [u8], Damage> {
        let length = u16::from_be_bytes(self.array()?);
        self.bytes(length.into())
    }

    pub(crate) fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], Damage> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or_else(|| self.past_end.clone())?;
        self.rest = rest;
        Ok(*bytes)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Damage> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn id(&mut self) -> Result<Id, Damage> {
        self.array().map(Id::from_bytes)
    }

    fn slots(&mut self) -> Result<Vec<Slot>, Damage> {
        let count = u16::from_be_bytes(self.array()?);
        (0..count).map(|_| self.slot()).collect()
    }

    fn slot(&mut self) -> Result<Slot, Damage> {
        let data_key = self.id()?;
        let length = self.byte()?.into();
        let key = std::str::from_utf8(self.bytes(length)?).ok().and_then(|key| key.parse().ok());
        let wrapped = self.short_bytes()?.to_vec();
        Ok(Slot { data_key, key: key.ok_or(Damage::Header("invalid key id"))?, wrapped })
    }
}
