#!/usr/bin/env bash
# object_store 0.14.2 (feature `aws`, with reqwest 0.13.5) reads the certificates of the system for each client that it
# builds, also if the endpoint has `http` and no request is made. Five stores of one program read them five times.
#
# Guess: certificates are read with the first connection over TLS, once for a process.
# Behavior: they are read by each `build()`.
# Fails if this changes. Needs cargo, strace, and certificates in /etc/ssl/certs.
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
mkdir src
cat >Cargo.toml <<'TOML'
[package]
name = "certificates"
version = "0.0.0"
edition = "2021"

[dependencies]
object_store = { version = "=0.14.2", features = ["aws"] }
TOML
cat >src/main.rs <<'RUST'
use object_store::aws::AmazonS3Builder;

fn main() {
    let number = std::env::args().nth(1).unwrap().parse().unwrap();
    let clients: Vec<_> = (0..number)
        .map(|_| {
            let builder = AmazonS3Builder::new().with_bucket_name("b").with_endpoint("http://127.0.0.1:1");
            builder.with_allow_http(true).with_access_key_id("a").with_secret_access_key("s").build().unwrap()
        })
        .collect();
    assert_eq!(clients.len(), number);
}
RUST
cargo update -q -p reqwest --precise 0.13.5
cargo build -q
for number in 0 1 5; do
    strace -f -e trace=openat -o trace target/debug/certificates "$number"
    echo "$number clients: certificates read $(grep -c '"/etc/ssl/certs/ca-certificates.crt"' trace || true) times"
done | tee found
diff found - <<'TEXT'
0 clients: certificates read 0 times
1 clients: certificates read 1 times
5 clients: certificates read 5 times
TEXT
