//! Decodes arbitrary bytes as a decrypted index.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memory_tool_encrypted::fuzzing;

fuzz_target!(|input: &[u8]| fuzzing::decode_index(input));
