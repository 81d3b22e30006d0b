//! `[V8]`: Reads a memory page by page, as Claude does, guided only by the note at the end of each reply.

use std::collections::{BTreeMap, BTreeSet};

use memory_tool_core::{
    Batch, DEFAULT_MAX_VIEW_CHARACTERS, Engine, Error, InMemoryStore, MemoryTool, Store, StorePath,
};
use memory_tool_test_fixtures::faults::block_on;
use memory_tool_test_fixtures::{by_tier, property};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

type Files = BTreeMap<String, String>;

/// A client that knows the memory only from replies.
struct Reader {
    tool: Engine<InMemoryStore>,
    cap: usize,
    calls: usize,
    /// The length of the longest reply, in characters.
    longest: usize,
}

struct Page {
    lines: Vec<String>,
    note: Option<Note>,
}

#[derive(Debug)]
enum Note {
    /// The page has the lines up to `last`.
    Lines { first: usize, last: usize, total: usize },
    /// The page has only the first `shown` characters of the line.
    Characters { line: usize, total: usize, length: usize, shown: usize },
}

impl Reader {
    async fn new(files: &Files, cap: usize) -> Self {
        let batch = files
            .iter()
            .fold(Batch::new(), |batch, (path, text)| batch.write(path.parse::<StorePath>().unwrap(), text.as_str()));
        let store = InMemoryStore::new();
        store.apply(batch).await.unwrap();
        let tool = Engine::builder(store).max_view_characters(cap).build();
        Self { tool, cap, calls: 0, longest: 0 }
    }

    async fn read_all(&mut self) -> Files {
        let mut files = Files::new();
        for path in self.list_files().await {
            let text = self.read_file(&path).await;
            files.insert(path, text);
        }
        files
    }

    /// Returns every listed file, and checks that each is listed once.
    async fn list_files(&mut self) -> BTreeSet<String> {
        let (mut files, mut directories) = (BTreeSet::new(), vec!["/memories".to_owned()]);
        while let Some(directory) = directories.pop() {
            let lines = self.list(&directory).await;
            let paths: Vec<_> = lines.iter().map(|line| line.split_once('\t').unwrap().1).collect();
            assert_eq!(paths[0], directory);
            for path in &paths[1..] {
                match path.strip_suffix('/') {
                    None => assert!(files.insert((*path).to_owned()), "{path} is listed twice"),
                    // This listing already has the files of the other directories.
                    Some(path) if is_two_levels_below(path, &directory) => directories.push(path.to_owned()),
                    Some(_) => {}
                }
            }
        }
        files
    }

    async fn list(&mut self, directory: &str) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let page = self.view(directory, lines.len() + 1).await;
            let count = page.lines.len();
            assert!(count == 1 || length(&page.lines) <= self.cap, "{directory}: {:?}", page.lines);
            lines.extend(page.lines);
            match page.note {
                None => return lines,
                Some(Note::Lines { first, last, total }) => {
                    assert!(first + count == last + 1 && last == lines.len() && last < total);
                }
                Some(note) => panic!("{directory}: {note:?}"),
            }
        }
    }

    /// Reads a file. Breaks lines that do not fit into one page, and joins them in the result.
    async fn read_file(&mut self, path: &str) -> String {
        let (mut text, mut next, mut is_broken) = (String::new(), 1, false);
        loop {
            let page = self.view(path, next).await;
            if let Some(Note::Characters { line, length, shown, total }) = page.note {
                let [text] = &page.lines[..] else { panic!("{path}: {:?}", page.lines) };
                let text = numbered(text, line);
                assert!(line == next && line <= total && text.chars().count() == shown && shown < length);
                assert!(shown == 1 || page.lines[0].chars().count() == self.cap);
                self.break_line(path, line, text).await;
                is_broken = true;
                continue;
            }
            assert!(length(&page.lines) <= self.cap || page.lines.len() == 1 && page.lines[0].len() <= 11);
            for (number, line) in (next..).zip(&page.lines) {
                text.push_str(numbered(line, number));
                let ends_at_break = is_broken && number == next;
                text.push_str(if ends_at_break { "" } else { "\n" });
            }
            is_broken = false;
            let Some(Note::Lines { first, last, total }) = page.note else {
                assert_eq!(text.pop(), Some('\n'));
                return text;
            };
            assert!(first == next && last + 1 == first + page.lines.len() && last < total);
            next = last + 1;
        }
    }

    /// Breaks a line after the visible words.
    async fn break_line(&mut self, path: &str, line: usize, shown: &str) {
        let starts: Vec<_> = shown.char_indices().map(|(start, _)| start).rev().collect();
        for words in [8, 64, 512, usize::MAX] {
            let last_words = &shown[starts[words.min(starts.len()) - 1]..];
            if self.replace(path, last_words, &format!("{last_words}\n")).await.is_ok() {
                return;
            }
        }
        // These words are not unique in the file. Insert a unique line above them, then remove it with the replacement.
        let mark = format!("<break {}>", self.calls);
        let insert = json!({"command": "insert", "path": path, "insert_line": line - 1, "insert_text": mark});
        self.call(insert).await.unwrap();
        self.replace(path, &format!("{mark}\n{shown}"), &format!("{shown}\n")).await.unwrap();
    }

    async fn replace(&mut self, path: &str, old: &str, new: &str) -> Result<(), Error> {
        let reply = self.call(json!({"command": "str_replace", "path": path, "old_str": old, "new_str": new})).await?;
        let page = Page::parse(&reply);
        assert!(length(&page.lines) <= self.cap || page.lines.len() == 1 && page.lines[0].len() <= 11, "{reply}");
        Ok(())
    }

    async fn view(&mut self, path: &str, line: usize) -> Page {
        let range = if line == 1 { Value::Null } else { json!([line, -1]) };
        Page::parse(&self.call(json!({"command": "view", "path": path, "view_range": range})).await.unwrap())
    }

    async fn call(&mut self, input: Value) -> Result<String, Error> {
        self.calls += 1;
        let reply = self.tool.call(input).await?.to_string();
        self.longest = self.longest.max(reply.chars().count());
        Ok(reply)
    }
}

impl Page {
    fn parse(reply: &str) -> Self {
        let mut lines: Vec<_> = reply.split('\n').skip(1).map(str::to_owned).collect();
        let note = lines.pop_if(|line| !line.contains('\t')).map(|note| Note::parse(&note));
        Self { lines, note }
    }
}

impl Note {
    fn parse(note: &str) -> Self {
        let numbers: Vec<usize> =
            note.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect();
        match numbers[..] {
            [first, last, total, next, 1] => {
                assert_eq!(next, last + 1);
                let expected =
                    format!("[Showing lines {first}-{last} of {total}. To read on, use view_range [{next}, -1].]");
                assert_eq!(note, expected);
                Self::Lines { first, last, total }
            }
            [line, total, length, shown, ref next @ ..] => {
                let mut expected = format!(
                    "[Line {line} of {total} has {length} characters; the first {shown} are shown. \
                     To read the rest, use str_replace to break the line after the last words shown."
                );
                if line < total {
                    assert_eq!(*next, [line + 1, 1]);
                    expected += &format!(" To continue with the next line, use view_range [{}, -1].", line + 1);
                }
                assert_eq!(note, expected + "]");
                Self::Characters { line, total, length, shown }
            }
            _ => panic!("{note}"),
        }
    }
}

/// Returns the number of characters of the lines, including the line feeds between them.
fn length(lines: &[String]) -> usize {
    lines.join("\n").chars().count()
}

/// Returns a line without its number.
fn numbered(line: &str, number: usize) -> &str {
    line.strip_prefix(&format!("{number:6}\t")).unwrap()
}

fn is_two_levels_below(path: &str, directory: &str) -> bool {
    path[directory.len()..].matches('/').count() == 2
}

fn is_visible(path: &str) -> bool {
    !path.split('/').any(|name| name.starts_with('.') || name == "node_modules")
}

fn name() -> impl Strategy<Value = String> {
    let odd =
        select("a|b|a.b|a b|Ä|日本語|🧠|[x].ts|100%|'|..a|.hidden|node_modules|-|{}".split('|').collect::<Vec<_>>());
    prop_oneof![8 => odd.prop_map(str::to_owned), 3 => "[a-z]{1,30}", 1 => "[é-ö]{80,120}"]
}

fn line() -> impl Strategy<Value = String> {
    let short = select(
        "|x|two words|\r|Grüße|記憶|\t|     2\tfake|[Showing lines 1-1 of 9. To read on]"
            .split('|')
            .collect::<Vec<_>>(),
    );
    let words = prop::collection::vec(select(vec!["memory", "of", "Grüße", "🧠", "a"]), 1..40)
        .prop_map(|words| words.join(" "));
    let pattern =
        (select(vec!["x", "ab", "é", "the same "]), 1_usize..300).prop_map(|(word, count)| word.repeat(count));
    prop_oneof![6 => short.prop_map(str::to_owned), 2 => words, 1 => pattern]
}

fn text() -> impl Strategy<Value = String> {
    let few = prop::collection::vec(line(), 0..12).prop_map(|lines| lines.join("\n"));
    let many = (line(), 12_usize..80).prop_map(|(line, count)| format!("{line}\n").repeat(count));
    prop_oneof![5 => few, 1 => many]
}

fn files() -> impl Strategy<Value = Files> {
    let path = prop::collection::vec(name(), 1..6).prop_map(|names| format!("/memories/{}", names.join("/")));
    let few = prop::collection::vec((path, text()), 0..8);
    let many = (name(), 0_usize..60).prop_map(|(directory, count)| {
        (0..count).map(move |number| (format!("/memories/{directory}/{number}"), String::new())).collect::<Vec<_>>()
    });
    (few, many).prop_map(|(few, many)| {
        let mut files = Files::new();
        for (path, text) in few.into_iter().chain(many) {
            let lies_in = |inner: &str, outer: &str| inner.starts_with(&format!("{outer}/"));
            if path.len() < 1_024 && !files.keys().any(|other| lies_in(other, &path) || lies_in(&path, other)) {
                files.insert(path, text);
            }
        }
        files
    })
}

proptest! {
    #![proptest_config(property(64, 2_000))]

    #[test]
    fn notes_lead_to_every_line_exactly_once(
        mut files in files(),
        cap in select(vec![0, 1, 8, 20, 64, 200, 1_000, DEFAULT_MAX_VIEW_CHARACTERS]),
    ) {
        for text in files.values_mut() {
            *text = text.chars().take(40 * cap.max(1)).collect(); // a few pages, not thousands
        }
        let read = block_on(async { Reader::new(&files, cap).await.read_all().await });
        let visible: Files = files.into_iter().filter(|(path, _)| is_visible(path)).collect();
        prop_assert_eq!(read, visible);
    }
}

/// Returns the number of calls and the length of the longest reply.
async fn read(files: Files) -> (usize, usize) {
    let mut reader = Reader::new(&files, DEFAULT_MAX_VIEW_CHARACTERS).await;
    assert!(reader.read_all().await == files, "the files differ");
    (reader.calls, reader.longest)
}

/// The maximum length of a header and a note.
const MARGIN: usize = 400;

#[tokio::test]
async fn large_directories_are_listed_completely() {
    let list = async |files: Files| {
        let mut reader = Reader::new(&files, DEFAULT_MAX_VIEW_CHARACTERS).await;
        assert!(reader.list_files().await.into_iter().eq(files.into_keys()));
        assert!(reader.longest < 16_000 + MARGIN, "{}", reader.longest);
        reader.calls
    };
    let empty = |path: String| (path, String::new());
    assert_eq!(list((0..2_000).map(|number| empty(format!("/memories/{number:04}.md"))).collect()).await, 3);
    assert_eq!(list((0..600).map(|number| empty(format!("/memories/{number:03}/a/b.md"))).collect()).await, 602);
    assert_eq!(list((0..10_000).map(|number| empty(format!("/memories/{number:05}.md"))).collect()).await, 14);
}

#[tokio::test]
async fn long_files_are_read_completely() {
    let bytes = by_tier(400_000, 2_000_000);
    let file = |text: String| Files::from([("/memories/long.txt".to_owned(), text)]);
    let words = ["memory", "Grüße", "記憶", "🧠", "a b"];
    let mut lines = String::new();
    for number in 0.. {
        if lines.len() >= bytes {
            break;
        }
        lines.push_str(&words[number % words.len()].repeat(number * 7 % 150));
        lines.push('\n');
    }
    let (calls, longest) = read(file(lines)).await;
    assert!(calls > bytes / 40_000 && longest < 16_000 + MARGIN, "{calls} {longest}");
    let (calls, longest) = read(file((0..bytes / 8).map(|number| format!("{number:07} ")).collect())).await;
    assert!(calls < bytes / 3_300 && longest < 16_000 + MARGIN, "{calls} {longest}");
    let (_, longest) = read(file("\n".repeat(50_000))).await;
    assert!(longest < 16_000 + MARGIN, "{longest}");
}

#[tokio::test]
async fn a_long_line_of_one_character_is_read_completely() {
    let (calls, _) = read(Files::from([("/memories/x.txt".to_owned(), "x".repeat(100_000))])).await;
    assert!(calls < 80, "{calls}");
}
