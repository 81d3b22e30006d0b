//! Parses arbitrary paths. An accepted path must be canonical and stay under `/memories`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memory_tool_core::MemoryPath;

fuzz_target!(|given: &str| {
    let Ok(path) = MemoryPath::parse(given) else { return };
    assert_eq!(MemoryPath::parse(path.as_str()).as_ref(), Ok(&path));
    assert!(path.as_str() == "/memories" || path.as_str().starts_with("/memories/"));
    for name in path.segments() {
        assert!(!name.is_empty() && name != "." && name != "..", "{name:?}");
        assert!(!name.contains(['/', '\\', '\0', '\n']), "{name:?}");
    }
});
