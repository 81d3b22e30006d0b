//! `[P4]`: no symbolic link is ever followed, whoever put it there and whenever.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use support::{Memory, tree};

fn refusal(path: &str) -> String {
    format!("Error: Path {path} would escape /memories directory via a symbolic link")
}

#[tokio::test]
async fn p4_a_path_through_a_link_is_refused_by_every_command() {
    let memory = Memory::new().await;
    memory.create("/memories/existing", "a").await;
    memory.create("/memories/real/a.txt", "a").await;
    let secret = memory.outside().join("secret.txt");
    fs::write(&secret, "a").unwrap();
    symlink(&secret, memory.on_disk("/memories/file")).unwrap();
    symlink(memory.outside(), memory.on_disk("/memories/directory")).unwrap();
    symlink("nowhere", memory.on_disk("/memories/dangling")).unwrap();
    symlink("loop", memory.on_disk("/memories/loop")).unwrap();
    symlink("real", memory.on_disk("/memories/inside")).unwrap();
    symlink("real/a.txt", memory.on_disk("/memories/inside.txt")).unwrap();
    symlink(memory.outside(), memory.on_disk("/memories/real/deep")).unwrap();
    let before = (tree(&memory.base().join("memories")), tree(&memory.outside()));
    for path in [
        "/memories/file",
        "/memories/directory",
        "/memories/directory/secret.txt",
        "/memories/directory/new/file.txt",
        "/memories/dangling",
        "/memories/dangling/new.txt",
        "/memories/loop",
        "/memories/loop/x",
        "/memories/inside",
        "/memories/inside/a.txt",
        "/memories/inside.txt",
        "/memories/real/deep/secret.txt",
    ] {
        for reply in memory.every_command_on(path).await {
            assert_eq!(reply, refusal(path));
        }
    }
    assert_eq!((tree(&memory.base().join("memories")), tree(&memory.outside())), before);
}

#[tokio::test]
async fn p4_links_are_not_listed_and_deleting_their_directory_spares_the_target() {
    let memory = Memory::new().await;
    memory.create("/memories/d/a.txt", "a").await;
    fs::write(memory.outside().join("secret.txt"), "secret").unwrap();
    symlink(memory.outside(), memory.on_disk("/memories/d/link")).unwrap();
    symlink(memory.outside().join("secret.txt"), memory.on_disk("/memories/d/link.txt")).unwrap();
    assert!(memory.view("/memories").await.ends_with("\n1B\t/memories\n1B\t/memories/d/\n1B\t/memories/d/a.txt"));
    assert_eq!(memory.delete("/memories/d").await, "Successfully deleted /memories/d");
    assert_eq!(fs::read_to_string(memory.outside().join("secret.txt")).unwrap(), "secret");
    assert!(memory.view("/memories").await.ends_with("\n0B\t/memories"));
    assert!(!memory.on_disk("/memories/d").exists());
}

#[tokio::test]
async fn p4_a_directory_that_holds_only_a_link_does_not_exist() {
    let memory = Memory::new().await;
    fs::create_dir(memory.on_disk("/memories/d")).unwrap();
    symlink(memory.outside(), memory.on_disk("/memories/d/link")).unwrap();
    assert_eq!(memory.delete("/memories/d").await, "Error: The path /memories/d does not exist");
    // The link is somebody's, so nothing takes the place of the directory that holds it.
    assert_eq!(memory.create("/memories/d", "x").await, "Error: File /memories/d already exists");
    assert!(memory.on_disk("/memories/d/link").is_symlink());
}

/// Another program swaps a directory for a link to the outside and back, as fast as it can, while commands use it.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p4_a_directory_that_is_swapped_for_a_link_between_check_and_use_leads_nowhere() {
    use rustix::fs::{CWD, RenameFlags, renameat_with};

    let memory = Memory::new().await;
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
