//! [`Keys`]: what the objects of a store are called.

use memory_tool_core::MemoryPath;
use object_store::path::{Error, Path};

/// The longest key in bytes. S3, Google Cloud Storage and Azure allow 1,024 bytes or characters.
const MAX_KEY_BYTES: usize = 900;
/// The most names of a path that a key shows. Azure allows 254 in a key.
const MAX_KEY_NAMES: usize = 64;

/// The names of a store's objects, all beneath its prefix.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: Path,
}

impl Keys {
    pub(crate) fn new(prefix: Path) -> Self {
        Self { prefix }
    }

    pub(crate) fn index(&self) -> Path {
        self.prefix.clone().join("index.json")
    }

    /// What all contents lie beneath.
    pub(crate) fn contents(&self) -> Path {
        self.prefix.clone().join("contents")
    }

    /// What the objects lie beneath that tell how a bucket behaves.
    pub(crate) fn probes(&self) -> Path {
        self.prefix.clone().join("probe")
    }

    /// The object of a name that the index gives, which is relative to [`contents`](Self::contents).
    pub(crate) fn content(&self, name: &str) -> Result<Path, Error> {
        Path::parse(format!("{}/{name}", self.contents()))
    }

    /// The name of the object for the contents of `path`, unlike all others by `unique`. The path is there for people who look
    /// into the bucket, as far as there is room for it; a rename does not change it.
    pub(crate) fn name_for(&self, path: &MemoryPath, unique: &str) -> String {
        let room = MAX_KEY_BYTES.saturating_sub(self.contents().as_ref().len() + 1 + unique.len());
        let mut name = String::new();
        for segment in path.segments().take(MAX_KEY_NAMES) {
            if name.len() + segment.len() + 1 > room {
                break;
            }
            name.push_str(segment);
            name.push('/');
        }
        name + unique
    }

    /// The name of the object for the contents of a record.
    pub(crate) fn name_for_record(unique: &str) -> String {
        format!("records/{unique}")
    }

    /// The name of the object for the contents of many small files.
    pub(crate) fn name_for_pack(unique: &str) -> String {
        format!("packs/{unique}")
    }
}
