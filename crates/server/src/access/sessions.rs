//! [`Sessions`]: people who signed in with their tokens.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use memory_tool::lock;
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use super::tokens::{hexadecimal, sha256};
use crate::files::{beside, on_changes, replace};
use crate::http::error::ApiError;

/// The end of a session, also in use.
pub(crate) const LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);

/// The sessions that are kept, of all tokens and of one. If there are more, the oldest end.
const MAX_SESSIONS: usize = 10_000;
const MAX_SESSIONS_OF_TOKEN: usize = 100;

/// Sessions, by the hashes of their ids.
type Known = HashMap<String, Session>;

/// People who signed in. A file keeps them over a restart, and shares them with other servers that have the same
/// tokens.
#[derive(Debug)]
pub(crate) struct Sessions {
    /// All that this process knows.
    known: Mutex<Known>,
    file: PathBuf,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Session {
    /// The id of the token.
    token: String,
    /// The end, in milliseconds since 1970.
    end: u64,
    /// Whether the person signed out before. It stays until the end: a file from a backup may lack it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_signed_out: bool,
}

impl Sessions {
    /// The sessions in the file beside the tokens.
    pub(crate) fn load(tokens: &Path) -> Self {
        let file = beside(tokens, ".sessions");
        Self { known: Mutex::new(read(&file)), file }
    }

    /// Starts a session of the token with this id, and returns the id of the session.
    pub(crate) async fn start(self: &Arc<Self>, token: String) -> Result<String, ApiError> {
        let mut id = [0; 32];
        getrandom::fill(&mut id).map_err(ApiError::internal)?;
        let id = hexadecimal(&id);
        let session = Session { token, end: now() + LIFETIME.as_millis() as u64, is_signed_out: false };
        lock(&self.known).insert(sha256(&id), session);
        self.keep().await;
        Ok(id)
    }

    /// The id of the token of a session, and the secret of its forms.
    pub(crate) fn find(&self, id: &str) -> Option<(String, Arc<str>)> {
        let is_valid = |session: &&Session| !session.is_signed_out && session.end > now();
        let token = lock(&self.known).get(&sha256(id)).filter(is_valid)?.token.clone();
        Some((token, sha256(format!("form {id}")).into()))
    }

    pub(crate) async fn end(self: &Arc<Self>, id: &str) {
        lock(&self.known).get_mut(&sha256(id)).into_iter().for_each(|session| session.is_signed_out = true);
        self.keep().await;
    }

    async fn keep(self: &Arc<Self>) {
        let sessions = Arc::clone(self);
        report(spawn_blocking(move || sessions.synchronize()).await.map_err(io::Error::other).flatten());
    }

    /// Learns what other servers write to the file.
    pub(crate) async fn follow(self: Arc<Self>) {
        on_changes(vec![self.file.clone()], move || self.synchronize(), report).await;
    }

    /// Merges what this process and the file know, here and in the file. This blocks.
    fn synchronize(&self) -> io::Result<()> {
        if self.merge(read(&self.file)) {
            return Ok(());
        }
        replace(&self.file, || {
            self.merge(read(&self.file));
            Ok(serde_json::to_vec(&*lock(&self.known))?)
        })
    }

    /// Adds what a file knows. Returns whether the file is up to date.
    fn merge(&self, found: Known) -> bool {
        let mut known = lock(&self.known);
        for (key, session) in &found {
            let own = known.entry(key.clone()).or_insert_with(|| session.clone());
            own.is_signed_out |= session.is_signed_out;
        }
        bound(&mut known);
        *known == found
    }
}

fn report(written: io::Result<()>) {
    if let Err(error) = written {
        tracing::error!(%error, "cannot keep the sessions over a restart");
    }
}

/// Leaves the newest sessions, which are the same ones in each process that knows the same sessions.
fn bound(known: &mut Known) {
    let (now, mut of_tokens) = (now(), HashMap::<_, usize>::new());
    let mut newest: Vec<_> = std::mem::take(known).into_iter().filter(|(_, session)| session.end > now).collect();
    newest.sort_unstable_by(|(a, one), (b, other)| (other.end, b).cmp(&(one.end, a)));
    newest.retain(|(_, session)| {
        let of_token = of_tokens.entry(session.token.clone()).or_default();
        *of_token += 1;
        *of_token <= MAX_SESSIONS_OF_TOKEN
    });
    known.extend(newest.into_iter().take(MAX_SESSIONS));
}

/// The sessions in a file. A missing file is empty, and a damaged one is replaced.
fn read(file: &Path) -> Known {
    let content = match fs::read(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Known::new(),
        content => content,
    };
    content.and_then(|content| Ok(serde_json::from_slice(&content)?)).unwrap_or_else(|error| {
        tracing::error!(%error, "cannot read {}", file.display());
        Known::new()
    })
}

/// The time in milliseconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sessions_are_bounded_and_end() {
        let latest = now() + LIFETIME.as_millis() as u64;
        let session = |token: &str, age: u64| {
            let end = latest - age;
            Session { token: token.to_owned(), end, is_signed_out: false }
        };
        let mut known = Known::from([("first".to_owned(), session("a", 1_000_000))]);
        // One token cannot end the sessions of others, but many can.
        known.extend((0..MAX_SESSIONS).map(|number| (format!("b{number}"), session("b", number as u64))));
        bound(&mut known);
        assert_eq!(known.len(), MAX_SESSIONS_OF_TOKEN + 1);
        assert!(known.contains_key("first") && known.contains_key("b99") && !known.contains_key("b100"));
        known.extend((0..MAX_SESSIONS).map(|number| (format!("c{number}"), session(&format!("c{number}"), 0))));
        bound(&mut known);
        assert_eq!((known.len(), known.contains_key("first")), (MAX_SESSIONS, false));
        known.values_mut().for_each(|session| session.end = now());
        bound(&mut known);
        assert!(known.is_empty());
    }

    #[tokio::test]
    async fn the_file_has_no_secret_and_the_sessions_of_all_servers() {
        let directory = tempfile::tempdir().unwrap();
        let tokens = directory.path().join("tokens");
        let [one, other] = [0; 2].map(|_| Arc::new(Sessions::load(&tokens)));
        let (first, second) = (one.start("a".to_owned()).await.unwrap(), other.start("b".to_owned()).await.unwrap());
        let path = directory.path().join("tokens.sessions");
        let file = fs::read_to_string(&path).unwrap();
        let (_, form) = one.find(&first).unwrap();
        for secret in [&first, &second, &*form] {
            assert!(!file.contains(secret) && !format!("{one:?}").contains(secret), "{file}");
        }
        let later = Arc::new(Sessions::load(&tokens));
        assert_eq!([&first, &second].map(|id| later.find(id).unwrap().0), ["a", "b"]);
        assert_eq!(later.find(&first).unwrap().1, form);
        later.end(&first).await;
        // A file from before the sign-out brings nothing back, and loses nothing.
        fs::write(&path, &file).unwrap();
        let third = later.start("c".to_owned()).await.unwrap();
        for sessions in [&later, &Arc::new(Sessions::load(&tokens))] {
            let found = [&first, &second, &third].map(|id| sessions.find(id).is_some());
            assert_eq!(found, [false, true, true]);
        }
        fs::write(&path, "damaged").unwrap();
        let id = Arc::new(Sessions::load(&tokens)).start("a".to_owned()).await.unwrap();
        assert!(Sessions::load(&tokens).find(&id).is_some());
        // Without the file, sessions end with the process.
        drop(directory);
        let id = one.start("a".to_owned()).await.unwrap();
        assert!(one.find(&id).is_some() && Sessions::load(&tokens).find(&id).is_none());
    }
}
