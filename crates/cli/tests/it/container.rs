//! The versions in the Dockerfile.

use std::fs;
use std::path::Path;

#[test]
fn the_container_is_built_with_the_toolchain_of_the_workspace() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let toolchain = fs::read_to_string(root.join("rust-toolchain.toml")).unwrap();
    let version = toolchain.lines().find_map(|line| line.strip_prefix("channel = \"")?.strip_suffix('"')).unwrap();
    let dockerfile = fs::read_to_string(root.join("Dockerfile")).unwrap();
    assert!(dockerfile.contains(&format!("FROM rust:{version}-slim-")), "{dockerfile}");
}
