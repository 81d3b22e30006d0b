//! Completion of paths in the memory.

use std::fs;
use std::process::Command;

use memory_tool_test_fixtures::session::{Place, outcome, program};

/// Names with a meaning in a shell.
const NAMES: [&str; 18] = [
    "!x",
    "#c",
    "$(touch made).md",
    "$HOME",
    "*",
    "-rf",
    "; touch made",
    "[br]?",
    "`touch made`",
    "a:b=c",
    "br{a,b}",
    "it's",
    "memories",
    "my file.md",
    "q\"uote",
    "x&y|z<>",
    "~root",
    "é ü",
];

fn place() -> Place {
    let place = Place::new();
    for name in NAMES.into_iter().chain(["d/e/f", "d/in side", ".hidden"]) {
        let file = place.file(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "").unwrap();
    }
    fs::create_dir(place.outside("work")).unwrap();
    place
}

/// The words that a shell inserts for a line, as its script gets them. `None` if no path is expected.
fn completed(place: &Place, shell: &str, words: &[&str]) -> Option<Vec<String>> {
    let mut command = program();
    command.args(["completions", shell, "--"]).args(words).env("MEMORY_TOOL_STORE", place.store());
    let (status, output, errors) = outcome(&mut command);
    assert_eq!(errors, "");
    (status == Some(0)).then(|| output.lines().map(str::to_owned).collect())
}

/// The words of a line as bash reads it, in an empty directory.
fn words_in_bash(place: &Place, line: &str) -> Vec<String> {
    let mut bash = Command::new("bash");
    bash.args(["-c", &format!("printf '%s\\n' {line}")]).current_dir(place.outside("work"));
    let (status, output, errors) = outcome(&mut bash);
    assert_eq!((status, errors.as_str()), (Some(0), ""), "{line}");
    output.lines().map(str::to_owned).collect()
}

/// A name after `./`, if it is special at the start of a word.
fn as_word(name: &str) -> String {
    if ["-rf", "~root", "memories"].contains(&name) { format!("./{name}") } else { name.to_owned() }
}

#[test]
fn no_name_is_a_part_of_the_shell_language() {
    let place = place();
    for shell in ["fish", "zsh"] {
        let mut expected: Vec<_> = NAMES.into_iter().map(as_word).chain(["d/".to_owned()]).collect();
        let mut found = completed(&place, shell, &["memory-tool", "cat", ""]).unwrap();
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected);
    }
    for name in NAMES {
        let start: String = name.chars().take(1).collect();
        for (quote, typed) in
            [("", format!("./\\{start}")), ("'", format!("'./{start}")), ("\"", format!("\"./\\{start}"))]
        {
            // Not all characters can be typed so.
            if quote == "\"" && !"$`\"".contains(&start) || name.is_empty() {
                continue;
            }
            let line = format!("memory-tool cat {typed}");
            let replaced = typed.strip_prefix(quote).unwrap();
            let inserted = completed(&place, "bash", &[&line, replaced]).unwrap();
            let read: Vec<_> =
                inserted.iter().flat_map(|text| words_in_bash(&place, &format!("{quote}{text}{quote}"))).collect();
            assert!(read.contains(&format!("./{name}")), "{typed}: {inserted:?}, {read:?}");
        }
    }
    assert!(fs::read_dir(place.outside("work")).unwrap().next().is_none());
}

#[test]
fn paths_are_completed_where_a_command_expects_them() {
    let place = place();
    let store = place.store();
    let store = store.to_str().unwrap();
    let found = |words: &[&str]| completed(&place, "fish", &[&["memory-tool"], words].concat());
    let named = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    for (words, expected) in [
        (&["cat", "my"][..], named(&["my file.md"])),
        (&["cat", "'my"], named(&["my file.md"])),
        (&["view", "/mem"], named(&["/memories/"])),
        (&["view", "/memories/my"], named(&["/memories/my file.md"])),
        (&["view", "/etc/pass"], named(&[])),
        (&["cat", "d/"], named(&["d/e/", "d/in side"])),
        (&["cat", ".h"], named(&[".hidden"])),
        (&["mv", "x", "-f", "y", "d/e"], named(&["d/e/"])),
        (&["ls", "-lR", "--timeout", "9s", "d/e"], named(&["d/e/"])),
        (&["ls", "--store", store, "--", "d/e"], named(&["d/e/"])),
        (&["log", "-n", "3", "d/e"], named(&["d/e/"])),
        (&["log", "-n3", "d/e"], named(&["d/e/"])),
        (&["show", "3", "d/e"], named(&["d/e/"])),
        (&["restore", "--to=24h", "d/e"], named(&["d/e/"])),
        (&["diff", "1", "2", "d/e"], named(&["d/e/"])),
        (&["run", "--expire-after", "9d", "--pin", "d/e"], named(&["d/e/"])),
        (&["rename", "a", "d/e"], named(&["d/e/"])),
        (&["ls", "--store", "in-process:", "d"], named(&[])),
        (&["ls", "--store", "/no/such/store", "d"], named(&[])),
        (&["show", "d"], None),
        (&["append", "a", "d"], None),
        (&["create", "a", "--file", "d"], None),
        (&["cat", "--st"], None),
        (&["c"], None),
        (&["no-command", "d"], None),
    ] {
        assert_eq!(found(words), expected, "{words:?}");
    }
    let other = place.outside("other").display().to_string();
    let typed = format!("memory-tool cat --store='{other}' a");
    assert_eq!(completed(&place, "bash", &[&typed, "a"]), named(&[]));
    assert!(!place.outside("other").exists());
    // Bash replaces only the text after a colon.
    assert_eq!(completed(&place, "bash", &["memory-tool cat a:", ""]), named(&["b=c"]));
}

#[test]
fn the_function_of_bash_completes_paths_and_options() {
    let place = place();
    let directory = std::path::PathBuf::from(program().get_program()).parent().unwrap().to_owned();
    let script = r#"
        PATH="$1:$PATH"
        source <(memory-tool completions bash)
        try() {
            COMP_LINE="memory-tool $*" COMP_WORDS=(memory-tool "$@") COMP_CWORD=$#
            COMP_POINT=${#COMP_LINE}
            function=$(complete -p memory-tool | sed 's/.*-F \([^ ]*\).*/\1/')
            "$function" memory-tool "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
            printf '%s|' "${COMPREPLY[@]}"; echo
        }
        try cat my
        try cat --must-e
        try create --must-e
        try cat ';'
        try cat none
    "#;
    let mut bash = Command::new("bash");
    bash.args(["-c", script, "bash"]).arg(directory).env("MEMORY_TOOL_STORE", place.store());
    let (status, output, errors) = outcome(bash.current_dir(place.outside("work")));
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    assert_eq!(output, "my\\ file.md|\n|\n--must-exist|\n\\;\\ touch\\ made|\n|\n");
}
