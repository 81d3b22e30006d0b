use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use memory_tool_core::Batch;
use proptest::prelude::{ProptestConfig, prop, prop_assert_eq, proptest};
use tokio::runtime;

use super::*;

fn block_on<T>(work: impl Future<Output = T>) -> T {
    runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

async fn memory_with(files: &[(&str, &str)]) -> Memory {
    let memory = Memory::open("in-process:").await.unwrap();
    for (name, text) in files {
        memory.write(format!("/memories/{name}"), *text).await.unwrap();
    }
    memory
}

fn report(files: &[(&str, &str)], options: &LintOptions) -> LintReport {
    block_on(async { memory_with(files).await.lint(options).await.unwrap() })
}

/// The findings of a rule as `name:line: message`.
fn found(rule: LintRule, files: &[(&str, &str)]) -> Vec<String> {
    let found = report(files, &LintOptions::new().only(rule)).findings.into_iter().map(|finding| {
        assert_eq!(finding.rule, rule);
        let path = finding.path.as_str();
        let name = path.strip_prefix("/memories/").unwrap_or(path);
        let line = finding.line.map_or_else(String::new, |line| format!(":{line}"));
        format!("{name}{line}: {}", finding.message)
    });
    found.collect()
}

/// The places of the findings of a rule.
fn places(rule: LintRule, files: &[(&str, &str)]) -> Vec<String> {
    let place = |found: String| found.split_once(": ").unwrap().0.to_owned();
    found(rule, files).into_iter().map(place).collect()
}

const NONE: [&str; 0] = [];

#[test]
fn a_rule_has_a_name_and_can_be_turned_off() {
    for rule in LintRule::ALL {
        assert_eq!(rule.name().parse(), Ok(*rule));
        assert_eq!(serde_json::to_value(rule).unwrap(), rule.to_string());
        let others = LintRule::ALL.iter().filter(|other| *other != rule);
        let others = others.copied().fold(LintOptions::new(), LintOptions::only);
        assert!(!others.is_on(*rule) && LintOptions::new().is_on(*rule));
        assert!(!LintOptions::new().off(*rule).only(*rule).is_on(*rule));
    }
    let error = "Orphan".parse::<LintRule>().unwrap_err().to_string();
    assert!(error.starts_with("expected one of long-index, cut-view, "), "{error}");
}

#[test]
fn a_long_index_is_cut_by_lines_or_bytes() {
    let lines = |number: usize, length: usize| format!("{}\n", "x".repeat(length - 1)).repeat(number);
    let found = |name: &str, text: &str| found(LintRule::LongIndex, &[(name, text)]);
    let message = |cut| format!("Claude Code loads 200 lines and 25,000 bytes of an index, and cuts {cut} from here");
    assert_eq!(found("MEMORY.md", &lines(200, 125)), NONE);
    assert_eq!(found("MEMORY.md", &lines(201, 2)), [format!("MEMORY.md:201: {}", message("1 line"))]);
    assert_eq!(found("a/index.md", &(lines(199, 1) + "x\ny")), [format!("a/index.md:201: {}", message("1 line"))]);
    assert_eq!(found("index.md", &lines(101, 250)), [format!("index.md:101: {}", message("1 line"))]);
    assert_eq!(found("index.md", &"é".repeat(12_501)), [format!("index.md:1: {}", message("1 line"))]);
    assert_eq!(found("notes.md", &lines(300, 250)), NONE);
}

#[test]
fn a_cut_view_is_reported_with_its_line() {
    // A number and a tab take seven characters.
    let line = format!("{}\n", "é".repeat(72));
    let found = |text: &str| found(LintRule::CutView, &[("a.md", text)]);
    assert_eq!(found(&line.repeat(199)), NONE);
    assert_eq!(found(&line.repeat(201)), ["a.md:201: `view` stops before this line, and leaves out 2 lines"]);
    let long = format!("{}\nb", "x".repeat(20_000));
    assert_eq!(found(&long), ["a.md:1: `view` shows 15993 of the 20000 characters of this line"]);
    let many = found(&"\n".repeat(999_999));
    assert_eq!(many, ["a.md: `view` fails: File /memories/a.md exceeds maximum line limit of 999,999 lines."]);
}

#[test]
fn files_that_the_listing_leaves_out_are_counted() {
    let found =
        |files: &[&str]| found(LintRule::CutListing, &files.iter().map(|name| (*name, "x")).collect::<Vec<_>>());
    assert_eq!(found(&["a", "b/c", "d/e"]), NONE);
    let left_out = found(&["a/b/c", "a/b/d/e/f", "a/b/.g", "a/c/d", ".h/i", ".j", "a/node_modules/k"]);
    let expected = [
        "/memories: `view /memories` leaves out 2 files with a hidden name or directory",
        "a: `view /memories` leaves out 1 file with a hidden name or directory",
        "a/b: `view /memories` leaves out 3 files, more than 2 levels deep",
        "a/c: `view /memories` leaves out 1 file, more than 2 levels deep",
    ];
    assert_eq!(left_out, expected);
    let names: Vec<_> = (0..400).map(|number| format!("{number:050}")).collect();
    let many = found(&names.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(many, ["/memories: `view /memories` shows 250 of 401 lines"]);
}

#[test]
fn a_file_is_an_orphan_unless_another_one_names_it() {
    let orphans = |index: &str, others: &[&'static str]| {
        let files = [("MEMORY.md", index)].into_iter().chain(others.iter().map(|name| (*name, "x")));
        places(LintRule::Orphan, &files.collect::<Vec<_>>())
    };
    let all = ["a.md", "d/b.md", "d/my notes.md", ".hidden", "d/e/index.md"];
    assert_eq!(orphans("# Index", &all), ["a.md", "d/b.md", "d/my notes.md"]);
    for named in [
        "[a](a.md) [b](/memories/d/b.md) [n](d/my%20notes.md)",
        "[[a]] [[d/b|B]] [[my notes#plan]]",
        "a.md, (b.md), `my notes.md`.",
        "See /memories/a.md. And d/b.md: \"d/my notes.md\"",
        "~/memory/a.md ./d/",
        "a.md [all](d)",
        "[[A]] [[D/B]] [[My Notes.MD]]",
        "---\nrelated: [\"[[a]]\", \"[[D/B|b]]\"]\nup: \"[[my notes]]\"\n---\n",
    ] {
        assert_eq!(orphans(named, &all), NONE, "{named}");
    }
    for other in ["aa.md a.mdx a.md.bak x-a.md", "A.md", "/memories", "[all](..) ./", "`[a](b.md)`", "https://x.y/[a]"]
    {
        assert_eq!(orphans(other, &["a.md"]), ["a.md"], "{other}");
    }
    assert_eq!(orphans("c/b.md", &["c/b.md", "d/b.md"]), ["d/b.md"]);
    let selves = [("index.md", "b.md"), ("a.md", "a.md [a](a.md) [[a]]"), ("b.md", "")];
    assert_eq!(places(LintRule::Orphan, &selves), ["a.md"]);
    assert_eq!(places(LintRule::Orphan, &[("a.md", "x"), ("b.md", "x")]), NONE);
    assert_eq!(places(LintRule::Orphan, &[("a.md", "x"), ("d/index.md", "x"), ("d/e/b.md", "x")]), ["d/e/b.md"]);
}

#[test]
fn a_link_to_no_file_is_broken() {
    let found = |text: &str| {
        let files =
            [("d/a.md", text), ("d/b.md", "x"), ("c d.md", "x"), ("e.f.md", "x"), ("g/.h", "x"), ("i.png", "x")];
        found(LintRule::BrokenLink, &files)
    };
    for good in [
        "[b](b.md) [b](./b.md#x) [b](b.md?raw) [c](../c%20d.md) [c](</memories/c d.md>)",
        "[d](../d) [d](.) [m](/memories)",
        "[[b]] [[c d|C]] [[d/b#x]] [[b.md]] [[e.f]] ![[i.png]] [[#here]] [[ -f a ]] ![i](../i.png) [h](../g/.h)",
        "[x](https://example.org/x.md) <mailto:a@example.org> [x](mailto:x) [x](#x) [x](//x.org/y) [x](/etc/y) []()",
        "[[B]] [[C D|C]] [[I.PNG]]",
        "---\ntitle: \"[x](x.md)\"\n---\n",
        "`[x](x.md)`\n```\n[[x]]\n```\n\n    [x](x.md)\n\n<!-- [x](x.md) -->\n\n\\[x](x.md)",
    ] {
        assert_eq!(found(good), NONE, "{good}");
    }
    let broken =
        found("[x](x.md)\n\n- ![y](../y%20z.png)\n\n| a |\n|---|\n| [[zz]] |\n\n[r]\n\n[r]: /memories/r\n[[b\\|x.md]]");
    let expected = [
        "d/a.md:1: the link leads to no file: x.md",
        "d/a.md:3: the link leads to no file: ../y%20z.png",
        "d/a.md:7: the link leads to no file: zz",
        "d/a.md:9: the link leads to no file: /memories/r",
    ];
    assert_eq!(broken[..4], expected);
    let long = found(&format!("[x]({})", "éé/".repeat(67)));
    assert_eq!(long, [format!("d/a.md:1: the link leads to no file: {}éé…", "éé/".repeat(66))]);
    assert_eq!(self::found(LintRule::BrokenLink, &[("a.txt", "[x](x.md)")]), NONE);
}

#[test]
fn a_long_paragraph_may_not_repeat() {
    let words = "word ".repeat(16) + "end";
    let wrapped = words.replacen(' ', " \t\n  ", 3);
    let short = "word ".repeat(15) + "end.";
    assert_eq!((words.len(), short.len()), (83, 79));
    let files = [("a", &*format!("# A\n\n{words}\n")), ("b", &format!("x\n\n{wrapped}\r\n\r\n\n{words}"))];
    let expected = ["b:3: the paragraph is also in /memories/a:3", "b:9: the paragraph is also in /memories/a:3"];
    assert_eq!(found(LintRule::RepeatedParagraph, &files), expected);
    // Front matter is data.
    let data = format!("---\nnote: {words}\n---\n");
    let files = [("a.md", &*data), ("b.md", &*format!("{data}\n{words}")), ("c.md", &*format!("{data}{words}"))];
    let expected = ["c.md:4: the paragraph is also in /memories/b.md:5"];
    assert_eq!(found(LintRule::RepeatedParagraph, &files), expected);
    let ruled = format!("---\n\n{words}\n\n---\n");
    assert_eq!(places(LintRule::RepeatedParagraph, &[("a.md", &*ruled), ("b.md", &*ruled)]), ["b.md:3"]);
    let rule = "-".repeat(100);
    for different in [[&words, &short], [&short, &short], [&words, &words.replace("end", "ends")], [&rule, &rule]] {
        let files = [("a", different[0].as_str()), ("b", different[1])];
        assert_eq!(found(LintRule::RepeatedParagraph, &files), NONE);
    }
}

#[test]
fn paths_may_not_differ_only_by_case() {
    let message = |other| format!("the path differs from /memories/{other} only by upper and lower case");
    let files = [("A/x.md", ""), ("a/x.md", ""), ("a/y.md", ""), ("b.md", ""), ("É.md", ""), ("é.md", "")];
    let expected = [format!("a: {}", message("A")), format!("é.md: {}", message("É.md"))];
    assert_eq!(found(LintRule::Case, &files), expected);
    assert_eq!(found(LintRule::Case, &[("a/x", ""), ("b/X", ""), ("c/x", "")]), NONE);
}

#[test]
fn empty_files_and_conflicts_are_reported() {
    let files = [("a", ""), ("b", " \n\u{3000}"), ("c", "x")];
    assert_eq!(found(LintRule::Empty, &files), ["a: the file is empty", "b: the file has only white space"]);
    let conflict = "x\n<<<<<<< ours\na\n=======\r\nb\n>>>>>>> theirs\n";
    assert_eq!(places(LintRule::MergeMarker, &[("a", &*conflict.repeat(2))]), ["a:2", "a:8"]);
    for other in [
        "Title\n=======\n",
        " <<<<<<< a\n=======\n>>>>>>> b",
        "=======\n<<<<<<< a\n>>>>>>> b",
        "<<<<<<< a\n========\n>>>>>>> b",
        "<<<<<<<\n=======\n>>>>>>> b",
    ] {
        assert_eq!(places(LintRule::MergeMarker, &[("a", other)]), NONE, "{other}");
    }
}

#[test]
fn a_secret_is_reported_and_never_printed() {
    let token = format!("ghp_{}", "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1bC2");
    let text = format!("Notes\n\nToken: {token}\n\n[link]({token})\n");
    let report = report(&[("a.md", &text), ("b.md", "ghp_xxxx")], &LintOptions::new());
    let lines = |rule| {
        report.findings.iter().filter(move |found| found.rule == rule).map(|found| found.line).collect::<Vec<_>>()
    };
    assert_eq!(lines(LintRule::Secret), [Some(3), Some(5)]);
    assert_eq!(lines(LintRule::BrokenLink), [Some(5)]);
    assert_eq!(report.findings[0].message, "the line has sensitive data: GitHub token");
    assert!(!serde_json::to_string(&report).unwrap().contains(&token[..12]));
}

#[test]
fn invisible_characters_are_reported_outside_of_emoji_and_scripts() {
    let found = |text: &str| found(LintRule::Invisible, &[("a", text)]);
    for text in [
        "\u{feff}a\tb\r\n",
        "❤\u{fe0f} 1\u{fe0f}\u{20e3} 👩\u{200d}🚀 👩🏽\u{200d}🚀 ❤\u{fe0f}\u{200d}🔥 ©\u{fe0f} ☎\u{fe0e}",
        "می\u{200c}خواهم क\u{94d}\u{200d}ष",
        "naïve — “text” שלום 日本語",
        "🏴\u{e0067}\u{e0062}\u{e0077}\u{e006c}\u{e0073}\u{e007f} 🏴\u{200d}☠\u{fe0f}",
    ] {
        assert_eq!(found(text), NONE, "{text:?}");
    }
    for hidden in
        "\u{ad}\u{200b}\u{200e}\u{202e}\u{2060}\u{2066}\u{e0041}\u{feff}\u{3164}\u{fe01}\u{200d}\u{200c}".chars()
    {
        for (before, after) in [("a", "b"), ("", "🚀"), ("é", "é"), ("\u{feff}", ""), ("❤\u{fe0f}", "x")] {
            let text = format!("x\n{before}{hidden}{after}{hidden}");
            let code = u32::from(before.chars().next().filter(|first| *first == '\u{feff}').unwrap_or(hidden));
            assert_eq!(found(&text), [format!("a:2: the line has an invisible character, U+{code:04X}")], "{text:?}");
        }
    }
    for text in [
        "\u{feff}\u{feff}",
        "❤\u{fe0f}\u{fe0f}",
        "🏴\u{e0067}\u{e007f}",
        "🏴\u{e0067}\u{e0062}\u{e0077}",
        "x\u{fe0f}",
        "م\u{200c}\u{200c}",
    ] {
        assert_eq!(found(text).len(), 1, "{text:?}");
    }
}

/// A file of an attacker has many of them.
#[test]
fn a_file_with_many_findings_hides_none_of_others() {
    let hidden = "x\u{200b}\n";
    let (many, one) = (hidden.repeat(2_000), hidden.to_owned());
    let LintReport { findings, more, .. } =
        report(&[("a.md", many.as_str()), ("b.md", &one)], &LintOptions::new().only(LintRule::Invisible));
    let of = |name: &str| findings.iter().filter(|found| found.path.as_str().ends_with(name)).count();
    assert_eq!((of("a.md"), of("b.md"), more), (20, 1, 1_980));
}

#[test]
fn findings_are_sorted_limited_and_within_a_place() {
    let text = "[x](x.md)\n\n[y](y.md)\u{200b}\n\n[z](z.md)\n";
    let files = [("b/c.md", text), ("a.md", text), ("d.md", "")];
    let first = LintOptions::new().max_findings(4);
    let LintReport { files: checked, findings, more, .. } = report(&files, &first);
    let found: Vec<_> = findings.iter().map(|found| (found.path.as_str(), found.line, found.rule.name())).collect();
    let (a, c) = ("/memories/a.md", "/memories/b/c.md");
    let expected = [
        (a, Some(1), "broken-link"),
        (a, Some(3), "broken-link"),
        (a, Some(3), "invisible"),
        (a, Some(5), "broken-link"),
        (c, Some(1), "broken-link"),
        (c, Some(3), "invisible"),
        ("/memories/d.md", None, "empty"),
    ];
    assert_eq!((checked, found.as_slice(), more), (3, &expected[..], 2));
    let within = |path: &str| first.clone().within(path.parse().unwrap());
    assert_eq!((report(&files, &within("/memories/b")).findings.len(), report(&files, &within(a)).more), (4, 0));
    block_on(async {
        let missing = memory_with(&files).await.lint(&within("/memories/e")).await;
        assert!(matches!(missing, Err(StoreError::NotFound { path }) if path.as_str() == "/memories/e"));
    });
}

/// Records the commands of reads of files, and refuses one.
#[derive(Debug)]
struct Recording {
    inner: Arc<dyn Store>,
    commands: Arc<Mutex<Vec<Option<&'static str>>>>,
}

#[async_trait]
impl Store for Recording {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        if !path.is_root() {
            self.commands.lock().unwrap().push(options.command());
        }
        if path.as_str() == "/memories/b" {
            return Err(StoreError::refused(path, "test", "too large"));
        }
        self.inner.read_opts(path, options).await
    }

    async fn apply(&self, _: Batch) -> Result<(), StoreError> {
        unreachable!("a check changes nothing")
    }
}

#[test]
fn a_check_is_no_use_of_files_and_skips_those_that_it_cannot_read() {
    let commands = Arc::default();
    let report = block_on(async {
        let memory = memory_with(&[("a", "x"), ("b", "x"), ("c", "x\0"), ("d", "")]).await;
        memory.write("/memories/e", [0xff]).await.unwrap();
        let recording = |inner| Arc::new(Recording { inner, commands: Arc::clone(&commands) }) as Arc<dyn Store>;
        memory.layered(recording).lint(&LintOptions::new()).await.unwrap()
    });
    assert_eq!((report.files, report.skipped, report.findings.len()), (2, 3, 1));
    assert_eq!(*commands.lock().unwrap(), [Some(ReadOptions::SEARCH); 5]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn any_texts_have_the_same_findings_each_time(
        texts in prop::collection::vec(
            prop::collection::vec(
                prop::sample::select(vec![
                    "[", "]", "(", ")", "[[", "]]", "|", "#", "a", "A.md", "/", ".", "..", "%", "%2f", "é", "🚀",
                    "\u{200d}",
                    "\u{fe0f}", "\n", "\n\n", "    ", "`", "<<<<<<< ", "=======", ">>>>>>> ", "password=hunter2x ", "!",
                    "long words that repeat until a paragraph has eighty characters, and some more of them, ",
                ]),
                0..60,
            ),
            4,
        ),
    ) {
        let texts: Vec<_> = texts.iter().map(|parts| parts.concat()).collect();
        let names = ["MEMORY.md", "a/A.md", "a/b/c/a.md", "A/é a.md"];
        let files: Vec<_> = names.into_iter().zip(texts.iter().map(String::as_str)).collect();
        let first = report(&files, &LintOptions::new());
        prop_assert_eq!(&first, &report(&files, &LintOptions::new()));
        let lines = |path: &StorePath| {
            let file = files.iter().find(|(name, _)| path.as_str().ends_with(*name));
            file.map_or(0, |(_, text)| text.split('\n').count() as u64)
        };
        let exists = |found: &LintFinding| found.line.is_none_or(|line| (1..=lines(&found.path)).contains(&line));
        assert!(first.findings.iter().all(exists));
    }
}
