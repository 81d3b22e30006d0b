//! `[P4]`: symbolic links are never followed, even if they appear between check and use.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{TestMemory, tree};

fn refusal(path: &str) -> String {
    format!("Error: Path {path} would escape /memories directory via a symbolic link")
}

/// Another program repeatedly swaps a directory with a link to the outside while commands use it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p4_a_directory_swapped_with_a_link_leads_nowhere() {
    use rustix::fs::{CWD, RenameFlags, renameat_with};

    let memory = TestMemory::new().await;
    memory.create("/memories/d/a.txt", "inside").await;
    fs::write(memory.outside().join("a.txt"), "outside").unwrap();
    let (path, link) = (memory.on_disk("/memories/d"), memory.base().join("link"));
    symlink(memory.outside(), &link).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let swapper = std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || {
            let mut swaps = 0;
            while !stop.load(Ordering::Relaxed) {
                renameat_with(CWD, &path, CWD, &link, RenameFlags::EXCHANGE).unwrap();
                swaps += 1;
            }
            swaps
        }
    });
    let mut refused = 0;
    for round in 0..2_000 {
        let view = memory.view("/memories/d/a.txt").await;
        assert!(!view.contains("outside"), "{view}");
        let edited = memory.insert("/memories/d/a.txt", "line").await;
        refused += usize::from(edited == refusal("/memories/d/a.txt"));
        memory.create(&format!("/memories/d/{round}.txt"), "x").await;
        memory.delete(&format!("/memories/d/{round}.txt")).await;
        memory.rename("/memories/d/a.txt", "/memories/d/b.txt").await;
        memory.rename("/memories/d/b.txt", "/memories/d/a.txt").await;
        let untouched = [("a.txt".into(), Some(b"outside".to_vec()))];
        assert_eq!(tree(&memory.outside()), untouched, "in round {round}");
    }
    stop.store(true, Ordering::Relaxed);
    let swaps: usize = swapper.join().unwrap();
    assert!(swaps > 100 && refused > 0, "the attack did not take place: {swaps} swaps, {refused} refusals");
}
