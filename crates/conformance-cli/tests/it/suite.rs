//! The suite on stores, on `memory-tool run`, and on broken programs.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use memory_tool_test_fixtures::by_tier;
use memory_tool_test_fixtures::session::{PATIENCE, Place, on_a_terminal, wait_for_end};
use serde_json::Value;

use crate::program;

/// Runs the program with these arguments in a temporary directory.
fn conformance(arguments: &[&str]) -> Output {
    let place = Place::new();
    program().args(arguments).current_dir(place.outside("")).output().unwrap()
}

fn test_store(store: &Path, arguments: &[&str]) -> Output {
    conformance(&[&["--store", store.to_str().unwrap()], arguments].concat())
}

/// Tests `memory-tool run` with these options, which this program contains.
fn test_run(options: &str, arguments: &[&str]) -> Output {
    let command = format!("'{}' run --store {{dir}} {options}", env!("CARGO_BIN_EXE_memory-tool-conformance"));
    // A build without optimization is slow with files of some MiB.
    conformance(&[&["--command", &command, "--timeout", "120"], arguments].concat())
}

fn text(output: &[u8]) -> String {
    String::from_utf8(output.to_vec()).unwrap()
}

/// The JSON of a successful run without output on standard error.
fn json(output: &Output) -> Value {
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{}", text(&output.stdout));
    serde_json::from_slice(&output.stdout).unwrap()
}

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

/// The arguments for the whole suite, or a part of it below the long tier: each backend runs all of it in its own
/// tests.
fn suite<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    let part = ["view.", "create.", "rename.", "scopes.", "wire.", "lines."].map(|group| ["--filter", group]);
    [arguments, by_tier(part.as_flattened(), &[])].concat()
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
    assert!(results(&report, "passed").len() > by_tier(80, 100), "{}", report["totals"]);
    for ignored in results(&report, "ignored") {
        assert!(needs(ignored, "scopes") || needs(ignored, "sealed"), "{ignored}");
        assert!(ignored["lack"].as_str().is_some_and(|reason| reason.starts_with("the backend ")), "{ignored}");
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
        assert!(
            errors
                .starts_with(&format!("memory-tool-conformance: cannot test a store in {}: {reason}", path.display()))
        );
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
        assert!(
            text(&output.stderr).starts_with(&format!("memory-tool-conformance: {reason}")),
            "{}",
            text(&output.stderr)
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
        fs::remove_file(file).unwrap();
        assert_eq!(fs::read_dir(place.outside("")).unwrap().count(), 0);
    }
}

/// Whether only stores in this process can run the case.
fn is_for_stores(case: &Value) -> bool {
    ["tool", "store", "scopes", "sealed"].iter().any(|need| needs(case, need))
}

#[test]
fn a_program_passes_and_cases_for_stores_are_not_listed() {
    let report = json(&test_run("{options}", &suite(&["--plain-files", "{dir}/memories", "--format", "json"])));
    assert!(results(&report, "passed").len() > by_tier(80, 100), "{}", report["totals"]);
    let results = report["results"].as_array().unwrap();
    assert!(results.iter().all(|case| !is_for_stores(case)), "{report}");
    let expected = listed(&suite(&[])).into_iter().filter(|case| !is_for_stores(case)).collect::<Vec<_>>();
    assert_eq!(ids(results), ids(&expected));
}

#[test]
fn cases_with_options_are_ignored_without_the_placeholder() {
    let report = json(&test_run("", &["--filter", "view.cap", "--filter", "create.", "--format", "json"]));
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
    assert!(table.contains("\nignored 2 cases: it locks = its directory\n    races."), "{table}");
    let only = ["--filter", "races.sees-others", "--lacks", "sessions=none\nat all", "--format", "markdown"];
    let everything = test_store(&place.store(), &only);
    assert_eq!(everything.status.code(), Some(1), "a run without results fails");
    let report = text(&everything.stdout);
    assert!(report.contains("|\n\n1 ignored: none\\nat all\n\n0 passed,"), "{report}");
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

    fn fails(&self, problem: &str, timeout: &str) {
        let command = self.command();
        let few = ["--filter", "races.creates-of-processes", "--filter", "create.text", "--timeout", timeout];
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

    /// Checks that the program is reported as unusable in one line, and no case runs.
    fn is_unusable(&self, problem: &str, timeout: &str) {
        let output = conformance(&["--command", &self.command(), "--timeout", timeout]);
        let errors = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(2), ""), "{errors}");
        assert!(errors.contains(problem) && errors.lines().count() == 1, "want {problem}\n got {errors}");
        assert_eq!(fs::read_to_string(self.log()).unwrap().lines().count(), 1, "no case runs");
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
fn a_program_that_never_responds_is_reported_in_one_line() {
    Script::new("sh -c 'sleep 1000; true' \"$0\"").is_unusable("the program did not respond within 0.5 s", "0.5");
    Script::new("echo 'no such module' >&2; exit 3").is_unusable("it ended: exit status: 3", "10");
    Script::new("echo 'no such module' >&2; exit 3").is_unusable("its standard error ends with: no such module", "10");
    Script::new("sh -c 'sleep 1000; true' \"$0\" < /dev/null > /dev/null 2>&1 &").is_unusable("it ended", "10");
    Script::new("exec cat /dev/zero").is_unusable("the program did not respond", "0.5");
}

#[test]
#[cfg(unix)]
fn a_program_that_hangs_or_dies_later_fails_its_cases() {
    let first = "read -r line; case $line in *'\"view\",\"path\":\"/memories\"}') echo '{\"content\":[]}';; esac";
    for (end, timeout, problem) in [
        ("exit 3", "10", "it ended: exit status: 3"),
        ("sh -c 'sleep 1000; true' \"$0\"", "0.5", "the program did not respond within 0.5 s"),
    ] {
        let script = Script::new(&format!("{first}; {end}"));
        let output = conformance(&["--command", &script.command(), "--timeout", timeout, "--filter", "create.text"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stdout).contains(problem), "{}", text(&output.stdout));
        script.leaves_nothing();
    }
}

#[test]
#[cfg(unix)]
fn a_program_that_prints_garbage_fails_its_cases() {
    let start = r#"read -r line; case $line in *'"view","path":"/memories"}')"#;
    let first = format!(r#"{start} echo '{{"content":[]}}';; *) echo '<html>';; esac"#);
    let always = |response: &str| format!("while read -r line; do echo '{response}'; done");
    Script::new(&format!("{first}; {}", always("<html>"))).fails("the program's response is not JSON", "10");
    Script::new(&always("{\"content\":[]}")).fails("expected ", "10");
    Script::new(&always("<html>")).is_unusable("the program's response is not JSON", "10");
    Script::new(&always("[]")).is_unusable("is not a `tool_result` block: []", "10");
}

#[test]
#[cfg(unix)]
fn a_problem_that_many_checks_have_is_shown_once() {
    let script = Script::new("while read -r line; do echo '{\"content\":[]}'; done");
    let output = conformance(&["--command", &script.command(), "--filter", "insert."]);
    let report = text(&output.stdout);
    let problems: Vec<_> = report.lines().filter(|line| line.starts_with("    @@ ")).collect();
    let again: Vec<_> = report.lines().filter(|line| line.contains(": as in insert.")).collect();
    assert!(!again.is_empty() && again.len() > problems.len(), "{report}");
    assert!(again.iter().all(|line| line.starts_with("    [I")), "{report}");
}

#[test]
fn a_program_that_cannot_be_started_is_reported_in_one_line() {
    for format in ["table", "json", "markdown"] {
        for program in ["nosuchprog", "./no-such-program", "/"] {
            let output = conformance(&["--command", &format!("{program} {{dir}}"), "--format", format]);
            let errors = text(&output.stderr);
            assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(2), ""), "{errors}");
            assert!(errors.starts_with(&format!("memory-tool-conformance: cannot start {program}: ")), "{errors}");
            assert_eq!(errors.lines().count(), 1, "{errors}");
        }
    }
}

/// The first two starts are probes. The case has 27 variants.
#[test]
#[cfg(unix)]
fn variants_share_a_program_whose_memory_can_be_emptied() {
    let run = format!("'{}' run --store \"$1\"", env!("CARGO_BIN_EXE_memory-tool-conformance"));
    let keeps_files =
        r#"while read -r line; do case $line in *'"delete"'*) line='""';; esac; printf '%s\n' "$line"; done | "#;
    for (script, starts) in [(format!("exec {run}"), 3), (format!("{keeps_files}{run}"), 29)] {
        let script = Script::new(&script);
        let report =
            json(&conformance(&["--command", &script.command(), "--filter", "create.exact-text", "--format", "json"]));
        assert_eq!(report["totals"]["passed"], 1, "{report}");
        let started = fs::read_to_string(script.log()).unwrap();
        assert_eq!(started.lines().count(), starts, "{started}");
        script.leaves_nothing();
    }
}

#[test]
#[cfg(unix)]
fn control_characters_of_a_program_are_escaped() {
    let garbage = r"printf '\033[2J\342\200\256\n'"; // ends with U+202E
    let start = r#"read -r line; case $line in *'"view"'*) echo '{"content":[]}';; *)"#;
    let script = Script::new(&format!("{start} {garbage};; esac; while read -r line; do {garbage}; done"));
    let command = script.command();
    let options = |format| ["--command", &command, "--filter", "create.text", "--format", format];
    for format in ["table", "markdown"] {
        let output = conformance(&options(format));
        assert_eq!(output.status.code(), Some(1));
        let report = text(&output.stdout);
        assert!(report.contains(r"\u{1b}[2J\u{202e}") && !report.contains(['\u{1b}', '\u{202e}']), "{report}");
    }
    // The escapes of JSON keep the value.
    let mut command = program();
    let output = on_a_terminal(command.args(options("json"))).output().unwrap();
    let report = text(&output.stdout);
    assert!(report.contains(r"\u202e") && !report.contains(['\u{1b}', '\u{202e}']), "{report}");
    serde_json::from_str::<Value>(&report[report.find('{').unwrap()..]).unwrap();
}

#[test]
#[cfg(unix)]
fn a_signal_ends_the_run_and_its_processes() {
    let script = Script::new("sh -c 'sleep 1000; true' \"$0\"");
    for (signal, status) in [("INT", 130), ("TERM", 143)] {
        let mut command = program();
        command.args(["--timeout", "100", "--command", &script.command()]);
        interrupt_once(&mut command, signal, status, || script.is_started());
        script.leaves_nothing();
        fs::remove_file(script.log()).unwrap();
    }
    let place = Place::in_memory();
    let database = format!("sqlite:{}", place.store().join("memory.db").display());
    for store in [place.store().as_os_str(), database.as_ref()] {
        let mut command = program();
        command.args(["--jobs", "4", "--store"]).arg(store);
        interrupt_once(&mut command, "INT", 130, || place.store().exists());
        assert!(!place.store().exists());
    }
}

/// Starts the program, and sends it a signal once `is_running` returns true.
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
    assert_eq!((output.as_str(), errors.as_str()), ("", "memory-tool-conformance: interrupted\n"));
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
    let is_listed = |case: &Value| is_selected(case) && !is_for_stores(case);
    assert_eq!(some, all.into_iter().filter(is_listed).collect::<Vec<_>>());
}

#[test]
fn a_selection_without_cases_is_an_error_in_one_line() {
    let run = "cat {dir}";
    for (arguments, problem) in [
        (&["--command", run, "--filter", "store."][..], "no program can run any of the selected test cases"),
        (&["--list", "--filter", "store.", "--basis", "documentation"], "no test case is selected"),
        (&["--list", "--filter", "wire.numbers-outside-json", "--profile", "storage"], "no test case is selected"),
        (&["--list", "--filter", "nonsense"], "no test case matches the filter"),
    ] {
        let output = conformance(arguments);
        let errors = text(&output.stderr);
        assert_eq!((output.status.code(), errors.lines().count()), (Some(2), 1), "{errors}");
        assert!(errors.contains(problem), "{errors}");
    }
}

#[test]
fn a_profile_selects_the_cases_of_the_storage() {
    let (all, storage) = (listed(&[]), listed(&["--profile", "storage"]));
    assert!(storage.len() * 5 < all.len() * 3, "{} of {}", storage.len(), all.len());
    let ids = ids(&storage);
    for id in ["store.read", "records.names", "races.inserts", "create.text"] {
        assert!(ids.contains(&id), "{id}");
    }
    assert!(!ids.contains(&"view.range"));
}

#[test]
fn a_report_says_what_is_left_out() {
    let table =
        text(&test_run("", &["--filter", "sizes.listed", "--filter", "store.", "--filter", "view.size"]).stdout);
    assert!(table.starts_with(concat!("conformance suite ", env!("CARGO_PKG_VERSION"), "\n")), "{table}");
    assert!(table.contains("ignored 1 case: needs `--plain-files`: "), "{table}");
    assert!(table.contains(" cases are left out, which this kind of backend cannot run: they need store ("), "{table}");
}

#[test]
fn an_id_as_filter_selects_only_its_case() {
    assert_eq!(ids(&listed(&["--filter", "view.size"])), ["view.size"]);
    assert!(ids(&listed(&["--filter", "view.siz"])).contains(&"view.size-rounded"));
}

#[test]
fn a_basis_includes_the_stronger_ones() {
    const BASES: [&str; 4] = ["documentation", "recommendation", "sdks", "project"];
    let mut lengths = Vec::new();
    for (number, basis) in BASES.into_iter().enumerate() {
        let cases = listed(&["--basis", basis]);
        let is_selected = |case: &Value| ids_of(&case["bases"]).iter().all(|of| BASES[..=number].contains(of));
        assert!(cases.iter().all(is_selected), "{basis}");
        lengths.push(cases.len());
    }
    assert!(lengths.is_sorted() && lengths[0] > 0 && lengths[0] < lengths[3], "{lengths:?}");
}

/// A program that says `no` to everything, correctly only for a missing file.
#[cfg(unix)]
const REFUSES: &str = r#"while read -r line; do
    echo '{"type":"tool_result","content":"Error: The path /memories/a does not exist","is_error":true}'
done"#;

#[test]
#[cfg(unix)]
fn checks_of_weaker_bases_do_not_count() {
    let script = Script::new(REFUSES);
    let run = |basis: &str| {
        let arguments = ["--command", &script.command(), "--format", "json", "--basis", basis];
        let output = conformance(&[&arguments[..], &["--filter", "create.exact-text"]].concat());
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let failures = report["results"][0]["failures"].as_array().unwrap();
        let bases: BTreeSet<_> = failures.iter().map(|failure| failure["basis"].as_str().unwrap()).collect();
        (report["bases"].as_object().unwrap().keys().cloned().collect::<Vec<_>>(), bases.len())
    };
    assert_eq!(run("documentation"), (vec!["documentation".to_owned()], 1));
    assert_eq!(run("project"), (vec!["documentation".to_owned(), "sdks".to_owned()], 2));
}

#[test]
#[cfg(unix)]
fn known_failures_are_expected_and_others_are_named() {
    let (script, place) = (Script::new(REFUSES), Place::new());
    let [known, report] = ["known", "report.json"].map(|name| place.outside(name));
    let run = |arguments: &[&str]| conformance(&[&["--command", &script.command()], arguments].concat());
    let [known_path, report_path] = [&known, &report].map(|path| path.to_str().unwrap());
    let filters = ["--filter", "delete.in-an-empty-store", "--filter", "create.text", "--filter", "delete.file"];

    let written = run(&[&filters[..], &["--write-known-failures", known_path]].concat());
    assert_eq!(written.status.code(), Some(0));
    let lines = fs::read_to_string(&known).unwrap();
    let checks: BTreeSet<_> = lines.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let names: BTreeSet<_> = checks.iter().map(|check| check.split(' ').next().unwrap()).collect();
    assert_eq!(names, BTreeSet::from(["create.text", "delete.file"]));
    assert!(checks.iter().all(|check| check.contains(" [") && check.contains("] step ")), "{lines}");

    let expected = run(&[&filters[..], &["--known-failures", known_path, "--format", "json"]].concat());
    assert_eq!((expected.status.code(), text(&expected.stderr).as_str()), (Some(0), ""));
    fs::write(&report, expected.stdout).unwrap();
    let again = run(&["--failed-from", report_path, "--format", "json"]);
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(ids(again["results"].as_array().unwrap()), ["create.text", "delete.file"]);

    fs::write(&known, "# none\ncreate.text # reason\ndelete.in-an-empty-store\n").unwrap();
    let surprising = run(&[&filters[..], &["--known-failures", known_path]].concat());
    assert_eq!(surprising.status.code(), Some(1));
    let errors = text(&surprising.stderr);
    let (passes, new): (Vec<_>, Vec<_>) = errors.lines().partition(|line| line.contains(" passes: "));
    assert_eq!(passes, ["memory-tool-conformance: a known failure passes: delete.in-an-empty-store"]);
    assert!(
        !new.is_empty()
            && new.iter().all(|line| line.starts_with("memory-tool-conformance: new failure: delete.file [D1] step "))
    );

    // A check that fails in another step is new.
    fs::write(&known, lines.replacen(" step ", " step 9", 1)).unwrap();
    let surprising = run(&[&filters[..], &["--known-failures", known_path]].concat());
    let errors = text(&surprising.stderr);
    assert!(errors.contains("new failure: ") && errors.contains("a known failure passes: "), "{errors}");

    fs::write(&known, "nonsense\n").unwrap();
    let unknown = run(&["--known-failures", known_path]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("there is no test case \"nonsense\""));
}

#[test]
#[cfg(unix)]
fn every_format_for_people_ends_with_the_totals_and_explains_failures() {
    let script = Script::new(REFUSES);
    for format in ["table", "markdown"] {
        let filters = ["--filter", "create.refuses-to-overwrite", "--filter", "delete.in-an-empty-store"];
        let output = conformance(&[&["--command", &script.command(), "--format", format], &filters[..]].concat());
        let report = text(&output.stdout);
        assert!(report.lines().last().unwrap().starts_with("1 passed, 1 failed, 0 ignored"), "{report}");
        for part in ["[C2] create: no overwriting", "an existing file is overwritten, or an empty one counts"] {
            assert!(report.contains(part), "{format}: {report}");
        }
    }
}

fn ids_of(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect()
}

/// Writes a key to a file that only its owner can read.
#[cfg(unix)]
fn key_file(place: &Place, name: &str) -> PathBuf {
    let file = place.outside(name);
    fs::write(&file, "0f".repeat(32)).unwrap();
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    file
}

#[test]
#[cfg(unix)]
fn an_encrypted_store_passes() {
    let place = Place::new();
    let key = key_file(&place, "key");
    let options = ["--key-file", key.to_str().unwrap(), "--padding", "padme", "--label", "of the suite"];
    let cases = ["--format", "json", "--filter", by_tier("sealed.damaged", "sealed.")];
    let report = json(&test_store(&place.store(), &[&options[..], &cases].concat()));
    assert_eq!((&report["totals"]["failed"], &report["totals"]["ignored"]), (&Value::from(0), &Value::from(0)));
}

/// The suite passes the name of the key file to the programs that it starts.
#[test]
#[cfg(unix)]
fn the_name_of_a_key_file_may_start_with_a_hyphen() {
    let place = Place::new();
    key_file(&place, "-key");
    let mut command = program();
    command.current_dir(place.outside("")).args(["--key-file=-key", "--filter", "races.sees-other-processes"]);
    let checked = command.arg("--store").arg(place.store()).output().unwrap();
    assert_eq!(checked.status.code(), Some(0), "{checked:?}");
}
