//! The cases for authors of a store, which leave out what only the engine above it does.

use crate::case::Case;

/// The groups that depend on the storage.
const GROUPS: [&str; 14] = [
    "beyond",
    "cancellation",
    "disk",
    "leftovers",
    "plain_files",
    "power_loss",
    "races",
    "records",
    "restarts",
    "scopes",
    "sealed",
    "sessions",
    "sizes",
    "store",
];

/// Cases of the commands and of names that a store can get wrong.
const COMMANDS: [&str; 32] = [
    "create.exact-text",
    "create.makes-parents",
    "create.nul",
    "create.refuses-to-overwrite",
    "create.refuses-to-replace-a-directory",
    "create.text",
    "create.under-a-file",
    "delete.directory",
    "delete.directory-with-hidden-files",
    "delete.neighbours-by-letter-case",
    "delete.neighbours-by-name-or-pattern",
    "delete.nothing-there",
    "insert.exact-lines",
    "paths.directory-moved-out-of",
    "paths.legal-code-points",
    "paths.legal-longest",
    "paths.legal-names",
    "paths.legal-names-of-a-backend-or-hidden",
    "paths.legal-names-that-windows-reserves",
    "paths.letter-case-matters",
    "paths.names-stay-apart",
    "paths.repeated",
    "paths.root-delete",
    "rename.commands-at-the-old-path",
    "rename.directory-with-hidden-files",
    "rename.file-over-a-file",
    "rename.neighbours-by-name-or-pattern",
    "rename.over-what-exists",
    "rename.to-another-letter-case",
    "str_replace.exact-text",
    "view.size-of-directory",
    "wire.no-host-details",
];

impl Case {
    /// Whether the case depends on the storage, see [`Suite::storage`](crate::Suite::storage).
    pub fn is_of_storage(&self) -> bool {
        let group = self.id.split('.').next().unwrap_or_default();
        GROUPS.contains(&group) || COMMANDS.contains(&self.id.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::Suite;

    #[test]
    fn each_name_is_of_a_case() {
        let cases = Suite::all_cases();
        let ids: BTreeSet<_> = cases.iter().map(|case| case.id.as_str()).collect();
        let groups: BTreeSet<_> = ids.iter().filter_map(|id| id.split('.').next()).collect();
        assert_eq!(COMMANDS.iter().filter(|id| !ids.contains(*id)).count(), 0);
        assert_eq!(GROUPS.iter().filter(|group| !groups.contains(*group)).count(), 0);
    }
}
