//! The contents of files.

use std::fmt::Write as _;

/// A text of words in lines that compression does not shrink to nothing. It ends in a line `A`, for
/// [`edit`](crate::measure::edit).
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
