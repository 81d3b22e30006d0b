//! Names of the directories and prefixes of a run.

/// The start of each name, before a random part. It is short, because the path of a socket is limited to about 100
/// bytes.
pub(crate) const PREFIX: &str = "memory-tool-test-";

/// The URL of a name under a prefix.
pub(crate) fn url_under(url: &str, name: &str) -> String {
    format!("{}/{name}", url.trim_end_matches('/'))
}
