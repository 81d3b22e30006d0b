//! The reports of `verify` and its repair for sound, damaged and mixed stores on disks and in SQLite.

use std::fs::File;
use std::path::Path;

use flate2::read::GzDecoder;
use memory_tool_test_fixtures::archives::{archives, expect_report, report};

fn report_of(archive: &Path) -> String {
    let folder = tempfile::tempdir().unwrap();
    tar::Archive::new(GzDecoder::new(File::open(archive).unwrap())).unpack(folder.path()).unwrap();
    let has = |name: &str| folder.path().join(name).exists();
    let mut store = vec!["--store", if has("memory.db") { "sqlite:memory.db" } else { "store" }];
    if has("memory.key") {
        store.extend(["--key-file", "memory.key"]);
    }
    report(folder.path(), &store)
}

#[test]
fn reports() {
    // A test of the bucket crate has the others.
    let archives = archives(|name| name.ends_with(".tar.gz") && !name.starts_with("bucket-"));
    assert!(archives.len() > 15, "{archives:?}");
    for archive in archives {
        expect_report(&archive, &report_of(&archive));
    }
}
