//! [`Encryption`]: the options of encryption and their keys.

use std::ffi::{OsStr, OsString};
use std::path::{self, PathBuf};

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use memory_tool::MemoryOptions;
use memory_tool::encrypted::Padding;

use crate::options::values::host_path;

/// The options of a store's encryption. Without a key, the store is not encrypted.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Encryption")]
pub struct Encryption {
    #[command(flatten)]
    key: KeyArgument,

    /// Also use the key in FILE; may be repeated
    ///
    /// A store keeps the key that it has until `rekey` changes it to the key of --key-file.
    #[arg(long, value_name = "FILE", requires = "key", value_parser = host_path())]
    old_key_file: Vec<PathBuf>,

    /// Also use the key in the variable NAME; may be repeated
    #[arg(long, value_name = "NAME", requires = "key")]
    old_key_env: Vec<String>,

    /// Also use the passphrase in FILE; may be repeated
    #[arg(long, value_name = "FILE", requires = "key", value_parser = host_path())]
    old_passphrase_file: Vec<PathBuf>,

    /// Pad files before encryption to hide their sizes
    ///
    /// `padme` pads to sizes of Padmé, at most 12 % larger. N pads to multiples of N bytes.
    #[arg(long, value_name = "padme|N", requires = "key")]
    padding: Option<Padding>,

    /// The label of the memory
    ///
    /// A memory with another label is refused, even if it is encrypted with the same key.
    #[arg(long, value_name = "NAME", requires = "key", value_parser = NonEmptyStringValueParser::new())]
    label: Option<String>,

    /// Also accept a memory with the label NAME; may be repeated
    ///
    /// `rekey` gives it the label of --label.
    #[arg(long, value_name = "NAME", requires = "key", value_parser = NonEmptyStringValueParser::new())]
    old_label: Vec<String>,

    /// Also accept a memory without a label
    ///
    /// `rekey` gives it the label of --label.
    #[arg(long, requires = "label")]
    was_unlabeled: bool,
}

/// The key that a new store is encrypted with.
#[derive(Args, Clone, Debug, Default)]
#[group(id = "key", multiple = false)]
struct KeyArgument {
    /// Encrypt with the key in FILE
    ///
    /// FILE holds 64 hexadecimal digits, base64, or 32 bytes. It is refused if other users can read or write it, or if
    /// it holds 32 printable characters, which look like a passphrase or a part of a key.
    #[arg(long, value_name = "FILE", value_parser = host_path())]
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
    #[arg(long, value_name = "FILE", value_parser = host_path())]
    passphrase_file: Option<PathBuf>,
}

/// The options of the encryption of a copy's source.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Encryption of SRC")]
pub(crate) struct SourceEncryption {
    /// SRC is encrypted with the key in FILE
    ///
    /// If a `rekey` of SRC was interrupted, complete it first.
    #[arg(long, value_name = "FILE", group = "source_key", value_parser = host_path())]
    source_key_file: Option<PathBuf>,

    /// SRC is encrypted with the key in the variable NAME
    #[arg(long, value_name = "NAME", group = "source_key")]
    source_key_env: Option<String>,

    /// SRC is encrypted with the passphrase in FILE
    #[arg(long, value_name = "FILE", group = "source_key", value_parser = host_path())]
    source_passphrase_file: Option<PathBuf>,

    /// The label of the memory in SRC
    #[arg(long, value_name = "NAME", requires = "source_key", value_parser = NonEmptyStringValueParser::new())]
    source_label: Option<String>,
}

impl SourceEncryption {
    /// Converts the options to the form of other stores.
    pub(crate) fn to_encryption(&self) -> Encryption {
        let Self { source_key_file, source_key_env, source_passphrase_file, source_label } = self.clone();
        let key =
            KeyArgument { key_file: source_key_file, key_env: source_key_env, passphrase_file: source_passphrase_file };
        Encryption { key, label: source_label, ..Encryption::default() }
    }
}

impl Encryption {
    /// Sets the options of the encryption.
    pub fn set(&self, options: &mut MemoryOptions) {
        let KeyArgument { key_file, key_env, passphrase_file } = &self.key;
        options.key_file.clone_from(key_file);
        options.key_env.clone_from(key_env);
        options.passphrase_file.clone_from(passphrase_file);
        options.old_key_files.clone_from(&self.old_key_file);
        options.old_key_envs.clone_from(&self.old_key_env);
        options.old_passphrase_files.clone_from(&self.old_passphrase_file);
        options.padding = self.padding;
        options.label.clone_from(&self.label);
        options.old_labels.clone_from(&self.old_label);
        options.was_unlabeled = self.was_unlabeled;
    }

    /// Whether there is a key.
    pub fn is_on(&self) -> bool {
        let KeyArgument { key_file, key_env, passphrase_file } = &self.key;
        key_file.is_some() || key_env.is_some() || passphrase_file.is_some()
    }

    /// The arguments that give another process the same encryption, in any directory.
    pub fn to_arguments(&self) -> Vec<OsString> {
        let Self { key, old_key_file, old_key_env, old_passphrase_file, padding, label, old_label, was_unlabeled } =
            self;
        let absolute = |file: &PathBuf| path::absolute(file).unwrap_or_else(|_| file.clone()).into_os_string();
        let files = |files: &[PathBuf]| files.iter().map(absolute).collect::<Vec<_>>();
        let texts = |texts: &[String]| texts.iter().map(OsString::from).collect();
        let options = [
            ("--key-file=", files(key.key_file.as_slice())),
            ("--passphrase-file=", files(key.passphrase_file.as_slice())),
            ("--old-key-file=", files(old_key_file)),
            ("--old-passphrase-file=", files(old_passphrase_file)),
            ("--key-env=", texts(key.key_env.as_slice())),
            ("--old-key-env=", texts(old_key_env)),
            ("--label=", texts(label.as_slice())),
            ("--old-label=", texts(old_label)),
        ];
        // Each is one word, because a value may start like an option.
        let mut arguments = Vec::<OsString>::new();
        for (name, values) in options {
            arguments
                .extend(values.into_iter().map(|value| [OsStr::new(name), &value].into_iter().collect::<OsString>()));
        }
        if *was_unlabeled {
            arguments.push("--was-unlabeled".into());
        }
        match padding {
            Some(Padding::Multiple(size)) => arguments.push(format!("--padding={size}").into()),
            Some(_) => arguments.push("--padding=padme".into()),
            None => {}
        }
        arguments
    }
}
