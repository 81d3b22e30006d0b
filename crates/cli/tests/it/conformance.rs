//! `memory-tool conformance` on stores, on `memory-tool run`, and on broken programs.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use memory_tool_test_fixtures::by_tier;
use memory_tool_test_fixtures::session::{PATIENCE, Place, program, wait_for_end};
use serde_json::Value;

/// Runs `conformance` with these arguments in a temporary directory.
fn conformance(arguments: &[&str]) -> Output {
    let place = Place::new();
    program().arg("conformance").args(arguments).current_dir(place.outside("")).output().unwrap()
}

fn test_store(store: &Path, arguments: &[&str]) -> Output {
    conformance(&[&["--store", store.to_str().unwrap()], arguments].concat())
}

/// Tests `memory-tool run` with these options.
fn test_run(options: &str, arguments: &[&str]) -> Output {
    let command = format!("'{}' run --store {{dir}} {options}", env!("CARGO_BIN_EXE_memory-tool"));
    conformance(&[&["--command", &command], arguments].concat())
}

fn text(output: &[u8]) -> String {
    String::from_utf8(output.to_vec()).unwrap()
}

/// The JSON of a successful run without output on standard error.
fn json(output: &Output) -> Value {
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{}", text(&output.stdout));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The results of a report with this outcome.
fn results<'a>(report: &'a Value, outcome: &str) -> Vec<&'a Value> {
    report["results"].as_array().unwrap().iter().filter(|result| result["outcome"] == outcome).collect()
}

fn ids<'a>(cases: impl IntoIterator<Item = &'a Value>) -> Vec<&'a str> {
    cases.into_iter().map(|case| case["id"].as_str().unwrap()).collect()
}

fn needs(case: &Value, need: &str) -> bool {
    case["needs"].as_array().unwrap().iter().any(|needed| needed == need)
}

fn listed(arguments: &[&str]) -> Vec<Value> {
    let list = json(&conformance(&[&["--list", "--format", "json"], arguments].concat()));
    list.as_array().unwrap().clone()
}

/// The arguments for the whole suite, or a part of it in the default tier: each backend runs all of it in its own
/// tests.
fn suite<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    let part = ["--filter", "view.", "--filter", "create.", "--filter", "rename.", "--filter", "scopes."];
    [arguments, by_tier(&part[..], &[], &[])].concat()
}

#[test]
fn a_local_store_passes_and_its_files_are_removed() {
    let place = Place::in_memory();
    let report = json(&test_store(&place.store().join("new"), &suite(&["--format", "json"])));
    assert!(!place.store().exists(), "missing parents are removed as well");
    assert_eq!(ids(report["results"].as_array().unwrap()), ids(&listed(&suite(&[]))));
    for outcome in ["passed", "failed", "ignored"] {
        assert_eq!(report["totals"][outcome], results(&report, outcome).len(), "{outcome}");
    }
    assert!(results(&report, "passed").len() > by_tier(80, 100, 100), "{}", report["totals"]);
    for ignored in results(&report, "ignored") {
        assert!(needs(ignored, "scopes") || needs(ignored, "sealed"), "{ignored}");
        assert!(ignored["lack"].as_str().is_some_and(|reason| reason.starts_with("the backend ")), "{ignored}");
    }
}

#[test]
fn a_sqlite_store_passes_and_its_files_are_removed() {
    let place = Place::in_memory();
    let url = format!("sqlite:{}?memory=a%20b", place.store().join("new/memory.db").display());
    let report = json(&conformance(&suite(&["--store", &url, "--format", "json"])));
    assert!(!place.store().exists(), "missing parents are removed as well");
    assert!(results(&report, "passed").len() > by_tier(80, 100, 100), "{}", report["totals"]);
    for ignored in results(&report, "ignored") {
        assert!(needs(ignored, "plain_files") || needs(ignored, "sealed"), "{ignored}");
    }
}

#[test]
fn an_existing_directory_is_kept() {
    let place = Place::new();
    let above = place.outside("");
    let empty = place.outside("empty");
    fs::create_dir(&empty).unwrap();
    let url = format!("file:{}", empty.display());
    assert!(conformance(&["--store", &url, "--filter", "V7"]).status.success());
    assert_eq!(fs::read_dir(&empty).unwrap().count(), 0);
    assert_eq!(fs::read_dir(above).unwrap().count(), 1);
}

#[test]
fn a_directory_that_is_not_empty_is_refused() {
    let place = Place::new();
    let [taken, file] = ["taken", "file"].map(|name| place.outside(name));
    fs::create_dir(&taken).unwrap();
    fs::write(taken.join(".hidden"), "mine").unwrap();
    fs::write(&file, "mine").unwrap();
    let below = file.join("below");
    for (path, reason) in [(&taken, "the directory is not empty"), (&file, ""), (&below, "")] {
        let output = test_store(path, &[]);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(2), ""));
        let errors = text(&output.stderr);
        assert!(errors.starts_with(&format!("memory-tool: cannot test a store in {}: {reason}", path.display())));
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
    assert_eq!(fs::read_to_string(taken.join(".hidden")).unwrap(), "mine");
    assert_eq!(fs::read_dir(taken).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(file).unwrap(), "mine");
}

#[test]
fn an_existing_database_is_refused() {
    let place = Place::new();
    for taken in ["", "-wal", "-shm", "-journal"] {
        let file = place.outside(&format!("memory.db{taken}"));
        fs::write(&file, "mine").unwrap();
        let output = conformance(&["--store", &place.sqlite("a")]);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(2), ""));
        let database = place.database();
        let reason = format!("cannot test a store in {}: {} exists", database.display(), file.display());
        assert!(text(&output.stderr).starts_with(&format!("memory-tool: {reason}")), "{}", text(&output.stderr));
        assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
        fs::remove_file(file).unwrap();
        assert_eq!(fs::read_dir(place.outside("")).unwrap().count(), 0);
    }
}

#[test]
fn a_program_passes_and_cases_for_libraries_are_ignored() {
    let report = json(&test_run("{options}", &suite(&["--plain-files", "{dir}/memories", "--format", "json"])));
    assert!(results(&report, "passed").len() > by_tier(80, 100, 100), "{}", report["totals"]);
    for ignored in results(&report, "ignored") {
        let beyond = ["tool", "store", "scopes", "sealed", "stored_bytes"];
        assert!(beyond.iter().any(|need| needs(ignored, need)), "{ignored}");
        assert!(ignored["lack"].as_str().is_some_and(|reason| !reason.is_empty()), "{ignored}");
    }
}

#[test]
fn cases_with_options_are_ignored_without_the_placeholder() {
    let report = json(&test_run("", &["--filter", "V8", "--filter", "C2", "--format", "json"]));
    let ignored = results(&report, "ignored");
    assert!(ignored.iter().any(|case| needs(case, "options")), "{ignored:?}");
    for case in &ignored {
        assert!(!needs(case, "options") || case["lack"] == "the command line has no {options}", "{case}");
    }
    assert!(results(&report, "passed").iter().all(|case| !needs(case, "options")));
}

#[test]
fn a_declared_lack_is_the_reason_of_ignored_cases() {
    let place = Place::in_memory();
    let table = test_store(&place.store(), &["--filter", "races.", "--lacks", "sessions=it locks = its directory"]);
    assert!(table.status.success());
    let table = text(&table.stdout);
    assert!(table.contains("\nignored: it locks = its directory\n    races."), "{table}");
    let everything = test_store(&place.store(), &["--filter", "races.inserts-of-sessions", "--lacks", "sessions=none"]);
    assert_eq!(everything.status.code(), Some(1), "a run without results fails");
}

/// A shell script as program under test. `$1` is the directory of the case.
#[cfg(unix)]
struct Script(Place);

#[cfg(unix)]
impl Script {
    fn new(body: &str) -> Self {
        let script = Self(Place::new());
        let log = script.log();
        fs::write(script.path(), format!("echo \"$1\" >> '{}'\n{body}\n", log.display())).unwrap();
        script
    }

    fn path(&self) -> PathBuf {
        self.0.outside("script")
    }

    /// Records each start of the script.
    fn log(&self) -> PathBuf {
        self.0.outside("log")
    }

    fn is_started(&self) -> bool {
        fs::read(self.log()).is_ok_and(|log| !log.is_empty())
    }

    fn command(&self) -> String {
        format!("sh '{}' {{dir}}", self.path().display())
    }

    /// Checks that a few cases fail with this problem.
    fn fails(&self, problem: &str, timeout: &str) {
        let command = self.command();
        let few = ["--filter", "races.creates", "--filter", "view.empty-store", "--timeout", timeout];
        let output = conformance(&[&["--command", &command, "--format", "json"], few.as_slice()].concat());
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(1), ""));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(results(&report, "passed").len(), 0, "{report}");
        let failed = results(&report, "failed");
        assert!(failed.len() > 1, "{report}");
        for case in failed {
            let message = case["failures"][0]["message"].as_str().unwrap();
            assert!(message.contains(problem), "want {problem}\n got {message}");
        }
        self.leaves_nothing();
    }

    /// Checks that no process and no directory of a case is left.
    fn leaves_nothing(&self) {
        let started = fs::read_to_string(self.log()).unwrap();
        assert!(!started.is_empty());
        for directory in started.lines() {
            assert!(!Path::new(directory).exists(), "{directory} is left");
        }
        // A killed process may take a moment to disappear.
        let start = Instant::now();
        while is_running(&self.path()) {
            assert!(start.elapsed() < PATIENCE, "a process is left");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Whether a process has the path among its arguments.
#[cfg(unix)]
fn is_running(path: &Path) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut arguments = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    arguments.any(|arguments| String::from_utf8_lossy(&arguments).contains(path.to_str().unwrap()))
}

#[test]
#[cfg(unix)]
fn a_program_that_hangs_fails_its_cases() {
    Script::new("sh -c 'sleep 1000; true' \"$0\"").fails("the program did not respond within 0.5 s", "0.5");
}

#[test]
#[cfg(unix)]
fn failures_quote_the_last_lines_of_a_program_that_dies() {
    Script::new("echo 'no such module' >&2; exit 3").fails("it ended: exit status: 3", "10");
    Script::new("echo 'no such module' >&2; exit 3").fails("its standard error ends with: no such module", "10");
}

#[test]
#[cfg(unix)]
fn processes_of_a_program_that_dies_are_killed() {
    Script::new("sh -c 'sleep 1000; true' \"$0\" < /dev/null > /dev/null 2>&1 &").fails("it ended", "10");
}

#[test]
#[cfg(unix)]
fn a_program_that_prints_garbage_fails_its_cases() {
    Script::new("while read -r line; do echo '<html>'; done").fails("the program's response is not JSON", "10");
    Script::new("while read -r line; do echo '[]'; done").fails("expected ", "10");
}

#[test]
#[cfg(unix)]
fn a_program_that_never_ends_its_line_fails_its_cases() {
    Script::new("exec cat /dev/zero").fails("the program did not respond", "0.5");
}

#[test]
fn a_program_that_cannot_be_started_is_reported_in_one_line() {
    for format in ["table", "json", "junit"] {
        for program in ["nosuchprog", "./no-such-program", "/"] {
            let output = conformance(&["--command", &format!("{program} {{dir}}"), "--format", format]);
            let errors = text(&output.stderr);
            assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(2), ""), "{errors}");
            assert!(errors.starts_with(&format!("memory-tool: cannot start {program}: ")), "{errors}");
            assert_eq!(errors.lines().count(), 1, "{errors}");
        }
    }
}

#[test]
#[cfg(unix)]
fn control_characters_of_a_program_are_escaped() {
    let script = Script::new(r"while read -r line; do printf '\033[2J\n'; done");
    let command = script.command();
    for format in ["table", "junit"] {
        let output = conformance(&["--command", &command, "--filter", "view.empty-store", "--format", format]);
        assert_eq!(output.status.code(), Some(1));
        let report = text(&output.stdout);
        assert!(report.contains(r"\u{1b}[2J") && !report.contains('\u{1b}'), "{report}");
    }
}

#[test]
#[cfg(unix)]
fn a_signal_ends_the_run_and_its_processes() {
    let script = Script::new("sh -c 'sleep 1000; true' \"$0\"");
    for (signal, status) in [("INT", 130), ("TERM", 143)] {
        let mut command = program();
        command.args(["conformance", "--timeout", "100", "--command", &script.command()]);
        interrupt_once(&mut command, signal, status, || script.is_started());
        script.leaves_nothing();
        fs::remove_file(script.log()).unwrap();
    }
    let place = Place::in_memory();
    let database = format!("sqlite:{}", place.store().join("memory.db").display());
    for store in [place.store().as_os_str(), database.as_ref()] {
        let mut command = program();
        command.args(["conformance", "--jobs", "4", "--store"]).arg(store);
        interrupt_once(&mut command, "INT", 130, || place.store().exists());
        assert!(!place.store().exists());
    }
}

/// Starts `conformance`, and sends it a signal once `is_running` returns true.
#[cfg(unix)]
fn interrupt_once(command: &mut std::process::Command, signal: &str, status: i32, is_running: impl Fn() -> bool) {
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    while !is_running() {
        assert!(start.elapsed() < PATIENCE, "it does not begin");
        thread::sleep(Duration::from_millis(5));
    }
    let kill = std::process::Command::new("kill").arg(format!("-{signal}")).arg(process.id().to_string()).status();
    assert!(kill.unwrap().success());
    assert_eq!(wait_for_end(&mut process).code(), Some(status));
    let (mut output, mut errors) = (String::new(), String::new());
    process.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    process.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert_eq!((output.as_str(), errors.as_str()), ("", "memory-tool: interrupted\n"));
}

#[test]
fn a_list_has_a_line_for_each_selected_case() {
    let output = conformance(&["--list"]);
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    let table = text(&output.stdout);
    let all = listed(&[]);
    assert_eq!(table.lines().map(|line| line.split(' ').next().unwrap()).collect::<Vec<_>>(), ids(&all));
    for (line, case) in table.lines().zip(&all) {
        let columns: Vec<_> = line.split_whitespace().collect();
        assert_eq!(columns[1].split(',').collect::<Vec<_>>(), ids_of(&case["clauses"]), "{line}");
        assert_eq!(columns[2].split(',').collect::<Vec<_>>(), ids_of(&case["bases"]), "{line}");
        assert_eq!(columns[3].split(',').filter(|need| *need != "-").collect::<Vec<_>>(), ids_of(&case["needs"]));
        assert!(line.ends_with(case["reason"].as_str().unwrap()), "{line}");
    }
    // The program under test is not started.
    let some = listed(&["--filter", "races.", "--filter", "V3", "--command", "./no-such-program {dir}"]);
    assert!(!some.is_empty() && some.len() < all.len());
    let is_selected = |case: &Value| ids([case])[0].contains("races.") || ids_of(&case["clauses"]).contains(&"V3");
    assert_eq!(some, all.into_iter().filter(is_selected).collect::<Vec<_>>());
}

fn ids_of(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect()
}

#[test]
fn a_junit_report_has_a_suite_for_each_clause_and_a_test_for_each_case() {
    let place = Place::in_memory();
    let filters = ["--filter", "scopes.", "--filter", "delete.", "--filter", "races."];
    let output = test_store(&place.store(), &[&["--format", "junit"], filters.as_slice()].concat());
    assert!(output.status.success());
    let xml = text(&output.stdout);
    assert!(
        xml.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites ") && xml.ends_with("</testsuites>\n")
    );
    let report = quick_junit::Report::deserialize_from_str(&xml).unwrap();
    let cases = listed(&filters);
    assert_eq!((report.tests, report.failures, report.errors), (cases.len(), 0, 0));
    let mut tests = Vec::new();
    for suite in &report.test_suites {
        for test in &suite.test_cases {
            let clause = test.classname.as_ref().unwrap();
            assert!(suite.name.starts_with(&format!("{} ", clause.as_str())), "{}", suite.name.as_str());
            tests.push((test.name.as_str(), clause.as_str()));
            let is_skipped = matches!(&test.status, quick_junit::TestCaseStatus::Skipped { message, .. }
                if message.as_ref().unwrap().as_str() == "the backend keeps one memory in a place");
            assert_eq!(is_skipped, test.name.starts_with("scopes."), "{test:?}");
            assert!(test.time.is_some());
        }
    }
    let mut expected: Vec<_> = cases.iter().map(|case| (ids([case])[0], ids_of(&case["clauses"])[0])).collect();
    expected.sort_unstable();
    tests.sort_unstable();
    assert_eq!(tests, expected);
}

#[test]
fn invalid_options_are_reported_as_wrong_usage() {
    for (arguments, reason) in [
        (&[][..], "<--command <LINE>|--store <URL>|--list>"),
        (&["--command", "a {dir}", "--store", "b"], "cannot be used with"),
        (&["--command", "a"], "the command line lacks {dir}"),
        (&["--command", "a '{dir}"], "an unclosed quote"),
        (&["--command", " "], "names no program"),
        (&["--command", "a {dir}", "--plain-files", "memories"], "expected the placeholder {dir}"),
        (&["--store", "a", "--plain-files", "{dir}"], "cannot be used with"),
        (
            &["--store", "a", "--filter", "view.", "--filter", "nonsense"],
            "no test case matches the filter \"nonsense\"",
        ),
        (&["--list", "--filter", "nonsense"], "no test case matches the filter \"nonsense\""),
        (&["--list", "--format", "junit"], "--list does not support --format junit"),
        (&["--list", "--format", "yaml"], "table, json, junit"),
        (&["--list", "--timeout", "0"], "a number of seconds above 0"),
        (&["--list", "--timeout=-1"], "a number of seconds above 0"),
        (&["--list", "--timeout", "NaN"], "a number of seconds above 0"),
        (&["--list", "--jobs", "0"], "--jobs <N>"),
        (&["--list", "--lacks", "sessions"], "expected NEED=REASON"),
        (&["--list", "--lacks", "sessions="], "expected NEED=REASON"),
        (&["--list", "--lacks", "nonsense=x"], "expected one of `"),
    ] {
        let output = conformance(arguments);
        let errors = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(2), ""), "{arguments:?}: {errors}");
        assert!(errors.contains(reason), "want {reason}\n got {errors}");
    }
}
