//! Versions of files and records: the id of the ciphertext, followed by the version of the ciphertext in the inner
//! store.

use memory_tool_core::Version;

use crate::id::{ID_BYTES, Id};

/// The outer version for the ciphertext `id`, whose version in the inner store is `inner`.
pub(crate) fn outer(id: Id, inner: &Version) -> Version {
    Version::new([id.as_bytes(), inner.as_bytes()].concat())
}

/// The version in the inner store, if the outer version belongs to the ciphertext `id`.
pub(crate) fn inner(id: Id, outer: &Version) -> Option<Version> {
    let (named, inner) = outer.as_bytes().split_at_checked(ID_BYTES)?;
    (named == id.as_bytes()).then(|| Version::new(inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outer_version_belongs_to_one_ciphertext() {
        let (id, other) = (Id::random().unwrap(), Id::random().unwrap());
        let version = Version::new(*b"inner");
        assert_eq!(inner(id, &outer(id, &version)), Some(version.clone()));
        assert_eq!(inner(other, &outer(id, &version)), None);
        assert_eq!(inner(id, &Version::new(*b"stale")), None);
    }
}
