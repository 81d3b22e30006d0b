//! Sound, damaged and mixed stores in `tests/stores`, and beside each what `verify` and its repair report.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use memory_tool_test_fixtures::session::{outcome, program};

/// Set it to write the reports again. Review the difference.
const UPDATE: &str = "MEMORY_TOOL_UPDATE";

/// The commands, one after another on the same store.
const COMMANDS: [&[&str]; 5] = [&["verify"], &["ls", "-R"], &["verify", "--repair"], &["verify"], &["log"]];

fn archives() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/stores");
    let mut found: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let is_of_bucket = |path: &Path| path.to_string_lossy().contains("/bucket-"); // a test of that crate has them
    found.retain(|path| path.extension().is_some_and(|extension| extension == "gz") && !is_of_bucket(path));
    found.sort();
    found
}

/// The output of the commands, with their exit status.
fn report(archive: &Path) -> String {
    let folder = tempfile::tempdir().unwrap();
    tar::Archive::new(GzDecoder::new(File::open(archive).unwrap())).unpack(folder.path()).unwrap();
    let has = |name: &str| folder.path().join(name).exists();
    let store = if has("memory.db") { "sqlite:memory.db" } else { "store" };
    let mut report = String::new();
    for words in COMMANDS {
        let mut command = program();
        command.current_dir(folder.path()).args(words).args(["--store", store]);
        if has("memory.key") {
            if words[0] != "verify" {
                continue; // the other commands take no keys
            }
            command.args(["--key-file", "memory.key"]);
        }
        let (status, output, errors) = outcome(&mut command);
        let lines = output.lines().filter(|line| !line.starts_with("Date:")); // a repair makes entries of its time
        let output: String = lines.map(|line| format!("{line}\n")).collect();
        report += &format!("$ memory-tool {}\n{output}{errors}", words.join(" "));
        if status != Some(0) {
            report += &format!("[status {}]\n", status.unwrap());
        }
    }
    report
}

#[test]
fn reports() {
    let archives = archives();
    assert!(archives.len() > 15, "{archives:?}");
    for archive in archives {
        let expected = archive.with_extension("").with_extension("txt");
        let found = report(&archive);
        if std::env::var_os(UPDATE).is_some() {
            fs::write(&expected, &found).unwrap();
        }
        assert_eq!(found, fs::read_to_string(&expected).unwrap(), "{}: see {UPDATE}", archive.display());
    }
}
