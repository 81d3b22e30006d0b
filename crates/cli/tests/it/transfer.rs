//! `memory-tool copy`, `export` and `import`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use memory_tool::store::{Batch, StorePath};
use memory_tool::{Memory, StoreUrl};
use memory_tool_test_fixtures::session::{Outcome, PATIENCE, Place, outcome, outcome_with, program, wait_for_end};
use serde_json::{Value, json};

type Files = BTreeMap<String, Vec<u8>>;

fn run(arguments: &[&dyn AsRef<OsStr>]) -> Outcome {
    outcome(program().args(arguments.iter().map(AsRef::as_ref)))
}

fn report(arguments: &[&dyn AsRef<OsStr>]) -> (Option<i32>, Value) {
    let (status, output, errors) = outcome(program().args(arguments.iter().map(AsRef::as_ref)).arg("--json"));
    assert_eq!(errors, "");
    (status, serde_json::from_str(&output).unwrap())
}

fn done(status: i32, output: &str) -> Outcome {
    (Some(status), format!("{output}\n"), String::new())
}

/// Creates a local store with these files by hand.
fn fill(store: &Path, files: &[(&str, &[u8])]) {
    for (name, content) in files {
        let path = store.join("memories").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

/// Links to files are followed.
fn files(directory: &Path) -> Files {
    let mut found = Files::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(current) = directories.pop() {
        for entry in fs::read_dir(current).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                directories.push(path);
            } else {
                let name = path.strip_prefix(directory).unwrap().to_str().unwrap().to_owned();
                found.insert(name, fs::read(&path).unwrap_or_default());
            }
        }
    }
    found
}

fn memories(store: &Path) -> Files {
    files(&store.join("memories"))
}

const ODD: &[(&str, &[u8])] = &[
    ("a.txt", b"one\n"),
    ("d/e/100% [...slug] \"q\".md", b"two\r\n"),
    ("d/memories/x", b""),
    ("memories/a.txt", "Grüße".as_bytes()),
    ("é/ -rf", b"\xff\x00\xfe not text"),
    (".hidden", b"x"),
];

/// Names of the maximum length, which do not fit the header of a tar archive.
fn long_names() -> [String; 2] {
    let segment = "n".repeat(255);
    [format!("{segment}/{segment}/{segment}/{}", "m".repeat(200)), "k".repeat(255)]
}

fn fill_with_odd_files(store: &Path) -> Files {
    fill(store, ODD);
    for name in long_names() {
        fill(store, &[(&name, &[7; 70_000])]);
    }
    memories(store)
}

#[test]
fn files_are_copied_between_all_kinds_of_stores() {
    let place = Place::in_memory();
    let key = place.outside("memory.key");
    assert_eq!(run(&[&"keygen", &"--output", &key]).0, Some(0));
    let all = fill_with_odd_files(&place.store());
    let bytes: usize = all.values().map(Vec::len).sum();
    let stops: [(OsString, bool); 5] = [
        (place.store().into(), false),
        (place.sqlite("a").into(), false),
        (place.outside("sealed").into(), true),
        (place.sqlite("sealed").into(), true),
        (place.outside("last").into(), false),
    ];
    for pair in stops.windows(2) {
        let [(source, source_is_encrypted), (destination, is_encrypted)] = pair else { unreachable!() };
        let copy = |summary: String| {
            let mut command = program();
            command.arg("copy").arg(source).arg(destination);
            if *source_is_encrypted {
                command.arg("--source-key-file").arg(&key);
            }
            if *is_encrypted {
                command.arg("--key-file").arg(&key);
            }
            let (status, output, errors) = outcome(&mut command);
            assert_eq!((status, output, String::new()), done(0, &summary), "{source:?} to {destination:?}");
            // The database of the encrypted memory also holds the plain one.
            let has_others = *source_is_encrypted && *source == OsString::from(place.sqlite("sealed"));
            let note = format!("memory-tool: {} has 1 other memory, not included here\n", place.database().display());
            assert_eq!(errors, if has_others { note } else { String::new() });
        };
        copy(format!(
            "copied {} files ({bytes} bytes), overwrote 0; 0 unchanged, 0 only in the destination",
            all.len()
        ));
        copy(format!("copied 0 files (0 bytes), overwrote 0; {} unchanged, 0 only in the destination", all.len()));
    }
    assert_eq!(memories(&place.outside("last")), all);
}

#[test]
fn a_history_is_copied_to_an_empty_destination() {
    let place = Place::in_memory();
    let (key, sealed) = (place.outside("memory.key"), place.sqlite("sealed"));
    assert_eq!(run(&[&"keygen", &"--output", &key]).0, Some(0));
    let create = [&"create" as &dyn AsRef<OsStr>, &"/memories/a", &"--text", &"one", &"--history", &"--store"];
    let by_ada = [&place.store() as &dyn AsRef<OsStr>, &"--actor", &"ada"];
    assert_eq!(run(&[&create[..], &by_ada].concat()).0, Some(0));
    assert_eq!(run(&[&"mv", &"/memories/a", &"/memories/b", &"--store", &place.store()]).0, Some(0));
    let log = |store: &dyn AsRef<OsStr>| run(&[&"log", &"--json", &"--store", store]);
    let before = log(&place.store());
    assert!(before.1.contains("ada"), "{before:?}");

    let copied = "copied 2 changes of the history\n\
                  copied 1 file (3 bytes), overwrote 0; 0 unchanged, 0 only in the destination";
    let to_sealed = [&"copy" as &dyn AsRef<OsStr>, &place.store(), &sealed, &"--key-file", &key, &"--with-history"];
    assert_eq!(run(&to_sealed), done(0, copied));
    let last = place.outside("last");
    assert_eq!(run(&[&"copy", &sealed, &last, &"--source-key-file", &key, &"--with-history"]), done(0, copied));
    assert_eq!(log(&last), before);
    assert_eq!(run(&[&"undo", &"--store", &last]).0, Some(0));
    assert_eq!(memories(&last).keys().collect::<Vec<_>>(), ["a"]);

    let (status, _, errors) = run(&to_sealed);
    let expected = "memory-tool: cannot copy the history: the destination has files or a history\n";
    assert_eq!((status, errors.as_str()), (Some(2), expected));
}

#[test]
fn existing_files_are_kept_unless_overwrite_is_given() {
    let place = Place::in_memory();
    let (source, destination) = (place.store(), place.outside("to"));
    fill(&source, &[("a", b"new"), ("b", b"same"), ("c/d", b"below"), ("e", b"file")]);
    fill(&destination, &[("a", b"old!"), ("b", b"same"), ("c", b"a file"), ("e/f", b"a directory"), ("g", b"more")]);
    let before = memories(&destination);
    let expected = "/memories/a was not copied: another file is there\n\
                /memories/e was not copied: a directory is there\n\
                /memories/c/d was refused: /memories/c is a file, not a directory\n";
    let summary = "copied 0 files (0 bytes), overwrote 0; 1 unchanged, 3 only in the destination";
    assert_eq!(run(&[&"copy", &source, &destination]), done(1, &format!("{expected}{summary}")));
    assert_eq!(memories(&destination), before);

    let (status, found) = report(&[&"copy", &source, &destination, &"--overwrite"]);
    let expected = json!({
        "dry_run": false, "copied": 0, "overwritten": 1, "bytes": 3, "unchanged": 1, "redacted": [],
        "conflicts": [{"path": "/memories/e", "reason": "a directory is there"}],
        "refused": [{"path": "/memories/c/d", "reason": "/memories/c is a file, not a directory"}],
        "unverified": [], "more_redacted": 0, "more_conflicts": 0, "more_refused": 0, "more_unverified": 0,
        "only_in_destination": 3, "unreadable": [], "more_unreadable": 0, "removed": [], "more_removed": 0,
        "source_still_changing": false, "others": 0, "entries": 0, "waiting": 0,
    });
    assert_eq!((status, found), (Some(1), expected));
    let mut after = before;
    after.insert("a".to_owned(), b"new".to_vec());
    assert_eq!(memories(&destination), after);
}

#[test]
fn items_that_cannot_be_listed_make_a_transfer_incomplete() {
    let place = Place::in_memory();
    let source = place.store();
    fill(&source, &[("a", b"one"), ("d/e\u{301}", b"lost"), ("tab\t", b"lost")]);
    let unlisted = json!([
        {"path": "/memories/d/e\u{301}", "reason": "its name is not in Unicode Normalization Form C (NFC)"},
        {"path": "/memories/tab\\t", "reason": "its name is not legal in a path of the memory"},
    ]);
    let sorted = |problems: &Value| {
        let mut problems = problems.as_array().unwrap().clone();
        problems.sort_by_key(|problem| problem["path"].as_str().unwrap().to_owned());
        Value::from(problems)
    };
    let (status, copied) = report(&[&"copy", &source, &place.outside("copy")]);
    assert_eq!((status, &copied["copied"], sorted(&copied["unreadable"])), (Some(1), &json!(1), unlisted.clone()));
    // A later archive takes the place of an earlier one all the same.
    let archive = place.outside("backup.tar");
    fs::write(&archive, "of an earlier day").unwrap();
    let (status, exported) = report(&[&"export", &archive, &"--store", &source, &"--overwrite"]);
    let found = (status, &exported["exported"], sorted(&exported["refused"]), &exported["kept"]);
    assert_eq!(found, (Some(1), &json!(1), unlisted, &Value::Null));
    let (status, _, errors) = run(&[&"verify", &"--store", &source]);
    assert_eq!(status, Some(1), "{errors}");
}

#[test]
fn a_dry_run_reports_the_same_and_changes_nothing() {
    let place = Place::in_memory();
    let (source, destination) = (place.store(), place.outside("to"));
    fill(&source, &[("a", b"new"), ("b", b"same"), ("c/d", b"1"), ("s", b"postgres://app:t7Kq-9vLz2@db.internal/app")]);
    // A dry run does not create a store.
    let database = place.sqlite("a");
    for store in [destination.as_os_str(), OsStr::new(&database)] {
        let (status, output, _) = run(&[&"copy", &source, &store, &"--dry-run", &"--screen=redact"]);
        let expected = "/memories/s was redacted\nwould copy 4 files (";
        assert_eq!((status, output.starts_with(expected)), (Some(0), true), "{output}");
    }
    assert!(!destination.exists() && !place.database().exists());

    fill(&destination, &[("a", b"old!"), ("b", b"same"), ("c", b"a file")]);
    run(&[&"view", &"/memories", &"--store", &destination]);
    let before = files(&destination);
    for options in [
        &["--screen=refuse"][..],
        &["--overwrite"],
        &["--scope=alice"],
        &["--read-only"],
        &["--max-files=5", "--max-file-bytes=10"],
        &["--expire-after=1h"],
        &["--expire-after=1h", "--pin=/memories/s", "--overwrite"],
    ] {
        let copy = |options: &[&str]| {
            let mut command = program();
            let (status, output, _) = outcome(command.arg("copy").arg(&source).arg(&destination).args(options));
            (status, output.replace("would copy", "copied").replace("would overwrite", "overwrote"))
        };
        let dry_run = copy(&[options, &["--dry-run"]].concat());
        assert_eq!(files(&destination), before, "{options:?}");
        assert_eq!(copy(options), dry_run, "{options:?}");
        fs::remove_dir_all(&destination).unwrap();
        fill(&destination, &[("a", b"old!"), ("b", b"same"), ("c", b"a file")]);
        run(&[&"view", &"/memories", &"--store", &destination]);
    }
}

#[test]
fn a_dry_run_ignores_expired_files() {
    let place = Place::in_memory();
    let (source, destination) = (place.store(), place.outside("to"));
    fill(&source, &[("a", b"new"), ("b/c", b"1"), ("d", b"2"), ("e/f", b"3")]);
    fill(&destination, &[("a", b"old!"), ("b", b"a file"), ("d/x", b"a directory"), ("g", b"other")]);
    let expire = "--expire-after=1h";
    let last_used = ["a", "b", "d/x", "g"].map(|name| format!(r#""/memories/{name}":1740000000"#)).join(",");
    let times = format!(r#"{{"version":1,"files":{{{last_used}}}}}"#);
    record_access_times(&destination, times);
    let before = files(&destination);
    let dry_run = run(&[&"copy", &source, &destination, &expire, &"--dry-run"]);
    assert_eq!(files(&destination), before);
    assert_eq!(
        dry_run,
        done(0, "would copy 4 files (6 bytes), would overwrite 0; 0 unchanged, 0 only in the destination")
    );
    let copied = run(&[&"copy", &source, &destination, &expire]);
    assert_eq!(copied.1, dry_run.1.replace("would copy", "copied").replace("would overwrite", "overwrote"));
}

#[test]
fn a_damaged_file_is_reported_and_others_are_copied() {
    let place = Place::in_memory();
    let key = place.outside("memory.key");
    run(&[&"keygen", &"--output", &key]);
    let plain = place.store();
    fill(&plain, &[("a", &[b'a'; 3_000]), ("b", &[b'b'; 40_000]), ("c", b"c")]);
    let sealed = place.outside("sealed");
    assert_eq!(run(&[&"copy", &plain, &sealed, &"--key-file", &key]).0, Some(0));
    let largest = files(&sealed).into_iter().max_by_key(|(_, content)| content.len()).unwrap().0;
    let mut content = fs::read(sealed.join(&largest)).unwrap();
    *content.last_mut().unwrap() ^= 1;
    fs::write(sealed.join(&largest), content).unwrap();

    let (status, found) = report(&[&"copy", &sealed, &place.outside("to"), &"--source-key-file", &key]);
    assert_eq!(
        (status, &found["copied"], &found["unreadable"][0]["path"]),
        (Some(1), &json!(2), &json!("/memories/b"))
    );
    assert_eq!(memories(&place.outside("to")).into_keys().collect::<Vec<_>>(), ["a", "c"]);
    let backups = place.outside("backups");
    fs::create_dir(&backups).unwrap();
    let archive = backups.join("backup.tar");
    for (options, exported) in [(&[][..], 2), (&["--overwrite"], 0)] {
        if exported == 0 {
            fs::write(&archive, "of a better day").unwrap();
        }
        let mut command = program();
        command.args(["export", "--json", "--key-file"]).arg(&key).args(options).arg("--store").arg(&sealed);
        let (status, output, _) = outcome(command.arg(&archive));
        let found: Value = serde_json::from_str(&output).unwrap();
        assert_eq!(
            (status, &found["exported"], &found["unreadable"][0]["path"]),
            (Some(1), &json!(exported), &json!("/memories/b"))
        );
        assert_eq!(found["kept"].is_string(), exported == 0, "{found}");
    }
    assert_eq!(files(&backups), Files::from([("backup.tar".to_owned(), b"of a better day".to_vec())]));
}

#[test]
fn policies_apply_to_copies_and_imports() {
    let place = Place::in_memory();
    let secret = "postgres://app:t7Kq-9vLz2@db.internal/app";
    fill(&place.store(), &[("a", secret.as_bytes()), ("b", b"harmless")]);
    let store = place.store();
    let plain = store.join("memories");
    let ways: [&[&dyn AsRef<OsStr>]; 2] = [&[&"copy", &store], &[&"import", &plain, &"--store"]];
    for (number, way) in ways.into_iter().enumerate() {
        let to = |name: &str| place.outside(&format!("{name}{number}"));
        let put = |destination: &Path, options: &[&str]| {
            let mut command = program();
            command.args(way.iter().map(AsRef::as_ref)).arg(destination).args(options).arg("--json");
            let (status, output, errors) = outcome(&mut command);
            assert!(!output.contains("t7Kq") && errors.is_empty(), "{output}{errors}");
            (status, serde_json::from_str::<Value>(&output).unwrap())
        };
        let (status, found) = put(&to("refused"), &["--screen=refuse"]);
        assert_eq!(
            (status, &found["copied"], &found["refused"][0]["path"]),
            (Some(1), &json!(1), &json!("/memories/a"))
        );
        assert!(found["refused"][0]["reason"].as_str().unwrap().contains("password in a URL (line 1)"), "{found}");
        assert_eq!(memories(&to("refused")).into_keys().collect::<Vec<_>>(), ["b"]);

        // The second time, the redacted text is recognized.
        for (copied, there) in [(2, 0), (0, 2)] {
            let (status, found) = put(&to("redacted"), &["--screen=redact"]);
            assert_eq!((status, &found["redacted"]), (Some(0), &json!(["/memories/a"])), "{found}");
            assert_eq!((&found["copied"], &found["unchanged"]), (&json!(copied), &json!(there)));
        }
        let kept = &memories(&to("redacted"))["a"];
        assert_eq!(kept, &secret.replace("t7Kq-9vLz2", "[redacted: password in a URL]").into_bytes());
        // An earlier content with the secret does not matter.
        fill(&to("redacted"), &[("a", format!("{secret} ").as_bytes())]);
        assert_eq!(put(&to("redacted"), &["--screen=redact", "--overwrite"]).0, Some(0));
        assert_eq!(&memories(&to("redacted"))["a"], kept);

        let (status, _) = put(&to("scoped"), &["--scope=alice"]);
        assert_eq!(status, Some(0));
        let scoped = to("scoped");
        let (_, output, _) = run(&[&"copy", &scoped, &to("unscoped"), &"--source-scope=alice"]);
        assert_eq!(output, "copied 2 files (49 bytes), overwrote 0; 0 unchanged, 0 only in the destination\n");
        assert_eq!(memories(&to("unscoped")), memories(&store));
    }
}

#[test]
fn a_source_must_exist() {
    let place = Place::in_memory();
    let (source, destination) = (place.store(), place.outside("to"));
    let (status, _, errors) = run(&[&"import", &source, &"--store", &destination]);
    assert!(status == Some(2) && errors.contains("cannot read "), "{errors}");
    assert!(!source.exists() && !destination.exists());

    // An empty source is not a success either.
    let empty = place.outside("empty");
    fs::create_dir_all(empty.join("memories")).unwrap();
    let (status, output, errors) = run(&[&"copy", &empty, &place.outside("empty too")]);
    assert_eq!((status, output.starts_with("copied 0 files ")), (Some(1), true), "{output}");
    assert!(errors.contains("no files in ") && errors.lines().count() == 1, "{errors}");
    let archive = place.outside("empty.tar");
    assert_eq!(run(&[&"export", &"--store", &empty, &archive]), done(0, "exported 0 files (0 bytes)"));
    assert_eq!(fs::read(archive).unwrap(), END);
    // A missing key is reported before anything is created.
    fill(&source, &[("a", b"text")]);
    let (status, _, errors) = run(&[&"copy", &source, &destination, &"--key-file", &place.outside("none")]);
    assert!(status == Some(2) && errors.contains("cannot use the key"), "{errors}");
    assert!(!destination.exists());
    assert_eq!(memories(&source).len(), 1);
}

#[test]
fn a_store_is_not_copied_into_itself_under_another_name() {
    let place = Place::in_memory();
    let store = place.store();
    fill(&store, &[("a", b"text")]);
    assert_eq!(run(&[&"copy", &store, &place.sqlite("a"), &"--scope=alice"]).0, Some(0));
    symlink(&store, place.outside("link")).unwrap();
    symlink(place.database(), place.outside("link.db")).unwrap();
    let copy = |source: &str, destination: &str, options: &[&str]| {
        let mut command = program();
        command.current_dir(place.outside("")).args(["copy", source, destination]).args(options);
        outcome(&mut command)
    };
    let absolute = store.to_str().unwrap();
    let mount = format!("--mount=/memories/m={absolute}");
    for (source, destination, options) in [
        ("store", absolute, &["--scope=alice"][..]),
        ("store", "new/../link", &["--scope=alice"]),
        ("store", "store", &["--source-scope=alice"]),
        ("store", "sqlite:store/memories/new.db", &[]),
        ("store", "other", &[&mount]),
        ("sqlite:memory.db?memory=a", "sqlite:link.db?memory=a", &["--scope=bob"]),
    ] {
        let (status, _, errors) = copy(source, destination, options);
        assert!(status == Some(2) && errors.contains("into itself"), "{source} {destination} {options:?} {errors}");
    }
    assert_eq!(memories(&store).into_keys().collect::<Vec<_>>(), ["a"]);
    // Stores that do not overlap are copied.
    for (source, destination, options) in [
        ("sqlite:memory.db?memory=a", "sqlite:memory.db?memory=a", &["--source-scope=alice", "--scope=bob"][..]),
        ("store", "other", &["--mount-read-only=/memories/m=store"]),
    ] {
        let (status, _, errors) = copy(source, destination, options);
        assert_eq!((status, errors.as_str()), (Some(0), ""), "{source} {destination} {options:?}");
    }
}

#[test]
fn other_scopes_are_reported_if_one_is_read() {
    let place = Place::in_memory();
    let key = place.outside("memory.key");
    run(&[&"keygen", &"--output", &key]);
    let key = format!("--key-file={}", key.display());
    fill(&place.outside("plain"), &[("a", b"text")]);
    for (store, options, memories) in
        [(place.outside("sealed").to_str().unwrap().to_owned(), &[key.as_str()][..], 0), (place.sqlite("a"), &[], 1)]
    {
        run(&[&"copy", &place.outside("plain"), &place.sqlite("other")]);
        let target = place.outside("exported.tar");
        let export = |more: &[&str]| {
            let mut command = program();
            command.args(["export", "--json", "--overwrite", "--store", &store]).args(options).args(more).arg(&target);
            let (status, output, errors) = outcome(&mut command);
            assert_eq!(status, Some(0), "{errors}");
            let report: Value = serde_json::from_str(&output).unwrap();
            (report["exported"].clone(), report["others"].clone(), errors)
        };
        let url = StoreUrl::parse(&store).unwrap();
        let of_database =
            format!("memory-tool: {} has 1 other memory, not included here\n", place.database().display());
        let of_database = if memories == 1 { of_database } else { String::new() };
        for (scope, others, noted) in [
            ("alice", 0, String::new()),
            ("bob", 1, format!("memory-tool: {url} has 1 other scope, not included here\n")),
            ("carl", 2, format!("memory-tool: {url} has 2 other scopes, not included here\n")),
        ] {
            let scope = format!("--scope={scope}");
            let mut command = program();
            command.arg("copy").arg(place.outside("plain")).arg(&store).args(options).arg(&scope);
            assert_eq!(outcome(&mut command).0, Some(0));
            let expected = (json!(1), json!(others + memories), format!("{of_database}{noted}"));
            assert_eq!(export(&[&scope]), expected, "{store} {scope}");
        }
        // All scopes are a part of the memory.
        assert_eq!(export(&[]), (json!(3), json!(memories), of_database), "{store}");
    }
}

#[test]
fn an_empty_memory_is_an_error_if_its_database_has_others() {
    let place = Place::in_memory();
    fill(&place.store(), &[("a", b"text")]);
    run(&[&"copy", &place.store(), &place.sqlite("a")]);
    let default = format!("sqlite:{}", place.database().display());
    let error = format!(
        "memory-tool: there are no files in {}, but 1 other memory in {}; name a memory, such as {}, or add --all\n",
        StoreUrl::parse(&default).unwrap(),
        place.database().display(),
        StoreUrl::parse(place.sqlite("a")).unwrap(),
    );
    for arguments in [&["verify"][..], &["export", "-"]] {
        let output = outcome(program().args(arguments).args(["--store", &default]));
        assert_eq!(output, (Some(2), String::new(), error.clone()), "{arguments:?}");
    }
    assert_eq!(run(&[&"copy", &default, &place.outside("to")]), (Some(2), String::new(), error));
}

#[test]
fn in_process_stores_are_refused_as_destination() {
    let place = Place::in_memory();
    let (store, other) = (place.store(), place.outside("other"));
    fill(&store, &[("m/a", b"text")]);
    let plain = store.join("memories");
    for options in [&[][..], &["--dry-run"]] {
        let mounted = [&["--mount=/memories/m=in-process:"], options].concat();
        for command in [
            program().arg("copy").arg(&store).arg("in-process:").args(options),
            program().arg("import").arg(&plain).arg("--store=in-process:").args(options),
            program().arg("copy").arg(&store).arg(&other).args(mounted),
        ] {
            let (status, output, errors) = outcome(command);
            assert_eq!((status, output.as_str()), (Some(2), ""), "{command:?}");
            assert!(errors.contains("in-process: is temporary"), "{errors}");
        }
    }
    assert!(!other.exists());
}

fn record_access_times(store: &Path, times: String) {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let memory = Memory::open(store).await.unwrap();
        let record: StorePath = "/records/expiry/access-times".parse().unwrap();
        memory.store().apply(Batch::new().write(record, times)).await.unwrap();
    });
}

#[test]
fn an_import_restores_an_export() {
    let place = Place::in_memory();
    let all = fill_with_odd_files(&place.store());
    let bytes: usize = all.values().map(Vec::len).sum();
    for target in ["plain", "backup.tar", "backup.tar.gz", "backup.tgz", "B.TAR.GZ"] {
        let path = place.outside(target);
        let summary = format!("exported {} files ({bytes} bytes)", all.len());
        assert_eq!(run(&[&"export", &"--store", &place.store(), &path]), done(0, &summary));
        let store = place.outside(&format!("of-{target}"));
        let summary = |copied: usize, bytes: usize, there: usize| {
            format!(
                "imported {copied} files ({bytes} bytes), overwrote 0; {there} unchanged, 0 only in the destination"
            )
        };
        assert_eq!(run(&[&"import", &"--store", &store, &path]), done(0, &summary(all.len(), bytes, 0)));
        assert_eq!(run(&[&"import", &"--store", &store, &path]), done(0, &summary(0, 0, all.len())));
        assert_eq!(memories(&store), all);
        let (status, _, errors) = run(&[&"export", &"--store", &store, &path]);
        assert!(status == Some(2) && errors.contains(": it exists; "), "{errors}");
    }
    assert_eq!(files(&place.outside("plain")), all);
    let mode = |name: &str| fs::metadata(place.outside(name)).unwrap().permissions().mode() & 0o777;
    let modes = [mode("plain"), mode("plain/d/e"), mode("plain/a.txt"), mode("backup.tar")];
    assert_eq!(modes, [0o700, 0o700, 0o600, 0o600]);
}

#[test]
fn archives_are_reproducible_and_readable_by_tar() {
    let place = Place::in_memory();
    let all = fill_with_odd_files(&place.store());
    assert_eq!(run(&[&"export", &"--store", &place.store(), &place.outside("a.tar")]).0, Some(0));
    let output = program().arg("export").arg("--store").arg(place.store()).arg("-").output().unwrap();
    assert!(output.status.success());
    assert!(String::from_utf8(output.stderr).unwrap().starts_with("exported "));
    assert_eq!(output.stdout, fs::read(place.outside("a.tar")).unwrap());

    let unpacked = place.outside("unpacked");
    fs::create_dir(&unpacked).unwrap();
    let (status, _, errors) =
        outcome(Command::new("tar").arg("-xf").arg(place.outside("a.tar")).arg("-C").arg(&unpacked));
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    assert_eq!(files(&unpacked), all);
    let mode = |name: &str| fs::metadata(unpacked.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!([mode("d/e"), mode("a.txt")], [0o700, 0o600]);

    // Archives of tar are read, with `./` and with a directory.
    let mut packed = program();
    let (status, output, _) = {
        let tar = Command::new("tar").arg("-c").arg("-C").arg(&unpacked).arg("./d").output().unwrap().stdout;
        outcome_with(packed.args(["import", "-", "--under", "d/e", "--store"]).arg(place.outside("e")), &tar)
    };
    assert_eq!((status, output.lines().count()), (Some(0), 1), "{output}");
    assert_eq!(memories(&place.outside("e")).into_keys().collect::<Vec<_>>(), ["100% [...slug] \"q\".md"]);
}

#[test]
fn some_files_and_directories_are_exported() {
    let place = Place::in_memory();
    fill(&place.store(), &[("a/b", b"one"), ("a/c", b"two"), ("ab", b"three"), ("d", b"four")]);
    let target = place.outside("part");
    let (status, part) = report(&[&"export", &"--store", &place.store(), &target, &"a", &"/memories/d"]);
    assert_eq!((status, &part["exported"], &part["bytes"]), (Some(0), &json!(3), &json!(10)));
    assert_eq!(files(&target).into_keys().collect::<Vec<_>>(), ["a/b", "a/c", "d"]);
    let missing = run(&[&"export", &"--store", &place.store(), &place.outside("none"), &"a", &"e"]);
    assert_eq!(missing, (Some(2), String::new(), "memory-tool: /memories/e does not exist\n".to_owned()));
    assert!(!place.outside("none").exists());
}

#[test]
fn an_export_that_nobody_reads_ends_quietly() {
    let place = Place::in_memory();
    fill(&place.store(), &[("a", &[b'x'; 1_000_000])]);
    let mut export = program();
    export.args(["export", "-", "--store"]).arg(place.store()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut export = export.spawn().unwrap();
    drop(export.stdout.take());
    let output = export.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(141), ""));
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn compressed_archives_are_reproducible() {
    let place = Place::in_memory();
    let all = fill_with_odd_files(&place.store());
    for target in ["a.tar", "a.tar.gz", "b.tgz"] {
        assert_eq!(run(&[&"export", &"--store", &place.store(), &place.outside(target)]).0, Some(0));
    }
    let read = |name: &str| fs::read(place.outside(name)).unwrap();
    assert_eq!(read("a.tar.gz"), read("b.tgz"));
    let unpacked = Command::new("gzip").arg("-dc").arg(place.outside("b.tgz")).output().unwrap();
    assert!(unpacked.status.success() && unpacked.stdout == read("a.tar"));
    // Archives of gzip are read under any name and from standard input, including several streams in a row.
    let (first, rest) = unpacked.stdout.split_at(2_000);
    for (number, archive) in [gzip(&unpacked.stdout), [gzip(first), gzip(rest)].concat()].iter().enumerate() {
        let (of_file, of_input) = (place.outside(&format!("file{number}")), place.outside(&format!("input{number}")));
        fs::write(place.outside("backup.tar"), archive).unwrap();
        assert_eq!(run(&[&"import", &"--store", &of_file, &place.outside("backup.tar")]).0, Some(0));
        assert_eq!(outcome_with(program().args(["import", "-", "--store"]).arg(&of_input), archive).0, Some(0));
        assert_eq!((memories(&of_file), memories(&of_input)), (all.clone(), all.clone()));
    }
}

#[test]
fn a_truncated_or_damaged_compressed_archive_is_reported() {
    let whole = gzip(&[regular("a", b"text"), regular("b", &[b'b'; 600]), END.to_vec(), vec![0; 9_000]].concat());
    assert_eq!(import(&whole).0, Some(0));
    for length in (2..whole.len()).step_by(7).chain([whole.len() - 1]) {
        let (status, found) = import(&whole[..length]);
        assert_eq!((status, found["archive_error"].is_string()), (Some(1), true), "{length} bytes: {found}");
    }
    let checksum = whole.len() - 8;
    for (position, byte) in whole.iter().enumerate().skip(checksum) {
        let mut damaged = whole.clone();
        damaged[position] = !byte;
        let (status, found) = import(&damaged);
        assert_eq!((status, found["archive_error"].is_string()), (Some(1), true), "byte {position}: {found}");
    }
}

/// An archive that is a thousand times as large when decompressed uses no more memory than others.
#[test]
fn a_compressed_archive_cannot_exhaust_memory() {
    const LENGTH: usize = 512 << 20;
    let place = Place::in_memory();
    // Streams in a row count as one, so a megabyte is compressed once and repeated.
    let filled = |byte: u8| gzip(&vec![byte; 1 << 20]).repeat(LENGTH >> 20);
    let header = |kind, name: &[u8]| gzip(&entry(kind, name, LENGTH as u64, b""));
    let rest = gzip(&[regular("last", b"last"), END.to_vec()].concat());
    let long_name = header(tar::EntryType::GNULongName, b"././@LongLink");
    let extension = header(tar::EntryType::XHeader, b"extensions");
    for (number, (archive, is_whole)) in [
        ([header(tar::EntryType::Regular, b"large"), filled(0), rest.clone()], true),
        ([long_name, filled(b'n'), rest.clone()], false),
        ([extension, filled(b'1'), rest.clone()], false),
        ([gzip(&END), filled(0), filled(0)], true),
    ]
    .into_iter()
    .enumerate()
    {
        let path = place.outside("bomb.tar.gz");
        fs::write(&path, archive.concat()).unwrap();
        let store = place.outside(&number.to_string());
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -v 300000 && exec \"$0\" import \"$1\" --json --store \"$2\""]);
        let (_, output, errors) = outcome(shell.arg(program().get_program()).arg(&path).arg(&store));
        let found: Value = serde_json::from_str(&output).expect(&errors);
        assert_eq!(found["archive_error"].is_null(), is_whole, "{number}: {found}");
        assert_eq!(found["copied"], i32::from(number == 0), "{number}: {found}");
    }
}

#[test]
fn unsupported_formats_are_refused() {
    let place = Place::in_memory();
    fill(&place.store(), &[("a", b"text")]);
    for name in "x.tar.zst x.tar.bz2 x.tar.xz x.7z x.rar x.gz x.tar.Z x.cpio X.7Z dir/x.tzst".split(' ') {
        let target = place.outside(name);
        let expected = format!(
            "memory-tool: cannot export to {}: its format is not supported. \
             Name a directory, or a file that ends in .tar, .tar.gz, .tgz or .zip\n",
            target.display()
        );
        assert_eq!(run(&[&"export", &"--store", &place.store(), &target]), (Some(2), String::new(), expected));
        assert!(!target.exists());
    }
    let store = place.outside("to");
    for (start, format) in [
        (b"PK\x03\x04\x14\0".as_slice(), "a zip archive"),
        (b"\x28\xb5\x2f\xfd\x04\0", "zstd compression"),
        (b"BZh91AY&SY\0", "bzip2 compression"),
        (b"\xfd7zXZ\0\0", "xz compression"),
        (b"7z\xbc\xaf\x27\x1c\0", "a 7z archive"),
        (b"Rar!\x1a\x07\x01\0", "a rar archive"),
    ] {
        let source = place.outside("backup");
        fs::write(&source, [start, &[7; 2_000]].concat()).unwrap();
        let expected = |source: &str| {
            format!(
                "memory-tool: cannot import {source}: {format} is not supported; \
                 name a directory or a tar archive, plain or with gzip\n"
            )
        };
        let of_file = run(&[&"import", &source, &"--store", &store]);
        assert_eq!(of_file, (Some(2), String::new(), expected(source.to_str().unwrap())));
        let of_input = outcome_with(program().args(["import", "-", "--store"]).arg(&store), start);
        assert_eq!(of_input, (Some(2), String::new(), expected("-")));
    }
    assert!(!store.exists());
}

#[test]
fn the_directory_of_a_store_is_not_imported() {
    let place = Place::in_memory();
    let (source, destination) = (place.store(), place.outside("to"));
    let create = ["create", "/memories/a", "--text", "text", "--store"];
    assert!(program().args(create).arg(&source).output().unwrap().status.success());
    let expected = format!(
        "memory-tool: cannot import {0}: it is the directory of a store; use: \
         memory-tool copy {0} file://{1}\n",
        source.display(),
        destination.display()
    );
    assert_eq!(run(&[&"import", &source, &"--store", &destination]), (Some(2), String::new(), expected));
    assert!(!destination.exists());
    let below = run(&[&"import", &source, &"--store", &destination, &"--under=memories"]);
    assert_eq!(below.0, Some(0), "{below:?}");
    assert_eq!(memories(&destination), memories(&source));
}

#[test]
fn an_import_without_files_creates_no_store() {
    let place = Place::in_memory();
    let (empty, junk) = (place.outside("empty"), place.outside("junk"));
    fs::create_dir(&empty).unwrap();
    fs::write(&junk, [7; 2_000]).unwrap();
    for (source, status) in [(&empty, 0), (&junk, 1)] {
        let (ended, found) = report(&[&"import", source, &"--store", &place.store()]);
        assert_eq!((ended, &found["copied"]), (Some(status), &json!(0)), "{found}");
        assert!(!place.store().exists());
    }
    fill(&place.store(), &[("a", b"text")]);
    assert_eq!(report(&[&"import", &empty, &"--store", &place.store()]).1["only_in_destination"], 1);
}

#[test]
fn archives_are_not_written_to_a_terminal() {
    let place = Place::in_memory();
    fill(&place.store(), &[("a", b"a memory")]);
    let on_terminal = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
    let mut python = Command::new("python3");
    python.args(["-c", on_terminal]).arg(program().get_program()).args(["export", "-", "--store"]).arg(place.store());
    let (status, output, errors) = outcome(python.stdin(Stdio::null()));
    assert_eq!((status, errors.as_str()), (Some(2), ""));
    assert!(output.contains("cannot write an archive to a terminal") && !output.contains("a memory"), "{output}");
}

fn import(archive: &[u8]) -> (Option<i32>, Value) {
    let place = Place::in_memory();
    let (status, output, errors) =
        outcome_with(program().args(["import", "-", "--json", "--store"]).arg(place.store()), archive);
    assert_eq!(errors, "");
    (status, serde_json::from_str(&output).unwrap())
}

#[test]
fn no_link_in_the_target_of_an_export_is_followed() {
    let place = Place::in_memory();
    fill(&place.store(), &[("a", b"text"), ("d/b", b"text"), ("e", b"new"), ("f", b"x")]);
    let (target, outside) = (place.outside("to"), place.outside("outside"));
    for directory in [&target, &outside] {
        fs::create_dir(directory).unwrap();
    }
    fs::write(outside.join("a"), "theirs").unwrap();
    symlink(outside.join("a"), target.join("a")).unwrap();
    symlink(&outside, target.join("d")).unwrap();
    fs::create_dir(target.join("f")).unwrap();
    fs::write(target.join("e"), "old").unwrap();
    fs::write(target.join("mine"), "mine").unwrap();
    let (status, found) = report(&[&"export", &"--store", &place.store(), &target, &"--overwrite"]);
    let refused: Vec<_> =
        found["refused"].as_array().unwrap().iter().map(|problem| problem["path"].as_str().unwrap()).collect();
    assert_eq!((status, refused), (Some(1), vec!["/memories/a", "/memories/d/b", "/memories/f"]));
    assert_eq!((&found["exported"], &found["bytes"]), (&json!(1), &json!(3)));
    assert_eq!(files(&outside), Files::from([("a".to_owned(), b"theirs".to_vec())]));
    assert_eq!(fs::read(target.join("e")).unwrap(), b"new");
    assert_eq!(fs::read_dir(&target).unwrap().count(), 5, "no other files remain");
}

#[test]
fn special_files_of_a_directory_are_skipped() {
    let place = Place::in_memory();
    let plain = place.outside("plain");
    fs::create_dir_all(plain.join("d")).unwrap();
    fs::write(plain.join("d/a"), "text").unwrap();
    fs::write(plain.join("large"), [0; 11]).unwrap();
    fs::write(plain.join(OsStr::from_bytes(b"n\xff")), "x").unwrap();
    fs::create_dir(plain.join("back\\slash")).unwrap();
    fs::write(plain.join("back\\slash/a"), "x").unwrap();
    fs::write(place.outside("secret"), "secret").unwrap();
    symlink(place.outside("secret"), plain.join("link")).unwrap();
    symlink(place.outside(""), plain.join("links")).unwrap();
    assert!(Command::new("mkfifo").arg(plain.join("pipe")).status().unwrap().success());
    let store = place.store();
    let (status, found) = report(&[&"import", &plain, &"--store", &store, &"--skip-above=10"]);
    let expected = json!({
        "dry_run": false, "copied": 1, "overwritten": 0, "bytes": 4, "unchanged": 0, "redacted": [],
        "conflicts": [], "refused": [], "unverified": [],
        "more_redacted": 0, "more_conflicts": 0, "more_refused": 0, "more_unverified": 0,
        "only_in_destination": 0, "archive_error": null,
        "more_skipped": 0,
        "skipped": [
            {"path": "back\\slash", "reason": "Path /memories/back\\slash would escape /memories directory"},
            {"path": "large", "reason": "it has more than 10 bytes, see --skip-above"},
            {"path": "link", "reason": "it is a link"},
            {"path": "links", "reason": "it is a link"},
            {"path": "n\u{fffd}", "reason": "the name is not UTF-8 text"},
            {"path": "pipe", "reason": "it is not a file"},
        ],
    });
    assert_eq!((status, found), (Some(1), expected));
    assert_eq!(memories(&store), Files::from([("d/a".to_owned(), b"text".to_vec())]));
}

/// The size may differ from the length of the content.
fn entry(kind: tar::EntryType, name: &[u8], size: u64, content: &[u8]) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_cksum();
    let padding = content.len().next_multiple_of(512) - content.len();
    [header.as_bytes().as_slice(), content, &vec![0; padding]].concat()
}

fn sparse(name: &str, offset: u64, content: &[u8]) -> Vec<u8> {
    let length = content.len() as u64;
    let number = |number: u64| [[0x80, 0, 0, 0].as_slice(), &number.to_be_bytes()].concat();
    let mut header = tar::Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(tar::EntryType::GNUSparse);
    header.set_size(length);
    let sparse = header.as_gnu_mut().unwrap();
    sparse.sparse[0].offset.copy_from_slice(&number(offset));
    sparse.sparse[0].numbytes.copy_from_slice(&number(length));
    sparse.realsize.copy_from_slice(&number(offset + length));
    header.set_cksum();
    [header.as_bytes().as_slice(), content].concat()
}

/// The extensions before an entry.
fn extensions(records: &[&str]) -> Vec<u8> {
    let content: String = records.iter().map(|record| format!("{} {record}\n", record.len() + 4)).collect();
    assert!(records.iter().all(|record| (6..96).contains(&record.len())), "the length has two digits");
    entry(tar::EntryType::XHeader, b"extensions", content.len() as u64, content.as_bytes())
}

fn regular(name: &str, content: &[u8]) -> Vec<u8> {
    entry(tar::EntryType::Regular, name.as_bytes(), content.len() as u64, content)
}

const END: [u8; 1024] = [0; 1024];

#[test]
fn a_hostile_archive_changes_only_the_memory() {
    let place = Place::in_memory();
    let archive = [
        regular("./a", b"text"),
        regular("../x", b"x"),
        regular("/etc/x", b"x"),
        regular("d/../../x", b"x"),
        regular("d/./x", b"x"),
        regular("d//x", b"x"),
        regular("d\\x", b"x"),
        regular("%2e%2e/x", b"x"),
        regular("e\n\u{1b}[2J", b"x"),
        regular("a", b"again"),
        regular("large", &[0; 5_000]),
        entry(tar::EntryType::Symlink, b"link", 0, b""),
        entry(tar::EntryType::Link, b"hard", 0, b""),
        entry(tar::EntryType::Fifo, b"pipe", 0, b""),
        entry(tar::EntryType::Char, b"device", 0, b""),
        entry(tar::EntryType::Directory, b"empty/", 0, b""),
        sparse("zeros", 1 << 62, b""),
        sparse("holes", 1 << 62, &[1; 3 << 20]),
        extensions(&["GNU.sparse.major=1", "GNU.sparse.minor=0", "GNU.sparse.name=posix"]),
        regular("GNUSparseFile.1/posix", b"1\n0\n4\ntext"),
        extensions(&["GNU.sparse.offset=0", "GNU.sparse.numbytes=4"]),
        regular("posix of old", b"text"),
        regular("a/b", b"x"),
        regular("last", b"last"),
        END.to_vec(),
    ]
    .concat();
    let path = place.outside("x.tar");
    fs::write(&path, archive).unwrap();
    let limit = "--skip-above=4096";
    // A dry run counts the files that it would have written.
    let (_, mut dry_run) = report(&[&"import", &path, &"--store", &place.store(), &limit, &"--dry-run"]);
    assert!(!place.store().exists());
    let (status, found) = report(&[&"import", &path, &"--store", &place.store(), &limit]);
    dry_run["dry_run"] = false.into();
    dry_run["only_in_destination"] = found["only_in_destination"].clone();
    assert_eq!(dry_run, found);
    let skipped: Vec<_> =
        found["skipped"].as_array().unwrap().iter().map(|problem| problem["path"].as_str().unwrap()).collect();
    let expected = "../x|/etc/x|d/../../x|d/./x|d//x|d\\x|%2e%2e/x|e\n\u{1b}[2J|a|large\
                    |link|hard|pipe|device|zeros|holes|GNUSparseFile.1/posix|posix of old";
    let expected: Vec<_> = expected.split('|').collect();
    assert_eq!((status, skipped), (Some(1), expected));
    assert_eq!(
        found["refused"],
        json!([{"path": "/memories/a/b", "reason": "/memories/a is a file, not a directory"}])
    );
    assert_eq!((&found["copied"], &found["archive_error"]), (&json!(2), &Value::Null));
    let (_, output, _) = run(&[&"import", &path, &"--store", &place.store(), &limit]);
    assert!(output.contains("\ne\\n\\u{1b}[2J was skipped: ") && !output.contains('\u{1b}'), "{output}");
    let expected = Files::from([("a".to_owned(), b"text".to_vec()), ("last".to_owned(), b"last".to_vec())]);
    assert_eq!(memories(&place.store()), expected);
    assert!(!place.outside("x").exists());
}

#[test]
fn the_number_of_reported_skipped_files_is_limited() {
    let place = Place::in_memory();
    let long = [b'\\'; 200_000];
    let named = [
        entry(tar::EntryType::GNULongName, b"././@LongLink", long.len() as u64, &long),
        regular("short", b"x"),
        regular("../x", b"x").repeat(1_001),
        regular("last", b"last"),
        END.to_vec(),
    ];
    let path = place.outside("x.tar");
    fs::write(&path, named.concat()).unwrap();
    let (status, found) = report(&[&"import", &path, &"--store", &place.store()]);
    let skipped = found["skipped"].as_array().unwrap();
    assert_eq!((status, skipped.len(), &found["more_skipped"]), (Some(1), 1_000, &json!(2)));
    assert!(["path", "reason"].iter().all(|part| skipped[0][part].as_str().unwrap().chars().count() == 1_025));
    let (_, output, _) = run(&[&"import", &path, &"--store", &place.store()]);
    assert!(output.contains("\nskipped 2 more files\nimported 0 files "), "{output}");
    assert_eq!(memories(&place.store()).into_keys().collect::<Vec<_>>(), ["last"]);
}

#[test]
fn a_truncated_or_damaged_archive_is_reported() {
    let place = Place::in_memory();
    let whole = [regular("a", b"text"), regular("b", &[b'b'; 600]), END.to_vec()].concat();
    assert_eq!(import(&whole).0, Some(0));
    for length in [0, 100, 512, 514, 1024, 1536, 1600, 2048, 2560] {
        let (status, found) = import(&whole[..length]);
        assert_eq!((status, found["archive_error"].is_string()), (Some(1), true), "{length} bytes: {found}");
    }
    let declared = |size: u64| [entry(tar::EntryType::Regular, b"huge", size, b"x"), regular("b", b"x")].concat();
    for (what, bytes) in [
        ("more than there is", declared(10_000_000)),
        ("far more than is allowed", declared(1 << 50)),
        ("the maximum", declared(u64::MAX >> 1)),
        ("no archive", b"what is no archive at all".repeat(100)),
        ("compressed", [b"\x1f\x8b\x08\x00".as_slice(), &[7; 2000]].concat()),
        ("a sparse file of two sizes, and a long name behind it", {
            let mut header = tar::Header::from_byte_slice(&sparse("sparse", 0, b"")).clone();
            header.set_size(1 << 62);
            header.set_cksum();
            let name = vec![b'n'; 3 << 20];
            let long = entry(tar::EntryType::GNULongName, b"././@LongLink", name.len() as u64, &name);
            let size = extensions(&["size=000"]);
            [size, header.as_bytes().to_vec(), long, regular("b", b"x"), END.to_vec()].concat()
        }),
        ("a long name without end", {
            let name = vec![b'n'; 3 << 20];
            [
                entry(tar::EntryType::GNULongName, b"././@LongLink", name.len() as u64, &name),
                regular("b", b"x"),
                END.to_vec(),
            ]
            .concat()
        }),
    ] {
        let (status, found) = import(&bytes);
        assert_eq!((status, found["archive_error"].is_string()), (Some(1), true), "{what}: {found}");
        assert_eq!(found["copied"], 0, "{what}");
    }
    // A failed export leaves no incomplete archive.
    fill(&place.store(), &[("a", b"text")]);
    let target = place.outside("none/backup.tar");
    let (status, _, errors) = run(&[&"export", &"--store", &place.store(), &target]);
    assert!(status == Some(2) && errors.contains("cannot write "), "{errors}");
}

#[test]
fn an_interrupted_export_removes_incomplete_files() {
    let place = Place::in_memory();
    let names: Vec<_> = (0..3_000).map(|number| number.to_string()).collect();
    let listed: Vec<_> = names.iter().map(|name| (name.as_str(), [b'x'; 500].as_slice())).collect();
    fill(&place.store(), &listed);
    for (signal, status, name) in [("-INT", 130, "backup.tar"), ("-TERM", 143, "backup.tar"), ("-INT", 130, "plain")] {
        // If the export ends before the signal, it is repeated.
        let ended = (0..200).find_map(|attempt| {
            let beside = place.outside(&format!("{name}{signal}{attempt}"));
            fs::create_dir(&beside).unwrap();
            let target = beside.join(name);
            let mut command = program();
            command.arg("export").arg("--store").arg(place.store()).arg(&target);
            let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
            let start = Instant::now();
            while fs::read_dir(&beside).unwrap().count() == 0 {
                assert!(start.elapsed() < PATIENCE, "it does not begin");
            }
            assert!(Command::new("kill").args([signal, &process.id().to_string()]).status().unwrap().success());
            let ended = wait_for_end(&mut process).code();
            if ended == Some(0) {
                return None;
            }
            let errors = std::io::read_to_string(process.stderr.take().unwrap()).unwrap();
            assert_eq!((ended, errors.as_str()), (Some(status), "memory-tool: interrupted\n"));
            Some(files(&beside))
        });
        let left = ended.expect("the signal never came in time");
        assert!(left.iter().all(|(name, content)| !name.contains(".memory-tool-export-") && content.len() == 500));
        assert!(name == "plain" || left.is_empty(), "{signal}");
    }
}
