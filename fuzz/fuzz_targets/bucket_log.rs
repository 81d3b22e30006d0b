//! Decodes arbitrary bytes as a commit and as a checkpoint of a bucket. Their keys must not leave the store.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memory_tool_bucket::fuzzing;

fuzz_target!(|stored: &[u8]| {
    fuzzing::commit(stored);
    fuzzing::checkpoint(stored);
});
