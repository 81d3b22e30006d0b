//! Tools that behave like the engine, with one fault each.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use async_trait::async_trait;
use memory_tool_conformance::{BackendFixture, FixtureError, Suite, ToolOptions};
use memory_tool_core::{
    Batch, Command, CommandName, CreateCommand, DEFAULT_MAX_VIEW_CHARACTERS, DeleteCommand, DirectoryItem,
    DirectoryView, Engine, Error, FileView, ImageView, InMemoryStore, InputError, InsertCommand, InsertLine,
    MemoryPath, MemoryTool, Node, NotTextReason, PathError, Precondition, RenameCommand, Reply, Snippet, Stat, Store,
    StoreExt, StrReplaceCommand, ToolDefinition, ViewCommand, ViewCut,
};
use memory_tool_local::LocalStore;
use memory_tool_test_fixtures::directory_in_ram;
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio::sync::Mutex;
use tokio::time::sleep;

faults! {
    AbsolutePathsWithin, AddsTheWordError, AddsToTheDefinition, AliasWins, AllowsDotDot, AnotherFormOfViews,
    AnotherWordingOfSuccess, AsciiSeparatorsEndLines, BackslashInNames, BackslashIsASlash, BlankLineAfterInsert,
    BlocksAThread, CachesBySize, CachesUntilItEdits, CapInBytes, CapInUtf16Units, CapOfTextAlone,
    CarriageReturnLineEnds, ClampsDotDot, ClampsInsertLine, ClearDoesNothing, CoercesTypes, CollapsesSlashes,
    CommandInAnyCase, ComparesSizes, CountsHiddenFiles, CountsLinesDifferently, CreateMakesOneParent, CutsLongNames,
    CutsLongPaths, CutsOldStrInErrors, CutsWithinLines, DecimalSizes, DecodesPercent, DeletesRoot,
    DestinationAskedFirst, DirectoryIgnoresRanges, DirectoryNamedAsOne, DirectorySizesOfTheDisk, DropsControlCharacters,
    DropsDecimalZero, DropsDotSegments, DropsInvisibleCharacters, EchoesAnyLength, EditsFollowRenames,
    EmptyFileShowsNothing, EmptyNewStrRefused, EmptyOldStr, EmptyPathIsTheRoot, EmptyStoreIsMissing,
    EmptyTextRemovesTheFile, ErrorWithoutFlag, ExpandsReplacementPatterns, FewOccurrences, FinalNewlineAdded,
    FinalNewlinesCollapsed, FixedCap, FixedPadding, FoldsNormalization, FractionRefused, GivesUpAfter500Commands,
    GuessesAtNoObject, GuessesEncoding, GuessesTheCommand, HeaderOfThePythonSdk, HidesByteOrderMark,
    HidesControlCharacters, HidesLastEmptyLine, HostPathInErrors, IgnorableCharactersInNames, IgnoresOddRanges,
    ImageTypeByName, ImagesByName, ImagesByTheirStart, InsertMakesFiles, LastFileTakesTheRest, LenientRanges,
    Line0IsLine1, LineAskedFirst, LineLimitOffByOne, LineNumbersOf16Bits, ListingCapInBytes, ListingCapWithHeader,
    ListingHidesLongLines, ListingWithoutWayOn, ListsSizesLater, ListsThreeLevels, ListsUntilChangedThere,
    LockLeftBehind, LongLineWithoutWayOn, LooseLineEndings, LostUpdateAboveTheStore, MatchesWholeCharacters,
    MissesCapitalEncoding, MissesDoubleEncoding, MissesEncoding, MoreAliases, NamesNoField, NegativeLineFromTheEnd,
    NeverOverwrites, NewStrRequired, NoAliases, NoLineLimit, NoSlashAfterDirectories, NoViewCap, NullRefused,
    NumbersOf32Bits, OccurrencesByLine, OffsetInCharacters, OldMacLineEnds, OverlappingOccurrences, OverwritesOnCreate,
    OverwritesTextOnly, OverwritingReachesRename, PanicsOnUnknownCommand, PlainQuotesMatch, PrivateUseRefused,
    QuotesDoublesInFull, RangeFromZero, RangeOfDirectoryRefused, RangeOfItems, RangeOfTheRootAlone, RawOsErrors,
    RawPathsInErrors, ReadsRangesInTexts, RefusesLargeTexts, RegexOldStr, RelativePaths, RemembersRefusals,
    RenameMakesOneParent, RenamesIntoItself, RenamesOntoItself, RenamesRoot, ReplacesDirectories, ReplacesFirst,
    ResolvesEscapes, ReversedRangesSwapped, RewritesMarkdownLists, RoundsFractions, SameTextRefused,
    SameWordsForNothingThere, ShallowSizes, ShortSnippet, ShowsHidden, ShowsNothingUnderTinyCap, ShowsNul,
    SiblingPrefix, SilentTruncation, SnippetFromOne, SnippetFromTheFirstDifference, SnippetOfOldLines,
    SnippetOfWholeChange, SnippetWithoutCap, SortsByUtf16, SortsWholePaths, SortsWithoutCase, StaleListings, StoresNul,
    StripsInsertText, TakesTemporaryNames, TextImages, TextModeEdits, TidiesText, TrailingSlashRefused, TrimsOldStr,
    TrimsPaths, UnfitRangeOfDirectoryRefused, UnicodeLineEnds, UnknownFieldsRefused, WrongNumbers,
}

pub(crate) fn all() -> Vec<(String, Suite)> {
    let suite = |fault| {
        let suite = Suite::for_tool(Fixture { fault: Some(fault) });
        // They wait forever.
        let is_stuck = matches!(fault, Fault::BlocksAThread | Fault::LockLeftBehind);
        if is_stuck { suite.case_timeout(Duration::from_secs(5)) } else { suite }
    };
    Fault::ALL.iter().map(|&fault| (fault.name(), suite(fault))).collect()
}

pub(crate) fn without_fault() -> Suite {
    Suite::for_tool(Fixture { fault: None })
}

/// The host directory that a tool with [`Fault::HostPathInErrors`] reveals.
const HOST_DIRECTORY: &str = "/srv/agent-7";

struct Fixture {
    fault: Option<Fault>,
}

struct Storage {
    store: Arc<dyn Store>,
    /// Serializes the commands of all tools on this storage.
    lock: Arc<Mutex<()>>,
    directory: Option<TempDir>,
}

impl Storage {
    async fn new(fault: Option<Fault>) -> Result<Self, FixtureError> {
        // These faults need files that no command creates.
        use Fault::{GuessesEncoding, ImageTypeByName, ImagesByTheirStart, OverwritesTextOnly, ShowsNul, TextImages};
        let need_files =
            [GuessesEncoding, ImageTypeByName, ImagesByTheirStart, OverwritesTextOnly, ShowsNul, TextImages];
        if !fault.is_some_and(|fault| need_files.contains(&fault)) {
            return Ok(Self { store: Arc::new(InMemoryStore::new()), lock: Arc::default(), directory: None });
        }
        let directory = directory_in_ram()?;
        let store = LocalStore::open(directory.path()).await.map_err(FixtureError::failed)?;
        Ok(Self { store: Arc::new(store), lock: Arc::default(), directory: Some(directory) })
    }

    fn tool(&self, options: &ToolOptions, fault: Option<Fault>) -> Arc<dyn MemoryTool> {
        let overwrites = match fault {
            Some(Fault::NeverOverwrites) => false,
            Some(Fault::OverwritesOnCreate) => true,
            _ => options.create_overwrites,
        };
        let cap = match fault {
            Some(Fault::FixedCap) => Some(DEFAULT_MAX_VIEW_CHARACTERS),
            Some(Fault::AnotherFormOfViews | Fault::NoViewCap) => None,
            _ => options.max_view_characters,
        };
        let engine = Engine::builder(Arc::clone(&self.store)).create_overwrites(overwrites).max_view_characters(cap);
        let store = Arc::clone(&self.store);
        Arc::new(BrokenTool {
            engine: engine.build(),
            store,
            lock: Arc::clone(&self.lock),
            overwrites,
            cap,
            is_locked: AtomicBool::new(false),
            remembered: StdMutex::default(),
            commands: AtomicUsize::new(0),
            fault,
        })
    }
}

#[async_trait]
impl BackendFixture<dyn MemoryTool> for Fixture {
    type Guard = Storage;

    async fn fresh(&self) -> Result<(Arc<dyn MemoryTool>, Storage), FixtureError> {
        self.fresh_with(&ToolOptions::default()).await
    }

    async fn fresh_with(&self, options: &ToolOptions) -> Result<(Arc<dyn MemoryTool>, Storage), FixtureError> {
        let storage = Storage::new(self.fault).await?;
        Ok((storage.tool(options, self.fault), storage))
    }

    async fn reopen(&self, storage: &Storage) -> Result<Arc<dyn MemoryTool>, FixtureError> {
        Ok(storage.tool(&ToolOptions::default(), self.fault))
    }

    fn plain_files(&self, storage: &Storage) -> Result<PathBuf, FixtureError> {
        let directory =
            storage.directory.as_ref().ok_or_else(|| FixtureError::unsupported("the files are in memory"))?;
        Ok(directory.path().join("memories"))
    }

    fn secrets(&self, _: &Storage) -> Vec<String> {
        vec![HOST_DIRECTORY.to_owned()]
    }
}

#[derive(Debug)]
struct BrokenTool {
    engine: Engine<Arc<dyn Store>>,
    store: Arc<dyn Store>,
    lock: Arc<Mutex<()>>,
    overwrites: bool,
    cap: Option<usize>,
    /// Whether an insert is running, for [`Fault::LockLeftBehind`].
    is_locked: AtomicBool,
    /// Earlier replies, for faults that return them again.
    remembered: StdMutex<HashMap<String, String>>,
    commands: AtomicUsize,
    fault: Option<Fault>,
}

#[async_trait]
impl MemoryTool for BrokenTool {
    async fn view(&self, command: &ViewCommand) -> Result<Reply, Error> {
        let ViewCommand { path, view_range, .. } = command;
        let outcome = match self.fault {
            Some(Fault::CapInBytes) => self.view_capped(command, char::len_utf8).await,
            Some(Fault::CapInUtf16Units) => self.view_capped(command, char::len_utf16).await,
            Some(Fault::CapOfTextAlone) => self.view_with_free_numbers(command).await,
            Some(Fault::DirectoryIgnoresRanges) if self.stat(path).await == Stat::Directory => {
                self.engine.view(&ViewCommand::new(path.clone())).await
            }
            Some(Fault::RangeOfTheRootAlone) if !path.is_root() && self.stat(path).await == Stat::Directory => {
                self.engine.view(&ViewCommand::new(path.clone())).await
            }
            Some(Fault::RangeOfItems) if self.stat(path).await == Stat::Directory => {
                self.engine.view(&one_line_down(command)).await
            }
            Some(Fault::UnfitRangeOfDirectoryRefused) => self.view_fitting_range(command).await,
            Some(Fault::ShowsNothingUnderTinyCap)
                if self.cap.is_some_and(|cap| cap < 7) && self.text(path).await.is_some() =>
            {
                Ok(Reply::Text(format!("Here's the content of {path} with line numbers:")))
            }
            _ => self.engine.view(command).await,
        };
        match (self.fault, outcome) {
            (Some(Fault::GuessesEncoding), Err(Error::NotText { .. })) => {
                let text = String::from_utf8_lossy(&content(&*self.store, path).await.unwrap()).into_owned();
                Ok(Reply::File(FileView::new(path.clone(), text, 1, 1)))
            }
            (Some(Fault::ImageTypeByName), Ok(Reply::Image(mut image))) => {
                image.media_type = if path.as_str().ends_with(".png") { "image/png" } else { "image/jpeg" };
                Ok(Reply::Image(image))
            }
            (Some(Fault::ImagesByTheirStart), Err(Error::NotText { .. })) => {
                let content = content(&*self.store, path).await.unwrap();
                let media_type = if content.starts_with(b"\x89PNG") { "image/png" } else { "image/jpeg" };
                Ok(Reply::Image(ImageView::new(path.clone(), media_type, content)))
            }
            (Some(Fault::ShowsNul), Err(Error::NotText { reason: NotTextReason::Nul, .. })) => {
                let text = String::from_utf8(content(&*self.store, path).await.unwrap()).unwrap();
                let total_lines = text.split('\n').count();
                Ok(Reply::Text(FileView::new(path.clone(), text, 1, total_lines).to_string()))
            }
            (Some(Fault::LenientRanges), Err(Error::InvalidViewRange { view_range, .. }))
                if view_range.resolve(usize::MAX).is_some() =>
            {
                Ok(Reply::Text(format!("Here's the content of {path} with line numbers:\n")))
            }
            (Some(Fault::NoLineLimit), Err(Error::TooManyLines { .. })) => {
                Ok(Reply::File(FileView::new(path.clone(), "", 1, 1_000_000)))
            }
            (Some(Fault::RangeOfDirectoryRefused), Ok(Reply::Directory(_))) if view_range.is_some() => {
                Err(Error::other("Error: The `view_range` parameter is not allowed for a directory"))
            }
            (Some(Fault::TextImages), Ok(Reply::Image(_))) => {
                Err(Error::NotText { command: CommandName::View, path: path.clone(), reason: NotTextReason::NotUtf8 })
            }
            (Some(fault), Ok(Reply::File(view))) => self.show_file(fault, view, view_range.is_some()).await,
            (Some(fault), Ok(Reply::Directory(view))) => self.show_directory(fault, view).await,
            (_, outcome) => outcome,
        }
    }

    async fn create(&self, command: &CreateCommand) -> Result<Reply, Error> {
        let mut command = command.clone();
        let CreateCommand { path, file_text, .. } = &mut command;
        match self.fault {
            Some(Fault::CreateMakesOneParent) => self.refuse_missing_parents(CommandName::Create, path).await?,
            Some(Fault::RefusesLargeTexts) if file_text.len() > 1_000_000 => {
                return Err(Error::other("Error: The text is too large"));
            }
            Some(Fault::StoresNul) if file_text.contains('\0') => {
                let stored = self.store.write(&*path, file_text.as_str()).await;
                stored.map_err(|error| Error::other(error.to_string()))?;
                return Ok(Reply::Created { path: path.clone() });
            }
            Some(Fault::OverwritesTextOnly) => {
                let before = content(&*self.store, path).await.unwrap_or_default();
                if str::from_utf8(&before).is_err() {
                    return Err(Error::NotText {
                        command: CommandName::Create,
                        path: path.clone(),
                        reason: NotTextReason::NotUtf8,
                    });
                }
            }
            Some(Fault::ReplacesDirectories) if !path.is_root() && self.stat(path).await == Stat::Directory => {
                self.engine.delete(&DeleteCommand::new(path.clone())).await?;
            }
            Some(Fault::TakesTemporaryNames) if self.stat(path).await == Stat::Absent => {
                if let Ok(temporary) = MemoryPath::parse(&format!("{path}.tmp"))
                    && matches!(self.stat(&temporary).await, Stat::File(_))
                {
                    self.overwrite(&temporary, file_text.as_str()).await;
                    return self
                        .engine
                        .rename(&RenameCommand::new(temporary, path.clone()))
                        .await
                        .map(|_| Reply::Created { path: path.clone() });
                }
            }
            Some(Fault::ResolvesEscapes) => *file_text = file_text.replace("\\n", "\n"),
            Some(Fault::RewritesMarkdownLists) => *file_text = with_asterisks(file_text),
            Some(Fault::TidiesText) => {
                let lines = file_text.split('\n').map(|line| line.trim_end_matches([' ', '\t']));
                *file_text = lines.collect::<Vec<_>>().join("\n");
            }
            _ => {}
        }
        self.engine.create(&command).await
    }

    async fn str_replace(&self, command: &StrReplaceCommand) -> Result<Reply, Error> {
        let StrReplaceCommand { path, old_str, new_str, .. } = command;
        if self.fault == Some(Fault::DirectoryNamedAsOne) {
            self.refuse_directory(path).await?;
        }
        if self.fault == Some(Fault::SnippetWithoutCap) {
            let engine = Engine::builder(Arc::clone(&self.store)).max_view_characters(None).build();
            return engine.str_replace(command).await;
        }
        let Some(before) = self.text(path).await else { return self.engine.str_replace(command).await };
        let mut command = command.clone();
        match self.fault {
            Some(Fault::ExpandsReplacementPatterns) => {
                command.new_str = new_str.replace("$$", "$").replace("$&", old_str).replace("\\1", "");
            }
            Some(Fault::LooseLineEndings) if !before.contains(old_str) => {
                let loose = old_str.replace('\n', "\r\n");
                command.old_str = if before.contains(&loose) { loose } else { command.old_str };
            }
            Some(Fault::ComparesSizes | Fault::LostUpdateAboveTheStore) => {
                return self.edit_aside(path, &before, Command::StrReplace(command)).await;
            }
            Some(Fault::MatchesWholeCharacters)
                if before.matches(old_str.as_str()).count() == 1 && ends_within_character(&before, old_str) =>
            {
                return Err(Error::NoMatch { path: path.clone(), old_str: old_str.clone() });
            }
            Some(Fault::OverlappingOccurrences) if !old_str.is_empty() => {
                let lines = lines_of_matches(&before, old_str);
                if lines.len() > 1 {
                    return Err(Error::MultipleMatches { old_str: old_str.clone(), lines });
                }
            }
            Some(Fault::RegexOldStr) => {
                command.old_str = first_match(&before, old_str).unwrap_or(old_str).to_owned();
            }
            Some(Fault::SameTextRefused) if old_str == new_str => {
                return Err(Error::other("Error: Parameters `old_str` and `new_str` are the same"));
            }
            Some(Fault::PlainQuotesMatch) if !before.contains(old_str) => {
                let start = plain(&before).find(&plain(old_str)).filter(|_| !old_str.is_empty());
                let found = start.map(|start| {
                    let skipped = plain(&before)[..start].chars().count();
                    before.chars().skip(skipped).take(old_str.chars().count()).collect()
                });
                command.old_str = found.unwrap_or(command.old_str);
            }
            Some(Fault::TrimsOldStr) => command.old_str = old_str.trim_end_matches(' ').to_owned(),
            _ => {}
        }
        match (self.fault, self.engine.str_replace(&command).await) {
            (Some(Fault::EmptyOldStr), Err(Error::EmptyOldStr { .. }))
            | (Some(Fault::ReplacesFirst), Err(Error::MultipleMatches { .. })) => {
                let after = before.replacen(old_str, new_str, 1);
                self.overwrite(path, after.clone()).await;
                Ok(Reply::Replaced { path: path.clone(), snippet: Snippet::new(1, after) })
            }
            (Some(Fault::CutsOldStrInErrors), Err(Error::NoMatch { path, mut old_str })) => {
                old_str.truncate(old_str.floor_char_boundary(1_000));
                Err(Error::NoMatch { path, old_str })
            }
            (Some(Fault::FewOccurrences), Err(Error::MultipleMatches { old_str, mut lines })) => {
                lines.truncate(1_000);
                Err(Error::MultipleMatches { old_str, lines })
            }
            (Some(Fault::OccurrencesByLine), Err(Error::MultipleMatches { old_str, mut lines })) => {
                lines.dedup();
                Err(Error::MultipleMatches { old_str, lines })
            }
            (Some(fault), Ok(Reply::Replaced { path, mut snippet })) => {
                let after = self.text(&path).await.unwrap_or_default();
                let start = before.find(old_str).unwrap_or_default();
                let line = line_at(&before, start);
                match fault {
                    Fault::EmptyTextRemovesTheFile if after.is_empty() => {
                        self.engine.delete(&DeleteCommand::new(path.clone())).await?;
                    }
                    Fault::FinalNewlinesCollapsed if after.ends_with("\n\n") => {
                        self.overwrite(&path, format!("{}\n", after.trim_end_matches('\n'))).await;
                    }
                    Fault::OffsetInCharacters if !before.is_ascii() => {
                        let start = before.floor_char_boundary(before[..start].chars().count());
                        let end = before.floor_char_boundary(start + old_str.len());
                        self.overwrite(&path, [&before[..start], new_str, &before[end..]].concat()).await;
                    }
                    Fault::ShortSnippet => snippet = lines_around(&after, line, 1, 2),
                    Fault::SnippetFromOne => snippet.first_line = 1,
                    Fault::SnippetFromTheFirstDifference => {
                        let lines = command.old_str.split('\n').zip(command.new_str.split('\n'));
                        let shared = lines.take_while(|(old, new)| old == new).count();
                        if shared > 0 && command.old_str != command.new_str {
                            snippet = lines_around(&after, line + shared, 2, 2);
                        }
                    }
                    Fault::SnippetOfOldLines => {
                        snippet = lines_around(&after, line, 2, 2 + old_str.matches('\n').count());
                    }
                    Fault::SnippetOfWholeChange => {
                        snippet = lines_around(&after, line, 2, 2 + new_str.matches('\n').count());
                    }
                    Fault::TextModeEdits if after.contains("\r\n") => {
                        self.overwrite(&path, after.replace("\r\n", "\n")).await;
                    }
                    _ => {}
                }
                Ok(Reply::Replaced { path, snippet })
            }
            (_, outcome) => outcome,
        }
    }

    async fn insert(&self, command: &InsertCommand) -> Result<Reply, Error> {
        match self.fault {
            Some(Fault::DirectoryNamedAsOne) => self.refuse_directory(&command.path).await?,
            Some(Fault::LockLeftBehind) => return self.insert_under_lock(command).await,
            _ => {}
        }
        let Some(before) = self.text(&command.path).await else { return self.insert_into_nothing(command).await };
        let mut command = command.clone();
        let InsertCommand { path, insert_line, insert_text, .. } = &mut command;
        match self.fault {
            Some(Fault::BlankLineAfterInsert) if insert_text.ends_with('\n') => insert_text.push('\n'),
            Some(Fault::ClampsInsertLine) => {
                let total_lines = before.split('\n').count();
                if integer(insert_line) > total_lines as i128 {
                    *insert_line = total_lines.into();
                }
            }
            Some(Fault::CountsLinesDifferently) => {
                let total_lines = before.lines().count();
                if integer(insert_line) > total_lines as i128 {
                    return Err(Error::InvalidInsertLine { insert_line: insert_line.clone(), total_lines });
                }
            }
            Some(Fault::Line0IsLine1) if integer(insert_line) == 0 => *insert_line = 1.into(),
            Some(Fault::ComparesSizes | Fault::LostUpdateAboveTheStore) => {
                return self.edit_aside(&path.clone(), &before, Command::Insert(command)).await;
            }
            Some(Fault::NegativeLineFromTheEnd) if integer(insert_line) < 0 => {
                let from_the_end = integer(insert_line) + before.split('\n').count() as i128;
                *insert_line = usize::try_from(from_the_end).unwrap_or_default().into();
            }
            Some(Fault::NumbersOf32Bits) => {
                if let Ok(wrapped) = usize::try_from(integer(insert_line) as i32) {
                    *insert_line = wrapped.into();
                }
            }
            Some(Fault::RewritesMarkdownLists) => *insert_text = with_asterisks(insert_text),
            Some(Fault::StripsInsertText) => *insert_text = insert_text.trim_end_matches('\n').to_owned(),
            _ => {}
        }
        let reply = self.engine.insert(&command).await?;
        let after = self.text(&command.path).await.unwrap_or_default();
        match self.fault {
            Some(Fault::FinalNewlineAdded) if !after.ends_with('\n') => {
                self.overwrite(&command.path, format!("{after}\n")).await;
            }
            Some(Fault::TextModeEdits) if after.contains("\r\n") => {
                self.overwrite(&command.path, after.replace("\r\n", "\n")).await;
            }
            _ => {}
        }
        Ok(reply)
    }

    async fn delete(&self, command: &DeleteCommand) -> Result<Reply, Error> {
        let path = &command.path;
        if self.fault == Some(Fault::DeletesRoot) && path.is_root() {
            self.engine.clear_all_memory().await?;
            return Ok(Reply::Deleted { path: path.clone() });
        }
        let deleted = self.engine.delete(command).await?;
        self.tidy_up(path).await?;
        Ok(deleted)
    }

    async fn rename(&self, command: &RenameCommand) -> Result<Reply, Error> {
        let RenameCommand { old_path, new_path, .. } = command;
        let renamed = Reply::Renamed { old_path: old_path.clone(), new_path: new_path.clone() };
        if self.fault == Some(Fault::RenameMakesOneParent)
            && self.stat(old_path).await != Stat::Absent
            && !new_path.is_under(old_path)
        {
            self.refuse_missing_parents(CommandName::Rename, new_path).await?;
        }
        match (self.fault, self.engine.rename(command).await) {
            (Some(Fault::DestinationAskedFirst), Err(Error::NotFound { .. }))
                if self.stat(new_path).await != Stat::Absent =>
            {
                Err(Error::DestinationExists { path: new_path.clone() })
            }
            (Some(Fault::OverwritingReachesRename), Err(Error::DestinationExists { .. })) if self.overwrites => {
                self.engine.delete(&DeleteCommand::new(new_path.clone())).await?;
                self.engine.rename(command).await
            }
            (Some(Fault::LastFileTakesTheRest), Ok(reply)) => self.tidy_up(old_path).await.map(|()| reply),
            (Some(Fault::RenamesIntoItself), Err(Error::RenameIntoItself { .. })) => {
                self.engine.delete(&DeleteCommand::new(old_path.clone())).await?; // lost
                Ok(renamed)
            }
            (Some(Fault::RenamesOntoItself), Err(Error::DestinationExists { .. })) if old_path == new_path => {
                Ok(renamed)
            }
            (Some(Fault::RenamesRoot), Err(Error::RootIsFixed { .. })) if !new_path.is_root() => {
                for file in self.store.list(old_path).await.unwrap() {
                    let path = MemoryPath::try_from(file.path)?;
                    let moved = path.replace_prefix(old_path, new_path)?;
                    self.engine.rename(&RenameCommand::new(path, moved)).await?;
                }
                Ok(renamed)
            }
            (_, outcome) => outcome,
        }
    }

    async fn clear_all_memory(&self) -> Result<Reply, Error> {
        if self.fault == Some(Fault::ClearDoesNothing) {
            Ok(Reply::Cleared)
        } else {
            self.engine.clear_all_memory().await
        }
    }

    async fn call(&self, mut input: Value) -> Result<Reply, Error> {
        let Some(fault) = self.fault else { return self.execute(&Command::parse(input)?).await };
        // A fault may take several steps instead of one. Only the excluded faults should let other commands come
        // between.
        let is_alone = !matches!(
            fault,
            Fault::ComparesSizes | Fault::ListsSizesLater | Fault::LockLeftBehind | Fault::LostUpdateAboveTheStore
        );
        let _serialized = if is_alone { Some(self.lock.lock().await) } else { None };
        match &mut input {
            Value::Object(fields) => misread_fields(fault, fields)?,
            _ if fault == Fault::GuessesAtNoObject => input = json!({"command": "view", "path": "/memories"}),
            _ => {}
        }
        if fault == Fault::GivesUpAfter500Commands && self.commands.fetch_add(1, Ordering::Relaxed) >= 500 {
            return Err(Error::other("Error: Too many commands"));
        }
        self.before_command(fault, &mut input);
        let asked = input.to_string();
        if fault == Fault::RemembersRefusals
            && let Some(text) = self.remembered.lock().unwrap().get(&asked)
        {
            return Err(Error::other(text.clone()));
        }
        let outcome = match parse(fault, input) {
            Ok(command) => self.execute(&command).await,
            Err(error) => Err(error),
        };
        match (fault, &outcome) {
            (Fault::RemembersRefusals, Err(error)) => {
                self.remembered.lock().unwrap().insert(asked, error.to_string());
            }
            (Fault::EditsFollowRenames, Ok(Reply::Renamed { old_path, new_path })) => {
                self.remembered.lock().unwrap().insert(old_path.to_string(), new_path.to_string());
            }
            _ => {}
        }
        misreport(fault, outcome)
    }

    fn definition(&self) -> ToolDefinition {
        let definition = self.engine.definition();
        if self.fault == Some(Fault::AddsToTheDefinition) { definition.with_strict(true) } else { definition }
    }
}

impl BrokenTool {
    /// Applies the faults of tools that remember earlier commands.
    fn before_command(&self, fault: Fault, input: &mut Value) {
        let mut remembered = self.remembered.lock().unwrap();
        let command = input["command"].as_str().unwrap_or_default().to_owned();
        match (fault, command.as_str()) {
            (Fault::BlocksAThread, "undo_edit") => std::thread::sleep(Duration::from_secs(3_600)),
            (Fault::CachesUntilItEdits, "insert" | "str_replace") => remembered.clear(),
            (Fault::EditsFollowRenames, "create") => _ = input["path"].as_str().map(|path| remembered.remove(path)),
            (Fault::EditsFollowRenames, "insert" | "str_replace") => {
                if let Some(renamed) = input["path"].as_str().and_then(|path| remembered.get(path)) {
                    input["path"] = renamed.as_str().into();
                }
            }
            (Fault::ListsUntilChangedThere, "rename") => {
                let old = input["old_path"].as_str().unwrap_or_default();
                remembered.retain(|directory, _| !old.starts_with(directory.as_str()));
            }
            (Fault::ListsUntilChangedThere, command) if command != "view" => remembered.clear(),
            _ => {}
        }
    }

    /// Deletes the directory above a path if a listing shows nothing in it.
    async fn tidy_up(&self, path: &MemoryPath) -> Result<(), Error> {
        if self.fault != Some(Fault::LastFileTakesTheRest) {
            return Ok(());
        }
        let Some(directory) = path.parents().next().filter(|directory| !directory.is_root()) else { return Ok(()) };
        if self.stat(&directory).await == Stat::Directory
            && let Reply::Directory(view) = self.engine.view(&ViewCommand::new(directory.clone())).await?
            && view.items.is_empty()
        {
            self.engine.delete(&DeleteCommand::new(directory)).await?;
        }
        Ok(())
    }

    /// Returns the earlier reply with this key, or remembers this one.
    fn as_before(&self, key: String, reply: &impl ToString) -> Reply {
        Reply::Text(self.remembered.lock().unwrap().entry(key).or_insert_with(|| reply.to_string()).clone())
    }

    async fn text(&self, path: &MemoryPath) -> Option<String> {
        String::from_utf8(content(&*self.store, path).await?).ok()
    }

    async fn stat(&self, path: &MemoryPath) -> Stat {
        self.store.read(path).await.unwrap().stat()
    }

    /// Refuses a path if more than one directory above it is missing.
    async fn refuse_missing_parents(&self, command: CommandName, path: &MemoryPath) -> Result<(), Error> {
        match path.parents().nth(1) {
            Some(above) if self.stat(&above).await == Stat::Absent => Err(Error::NotFound { command, path: above }),
            _ => Ok(()),
        }
    }

    async fn refuse_directory(&self, path: &MemoryPath) -> Result<(), Error> {
        match self.stat(path).await {
            Stat::Directory => Err(Error::other(format!("Error: The path {path} is a directory"))),
            Stat::Absent | Stat::File(_) => Ok(()),
        }
    }

    async fn insert_into_nothing(&self, command: &InsertCommand) -> Result<Reply, Error> {
        let InsertCommand { path, insert_line, insert_text, .. } = command;
        match (self.fault, self.engine.insert(command).await) {
            (Some(Fault::InsertMakesFiles), Err(Error::NotFound { .. })) if self.stat(path).await == Stat::Absent => {
                self.engine.create(&CreateCommand::new(path.clone(), insert_text)).await?;
                Ok(Reply::Inserted { path: path.clone() })
            }
            (Some(Fault::LineAskedFirst), Err(Error::NotFound { .. })) if integer(insert_line) < 0 => {
                Err(Error::InvalidInsertLine { insert_line: insert_line.clone(), total_lines: 0 })
            }
            (_, outcome) => outcome,
        }
    }

    /// Inserts under a lock that is never released if the future is dropped.
    async fn insert_under_lock(&self, command: &InsertCommand) -> Result<Reply, Error> {
        for _ in 0..1_000 {
            if !self.is_locked.swap(true, Ordering::SeqCst) {
                sleep(Duration::from_millis(3)).await;
                let outcome = self.engine.insert(command).await;
                self.is_locked.store(false, Ordering::SeqCst);
                return outcome;
            }
            sleep(Duration::from_millis(3)).await;
        }
        Err(Error::Conflict { path: command.path.clone() })
    }

    async fn overwrite(&self, path: &MemoryPath, text: impl Into<Vec<u8>>) {
        self.store.write(path, text).await.unwrap();
    }

    /// Edits the text in another store and writes it back. Ignores concurrent changes, or those that keep its size.
    async fn edit_aside(&self, path: &MemoryPath, text: &str, edit: Command) -> Result<Reply, Error> {
        let mut text = text.to_owned();
        loop {
            let aside = Engine::new(InMemoryStore::new());
            aside.create(&CreateCommand::new(path.clone(), text.as_str())).await?;
            let reply = aside.execute(&edit).await?;
            sleep(Duration::from_millis(1)).await;
            let edited = content(aside.store(), path).await.unwrap();
            if self.fault == Some(Fault::LostUpdateAboveTheStore) {
                self.overwrite(path, edited).await;
                return Ok(reply);
            }
            match self.store.read(path).await.unwrap() {
                Node::File(now) if now.content.len() == text.len() => {
                    let same = Precondition::Version(now.version);
                    let write = Batch::new().write(path, edited).require(path, same);
                    if self.store.apply(write).await.is_ok() {
                        return Ok(reply);
                    }
                }
                _ => {}
            }
            let now = self.text(path).await;
            text = now.ok_or_else(|| Error::NotFound { command: edit.name(), path: path.clone() })?;
        }
    }

    /// Views a file with a cap in other units than characters.
    async fn view_capped(&self, command: &ViewCommand, width: fn(char) -> usize) -> Result<Reply, Error> {
        let engine = Engine::builder(Arc::clone(&self.store));
        let whole = engine.clone().max_view_characters(None).build().view(command).await;
        let (Some(cap), Ok(Reply::File(whole))) = (self.cap, whole) else { return self.engine.view(command).await };
        let numbered = numbered_lines(&whole);
        let widths = numbered.chars().scan(0, |sum, character| {
            *sum += width(character);
            Some(*sum)
        });
        let fitting = widths.take_while(|&sum| sum <= cap).count();
        engine.max_view_characters(fitting).build().view(command).await
    }

    /// Refuses a range that does not fit a listing, like one that does not fit a file.
    async fn view_fitting_range(&self, command: &ViewCommand) -> Result<Reply, Error> {
        let uncapped = Engine::builder(Arc::clone(&self.store)).max_view_characters(None).build();
        let whole = uncapped.view(&ViewCommand::new(command.path.clone())).await;
        if let (Ok(Reply::Directory(whole)), Some(range)) = (whole, &command.view_range) {
            let total_lines = 1 + whole.items.len();
            if range.resolve(total_lines).is_none() {
                return Err(Error::InvalidViewRange { view_range: range.clone(), total_lines });
            }
        }
        self.engine.view(command).await
    }

    /// Views a file with a cap that ignores line numbers.
    async fn view_with_free_numbers(&self, command: &ViewCommand) -> Result<Reply, Error> {
        let engine = Engine::builder(Arc::clone(&self.store));
        let whole = engine.clone().max_view_characters(None).build().view(command).await;
        let (Some(cap), Ok(Reply::File(whole))) = (self.cap, whole) else { return self.engine.view(command).await };
        let lines = 1 + whole.text.chars().take(cap).filter(|&character| character == '\n').count();
        let with_numbers = cap + "     1\t".len() * lines;
        engine.max_view_characters(with_numbers).build().view(command).await
    }

    async fn show_file(&self, fault: Fault, mut view: FileView, is_range: bool) -> Result<Reply, Error> {
        match fault {
            Fault::AnotherFormOfViews => {
                let lines = numbered_lines(&view);
                return Ok(Reply::Text(format!("Here's the result of running `cat -n` on {}:\n{lines}\n", view.path)));
            }
            Fault::AsciiSeparatorsEndLines => {
                view.text = view.text.replace(['\u{b}', '\u{c}', '\u{1c}', '\u{1d}', '\u{1e}'], "\n");
            }
            Fault::CachesBySize if !is_range => {
                let size = self.text(&view.path).await.map(|text| text.len());
                return Ok(self.as_before(format!("{} {size:?}", view.path), &view));
            }
            Fault::CachesUntilItEdits if !is_range => {
                let size = self.text(&view.path).await.map(|text| text.len());
                return Ok(self.as_before(format!("{} {size:?}", view.path), &view));
            }
            Fault::CarriageReturnLineEnds => view.text = view.text.replace("\r\n", "\n"),
            Fault::CutsWithinLines => {
                if let (Some(cap), Some(ViewCut::Lines { .. })) = (self.cap, &view.cut) {
                    let whole = self.text(&view.path).await.unwrap();
                    let lines: Vec<_> = whole.split('\n').skip(view.first_line - 1).collect();
                    let rest = FileView::new(view.path.clone(), lines.join("\n"), view.first_line, view.total_lines);
                    let shown: String = numbered_lines(&rest).chars().take(cap).collect();
                    let (header, note) = (header(&view), view.cut.unwrap());
                    return Ok(Reply::Text(format!("{header}\n{shown}\n{note}")));
                }
            }
            Fault::EmptyFileShowsNothing if view.total_lines == 1 && view.text.is_empty() => {
                return Ok(Reply::Text(format!("Here's the content of {} with line numbers:", view.path)));
            }
            Fault::FixedPadding => return Ok(Reply::Text(with_fixed_padding(&view.to_string()))),
            Fault::HidesByteOrderMark => view.text = view.text.trim_start_matches('\u{feff}').to_owned(),
            Fault::HidesControlCharacters => view.text = view.text.replace(['\u{1}', '\u{2}', '\u{1b}'], ""),
            Fault::HidesLastEmptyLine if is_range => {
                view.text = view.text.strip_suffix('\n').unwrap_or(&view.text).to_owned();
            }
            Fault::ImagesByName if view.path.as_str().ends_with(".png") => {
                return Ok(Reply::Image(ImageView::new(view.path, "image/png", view.text.into_bytes())));
            }
            Fault::LongLineWithoutWayOn => {
                let text = view.to_string();
                let way_on = " To read the rest, use str_replace to break the line after the last words shown.";
                return Ok(Reply::Text(text.replace(way_on, "")));
            }
            Fault::LineNumbersOf16Bits => view.first_line %= 1 << 16,
            Fault::LineLimitOffByOne if view.total_lines == 999_999 => {
                return Err(Error::TooManyLines { path: view.path });
            }
            Fault::OldMacLineEnds => {
                let texts = view.text.split("\r\n").map(|text| text.replace('\r', "\n"));
                view.text = texts.collect::<Vec<_>>().join("\r\n");
            }
            Fault::SilentTruncation => view.cut = None,
            Fault::UnicodeLineEnds => view.text = view.text.replace(['\u{85}', '\u{2028}'], "\n"),
            Fault::WrongNumbers if is_range => view.first_line = 1,
            _ => {}
        }
        Ok(Reply::File(view))
    }

    async fn show_directory(&self, fault: Fault, mut view: DirectoryView) -> Result<Reply, Error> {
        match fault {
            Fault::AnotherFormOfViews if view.items.is_empty() => {
                return Ok(Reply::Text(format!("Directory {} is empty.\n", view.path)));
            }
            Fault::AnotherFormOfViews => {
                let paths = view.items.iter().map(|item| format!("{}\n", item.path)).collect::<String>();
                let header = format!("Here are the files and directories up to 2 levels deep in {}:", view.path);
                return Ok(Reply::Text(format!("{header}\n{paths}")));
            }
            Fault::CountsHiddenFiles => {
                view.size = self.store.list(&view.path).await.unwrap().iter().map(|file| file.size).sum();
            }
            Fault::DecimalSizes => {
                view.size = to_decimal(view.size);
                view.items.iter_mut().for_each(|item| item.size = to_decimal(item.size));
            }
            Fault::DirectorySizesOfTheDisk => {
                view.size = 4096;
                view.items.iter_mut().filter(|item| item.is_directory).for_each(|item| item.size = 4096);
            }
            Fault::HeaderOfThePythonSdk => {
                let text = view.to_string();
                return Ok(Reply::Text(text.replacen("hidden items and node_modules:", "hidden items:", 1)));
            }
            Fault::DropsDecimalZero => return Ok(Reply::Text(view.to_string().replace(".0K\t", "K\t"))),
            Fault::EmptyStoreIsMissing
                if view.path.is_root() && view == DirectoryView::new(view.path.clone(), 0, vec![]) =>
            {
                return Err(Error::NotFound { command: CommandName::View, path: view.path });
            }
            Fault::ListingCapInBytes => self.cut_listing(&mut view, str::len),
            Fault::ListingCapWithHeader => {
                let header = header(&view).chars().count();
                self.cut_listing(&mut view, |lines| header + lines.chars().count());
            }
            Fault::ListingHidesLongLines => {
                let fits = |line: &str| self.cap.is_none_or(|cap| line.chars().count() <= cap);
                view.items.retain(|item| fits(&item.to_string()));
            }
            Fault::ListingWithoutWayOn if view.cut.is_some() => {
                let text = view.to_string();
                let (shown, _) = text.rsplit_once('\n').unwrap();
                return Ok(Reply::Text(format!("{shown}\n[More items are not shown. View a directory to see them.]")));
            }
            Fault::ListsSizesLater => {
                sleep(Duration::from_millis(1)).await;
                if let Some(item) = view.items.first_mut()
                    && let Some(text) = self.text(&item.path).await
                {
                    item.size = text.len() as u64;
                }
            }
            Fault::ListsUntilChangedThere => return Ok(self.as_before(format!("{}/", view.path), &view)),
            Fault::ListsThreeLevels => {
                let is_hidden = |name: &&str| name.starts_with('.') || *name == "node_modules";
                self.add_items(&mut view, |names| names.len() == 3 && !names.iter().any(is_hidden)).await;
            }
            Fault::NoSlashAfterDirectories => return Ok(Reply::Text(view.to_string().replace("/\n", "\n"))),
            Fault::ShallowSizes => {
                view.size = view.items.iter().filter(|item| !item.is_directory).map(|item| item.size).sum();
            }
            Fault::ShowsHidden => {
                self.add_items(&mut view, |names| names.len() == 1 && names[0].starts_with('.')).await;
            }
            Fault::SilentTruncation => view.cut = None,
            Fault::StaleListings => {
                let depth = view.path.segments().count() + 1;
                let names = view.items.iter().filter(|item| item.path.segments().count() == depth);
                let names = names.map(|item| item.path.to_string()).collect::<Vec<_>>();
                return Ok(self.as_before(format!("{} {names:?}", view.path), &view));
            }
            Fault::SortsByUtf16 => {
                view.items.sort_by_key(|item| item.path.segments().map(utf16_units).collect::<Vec<_>>());
            }
            Fault::SortsWholePaths => view.items.sort_by(|one, other| one.path.as_str().cmp(other.path.as_str())),
            Fault::SortsWithoutCase => {
                view.items.sort_by_key(|item| item.path.segments().map(str::to_lowercase).collect::<Vec<_>>());
            }
            _ => {}
        }
        Ok(Reply::Directory(view))
    }

    /// Removes the last items until the lines fit the cap.
    fn cut_listing(&self, view: &mut DirectoryView, length: impl Fn(&str) -> usize) {
        let is_over = |view: &DirectoryView| self.cap.is_some_and(|cap| length(&listed_lines(view)) > cap);
        let shown = |view: &DirectoryView| view.items.len() + usize::from(view.first_line == 1);
        let first = view.first_line;
        let total = match view.cut {
            Some(ViewCut::Lines { total, .. }) => total,
            _ => first - 1 + shown(view),
        };
        while shown(view) > 1 && is_over(view) {
            view.items.pop();
            view.cut = Some(ViewCut::Lines { first, last: first - 1 + shown(view), total });
        }
    }

    /// Adds the files whose names under the directory match.
    async fn add_items(&self, view: &mut DirectoryView, is_match: impl Fn(&[&str]) -> bool) {
        for file in self.store.list(&view.path).await.unwrap() {
            let names: Vec<_> = file.path.segments().skip(view.path.segments().count()).collect();
            if is_match(&names) {
                view.items.push(DirectoryItem::new(MemoryPath::try_from(&file.path).unwrap(), file.size, false));
            }
        }
        view.items.sort_by(|one, other| one.path.cmp(&other.path));
    }
}

/// The value of an `insert_line`, clamped to 64 bits.
fn integer(line: &InsertLine) -> i128 {
    let text = line.to_string();
    text.parse().unwrap_or(if text.starts_with('-') { i128::MIN } else { i128::MAX })
}

async fn content(store: &dyn Store, path: &MemoryPath) -> Option<Vec<u8>> {
    match store.read(path).await.ok()? {
        Node::File(file) => Some(file.content),
        Node::Absent | Node::Directory(_) => None,
    }
}

fn header(reply: &impl ToString) -> String {
    reply.to_string().split('\n').next().unwrap().to_owned()
}

fn numbered_lines(view: &FileView) -> String {
    let uncut = FileView::new(view.path.clone(), &view.text, view.first_line, view.total_lines);
    uncut.to_string().split_once('\n').unwrap().1.to_owned()
}

fn listed_lines(view: &DirectoryView) -> String {
    let mut uncut = view.clone();
    uncut.cut = None;
    uncut.to_string().split_once('\n').map_or_else(String::new, |(_, lines)| lines.to_owned())
}

fn one_line_down(command: &ViewCommand) -> ViewCommand {
    match command.view_range.as_ref().and_then(|range| range.resolve(1_000_000)) {
        Some((first, last)) => ViewCommand::new(command.path.clone()).with_view_range(first + 1..=last + 1),
        None => command.clone(),
    }
}

/// Whether the match of `old_str` ends before a combining mark.
fn ends_within_character(text: &str, old_str: &str) -> bool {
    let rest = text.find(old_str).map(|start| &text[start + old_str.len()..]);
    rest.is_some_and(|rest| rest.starts_with(|mark| matches!(mark, '\u{300}'..='\u{36f}' | '\u{94d}' | '\u{200d}')))
}

fn utf16_units(text: &str) -> Vec<u16> {
    text.encode_utf16().collect()
}

/// The number of the line at an offset, starting at 1.
fn line_at(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

/// The line of each match, matches that overlap included.
fn lines_of_matches(text: &str, old_str: &str) -> Vec<usize> {
    let mut line = 1;
    let mut lines = Vec::new();
    for (start, character) in text.char_indices() {
        if text[start..].starts_with(old_str) {
            lines.push(line);
        }
        line += usize::from(character == '\n');
    }
    lines
}

fn lines_around(text: &str, line: usize, above: usize, below: usize) -> Snippet {
    let first = line.saturating_sub(above).max(1);
    let lines: Vec<_> = text.split('\n').skip(first - 1).take(line + below + 1 - first).collect();
    Snippet::new(first, lines.join("\n"))
}

/// The text with `*` before the items of its lists instead of `-`.
fn with_asterisks(text: &str) -> String {
    let lines =
        text.split('\n').map(|line| line.strip_prefix("- ").map_or(line.to_owned(), |item| format!("* {item}")));
    lines.collect::<Vec<_>>().join("\n")
}

/// The text with plain quotes, dashes and spaces instead of typographic ones.
fn plain(text: &str) -> String {
    let straighten = |character| match character {
        '“' | '”' => '"',
        '‘' | '’' => '\'',
        '–' | '−' => '-',
        '\u{a0}' | '\u{202f}' => ' ',
        other => other,
    };
    text.chars().map(straighten).collect()
}

/// The first match of a pattern in which `.` matches any character.
fn first_match<'a>(text: &'a str, pattern: &'a str) -> Option<&'a str> {
    if !pattern.contains('.') {
        return text.contains(pattern).then_some(pattern);
    }
    text.char_indices().find_map(|(start, _)| {
        let rest = &text[start..];
        let mut found = rest.chars();
        let matches = pattern.chars().all(|wanted| found.next().is_some_and(|found| wanted == '.' || wanted == found));
        matches.then(|| &rest[..rest.len() - found.as_str().len()])
    })
}

/// Converts a size so that its units of 1,024 display like units of 1,000.
fn to_decimal(size: u64) -> u64 {
    match size {
        0..1_000 => size,
        1_000..1_000_000 => size * 1_024 / 1_000,
        _ => size * 1_024 / 1_000 * 1_024 / 1_000,
    }
}

/// The view of a file with five spaces before each number, regardless of its length.
fn with_fixed_padding(view: &str) -> String {
    let pad = |line: &str| match line.trim_start().split_once('\t') {
        Some((number, text)) if number.parse::<usize>().is_ok() => format!("     {number}\t{text}"),
        _ => line.to_owned(),
    };
    view.split('\n').map(pad).collect::<Vec<_>>().join("\n")
}

/// Parses a command. A tool may have another parser, which accepts U+0000.
fn parse(fault: Fault, mut input: Value) -> Result<Command, Error> {
    let text = input.get_mut("file_text").filter(|text| fault == Fault::StoresNul && text.is_string());
    let text = text.map(|text| std::mem::replace(text, json!("")));
    let mut command = Command::parse(input)?;
    if let (Command::Create(create), Some(Value::String(text))) = (&mut command, text) {
        create.file_text = text;
    }
    Ok(command)
}

fn misread_fields(fault: Fault, fields: &mut Map<String, Value>) -> Result<(), Error> {
    for field in ["path", "old_path", "new_path"] {
        if let Some(Value::String(path)) = fields.get_mut(field) {
            *path = misread_path(fault, path)?;
        }
    }
    let command = fields.get("command").and_then(Value::as_str).unwrap_or_default().to_owned();
    match (fault, command.as_str()) {
        (Fault::AliasWins, "insert") => take_for(fields, "new_str", "insert_text"),
        (Fault::AliasWins, "rename") => take_for(fields, "path", "old_path"),
        (Fault::CoercesTypes, "create") => {
            if let Some(text @ Value::Number(_)) = fields.get_mut("file_text") {
                *text = Value::String(text.to_string());
            }
        }
        (Fault::CommandInAnyCase, command) => {
            if let Ok(command) = command.to_lowercase().parse::<CommandName>() {
                fields.insert("command".to_owned(), command.as_str().into());
            }
        }
        (Fault::EmptyNewStrRefused, "str_replace") if fields.get("new_str") == Some(&json!("")) => {
            return Err(missing(CommandName::StrReplace, "new_str"));
        }
        (Fault::FractionRefused, _) if fields.get("insert_line").is_some_and(Value::is_f64) => {
            return Err(Error::other("Error: Field `insert_line` must be an integer"));
        }
        (Fault::GuessesTheCommand, "") if fields.contains_key("path") => {
            fields.insert("command".to_owned(), json!("view"));
        }
        (Fault::ReadsRangesInTexts, "view") => {
            if let Some(range @ Value::String(_)) = fields.get_mut("view_range") {
                *range = serde_json::from_str(range.as_str().unwrap()).unwrap_or_else(|_| range.clone());
            }
        }
        (Fault::IgnoresOddRanges, "view") => {
            let is_pair = |range: &Value| range.as_array().is_some_and(|lines| lines.len() == 2);
            fields.retain(|field, value| field != "view_range" || is_pair(value));
        }
        (Fault::MoreAliases, "create") => take_for(fields, "new_str", "file_text"),
        (Fault::NewStrRequired, "str_replace") if !fields.contains_key("new_str") => {
            Command::parse(Value::Object(fields.clone()))?;
            return Err(missing(CommandName::StrReplace, "new_str"));
        }
        (Fault::NoAliases, "insert") => _ = fields.remove("new_str"),
        (Fault::NoAliases, "rename") => _ = fields.remove("path"),
        (Fault::RoundsFractions, "insert") => {
            if let Some(line) = fields.get_mut("insert_line")
                && let Some(fraction) = line.as_f64().filter(|line| line.fract() != 0.0 && *line >= 0.0)
            {
                *line = json!(fraction as u64);
            }
        }
        (Fault::NullRefused, _) => {
            let optional = ["view_range", "new_str"];
            if let Some(field) = optional.into_iter().find(|&field| fields.get(field).is_some_and(Value::is_null)) {
                return Err(Error::other(format!("Error: Field `{field}` must not be null")));
            }
        }
        (Fault::RangeFromZero, "view") => {
            if let Some(first) = fields.get_mut("view_range").and_then(|range| range.get_mut(0))
                && *first == json!(0)
            {
                *first = json!(1);
            }
        }
        (Fault::ReversedRangesSwapped, "view") => {
            if let Some(range) = fields.get_mut("view_range").and_then(Value::as_array_mut)
                && range.iter().all(|line| line.as_u64().is_some_and(|line| line > 0))
            {
                range.sort_by_key(Value::as_u64);
            }
        }
        (Fault::UnknownFieldsRefused, _) => {
            let known = Command::parse(Value::Object(fields.clone())).map(serde_json::to_value);
            let is_known = |field: &str, known: &Value| {
                known.get(field).is_some() || ["path", "new_str", "view_range"].contains(&field)
            };
            if let Ok(Ok(known)) = known
                && let Some(unknown) = fields.keys().find(|field| !is_known(field, &known))
            {
                return Err(Error::other(format!("Error: Unknown field `{unknown}`")));
            }
        }
        _ => {}
    }
    Ok(())
}

fn missing(command: CommandName, field: &'static str) -> Error {
    InputError::MissingField { command: Some(command), field }.into()
}

fn take_for(fields: &mut Map<String, Value>, taken: &str, field: &str) {
    if let Some(value) = fields.remove(taken) {
        fields.insert(field.to_owned(), value);
    }
}

fn misread_path(fault: Fault, path: &str) -> Result<String, Error> {
    match path.strip_prefix("/memories/") {
        Some(rest) => Ok(format!("/memories/{}", misread_names(fault, path, rest)?)),
        None => misread_outside(fault, path),
    }
}

fn misread_outside(fault: Fault, path: &str) -> Result<String, Error> {
    Ok(match fault {
        Fault::AbsolutePathsWithin if path.starts_with('/') && path != "/memories" => format!("/memories{path}"),
        Fault::EchoesAnyLength if path.len() > 1_024 => {
            return Err(Error::other(format!("Error: Path must start with /memories, got: {path}")));
        }
        Fault::EmptyPathIsTheRoot if path.is_empty() => "/memories".to_owned(),
        Fault::RelativePaths if !path.is_empty() && !path.starts_with('/') => format!("/memories/{path}"),
        Fault::SiblingPrefix if path != "/memories" => path.replacen("/memories", "/memories/", 1),
        Fault::TrimsPaths => path.trim().to_owned(),
        _ => path.to_owned(),
    })
}

fn misread_names(fault: Fault, path: &str, rest: &str) -> Result<String, Error> {
    let is_traversal = || matches!(MemoryPath::parse(path), Err(PathError::Traversal { .. }));
    let names = || rest.split('/');
    let joined = |names: Vec<&str>| names.join("/");
    Ok(match fault {
        Fault::AllowsDotDot => resolved(rest, false).unwrap_or_else(|| rest.to_owned()),
        Fault::BackslashInNames => rest.replace('\\', "_"),
        Fault::BackslashIsASlash => rest.replace('\\', "/"),
        Fault::ClampsDotDot => resolved(rest, true).unwrap_or_default(),
        Fault::CollapsesSlashes => joined(names().filter(|name| !name.is_empty()).collect()),
        Fault::CutsLongNames => joined(names().map(|name| &name[..name.floor_char_boundary(255)]).collect()),
        Fault::CutsLongPaths => rest[..rest.floor_char_boundary(1_014)].to_owned(),
        Fault::DecodesPercent => percent_decoded(rest),
        Fault::DropsControlCharacters => rest.replace(char::is_control, ""),
        Fault::DropsDotSegments => joined(names().filter(|&name| name != ".").collect()),
        Fault::DropsInvisibleCharacters => rest.replace(['\u{ad}', '\u{200b}', '\u{200d}', '\u{feff}'], ""),
        Fault::IgnorableCharactersInNames => rest.replace(['\u{3164}', '\u{fe0f}', '\u{e0100}'], "_"),
        Fault::FoldsNormalization => rest.replace("e\u{301}", "é"),
        Fault::MissesCapitalEncoding if is_traversal() => rest.replace("%2E", "_").replace("%2F", "_"),
        Fault::MissesDoubleEncoding if is_traversal() => rest.replace("%25", "_"),
        Fault::MissesEncoding if is_traversal() => rest.replace('%', "_"),
        Fault::PrivateUseRefused if rest.contains(|c: char| ('\u{e000}'..='\u{f8ff}').contains(&c)) => {
            return Err(Error::other(format!("Error: Path {path} contains a private-use character")));
        }
        Fault::RawPathsInErrors if rest.contains(char::is_control) => {
            return Err(Error::other(format!("Error: Path {path} contains a control character")));
        }
        Fault::TrailingSlashRefused if rest.ends_with('/') => {
            return Err(PathError::EmptySegment { path: path.to_owned() }.into());
        }
        Fault::TrimsPaths => rest.trim().to_owned(),
        _ => rest.to_owned(),
    })
}

/// Resolves `..` in a path. If it leads outside, it stays at the root with `stays`, and returns `None` otherwise.
fn resolved(rest: &str, stays: bool) -> Option<String> {
    let mut names = Vec::new();
    for name in rest.split('/') {
        if name != ".." {
            names.push(name);
        } else if names.pop().is_none() && !stays {
            return None;
        }
    }
    Some(names.join("/"))
}

fn percent_decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut decoded = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => decoded.extend([&[byte], &part.as_bytes()[2..]].concat()),
            None => decoded.extend([b"%", part.as_bytes()].concat()),
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

fn misreport(fault: Fault, outcome: Result<Reply, Error>) -> Result<Reply, Error> {
    let error = match outcome {
        Ok(view @ (Reply::Directory(_) | Reply::File(_) | Reply::Image(_))) => return Ok(view),
        Ok(_) if fault == Fault::AnotherWordingOfSuccess => return Ok(Reply::Text("Done.".to_owned())),
        Ok(reply) => return Ok(reply),
        Err(error) => error,
    };
    match (fault, &error) {
        (
            Fault::AddsTheWordError,
            Error::MultipleMatches { .. } | Error::NoMatch { .. } | Error::TooManyLines { .. },
        ) => Err(Error::other(format!("Error: {error}"))),
        (Fault::ErrorWithoutFlag, Error::NoMatch { .. } | Error::MultipleMatches { .. }) => {
            Ok(Reply::Text(error.to_string()))
        }
        (Fault::HostPathInErrors, Error::ParentIsFile { parent, .. }) => {
            Err(Error::other(format!("{error} ({HOST_DIRECTORY}{parent})")))
        }
        (Fault::NamesNoField, Error::Input(InputError::MissingField { .. } | InputError::WrongType { .. })) => {
            Err(Error::other("Error: The input is not valid"))
        }
        (Fault::PanicsOnUnknownCommand, Error::Input(InputError::UnknownCommand { .. })) => unreachable!("{error}"),
        (Fault::QuotesDoublesInFull, Error::InvalidViewRange { .. } | Error::InvalidInsertLine { .. }) => {
            Err(Error::other(error.to_string().replace("1e+30", "1000000000000000019884624838656")))
        }
        (Fault::RawOsErrors, Error::Path(PathError::SegmentTooLong { .. })) => {
            Err(Error::other("Error: File name too long (os error 36)"))
        }
        (Fault::SameWordsForNothingThere, Error::NotFound { command: CommandName::StrReplace, path }) => {
            Err(Error::NotFound { command: CommandName::Insert, path: path.clone() })
        }
        _ => Err(error),
    }
}
