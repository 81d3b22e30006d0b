//! How many requests a command takes in a store of 200 files of 4 KB, when nobody else writes.

use std::sync::Arc;

use crate::support::{TestBucket, call, path, record, write};
use memory_tool_bucket::BucketStore;
use memory_tool_core::{Batch, Precondition, Store};
use serde_json::{Value, json};

const FILES: usize = 200;

async fn filled() -> (Arc<TestBucket>, BucketStore) {
    let bucket = TestBucket::new();
    let store = bucket.open().await;
    for number in 0..FILES {
        write(&store, &format!("/memories/d/{number:03}.md"), &content(number)).await.unwrap();
    }
    bucket.take_requests();
    (bucket, store)
}

/// 4 KB that begin with a line that no other file has.
fn content(number: usize) -> String {
    format!("file {number}\n{}\n", "x".repeat(4_080))
}

fn short(input: &Value) -> String {
    input.to_string().chars().take(80).collect()
}

async fn requests(bucket: &TestBucket, store: &BucketStore, input: Value) -> usize {
    let reply = call(store, input).await;
    assert!(!reply.starts_with("Error"), "{reply}");
    bucket.take_requests().len()
}

#[tokio::test]
async fn a_command_takes_few_requests() {
    let (bucket, store) = filled().await;
    // What each takes in a process that has just started, and what it takes when another machine wrote in between.
    for others_write in [false, true] {
        for (most, input) in [
            (1, json!({"command": "view", "path": "/memories"})),
            (1, json!({"command": "view", "path": "/memories/d"})),
            (2, json!({"command": "view", "path": "/memories/d/000.md"})),
            (2, json!({"command": "view", "path": "/memories/d/199.md"})),
            (3, json!({"command": "create", "path": "/memories/new", "file_text": content(0)})),
            (3, json!({"command": "create", "path": "/memories/large", "file_text": "x".repeat(100_000)})),
            (3, json!({"command": "str_replace", "path": "/memories/d/001.md", "old_str": "file 1", "new_str": "one"})),
            (3, json!({"command": "insert", "path": "/memories/d/002.md", "insert_line": 0, "insert_text": "two"})),
            (3, json!({"command": "rename", "old_path": "/memories/new", "new_path": "/memories/old"})),
            (3, json!({"command": "delete", "path": "/memories/old"})),
            (3, json!({"command": "delete", "path": "/memories/large"})),
            (3, json!({"command": "rename", "old_path": "/memories/d", "new_path": "/memories/e"})),
            (3, json!({"command": "rename", "old_path": "/memories/e", "new_path": "/memories/d"})),
        ] {
            let store = if others_write { store.clone() } else { bucket.open().await };
            if others_write {
                write(&bucket.other().await, "/memories/other", "text").await.unwrap();
            }
            bucket.take_requests();
            let taken = requests(&bucket, &store, input.clone()).await;
            println!("{taken} {}", short(&input));
            assert!(taken <= most, "{taken} requests for {}", short(&input));
        }
        write(&store, "/memories/d/001.md", &content(1)).await.unwrap();
    }
    bucket.take_requests();
    let delete = json!({"command": "delete", "path": "/memories/d"});
    assert!(requests(&bucket, &store, delete).await <= 3);
}

/// A record lies in the index or in an object of its own, as a file does.
#[tokio::test]
async fn a_record_takes_as_few_requests_as_a_file() {
    let (bucket, store) = filled().await;
    let name = record("test/small");
    store.apply(Batch::new().write_record(name.clone(), "small")).await.unwrap();
    bucket.take_requests();
    let version = store.read_record(&name).await.unwrap().unwrap().version;
    assert_eq!(bucket.take_requests().len(), 1);
    let batch = Batch::new().require_record(name.clone(), Precondition::Version(version));
    store.apply(batch.write_record(name, "smaller").write(path("/memories/new"), "new")).await.unwrap();
    assert_eq!(bucket.take_requests(), ["PUT memory/index.json"]);
}

/// Creates put packs of what the index holds too much of, and edits seldom do.
#[tokio::test]
async fn no_write_of_many_takes_more() {
    let (bucket, store) = filled().await;
    for number in 0..FILES {
        let path = format!("/memories/n/{number:03}.md");
        let create = json!({"command": "create", "path": path, "file_text": content(number)});
        assert!(requests(&bucket, &store, create).await <= 3);
    }
    let mut more = 0;
    for number in 0..FILES {
        let edit = json!({"command": "insert", "path": format!("/memories/d/{number:03}.md"), "insert_line": 0, "insert_text": "a"});
        if requests(&bucket, &store, edit).await > 3 {
            more += 1;
        }
    }
    println!("{more} of {FILES} edits took more than three requests");
    assert!(more <= FILES / 50, "{more}");
}
