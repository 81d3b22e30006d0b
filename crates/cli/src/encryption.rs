//! [`Encryption`]: the options of encryption and their keys.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use memory_tool::MemoryBuilder;
use memory_tool::encrypted::{KeyRing, KeySourceError, Padding, Passphrase, RawKey};

use crate::arguments::host_path;
use crate::arguments::values::PaddingArgument;
use crate::failure::Failure;

/// The options of a store's encryption. Without a key, the store is not encrypted.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Encryption")]
pub(crate) struct Encryption {
    #[command(flatten)]
    key: KeyArgument,

    /// Also use the key in FILE; may be repeated
    ///
    /// A store keeps the key that it has until `rekey` changes it to the key of --key-file.
    #[arg(long, value_name = "FILE", requires = "key")]
    #[arg(value_parser = host_path())]
    old_key_file: Vec<PathBuf>,

    /// Also use the key in the variable NAME; may be repeated
    #[arg(long, value_name = "NAME", requires = "key")]
    old_key_env: Vec<String>,

    /// Also use the passphrase in FILE; may be repeated
    #[arg(long, value_name = "FILE", requires = "key")]
    #[arg(value_parser = host_path())]
    old_passphrase_file: Vec<PathBuf>,

    /// Pad files before encryption to hide their sizes
    ///
    /// `padme` pads to sizes of Padmé, at most 12 % larger. N pads to multiples of N bytes.
    #[arg(long, value_name = "padme|N", requires = "key")]
    padding: Option<PaddingArgument>,

    /// The name of the memory
    ///
    /// A memory with another name is refused, even if it is encrypted with the same key.
    #[arg(long, value_name = "NAME", requires = "key", value_parser = NonEmptyStringValueParser::new())]
    memory_name: Option<String>,

    /// Also accept a memory with the name NAME; may be repeated
    ///
    /// `rekey` gives it the name of --memory-name.
    #[arg(long, value_name = "NAME", requires = "key", value_parser = NonEmptyStringValueParser::new())]
    old_memory_name: Vec<String>,

    /// Also accept a memory without a name
    ///
    /// `rekey` gives it the name of --memory-name.
    #[arg(long, requires = "memory_name")]
    memory_was_unnamed: bool,
}

/// The key that a new store is encrypted with.
#[derive(Args, Clone, Debug, Default)]
#[group(id = "key", multiple = false, requires = "store")]
struct KeyArgument {
    /// Encrypt with the key in FILE
    ///
    /// FILE holds 64 hexadecimal digits, base64, or 32 bytes. It is refused if other users can read or write it, or if
    /// it holds 32 printable characters, which look like a passphrase or a part of a key.
    #[arg(long, value_name = "FILE")]
    #[arg(value_parser = host_path())]
    key_file: Option<PathBuf>,

    /// Encrypt with the key in the environment variable NAME
    ///
    /// The variable holds 64 hexadecimal digits or base64. Prefer a file: other programs of the same user can read
    /// variables.
    #[arg(long, value_name = "NAME")]
    key_env: Option<String>,

    /// Encrypt with the passphrase in FILE
    ///
    /// Argon2id derives the key, which takes a moment at each start. FILE holds UTF-8 text, which is normalized (NFC);
    /// a line break at its end is ignored. It is refused if other users can read or write it.
    #[arg(long, value_name = "FILE")]
    #[arg(value_parser = host_path())]
    passphrase_file: Option<PathBuf>,
}

/// The options of the encryption of a copy's source.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Encryption of SRC")]
pub(crate) struct SourceEncryption {
    /// SRC is encrypted with the key in FILE
    ///
    /// If a `rekey` of SRC was interrupted, complete it first.
    #[arg(long, value_name = "FILE", group = "source_key")]
    #[arg(value_parser = host_path())]
    source_key_file: Option<PathBuf>,

    /// SRC is encrypted with the key in the variable NAME
    #[arg(long, value_name = "NAME", group = "source_key")]
    source_key_env: Option<String>,

    /// SRC is encrypted with the passphrase in FILE
    #[arg(long, value_name = "FILE", group = "source_key")]
    #[arg(value_parser = host_path())]
    source_passphrase_file: Option<PathBuf>,

    /// The name of the memory in SRC
    #[arg(long, value_name = "NAME", requires = "source_key", value_parser = NonEmptyStringValueParser::new())]
    source_memory_name: Option<String>,
}

impl SourceEncryption {
    /// Converts the options to the form of other stores.
    pub(crate) fn to_encryption(&self) -> Encryption {
        let Self { source_key_file, source_key_env, source_passphrase_file, source_memory_name } = self.clone();
        let key =
            KeyArgument { key_file: source_key_file, key_env: source_key_env, passphrase_file: source_passphrase_file };
        Encryption { key, memory_name: source_memory_name, ..Encryption::default() }
    }
}

impl Encryption {
    /// Adds the encryption to a memory, if there is a key.
    pub(crate) async fn encrypt(&self, builder: MemoryBuilder) -> Result<MemoryBuilder, Failure> {
        Ok(match self.key_ring().await? {
            Some(keys) => self.encrypt_with(keys, builder),
            None => builder,
        })
    }

    /// Adds the encryption with other keys.
    pub(crate) fn encrypt_with(&self, keys: KeyRing, builder: MemoryBuilder) -> MemoryBuilder {
        let Self { padding, memory_name, old_memory_name, memory_was_unnamed, .. } = self.clone();
        builder.encrypt(keys).encryption_options(move |mut encrypted| {
            encrypted = encrypted.padding(padding.map_or(Padding::None, |padding| padding.0));
            if let Some(name) = memory_name {
                encrypted = encrypted.name(name);
            }
            for name in &old_memory_name {
                encrypted = encrypted.former_name(Some(name));
            }
            if memory_was_unnamed { encrypted.former_name(None) } else { encrypted }
        })
    }

    /// Whether there is a key.
    pub(crate) fn is_on(&self) -> bool {
        let KeyArgument { key_file, key_env, passphrase_file } = &self.key;
        key_file.is_some() || key_env.is_some() || passphrase_file.is_some()
    }

    /// Reads the keys. Returns `None` without encryption.
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

    /// The arguments that give another process the same encryption.
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
        // As one word, because a value may start like an option.
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
