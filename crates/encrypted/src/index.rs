//! [`Index`]: the table that says what a store holds. It alone knows the names.

use std::collections::BTreeMap;
use std::ops::Bound;

use memory_tool_core::{MemoryPath, Node, StoredFile, Version};

use crate::failure::Damage;
use crate::header::Slot;
use crate::id::{ID_BYTES, Id};

/// What a store holds at one moment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Index {
    pub(crate) store: Id,
    /// What the memory is called, if it has a name.
    pub(crate) name: Option<String>,
    /// The number of writes of the index so far; 0 where the store does not exist yet.
    pub(crate) revision: u64,
    /// The data keys that contents are encrypted with.
    pub(crate) slots: Vec<Slot>,
    pub(crate) files: BTreeMap<MemoryPath, FileRecord>,
}

/// A file of the store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct FileRecord {
    /// Names the ciphertext. A rename keeps it.
    pub(crate) id: Id,
    pub(crate) data_key: Id,
    /// The size in bytes where the content is padded; otherwise the length of the ciphertext tells it.
    pub(crate) size: Option<u64>,
}

impl Index {
    /// The index of a store that does not exist yet.
    pub(crate) fn of_new_store() -> Result<Self, getrandom::Error> {
        Ok(Self { store: Id::random()?, name: None, revision: 0, slots: Vec::new(), files: BTreeMap::new() })
    }

    pub(crate) fn exists(&self) -> bool {
        self.revision > 0
    }

    pub(crate) fn slot(&self, data_key: Id) -> Option<&Slot> {
        self.slots.iter().find(|slot| slot.data_key == data_key)
    }

    /// The files strictly beneath a directory.
    pub(crate) fn beneath(&self, directory: &MemoryPath) -> impl Iterator<Item = (&MemoryPath, &FileRecord)> {
        let after = (Bound::Excluded(directory), Bound::Unbounded);
        self.files.range::<MemoryPath, _>(after).take_while(move |(path, _)| path.is_beneath(directory))
    }

    /// The file at `path`, or all that lie beneath it.
    pub(crate) fn at_or_beneath(&self, path: &MemoryPath) -> impl Iterator<Item = (&MemoryPath, &FileRecord)> {
        self.files.get_key_value(path).into_iter().chain(self.beneath(path))
    }

    /// What is at a path, without its contents.
    pub(crate) fn node(&self, path: &MemoryPath) -> Node {
        match self.files.get(path) {
            Some(file) => Node::File(StoredFile::new(Vec::new(), Version::new(*file.id.as_bytes()))),
            None if path.is_root() || self.beneath(path).next().is_some() => Node::Directory,
            None => Node::Absent,
        }
    }

    /// Writes all but the store's id and the slots, which are in the header. `None` where it is too large.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        let entry_bytes = |path: &MemoryPath| path.as_str().len() + 2 * ID_BYTES;
        let mut buffer = Vec::with_capacity(16 + self.files.keys().map(entry_bytes).sum::<usize>());
        buffer.extend_from_slice(&self.revision.to_be_bytes());
        buffer.extend_from_slice(&u32::try_from(self.files.len()).ok()?.to_be_bytes());
        for (path, file) in &self.files {
            let name = path.as_str().strip_prefix(ROOT)?;
            let slot = self.slots.iter().position(|slot| slot.data_key == file.data_key)?;
            buffer.extend_from_slice(&u16::try_from(name.len()).ok()?.to_be_bytes());
            buffer.extend_from_slice(name.as_bytes());
            buffer.extend_from_slice(file.id.as_bytes());
            buffer.extend_from_slice(&u16::try_from(slot).ok()?.to_be_bytes());
            match file.size {
                None => buffer.push(SIZE_OF_CIPHERTEXT),
                Some(size) => {
                    buffer.push(SIZE_FOLLOWS);
                    buffer.extend_from_slice(&size.to_be_bytes());
                }
            }
        }
        if let Some(name) = &self.name {
            buffer.extend_from_slice(&u16::try_from(name.len()).ok()?.to_be_bytes());
            buffer.extend_from_slice(name.as_bytes());
        }
        Some(buffer)
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub(crate) fn decode(store: Id, slots: Vec<Slot>, encoded: &[u8]) -> Result<Self, Damage> {
        let mut reader = Reader { rest: encoded };
        let revision = u64::from_be_bytes(reader.array()?);
        let count = u32::from_be_bytes(reader.array()?);
        let mut index = Self { store, name: None, revision, slots, files: BTreeMap::new() };
        for _ in 0..count {
            let (path, file) = reader.entry(&index.slots)?;
            if index.files.last_key_value().is_some_and(|(last, _)| path <= *last || path.is_beneath(last)) {
                return Err(Damage::Content("its files are not in order"));
            }
            index.files.insert(path, file);
        }
        if !reader.rest.is_empty() {
            let name = std::str::from_utf8(reader.short_bytes()?);
            index.name = Some(name.map_err(|_| Damage::Content("the memory's name is no text"))?.to_owned());
        }
        if !reader.rest.is_empty() {
            return Err(Damage::Content("there is more than its files and its name"));
        }
        if revision == 0 {
            return Err(Damage::Content("nobody wrote it"));
        }
        Ok(index)
    }
}

/// What every path begins with: it is not written.
const ROOT: &str = "/memories/";

const SIZE_OF_CIPHERTEXT: u8 = 0;
const SIZE_FOLLOWS: u8 = 1;

/// What has not been read yet.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], Damage> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(Damage::Content("its end is missing"))?;
        self.rest = rest;
        Ok(*bytes)
    }

    /// Bytes with their number before them.
    fn short_bytes(&mut self) -> Result<&'a [u8], Damage> {
        let length = u16::from_be_bytes(self.array()?).into();
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(Damage::Content("its end is missing"))?;
        self.rest = rest;
        Ok(bytes)
    }

    fn entry(&mut self, slots: &[Slot]) -> Result<(MemoryPath, FileRecord), Damage> {
        let path = path_of(self.short_bytes()?).ok_or(Damage::Content("a name is none"))?;
        let id = Id::from_bytes(self.array()?);
        let slot = slots.get(usize::from(u16::from_be_bytes(self.array()?)));
        let data_key = slot.ok_or(Damage::Content("a file has no data key"))?.data_key;
        let size = match self.array()? {
            [SIZE_OF_CIPHERTEXT] => None,
            [SIZE_FOLLOWS] => Some(u64::from_be_bytes(self.array()?)),
            _ => return Err(Damage::Content("a size is none")),
        };
        Ok((path, FileRecord { id, data_key, size }))
    }
}

/// The path of a name, if it is written as a path would be.
fn path_of(name: &[u8]) -> Option<MemoryPath> {
    let text = format!("{ROOT}{}", std::str::from_utf8(name).ok()?);
    let path: MemoryPath = text.parse().ok()?;
    (path.as_str() == text).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> MemoryPath {
        text.parse().unwrap()
    }

    fn index() -> Index {
        let id = |byte| Id::from_bytes([byte; ID_BYTES]);
        let slot = |byte| Slot { data_key: id(byte), key: "key".parse().unwrap(), wrapped: vec![byte] };
        let file = |byte, size| FileRecord { id: id(byte), data_key: id(byte % 2), size };
        let files =
            [("/memories/a", file(2, None)), ("/memories/b/c", file(3, Some(0))), ("/memories/b.c", file(4, None))];
        Index {
            store: id(9),
            name: None,
            revision: 7,
            slots: vec![slot(0), slot(1)],
            files: files.into_iter().map(|(name, file)| (path(name), file)).collect(),
        }
    }

    #[test]
    fn what_was_written_is_read() {
        for name in [None, Some(""), Some("zoë")] {
            let index = Index { name: name.map(str::to_owned), ..index() };
            let encoded = index.encode().unwrap();
            assert_eq!(Index::decode(index.store, index.slots.clone(), &encoded), Ok(index));
        }
    }

    #[test]
    fn every_other_end_is_refused() {
        let unnamed = index();
        let index = Index { name: Some("name".to_owned()), ..index() };
        let encoded = index.encode().unwrap();
        for length in 0..encoded.len() {
            let decoded = Index::decode(index.store, index.slots.clone(), &encoded[..length]);
            // Before the name, it is whole without one: the tag is what tells that it is cut.
            assert_eq!(decoded.ok(), (length == encoded.len() - 6).then(|| unnamed.clone()), "{length}");
        }
        let longer = [encoded.as_slice(), &[0]].concat();
        Index::decode(index.store, index.slots.clone(), &longer).unwrap_err();
        Index::decode(index.store, Vec::new(), &encoded).unwrap_err();
    }

    #[test]
    fn files_out_of_order_and_beneath_files_are_refused() {
        let entry = |name: &str| {
            let length = u16::try_from(name.len()).unwrap().to_be_bytes();
            [length.as_slice(), name.as_bytes(), &[0; ID_BYTES], &[0; 3]].concat()
        };
        let decode = |revision: u64, names: [&str; 2]| {
            let encoded =
                [&revision.to_be_bytes(), [0, 0, 0, 2].as_slice(), &entry(names[0]), &entry(names[1])].concat();
            let index = index();
            Index::decode(index.store, index.slots, &encoded)
        };
        assert_eq!(decode(1, ["a", "b"]).unwrap().files.len(), 2);
        for names in
            [["b", "a"], ["a", "a"], ["a", "a/b"], ["", "a"], ["a", "b/"], ["a", "../b"], ["a/", "b"], ["a", "b//c"]]
        {
            decode(1, names).unwrap_err();
        }
        decode(0, ["a", "b"]).unwrap_err();
    }

    #[test]
    fn a_path_is_a_file_a_directory_or_free() {
        let index = index();
        assert!(matches!(index.node(&path("/memories/b/c")), Node::File(_)));
        for (free, node) in
            [("/memories", Node::Directory), ("/memories/b", Node::Directory), ("/memories/c", Node::Absent)]
        {
            assert_eq!(index.node(&path(free)), node);
        }
        let beneath: Vec<_> = index.beneath(&path("/memories/b")).map(|(path, _)| path.as_str()).collect();
        assert_eq!(beneath, ["/memories/b/c"]);
    }
}
