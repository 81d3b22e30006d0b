//! [`expand_home`]: paths that start with `~`, and paths that only a shell can expand.
//!
//! A shell expands `~` and variables in some places only: not in `--store=~/memory`, in quotes, or in the configuration
//! of a client. Without this module, such a path would create a directory named `~`.

use std::env;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf, is_separator};

use memory_tool_core::escape_unprintable;

/// Replaces `~` at the start of a path with the home directory of the user, as a shell does.
///
/// Other forms that a shell expands are refused, because a directory with such a name is hardly ever meant: `~alice`
/// for another user, and variables such as `$HOME`, `${HOME}` and `%USERPROFILE%`. For a name that starts with `~`,
/// write `./~`.
///
/// ```
/// use std::path::Path;
///
/// use memory_tool::expand_home;
///
/// assert_eq!(expand_home("~/memory")?, std::env::home_dir().unwrap().join("memory"));
/// assert_eq!(expand_home("./~/memory")?, Path::new("./~/memory"));
/// assert!(expand_home("$HOME/memory").is_err());
/// # Ok::<(), memory_tool::HomeError>(())
/// ```
///
/// # Errors
/// [`HomeError`] if the path has another such form, or if the home directory is unknown.
pub fn expand_home(path: impl AsRef<OsStr>) -> Result<PathBuf, HomeError> {
    let path = path.as_ref();
    let text = path.to_string_lossy();
    refuse_variable(dollar_variable(&text).or_else(|| percent_variable(&text)))?;
    expand_tilde(Path::new(path))
}

/// Replaces `~`, and refuses other paths that start with it.
pub(crate) fn expand_tilde(path: &Path) -> Result<PathBuf, HomeError> {
    let mut components = path.components();
    let first = components.next();
    let given = || escape_unprintable(&path.to_string_lossy());
    match first {
        Some(Component::Normal(name)) if name == "~" => {
            let home = env::home_dir().filter(|home| home.is_absolute()).ok_or(HomeError::NoHome)?;
            Ok(home.join(components.as_path()))
        }
        Some(Component::Normal(name)) if name.as_encoded_bytes().starts_with(b"~") => {
            Err(HomeError::OtherUser { given: given() })
        }
        Some(Component::RootDir) if components.next().is_some_and(|name| name.as_os_str() == "~") => {
            Err(HomeError::BelowRoot { given: given() })
        }
        _ => Ok(path.to_owned()),
    }
}

/// Returns an error for a variable.
pub(crate) fn refuse_variable(variable: Option<&str>) -> Result<(), HomeError> {
    variable.map_or(Ok(()), |name| Err(HomeError::Variable { name: escape_unprintable(name) }))
}

/// Finds a variable of a shell or of PowerShell, up to the next separator. `$name` in lower case is an ordinary name.
pub(crate) fn dollar_variable(text: &str) -> Option<&str> {
    let starts_name = |first: char| first.is_ascii_uppercase() || matches!(first, '_' | '{' | '(');
    let is_variable = |name: &str| {
        name.starts_with(starts_name) || name.get(..4).is_some_and(|prefix| prefix.eq_ignore_ascii_case("env:"))
    };
    let (start, _) = text.match_indices('$').find(|(start, _)| is_variable(&text[start + 1..]))?;
    text[start..].split(is_separator).next()
}

/// Finds a variable of the command prompt of Windows, such as `%USERPROFILE%`.
pub(crate) fn percent_variable(text: &str) -> Option<&str> {
    let is_name = |name: &&str| {
        let continues = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
        name.len() > 2 && name.starts_with(|first: char| first.is_ascii_uppercase()) && name.bytes().all(continues)
    };
    let name = text.split('%').skip(1).find(is_name)?;
    let start = text.find(&format!("%{name}%"))?; // the last part has no `%` after it
    text.get(start..start + name.len() + 2)
}

/// A path that is not expanded.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum HomeError {
    /// The path starts with the home directory of another user.
    #[error(
        "`{given}` starts with the home directory of a user, which is not looked up. Write the absolute path, or \
         ./{given} for that name"
    )]
    OtherUser {
        /// The path, with escapes for unprintable characters.
        given: String,
    },
    /// The path names `~` in the root directory.
    #[error(
        "`{given}` starts at the root directory. Write `{}` for the home directory",
        given.trim_start_matches(is_separator)
    )]
    BelowRoot {
        /// The path, with escapes for unprintable characters.
        given: String,
    },
    /// The path contains a variable.
    #[error("`{name}` is a variable, which only a shell expands. Write the path itself, or ~/ for the home directory")]
    Variable {
        /// The variable, with escapes for unprintable characters.
        name: String,
    },
    /// The home directory of the user is unknown.
    #[error("the home directory for `~` is unknown. Set HOME, or write the absolute path")]
    NoHome,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tilde_at_the_start_is_the_home_directory() {
        let home = env::home_dir().unwrap();
        for (given, below) in [("~", ""), ("~/", ""), ("~/a", "a"), ("~//a b/../c", "a b/../c"), ("~/~/a~", "~/a~")] {
            assert_eq!(expand_home(given), Ok(home.join(below)), "{given}");
        }
        for given in ["a~", "a/~/b", "./~", "./~a", "../~/a", "/a/~", "", "a/~b"] {
            assert_eq!(expand_home(given), Ok(given.into()), "{given}");
        }
    }

    #[test]
    fn other_forms_of_a_shell_are_refused() {
        let variable = |name: &str| Err(HomeError::Variable { name: name.to_owned() });
        for (given, name) in [
            ("$HOME/a", "$HOME"),
            ("$HOME", "$HOME"),
            ("${HOME}/a", "${HOME}"),
            ("${HOME:-a}", "${HOME:-a}"),
            ("$(pwd)/a", "$(pwd)"),
            ("/home/$USER/a", "$USER"),
            ("/srv/memory-$USER", "$USER"),
            ("$env:USERPROFILE", "$env:USERPROFILE"),
            ("${userHome}/a", "${userHome}"),
            ("~/$XDG_DIR\n", "$XDG_DIR\\n"),
            ("%USERPROFILE%", "%USERPROFILE%"),
            ("a%20b/%TEMP%/c", "%TEMP%"),
        ] {
            assert_eq!(expand_home(given), variable(name), "{given}");
        }
        for given in ["$", "a$b", "$a/b", "$1", "a$/B", "100%", "%a%", "100%/B%", "%C3%A9", "50%_OFF"] {
            assert_eq!(expand_home(given), Ok(given.into()), "{given}");
        }
        for given in ["~a", "~a/b", "~\u{202e}"] {
            let escaped = escape_unprintable(given);
            assert_eq!(expand_home(given), Err(HomeError::OtherUser { given: escaped }), "{given}");
        }
        let error = expand_home("/~/a").unwrap_err();
        assert_eq!(error.to_string(), "`/~/a` starts at the root directory. Write `~/a` for the home directory");
    }
}
