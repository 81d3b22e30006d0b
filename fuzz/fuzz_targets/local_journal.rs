//! Opens a local store with an arbitrary journal. Completing the journal must not change files outside the store.
#![no_main]

use std::fs;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use memory_tool_core::StoreExt;
use memory_tool_local::{LocalStore, fuzzing};

fuzz_target!(|journal: &[u8]| {
    if fuzzing::parse_journal(journal) {
        complete(journal);
    }
});

/// Opens a store with this journal, in which symbolic links lead out of its directories.
fn complete(journal: &[u8]) {
    let directory = tempfile::tempdir().unwrap();
    let (outside, private) = (directory.path().join("outside"), directory.path().join("base/.memory-tool"));
    for name in ["outside", "base/memories/d", "base/.memory-tool/staging", "base/.memory-tool/conflicts"] {
        fs::create_dir_all(directory.path().join(name)).unwrap();
    }
    fs::write(outside.join("secret"), "secret").unwrap();
    for file in ["base/memories/a", "base/memories/d/b", "base/.memory-tool/staging/0123456789abcdef"] {
        fs::write(directory.path().join(file), "theirs").unwrap();
    }
    for (target, link) in [
        ("../../../outside", private.join("staging/d")),
        ("../../../outside", private.join("conflicts/d")),
        ("../../outside", directory.path().join("base/memories/link")),
    ] {
        std::os::unix::fs::symlink(target, link).unwrap();
    }
    fs::write(private.join("journal"), journal).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let store = LocalStore::open(directory.path().join("base")).await.unwrap();
        let _ = store.list("/memories").await;
    });
    assert_eq!(names(&outside), ["secret"]);
    assert_eq!(fs::read(outside.join("secret")).unwrap(), b"secret");
    assert_eq!(names(directory.path()), ["base", "outside"]);
    assert_eq!(names(&directory.path().join("base")), [".memory-tool", "memories"]);
}

fn names(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}
