//! Decodes arbitrary access-time records.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memory_tool_policies::fuzzing;

fuzz_target!(|stored: &[u8]| fuzzing::access_times(stored));
