//! The entry point of the fuzz target for archives.

use std::io::Cursor;

use crate::transfer::import::archive::{Archive, import_files};
use crate::transfer::import::filter::ImportFilter;

/// Imports arbitrary bytes as an archive, and asserts that no file exceeds the size limit.
pub fn tar_import(bytes: Vec<u8>, skip_above: u64) {
    let Ok(archive) = Archive::open(Cursor::new(bytes), "the archive") else { return };
    let take = move |_, content: Vec<u8>, _| {
        assert!(content.len() as u64 <= skip_above);
        Ok(())
    };
    let _ = import_files(archive, &mut ImportFilter::new(None, skip_above, Box::new(take)));
}
