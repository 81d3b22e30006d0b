//! Access to the parsers of objects for the fuzz target and a similar test. Other builds do not contain it.

use object_store::path::Path;

use crate::commit::{LogObject, Step, Stored};
use crate::content::FileRecord;
use crate::keys::Keys;
use crate::manifest::Manifest;
use crate::state::State;

/// Reads arbitrary bytes as a commit. A valid commit can be applied and written again, and names no object outside the
/// store.
pub fn commit(stored: &[u8]) {
    let Ok(LogObject::Commit(mut commit)) = LogObject::decode("log/1", stored) else { return };
    let Ok(written) = commit.encode() else { return };
    assert!(
        matches!(LogObject::decode("log/1", &written), Ok(LogObject::Commit(again)) if again == commit),
        "{}",
        String::from_utf8_lossy(&written)
    );
    for step in commit.batches.iter().flatten() {
        match step {
            Step::Write { file, .. } => check_place(file),
            Step::Checkpoint(manifest) => check_runs(manifest),
            _ => {}
        }
    }
    let mut state = State::default();
    (commit.number, commit.id, commit.after) = (1, commit.store, state.commit);
    let before = state.files.clone();
    match state.apply("log/1", commit, Stored::of(stored)) {
        Ok(()) => assert_eq!(state.number, 1),
        Err(_) => assert_eq!((state.number, state.files), (0, before)),
    }
}

/// Reads arbitrary bytes as a checkpoint. A valid one names no object outside the store.
pub fn checkpoint(stored: &[u8]) {
    if let Ok(manifest) = Manifest::decode("checkpoints/1", stored) {
        check_runs(&manifest);
        assert!(manifest.base() <= manifest.through);
    }
}

fn check_runs(manifest: &Manifest) {
    manifest.runs.iter().for_each(|run| check_name(&run.key));
}

fn check_place(file: &FileRecord) {
    file.slice().into_iter().for_each(|slice| check_name(&slice.key));
}

fn check_name(name: &str) {
    let keys = Keys::new(Path::from("prefix"));
    let Ok(key) = keys.content(name) else { return };
    assert!(key.prefix_matches(&keys.contents()), "{key}");
    assert!(key.as_ref().split('/').all(|part| !part.is_empty() && part != "." && part != ".."), "{key}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_break_nothing() {
        let golden = include_str!("../tests/commit-version-1.json");
        let key = "packs/0000000000000000000000000000000a";
        assert!(golden.contains(key));
        for name in ["..", "../log/1", "/etc/passwd", "a/../../b", "%2e%2e/x", ".", "", "a//b", "\\u0000"] {
            commit(golden.replace(key, name).as_bytes());
        }
    }
}
