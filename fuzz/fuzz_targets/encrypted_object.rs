//! Parses arbitrary bytes as an encrypted object.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memory_tool_encrypted::fuzzing;

fuzz_target!(|stored: &[u8]| fuzzing::parse_object(stored));
