//! Tests of [`Search`] on whole stores.

use std::collections::BTreeSet;
use std::future::Future as _;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::search::pattern::{MAX_PATTERN_BYTES, MAX_PATTERN_WORDS, SearchError};
use crate::search::report::{SkipReason, SkippedItem, StopReason};
use crate::store::batch::Batch;
use crate::store::error::{ErrorKind, StoreError};
use crate::store::ext::StoreExt as _;
use crate::store::in_memory::InMemoryStore;
use crate::store::node::{FileTimes, Node, UnlistedItem, UnlistedReason};
use crate::store::store_path::StorePath;
use crate::store::{ReadOptions, Store};

fn path(path: &str) -> MemoryPath {
    path.parse().unwrap()
}

async fn store(files: &[(&str, &str)]) -> InMemoryStore {
    let store = InMemoryStore::new();
    for (name, text) in files {
        store.write(format!("/memories/{name}"), *text).await.unwrap();
    }
    store
}

async fn shown(search: Search, store: &impl Store) -> String {
    search.run(store).await.unwrap().to_string()
}

/// A store with files that cannot be read or listed.
#[derive(Debug)]
struct DamagedStore(InMemoryStore);

#[async_trait]
impl Store for DamagedStore {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        let name = path.file_name().unwrap_or_default();
        if name.starts_with("damaged") {
            return Err(StoreError::failure(ErrorKind::Damaged, "reading", "/host/path"));
        }
        if name == "large" {
            return Err(StoreError::too_large_to_read(path, 2, 1));
        }
        Ok(match self.0.read_opts(path, options).await? {
            Node::Directory(listing) => {
                let unlisted = [
                    ("/memories", "e\u{301}", UnlistedReason::IllegalName),
                    ("/memories/a", "locked", UnlistedReason::Unreadable),
                    ("/memories/.git", "locked", UnlistedReason::Unreadable),
                    ("/memories", "\u{1b}[2J\n", UnlistedReason::IllegalName),
                ];
                let unlisted = unlisted
                    .map(|(directory, name, reason)| UnlistedItem::new(directory.parse().unwrap(), name, reason));
                Node::Directory(listing.with_unlisted(unlisted.to_vec()))
            }
            node => node,
        })
    }

    async fn apply(&self, _: Batch) -> Result<(), StoreError> {
        unreachable!("a search changes nothing")
    }
}

#[tokio::test]
async fn everything_that_is_not_searched_is_reported() {
    let files = [("a/text", "tea"), ("damaged-tea", ""), ("large", ""), ("null", "tea\0"), (".hidden", "tea")];
    let inner = store(&files).await;
    inner.write("/memories/binary", b"tea\xff".to_vec()).await.unwrap();
    let damaged = DamagedStore(inner);
    let report = Search::new("tea").run(&damaged).await.unwrap();
    let skipped: Vec<_> = report.skipped.iter().map(|item| (item.path.as_str(), item.reason)).collect();
    let expected = [
        ("/memories/\\u{1b}[2J\\n", SkipReason::IllegalName),
        ("/memories/a/locked", SkipReason::Unreadable),
        ("/memories/binary", SkipReason::NotText),
        ("/memories/damaged-tea", SkipReason::Unreadable),
        ("/memories/e\u{301}", SkipReason::IllegalName),
        ("/memories/large", SkipReason::TooLarge),
        ("/memories/null", SkipReason::NotText),
    ];
    assert_eq!(skipped, expected);
    assert_eq!((report.matches, report.searched, report.hidden, report.is_complete()), (2, 1, 2, false));
    let text = report.to_string();
    for note in [
        "/memories/damaged-tea (name)\n\n/memories/a/text\n",
        "\n[2 items not searched, not text: /memories/binary, /memories/null.]",
        "\n[2 items not searched, unreadable: /memories/a/locked, /memories/damaged-tea.]",
        "\n[2 items not searched, with an illegal name: /memories/\\u{1b}[2J\\n, /memories/e\u{301}.]",
        "\n[2 hidden items not searched.]",
    ] {
        assert!(text.contains(note), "{note} {text}");
    }
    assert!(!text.contains("host"));
    let inside = Search::new("tea").within(path("/memories/a")).run(&damaged).await.unwrap();
    assert_eq!(inside.skipped, [SkippedItem { path: "/memories/a/locked".into(), reason: SkipReason::Unreadable }]);
    let locked = Search::new("tea").within(path("/memories/a/locked/b")).run(&damaged).await.unwrap();
    assert_eq!(locked.skipped, inside.skipped);
    let missing = Search::new("tea").within(path("/memories/b")).run(&damaged).await.unwrap_err();
    assert_eq!(missing.to_string(), "/memories/b does not exist");
    let hidden = Search::new("tea").within(path("/memories/.hidden")).run(&damaged).await.unwrap();
    assert_eq!((hidden.matches, hidden.hidden), (1, 0));
    assert_eq!(Search::new("tea").hidden().run(&damaged).await.unwrap().matches, 3);
}

#[tokio::test]
async fn the_number_of_listed_skipped_items_is_limited() {
    let names: Vec<_> = (0..103).map(|number| format!("damaged{number:03}")).collect();
    let files: Vec<_> = names.iter().map(|name| (name.as_str(), "")).collect();
    let report = Search::new("tea").run(&DamagedStore(store(&files).await)).await.unwrap();
    assert_eq!((report.skipped.len(), report.more_skipped), (100, 6));
    assert!(report.to_string().contains("[6 more items could not be searched.]"));
}

#[tokio::test]
async fn results_have_names_lines_and_context_in_order() {
    let files = [
        ("b", "1\ntea 2\n3\n4\n5\n6\ntea 7\ntea 8\n9\n10\n"),
        ("a/tea.md", "nothing"),
        ("a/tea/tea/x", "TEA\r\n"),
        ("a/tea/x", ""),
    ];
    let store = store(&files).await;
    let text = "/memories/a/tea/ (name)\n\n/memories/a/tea/tea/ (name)\n\n/memories/a/tea.md (name)\n\n\
                /memories/a/tea/tea/x\n1: TEA\n\n/memories/b\n1- 1\n2: tea 2\n3- 3\n4- 4\n--\n6- 6\n7: tea 7\n\
                8: tea 8\n9- 9\n10- 10";
    assert_eq!(shown(Search::new("tea").context(1, 2), &store).await, text);
    let names = shown(Search::new("tea").names_only(), &store).await;
    assert_eq!(names, "/memories/a/tea/ (name)\n\n/memories/a/tea/tea/ (name)\n\n/memories/a/tea.md (name)");
    let only_text = shown(Search::new("tea 7").text_only().within(path("/memories/b")), &store).await;
    assert_eq!(only_text, "/memories/b\n7: tea 7");
    let below = Search::new("tea").names_only().within(path("/memories/a/tea"));
    assert_eq!(shown(below, &store).await, "/memories/a/tea/tea/ (name)");
    assert_eq!(shown(Search::new("/tea.md"), &store).await, "/memories/a/tea.md (name)");
    assert_eq!(shown(Search::new(r"^/\w+/tea/x$").regex(), &store).await, "/memories/a/tea/x (name)");
    assert_eq!(
        shown(Search::new("tea").paths_only().text_only(), &store).await,
        "/memories/a/tea/tea/x (1 match)\n\n/memories/b (3 matches)"
    );
    assert_eq!(shown(Search::new("coffee"), &store).await, "No matches.");
    let json = serde_json::to_value(Search::new("tea 2").run(&store).await.unwrap()).unwrap();
    let line = serde_json::json!({"number": 2, "is_match": true, "text": "tea 2", "cut_before": 0, "cut_after": 0});
    assert_eq!(json["results"][0]["lines"], serde_json::json!([line]));
    assert_eq!((json["results"][0]["path"].as_str(), json["stopped"].is_null()), (Some("/memories/b"), true));
}

#[tokio::test]
async fn words_are_in_any_line_or_in_the_path() {
    let files = [
        ("acme/contact", "Name: Ada\nPhone: 17\n"),
        ("acme/phones", "Ada has two"),
        ("other/contact", "acme: phone 18, Ada\nphone\n"),
        ("other/list", "phone: none"),
    ];
    let store = store(&files).await;
    // All words are in the path, or complete lines hide those with a part, or lines with a part are all there are.
    let text = "/memories/acme/phones (name)\n\n/memories/acme/contact\n2: Phone: 17\n\n\
                /memories/other/contact\n1: acme: phone 18, Ada";
    assert_eq!(shown(Search::new("phone acme"), &store).await, text);
    let text = "/memories/acme/contact\n1: Name: Ada\n2: Phone: 17\n\n/memories/acme/phones\n1: Ada has two\n\n\
                /memories/other/contact\n1: acme: phone 18, Ada";
    assert_eq!(shown(Search::new("phone ada"), &store).await, text);
    let text = "/memories/other/contact\n1: acme: phone 18, Ada";
    assert_eq!(shown(Search::new("phone ada").same_line(), &store).await, text);
    assert_eq!(shown(Search::new("phone ada").text_only(), &store).await.matches("/memories").count(), 2);
    assert_eq!(shown(Search::new("phone acme").names_only(), &store).await, "/memories/acme/phones (name)");
    assert_eq!(shown(Search::new("phone acme").names_only().same_line(), &store).await, "No matches.");
    assert_eq!(shown(Search::new("acme/ phone").names_only(), &store).await, "/memories/acme/phones (name)");
    assert_eq!(shown(Search::new("\"phone ada\""), &store).await, "No matches.");
    let found = Search::new("phone acme").run(&store).await.unwrap();
    let marked = found.results[0].name_matches.iter().map(|range| &found.results[0].path.as_str()[range.clone()]);
    assert_eq!(marked.collect::<Vec<_>>(), ["acme", "phone"]);
}

#[tokio::test]
async fn accents_can_be_separate_and_words_with_a_slash_find_files() {
    let store = store(&[("acme/sub/x", "Lefe\u{300}vre"), ("b", "LEFÈVRE")]).await;
    let text = "/memories/acme/sub/x\n1: Lefe\u{300}vre\n\n/memories/b\n1: LEFÈVRE";
    for pattern in ["lefevre", "Lefèvre", "lefe\u{300}vre"] {
        assert_eq!(shown(Search::new(pattern), &store).await, text, "{pattern}");
    }
    assert_eq!(shown(Search::new("acme/s"), &store).await, "/memories/acme/sub/x (name)");
}

#[tokio::test]
async fn the_largest_patterns_are_searched() {
    let store = store(&[("a", "é"), ("b", "e")]).await;
    let letters = "eaouycsnlrtz".repeat(MAX_PATTERN_BYTES / 12);
    let words = |number| (1000..1000 + number).map(|word: usize| word.to_string()).collect::<Vec<_>>().join(" ");
    for pattern in [&letters, &words(MAX_PATTERN_WORDS)] {
        assert_eq!(shown(Search::new(pattern), &store).await, "No matches.");
    }
    let error = Search::new(words(MAX_PATTERN_WORDS + 1)).run(&store).await.unwrap_err().to_string();
    assert_eq!(error, "the pattern has 65 words; the limit is 64: put a phrase in double quotes");
}

#[tokio::test]
async fn limits_of_results_are_kept_and_the_rest_is_counted() {
    let files = [("a", "tea\ntea\ntea\n"), ("b", "tea\n"), ("tea", "tea")];
    let store = store(&files).await;
    for (limit, paths, more, more_paths) in [(0, 0, 6, 3), (2, 1, 4, 2), (3, 2, 3, 1), (5, 2, 1, 1), (6, 3, 0, 0)] {
        let report = Search::new("tea").max_matches(limit).run(&store).await.unwrap();
        assert_eq!((report.results.len(), report.more_matches, report.more_paths), (paths, more, more_paths));
        assert_eq!((report.matches, report.is_complete()), (6, more == 0), "{limit}");
    }
    for (limit, paths, more) in [(1, 1, 4), (3, 3, 0)] {
        let report = Search::new("tea").paths_only().max_matches(limit).run(&store).await.unwrap();
        assert_eq!((report.results.len(), report.more_matches), (paths, more));
    }
    // The path has 11 characters, and each line 3.
    for (characters, lines) in [(13, 0), (14, 1), (16, 1), (17, 2), (20, 3)] {
        let report = Search::new("tea").text_only().max_characters(characters).run(&store).await.unwrap();
        assert_eq!(report.results.first().map_or(0, |found| found.lines.len()), lines, "{characters}");
    }
    let note = "[4 more matches not shown, including 2 paths with no match shown.]";
    assert_eq!(
        shown(Search::new("tea").max_matches(2), &store).await,
        format!("/memories/tea (name)\n1: tea\n\n{note}")
    );
}

#[tokio::test]
async fn a_search_stops_at_its_limit_of_bytes_or_time() {
    let store = store(&[("a", "tea"), ("b", "tea"), ("tea", "tea")]).await;
    let report = Search::new("tea").max_bytes(5).run(&store).await.unwrap();
    assert_eq!((report.matches, report.searched, report.unsearched), (2, 1, 2));
    assert_eq!(report.stopped, Some(StopReason::Bytes));
    let report = Search::new("tea").timeout(Duration::ZERO).run(&store).await.unwrap();
    assert_eq!((report.matches, report.unsearched, report.stopped), (2, 3, Some(StopReason::Timeout)));
    assert!(report.to_string().ends_with("\n\n[3 files not searched: the search took too long.]"), "{report}");
}

#[tokio::test]
async fn dates_select_files_and_an_unknown_date_is_counted() {
    let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    let store = InMemoryStore::new();
    let write = |batch: Batch, seconds| {
        let times = FileTimes::new().modified(at(seconds));
        batch.write_with_times(path(&format!("/memories/{seconds}")), "tea", times)
    };
    store.apply([10, 20, 30].into_iter().fold(Batch::new(), write)).await.unwrap();
    for (search, found) in [
        (Search::new("tea").since(at(20)), &["/memories/20", "/memories/30"][..]),
        (Search::new("tea").before(at(20)), &["/memories/10"]),
        (Search::new("tea").since(at(11)).before(at(30)), &["/memories/20"]),
    ] {
        let report = search.run(&store).await.unwrap();
        assert_eq!(report.results.iter().map(|found| found.path.as_str()).collect::<Vec<_>>(), found);
        assert_eq!(report.undated, 0);
    }
    #[derive(Debug)]
    struct Undated(InMemoryStore);
    #[async_trait]
    impl Store for Undated {
        async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
            let mut node = self.0.read_opts(path, options).await?;
            if let Node::Directory(listing) = &mut node {
                listing.files.iter_mut().for_each(|file| file.modified = None);
            }
            Ok(node)
        }
        async fn apply(&self, _: Batch) -> Result<(), StoreError> {
            unreachable!("a search changes nothing")
        }
    }
    let report = Search::new("tea").since(at(0)).run(&Undated(store)).await.unwrap();
    assert_eq!((report.matches, report.undated, report.is_complete()), (0, 3, false));
}

#[tokio::test]
async fn a_huge_line_is_cut_and_a_regular_expression_skips_only_it() {
    let huge = format!("tea 1\n{}tea{}\ntea 3", "é".repeat(600_000), "x".repeat(9));
    let store = store(&[("huge", &huge)]).await;
    let text = shown(Search::new("tea"), &store).await;
    let cut = format!("[... 599712 characters ...]{}tea{}", "é".repeat(288), "x".repeat(9));
    assert_eq!(text, format!("/memories/huge\n1: tea 1\n2: {cut}\n3: tea 3"));
    let note = "[1 item not searched, with a line that is too long for a regular expression: /memories/huge.]";
    let text = shown(Search::new("te[a]").regex(), &store).await;
    assert_eq!(text, format!("/memories/huge\n1: tea 1\n3: tea 3\n\n{note}"));
}

#[test]
fn a_search_of_much_text_lets_other_tasks_run() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let text = "abc def\n".repeat(1 << 20);
    let store = runtime.block_on(store(&[("large", &text)]));
    let search = Search::new(r"\w+ \w+ \d").regex();
    let mut searching = pin!(search.run(&store));
    let mut turns = 0;
    let report = loop {
        turns += 1;
        if let Poll::Ready(report) = searching.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            break report.unwrap();
        }
    };
    assert_eq!((report.matches, report.searched), (0, 1));
    assert!(turns > 1);
}

#[test]
fn the_future_of_a_search_is_send() {
    fn is_send(_: impl Send) {}
    fn searches(search: &Search, shared: &std::sync::Arc<dyn Store>) {
        is_send(search.run(shared));
    }
    let _ = searches;
}

/// The matching names and the numbers of the matching lines, as `(path, is_name_match, lines)`. `matches` is given the
/// number of a word.
fn naive(
    files: &[(String, String)],
    words: usize,
    matches: impl Fn(usize, &str) -> bool,
) -> Vec<(String, bool, Vec<usize>)> {
    let mut found = Vec::new();
    for (name, text) in files {
        let words_in = |text: &str| (0..words).filter(|word| matches(*word, text)).collect::<BTreeSet<_>>();
        let in_name = words_in(name);
        let lines = text.strip_suffix('\n').unwrap_or(text).split('\n').zip(1..).filter(|_| !text.is_empty());
        let lines = lines.map(|(line, number)| (words_in(line.strip_suffix('\r').unwrap_or(line)), number));
        let lines: Vec<_> = lines.filter(|(words, _)| !words.is_empty()).collect();
        let numbers = |least: usize| {
            let has_least = |found: &BTreeSet<usize>| found.union(&in_name).count() >= least;
            lines.iter().filter(|(found, _)| has_least(found)).map(|(_, number)| *number).collect::<Vec<_>>()
        };
        let in_file = lines.iter().flat_map(|(words, _)| words).chain(&in_name).collect::<BTreeSet<_>>();
        let complete = numbers(words);
        let numbers = if complete.is_empty() && in_file.len() == words { numbers(0) } else { complete };
        let is_name_match = in_name.len() == words;
        if is_name_match || !numbers.is_empty() {
            found.push((format!("/memories/{name}"), is_name_match, numbers));
        }
    }
    found.sort_by_key(|(path, is_name_match, _)| (!is_name_match, path.clone()));
    found
}

fn files() -> impl Strategy<Value = Vec<(String, String)>> {
    let text = proptest::collection::vec("[abAé .]{0,5}(\r?\n){0,2}", 0..12).prop_map(|parts| parts.concat());
    // Some texts have several parts.
    let text = (text, 0..3_usize).prop_map(|(text, parts)| text.repeat(1 + parts * 4 * 1024 / text.len().max(1) * 3));
    proptest::collection::btree_map("[abAé]{1,3}", text, 0..4).prop_map(|files| files.into_iter().collect())
}

fn regular_expression() -> impl Strategy<Value = String> {
    let atom = prop_oneof!["[abAé.]", Just(r"\s".to_owned()), Just("[^a]".to_owned()), Just(r"\b".to_owned())];
    let anchor = prop_oneof![Just("^"), Just("$"), Just(r"\A"), Just(r"\z"), Just("(?s:.)"), Just("(?-m)^")];
    atom.prop_recursive(3, 12, 3, move |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(one, other)| one + &other),
            (inner.clone(), inner.clone()).prop_map(|(one, other)| format!("(?:{one}|{other})")),
            (inner.clone(), prop_oneof![Just("*"), Just("+?"), Just("{2}")])
                .prop_map(|(inner, times)| format!("(?:{inner}){times}")),
            (anchor.clone(), inner.clone()).prop_map(|(anchor, inner)| anchor.to_owned() + &inner),
            (inner, anchor.clone()).prop_map(|(inner, anchor)| inner + anchor),
        ]
    })
}

fn assert_finds(search: Search, files: &[(String, String)], expected: &[(String, bool, Vec<usize>)]) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let store = runtime.block_on(store(&files));
    let search = search.max_matches(usize::MAX).max_characters(usize::MAX).max_line_characters(usize::MAX);
    let report = runtime.block_on(search.clone().context(1, 0).run(&store)).unwrap();
    let found: Vec<_> = report
        .results
        .iter()
        .map(|found| {
            let lines = found.lines.iter().filter(|line| line.is_match).map(|line| line.number);
            (found.path.to_string(), found.is_name_match, lines.collect::<Vec<_>>())
        })
        .collect();
    assert_eq!(found, expected, "{search:?}");
    for found in &report.results {
        let (_, text) = files.iter().find(|(name, _)| found.path.as_str().ends_with(&format!("/{name}"))).unwrap();
        let lines: Vec<_> = text.split('\n').collect();
        for line in &found.lines {
            assert_eq!(line.text, lines[line.number - 1].trim_end_matches('\r'));
        }
        assert!(found.lines.is_sorted_by(|one, other| one.number < other.number));
    }
    assert!(report.is_complete());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn words_are_found_as_by_a_naive_search(pattern in "[abAé.]{1,3}( [abAé.]{1,2}){0,2}", files in files()) {
        let words: Vec<_> = pattern.split(' ').collect();
        let expected = naive(&files, words.len(), |word, line| line.contains(words[word]));
        assert_finds(Search::new(pattern.clone()).case(LetterCase::Sensitive), &files, &expected);
        let folded = |text: &str| text.to_lowercase().replace('é', "e");
        let expected = naive(&files, words.len(), |word, line| folded(line).contains(&folded(words[word])));
        assert_finds(Search::new(pattern), &files, &expected);
    }

    #[test]
    fn a_regular_expression_is_found_as_by_a_naive_search(pattern in regular_expression(), files in files()) {
        let line = regex::RegexBuilder::new(&pattern).multi_line(true).crlf(true).build().unwrap();
        let expected = naive(&files, 1, |_, text| line.is_match(text));
        assert_finds(Search::new(pattern).regex().case(LetterCase::Sensitive), &files, &expected);
    }
}

#[tokio::test]
async fn a_search_is_read_from_data() {
    let read = |data: serde_json::Value| serde_json::from_value::<Search>(data);
    let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    let data = json!({
        "pattern": "t.a", "regex": true, "case": "ignored", "within": ["/memories/a"], "since": 10,
        "before": "1970-01-01T00:00:20Z", "only": "text", "hidden": true, "context": 2, "paths_only": true,
        "max_matches": 3, "max_characters": 40, "max_line_characters": 50,
    });
    let built = Search::new("t.a").regex().case(LetterCase::Ignored).within("/memories/a".parse().unwrap());
    let built = built.since(at(10)).before(at(20)).text_only().hidden().context(2, 2).paths_only();
    assert_eq!(read(data).unwrap(), built.max_matches(3).max_characters(40).max_line_characters(50));
    assert_eq!(read(json!({"pattern": "tea"})).unwrap(), Search::new("tea"));
    for (data, message) in [
        (json!({"pattern": "tea", "case": "loud"}), "unknown variant `loud`"),
        (json!({"pattern": "tea", "since": "soon"}), "expected a time such as"),
        (json!({"pattern": "tea", "regexp": true}), "unknown field `regexp`"),
        (json!({"pattern": "tea", "timeout": 1}), "unknown field `timeout`"),
    ] {
        let error = read(data).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    let outside = read(json!({"pattern": "tea", "within": ["/etc"]})).unwrap();
    let error = outside.run(&InMemoryStore::new()).await.unwrap_err();
    assert!(matches!(error, SearchError::Store(StoreError::Path(_))), "{error:?}");
}
