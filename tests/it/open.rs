//! `Memory::open`, on each kind of place on this machine; and the prefixes of buckets, as their clients take them.

use memory_tool::{Memory, StoreUrl};
use object_store::path::Path;
use serde_json::json;

#[tokio::test]
async fn a_directory() {
    keep("").await;
}

#[tokio::test]
async fn a_database() {
    keep("sqlite:").await;
}

/// Keeps a file by the tool of one memory, and reads it by another.
async fn keep(scheme: &str) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let url = format!("{scheme}{}", path.display());
    let create = json!({"command": "create", "path": "/memories/a", "file_text": "kept"});
    Memory::open(&url).await.unwrap().tool().call(create).await.unwrap();
    let kept = Memory::open(&url).await.unwrap().read_to_string("/memories/a").await.unwrap();
    assert!(kept == "kept" && path.exists(), "{kept}");
}

/// Both agree on whether it is one. A line feed or `..` is not asked about as it stands: a URL drops it without a word.
#[test]
fn what_is_taken_for_a_prefix_is_one() {
    let names =
        ["", "a", "é", "...", "%2E", "%2e%2E", "a%20b", "%00", "%0A", "%7F", "%C2%85", "%ff", "%2F", "%25", "~", "\\"];
    for one in names {
        for other in names {
            for prefix in
                [one.to_owned(), format!("{one}/{other}"), format!("{one}/{other}/"), format!("a/{one}{other}")]
            {
                let parsed = StoreUrl::parse(format!("s3://bucket/{prefix}"));
                let taken = Path::from_url_path(format!("/{prefix}"));
                assert_eq!(parsed.is_ok(), taken.is_ok(), "{prefix:?}: {parsed:?}, but {taken:?}");
            }
        }
    }
}
