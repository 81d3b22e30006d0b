//! [`has_other_name`]: directories that a disk finds under several names.

use std::fs;
use std::io;
use std::path::Path;

/// Whether the directory exists, but is listed under another name: some disks ignore case, normal forms, or dots at the
/// end. Each memory has one name, because tokens are for names. This blocks.
pub(crate) fn has_other_name(directory: &Path) -> io::Result<bool> {
    let (Some(parent), Some(name)) = (directory.parent(), directory.file_name()) else { return Ok(false) };
    if !can_have_several(directory) {
        return Ok(false);
    }
    for entry in fs::read_dir(parent)? {
        if entry?.file_name() == name {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether the directory exists, and can have several names as far as is known without a listing. The numbers of files
/// do not help: some disks give each name its own.
fn can_have_several(directory: &Path) -> bool {
    let exists = |path: &Path| fs::symlink_metadata(path).is_ok();
    if cfg!(not(unix)) || !exists(directory) {
        return exists(directory);
    }
    let Some(name) = directory.file_name().and_then(|name| name.to_str()).filter(|name| name.is_ascii()) else {
        return true;
    };
    let others = [name.to_lowercase(), name.to_uppercase(), name.trim_end_matches(['.', ' ']).to_owned()];
    let mut others = others.iter().filter(|other| *other != name && !other.is_empty());
    others.any(|other| exists(&directory.with_file_name(other)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `.ci/world` runs a server on disks that ignore case.
    #[test]
    fn a_directory_is_found_under_its_own_name() {
        let place = tempfile::tempdir().unwrap();
        for name in ["alice", "Alice", "alice.", "é"] {
            assert!(!has_other_name(&place.path().join(name)).unwrap(), "{name} does not exist");
            fs::create_dir(place.path().join(name)).unwrap();
            assert!(!has_other_name(&place.path().join(name)).unwrap(), "{name}");
        }
    }
}
