//! Runs this program under `strace`, and parses the calls that it makes.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use memory_tool_test_fixtures::faults::strace;

/// A system call that succeeded.
pub(super) struct Call {
    pub(super) name: String,
    pub(super) arguments: Vec<Argument>,
    pub(super) result: i64,
    /// The number of calls that had ended when this one began.
    pub(super) began: usize,
}

pub(super) enum Argument {
    /// An open file or directory, with the path that it had when the call began.
    Descriptor {
        number: String,
        path: PathBuf,
    },
    Text(Vec<u8>),
    Other(String),
}

/// Runs this program with environment variables. Returns its calls that name a file or use a descriptor, in the order
/// in which they ended. `fault` makes one of them fail.
pub(super) fn trace(variables: &[(&str, &OsStr)], fault: Option<&str>) -> Vec<Call> {
    let options = ["-y", "-xx", "-s", "1000000", "-e", "trace=%file,%desc,sync,io_uring_setup"].into_iter();
    let options: Vec<_> = options.chain(fault.into_iter().flat_map(|fault| ["-e", fault])).collect();
    let (status, log) = strace(&options, variables);
    assert!(status.success(), "the traced program failed: {status}");
    parse(&log)
}

fn parse(log: &str) -> Vec<Call> {
    let mut calls = Vec::new();
    let mut unfinished = HashMap::new(); // the calls that other threads interrupt in the log
    for line in log.lines() {
        let (thread, event) = line.split_once(' ').unwrap();
        let event = event.trim_start();
        if let Some(start) = event.strip_suffix(" <unfinished ...>") {
            unfinished.insert(thread, (start, calls.len()));
        } else if let Some((_, end)) = event.strip_prefix("<... ").and_then(|event| event.split_once(" resumed>")) {
            let (start, began) = unfinished.remove(thread).unwrap();
            calls.extend(parse_call(&format!("{start}{end}"), began));
        } else if !event.starts_with("+++") && !event.starts_with("---") {
            calls.extend(parse_call(event, calls.len()));
        }
    }
    calls
}

/// Parses `name(arguments) = result`; `None` if the call failed or did not return.
fn parse_call(line: &str, began: usize) -> Option<Call> {
    let (call, result) = line.rsplit_once(" = ").unwrap();
    let (name, arguments) = call.trim_end().strip_suffix(')').unwrap().split_once('(').unwrap();
    let result = result.split(['<', ' ']).next().unwrap();
    if result == "-1" || result == "?" {
        return None;
    }
    let arguments = arguments.split(", ").map(|argument| parse_argument(argument.trim())).collect();
    Some(Call { name: name.to_owned(), arguments, result: result.parse().unwrap_or_default(), began })
}

fn parse_argument(argument: &str) -> Argument {
    assert!(!argument.ends_with("\"..."), "strace shortened {argument}");
    if let Some(text) = argument.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        return Argument::Text(decode(text));
    }
    match argument.split_once('<') {
        Some((number, path)) => {
            let (path, state) = path.split_once('>').unwrap(); // the state is `(deleted)` or empty
            let path = String::from_utf8(decode(path)).unwrap() + state;
            Argument::Descriptor { number: number.to_owned(), path: path.into() }
        }
        None => Argument::Other(argument.to_owned()),
    }
}

/// Decodes text in which every byte is written as `\x61`.
fn decode(text: &str) -> Vec<u8> {
    match text.strip_prefix("\\x") {
        Some(digits) => digits.split("\\x").map(|digits| u8::from_str_radix(digits, 16).unwrap()).collect(),
        None => text.into(), // such as `pipe:[1]`
    }
}

impl Call {
    /// The paths that the arguments name: a descriptor, a path, or a descriptor and a path relative to it.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        let mut directory = None;
        for argument in &self.arguments {
            match argument {
                Argument::Descriptor { path, .. } => paths.extend(directory.replace(path.clone())),
                Argument::Text(_) if self.is_write() => {}
                Argument::Text(path) => {
                    paths.push(directory.take().unwrap_or_default().join(&*String::from_utf8_lossy(path)));
                }
                Argument::Other(_) => {}
            }
        }
        paths.extend(directory);
        paths
    }

    fn is_write(&self) -> bool {
        ["write", "pwrite64"].contains(&&*self.name)
    }

    /// The bytes that a write contains.
    pub(super) fn written(&self) -> Option<&[u8]> {
        match self.arguments.get(1)? {
            Argument::Text(text) if self.is_write() => text.get(..usize::try_from(self.result).ok()?),
            _ => None,
        }
    }

    /// Whether a path is in `directory`.
    pub(super) fn concerns(&self, directory: &Path) -> bool {
        self.paths().iter().any(|path| path.starts_with(directory))
    }

    pub(super) fn number(&self, argument: usize) -> usize {
        match &self.arguments[argument] {
            Argument::Other(number) => number.parse().unwrap(),
            _ => panic!("argument {argument} of {} is not a number", self.name),
        }
    }

    pub(super) fn has_flag(&self, flag: &str) -> bool {
        self.arguments.iter().any(|argument| matches!(argument, Argument::Other(flags) if flags.contains(flag)))
    }
}
