//! [`SearchRun`]: one search of a store.

use std::future;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime};

use futures::pending;
use futures::stream::{self, Stream, StreamExt as _};

use crate::search::pattern::{Matcher, SearchError, WordSet};
use crate::search::report::{FoundPath, SearchReport, SkipReason, StopReason};
use crate::search::text::{Line, LineFinder, found_line, lines_around};
use crate::search::{Search, SearchedPart};
use crate::store::error::{ErrorKind, StoreError};
use crate::store::node::{FileEntry, Listing, Node, UnlistedItem, UnlistedReason};
use crate::store::path::MemoryPath;
use crate::store::path_rules::{MEMORIES, split_names};
use crate::store::store_path::StorePath;
use crate::store::{ReadOptions, Store};
use crate::tool::directory_view::is_visible;

/// The most files that are read at a time. In a bucket, reads that start together share a request for the latest state.
/// Stores limit the rest of their work themselves.
const MAX_CONCURRENT_FILES: usize = 2_048;
/// The most bytes of several files that are read at a time.
const MAX_CONCURRENT_BYTES: u64 = 16 * 1024 * 1024;

impl Search {
    /// Searches a store. The future yields after each millisecond, or up to two seconds for the slowest regular
    /// expressions, and can be dropped at any time.
    ///
    /// # Errors
    /// [`SearchError`] if the pattern is invalid, a [path](Self::within) does not exist, or the store fails.
    pub async fn run(&self, store: &(impl Store + ?Sized)) -> Result<SearchReport, SearchError> {
        let matcher = Matcher::new(&self.pattern, self.regex, self.case)?;
        let within = self.within.as_ref().map_err(|error| StoreError::from(error.clone()))?;
        SearchRun::new(self, within, &matcher).run(store).await
    }
}

/// A running search.
struct SearchRun<'a> {
    search: &'a Search,
    within: &'a [MemoryPath],
    matcher: &'a Matcher,
    pace: Pace,
    report: SearchReport,
    /// The number of shown matches and their characters.
    shown: usize,
    characters: usize,
    /// Whether a limit of shown results is reached.
    is_full: bool,
}

/// The result of reading a listed file.
enum ReadOutcome {
    Content(Vec<u8>),
    /// It was removed after the listing.
    Removed,
    Skipped(SkipReason),
}

/// A file to search, or a directory.
struct Candidate<'a> {
    file: Option<&'a FileEntry>,
    found: FoundPath,
    /// The words in the path, which the text may lack.
    words: WordSet,
}

/// The matching lines of a file.
#[derive(Default)]
struct MatchingLines {
    number: u64,
    first: Vec<Line>,
}

impl MatchingLines {
    fn push(&mut self, line: Line, wanted: usize) {
        self.number += 1;
        if self.first.len() < wanted {
            self.first.push(line);
        }
    }
}

impl<'a> SearchRun<'a> {
    fn new(search: &'a Search, within: &'a [MemoryPath], matcher: &'a Matcher) -> Self {
        let pace = Pace::new(search.timeout);
        Self { search, within, matcher, pace, report: SearchReport::default(), shown: 0, characters: 0, is_full: false }
    }

    async fn run(mut self, store: &(impl Store + ?Sized)) -> Result<SearchReport, SearchError> {
        let listing = store.read_opts(&StorePath::memories(), ReadOptions::new()).await?.into_listing();
        let files = self.select(listing)?;
        let candidates = self.candidates(&files);
        self.search_candidates(store, candidates).await?;
        self.report.skipped.sort_unstable();
        Ok(self.report)
    }

    /// The files to search, sorted by path. Those left out are counted.
    fn select(&mut self, listing: Listing) -> Result<Vec<FileEntry>, SearchError> {
        let Listing { mut files, unlisted, .. } = listing;
        for path in self.within {
            let exists = path.is_root() || files.iter().any(|file| is_at(file.path.as_str(), path.as_str()));
            if !exists && !unlisted.iter().any(|item| is_at(path.as_str(), &location(item))) {
                return Err(StoreError::NotFound { path: StorePath::from(&**path) }.into());
            }
        }
        for item in unlisted {
            let place = location(&item);
            let is_above = self.within.iter().any(|path| is_at(path.as_str(), &place));
            if is_above || self.is_selected(&place) {
                let reason = match item.reason {
                    UnlistedReason::Unreadable => SkipReason::Unreadable,
                    UnlistedReason::IllegalName => SkipReason::IllegalName,
                };
                self.report.skip(item.location(), reason);
            }
        }
        files.retain(|file| self.is_selected(file.path.as_str()) && self.is_in_time(file.modified));
        files.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        Ok(files)
    }

    /// Whether a path is in a place to search. If it is hidden there, it is counted.
    fn is_selected(&mut self, path: &str) -> bool {
        let root = [MemoryPath::root()];
        let within = if self.within.is_empty() { &root } else { self.within };
        let mut is_hidden = false;
        for place in within.iter().filter(|place| is_at(path, place.as_str())) {
            let mut names = split_names(&path[place.as_str().len()..]).skip(1);
            if self.search.hidden || names.all(is_visible) {
                return true;
            }
            is_hidden = true;
        }
        self.report.hidden += u64::from(is_hidden);
        false
    }

    /// Whether the time of a file is one to search. If it is unknown, it is counted.
    fn is_in_time(&mut self, modified: Option<SystemTime>) -> bool {
        let [since, before] = [self.search.since, self.search.before].map(|moment| moment.map(SystemTime::from));
        if since.is_none() && before.is_none() {
            return true;
        }
        self.report.undated += u64::from(modified.is_none());
        modified
            .is_some_and(|time| since.is_none_or(|since| time >= since) && before.is_none_or(|before| time < before))
    }

    /// The files to search and the directories with matching names, first those with matching names.
    fn candidates<'f>(&self, files: &'f [FileEntry]) -> Vec<Candidate<'f>> {
        let mut candidates = Vec::new();
        let mut previous = None;
        for file in files {
            let directories = self.new_directories(&file.path, previous.replace(&file.path));
            let directories = directories.iter().map(|directory| self.candidate(directory, None));
            candidates.extend(directories.filter(|directory| directory.found.is_name_match));
            candidates.push(self.candidate(&file.path, Some(file)));
        }
        candidates.sort_by_key(|candidate| !candidate.found.is_name_match);
        candidates
    }

    async fn search_candidates(
        &mut self,
        store: &(impl Store + ?Sized),
        candidates: Vec<Candidate<'_>>,
    ) -> Result<(), SearchError> {
        let mut files: Vec<_> = candidates.iter().filter_map(|candidate| candidate.file).collect();
        let is_read = self.search.only != Some(SearchedPart::Names);
        if is_read {
            let mut bytes = 0_u64;
            let fits = |file: &&FileEntry| {
                bytes = bytes.saturating_add(file.size);
                bytes <= self.search.max_bytes
            };
            files.truncate(files.iter().copied().take_while(fits).count());
        }
        let mut reads = pin!(read_all(store, &files));
        for Candidate { file, mut found, words } in candidates {
            let (mut text, mut lines) = (String::new(), Vec::new());
            if file.is_some() && is_read {
                let outcome = if self.report.stopped.is_none() { reads.next().await } else { None };
                if let Some(outcome) = outcome {
                    text = self.text_of(&found.path, outcome?);
                    lines = self.search_text(&text, &mut found, words).await;
                } else {
                    self.report.stopped.get_or_insert(StopReason::Bytes);
                    self.report.unsearched += 1;
                }
            }
            self.add(found, &lines, &text);
        }
        Ok(())
    }

    /// The text of a file that was read, or an empty one.
    fn text_of(&mut self, path: &StorePath, outcome: ReadOutcome) -> String {
        let reason = match outcome {
            ReadOutcome::Content(content) => match String::from_utf8(content) {
                Ok(text) if memchr::memchr(0, text.as_bytes()).is_none() => {
                    self.report.searched += 1;
                    return text;
                }
                _ => SkipReason::NotText,
            },
            ReadOutcome::Removed => return String::new(),
            ReadOutcome::Skipped(reason) => reason,
        };
        self.report.skip(path.to_string(), reason);
        String::new()
    }

    /// The matching lines to show, as far as a limit allows. All are counted. `in_path` are the words in the path.
    ///
    /// If lines have all words that the path lacks, only they match. Otherwise, all lines with a word do, if the path
    /// and the text have all words.
    async fn search_text(&mut self, text: &str, found: &mut FoundPath, in_path: WordSet) -> Vec<Line> {
        let all = self.matcher.all();
        let wanted = if self.search.paths_only || self.is_full { 0 } else { self.search.max_matches };
        let mut finder = LineFinder::new(self.matcher, text);
        let mut in_file = in_path;
        let (mut complete, mut partial) = (MatchingLines::default(), MatchingLines::default());
        while finder.start_part() {
            while let Some(line) = finder.next_match() {
                let words = in_path | self.matcher.words_in_match(&text[line.range.clone()]);
                in_file |= words;
                if words == all { &mut complete } else { &mut partial }.push(line, wanted);
            }
            if !self.pace.step().await {
                self.report.unsearched += u64::from(self.report.stopped.replace(StopReason::Timeout).is_none());
                break;
            }
        }
        if finder.too_long > 0 {
            self.report.skip(found.path.to_string(), SkipReason::LongLine);
        }
        let is_split = complete.number == 0 && in_file == all && !self.search.same_line;
        let matching = if is_split { partial } else { complete };
        found.matches = matching.number;
        matching.first
    }

    /// A path before its text is searched.
    fn candidate<'f>(&self, path: &StorePath, file: Option<&'f FileEntry>) -> Candidate<'f> {
        let (below_root, name) = (&path.as_str()[MEMORIES.len()..], path.file_name().unwrap_or_default());
        let (is_directory, all) = (file.is_none(), self.matcher.all());
        let (in_name, in_path) = match self.search.only {
            Some(SearchedPart::Text) => (0, 0),
            _ => self.matcher.words_in_path(below_root, name, is_directory),
        };
        let named = in_name | in_path & self.matcher.with_slash();
        let is_name_match = if self.search.same_line { named == all } else { named != 0 && in_path == all };
        let shown = if in_name == all { name } else { below_root };
        let start = path.as_str().len() - shown.len();
        let ranges = is_name_match.then(|| self.matcher.ranges(shown)).into_iter().flatten();
        let name_matches = ranges.map(|range| start + range.start..start + range.end).collect();
        let found =
            FoundPath { path: path.clone(), is_directory, is_name_match, name_matches, matches: 0, lines: Vec::new() };
        Candidate { file, found, words: if self.search.same_line { 0 } else { in_path } }
    }

    /// The directories above a file that are not above the previous one, from the outermost.
    fn new_directories(&self, path: &StorePath, previous: Option<&StorePath>) -> Vec<StorePath> {
        let is_new = |directory: &StorePath| {
            !directory.is_root()
                && !previous.is_some_and(|previous| previous.is_under(directory))
                && (self.within.is_empty() || self.within.iter().any(|place| directory.is_under(place)))
        };
        let has_new = previous.is_none_or(|previous| previous.parent() != path.parent());
        let mut directories: Vec<_> = has_new.then(|| path.parents().filter(is_new)).into_iter().flatten().collect();
        directories.reverse();
        directories
    }

    /// Adds a result if it has matches, as far as the limits allow.
    fn add(&mut self, mut found: FoundPath, lines: &[Line], text: &str) {
        let matches = found.matches + u64::from(found.is_name_match);
        if matches == 0 {
            return;
        }
        self.report.matches += matches;
        let mut shown = 0;
        if found.is_name_match || self.search.paths_only {
            shown = u64::from(self.fits(found.path.as_str().chars().count()));
        }
        if !self.search.paths_only {
            shown += self.show_lines(&mut found, lines, text);
        } else if shown > 0 {
            shown = matches;
        }
        self.report.more_matches += matches - shown;
        if shown > 0 {
            self.report.results.push(found);
        } else {
            self.report.more_paths += 1;
        }
    }

    /// Adds lines with their context, as far as the limits allow. Returns the number of matching ones.
    fn show_lines(&mut self, found: &mut FoundPath, lines: &[Line], text: &str) -> u64 {
        let (before, after) = self.search.context;
        for (index, line) in lines.iter().enumerate() {
            let first = found.lines.last().map_or(1, |last| last.number + 1);
            let free = lines.get(index + 1).map_or(usize::MAX, |next| next.number - line.number - 1);
            let around = lines_around(text, line, first, before, after.min(free));
            let shown: Vec<_> = around
                .into_iter()
                .map(|near| {
                    let matcher = (near.number == line.number).then_some(self.matcher);
                    found_line(near.number, &text[near.range], matcher, self.search.max_line_characters)
                })
                .collect();
            let path = if found.lines.is_empty() { found.path.as_str().chars().count() } else { 0 };
            if !self.fits(path + shown.iter().map(|line| line.text.chars().count()).sum::<usize>()) {
                return index as u64;
            }
            found.lines.extend(shown);
        }
        lines.len() as u64
    }

    /// Counts a match of this length as shown, unless it exceeds a limit.
    fn fits(&mut self, characters: usize) -> bool {
        self.is_full |= self.shown >= self.search.max_matches
            || self.characters.saturating_add(characters) > self.search.max_characters;
        if !self.is_full {
            self.shown += 1;
            self.characters += characters;
        }
        !self.is_full
    }
}

/// Whether a path is a place or inside it. Another program may have created the place with any name.
fn is_at(path: &str, place: &str) -> bool {
    path.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn location(item: &UnlistedItem) -> String {
    format!("{}/{}", item.directory, item.name)
}

/// Reads files, and returns them in their order. Each group is read at a time.
fn read_all<'a>(
    store: &'a (impl Store + ?Sized),
    files: &'a [&'a FileEntry],
) -> impl Stream<Item = Result<ReadOutcome, SearchError>> + 'a {
    let mut group = (1, files.first().map_or(0, |file| file.size));
    let groups = files.chunk_by(move |_, next| {
        let (number, bytes) = group;
        let fits = number < MAX_CONCURRENT_FILES && bytes.saturating_add(next.size) <= MAX_CONCURRENT_BYTES;
        group = if fits { (number + 1, bytes + next.size) } else { (1, next.size) };
        fits
    });
    let read = |file: &&'a FileEntry| read(store, &file.path);
    stream::iter(groups).flat_map(move |group| stream::iter(group).map(read).buffered(MAX_CONCURRENT_FILES))
}

async fn read(store: &(impl Store + ?Sized), path: &StorePath) -> Result<ReadOutcome, SearchError> {
    // The listing was current.
    let options = ReadOptions::new().for_command(ReadOptions::SEARCH).allow_stale();
    let error = match store.read_opts(path, options).await {
        Ok(Node::File(file)) => return Ok(ReadOutcome::Content(file.content)),
        Ok(Node::Absent | Node::Directory(_)) => return Ok(ReadOutcome::Removed),
        Err(error) => error,
    };
    let is_about_one_file = match &error {
        StoreError::Failure { kind, .. } => matches!(kind, ErrorKind::Damaged | ErrorKind::UnsupportedName),
        _ => true,
    };
    // On a disk with a bad sector, other files can still be read. If even a listing fails, stop.
    if !is_about_one_file && store.read_opts(&StorePath::memories(), ReadOptions::new()).await.is_err() {
        return Err(error.into());
    }
    let is_refused = matches!(error, StoreError::Refused { .. });
    Ok(ReadOutcome::Skipped(if is_refused { SkipReason::TooLarge } else { SkipReason::Unreadable }))
}

/// Stops a search after its time, and lets other tasks run.
struct Pace {
    deadline: Option<Instant>,
    last_yield: Instant,
}

impl Pace {
    /// The longest time between two yields, unless a part of a file takes longer.
    const MAX_TURN: Duration = Duration::from_millis(1);

    fn new(timeout: Duration) -> Self {
        let now = Instant::now();
        Self { deadline: now.checked_add(timeout), last_yield: now }
    }

    /// Called after each part. Returns whether there is time left.
    async fn step(&mut self) -> bool {
        let now = Instant::now();
        if now.duration_since(self.last_yield) >= Self::MAX_TURN {
            future::poll_fn(|context| {
                context.waker().wake_by_ref();
                Poll::Ready(())
            })
            .await;
            pending!(); // resumes, because its waker was called
            self.last_yield = Instant::now();
        }
        self.deadline.is_none_or(|deadline| now < deadline)
    }
}
