//! `Memory::open` on local backends, and the prefixes that bucket URLs accept.

use memory_tool::{Memory, StoreUrl};
use object_store::path::Path;
use serde_json::json;

#[tokio::test]
async fn open_creates_a_directory() {
    write_and_read("").await;
}

#[tokio::test]
async fn open_creates_a_database() {
    write_and_read("sqlite:").await;
}

async fn write_and_read(scheme: &str) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let url = format!("{scheme}{}", path.display());
    let create = json!({"command": "create", "path": "/memories/a", "file_text": "kept"});
    Memory::open(&url).await.unwrap().tool().call(create).await.unwrap();
    let kept = Memory::open(&url).await.unwrap().read_to_string("/memories/a").await.unwrap();
    assert!(kept == "kept" && path.exists(), "{kept}");
}

/// Unescaped line feeds and `..` are not tested, because URLs drop them silently.
#[test]
fn store_url_accepts_the_same_prefixes_as_object_store() {
    let names =
        ["", "a", "é", "...", "%2E", "%2e%2E", "a%20b", "%00", "%0A", "%7F", "%C2%85", "%ff", "%2F", "%25", "~", "\\"];
    for one in names {
        for other in names {
            for prefix in
                [one.to_owned(), format!("{one}/{other}"), format!("{one}/{other}/"), format!("a/{one}{other}")]
            {
                let parsed = StoreUrl::parse(format!("s3://bucket/{prefix}"));
                let path = Path::from_url_path(format!("/{prefix}"));
                assert_eq!(parsed.is_ok(), path.is_ok(), "{prefix:?}: {parsed:?}, but {path:?}");
            }
        }
    }
}
