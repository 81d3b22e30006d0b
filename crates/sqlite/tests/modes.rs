//! The database and the files beside it have mode 0600 and new directories 0700, whatever the umask. The umask belongs to the
//! process: one test, no others.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use memory_tool_sqlite::SqliteStore;
use rustix::fs::Mode;
use rustix::process::umask;
use support::{Place, write};

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

#[tokio::test]
async fn new_files_and_directories_are_private_whatever_the_umask() {
    for mask in [0o000, 0o022, 0o177, 0o777] {
        let place = Place::new();
        let before = umask(Mode::from_raw_mode(mask));
        let top = place.directory().join("made");
        let directory = top.join("on/the/way");
        let store = SqliteStore::open(directory.join("memory.sqlite")).await.unwrap();
        write(&store, "/memories/a", "text").await.unwrap();
        umask(before);
        let made = [top.clone(), top.join("on"), top.join("on/the"), directory.clone()];
        for directory in made {
            assert_eq!(mode(&directory), 0o700, "{} under umask {mask:03o}", directory.display());
        }
        let files: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(files.len(), 3, "{files:?}");
        for file in files {
            assert_eq!(mode(&file), 0o600, "{} under umask {mask:03o}", file.display());
        }
    }
}
