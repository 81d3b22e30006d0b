//! [`AccessRule`]: the memory and the rights of tokens with a claim.

use memory_tool::Actor;
use memory_tool::store::MemoryName;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::access::mounts::Mount;
use crate::access::tokens::{TokenEntry, sha256};
use crate::access::{Grant, Right};
use crate::options::ConfigurationError;

/// The memory and the rights of tokens of an identity provider with a claim.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "RuleTable")]
pub struct AccessRule {
    /// A claim and its value. All tokens fit without it.
    claim: Option<(String, String)>,
    /// The name of the memory, in parts.
    memory: Vec<Part>,
    rights: Vec<Right>,
    mounts: Vec<Mount>,
    create: bool,
}

/// A part of a name: text, or the claim of this name.
#[derive(Clone, Debug)]
enum Part {
    Text(String),
    Claim(String),
}

/// The rule in a configuration file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleTable {
    claim: Option<String>,
    value: Option<String>,
    memory: String,
    rights: Vec<Right>,
    #[serde(default)]
    mounts: Vec<Mount>,
    #[serde(default)]
    create: bool,
}

impl TryFrom<RuleTable> for AccessRule {
    type Error = ConfigurationError;

    fn try_from(table: RuleTable) -> Result<Self, ConfigurationError> {
        let RuleTable { claim, value, memory, rights, mounts, create } = table;
        let claim = match (claim, value) {
            (Some(claim), Some(value)) => Some((claim, value)),
            (None, None) => None,
            _ => return Err(ConfigurationError::new("a rule needs both `claim` and `value`, or none of them")),
        };
        if rights.contains(&Right::Admin) {
            return Err(ConfigurationError::new("a rule cannot give the right `admin`"));
        }
        Ok(Self { claim, memory: parts(&memory)?, rights, mounts, create })
    }
}

/// The parts of a name such as `users/{sub}`.
fn parts(name: &str) -> Result<Vec<Part>, ConfigurationError> {
    let wrong = || ConfigurationError::new(format!("expected a name such as \"users/{{sub}}\", not {name:?}"));
    let mut parts = Vec::new();
    let mut rest = name;
    while let Some((text, after)) = rest.split_once('{') {
        let (claim, after) = after.split_once('}').filter(|(claim, _)| !claim.is_empty()).ok_or_else(wrong)?;
        parts.extend([Part::Text(text.to_owned()), Part::Claim(claim.to_owned())]);
        rest = after;
    }
    parts.push(Part::Text(rest.to_owned()));
    let has_brace = parts.iter().any(|part| matches!(part, Part::Text(text) if text.contains(['{', '}'])));
    if name.is_empty() || has_brace { Err(wrong()) } else { Ok(parts) }
}

impl AccessRule {
    /// Whether a claim has the value of the rule, or contains it.
    pub(super) fn fits(&self, claims: &Map<String, Value>) -> bool {
        let Some((claim, wanted)) = &self.claim else { return true };
        match claims.get(claim) {
            // Scopes are words (RFC 8693, section 4.2).
            Some(Value::String(value)) if claim == "scope" => value.split(' ').any(|scope| scope == wanted),
            Some(Value::String(value)) => value == wanted,
            Some(Value::Array(values)) => values.iter().any(|value| value.as_str() == Some(wanted)),
            Some(value @ (Value::Bool(_) | Value::Number(_))) => {
                serde_json::from_str::<Value>(wanted).is_ok_and(|wanted| wanted == *value)
            }
            _ => false,
        }
    }

    /// The memory of a token, or the claim that is missing. A slash in a claim could lead to the memory of another.
    pub(super) fn memory(&self, claims: &Map<String, Value>) -> Result<MemoryName, String> {
        let (mut name, mut last) = (String::new(), String::new());
        for part in &self.memory {
            match part {
                Part::Text(text) => name += text,
                Part::Claim(claim) => {
                    let value = claims.get(claim).and_then(Value::as_str);
                    let value = value.filter(|value| !value.is_empty() && !value.contains('/'));
                    name += value.ok_or_else(|| claim.clone())?;
                    last.clone_from(claim);
                }
            }
        }
        MemoryName::parse(&name).map_err(|_| last)
    }

    /// The entry of a token of a holder: the provider, the person, the client. All its tokens with the same access have
    /// the same id, so that a session stays over a new token.
    pub(super) fn entry(&self, holder: [&str; 3], actor: Actor, memory: MemoryName, end: u64) -> TokenEntry {
        let Self { rights, mounts, create, .. } = self;
        let id = sha256(format!("{:?}", (holder, actor.name(), &memory, rights, mounts, create)));
        let mut entry = TokenEntry::without_secret(id, actor, vec![Grant::Name(memory)], rights.clone());
        entry.mounts.clone_from(mounts);
        (entry.create, entry.expires) = (*create, Some(end));
        entry
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(text: &str) -> Result<AccessRule, String> {
        toml::from_str(text).map_err(|error: toml::de::Error| error.message().to_owned())
    }

    #[test]
    fn a_rule_fits_a_claim_and_names_a_memory_by_others() {
        let claims = json!({"sub": "u1", "scope": "openid memory", "groups": ["a", "support"], "n": 7, "bad": "x/y"});
        let claims = claims.as_object().unwrap();
        for (claim, value, fits) in [
            ("sub", "u1", true),
            ("sub", "u", false),
            ("scope", "memory", true),
            ("scope", "mem", false),
            ("groups", "support", true),
            ("groups", "sup", false),
            ("n", "7", true),
            ("none", "", false),
        ] {
            let text = format!("claim = '{claim}'\nvalue = '{value}'\nmemory = 'x'\nrights = ['tool']");
            assert_eq!(rule(&text).unwrap().fits(claims), fits, "{claim} {value}");
        }
        for (name, expected) in [
            ("users/{sub}", Ok("users/u1")),
            ("{sub}-{sub}", Ok("u1-u1")),
            ("team", Ok("team")),
            ("users/{bad}", Err("bad")),
            ("users/{n}", Err("n")),
            ("users/{none}", Err("none")),
        ] {
            let rule = rule(&format!("memory = '{name}'\nrights = ['tool']")).unwrap();
            let found = rule.memory(claims);
            assert_eq!(found.as_ref().map(MemoryName::as_str).map_err(String::as_str), expected, "{name}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, named) in [
            ("memory = 'x'\nrights = ['tool']\nclaim = 'a'", "both `claim` and `value`"),
            ("memory = 'x'\nrights = ['admin']", "cannot give the right `admin`"),
            ("memory = 'users/{'\nrights = ['tool']", "expected a name such as"),
            ("memory = '{}'\nrights = ['tool']", "expected a name such as"),
            ("memory = ''\nrights = ['tool']", "expected a name such as"),
            ("rights = ['tool']", "missing field `memory`"),
        ] {
            let message = rule(text).unwrap_err();
            assert!(message.contains(named), "{text}: {message}");
        }
    }
}
