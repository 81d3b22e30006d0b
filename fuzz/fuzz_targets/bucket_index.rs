//! Decodes arbitrary bytes as a bucket index. Its keys must not leave the store.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memory_tool_bucket::fuzzing;

fuzz_target!(|stored: &[u8]| fuzzing::index(stored));
