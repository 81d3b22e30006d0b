//! Reads the output of `strace -f -y`. For the tests of this workspace; not part of the public API.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// A system call that has ended.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Call {
    /// The thread that made it.
    pub thread: String,
    /// Its name, such as `fsync`.
    pub name: String,
    /// Its arguments, as they are in the output.
    pub arguments: Vec<String>,
    /// The returned value, such as `3</path>` or `-1 ENOENT (No such file or directory)`.
    pub result: String,
    /// The number of calls that had ended when this one began.
    pub began: usize,
}

/// A reader of the lines of the output. Each line begins with a thread.
#[derive(Debug, Default)]
pub struct Reader {
    /// The calls that have not ended, by thread, and the number of calls that had ended when each began.
    unfinished: BTreeMap<String, (String, usize)>,
    ended: usize,
}

impl Reader {
    /// Reads a line, and returns the call that ends in it, if there is one.
    pub fn read(&mut self, line: &str) -> Option<Call> {
        let (thread, event) = split_thread(line)?;
        if let Some(start) = event.strip_suffix(" <unfinished ...>") {
            self.unfinished.insert(thread.to_owned(), (start.to_owned(), self.ended));
            return None;
        }
        let (text, began) = if event.starts_with("<...") {
            let (start, began) = self.unfinished.remove(thread)?;
            let (_, end) = event.split_once(" resumed>").unwrap_or_default();
            (start + end, began)
        } else {
            (event.to_owned(), self.ended)
        };
        let call = parse(thread, &text, began)?;
        self.ended += 1;
        Some(call)
    }

    /// The threads in calls that have not ended, and the beginnings of these calls.
    pub fn unfinished(&self) -> impl Iterator<Item = (&str, &str)> {
        self.unfinished.iter().map(|(thread, (start, _))| (thread.as_str(), start.as_str()))
    }
}

/// The thread of a line, and its event.
pub fn split_thread(line: &str) -> Option<(&str, &str)> {
    line.split_once(' ').map(|(thread, event)| (thread, event.trim_start()))
}

/// Parses `name(arguments) = result`.
fn parse(thread: &str, text: &str, began: usize) -> Option<Call> {
    let (call, result) = text.rsplit_once(" = ")?;
    let (name, arguments) = call.trim_end().strip_suffix(')')?.split_once('(')?;
    let (thread, name, result) = (thread.to_owned(), name.to_owned(), result.to_owned());
    Some(Call { thread, name, arguments: split_arguments(arguments), result, began })
}

/// Splits the arguments of a call. Commas in quotes, and in the brackets around paths and lists, do not separate.
fn split_arguments(text: &str) -> Vec<String> {
    let (mut arguments, mut argument) = (Vec::new(), String::new());
    let (mut is_quoted, mut is_escaped, mut depth) = (false, false, 0_usize);
    for character in text.chars() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            '<' | '[' | '{' if !is_quoted => depth += 1,
            '>' | ']' | '}' if !is_quoted => depth = depth.saturating_sub(1),
            ',' if !is_quoted && depth == 0 => {
                arguments.push(std::mem::take(&mut argument).trim().to_owned());
                continue;
            }
            _ => {}
        }
        argument.push(character);
    }
    arguments.push(argument.trim().to_owned());
    arguments
}

impl Call {
    /// Whether the call returned without an error.
    pub fn succeeded(&self) -> bool {
        !self.result.starts_with(['-', '?'])
    }

    /// Whether an argument contains a flag.
    pub fn has_flag(&self, flag: &str) -> bool {
        self.arguments.iter().any(|argument| argument.contains(flag))
    }

    /// The file of the descriptor at this place among the arguments.
    pub fn file(&self, place: usize) -> Option<PathBuf> {
        file_of(self.arguments.get(place)?)
    }

    /// The bytes of the text at this place among the arguments.
    pub fn text(&self, place: usize) -> Option<Vec<u8>> {
        text_of(self.arguments.get(place)?)
    }
}

/// The path in `3</path>`. Some versions of strace mark a deleted file in the path.
pub fn file_of(argument: &str) -> Option<PathBuf> {
    let (_, path) = argument.split_once('<').filter(|(descriptor, _)| !descriptor.starts_with('"'))?;
    let (path, _) = path.rsplit_once('>')?;
    let path = String::from_utf8_lossy(&unescaped(path.strip_suffix(" (deleted)").unwrap_or(path))).into_owned();
    path.starts_with('/').then(|| path.into())
}

/// The bytes of quoted text.
pub fn text_of(argument: &str) -> Option<Vec<u8>> {
    argument.strip_prefix('"')?.strip_suffix('"').map(unescaped)
}

/// Replaces the escapes of bytes, which are written as in C.
fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let number = |digits: &[u8], radix| u8::from_str_radix(str::from_utf8(digits).ok()?, radix).ok();
        let (byte, length) = match (first, after) {
            (b'\\', [b'x', high, low, ..]) => (number(&[*high, *low], 16).unwrap_or(b'?'), 3),
            (b'\\', [b'0'..=b'7', ..]) => {
                let octal = |digits| Some((number(after.get(..digits)?, 8)?, digits));
                [3, 2, 1].into_iter().find_map(octal).unwrap_or((b'?', 1))
            }
            (b'\\', [b'n', ..]) => (b'\n', 1),
            (b'\\', [b't', ..]) => (b'\t', 1),
            (b'\\', [b'r', ..]) => (b'\r', 1),
            (b'\\', [b'v', ..]) => (0x0b, 1),
            (b'\\', [b'f', ..]) => (0x0c, 1),
            (b'\\', [other, ..]) => (*other, 1),
            _ => (*first, 0),
        };
        bytes.push(byte);
        rest = &after[length..];
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(lines: &[&str]) -> Vec<Call> {
        let mut reader = Reader::default();
        lines.iter().filter_map(|line| reader.read(line)).collect()
    }

    #[test]
    fn calls_end_in_the_order_of_their_results() {
        let found = calls(&[
            r#"1 fsync(5</d/a> <unfinished ...>"#,
            r#"2 write(1<pipe:[7]>, "a, \"b\"\n", 7) = 7"#,
            "1 --- SIGCHLD {si_signo=SIGCHLD} ---",
            "1 <... fsync resumed>) = 0",
            "2 close(5</d/a>) = -1 EIO (Input/output error)",
            "2 +++ exited with 0 +++",
            "3 <... futex resumed>) = 0",
        ]);
        let names: Vec<_> = found.iter().map(|call| (call.name.as_str(), call.succeeded(), call.began)).collect();
        assert_eq!(names, [("write", true, 0), ("fsync", true, 0), ("close", false, 2)]);
        assert_eq!(found[0].arguments, ["1<pipe:[7]>", r#""a, \"b\"\n""#, "7"]);
        assert_eq!((found[0].file(0), found[0].text(1)), (None, Some(b"a, \"b\"\n".to_vec())));
        assert_eq!(found[1].file(0), Some("/d/a".into()));
    }

    #[test]
    fn bytes_are_written_in_several_ways() {
        for text in [r#""\303\251\0\1\n""#, r#""\xc3\xa9\x00\x01\x0a""#] {
            assert_eq!(text_of(text).unwrap(), b"\xc3\xa9\0\x01\n", "{text}");
        }
        for file in [r"3</d/\303\251>", r"3</d/\xc3\xa9>(deleted)", r"3<\x2f\x64\x2f\xc3\xa9 (deleted)>"] {
            assert_eq!(file_of(file), Some("/d/é".into()), "{file}");
        }
        assert_eq!((file_of("3<pipe:[1]>"), file_of(r#""</d>""#), text_of("0")), (None, None, None));
    }
}
