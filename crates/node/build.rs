//! Passes the settings of the linker for a Node.js module.

fn main() {
    napi_build::setup();
}
