//! The floor of a local store: `std::fs`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use memory_tool_core::{Command, StorePath};

use crate::in_process::Floor;

pub(crate) struct FileFloor {
    root: PathBuf,
    /// Names temporary files.
    next: AtomicU64,
}

impl FileFloor {
    pub(crate) fn open(root: &Path) -> Self {
        fs::create_dir_all(root.join("memories")).unwrap();
        Self { root: root.to_owned(), next: AtomicU64::new(0) }
    }

    fn path(&self, path: &StorePath) -> PathBuf {
        self.root.join(&path.as_str()[1..])
    }

    /// Writes a temporary file, flushes it, moves it into place and flushes the directory.
    fn write(&self, path: &Path, text: &str) -> io::Result<String> {
        let temporary = path.with_extension(self.next.fetch_add(1, Ordering::Relaxed).to_string());
        let mut file = with_parent(&temporary, || File::create_new(&temporary))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        drop(file);
        fs::rename(temporary, path)?;
        flush_parent(path)
    }
}

impl Floor for FileFloor {
    fn call(&self, command: &Command) -> io::Result<String> {
        match command {
            Command::View(command) => view(&self.path(&command.path)),
            Command::Create(command) => self.write(&self.path(&command.path), &command.file_text),
            Command::StrReplace(command) => {
                let path = self.path(&command.path);
                let text = fs::read_to_string(&path)?;
                let (before, after) = text.split_once(&command.old_str).ok_or(ErrorKind::NotFound)?;
                self.write(&path, &[before, &command.new_str, after].concat())
            }
            Command::Insert(command) => {
                let path = self.path(&command.path);
                let text = fs::read_to_string(&path)?;
                self.write(&path, &[&command.insert_text, &*text].concat())
            }
            Command::Delete(command) => {
                let path = self.path(&command.path);
                fs::remove_file(&path)?;
                flush_parent(&path)
            }
            Command::Rename(command) => {
                let path = self.path(&command.new_path);
                with_parent(&path, || fs::rename(self.path(&command.old_path), &path))?;
                flush_parent(&path)
            }
        }
    }
}

/// Repeats an operation with the parent directory if it is missing.
pub(crate) fn with_parent<T>(path: &Path, operation: impl Fn() -> io::Result<T>) -> io::Result<T> {
    match operation() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fs::create_dir_all(path.parent().unwrap())?;
            operation()
        }
        result => result,
    }
}

fn flush_parent(path: &Path) -> io::Result<String> {
    File::open(path.parent().unwrap())?.sync_all()?;
    Ok(String::new())
}

/// Open, fstat, read, close and format.
fn view(path: &Path) -> io::Result<String> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Ok(add_up(path)?.to_string());
    }
    let mut text = Vec::with_capacity(metadata.len() as usize);
    file.take(metadata.len()).read_to_end(&mut text)?;
    let text = str::from_utf8(&text).map_err(|_| ErrorKind::InvalidData)?;
    Ok(number_lines(path, text))
}

/// Lists a directory and adds up the sizes of its files, but neither sorts nor formats them.
fn add_up(directory: &Path) -> io::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        sum += if metadata.is_dir() { add_up(&entry.path())? } else { metadata.len() };
    }
    Ok(sum)
}

fn number_lines(path: &Path, text: &str) -> String {
    let mut reply = String::with_capacity(text.len() * 5 / 4 + 128);
    reply += "Here's the content of ";
    reply += &path.to_string_lossy();
    reply += " with line numbers:";
    let mut number = *b"\n     0\t";
    for line in text.split('\n') {
        let mut digit = 6;
        while number[digit] == b'9' {
            number[digit] = b'0';
            digit -= 1;
        }
        number[digit] = number[digit].max(b'0') + 1; // a blank becomes 1
        reply += str::from_utf8(&number).unwrap();
        reply += line;
    }
    reply
}

/// A preallocated log, the floor of a durable change. A `create` appends its text and flushes it.
pub(crate) struct Log {
    file: File,
    offset: AtomicU64,
}

impl Log {
    const BYTES: usize = 1 << 24;

    pub(crate) fn create(path: &Path) -> Self {
        let mut file = OpenOptions::new().write(true).create_new(true).open(path).unwrap();
        file.write_all(&vec![0; Self::BYTES]).unwrap();
        file.sync_all().unwrap();
        Self { file, offset: AtomicU64::new(0) }
    }
}

impl Floor for Log {
    fn call(&self, command: &Command) -> io::Result<String> {
        let Command::Create(command) = command else { return Err(ErrorKind::Unsupported.into()) };
        let bytes = command.file_text.as_bytes();
        let offset = self.offset.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.file.write_all_at(bytes, offset % (Self::BYTES - bytes.len()) as u64)?;
        self.file.sync_data()?;
        Ok(String::new())
    }
}
