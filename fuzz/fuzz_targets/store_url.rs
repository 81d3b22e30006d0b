//! Parses arbitrary bytes as a store URL.
#![no_main]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use libfuzzer_sys::fuzz_target;
use memory_tool::StoreUrl;

fuzz_target!(|given: &[u8]| {
    if let Ok(url) = StoreUrl::parse(OsStr::from_bytes(given)) {
        let _ = url.to_string();
    }
});
