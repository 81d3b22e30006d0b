//! Imports arbitrary bytes as an archive, with a size limit.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|archive: &[u8]| memory_tool::transfer::fuzzing::tar_import(archive.to_vec(), 1_000));
