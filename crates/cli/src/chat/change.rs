//! [`summary`] and [`changed_lines`]: memory commands as text for people.

use memory_tool::command::Command;
use serde_json::Value;

use crate::chat::api::shortened;
use crate::output::count;

/// The maximum number of removed lines to print, and of added ones.
const MAX_LINES: usize = 10;
const MAX_LINE_CHARACTERS: usize = 160;

/// The command with its paths and sizes, without contents, because logs may keep it.
pub(crate) fn summary(input: &Value) -> String {
    let words = ["command", "path", "old_path", "new_path"].into_iter().filter_map(|field| input[field].as_str());
    let words: Vec<_> = words.collect();
    match (words.is_empty(), Command::parse(input.clone())) {
        (true, _) => "no command".to_owned(),
        (false, Ok(Command::Create(create))) => {
            let text = create.file_text;
            let (lines, bytes) = (count(text.lines().count() as u64, "line"), count(text.len() as u64, "byte"));
            format!("{} ({lines}, {bytes})", words.join(" "))
        }
        (false, Ok(Command::Insert(insert))) => format!("{} after line {}", words.join(" "), insert.insert_line),
        (false, _) => words.join(" "),
    }
}

/// The lines that a `str_replace` or an `insert` removed and added, as in a diff. A part of a line stands for the line.
pub(crate) fn changed_lines(input: &Value) -> Vec<String> {
    let (old, new) = match Command::parse(input.clone()) {
        Ok(Command::StrReplace(replace)) => (replace.old_str, replace.new_str),
        Ok(Command::Insert(insert)) => (String::new(), insert.insert_text),
        _ => return Vec::new(),
    };
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    let (old, new) = without_common_ends(&old, &new);
    [marked("-", old), marked("+", new)].concat()
}

fn without_common_ends<'a, 'b>(mut old: &'a [&'b str], mut new: &'a [&'b str]) -> (&'a [&'b str], &'a [&'b str]) {
    while let ([first, old_rest @ ..], [same, new_rest @ ..]) = (old, new)
        && first == same
    {
        (old, new) = (old_rest, new_rest);
    }
    while let ([old_rest @ .., last], [new_rest @ .., same]) = (old, new)
        && last == same
    {
        (old, new) = (old_rest, new_rest);
    }
    (old, new)
}

fn marked(mark: &str, lines: &[&str]) -> Vec<String> {
    let shown = lines.iter().take(MAX_LINES).map(|line| format!("  {mark} {}", shortened(line, MAX_LINE_CHARACTERS)));
    let hidden = lines.len().saturating_sub(MAX_LINES) as u64;
    let rest = (hidden > 0).then(|| format!("  {mark} … {}", count(hidden, "more line")));
    shown.chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn replaced(old_str: &str, new_str: &str) -> Vec<String> {
        let input = json!({"command": "str_replace", "path": "/memories/a", "old_str": old_str, "new_str": new_str});
        changed_lines(&input)
    }

    #[test]
    fn a_summary_has_paths_and_sizes_without_contents() {
        let input = json!({"command": "create", "path": "/memories/a", "file_text": "secret\nof mine"});
        assert_eq!(summary(&input), "create /memories/a (2 lines, 14 bytes)");
        let input = json!({"command": "insert", "path": "/memories/a", "insert_line": 3, "insert_text": "secret"});
        assert_eq!(summary(&input), "insert /memories/a after line 3");
        let input = json!({"command": "rename", "old_path": "/memories/a", "new_path": "/memories/b"});
        assert_eq!(summary(&input), "rename /memories/a /memories/b");
        assert_eq!(summary(&json!({"command": "create", "path": "/memories/a"})), "create /memories/a");
        assert_eq!(summary(&json!({})), "no command");
    }

    #[test]
    fn only_changed_lines_are_printed() {
        assert_eq!(
            replaced("tea\nwith milk\n", "tea\nno milk\nno sugar\n"),
            ["  - with milk", "  + no milk", "  + no sugar"]
        );
        assert_eq!(replaced("a\nb\nc", "a\nc"), ["  - b"]);
        assert_eq!(replaced("a\na", "a"), ["  - a"]);
        assert_eq!(replaced("a", ""), ["  - a"]);
        assert_eq!(replaced("a", "a"), [""; 0]);
        let insert = json!({"command": "insert", "path": "/memories/a", "insert_line": 0, "insert_text": "x\n\ny\n"});
        assert_eq!(changed_lines(&insert), ["  + x", "  + ", "  + y"]);
        for input in [json!({"command": "view", "path": "/memories"}), json!({"command": "str_replace"}), json!(null)] {
            assert_eq!(changed_lines(&input), [""; 0]);
        }
    }

    #[test]
    fn long_changes_are_shortened() {
        let lines = replaced(&"x\n".repeat(12), &"é".repeat(1000));
        assert_eq!(lines.len(), 12);
        assert_eq!(lines[9..11], ["  - x", "  - … 2 more lines"]);
        assert_eq!(lines[11], format!("  + {}…", "é".repeat(160)));
    }
}
