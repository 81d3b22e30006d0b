//! Assembles a response from arbitrary events.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "."] // resolves the paths in this module relative to this directory
mod chat {
    #![allow(dead_code, reason = "only the chat uses the other items")]

    #[path = "../../crates/cli/src/chat/response.rs"]
    pub(crate) mod response;
    #[path = "../../crates/cli/src/chat/usage.rs"]
    pub(crate) mod usage;
}

fuzz_target!(|sent: &[u8]| {
    let mut assembly = chat::response::Assembly::default();
    for line in sent.split(|&byte| byte == b'\n') {
        let Ok(event) = serde_json::from_slice(line) else { continue };
        if assembly.apply(&event).is_err() {
            return;
        }
        let _ = chat::response::Response::from_json(event);
    }
});
