//! The names of what a run makes.

/// How the names of directories and prefixes begin, before a random part. It is short: a path in it can be that of a socket, which may
/// have about 100 bytes.
pub(crate) const PREFIX: &str = "memory-tool-test-";

/// The URL of something beneath that of a prefix.
pub(crate) fn beneath(url: &str, name: &str) -> String {
    format!("{}/{name}", url.trim_end_matches('/'))
}
