//! The sweep task.

use std::sync::Arc;
use std::time::Duration;

use memory_tool_policies::ExpiringStore;

use super::harness::{Fault, Probe, SURELY_EXPIRED, TestClock, listed};
use crate::support::write;

const SECOND: Duration = Duration::from_secs(1);

async fn with_an_expired_file() -> (Arc<Probe>, Arc<ExpiringStore<Arc<Probe>>>) {
    let (clock, probe) = (TestClock::new(), Arc::new(Probe::default()));
    let store = Arc::new(clock.builder(Arc::clone(&probe)).build().unwrap());
    write(&*store, "/memories/a", "text").await.unwrap();
    clock.advance(SURELY_EXPIRED);
    (probe, store)
}

async fn wait_until_swept(probe: &Probe) {
    while !listed(&*probe.inner).await.is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn the_task_sweeps_until_it_is_stopped() {
    let (probe, store) = with_an_expired_file().await;
    let task = store.sweep_every(SECOND);
    wait_until_swept(&probe).await;
    task.stop().await;
    assert_eq!(Arc::strong_count(&store), 1, "the task has released the store");
}

#[tokio::test]
async fn the_task_continues_after_a_failed_sweep() {
    let (probe, store) = with_an_expired_file().await;
    probe.arm(0, Fault::Fail);
    let _task = store.sweep_every(SECOND);
    wait_until_swept(&probe).await;
    assert!(!probe.disarm(), "the first sweep failed");
}

#[tokio::test]
async fn dropping_the_task_interrupts_a_sweep() {
    let (probe, store) = with_an_expired_file().await;
    probe.arm(2, Fault::StopBefore); // the task is never woken
    let task = store.sweep_every(SECOND);
    tokio::task::yield_now().await;
    drop(task);
    while Arc::strong_count(&store) > 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(listed(&*probe.inner).await, ["/memories/a"], "the file is unchanged");
    store.sweep_every(SECOND).stop().await;
    assert_eq!(store.sweep().await.unwrap().kept, 0);
}
