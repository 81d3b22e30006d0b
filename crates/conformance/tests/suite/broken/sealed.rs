//! Encrypted stores with one fault each. They read every file for each command, one command at a time, to keep the
//! code short.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use async_trait::async_trait;
use memory_tool_conformance::{BackendFixture, FixtureError, Suite};
use memory_tool_core::{
    Batch, Change, ErrorKind, FileEntry, InMemoryStore, Node, ReadOptions, Stat, Store, StoreError, StoreExt,
    StorePath, StoreState, StoredFile, Usage, Version,
};
use sha2::{Digest, Sha256};
use tokio::sync::{Mutex, MutexGuard};

const NONCE_BYTES: usize = 12;
const KEY: [u8; 32] = [1; 32];
const WRONG_KEY: [u8; 32] = [2; 32];

faults! {
    AnswersWithTheWrongKey, BindsCiphertextToNoMemory, BindsCiphertextToNoPlace, BreaksAllForOneDamagedFile,
    KeepsNamesInTheClear, KeepsRecordsInTheClear, PassesPlaintextThrough, RepeatsNonces, SkipsAuthentication,
    StoresPlaintext, VersionsNeverGoBack,
}

pub(crate) fn all() -> Vec<(String, Suite)> {
    let suite = |fault| Suite::for_store(Fixture { fault: Some(fault) });
    Fault::ALL.iter().map(|&fault| (fault.name(), suite(fault))).collect()
}

pub(crate) fn without_fault() -> Suite {
    Suite::for_store(Fixture { fault: None })
}

struct Fixture {
    fault: Option<Fault>,
}

#[async_trait]
impl BackendFixture for Fixture {
    type Guard = Arc<Shared>;

    async fn fresh(&self) -> Result<(Arc<dyn Store>, Self::Guard), FixtureError> {
        let shared = Arc::new(Shared::new());
        Ok((Arc::new(SealedStore::new(Arc::clone(&shared), KEY, self.fault)), shared))
    }

    async fn reopen(&self, shared: &Self::Guard) -> Result<Arc<dyn Store>, FixtureError> {
        Ok(Arc::new(SealedStore::new(Arc::clone(shared), KEY, self.fault)))
    }

    async fn underlying(&self, shared: &Self::Guard) -> Result<Arc<dyn Store>, FixtureError> {
        Ok(Arc::<InMemoryStore>::clone(&shared.files))
    }

    async fn another_with_same_key(&self, _: &Self::Guard) -> Result<(Arc<dyn Store>, Arc<dyn Store>), FixtureError> {
        let (store, shared) = self.fresh().await?;
        Ok((store, Arc::<InMemoryStore>::clone(&shared.files)))
    }

    async fn reopen_with_wrong_key(&self, shared: &Self::Guard) -> Result<Arc<dyn Store>, FixtureError> {
        let ignores_key = self.fault == Some(Fault::AnswersWithTheWrongKey);
        let key = if ignores_key { KEY } else { WRONG_KEY };
        Ok(Arc::new(SealedStore::new(Arc::clone(shared), key, self.fault)))
    }
}

/// The state that all sessions on one memory share.
struct Shared {
    id: u64,
    files: Arc<InMemoryStore>,
    /// The number of sealed files, for nonces. Its lock serializes the commands.
    count: Mutex<u64>,
}

impl Shared {
    fn new() -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        Self { id: NEXT_ID.fetch_add(1, Ordering::Relaxed), files: Arc::default(), count: Mutex::default() }
    }
}

/// Stores each file as one underlying file, named by a hash of its path and the key. It contains a nonce and the
/// encrypted path and content.
struct SealedStore {
    shared: Arc<Shared>,
    key: [u8; 32],
    cipher: Aes256Gcm,
    fault: Option<Fault>,
    /// The decrypted files of the last command, so that only changed files are decrypted again.
    opened: Mutex<OpenedFiles>,
}

/// All decrypted files, by the names of the underlying files.
type OpenedFiles = BTreeMap<StorePath, Opened>;

struct Opened {
    version: Version,
    shown_version: Version,
    /// The path and content, or `None` if this store did not seal them.
    message: Option<(StorePath, Vec<u8>)>,
}

impl std::fmt::Debug for SealedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SealedStore").finish_non_exhaustive()
    }
}

impl SealedStore {
    fn new(shared: Arc<Shared>, key: [u8; 32], fault: Option<Fault>) -> Self {
        Self { shared, key, cipher: Aes256Gcm::new(&key.into()), fault, opened: Mutex::default() }
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// The name of the underlying file, which is no record even if `path` is one.
    fn name(&self, path: &StorePath) -> StorePath {
        if self.has(Fault::KeepsNamesInTheClear) && !path.is_record() {
            return path.clone();
        }
        let hash = Sha256::new().chain_update(self.key).chain_update(path.as_str()).finalize();
        let name: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        StorePath::memories().join(&name).unwrap()
    }

    fn seal(&self, path: &StorePath, content: &[u8], count: u64) -> Vec<u8> {
        let message = [path.as_str().as_bytes(), b"\0", content].concat();
        if self.has(Fault::StoresPlaintext) || self.has(Fault::KeepsRecordsInTheClear) && path.is_record() {
            return [&[0; NONCE_BYTES], message.as_slice()].concat();
        }
        let mut nonce = [0; NONCE_BYTES];
        if !self.has(Fault::RepeatsNonces) {
            nonce[..8].copy_from_slice(&count.to_le_bytes());
        }
        if self.has(Fault::SkipsAuthentication) {
            return [&nonce, self.keystream(&message).as_slice()].concat();
        }
        let name = self.name(path);
        let bound_to = self.bound_to(&name);
        let payload = Payload { msg: &message, aad: bound_to.as_bytes() };
        let sealed = self.cipher.encrypt(&Nonce::from(nonce), payload).unwrap();
        [&nonce, sealed.as_slice()].concat()
    }

    /// The memory and name that a ciphertext is bound to.
    fn bound_to(&self, name: &StorePath) -> String {
        match self.fault {
            Some(Fault::BindsCiphertextToNoPlace) => format!("{}", self.shared.id),
            Some(Fault::BindsCiphertextToNoMemory) => name.to_string(),
            _ => format!("{} {name}", self.shared.id),
        }
    }

    /// A cipher without authentication.
    fn keystream(&self, message: &[u8]) -> Vec<u8> {
        message.iter().zip(self.key.iter().cycle()).map(|(byte, key)| byte ^ key ^ 0xa5).collect()
    }

    /// The path and content, or `None` if this store did not seal them.
    fn unseal(&self, name: &StorePath, sealed: &[u8]) -> Option<(StorePath, Vec<u8>)> {
        let passed = || self.has(Fault::PassesPlaintextThrough).then(|| (name.clone(), sealed.to_vec()));
        let (nonce, body) = sealed.split_at_checked(NONCE_BYTES)?;
        let bound_to = self.bound_to(name);
        let message = match self.fault {
            Some(Fault::StoresPlaintext) => Some(body.to_vec()),
            Some(Fault::KeepsRecordsInTheClear) if nonce == [0; NONCE_BYTES] => Some(body.to_vec()),
            Some(Fault::SkipsAuthentication) => Some(self.keystream(body)),
            _ => {
                let payload = Payload { msg: body, aad: bound_to.as_bytes() };
                self.cipher.decrypt(&Nonce::try_from(nonce).ok()?, payload).ok()
            }
        };
        let Some(message) = message else { return passed() };
        let end = message.iter().position(|&byte| byte == 0)?;
        let path = std::str::from_utf8(&message[..end]).ok()?.parse().ok()?;
        Some((path, message[end + 1..].to_vec()))
    }

    async fn opened(&self) -> Result<MutexGuard<'_, OpenedFiles>, StoreError> {
        let mut opened = self.opened.lock().await;
        let mut before = std::mem::take(&mut *opened);
        for entry in self.shared.files.list(StorePath::memories()).await? {
            let Node::File(file) = self.shared.files.read(&entry.path).await? else { continue };
            let file = match before.remove(&entry.path) {
                Some(known) if known.version == file.version => known,
                known => Opened {
                    message: self.unseal(&entry.path, &file.content),
                    shown_version: self.shown_version(known, &file),
                    version: file.version,
                },
            };
            if file.message.is_none() && self.has(Fault::BreaksAllForOneDamagedFile) {
                return Err(damaged());
            }
            opened.insert(entry.path, file);
        }
        Ok(opened)
    }

    fn shown_version(&self, known: Option<Opened>, file: &StoredFile) -> Version {
        if !self.has(Fault::VersionsNeverGoBack) {
            return file.version.clone();
        }
        let count: Vec<u8> = file.content.iter().take(8).rev().copied().collect();
        let newest = known.map(|known| known.shown_version.as_bytes().to_vec());
        Version::new(newest.map_or(count.clone(), |newest| newest.max(count)))
    }

    fn node(&self, opened: &OpenedFiles, path: &StorePath) -> Result<Node, StoreError> {
        let name =
            if self.has(Fault::PassesPlaintextThrough) && opened.contains_key(path) { path } else { &self.name(path) };
        match opened.get(name) {
            Some(Opened { shown_version, message: Some((sealed_as, content)), .. })
                if sealed_as == path || self.has(Fault::BindsCiphertextToNoPlace) =>
            {
                Ok(Node::File(StoredFile::new(content.clone(), shown_version.clone())))
            }
            Some(_) => Err(damaged()),
            None => {
                let entries: Vec<_> = entries(opened).filter(|entry| entry.path.is_under(path)).collect();
                Ok(if entries.is_empty() && !path.is_root() { Node::Absent } else { Node::Directory(entries.into()) })
            }
        }
    }
}

fn messages(opened: &OpenedFiles) -> impl Iterator<Item = &(StorePath, Vec<u8>)> {
    opened.values().filter_map(|opened| opened.message.as_ref())
}

fn damaged() -> StoreError {
    StoreError::failure(ErrorKind::Damaged, "decrypting a file", "it was not encrypted by this store")
}

fn entries(opened: &OpenedFiles) -> impl Iterator<Item = FileEntry> {
    messages(opened).map(|(path, content)| FileEntry::new(path.clone(), content.len() as u64))
}

/// A snapshot of the underlying store, for checks.
struct State<'a> {
    store: &'a SealedStore,
    opened: &'a OpenedFiles,
}

impl StoreState for State<'_> {
    fn stat(&self, path: &StorePath) -> Result<Stat, StoreError> {
        Ok(self.store.node(self.opened, path)?.stat())
    }

    fn usage(&self, path: &StorePath) -> Result<Usage, StoreError> {
        Ok(entries(self.opened).filter(|entry| is_within(&entry.path, path)).collect())
    }
}

#[async_trait]
impl Store for SealedStore {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        let _serialized = self.shared.count.lock().await;
        let opened = self.opened().await?;
        options.check(&State { store: self, opened: &opened })?;
        self.node(&opened, path)
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        let mut count = self.shared.count.lock().await;
        let opened = self.opened().await?;
        let state = State { store: self, opened: &opened };
        batch.check(&state)?;
        let mut sealed = Batch::new();
        let mut seal = |path: &StorePath, content: &[u8]| {
            *count += 1;
            self.seal(path, content, *count)
        };
        for change in batch.into_changes() {
            change.check(&state)?;
            match change {
                Change::Write { path, content, .. } => sealed = sealed.write(self.name(&path), seal(&path, &content)),
                Change::Remove { path: removed } => {
                    for (path, _) in messages(&opened).filter(|(path, _)| is_within(path, &removed)) {
                        sealed = sealed.remove(self.name(path));
                    }
                }
                Change::Rename { from, to } => {
                    for (path, content) in messages(&opened).filter(|(path, _)| is_within(path, &from)) {
                        let moved = path.replace_prefix(&from, &to)?;
                        sealed = sealed.remove(self.name(path)).write(self.name(&moved), seal(&moved, content));
                    }
                }
            }
        }
        self.shared.files.apply(sealed).await
    }
}

fn is_within(path: &StorePath, changed: &StorePath) -> bool {
    path == changed || path.is_under(changed)
}
