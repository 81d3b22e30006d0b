//! Versions: that of a file or record consists of the id of its ciphertext and of the version that the ciphertext has in the inner store.

use memory_tool_core::Version;

use crate::id::{ID_BYTES, Id};

/// The outer version of the ciphertext `id`, which is at `inner` in the inner store.
pub(crate) fn outer(id: Id, inner: &Version) -> Version {
    Version::new([id.as_bytes(), inner.as_bytes()].concat())
}

/// The version in the inner store that an outer version stands for, if it is one of the ciphertext `id`.
pub(crate) fn inner(id: Id, outer: &Version) -> Option<Version> {
    let (named, inner) = outer.as_bytes().split_at_checked(ID_BYTES)?;
    (named == id.as_bytes()).then(|| Version::new(inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_that_of_one_ciphertext() {
        let (id, other) = (Id::random().unwrap(), Id::random().unwrap());
        let version = Version::new(*b"inner");
        assert_eq!(inner(id, &outer(id, &version)), Some(version.clone()));
        assert_eq!(inner(other, &outer(id, &version)), None);
        assert_eq!(inner(id, &Version::new(*b"stale")), None);
    }
}
