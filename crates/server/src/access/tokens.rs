//! [`TokenFile`]: the tokens of callers, kept as hashes in a file.
//!
//! A token has 256 random bits, so guesses cannot find it from its SHA-256. A slow hash as for passwords would
//! only make requests slow.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use memory_tool::{Actor, lock, refuse_others};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use crate::access::mounts::{Groups, Mount};
use crate::access::{Caller, Grant, Right, as_text};
use crate::files::{Followed, replace};
use crate::options::ServerOptions;

/// The start of each token, for tools that find secrets in texts.
const PREFIX: &str = "memtok_";

const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;
const MINUTE: Duration = Duration::from_secs(60);
/// The seconds after which a use is written again.
const HOUR: u64 = 3_600;

/// A token in the file, without its secret.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TokenEntry {
    /// The id, to revoke the token.
    pub id: String,
    /// The SHA-256 of the token in hexadecimal.
    hash: Hash,
    /// The actor of changes with this token.
    #[serde(serialize_with = "as_text", deserialize_with = "actor")]
    pub actor: Actor,
    /// The memories that it reaches.
    pub memories: Vec<Grant>,
    /// The rights in these memories.
    pub rights: Vec<Right>,
    /// The shared memories in these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<Mount>,
    /// The end, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// Whether its first command creates a memory that it reaches.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub create: bool,
    /// The last use, in seconds since 1970, at most an hour late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_use: Option<u64>,
}

/// The SHA-256 of a token in hexadecimal.
#[derive(Clone, Deserialize, Eq, Hash, PartialEq, Serialize)]
struct Hash(String);

impl Hash {
    fn of(token: &str) -> Self {
        Self(sha256(token))
    }
}

/// Logs must not have it.
impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hash")
    }
}

fn actor<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Actor, D::Error> {
    Actor::from_trusted_name(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

impl TokenEntry {
    /// Creates a token. Returns its entry, and its secret, which the entry does not contain.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn generate(actor: Actor, memories: Vec<Grant>, rights: Vec<Right>) -> io::Result<(Self, String)> {
        let (mut id, mut secret) = ([0; 6], [0; 32]);
        getrandom::fill(&mut id).and_then(|()| getrandom::fill(&mut secret)).map_err(io::Error::other)?;
        let secret = format!("{PREFIX}{}", hexadecimal(&secret));
        let entry = Self::without_secret(hexadecimal(&id), actor, memories, rights);
        Ok((Self { hash: Hash::of(&secret), ..entry }, secret))
    }

    /// An entry that no secret finds.
    pub(crate) fn without_secret(id: String, actor: Actor, memories: Vec<Grant>, rights: Vec<Right>) -> Self {
        let (hash, mounts) = (Hash(String::new()), Vec::new());
        Self { id, hash, actor, memories, rights, mounts, expires: None, create: false, last_use: None }
    }
}

/// The SHA-256 of bytes in hexadecimal.
pub(crate) fn sha256(bytes: impl AsRef<[u8]>) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Content {
    tokens: Vec<TokenEntry>,
}

/// The file of the tokens. Its methods block.
#[derive(Clone, Debug)]
pub struct TokenFile(PathBuf);

impl TokenFile {
    /// The file at a path.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The entries. A missing file is empty.
    ///
    /// # Errors
    /// If the file cannot be read, is not valid, or other users can access it.
    pub fn entries(&self) -> io::Result<Vec<TokenEntry>> {
        let file = match File::open(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            opened => opened?,
        };
        refuse_others(&file.metadata()?)?;
        let mut content = Vec::new();
        file.take(MAX_FILE_BYTES).read_to_end(&mut content)?;
        Ok(serde_json::from_slice::<Content>(&content)?.tokens)
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// The errors of [`entries`](Self::entries), or the file cannot be written.
    pub fn add(&self, entry: TokenEntry) -> io::Result<()> {
        self.change(|tokens| tokens.push(entry))
    }

    /// Removes the entry with this id. Returns whether there was one.
    ///
    /// # Errors
    /// The errors of [`add`](Self::add).
    pub fn revoke(&self, id: &str) -> io::Result<bool> {
        let mut found = false;
        self.change(|tokens| {
            found = tokens.iter().any(|entry| entry.id == id);
            tokens.retain(|entry| entry.id != id);
        })?;
        Ok(found)
    }

    /// Writes last uses, by the ids of the tokens.
    fn add_uses(&self, uses: &HashMap<String, u64>) -> io::Result<()> {
        self.change(|tokens| {
            for entry in tokens {
                entry.last_use = entry.last_use.max(uses.get(&entry.id).copied());
            }
        })
    }

    fn change(&self, change: impl FnOnce(&mut Vec<TokenEntry>)) -> io::Result<()> {
        replace(&self.0, || {
            let mut tokens = self.entries()?;
            change(&mut tokens);
            let mut content = serde_json::to_vec_pretty(&Content { tokens })?;
            content.push(b'\n');
            Ok(content)
        })
    }
}

/// A token of a running server.
#[derive(Debug)]
struct Token {
    id: String,
    caller: Caller,
    expires: Option<u64>,
    last_use: Option<u64>,
}

impl Token {
    fn new(entry: TokenEntry, groups: &Groups) -> Self {
        let of_groups: Vec<_> = groups.mounts_of(entry.actor.name()).collect();
        let mounts = entry.mounts.into_iter().chain(of_groups);
        let caller = Caller::new(entry.actor, entry.memories, entry.rights).creating(entry.create).mounting(mounts);
        Self { id: entry.id, caller, expires: entry.expires, last_use: entry.last_use }
    }

    /// The time until its end. `None` if it has ended.
    fn remaining(&self) -> Option<Duration> {
        let left = self.expires.map_or(Duration::MAX, |end| Duration::from_secs(end).saturating_sub(since_1970()));
        (!left.is_zero()).then_some(left)
    }
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::MAX)
}

/// The tokens of the file, by their hashes and ids. There can be many.
#[derive(Debug, Default)]
pub(crate) struct Index {
    by_hash: HashMap<Hash, Arc<Token>>,
    by_id: HashMap<String, Arc<Token>>,
    groups: Groups,
}

impl Index {
    fn new(entries: Vec<TokenEntry>, groups: &Groups) -> Self {
        let mut index = Self { groups: groups.clone(), ..Self::default() };
        for entry in entries {
            let hash = entry.hash.clone();
            let token = Arc::new(Token::new(entry, groups));
            index.by_id.entry(token.id.clone()).or_insert_with(|| Arc::clone(&token));
            index.by_hash.entry(hash).or_insert(token);
        }
        index
    }

    fn valid(token: Option<&Arc<Token>>) -> Option<&Token> {
        token.map(Arc::as_ref).filter(|token| token.remaining().is_some())
    }
}

/// The groups in a configuration file.
fn groups_in(file: &Path) -> io::Result<Groups> {
    let wrong = |error: &dyn fmt::Display| io::Error::other(format!("{}: {error}", file.display()));
    let text = fs::read_to_string(file).map_err(|error| wrong(&error))?;
    Ok(ServerOptions::from_toml(&text).map_err(|error| wrong(&error))?.groups)
}

/// The tokens of the file, and the ones of the identity provider in use.
#[derive(Clone, Debug)]
struct Known {
    index: Arc<Followed<Index>>,
    foreign: Arc<Mutex<HashMap<String, TokenEntry>>>,
}

/// The tokens of an identity provider that are kept without a search for ended ones.
#[cfg(feature = "mcp")]
const FOREIGN: usize = 1_000;

impl Known {
    /// The token with this id, with its present rights.
    fn token(&self, id: &str) -> Option<Arc<Token>> {
        let index = self.index.get();
        let token = index.by_id.get(id).cloned().or_else(|| {
            let entry = lock(&self.foreign).get(id)?.clone();
            Some(Arc::new(Token::new(entry, &index.groups)))
        });
        token.filter(|token| token.remaining().is_some())
    }

    /// Keeps a token until its end. Only the provider can make their number large.
    #[cfg(feature = "mcp")]
    fn add(&self, entry: TokenEntry) {
        let mut foreign = lock(&self.foreign);
        let end = foreign.get(&entry.id).and_then(|known| known.expires).max(entry.expires);
        if foreign.len() >= FOREIGN {
            let now = since_1970().as_secs();
            foreign.retain(|_, entry| entry.expires.is_none_or(|end| end > now));
        }
        foreign.insert(entry.id.clone(), TokenEntry { expires: end, ..entry });
    }
}

/// A token whose rights may change during a request.
#[derive(Clone)]
pub(super) struct Present {
    known: Known,
    token: Arc<str>,
}

impl Present {
    /// The mounts that the token has now.
    pub(super) fn mounts(&self) -> Arc<[Mount]> {
        self.known.token(&self.token).map(|token| Arc::clone(&token.caller.mounts)).unwrap_or_default()
    }

    /// Completes when a token changes.
    pub(super) fn changes(&self) -> watch::Receiver<Arc<Index>> {
        self.known.index.value.subscribe()
    }
}

/// Without all other tokens.
impl fmt::Debug for Present {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Present").field(&self.token).finish()
    }
}

/// The tokens of a running server.
#[derive(Debug)]
pub(crate) struct Tokens {
    known: Known,
    file: TokenFile,
    /// The uses to write, by the ids of the tokens: their first uses, and later ones after an hour.
    uses: Mutex<HashMap<String, u64>>,
}

impl Tokens {
    /// Reads the tokens, and the groups from the configuration file if there is one.
    pub(crate) fn load(options: &ServerOptions) -> io::Result<Self> {
        let (file, groups) = (TokenFile::new(&options.tokens), options.groups.clone());
        let (tokens, configuration, known) = (file.clone(), options.configuration.clone(), Mutex::new(groups));
        let read = move |_: &[PathBuf]| {
            let entries = tokens.entries()?;
            let mut known = lock(&known);
            match configuration.as_deref().map(groups_in) {
                Some(Ok(groups)) => *known = groups,
                // A mistake there must not keep a revoked token.
                Some(Err(error)) => tracing::error!(%error, "cannot read the groups: no change of them has an effect"),
                None => {}
            }
            Ok(Index::new(entries, &known))
        };
        let files = [&options.tokens].into_iter().chain(&options.configuration).cloned().collect();
        let index = Arc::new(Followed::load(files, read)?);
        Ok(Self { known: Known { index, foreign: Arc::default() }, file, uses: Mutex::default() })
    }

    /// The tokens of the file, and the groups.
    pub(crate) fn index(&self) -> &Arc<Followed<Index>> {
        &self.known.index
    }

    /// Writes the last uses once a minute, if there are some.
    pub(crate) async fn note_uses(self: Arc<Self>) {
        loop {
            tokio::time::sleep(MINUTE).await;
            self.write_uses().await;
        }
    }

    /// Writes the last uses to the file, which other programs may not let the server change.
    pub(crate) async fn write_uses(&self) {
        let (file, uses) = (self.file.clone(), mem::take(&mut *lock(&self.uses)));
        if !uses.is_empty() {
            let written = spawn_blocking(move || file.add_uses(&uses)).await.map_err(io::Error::other).flatten();
            let _ = written.inspect_err(|error| tracing::info!(%error, "cannot write the last uses of tokens"));
        }
    }

    /// The caller whose token has this id.
    pub(crate) fn caller_with_id(&self, id: &str) -> Option<Caller> {
        self.known.token(id).map(|token| self.followed(&token))
    }

    /// Keeps a token of the identity provider until its end.
    #[cfg(feature = "mcp")]
    pub(crate) fn add_foreign(&self, entry: TokenEntry) {
        self.known.add(entry);
    }

    /// The caller of a token. It notices a loss of mounts.
    fn followed(&self, token: &Token) -> Caller {
        let present = Present { known: self.known.clone(), token: token.id.as_str().into() };
        token.caller.clone().following(present)
    }

    /// The caller with this token, and the id of the token.
    pub(crate) fn caller(&self, token: &str) -> Option<(Caller, String)> {
        let index = self.known.index.get();
        let token = Index::valid(index.by_hash.get(&Hash::of(token)))?;
        let now = since_1970().as_secs();
        if token.last_use.is_none_or(|last| now >= last.saturating_add(HOUR)) {
            lock(&self.uses).insert(token.id.clone(), now);
        }
        Some((self.followed(token), token.id.clone()))
    }

    /// Completes when the token with this id is revoked, ends, or does not allow something any more.
    pub(crate) async fn lost(&self, id: &str, allows: impl Fn(&Caller) -> bool) {
        let mut changes = self.known.index.value.subscribe();
        loop {
            changes.mark_unchanged();
            let token = self.known.token(id).filter(|token| allows(&token.caller));
            let Some(left) = token.and_then(|token| token.remaining()) else { return };
            let _ = tokio::time::timeout(left, changes.changed()).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use memory_tool::StoreUrl;

    use super::*;

    fn load(file: &Path) -> Tokens {
        Tokens::load(&ServerOptions::new(StoreUrl::InProcess, file)).unwrap()
    }

    /// A search would take minutes.
    #[test]
    fn a_token_is_found_among_many() {
        let entry = |number| {
            let actor = Actor::from_trusted_name("agent").unwrap();
            let (mut entry, secret) = TokenEntry::generate(actor, vec![Grant::All], vec![Right::Tool]).unwrap();
            entry.id = format!("{number}");
            (entry, secret)
        };
        let (entries, secrets): (Vec<_>, Vec<_>) = (0..10_000).map(entry).unzip();
        let tokens = load("none".as_ref());
        tokens.index().value.send_replace(Arc::new(Index::new(entries, &Groups::default())));
        for (number, secret) in secrets.iter().enumerate() {
            assert_eq!(tokens.caller(secret).unwrap().1, number.to_string());
            assert!(tokens.caller("memtok_wrong").is_none() && tokens.caller_with_id(&number.to_string()).is_some());
        }
    }
    #[cfg(feature = "mcp")]
    #[test]
    fn ended_tokens_of_a_provider_are_forgotten_and_others_kept() {
        let tokens = load("none".as_ref());
        let now = since_1970().as_secs();
        let add = |id: String, end: u64| {
            let actor = Actor::from_trusted_name("agent").unwrap();
            let entry = TokenEntry::without_secret(id, actor, vec![Grant::All], vec![Right::Tool]);
            tokens.add_foreign(TokenEntry { expires: Some(end), ..entry });
        };
        (0..FOREIGN).for_each(|number| add(format!("ended {number}"), now - 1));
        assert!(tokens.caller_with_id("ended 0").is_none());
        // All of them end in the same second.
        (0..=FOREIGN).for_each(|number| add(format!("valid {number}"), now + 60));
        assert!((0..=FOREIGN).all(|number| tokens.caller_with_id(&format!("valid {number}")).is_some()));
        assert_eq!(lock(&tokens.known.foreign).len(), FOREIGN + 1);
        // An older token of a person does not shorten a newer one.
        add("valid 0".to_owned(), now - 1);
        assert!(tokens.caller_with_id("valid 0").is_some());
    }

    #[tokio::test]
    async fn the_last_use_is_written_to_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens.json");
        let file = TokenFile::new(&path);
        let [used, unused, revoked] = [(); 3].map(|()| {
            let actor = Actor::from_trusted_name("agent").unwrap();
            let (entry, secret) = TokenEntry::generate(actor, vec![Grant::All], vec![Right::Tool]).unwrap();
            file.add(entry.clone()).unwrap();
            (entry.id, secret)
        });
        let tokens = load(&path);
        let before = since_1970().as_secs();
        assert!(tokens.caller(&used.1).is_some() && tokens.caller(&revoked.1).is_some());
        file.revoke(&revoked.0).unwrap();
        tokens.write_uses().await;
        let uses: Vec<_> = file.entries().unwrap().into_iter().map(|entry| (entry.id, entry.last_use)).collect();
        assert!(uses[0].1 >= Some(before) && uses[0].0 == used.0, "{uses:?}");
        assert_eq!(uses[1..], [(unused.0, None)]);
        // Not each use writes to the file.
        tokens.index().value.send_replace(Arc::new(Index::new(file.entries().unwrap(), &Groups::default())));
        assert!(tokens.caller(&used.1).is_some() && lock(&tokens.uses).is_empty());
    }
}
