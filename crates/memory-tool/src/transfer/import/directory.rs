//! Reads an untrusted directory.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::rc::Rc;

use cap_fs_ext::{DirExt as _, FollowSymlinks, OpenOptionsFollowExt as _, OpenOptionsSyncExt as _};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, FileType, OpenOptions};
use cap_std::time::SystemTime;
use memory_tool_core::FileTimes;

use crate::transfer::import::filter::{Disconnected, ImportFilter, read_up_to};

/// Opens the directory.
pub(super) fn open(path: &Path) -> io::Result<Dir> {
    Dir::open_ambient_dir(path, ambient_authority())
}

/// Whether the directory belongs to a local store, which keeps files in `memories` and internal files in
/// `.memory-tool`.
pub(super) fn is_store(directory: &Dir) -> bool {
    directory.is_dir(".memory-tool") && directory.is_dir("memories")
}

/// Imports the files under a directory. The files of each directory are sorted by name. Links are not followed.
pub(super) fn import_files(root: Dir, filter: &mut ImportFilter) -> Result<(), Disconnected> {
    let mut pending = Vec::new();
    push_children(Rc::new(root), b"", &mut pending, filter);
    while let Some(Child { directory, file_name, name, file_type }) = pending.pop() {
        if file_type.is_dir() {
            if filter.accepts_directory(&name) {
                match directory.open_dir_nofollow(&file_name) {
                    Ok(opened) => push_children(Rc::new(opened), &name, &mut pending, filter),
                    Err(error) => filter.skip(&name, &error.to_string()),
                }
            }
        } else if file_type.is_symlink() {
            filter.skip(&name, "it is a link");
        } else if !file_type.is_file() {
            filter.skip(&name, "it is not a file");
        } else {
            import_file(&directory, &file_name, &name, filter)?;
        }
    }
    Ok(())
}

struct Child {
    directory: Rc<Dir>,
    file_name: OsString,
    /// The path from the root, separated by slashes.
    name: Vec<u8>,
    file_type: FileType,
}

/// Pushes the entries of a directory to `pending`, in reverse order, because the last one is popped first.
fn push_children(directory: Rc<Dir>, name: &[u8], pending: &mut Vec<Child>, filter: &mut ImportFilter) {
    let mut children = match children(&directory, name) {
        Ok(children) => children,
        Err(error) => return filter.skip(name, &error.to_string()),
    };
    children.sort_unstable_by(|one, other| other.name.cmp(&one.name));
    pending.append(&mut children);
}

fn children(directory: &Rc<Dir>, above: &[u8]) -> io::Result<Vec<Child>> {
    let mut children = Vec::new();
    for entry in directory.entries()? {
        let entry = entry?;
        let file_name = entry.file_name();
        let name = if above.is_empty() {
            file_name.as_encoded_bytes().to_vec()
        } else {
            [above, file_name.as_encoded_bytes()].join(&b'/')
        };
        children.push(Child { directory: Rc::clone(directory), file_name, name, file_type: entry.file_type()? });
    }
    Ok(children)
}

fn import_file(
    directory: &Dir,
    file_name: &OsString,
    name: &[u8],
    filter: &mut ImportFilter,
) -> Result<(), Disconnected> {
    let opened = open_regular(directory, file_name).and_then(|file| Ok((file.metadata()?, file)));
    let (found, file) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            filter.skip(name, &error.to_string());
            return Ok(());
        }
    };
    let times = FileTimes::new().modified(found.modified().ok().map(SystemTime::into_std));
    let Some(path) = filter.accept(name, found.len()) else { return Ok(()) };
    let skipped = match read_up_to(filter.skip_above, file) {
        Ok(Some(content)) => return (filter.take)(path, content, times),
        Ok(None) => filter.too_large(),
        Err(error) => error.to_string(),
    };
    filter.skip(name, &skipped);
    Ok(())
}

/// Opens a regular file. Another type of file that replaced it after the listing is an error.
fn open_regular(directory: &Dir, name: &OsString) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // Opening a pipe must not wait for a writer.
    options.read(true).follow(FollowSymlinks::No).nonblock(true);
    let file = directory.open_with(name, &options)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a file")) }
}
