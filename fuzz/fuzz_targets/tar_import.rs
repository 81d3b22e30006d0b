//! Whatever is imported as an archive, compressed or not, is read without a panic, and within bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|archive: &[u8]| memory_tool::fuzzing::tar_import(archive.to_vec(), 1_000));
