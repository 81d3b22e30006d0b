//! [`Encryption`]: the options of encryption.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use memory_tool::MemoryBuilder;
use memory_tool::encrypted::{KeyRing, KeySourceError, Padding, Passphrase, RawKey};

use crate::errors::CallError;
use crate::given::{Fields, Given, OptionError};

/// The keys of a memory. Without a key, it is not encrypted.
pub(crate) struct Encryption {
    key: Option<Key>,
    old_keys: Vec<Key>,
    padding: Padding,
    name: Option<String>,
    old_names: Vec<String>,
    was_unnamed: bool,
}

/// A key or its source.
enum Key {
    Bytes([u8; 32]),
    File(PathBuf),
    Variable(String),
    PassphraseFile(PathBuf),
}

impl Encryption {
    pub(crate) fn parse(fields: &mut Fields) -> Result<Self, OptionError> {
        let sources = ["key", "key_file", "key_env", "passphrase_file"];
        let keys = [
            fields.get("key")?.map(Key::Bytes),
            fields.host_path("key_file")?.map(Key::File),
            fields.get("key_env")?.map(Key::Variable),
            fields.host_path("passphrase_file")?.map(Key::PassphraseFile),
        ];
        let mut keys = keys.into_iter().flatten();
        let key = keys.next();
        if keys.next().is_some() {
            let [a, b, c, d] = sources.map(|name| fields.spell(name));
            return Err(OptionError::Value(format!("set only one of {a}, {b}, {c} and {d}")));
        }
        let mut old_keys: Vec<_> = fields.list("old_keys")?.into_iter().map(Key::Bytes).collect();
        old_keys.extend(fields.host_paths("old_key_files")?.into_iter().map(Key::File));
        old_keys.extend(fields.list("old_key_envs")?.into_iter().map(Key::Variable));
        old_keys.extend(fields.host_paths("old_passphrase_files")?.into_iter().map(Key::PassphraseFile));
        let padding = padding(fields)?;
        let (name, old_names) = (fields.get("memory_name")?, fields.list("old_memory_names")?);
        let was_unnamed = fields.flag("memory_was_unnamed")?;
        let is_default =
            old_keys.is_empty() && padding.is_none() && name.is_none() && old_names.is_empty() && !was_unnamed;
        if key.is_none() && !is_default {
            return Err(OptionError::Value("an option of encryption requires a key".to_owned()));
        }
        fields.require(name.is_some() || !was_unnamed, "memory_was_unnamed", "memory_name")?;
        let padding = padding.unwrap_or(Padding::None);
        Ok(Self { key, old_keys, padding, name, old_names, was_unnamed })
    }

    /// Adds the encryption to a memory, if there is a key.
    pub(crate) async fn encrypt(&self, builder: MemoryBuilder) -> Result<MemoryBuilder, CallError> {
        let Some(key) = &self.key else { return Ok(builder) };
        let failed = |error: KeySourceError| CallError::Setup("cannot read the key", error.into());
        let mut keys = key.add_to(None).await.map_err(failed)?;
        for key in &self.old_keys {
            keys = key.add_to(Some(keys)).await.map_err(failed)?;
        }
        let Self { padding, name, old_names, was_unnamed, .. } = self;
        let (padding, name, old_names, was_unnamed) = (*padding, name.clone(), old_names.clone(), *was_unnamed);
        Ok(builder.encrypt(keys).encryption_options(move |mut encrypted| {
            encrypted = encrypted.padding(padding);
            if let Some(name) = name {
                encrypted = encrypted.name(name);
            }
            for name in &old_names {
                encrypted = encrypted.former_name(Some(name));
            }
            if was_unnamed { encrypted.former_name(None) } else { encrypted }
        }))
    }
}

fn padding(fields: &mut Fields) -> Result<Option<Padding>, OptionError> {
    let size = match fields.get::<Given>("padding")? {
        None => return Ok(None),
        Some(Given::Text(given)) if given == "padme" => return Ok(Some(Padding::Padme)),
        Some(Given::Whole(size)) => usize::try_from(size).ok().and_then(NonZeroUsize::new),
        Some(_) => None,
    };
    size.map(|size| Some(Padding::Multiple(size)))
        .ok_or_else(|| fields.invalid("padding", "expected 'padme', or a number of bytes from 1 up"))
}

impl Key {
    /// Adds the key to a ring, or creates one.
    async fn add_to(&self, ring: Option<KeyRing>) -> Result<KeyRing, KeySourceError> {
        Ok(match self {
            Self::PassphraseFile(file) => {
                let passphrase = Passphrase::from_file(file).await?;
                match ring {
                    Some(ring) => ring.with(passphrase),
                    None => KeyRing::new(passphrase),
                }
            }
            Self::Bytes(_) | Self::File(_) | Self::Variable(_) => {
                let key = match self {
                    Self::Bytes(bytes) => RawKey::from_bytes(*bytes),
                    Self::Variable(name) => RawKey::from_environment(name)?,
                    Self::File(file) | Self::PassphraseFile(file) => RawKey::from_file(file).await?,
                };
                match ring {
                    Some(ring) => ring.with(key),
                    None => KeyRing::new(key),
                }
            }
        })
    }
}
