//! An encrypted store, as it should be or not. It decrypts everything for each command: it is small, not good.

use std::sync::Arc;

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use async_trait::async_trait;
use memory_tool_conformance::{FixtureError, StoreFixture, Suite};
use memory_tool_core::{
    Batch, FailureKind, FileEntry, InMemoryStore, MemoryPath, Node, Store, StoreError, StoredFile, Version,
};
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;

const NONCE_BYTES: usize = 12;

faults! {
    "answers-with-the-wrong-key" AnswersWithTheWrongKey,
    "binds-ciphertext-to-no-place" BindsNoPlace,
    "breaks-all-for-one-damaged-file" BreaksAllForOne,
    "keeps-names-in-the-clear" KeepsNames,
    "passes-plaintext-through" PassesPlaintext,
    "repeats-nonces" RepeatsNonces,
    "skips-authentication" SkipsAuthentication,
    "stores-plaintext" StoresPlaintext,
}

pub(crate) fn all() -> Vec<(&'static str, Suite)> {
    let suite = |fault| Suite::for_store(Fixture { fault: Some(fault) }).filter("sealed.");
    FAULTS.iter().copied().map(|(name, fault)| (name, suite(fault))).collect()
}

pub(crate) fn without_fault() -> Suite {
    Suite::for_store(Fixture { fault: None }).filter("sealed.")
}

struct Fixture {
    fault: Option<Fault>,
}

#[async_trait]
impl StoreFixture for Fixture {
    type Guard = Arc<SealedStore>;

    async fn fresh(&self) -> Result<(Arc<dyn Store>, Self::Guard), FixtureError> {
        let store = Arc::new(SealedStore::new(Arc::default(), [1; 32], self.fault));
        Ok((Arc::<SealedStore>::clone(&store), store))
    }

    async fn beneath(&self, store: &Self::Guard) -> Result<Arc<dyn Store>, FixtureError> {
        Ok(Arc::<InMemoryStore>::clone(&store.beneath))
    }

    async fn reopen_with_wrong_key(&self, store: &Self::Guard) -> Result<Arc<dyn Store>, FixtureError> {
        let ignores_key = self.fault == Some(Fault::AnswersWithTheWrongKey);
        let key = if ignores_key { [1; 32] } else { [2; 32] };
        Ok(Arc::new(SealedStore::new(Arc::clone(&store.beneath), key, self.fault)))
    }
}

/// One file beneath for each file, named by a hash of its path and the key. In it a nonce and the encrypted path and content.
struct SealedStore {
    beneath: Arc<InMemoryStore>,
    key: [u8; 32],
    cipher: Aes256Gcm,
    fault: Option<Fault>,
    writing: Mutex<u64>,
}

impl std::fmt::Debug for SealedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SealedStore").finish_non_exhaustive()
    }
}

impl SealedStore {
    fn new(beneath: Arc<InMemoryStore>, key: [u8; 32], fault: Option<Fault>) -> Self {
        Self { beneath, key, cipher: Aes256Gcm::new(&key.into()), fault, writing: Mutex::default() }
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn place(&self, path: &MemoryPath) -> MemoryPath {
        if self.has(Fault::KeepsNames) {
            return path.clone();
        }
        let hash = Sha256::new().chain_update(self.key).chain_update(path.as_str()).finalize();
        let name: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        MemoryPath::root().child(&name).unwrap()
    }

    fn seal(&self, path: &MemoryPath, content: &[u8], count: u64) -> Vec<u8> {
        let message = [path.as_str().as_bytes(), b"\0", content].concat();
        if self.has(Fault::StoresPlaintext) {
            return [&[0; NONCE_BYTES], message.as_slice()].concat();
        }
        let mut nonce = [0; NONCE_BYTES];
        if !self.has(Fault::RepeatsNonces) {
            nonce[..8].copy_from_slice(&count.to_le_bytes());
        }
        if self.has(Fault::SkipsAuthentication) {
            return [&nonce, self.keystream(&message).as_slice()].concat();
        }
        let place = self.place(path);
        let sealed = self.cipher.encrypt(&Nonce::from(nonce), self.payload(&place, &message)).unwrap();
        [&nonce, sealed.as_slice()].concat()
    }

    fn payload<'a>(&self, place: &'a MemoryPath, message: &'a [u8]) -> Payload<'a, 'a> {
        Payload { msg: message, aad: if self.has(Fault::BindsNoPlace) { b"" } else { place.as_str().as_bytes() } }
    }

    /// A cipher that anybody can turn the bits of.
    fn keystream(&self, message: &[u8]) -> Vec<u8> {
        message.iter().zip(self.key.iter().cycle()).map(|(byte, key)| byte ^ key ^ 0xa5).collect()
    }

    /// The path and the content, or `None` where it was not sealed here.
    fn unseal(&self, place: &MemoryPath, sealed: &[u8]) -> Option<(MemoryPath, Vec<u8>)> {
        let passed = || self.has(Fault::PassesPlaintext).then(|| (place.clone(), sealed.to_vec()));
        let (nonce, body) = sealed.split_at_checked(NONCE_BYTES)?;
        let message = match self.fault {
            Some(Fault::StoresPlaintext) => Some(body.to_vec()),
            Some(Fault::SkipsAuthentication) => Some(self.keystream(body)),
            _ => self.cipher.decrypt(&Nonce::try_from(nonce).ok()?, self.payload(place, body)).ok(),
        };
        let Some(message) = message else { return passed() };
        let end = message.iter().position(|&byte| byte == 0)?;
        let path = std::str::from_utf8(&message[..end]).ok()?.parse().ok()?;
        Some((path, message[end + 1..].to_vec()))
    }

    /// All that can be decrypted, in a store of its own.
    async fn opened(&self) -> Result<InMemoryStore, StoreError> {
        let opened = InMemoryStore::new();
        for entry in self.beneath.list(&MemoryPath::root()).await? {
            let Node::File(file) = self.beneath.read(&entry.path).await? else { continue };
            match self.unseal(&entry.path, &file.content) {
                Some((path, content)) => opened.apply(Batch::new().write(path, content)?).await?,
                None if self.has(Fault::BreaksAllForOne) => return Err(damaged()),
                None => {}
            }
        }
        Ok(opened)
    }

    async fn version(&self, path: &MemoryPath) -> Result<Version, StoreError> {
        match self.beneath.read(&self.place(path)).await? {
            Node::File(file) => Ok(file.version),
            _ => Err(damaged()),
        }
    }
}

fn damaged() -> StoreError {
    StoreError::failure(FailureKind::Damaged, "decrypting a file", "it was not encrypted here")
}

#[async_trait]
impl Store for SealedStore {
    async fn read(&self, path: &MemoryPath) -> Result<Node, StoreError> {
        let stored_at = match self.fault {
            Some(Fault::BindsNoPlace) => self.place(path),
            Some(Fault::PassesPlaintext) => path.clone(),
            _ => MemoryPath::root(),
        };
        if let Node::File(file) = self.beneath.read(&stored_at).await? {
            let unsealed = self.unseal(&stored_at, &file.content);
            return unsealed.map(|(_, content)| Node::File(StoredFile::new(content, file.version))).ok_or_else(damaged);
        }
        match self.opened().await?.read(path).await? {
            Node::File(file) => Ok(Node::File(StoredFile::new(file.content, self.version(path).await?))),
            Node::Absent if self.beneath.read(&self.place(path)).await? != Node::Absent => Err(damaged()),
            node => Ok(node),
        }
    }

    async fn list(&self, directory: &MemoryPath) -> Result<Vec<FileEntry>, StoreError> {
        self.opened().await?.list(directory).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        let mut count = self.writing.lock().await;
        for (path, expected) in batch.preconditions() {
            expected.check(path, &self.read(path).await?)?;
        }
        let before = self.opened().await?;
        let after = self.opened().await?;
        let (_, changes) = batch.into_parts();
        let mut plain = Batch::new();
        for change in changes {
            use memory_tool_core::Change::{Remove, Rename, Write};
            plain = match change {
                Write { path, content } => plain.write(path, content)?,
                Remove { path } => plain.remove(path)?,
                Rename { from, to } => plain.rename(from, to)?,
            };
        }
        let written: Vec<_> = plain.changes().to_vec();
        after.apply(plain).await?;
        let mut sealed = Batch::new();
        for entry in before.list(&MemoryPath::root()).await? {
            if after.read(&entry.path).await? == Node::Absent
                || matches!(after.read(&entry.path).await?, Node::Directory)
            {
                sealed = sealed.remove(self.place(&entry.path))?;
            }
        }
        for entry in after.list(&MemoryPath::root()).await? {
            let Node::File(file) = after.read(&entry.path).await? else { continue };
            let is_written = written
                .iter()
                .any(|change| matches!(change, memory_tool_core::Change::Write { path, .. } if *path == entry.path));
            let is_new = !matches!(before.read(&entry.path).await?, Node::File(old) if old.content == file.content);
            if is_written || is_new {
                *count += 1;
                sealed = sealed.write(self.place(&entry.path), self.seal(&entry.path, &file.content, *count))?;
            }
        }
        self.beneath.apply(sealed).await
    }
}
