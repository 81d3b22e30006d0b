//! [`Given`]: the value of an option, as a program in another language gives it.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use memory_tool::expand_home;

use crate::opening::Location;

/// The value of an option.
#[expect(clippy::exhaustive_enums, reason = "the bindings create it")]
pub enum Given {
    /// No value. It is the same as a missing option, except if it means "no limit".
    Nothing,
    /// A boolean.
    Flag(bool),
    /// A whole number.
    Whole(u64),
    /// Any other number.
    Number(f64),
    /// A duration.
    Duration(Duration),
    /// Text.
    Text(String),
    /// Text with this lone surrogate, which no Unicode text has. It can still be a path of the host.
    NotUnicode(u16, Option<PathBuf>),
    /// A path of the host.
    Path(PathBuf),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A list.
    List(Vec<Given>),
    /// Other memories, by their paths.
    Mounts(Vec<(String, Location)>),
    /// A value of another type, with the name of the type.
    Other(String),
}

/// How a language spells the name of an option, such as `max_files`.
pub type Spelling = fn(&str) -> String;

/// A wrong option.
#[derive(Debug, thiserror::Error)]
#[expect(clippy::exhaustive_enums, reason = "the bindings match it")]
pub enum OptionError {
    /// The option is unknown, or its value has the wrong type.
    #[error("{0}")]
    Type(String),
    /// The value is invalid.
    #[error("{0}")]
    Value(String),
}

impl OptionError {
    /// An error for text with a lone surrogate. A conversion to Unicode would replace it, and so give the same name to
    /// two tenants.
    pub fn not_unicode(name: &str, surrogate: u16) -> Self {
        let reason = "a lone surrogate, which is half of a character";
        Self::Value(format!("invalid {name}: the text contains U+{surrogate:04X}, {reason}"))
    }
}

/// A type that a value of an option can have.
pub(crate) trait FromGiven: Sized {
    const EXPECTED: &'static str;

    /// Converts the value, or returns it if it has another type.
    fn from_given(given: Given) -> Result<Self, Given>;
}

/// The options that are not read yet.
pub(crate) struct Fields {
    given: BTreeMap<String, Given>,
    spelling: Spelling,
}

impl Fields {
    pub(crate) fn new(given: Vec<(String, Given)>, spelling: Spelling) -> Self {
        Self { given: given.into_iter().collect(), spelling }
    }

    /// Takes an option. `Nothing` is the same as a missing one.
    pub(crate) fn get<T: FromGiven>(&mut self, name: &str) -> Result<Option<T>, OptionError> {
        Ok(self.get_nullable(name)?.flatten())
    }

    /// Takes an option. `Nothing` is `Some(None)`.
    pub(crate) fn get_nullable<T: FromGiven>(&mut self, name: &str) -> Result<Option<Option<T>>, OptionError> {
        // A program can confuse a key and its source, so errors of these options never contain the value.
        let is_secret = name.contains("key") || name.contains("passphrase");
        let name = self.spell(name);
        match self.given.remove(&name) {
            None => Ok(None),
            Some(Given::Nothing) => Ok(Some(None)),
            Some(given) => T::from_given(given).map(|value| Some(Some(value))).map_err(|given| {
                if let Some(surrogate) = given.lone_surrogate() {
                    return OptionError::not_unicode(&name, surrogate);
                }
                let given = if is_secret { given.type_name() } else { given.describe() };
                OptionError::Type(format!("invalid {name}: expected {}, got {given}", T::EXPECTED))
            }),
        }
    }

    pub(crate) fn flag(&mut self, name: &str) -> Result<bool, OptionError> {
        Ok(self.get(name)?.unwrap_or(false))
    }

    pub(crate) fn list<T: FromGiven>(&mut self, name: &str) -> Result<Vec<T>, OptionError>
    where
        Vec<T>: FromGiven,
    {
        Ok(self.get(name)?.unwrap_or_default())
    }

    /// Takes a path of the host, in which `~` is the home directory.
    pub(crate) fn host_path(&mut self, name: &str) -> Result<Option<PathBuf>, OptionError> {
        let path = self.get::<PathBuf>(name)?.map(expand_home).transpose();
        path.map_err(|error| self.invalid(name, error))
    }

    /// Takes a list of such paths.
    pub(crate) fn host_paths(&mut self, name: &str) -> Result<Vec<PathBuf>, OptionError> {
        let paths = self.list::<PathBuf>(name)?.into_iter().map(expand_home).collect::<Result<_, _>>();
        paths.map_err(|error| self.invalid(name, error))
    }

    /// Takes a duration, also in seconds.
    pub(crate) fn duration(&mut self, name: &str) -> Result<Option<Duration>, OptionError> {
        let given = match self.get::<Given>(name)? {
            None => return Ok(None),
            Some(Given::Duration(duration)) => return Ok(Some(duration)),
            Some(given) => given,
        };
        let duration = given.as_number().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        duration.map(Some).ok_or_else(|| self.invalid(name, "expected a number of seconds, not negative"))
    }

    pub(crate) fn invalid(&self, name: &str, reason: impl Display) -> OptionError {
        OptionError::Value(format!("invalid {}: {reason}", self.spell(name)))
    }

    /// An error if an option is set without the one that it needs.
    pub(crate) fn require(&self, is_met: bool, option: &str, needed: &str) -> Result<(), OptionError> {
        let error = || OptionError::Value(format!("{} requires {}", self.spell(option), self.spell(needed)));
        if is_met { Ok(()) } else { Err(error()) }
    }

    pub(crate) fn spell(&self, name: &str) -> String {
        (self.spelling)(name)
    }

    /// Fails if an option is left.
    pub(crate) fn finish(self) -> Result<(), OptionError> {
        match self.given.into_keys().next() {
            Some(name) => Err(OptionError::Type(format!("unknown option {name}"))),
            None => Ok(()),
        }
    }
}

impl Given {
    pub(crate) fn as_number(&self) -> Option<f64> {
        match self {
            Self::Whole(number) => Some(*number as f64),
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// The lone surrogate in the value or in one of its items.
    fn lone_surrogate(&self) -> Option<u16> {
        match self {
            Self::NotUnicode(surrogate, _) => Some(*surrogate),
            Self::List(items) => items.iter().find_map(Self::lone_surrogate),
            _ => None,
        }
    }

    /// The value, for errors.
    fn describe(&self) -> String {
        match self {
            Self::Flag(flag) => flag.to_string(),
            Self::Whole(number) => number.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Text(text) => format!("'{text}'"),
            Self::List(items) => list_with(items.first().map(Self::describe)),
            other => other.type_name(),
        }
    }

    /// The type of the value, for errors that must not contain it.
    fn type_name(&self) -> String {
        match self {
            Self::Nothing => "nothing".to_owned(),
            Self::Flag(_) => "a boolean".to_owned(),
            Self::Whole(_) | Self::Number(_) => "a number".to_owned(),
            Self::Duration(_) => "a duration".to_owned(),
            Self::Text(text) => format!("text of {} characters", text.chars().count()),
            Self::NotUnicode(..) => "text".to_owned(),
            Self::Path(_) => "a path".to_owned(),
            Self::Bytes(bytes) => format!("{} bytes", bytes.len()),
            Self::List(items) => list_with(items.first().map(Self::type_name)),
            Self::Mounts(_) => "memories".to_owned(),
            Self::Other(name) => name.clone(),
        }
    }
}

fn list_with(first: Option<String>) -> String {
    format!("a list with {}", first.as_deref().unwrap_or("no items"))
}

impl FromGiven for Given {
    const EXPECTED: &'static str = "a value";

    fn from_given(given: Given) -> Result<Self, Given> {
        Ok(given)
    }
}

impl FromGiven for bool {
    const EXPECTED: &'static str = "a boolean";

    fn from_given(given: Given) -> Result<Self, Given> {
        if let Given::Flag(flag) = given { Ok(flag) } else { Err(given) }
    }
}

impl FromGiven for u64 {
    const EXPECTED: &'static str = "a whole number, not negative";

    fn from_given(given: Given) -> Result<Self, Given> {
        if let Given::Whole(number) = given { Ok(number) } else { Err(given) }
    }
}

impl FromGiven for usize {
    const EXPECTED: &'static str = u64::EXPECTED;

    fn from_given(given: Given) -> Result<Self, Given> {
        u64::from_given(given).map(|number| Self::try_from(number).unwrap_or(Self::MAX))
    }
}

impl FromGiven for String {
    const EXPECTED: &'static str = "text";

    fn from_given(given: Given) -> Result<Self, Given> {
        if let Given::Text(text) = given { Ok(text) } else { Err(given) }
    }
}

impl FromGiven for PathBuf {
    const EXPECTED: &'static str = "a path";

    fn from_given(given: Given) -> Result<Self, Given> {
        match given {
            Given::Text(text) => Ok(text.into()),
            Given::Path(path) | Given::NotUnicode(_, Some(path)) => Ok(path),
            other => Err(other),
        }
    }
}

impl FromGiven for [u8; 32] {
    const EXPECTED: &'static str = "32 bytes";

    fn from_given(given: Given) -> Result<Self, Given> {
        match given {
            Given::Bytes(bytes) => bytes.try_into().map_err(Given::Bytes),
            other => Err(other),
        }
    }
}

impl FromGiven for Vec<(String, Location)> {
    const EXPECTED: &'static str = "memories by their paths";

    fn from_given(given: Given) -> Result<Self, Given> {
        if let Given::Mounts(mounts) = given { Ok(mounts) } else { Err(given) }
    }
}

macro_rules! list_from_given {
    ($item:ty, $expected:literal) => {
        impl FromGiven for Vec<$item> {
            const EXPECTED: &'static str = $expected;

            fn from_given(given: Given) -> Result<Self, Given> {
                let Given::List(items) = given else { return Err(given) };
                let items = items.into_iter().map(<$item>::from_given).collect::<Result<_, _>>();
                items.map_err(|item| Given::List(vec![item]))
            }
        }
    };
}

list_from_given!(String, "a list of texts");
list_from_given!(PathBuf, "a list of paths");
list_from_given!([u8; 32], "a list of 32 bytes each");
