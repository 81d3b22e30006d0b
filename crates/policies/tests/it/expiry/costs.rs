//! The number of operations on the inner store.

use std::sync::Arc;

use memory_tool_core::{
    Batch, Change, Engine, InMemoryStore, MemoryTool, Precondition, ReadOnlyStore, ReadOptions, Search, Store, Version,
};
use memory_tool_policies::{ExpiringStore, LimitedStore, MountedStore, default_quota};
use serde_json::json;

use super::harness::{
    Fault, IDLE, Probe, RESOLUTION, SURELY_EXPIRED, TestClock, access_times, call, create, listed, stored_times, view,
};
use crate::support::{path, write};

fn probed() -> (TestClock, Arc<Probe>, Engine<ExpiringStore<Arc<Probe>>>) {
    let (clock, probe) = (TestClock::new(), Arc::new(Probe::default()));
    let tool = clock.open(Arc::clone(&probe));
    (clock, probe, tool)
}

#[tokio::test]
async fn within_the_resolution_there_are_no_extra_operations() {
    let (clock, probe, tool) = probed();
    create(&tool, "/memories/a").await;
    create(&tool, "/memories/d/b").await;
    call(&tool, view("/memories")).await;
    probe.take_counts();
    for _ in 0..RESOLUTION - 1 {
        clock.advance(1);
        call(&tool, view("/memories/a")).await;
        assert_eq!(probe.take_counts(), (1, 0), "a view reads the file");
        call(&tool, view("/memories")).await;
        assert_eq!(probe.take_counts(), (1, 0), "a view lists the directory");
        let edit = json!({"command": "insert", "path": "/memories/a", "insert_line": 0, "insert_text": "x"});
        call(&tool, edit).await;
        assert_eq!(probe.take_counts(), (1, 1), "an edit reads the file and writes it");
    }
}

/// A bucket answers a read that may be stale without a request, and a history needs the command.
#[tokio::test]
async fn a_read_keeps_its_options() {
    let (_, probe, tool) = probed();
    create(&tool, "/memories/a").await;
    let options = ReadOptions::new().for_command("insert").allow_stale();
    tool.store().read_opts(&path("/memories/a"), options.clone()).await.unwrap();
    assert_eq!(*probe.last_read.lock().unwrap(), options);
}

#[tokio::test]
async fn the_first_use_after_the_resolution_writes_once() {
    let (clock, probe, tool) = probed();
    create(&tool, "/memories/a").await;
    call(&tool, view("/memories")).await;
    clock.advance(RESOLUTION);
    probe.take_counts();
    call(&tool, view("/memories/a")).await;
    assert_eq!(probe.take_counts(), (2, 1), "the cached times are read again");
    call(&tool, view("/memories/a")).await;
    assert_eq!(probe.take_counts(), (1, 0));
    let other = clock.open(Arc::clone(&probe));
    call(&other, view("/memories/a")).await;
    assert_eq!(probe.take_counts(), (2, 0), "another session reads what this one wrote");
}

#[tokio::test]
async fn a_search_is_not_a_use_and_finds_no_expired_file() {
    let (clock, probe, tool) = probed();
    create(&tool, "/memories/a").await;
    let other = clock.builder(Arc::clone(&probe)).build().unwrap();
    let mounted = MountedStore::builder(InMemoryStore::new());
    let mounted = mounted.mount("/memories/m".parse().unwrap(), Arc::new(other)).build().unwrap();
    clock.advance(IDLE);
    probe.take_counts();
    for store in [tool.store() as &dyn Store, &mounted] {
        assert_eq!(Search::new("text").text_only().run(store).await.unwrap().matches, 1);
    }
    assert_eq!(probe.take_counts().1, 0, "nothing is written");
    clock.advance(RESOLUTION);
    assert_eq!(Search::new("text").run(tool.store()).await.unwrap().matches, 0);
}

#[tokio::test]
async fn each_file_causes_at_most_one_write_per_resolution() {
    let (clock, probe) = (TestClock::new(), Arc::new(Probe::default()));
    let tools = [clock.open(Arc::clone(&probe)), clock.open(Arc::clone(&probe))];
    let files: Vec<_> = (0..5).map(|number| format!("/memories/{number}")).collect();
    for file in &files {
        create(&tools[0], file).await;
    }
    probe.take_counts();
    for _ in 0..20 * RESOLUTION / 7 {
        clock.advance(7);
        for file in &files {
            for tool in &tools {
                assert!(call(tool, view(file)).await.ends_with(file));
            }
        }
    }
    let (_, writes) = probe.take_counts();
    assert!(writes <= 20 * files.len(), "{writes} writes");
    assert!(writes >= 18 * files.len(), "{writes} writes");
}

#[tokio::test]
async fn new_files_are_recorded_in_one_write() {
    let (clock, probe) = (TestClock::new(), Arc::new(Probe::default()));
    for number in 0..50 {
        write(&*probe.inner, &format!("/memories/{number}"), "text").await.unwrap();
    }
    let tool = clock.open(Arc::clone(&probe));
    call(&tool, view("/memories")).await;
    assert_eq!(probe.take_counts(), (2, 1));
    call(&tool, view("/memories")).await;
    call(&tool, view("/memories/7")).await;
    let (reads, writes) = probe.take_counts();
    assert_eq!((reads, writes), (3, 0));
}

#[tokio::test]
async fn a_batch_includes_access_times_and_keeps_its_preconditions() {
    let (_, probe, tool) = probed();
    create(&tool, "/memories/a").await;
    let batch = Batch::new()
        .require(path("/memories/x"), Precondition::Absent)
        .require(path("/memories/a"), Precondition::Version(Version::new(*b"none")))
        .write(path("/memories/b"), "text");
    tool.store().apply(batch.clone()).await.unwrap_err();
    let applied = probe.last_batch.lock().unwrap().clone();
    let (preconditions, of_times) = applied.preconditions().split_at(2);
    assert_eq!(preconditions, batch.preconditions());
    assert!(matches!(of_times, [(path, Precondition::Version(_))] if *path == access_times()), "{of_times:?}");
    let (changes, of_times) = applied.changes().split_at(1);
    assert_eq!(changes, batch.changes());
    assert!(matches!(of_times, [Change::Write { path, .. }] if *path == access_times()), "{of_times:?}");
}

#[tokio::test]
async fn a_read_succeeds_if_its_time_cannot_be_recorded() {
    let (clock, probe) = (TestClock::new(), Arc::new(Probe::default()));
    create(&clock.open(Arc::clone(&probe)), "/memories/a").await;
    clock.advance(RESOLUTION);
    let times = stored_times(&*probe).await;
    let reader = clock.open(ReadOnlyStore::new(Arc::clone(&probe)));
    for _ in 0..3 {
        assert!(call(&reader, view("/memories/a")).await.ends_with("text of /memories/a"));
        assert_eq!(listed(reader.store()).await, ["/memories/a"]);
    }
    assert_eq!(stored_times(&*probe).await, times);
    // A writable store records the next read.
    let writer = clock.open(Arc::clone(&probe));
    call(&writer, view("/memories/a")).await;
    assert_ne!(stored_times(&*probe).await, times);
    clock.advance(IDLE);
    assert_eq!(listed(reader.store()).await, ["/memories/a"]);
}

#[tokio::test]
async fn a_listing_with_expired_files_needs_one_more_read() {
    let (clock, probe, tool) = probed();
    create(&tool, "/memories/old").await;
    clock.advance(SURELY_EXPIRED);
    create(&tool, "/memories/new").await;
    call(&tool, view("/memories")).await;
    probe.take_counts();
    for _ in 0..3 {
        assert_eq!(listed(tool.store()).await, ["/memories/new"]);
        assert_eq!(probe.take_counts(), (2, 0));
    }
    assert_eq!(listed(&*probe).await, ["/memories/new", "/memories/old"]);
}

#[tokio::test]
async fn a_sweep_continues_after_an_unreadable_file() {
    let (clock, probe, tool) = probed();
    create(&tool, "/memories/a").await;
    create(&tool, "/memories/b").await;
    clock.advance(SURELY_EXPIRED);
    probe.arm(2, Fault::Fail); // the read of the first file, after the times and the listing
    let swept = tool.store().sweep_all().await.unwrap();
    assert_eq!((swept.removed, swept.kept), (vec![path("/memories/b")], 1));
    assert_eq!(listed(tool.store()).await, [""; 0]);
    assert_eq!(tool.store().sweep().await.unwrap().removed, [path("/memories/a")]);
}

#[tokio::test]
async fn a_damaged_expired_file_does_not_block_its_path() {
    let (clock, probe) = (TestClock::new(), Arc::new(Probe::default()));
    let store = clock.builder(Arc::clone(&probe)).build().unwrap();
    let limited = Engine::new(LimitedStore::new(store, default_quota().with_files(2)));
    let call = async |input| limited.call(input).await.map(|reply| reply.to_string());
    let create = |path: &str| json!({"command": "create", "path": path, "file_text": "x"});
    for path in ["/memories/d/damaged", "/memories/d/whole"] {
        call(create(path)).await.unwrap();
    }
    clock.advance(SURELY_EXPIRED);
    *probe.damaged.lock().unwrap() = Some(path("/memories/d/damaged"));
    call(create("/memories/other")).await.unwrap();
    assert_eq!(listed(&*probe).await, ["/memories/d/damaged", "/memories/other"], "the damaged file is kept");
    assert!(call(json!({"command": "delete", "path": "/memories/d/damaged"})).await.is_err(), "it is invisible");
    assert_eq!(listed(&*probe).await, ["/memories/other"]);
}

#[tokio::test]
async fn the_memory_can_be_cleared_with_a_damaged_expired_file() {
    let (clock, probe, tool) = probed();
    for damaged in ["/memories/d/a", "/memories/b"] {
        create(&tool, damaged).await;
        clock.advance(SURELY_EXPIRED);
        *probe.damaged.lock().unwrap() = Some(path(damaged));
        create(&tool, "/memories/d/new").await;
        tool.clear_all_memory().await.unwrap();
        assert_eq!(listed(&*probe).await, [""; 0]);
    }
}
