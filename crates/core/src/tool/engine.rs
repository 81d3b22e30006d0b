//! [`Engine`]: the memory tool for any store.

use async_trait::async_trait;

use crate::store::actor::Actor;
use crate::store::batch::Batch;
use crate::store::error::{ErrorKind, StoreError};
use crate::store::node::{Node, StoredFile};
use crate::store::path::MemoryPath;
use crate::store::precondition::Precondition;
use crate::store::store_path::StorePath;
use crate::store::{ReadOptions, Store};
use crate::tool::MemoryTool;
use crate::tool::command::{
    CreateCommand, DeleteCommand, InsertCommand, NUL, RenameCommand, StrReplaceCommand, ViewCommand, refuse_nul,
};
use crate::tool::command_name::CommandName;
use crate::tool::definition::ToolDefinition;
use crate::tool::error::{Error, NotTextReason};
use crate::tool::image;
use crate::tool::lines::ViewRange;
use crate::tool::reply::{DirectoryView, FileView, ImageView, Reply};
use crate::tool::text;

/// The default limit on the characters that `view` returns, which Claude's own description of the tool states (`[V8]`).
pub const DEFAULT_MAX_VIEW_CHARACTERS: usize = 16_000;

/// Attempts to edit a file while other commands change it.
///
/// Each failed attempt means that another command succeeded. With `n` concurrent writers, an attempt fails with a
/// probability of about `1 - 1/n`. With 100 writers, 1,000 attempts all fail about once in 20,000 commands.
pub const MAX_ATTEMPTS: usize = 1_000;

/// An implementation of [`MemoryTool`] for any [`Store`], exactly as the contract specifies.
///
/// ```
/// use memory_tool_core::{Engine, InMemoryStore, MemoryTool};
/// use serde_json::json;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let tool = Engine::builder(InMemoryStore::new()).create_overwrites(true).build();
/// tool.call(json!({"command": "create", "path": "/memories/a.txt", "file_text": "Hello"})).await?;
/// let reply = tool.call(json!({"command": "view", "path": "/memories/a.txt"})).await?;
/// assert_eq!(reply.to_string(), "Here's the content of /memories/a.txt with line numbers:\n     1\tHello");
/// # Ok::<(), memory_tool_core::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Engine<S> {
    store: S,
    options: Options,
}

#[derive(Clone, Debug)]
struct Options {
    create_overwrites: bool,
    max_view_characters: Option<usize>,
    definition: ToolDefinition,
    actor: Option<Actor>,
}

impl<S: Store> Engine<S> {
    /// Creates a tool with the default options.
    pub fn new(store: S) -> Self {
        Self::builder(store).build()
    }

    /// Returns a builder for a tool with other options.
    pub fn builder(store: S) -> EngineBuilder<S> {
        let options = Options {
            create_overwrites: false,
            max_view_characters: Some(DEFAULT_MAX_VIEW_CHARACTERS),
            definition: ToolDefinition::new(),
            actor: None,
        };
        EngineBuilder { store, options }
    }

    /// The store of the tool.
    pub fn store(&self) -> &S {
        &self.store
    }
}

/// A builder for an [`Engine`], created by [`Engine::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct EngineBuilder<S> {
    store: S,
    options: Options,
}

impl<S: Store> EngineBuilder<S> {
    /// Whether `create` replaces an existing file instead of returning an error (`[C2]`). It never replaces a
    /// directory. Default: `false`.
    pub fn create_overwrites(mut self, create_overwrites: bool) -> Self {
        self.options.create_overwrites = create_overwrites;
        self
    }

    /// The maximum number of characters that `view` and the snippet of `str_replace` return (`[V8]`); `None` is no
    /// limit. Longer replies end with a note on how to continue. Default: [`DEFAULT_MAX_VIEW_CHARACTERS`].
    ///
    /// Line numbers, tabs and line breaks count. A reply always contains at least one character of a file or one line
    /// of a listing, so 0 is the same as 1.
    pub fn max_view_characters(mut self, max_view_characters: impl Into<Option<usize>>) -> Self {
        self.options.max_view_characters = max_view_characters.into();
        self
    }

    /// The result of [`MemoryTool::definition`] (`[W3]`). Default: [`ToolDefinition::new`].
    pub fn definition(mut self, definition: ToolDefinition) -> Self {
        self.options.definition = definition;
        self
    }

    /// The [actor](Batch::by) of the changes. Default: none.
    pub fn actor(mut self, actor: Actor) -> Self {
        self.options.actor = Some(actor);
        self
    }

    /// Builds the tool.
    pub fn build(self) -> Engine<S> {
        Engine { store: self.store, options: self.options }
    }
}

#[async_trait]
impl<S: Store> MemoryTool for Engine<S> {
    async fn view(&self, command: &ViewCommand) -> Result<Reply, Error> {
        let path = &command.path;
        match self.read(CommandName::View, path).await? {
            Node::Absent => Err(not_found(CommandName::View, path)),
            Node::File(file) => self.view_file(path, file, command.view_range.as_ref()),
            Node::Directory(listing) => {
                let (range, cap) = (command.view_range.as_ref(), self.options.max_view_characters);
                Ok(Reply::Directory(DirectoryView::of_listing(path.clone(), &listing, range, cap)))
            }
        }
    }

    async fn create(&self, command: &CreateCommand) -> Result<Reply, Error> {
        let path = &command.path;
        refuse_nul(CommandName::Create, "file_text", &command.file_text)?;
        if path.is_root() {
            return Err(Error::AlreadyExists { path: path.clone() });
        }
        let mut batch = self.batch(CommandName::Create.as_str()).write(path, command.file_text.as_str());
        if !self.options.create_overwrites {
            batch = batch.require(path, Precondition::Absent);
        }
        self.store.apply(batch).await.map_err(|error| match error {
            StoreError::AlreadyExists { .. } => Error::AlreadyExists { path: path.clone() },
            error => store_error(CommandName::Create, path, error),
        })?;
        Ok(Reply::Created { path: path.clone() })
    }

    async fn str_replace(&self, command: &StrReplaceCommand) -> Result<Reply, Error> {
        let StrReplaceCommand { path, old_str, new_str } = command;
        refuse_nul(CommandName::StrReplace, "old_str", old_str)?;
        refuse_nul(CommandName::StrReplace, "new_str", new_str)?;
        self.edit(CommandName::StrReplace, path, |text| {
            if old_str.is_empty() {
                return Err(Error::EmptyOldStr { path: path.clone() });
            }
            match text::replace_unique(text, old_str, new_str, self.options.max_view_characters) {
                Ok((text, snippet)) => Ok((text, Reply::Replaced { path: path.clone(), snippet })),
                Err(lines) if lines.is_empty() => Err(Error::NoMatch { path: path.clone(), old_str: old_str.clone() }),
                Err(lines) => Err(Error::MultipleMatches { old_str: old_str.clone(), lines }),
            }
        })
        .await
    }

    async fn insert(&self, command: &InsertCommand) -> Result<Reply, Error> {
        let InsertCommand { path, insert_line, insert_text } = command;
        refuse_nul(CommandName::Insert, "insert_text", insert_text)?;
        self.edit(CommandName::Insert, path, |text| {
            let total_lines = text::count_lines(text);
            match insert_line.resolve(total_lines) {
                Some(index) => {
                    Ok((text::insert_line(text, index, insert_text), Reply::Inserted { path: path.clone() }))
                }
                None => Err(Error::InvalidInsertLine { insert_line: insert_line.clone(), total_lines }),
            }
        })
        .await
    }

    async fn delete(&self, command: &DeleteCommand) -> Result<Reply, Error> {
        let path = &command.path;
        if path.is_root() {
            return Err(Error::RootIsFixed { command: CommandName::Delete });
        }
        self.store.apply(self.batch(CommandName::Delete.as_str()).remove(path)).await.map_err(|error| match error {
            StoreError::NotFound { .. } => not_found(CommandName::Delete, path),
            error => store_error(CommandName::Delete, path, error),
        })?;
        Ok(Reply::Deleted { path: path.clone() })
    }

    async fn rename(&self, command: &RenameCommand) -> Result<Reply, Error> {
        let RenameCommand { old_path, new_path } = command;
        if old_path.is_root() {
            return Err(Error::RootIsFixed { command: CommandName::Rename });
        }
        if old_path.overlaps(new_path) {
            return Err(self.refuse_overlapping_rename(old_path, new_path).await?);
        }
        let batch = self.batch(CommandName::Rename.as_str()).rename(old_path, new_path);
        self.store.apply(batch).await.map_err(|error| match error {
            StoreError::NotFound { .. } => not_found(CommandName::Rename, old_path),
            StoreError::AlreadyExists { .. } => Error::DestinationExists { path: new_path.clone() },
            StoreError::SymbolicLink { path: link } if **old_path == link || old_path.is_under(&link) => {
                Error::SymbolicLink { path: old_path.clone() }
            }
            error => store_error(CommandName::Rename, new_path, error),
        })?;
        Ok(Reply::Renamed { old_path: old_path.clone(), new_path: new_path.clone() })
    }

    async fn clear_all_memory(&self) -> Result<Reply, Error> {
        let root = MemoryPath::root();
        let removed = self.store.apply(self.batch("clear_all_memory").remove(&root)).await;
        removed.map_err(|error| store_error(CommandName::Delete, &root, error))?;
        Ok(Reply::Cleared)
    }

    fn definition(&self) -> ToolDefinition {
        self.options.definition.clone()
    }
}

impl<S: Store> Engine<S> {
    fn batch(&self, command: &'static str) -> Batch {
        let batch = Batch::new().for_command(command);
        match &self.options.actor {
            Some(actor) => batch.by(actor.clone()),
            None => batch,
        }
    }

    async fn read(&self, command: CommandName, path: &MemoryPath) -> Result<Node, Error> {
        self.read_opts(command, path, ReadOptions::new()).await
    }

    async fn read_opts(&self, command: CommandName, path: &MemoryPath, options: ReadOptions) -> Result<Node, Error> {
        let node = self.store.read_opts(path, options.for_command(command.as_str())).await;
        node.map_err(|error| store_error(command, path, error))
    }

    fn view_file(&self, path: &MemoryPath, file: StoredFile, range: Option<&ViewRange>) -> Result<Reply, Error> {
        if image::has_image_name(path) && std::str::from_utf8(&file.content).is_err() {
            let refused = |reason| Error::NotText { command: CommandName::View, path: path.clone(), reason };
            let media_type = image::media_type(&file.content).map_err(refused)?;
            return Ok(Reply::Image(ImageView::new(path.clone(), media_type, file.content)));
        }
        let text = text_of(CommandName::View, path, file.content)?;
        FileView::of_text(path.clone(), text, range, self.options.max_view_characters).map(Reply::File)
    }

    /// Reads a file, edits its text, and writes it if the file has not changed. Otherwise, retries. An edit of a stale
    /// file does no harm, because the batch requires its version. A refusal is of the present file.
    async fn edit(
        &self,
        command: CommandName,
        path: &MemoryPath,
        edit: impl Fn(&str) -> Result<(String, Reply), Error> + Send + Sync,
    ) -> Result<Reply, Error> {
        let mut options = ReadOptions::new().allow_stale();
        for _ in 0..MAX_ATTEMPTS {
            let Node::File(file) = self.read_opts(command, path, options.clone()).await? else {
                return Err(not_found(command, path));
            };
            let edited = text_of(command, path, file.content).and_then(|text| edit(&text));
            if edited.is_err() && options.allows_stale() {
                options = ReadOptions::new();
                continue;
            }
            let (edited, reply) = edited?;
            let batch = self.batch(command.as_str()).require(path, Precondition::Version(file.version));
            match self.store.apply(batch.write(path, edited)).await {
                Ok(()) => return Ok(reply),
                Err(StoreError::VersionMismatch { .. }) => {}
                Err(error) => return Err(store_error(command, path, error)),
            }
        }
        Err(Error::Conflict { path: path.clone() })
    }

    /// The error for a rename of a path to itself, to a path under it, or to a parent (`[R2]`, `[R3]`).
    async fn refuse_overlapping_rename(&self, old_path: &MemoryPath, new_path: &MemoryPath) -> Result<Error, Error> {
        Ok(match self.read(CommandName::Rename, old_path).await? {
            Node::Absent => not_found(CommandName::Rename, old_path),
            _ if new_path.is_under(old_path) => {
                Error::RenameIntoItself { old_path: old_path.clone(), new_path: new_path.clone() }
            }
            _ => Error::DestinationExists { path: new_path.clone() },
        })
    }
}

fn not_found(command: CommandName, path: &MemoryPath) -> Error {
    Error::NotFound { command, path: path.clone() }
}

/// Converts an error of the store that does not depend on the command.
fn store_error(command: CommandName, path: &MemoryPath, source: StoreError) -> Error {
    // The model does not know records.
    let shown = |named: StorePath| MemoryPath::try_from(named).unwrap_or_else(|_| path.clone());
    match source {
        StoreError::NotADirectory { path: parent } => {
            Error::ParentIsFile { command, path: path.clone(), parent: shown(parent) }
        }
        StoreError::SymbolicLink { .. } => Error::SymbolicLink { path: path.clone() },
        StoreError::NotARegularFile { path } => Error::NotARegularFile { path: shown(path) },
        StoreError::VersionMismatch { .. } => Error::Conflict { path: path.clone() },
        StoreError::Refused { path, policy, reason } => Error::Refused { path: shown(path), policy, reason },
        StoreError::OverQuota { path: ref directory, .. } => {
            Error::Refused { path: shown(directory.clone()), policy: "quota", reason: source.to_string() }
        }
        StoreError::Path(error) => Error::Path(error),
        StoreError::Failure { kind, .. } => Error::Storage { kind, source },
        _ => Error::Storage { kind: ErrorKind::Other, source },
    }
}

fn text_of(command: CommandName, path: &MemoryPath, content: Vec<u8>) -> Result<String, Error> {
    let not_text = |reason| Error::NotText { command, path: path.clone(), reason };
    let text = String::from_utf8(content).map_err(|_| not_text(NotTextReason::NotUtf8))?;
    if text.contains(NUL) { Err(not_text(NotTextReason::Nul)) } else { Ok(text) }
}
