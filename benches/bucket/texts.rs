//! The contents of files.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// A text of words in lines that compression does not shrink to nothing. It ends in a line `A`, for [`edit`].
pub(crate) fn text(seed: usize, bytes: usize) -> String {
    const END: &str = "\nA\n";
    let (mut state, mut text) = (seed as u64, String::new());
    while text.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let separator = if state >> 61 == 0 { '\n' } else { ' ' };
        write!(text, "{:x}{separator}", state >> 44).unwrap();
    }
    text.truncate(bytes - END.len());
    text + END
}

/// Returns a `str_replace` of the last line: `A` by `B` in even rounds, `B` by `A` in odd ones.
pub(crate) fn edit(path: &str, round: usize) -> Value {
    let (old, new) = if round.is_multiple_of(2) { ("A\n", "B\n") } else { ("B\n", "A\n") };
    json!({"command": "str_replace", "path": path, "old_str": old, "new_str": new})
}

pub(crate) fn view(path: &str) -> Value {
    json!({"command": "view", "path": path})
}
