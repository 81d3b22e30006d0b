//! A model of a file system, and the operations of a program on it.

use std::collections::{BTreeMap, HashMap};
use std::path::{Component, Path};
use std::sync::Arc;

use super::ACKNOWLEDGED;
use super::trace::Call;

/// The calls that change nothing on the disk. Modes are not modelled.
const READS: &str = "access faccessat faccessat2 fadvise64 fchmod fchmodat fcntl flock fstat fstatfs getdents64 \
                     newfstatat poll pread64 preadv2 readlink readlinkat statfs statx";

/// Flags of an open file that change the meaning of its writes. They are not modelled.
const UNKNOWN_FLAGS: [&str; 4] = ["O_APPEND", "O_DSYNC", "O_SYNC", "O_TMPFILE"];

pub(super) type Inode = usize;

const ROOT: Inode = 0;

/// The contents of files, and `None` for directories, by path.
pub(super) type Tree = BTreeMap<String, Option<Vec<u8>>>;

#[derive(Clone)]
enum Node {
    Directory(BTreeMap<String, Inode>),
    File(Vec<u8>),
}

/// Every file and directory that ever existed. One exists now if a path leads to it.
#[derive(Clone)]
pub(super) struct Disk(Vec<Arc<Node>>);

#[derive(Clone)]
pub(super) struct Operation {
    pub(super) number: usize,
    pub(super) effect: Effect,
    /// For messages.
    pub(super) description: String,
}

#[derive(Clone)]
pub(super) enum Effect {
    /// Sets or removes names in directories, all at once.
    Names(Vec<(Inode, String, Option<Inode>)>),
    Write {
        file: Inode,
        offset: usize,
        bytes: Vec<u8>,
    },
    Resize {
        file: Inode,
        size: usize,
    },
    /// Flushes a file or directory, or everything: the operations before the number `before`.
    Flush {
        inode: Option<Inode>,
        before: usize,
    },
    /// The program reports that a batch was applied.
    Acknowledge(String),
}

impl Operation {
    /// The batch that a program reports as applied.
    pub(super) fn acknowledged(&self) -> Option<&str> {
        match &self.effect {
            Effect::Acknowledge(batch) => Some(batch),
            _ => None,
        }
    }
}

impl Effect {
    /// The files and directories that change.
    pub(super) fn changed(&self) -> Vec<Inode> {
        match self {
            Self::Names(names) => names.iter().map(|(directory, ..)| *directory).collect(),
            Self::Write { file, .. } | Self::Resize { file, .. } => vec![*file],
            Self::Flush { .. } | Self::Acknowledge(_) => Vec::new(),
        }
    }
}

impl Disk {
    fn empty() -> Self {
        Self(vec![Arc::new(Node::Directory(BTreeMap::new()))])
    }

    /// The same files and directories, all empty.
    pub(super) fn blank(&self) -> Self {
        let blank = |node: &Arc<Node>| match **node {
            Node::Directory(_) => Node::Directory(BTreeMap::new()),
            Node::File(_) => Node::File(Vec::new()),
        };
        Self(self.0.iter().map(blank).map(Arc::new).collect())
    }

    fn is_directory(&self, inode: Inode) -> bool {
        matches!(*self.0[inode], Node::Directory(_))
    }

    fn find(&self, path: &Path) -> Option<Inode> {
        path.components().try_fold(ROOT, |inode, component| match (&*self.0[inode], component) {
            (Node::Directory(names), Component::Normal(name)) => names.get(name.to_str().unwrap()).copied(),
            (_, Component::CurDir) => Some(inode),
            _ => panic!("the path {path:?} is not modelled"),
        })
    }

    fn existing(&self, path: &Path) -> Inode {
        self.find(path).unwrap_or_else(|| panic!("{path:?} is used, but the model does not contain it"))
    }

    /// The directory of a path, and its name there.
    fn place(&self, path: &Path) -> (Inode, String) {
        (self.existing(path.parent().unwrap()), path.file_name().unwrap().to_str().unwrap().to_owned())
    }

    pub(super) fn apply(&mut self, effect: &Effect) {
        match effect {
            Effect::Names(changes) => {
                for (directory, name, inode) in changes {
                    let Node::Directory(names) = self.node(*directory) else { panic!("{name} is not in a directory") };
                    match inode {
                        Some(inode) => names.insert(name.clone(), *inode),
                        None => names.remove(name),
                    };
                }
            }
            Effect::Write { file, offset, bytes } => {
                let content = self.content(*file);
                let end = offset + bytes.len();
                content.resize(content.len().max(end), 0);
                content[*offset..end].copy_from_slice(bytes);
            }
            Effect::Resize { file, size } => self.content(*file).resize(*size, 0),
            Effect::Flush { .. } | Effect::Acknowledge(_) => {}
        }
    }

    fn node(&mut self, inode: Inode) -> &mut Node {
        Arc::make_mut(&mut self.0[inode])
    }

    pub(super) fn content(&mut self, file: Inode) -> &mut Vec<u8> {
        match self.node(file) {
            Node::File(content) => content,
            Node::Directory(_) => panic!("a directory has no content"),
        }
    }

    pub(super) fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        let mut pending = vec![(ROOT, String::new())];
        while let Some((inode, path)) = pending.pop() {
            match &*self.0[inode] {
                Node::File(content) => {
                    tree.insert(path, Some(content.clone()));
                }
                Node::Directory(names) => {
                    let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
                    pending.extend(names.iter().map(|(name, inode)| (*inode, format!("{prefix}{name}"))));
                    tree.insert(path, None);
                }
            }
        }
        tree.remove("");
        tree
    }
}

/// The operations of programs on a directory.
#[derive(Clone)]
pub(super) struct Recording {
    pub(super) operations: Vec<Operation>,
    /// The file system as the programs see it.
    pub(super) live: Disk,
    /// The positions of open files, by descriptor.
    pub(super) positions: HashMap<String, usize>,
}

impl Recording {
    /// A directory whose files are on the disk.
    pub(super) fn of(tree: &Tree) -> Self {
        let mut recording = Self { operations: Vec::new(), live: Disk::empty(), positions: HashMap::new() };
        for (path, content) in tree {
            let node = if content.is_some() { Node::File(Vec::new()) } else { Node::Directory(BTreeMap::new()) };
            let created = recording.create(Path::new(path), node);
            recording.push(created, path.clone());
            if let Some(bytes) = content.clone() {
                let file = recording.live.existing(Path::new(path));
                recording.push(Effect::Write { file, offset: 0, bytes }, path.clone());
            }
        }
        recording.push(Effect::Flush { inode: None, before: usize::MAX }, "the start".to_owned());
        recording
    }

    /// The recording as if the program had been killed after a number of operations.
    pub(super) fn killed_after(&self, count: usize) -> Self {
        let operations = self.operations[..count].to_vec();
        let mut live = self.live.blank();
        operations.iter().for_each(|operation| live.apply(&operation.effect));
        Self { operations, live, positions: HashMap::new() }
    }

    /// Adds the calls of a program on the directory, which is at `root`.
    ///
    /// # Panics
    /// If a call may change the directory in a way that is not modelled.
    pub(super) fn add(&mut self, root: &Path, calls: &[Call]) {
        let mut counts = Vec::new(); // the number of operations before each call
        for call in calls {
            counts.push(self.operations.len());
            if !call.succeeded() {
                continue;
            }
            let paths = call.paths();
            let paths: Vec<_> = paths.iter().filter_map(|path| path.strip_prefix(root).ok()).collect();
            let effect = match call.written() {
                Some(text) if paths.is_empty() => acknowledgement(&text),
                _ if call.concerns(root) || ["sync", "io_uring_setup"].contains(&call.name()) => {
                    self.effect(call, &paths, counts[call.began()])
                }
                _ => None,
            };
            let description = match &effect {
                Some(Effect::Acknowledge(batch)) => format!("{ACKNOWLEDGED}{batch}"),
                _ => format!("{} {paths:?}", call.name()),
            };
            effect.into_iter().for_each(|effect| self.push(effect, description.clone()));
        }
    }

    fn push(&mut self, effect: Effect, description: String) {
        self.live.apply(&effect);
        self.operations.push(Operation { number: self.operations.len(), effect, description });
    }

    /// The effect of a call that began when there were `before` operations.
    fn effect(&mut self, call: &Call, paths: &[&Path], before: usize) -> Option<Effect> {
        match (call.name(), paths) {
            ("open" | "openat" | "openat2", [path]) => self.open(call, path),
            ("mkdir" | "mkdirat", [path]) => Some(self.create(path, Node::Directory(BTreeMap::new()))),
            ("rename" | "renameat" | "renameat2", [from, to]) => Some(self.rename(call, from, to)),
            ("link" | "linkat", [from, to]) => {
                let (directory, name) = self.live.place(to);
                Some(Effect::Names(vec![(directory, name, Some(self.live.existing(from)))]))
            }
            ("unlink" | "unlinkat" | "rmdir", [path]) => {
                let (directory, name) = self.live.place(path);
                Some(Effect::Names(vec![(directory, name, None)]))
            }
            ("write" | "pwrite64", [path]) => Some(self.write(call, path)),
            ("ftruncate", [path]) => Some(Effect::Resize { file: self.live.existing(path), size: call.number(1) }),
            ("fallocate", [path]) if call.has_flag("KEEP_SIZE") => self.live.find(path).and(None),
            ("fallocate", [path]) => {
                let (file, end) = (self.live.existing(path), call.number(2) + call.number(3));
                assert_eq!(call.number(1), 0, "the mode of fallocate is not modelled");
                Some(Effect::Resize { file, size: self.live.content(file).len().max(end) })
            }
            ("fsync" | "fdatasync", [path]) => Some(Effect::Flush { inode: Some(self.live.existing(path)), before }),
            ("sync" | "syncfs", _) => Some(Effect::Flush { inode: None, before }),
            ("read", _) => {
                *self.positions.get_mut(call.descriptor())? += call.result();
                None
            }
            ("close", _) => self.positions.remove(call.descriptor()).and(None),
            (name, paths) => {
                assert!(READS.split(' ').any(|read| read == name), "the call {name} is not modelled: {paths:?}");
                None
            }
        }
    }

    fn open(&mut self, call: &Call, path: &Path) -> Option<Effect> {
        let unknown = UNKNOWN_FLAGS.iter().find(|flag| call.has_flag(flag));
        assert_eq!(unknown, None, "the flag is not modelled: {path:?}");
        self.positions.insert(call.result().to_string(), 0);
        match self.live.find(path) {
            None if call.has_flag("O_CREAT") => Some(self.create(path, Node::File(Vec::new()))),
            _ if call.has_flag("O_TRUNC") => Some(Effect::Resize { file: self.live.existing(path), size: 0 }),
            _ => {
                self.live.existing(path);
                None
            }
        }
    }

    fn create(&mut self, path: &Path, node: Node) -> Effect {
        let (directory, name) = self.live.place(path);
        self.live.0.push(Arc::new(node));
        Effect::Names(vec![(directory, name, Some(self.live.0.len() - 1))])
    }

    fn rename(&self, call: &Call, from: &Path, to: &Path) -> Effect {
        let (from_directory, from_name) = self.live.place(from);
        let (to_directory, to_name) = self.live.place(to);
        let left = if call.has_flag("RENAME_EXCHANGE") { self.live.find(to) } else { None };
        let moved = Some(self.live.existing(from));
        Effect::Names(vec![(from_directory, from_name, left), (to_directory, to_name, moved)])
    }

    fn write(&mut self, call: &Call, path: &Path) -> Effect {
        let bytes = call.written().unwrap();
        let offset = if call.name() == "pwrite64" {
            call.number(3)
        } else {
            let position = self.positions.get_mut(call.descriptor()).unwrap();
            *position += bytes.len();
            *position - bytes.len()
        };
        Effect::Write { file: self.live.existing(path), offset, bytes }
    }

    /// Whether a program reported that the batch was applied.
    pub(super) fn acknowledges(&self, batch: &str) -> bool {
        self.operations.iter().any(|operation| operation.acknowledged() == Some(batch))
    }

    /// Whether an operation flushes one directory, or one file.
    pub(super) fn flushes(&self, operation: &Operation, directory: bool) -> bool {
        let Effect::Flush { inode: Some(inode), .. } = operation.effect else { return false };
        self.live.is_directory(inode) == directory
    }
}

fn acknowledgement(text: &[u8]) -> Option<Effect> {
    let text = str::from_utf8(text).ok()?;
    Some(Effect::Acknowledge(text.strip_prefix(ACKNOWLEDGED)?.trim_end().to_owned()))
}
