//! Whatever was encrypted as an index is read without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memory_tool_encrypted::fuzzing;

fuzz_target!(|input: &[u8]| fuzzing::decode_index(input));
