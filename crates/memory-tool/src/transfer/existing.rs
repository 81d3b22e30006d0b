//! [`Existing`]: the treatment of existing files.

/// The treatment of what exists in the target with other contents.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Existing {
    #[default]
    Keep,
    Replace,
}
