//! Records: data of wrappers, each in a file in `.memory-tool/records`.
//!
//! A record changes like a file: its new contents are staged, flushed and renamed into place. Other programs do not
//! write records, so the replaced contents are not compared first.

use cap_std::fs::Dir;
use memory_tool_core::{Problem, RecordName, StoreError, StoredFile};

use crate::disk::{self, Content};
use crate::failure::failed;
use crate::layout::Layout;
use crate::name::{Name, RecordFileName};
use crate::tree::version_of;

const OPERATION: &str = "reading a record";

/// Reads a record; `None` if it does not exist.
pub(crate) fn read(layout: &Layout, record: &RecordName) -> Result<Option<StoredFile>, StoreError> {
    let directory = layout.existing_records().map_err(|error| failed(OPERATION, error))?;
    let file = RecordFileName::of(record);
    directory.map_or(Ok(None), |directory| read_file(&directory, file.as_name(), layout.max_file_bytes))
}

fn read_file(directory: &Dir, file: Name<'_>, limit: u64) -> Result<Option<StoredFile>, StoreError> {
    if !disk::has_private_file(directory, file, "records").map_err(|error| failed(OPERATION, error))? {
        return Ok(None);
    }
    match disk::read_file(directory, file, limit).map_err(|error| failed(OPERATION, error))? {
        Content::Whole(content) => {
            let version = version_of(&content);
            Ok(Some(StoredFile::new(content, version)))
        }
        Content::TooLarge { size } => Err(StoreError::record_too_large(size, limit)),
    }
}

/// The records that cannot be read.
pub(crate) fn problems(layout: &Layout) -> Result<Vec<Problem>, StoreError> {
    const OPERATION: &str = "listing the records";
    let directory = layout.existing_records().map_err(|error| failed(OPERATION, error))?;
    let Some(directory) = directory else { return Ok(Vec::new()) };
    let mut problems = Vec::new();
    for entry in directory.entries().map_err(|error| failed(OPERATION, error))? {
        let file = entry.map_err(|error| failed(OPERATION, error))?.file_name();
        let read = Name::parse(&file).map_err(|error| failed(OPERATION, error));
        if let Err(error) = read.and_then(|file| read_file(&directory, file, layout.max_file_bytes)) {
            problems.push(Problem::of(&error));
        }
    }
    Ok(problems)
}
