//! Whatever lies where the index of a bucket should be is read without a panic, and names nothing outside the store.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memory_tool_object_store::fuzzing;

fuzz_target!(|stored: &[u8]| fuzzing::index(stored));
