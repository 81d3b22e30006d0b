//! [`Index`]: the table of all files and records of a store, with their names.

use std::collections::BTreeMap;

use memory_tool_core::{FileEntry, PathMap, PathMapEntry, StorePath, Version};

use crate::failure::{Damage, EncryptionError};
use crate::header::{Reader, Slot};
use crate::id::{ID_BYTES, Id};

/// The files and records of a store at one revision.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Index {
    pub(crate) store: Id,
    pub(crate) label: Option<String>,
    /// The number of writes of the index so far; 0 if the store does not exist yet.
    pub(crate) revision: u64,
    /// The data key that encrypts the index itself and all new contents; `None` if the store does not exist yet.
    pub(crate) data_key: Option<Id>,
    pub(crate) slots: Vec<Slot>,
    /// The files and the records.
    pub(crate) files: PathMap<FileRecord>,
}

/// A file or a record of the store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct FileRecord {
    /// The name of the ciphertext. A rename keeps it.
    pub(crate) id: Id,
    pub(crate) data_key: Id,
    /// The size in bytes if the content is padded. Otherwise the length of the ciphertext gives the size.
    pub(crate) size: Option<u64>,
}

impl Index {
    /// The index of a store that does not exist yet, and will have this label.
    pub(crate) fn of_new_store(label: Option<String>) -> Result<Self, getrandom::Error> {
        let (store, files) = (Id::random()?, PathMap::new());
        Ok(Self { store, label, revision: 0, data_key: None, slots: Vec::new(), files })
    }

    pub(crate) fn exists(&self) -> bool {
        self.revision > 0
    }

    pub(crate) fn slot(&self, data_key: Id) -> Option<&Slot> {
        self.slots.iter().find(|slot| slot.data_key == data_key)
    }

    /// Encodes all fields except the store id, the data key and the slots, which are in the header. `None` if the index
    /// is too large.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        let files = self.files.files();
        let names = files.keys().map(StorePath::as_str);
        let mut buffer = Vec::with_capacity(16 + names.map(|name| name.len() + 2 * ID_BYTES).sum::<usize>());
        buffer.extend_from_slice(&self.revision.to_be_bytes());
        buffer.extend_from_slice(&u32::try_from(files.len()).ok()?.to_be_bytes());
        for (path, file) in files {
            let text = path.as_str();
            let name = text.strip_prefix(ROOT).or(text.strip_prefix(RECORDS))?;
            self.encode_entry(name, file, &mut buffer)?;
        }
        if let Some(label) = &self.label {
            buffer.extend_from_slice(&u16::try_from(label.len()).ok()?.to_be_bytes());
            buffer.extend_from_slice(label.as_bytes());
        }
        Some(buffer)
    }

    fn encode_entry(&self, name: &str, file: &FileRecord, buffer: &mut Vec<u8>) -> Option<()> {
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
        Some(())
    }

    /// Decodes the output of [`encode`](Self::encode). The caller sets the data key.
    pub(crate) fn decode(store: Id, slots: Vec<Slot>, encoded: &[u8]) -> Result<Self, Damage> {
        let mut reader = Reader { rest: encoded, past_end: Damage::Content("unexpected end") };
        let revision = u64::from_be_bytes(reader.array()?);
        let count = u32::from_be_bytes(reader.array()?);
        let mut files: BTreeMap<StorePath, FileRecord> = BTreeMap::new();
        for _ in 0..count {
            let (path, file) = reader.entry(&slots)?;
            if files.last_key_value().is_some_and(|(last, _)| path <= *last || path.is_under(last)) {
                return Err(Damage::Content("files are not in order"));
            }
            files.insert(path, file);
        }
        let mut index = Self { store, label: None, revision, data_key: None, slots, files: files.into() };
        if !reader.rest.is_empty() {
            let label = std::str::from_utf8(reader.short_bytes()?);
            index.label = Some(label.map_err(|_| Damage::Content("invalid label of the memory"))?.to_owned());
        }
        if !reader.rest.is_empty() {
            return Err(Damage::Content("trailing bytes"));
        }
        if revision == 0 {
            return Err(Damage::Content("revision 0"));
        }
        Ok(index)
    }
}

/// The label that the memory must have. It prevents an exchange with another memory of the same key.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExpectedLabel {
    pub(crate) label: Option<String>,
    /// Former labels, which are accepted until the memory is rekeyed.
    pub(crate) former: Vec<Option<String>>,
}

impl ExpectedLabel {
    /// Checks the label in an index.
    pub(crate) fn check(&self, index: &Index) -> Result<(), EncryptionError> {
        let matches = index.label == self.label || self.former.contains(&index.label);
        if matches { Ok(()) } else { Err(EncryptionError::OtherLabel { expected: self.label.clone() }) }
    }
}

/// The prefix of the path of a file, which is not encoded.
const ROOT: &str = "/memories/";
/// The prefix of the path of a record. Its encoded name keeps the slash, which no name of a file begins with.
const RECORDS: &str = "/records";

const SIZE_OF_CIPHERTEXT: u8 = 0;
const SIZE_FOLLOWS: u8 = 1;

impl PathMapEntry for FileRecord {
    /// The id without the version of the ciphertext, which only the inner store knows.
    fn version(&self) -> Version {
        Version::new(*self.id.as_bytes())
    }

    /// The entry with the size from the index.
    fn to_entry(&self, path: &StorePath) -> FileEntry {
        FileEntry::new(path.clone(), self.size.unwrap_or(0))
    }
}

impl Reader<'_> {
    fn entry(&mut self, slots: &[Slot]) -> Result<(StorePath, FileRecord), Damage> {
        let path = decoded_path(self.short_bytes()?).ok_or(Damage::Content("invalid name of a file or record"))?;
        let id = self.id()?;
        let slot = slots.get(usize::from(u16::from_be_bytes(self.array()?)));
        let data_key = slot.ok_or(Damage::Content("unknown data key of a file"))?.data_key;
        let size = match self.byte()? {
            SIZE_OF_CIPHERTEXT => None,
            SIZE_FOLLOWS => Some(u64::from_be_bytes(self.array()?)),
            _ => return Err(Damage::Content("invalid size of a file")),
        };
        Ok((path, FileRecord { id, data_key, size }))
    }
}

fn decoded_path(name: &[u8]) -> Option<StorePath> {
    let name = std::str::from_utf8(name).ok()?;
    let text = [if name.starts_with('/') { RECORDS } else { ROOT }, name].concat();
    text.parse().ok().filter(|path: &StorePath| path.as_str() == text && !path.is_root())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> StorePath {
        text.parse().unwrap()
    }

    fn index() -> Index {
        let id = |byte| Id::from_bytes([byte; ID_BYTES]);
        let slot = |byte| Slot { data_key: id(byte), key: "key".parse().unwrap(), wrapped: vec![byte] };
        let file = |byte, size| FileRecord { id: id(byte), data_key: id(byte % 2), size };
        let files = [
            ("/memories/a", file(2, None)),
            ("/memories/b/c", file(3, Some(0))),
            ("/memories/b.c", file(4, None)),
            ("/records/test/a", file(5, None)),
            ("/records/test/b", file(6, Some(9))),
        ];
        Index {
            store: id(9),
            label: None,
            revision: 7,
            data_key: None,
            slots: vec![slot(0), slot(1)],
            files: BTreeMap::from_iter(files.map(|(name, file)| (path(name), file))).into(),
        }
    }

    #[test]
    fn an_encoded_index_is_decoded() {
        for label in [None, Some(""), Some("zoë")] {
            let index = Index { label: label.map(str::to_owned), ..index() };
            let encoded = index.encode().unwrap();
            assert_eq!(Index::decode(index.store, index.slots.clone(), &encoded), Ok(index));
        }
    }

    #[test]
    fn a_truncated_or_longer_index_is_refused() {
        let unlabeled = index();
        let index = Index { label: Some("name".to_owned()), ..index() };
        let encoded = index.encode().unwrap();
        for length in 0..encoded.len() {
            let decoded = Index::decode(index.store, index.slots.clone(), &encoded[..length]);
            // Without its label, the index is valid. Only the tag of the object detects that truncation.
            assert_eq!(decoded.ok(), (length == encoded.len() - 6).then(|| unlabeled.clone()), "{length}");
        }
        let longer = [encoded.as_slice(), &[0]].concat();
        Index::decode(index.store, index.slots.clone(), &longer).unwrap_err();
        Index::decode(index.store, Vec::new(), &encoded).unwrap_err();
    }

    #[test]
    fn entries_with_wrong_order_or_invalid_names_are_refused() {
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
        for (names, files, records) in
            [(["a", "b"], 2, 0), (["a", "/a"], 1, 1), (["/a", "/b"], 0, 2), (["/a/b", "/a-b"], 0, 2)]
        {
            let index = decode(1, names).unwrap();
            let is_record = |path: &&StorePath| path.is_record();
            let (of_records, of_files) = index.files.files().keys().partition::<Vec<_>, _>(is_record);
            assert_eq!((of_files.len(), of_records.len()), (files, records));
        }
        for names in
            [["b", "a"], ["a", "a"], ["a", "a/b"], ["", "a"], ["a", "b/"], ["a", "../b"], ["a/", "b"], ["a", "b//c"]]
        {
            decode(1, names).unwrap_err();
        }
        // Records: duplicate, out of order, under a record, before a file, and with invalid names.
        for names in [
            ["/a", "/a"],
            ["/b", "/a"],
            ["/a", "/a/b"],
            ["/a", "a"],
            ["a", "/"],
            ["a", "//a"],
            ["a", "/a/"],
            ["a", "/../a"],
            ["a", "/.a"],
            ["a", "/A"],
            ["a", "/a\0"],
        ] {
            decode(1, names).unwrap_err();
        }
        decode(0, ["a", "b"]).unwrap_err();
    }

    /// Programs without support for records can read the first index. They refuse the second, because no path begins
    /// with a slash.
    #[test]
    fn the_name_of_a_record_is_encoded_after_a_slash() {
        let encode = |mut index: Index, name: Option<&str>| {
            let record = name.map(|name| (path(name), *index.files.files().values().next().unwrap()));
            index.files = BTreeMap::from_iter(record).into();
            index.encode().unwrap()
        };
        assert_eq!(encode(index(), None), b"\0\0\0\0\0\0\0\x07\0\0\0\0");
        let entry = [b"\0\x03/ab".as_slice(), &[2; ID_BYTES], b"\0\0\0"].concat();
        assert_eq!(encode(index(), Some("/records/ab")), [b"\0\0\0\0\0\0\0\x07\0\0\0\x01", &entry[..]].concat());
    }
}
