//! Scripts that call every method of the SDKs.

use std::process::Command;

use memory_tool_test_servers::{node_with_anthropic, python_with_anthropic};

use crate::server::{Server, places};

pub(crate) fn python_works() {
    let python = python_with_anthropic().unwrap();
    passes(|| {
        let mut client = Command::new(&python);
        client.args(["-B", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/downloads/client.py")]);
        client
    });
}

pub(crate) fn typescript_works() {
    let packages = node_with_anthropic().unwrap();
    passes(|| {
        let mut client = Command::new("node");
        client.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/downloads/client.mjs")).current_dir(&packages);
        client
    });
}

/// Runs the script against a server of each kind of store.
fn passes(script: impl Fn() -> Command) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (_directory, places) = places();
    for place in places {
        let server = runtime.block_on(Server::start(&place));
        let mut client = script();
        let output = client.arg(format!("http://{}", server.address)).arg(&server.token).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{place}: {printed}");
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "passed", "{place}: {printed}");
    }
}
