//! [`Mount`] and [`Groups`]: memories that several tokens share.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use memory_tool::MemoryPath;
use memory_tool::store::{MemoryName, StorePath};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::options::{ConfigurationError, from_text};

/// A memory whose files a token sees in its own memories, as the text `POINT=MEMORY:read` or `POINT=MEMORY:write`.
///
/// The file `/memories/a.md` of the memory `team` at the point `/memories/team` is `/memories/team/a.md`. The rights of
/// the token also hold in the memory, apart from `admin`, and with `read` apart from all changes.
///
/// ```
/// use memory_tool_server::Mount;
///
/// let mount: Mount = "/memories/team=team:read".parse()?;
/// assert_eq!((mount.point.as_str(), mount.memory.as_str(), mount.can_change), ("/memories/team", "team", false));
/// # Ok::<(), memory_tool_server::ConfigurationError>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Mount {
    /// The directory at which the files of the memory are.
    pub point: MemoryPath,
    /// The memory.
    pub memory: MemoryName,
    /// Whether the token may change the memory.
    pub can_change: bool,
}

impl Mount {
    /// The path in the memory of a path in the tree of the token.
    pub(crate) fn inner(&self, path: &MemoryPath) -> Option<MemoryPath> {
        moved(path, &self.point, &MemoryPath::root())
    }

    /// The path in the tree of the token of a path in the memory.
    pub(crate) fn outer(&self, path: &MemoryPath) -> Option<MemoryPath> {
        moved(path, &MemoryPath::root(), &self.point)
    }
}

fn moved(path: &MemoryPath, from: &MemoryPath, to: &MemoryPath) -> Option<MemoryPath> {
    let [path, from, to] = [path, from, to].map(StorePath::from);
    let is_within = path == from || path.is_under(&from);
    MemoryPath::try_from(path.replace_prefix(&from, &to).ok().filter(|_| is_within)?).ok()
}

const READ: &str = "read";
const WRITE: &str = "write";

impl FromStr for Mount {
    type Err = ConfigurationError;

    fn from_str(given: &str) -> Result<Self, ConfigurationError> {
        let wrong =
            || ConfigurationError::new(format!("expected POINT=MEMORY:read or POINT=MEMORY:write, not {given:?}"));
        let (place, access) = given.rsplit_once(':').ok_or_else(wrong)?;
        let (point, memory) = place.split_once('=').ok_or_else(wrong)?;
        let can_change = match access {
            READ => false,
            WRITE => true,
            _ => return Err(wrong()),
        };
        let memory = memory.parse().map_err(ConfigurationError::new)?;
        Ok(Self { point: parse_point(point)?, memory, can_change })
    }
}

fn parse_point(given: &str) -> Result<MemoryPath, ConfigurationError> {
    match MemoryPath::parse(given).map_err(ConfigurationError::new)? {
        root if root.is_root() => Err(ConfigurationError::new("a memory cannot be mounted at /memories itself")),
        point => Ok(point),
    }
}

impl fmt::Display for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}:{}", self.point, self.memory, if self.can_change { WRITE } else { READ })
    }
}

impl Serialize for Mount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Mount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_text(deserializer)
    }
}

/// The shared memories of a server, with their members.
///
/// In TOML, `[groups.team]` shares the memory `team`. `read` and `write` have the actors of tokens. `at` is the mount
/// point, by default `/memories/team`.
///
/// ```
/// use memory_tool_server::ServerOptions;
///
/// let options = ServerOptions::from_toml(
///     r#"
///     store = "sqlite:memory.db"
///     tokens = "tokens.json"
///
///     [groups.team]
///     at = "/memories/team"
///     read = ["bob"]
///     write = ["alice"]
///     "#,
/// )?;
/// assert_eq!(options.groups.memories().next().unwrap().as_str(), "team");
/// # Ok::<(), memory_tool_server::ConfigurationError>(())
/// ```
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(try_from = "BTreeMap<String, GroupTable>")]
pub struct Groups(Vec<Group>);

#[derive(Clone, Debug)]
struct Group {
    point: MemoryPath,
    memory: MemoryName,
    read: Vec<String>,
    write: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupTable {
    at: Option<String>,
    #[serde(default)]
    read: Vec<String>,
    #[serde(default)]
    write: Vec<String>,
}

impl Groups {
    /// The memories that groups share.
    pub fn memories(&self) -> impl Iterator<Item = &MemoryName> {
        self.0.iter().map(|group| &group.memory)
    }

    /// The actors in groups, each with the memory that the group shares.
    pub fn members(&self) -> impl Iterator<Item = (&MemoryName, &str)> {
        self.0.iter().flat_map(|group| group.members().map(|member| (&group.memory, member.as_str())))
    }

    /// The mounts of the groups with this member.
    pub(super) fn mounts_of(&self, actor: &str) -> impl Iterator<Item = Mount> {
        self.0.iter().filter_map(move |group| group.mount_of(actor))
    }
}

impl Group {
    fn mount_of(&self, actor: &str) -> Option<Mount> {
        let has = |members: &[String]| members.iter().any(|member| member == actor);
        let can_change = has(&self.write);
        let is_member = can_change || has(&self.read);
        is_member.then(|| Mount { point: self.point.clone(), memory: self.memory.clone(), can_change })
    }

    fn members(&self) -> impl Iterator<Item = &String> {
        self.read.iter().chain(&self.write)
    }
}

impl TryFrom<BTreeMap<String, GroupTable>> for Groups {
    type Error = ConfigurationError;

    fn try_from(tables: BTreeMap<String, GroupTable>) -> Result<Self, ConfigurationError> {
        let mut groups: Vec<Group> = Vec::new();
        for (name, GroupTable { at, read, write }) in tables {
            let point = parse_point(&at.unwrap_or_else(|| format!("/memories/{name}")))?;
            let memory = name.parse().map_err(ConfigurationError::new)?;
            let group = Group { point, memory, read, write };
            for other in groups.iter().filter(|other| other.point == group.point) {
                if let Some(member) = other.members().find(|member| group.members().any(|own| own == *member)) {
                    let Group { point, memory, .. } = &group;
                    let message = format!("{member:?} has two groups at {point}: {} and {memory}", other.memory);
                    return Err(ConfigurationError::new(message));
                }
            }
            groups.push(group);
        }
        Ok(Self(groups))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_text() {
        for text in ["/memories/team=team:read", "/memories/a/b=user/x=y:z:write"] {
            let mount: Mount = text.parse().unwrap();
            assert_eq!(mount.to_string(), text);
        }
        for (wrong, named) in [
            ("/memories/team=team", "expected POINT=MEMORY:read"),
            ("/memories/team:read", "expected POINT=MEMORY:read"),
            ("/memories/team=team:admin", "expected POINT=MEMORY:read"),
            ("/memories=team:read", "at /memories itself"),
            ("/memories/=team:read", "at /memories itself"),
            ("team=team:read", "/memories"),
            ("/memories/team=:read", "must not be empty"),
        ] {
            let message = wrong.parse::<Mount>().unwrap_err().to_string();
            assert!(message.contains(named), "{wrong}: {message}");
        }
    }

    #[test]
    fn a_member_has_the_mounts_of_its_groups() {
        let groups = |text: &str| toml::from_str::<Groups>(text).map_err(|error| error.message().to_owned());
        let found =
            groups("[team]\nread = ['bob', 'ada']\nwrite = ['ada']\n[x]\nat = '/memories/y'\nread = ['ada']").unwrap();
        let of = |actor| found.mounts_of(actor).map(|mount| mount.to_string()).collect::<Vec<_>>();
        assert_eq!(of("ada"), ["/memories/team=team:write", "/memories/y=x:read"]);
        assert_eq!(of("bob"), ["/memories/team=team:read"]);
        assert!(of("bo").is_empty());
        for (wrong, named) in [
            (
                "[team]\nread = ['a']\n[x]\nat = '/memories/team'\nwrite = ['a']",
                "\"a\" has two groups at /memories/team",
            ),
            ("[team]\nat = '/memories'", "at /memories itself"),
            ("[team]\nadmin = ['a']", "unknown field"),
            ("['a/../b']", "escape"),
        ] {
            let message = groups(wrong).unwrap_err();
            assert!(message.contains(named), "{wrong}: {message}");
        }
        assert!(groups("[team]\nread = ['a']\n[x]\nat = '/memories/team'\nwrite = ['b']").is_ok());
    }
}
