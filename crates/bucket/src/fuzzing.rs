//! A door to the parser of indexes, for the fuzz target and a test of the same kind. No other build has it.

use memory_tool_core::{Batch, MemoryPath, StoreError};
use object_store::path::Path;

use crate::id::Id;
use crate::index::{Author, Index};
use crate::keys::Keys;

/// Reads arbitrary bytes as an index. What is understood can be written and changed, and names nothing outside the store.
pub fn index(stored: &[u8]) {
    let Ok(index) = Index::decode(stored) else { return };
    let keys = Keys::new(Path::from("prefix"));
    for file in index.files.values() {
        if let Some(Ok(key)) = file.object().map(|name| keys.content(name)) {
            assert!(key.prefix_matches(&keys.contents()), "{key}");
            assert!(key.as_ref().split('/').all(|part| !part.is_empty() && part != "." && part != ".."), "{key}");
        }
    }
    let records = index.files.records().keys().cloned();
    let everything = records.fold(Batch::new().remove(MemoryPath::root()), Batch::remove_record);
    let planned =
        index.files.plan(&everything, |_, _, _| -> Result<_, StoreError> { unreachable!("nothing is written") });
    let Ok(edits) = planned else { return };
    let next = index.after(Author { writer: Id::default(), write: Id::default() }, edits);
    let Ok(written) = next.encode() else { return };
    assert!(Index::decode(&written).is_ok(), "{}", String::from_utf8_lossy(&written));
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN: &str = include_str!("../tests/index-version-1.json");

    #[test]
    fn names_that_lead_elsewhere_break_nothing() {
        let key = "packs/0000000000000000000000000000000a";
        for name in [
            "..",
            "../index.json",
            "/etc/passwd",
            "a/../../b",
            "%2e%2e/x",
            ".",
            "",
            "a//b",
            "\\u0000",
            "../../x/index.json",
        ] {
            index(GOLDEN.replace(key, name).as_bytes());
        }
    }
}
