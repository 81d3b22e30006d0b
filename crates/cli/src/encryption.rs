//! [`Encryption`]: whether a store is encrypted, and with which keys.

use std::ffi::{OsStr, OsString};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use memory_tool_core::{Batch, Expected, FailureKind, FileEntry, Found, MemoryPath, Node, OpenMode, Store, StoreError};
use memory_tool_encrypted::{EncryptedStore, KeyRing, KeySourceError, Padding, Passphrase, RawKey};
use memory_tool_url::StoreUrl;

use crate::failure::Failure;

/// What the command line says of the encryption of a store. Without a key, the store is not encrypted.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Encryption")]
pub(crate) struct Encryption {
    #[command(flatten)]
    key: KeyArgument,

    /// Open what was encrypted with the key in FILE, and encrypt nothing new with it; may be repeated
    #[arg(long, value_name = "FILE", requires = "key")]
    old_key_file: Vec<PathBuf>,

    /// The same with the key in the environment variable NAME
    #[arg(long, value_name = "NAME", requires = "key")]
    old_key_env: Vec<String>,

    /// The same with the passphrase in FILE
    #[arg(long, value_name = "FILE", requires = "key")]
    old_passphrase_file: Vec<PathBuf>,

    /// Fill files up before they are encrypted, so that their sizes tell less: to sizes of Padmé, or to multiples of N bytes
    #[arg(long, value_name = "padme|N", requires = "key")]
    padding: Option<PaddingArgument>,

    /// What the memory is called. Another one is refused, even if it is encrypted with the same key
    #[arg(long, value_name = "NAME", requires = "key", value_parser = NonEmptyStringValueParser::new())]
    memory_name: Option<String>,

    /// Accept a memory that is called NAME so far; `rekey` gives it the name of --memory-name. May be repeated
    #[arg(long, value_name = "NAME", requires = "key", value_parser = NonEmptyStringValueParser::new())]
    old_memory_name: Vec<String>,

    /// Accept a memory that has no name so far; `rekey` gives it the name of --memory-name
    #[arg(long, requires = "memory_name")]
    memory_was_unnamed: bool,
}

/// The key that new contents are encrypted with.
#[derive(Args, Clone, Debug, Default)]
#[group(id = "key", multiple = false, requires = "store")]
struct KeyArgument {
    /// Encrypt with the key in FILE, which nobody else may be able to read: 64 hexadecimal digits, base64, or 32 bytes
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,

    /// Encrypt with the key in the environment variable NAME: 64 hexadecimal digits, or base64
    #[arg(long, value_name = "NAME")]
    key_env: Option<String>,

    /// Encrypt with the passphrase in FILE, which nobody else may be able to read
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
}

/// What the command line says of the encryption of the store that a copy is made of.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Encryption of SRC")]
pub(crate) struct SourceEncryption {
    /// SRC is encrypted with the key in FILE
    #[arg(long, value_name = "FILE", group = "source_key")]
    source_key_file: Option<PathBuf>,

    /// SRC is encrypted with the key in the environment variable NAME
    #[arg(long, value_name = "NAME", group = "source_key")]
    source_key_env: Option<String>,

    /// SRC is encrypted with the passphrase in FILE
    #[arg(long, value_name = "FILE", group = "source_key")]
    source_passphrase_file: Option<PathBuf>,

    /// What the memory in SRC is called
    #[arg(long, value_name = "NAME", requires = "source_key", value_parser = NonEmptyStringValueParser::new())]
    source_memory_name: Option<String>,
}

impl SourceEncryption {
    /// The same, as that of any store.
    pub(crate) fn to_encryption(&self) -> Encryption {
        let Self { source_key_file, source_key_env, source_passphrase_file, source_memory_name } = self.clone();
        let key =
            KeyArgument { key_file: source_key_file, key_env: source_key_env, passphrase_file: source_passphrase_file };
        Encryption { key, memory_name: source_memory_name, ..Encryption::default() }
    }
}

/// How files are filled up.
#[derive(Clone, Copy, Debug)]
struct PaddingArgument(Padding);

impl FromStr for PaddingArgument {
    type Err = &'static str;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        match given {
            "padme" => Ok(Self(Padding::Padme)),
            number => {
                let size: NonZeroUsize = number.parse().map_err(|_| "`padme`, or a number of bytes from 1 up")?;
                Ok(Self(Padding::Multiple(size)))
            }
        }
    }
}

impl Encryption {
    /// The store at a URL, decrypted where there are keys.
    pub(crate) async fn over(
        &self,
        url: &StoreUrl,
        store: Box<dyn Store>,
        keys: Option<KeyRing>,
        mode: OpenMode,
    ) -> Result<Box<dyn Store>, Failure> {
        match keys {
            None => refuse_encrypted(store).await,
            Some(keys) => Ok(Box::new(self.open(url, store, keys, mode).await?)),
        }
    }

    /// The encrypted memory in the store at a URL, opened with these keys.
    pub(crate) async fn open(
        &self,
        url: &StoreUrl,
        store: Box<dyn Store>,
        keys: KeyRing,
        mode: OpenMode,
    ) -> Result<EncryptedStore, Failure> {
        let padding = self.padding.map_or(Padding::None, |padding| padding.0);
        let mut builder = EncryptedStore::builder(store, keys).mode(mode).padding(padding);
        if let Some(name) = &self.memory_name {
            builder = builder.name(name);
        }
        for name in &self.old_memory_name {
            builder = builder.former_name(Some(name));
        }
        if self.memory_was_unnamed {
            builder = builder.former_name(None);
        }
        builder.open().await.map_err(|error| match error {
            error if error.is_not_found() => Failure::NotFound { what: format!("encrypted store at {url}") },
            error => Failure::Store(error.into()),
        })
    }

    /// Whether there is a key.
    pub(crate) fn is_on(&self) -> bool {
        let KeyArgument { key_file, key_env, passphrase_file } = &self.key;
        key_file.is_some() || key_env.is_some() || passphrase_file.is_some()
    }

    /// The keys; `None` where there is no encryption.
    pub(crate) async fn key_ring(&self) -> Result<Option<KeyRing>, Failure> {
        let KeyArgument { key_file, key_env, passphrase_file } = &self.key;
        let mut keys = match (key_file, key_env, passphrase_file) {
            (Some(file), _, _) => KeyRing::new(RawKey::from_file(file).await.map_err(Failure::Key)?),
            (_, Some(name), _) => KeyRing::new(RawKey::from_environment(name).map_err(Failure::Key)?),
            (_, _, Some(file)) => KeyRing::new(Passphrase::from_file(file).await.map_err(Failure::Key)?),
            (None, None, None) => return Ok(None),
        };
        keys = self.with_old_keys(keys).await.map_err(Failure::Key)?;
        Ok(Some(keys))
    }

    async fn with_old_keys(&self, mut keys: KeyRing) -> Result<KeyRing, KeySourceError> {
        for file in &self.old_key_file {
            keys = keys.with(RawKey::from_file(file).await?);
        }
        for name in &self.old_key_env {
            keys = keys.with(RawKey::from_environment(name)?);
        }
        for file in &self.old_passphrase_file {
            keys = keys.with(Passphrase::from_file(file).await?);
        }
        Ok(keys)
    }

    /// What to give on the command line, so that another process has the same.
    pub(crate) fn to_arguments(&self) -> Vec<OsString> {
        let Self {
            key,
            old_key_file,
            old_key_env,
            old_passphrase_file,
            padding,
            memory_name,
            old_memory_name,
            memory_was_unnamed,
        } = self;
        let files = [
            ("--key-file", key.key_file.as_slice()),
            ("--passphrase-file", key.passphrase_file.as_slice()),
            ("--old-key-file", old_key_file),
            ("--old-passphrase-file", old_passphrase_file),
        ];
        let texts = [
            ("--key-env", key.key_env.as_slice()),
            ("--old-key-env", old_key_env),
            ("--memory-name", memory_name.as_slice()),
            ("--old-memory-name", old_memory_name),
        ];
        // In one word: a value may begin as an option does.
        let word = |name: &str, value: &OsStr| {
            let mut word = OsString::from(format!("{name}="));
            word.push(value);
            word
        };
        let mut arguments = Vec::<OsString>::new();
        for (name, files) in files {
            arguments.extend(files.iter().map(|file| word(name, file.as_os_str())));
        }
        for (name, texts) in texts {
            arguments.extend(texts.iter().map(|text| word(name, text.as_ref())));
        }
        if *memory_was_unnamed {
            arguments.push("--memory-was-unnamed".into());
        }
        match padding {
            Some(PaddingArgument(Padding::Multiple(size))) => arguments.push(format!("--padding={size}").into()),
            Some(_) => arguments.push("--padding=padme".into()),
            None => {}
        }
        arguments
    }
}

/// The store, unless it is encrypted or nobody knows: what is written without a key would lie there for everybody to read.
async fn refuse_encrypted(store: Box<dyn Store>) -> Result<Box<dyn Store>, Failure> {
    match EncryptedStore::is_in(&*store).await {
        Ok(true) => Err(Failure::Encrypted),
        // The first command tells what is wrong with the store.
        Err(StoreError::Failure { .. }) => Ok(Box::new(Unknown { store, is_plain: AtomicBool::new(false) })),
        // A link in the place of an index is none.
        Ok(false) | Err(_) => Ok(store),
    }
}

/// A store that could not be asked whether it is encrypted. It is asked again before anything else is done.
#[derive(Debug)]
struct Unknown {
    store: Box<dyn Store>,
    is_plain: AtomicBool,
}

impl Unknown {
    /// The store, once it is known not to be encrypted.
    async fn plain(&self) -> Result<&dyn Store, StoreError> {
        if !self.is_plain.load(Ordering::Relaxed) {
            if EncryptedStore::is_in(&*self.store).await? {
                return Err(StoreError::failure(FailureKind::AccessDenied, "opening", Failure::Encrypted));
            }
            self.is_plain.store(true, Ordering::Relaxed);
        }
        Ok(&*self.store)
    }
}

#[async_trait]
impl Store for Unknown {
    async fn read(&self, path: &MemoryPath) -> Result<Node, StoreError> {
        self.plain().await?.read(path).await
    }

    async fn list(&self, directory: &MemoryPath) -> Result<Vec<FileEntry>, StoreError> {
        self.plain().await?.list(directory).await
    }

    async fn read_or_list(&self, path: &MemoryPath) -> Result<Found, StoreError> {
        self.plain().await?.read_or_list(path).await
    }

    async fn read_if(&self, path: &MemoryPath, preconditions: &[(MemoryPath, Expected)]) -> Result<Node, StoreError> {
        self.plain().await?.read_if(path, preconditions).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.plain().await?.apply(batch).await
    }
}
