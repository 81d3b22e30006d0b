//! Copies of keys and passphrases in the address space of the program.

use std::fs;

use memory_tool::encrypted::RawKey;
use serde_json::json;

use memory_tool_test_fixtures::process_memory::places;
use memory_tool_test_fixtures::session::{Place, Session, program};

#[test]
fn each_key_is_in_memory_once() {
    let place = Place::new();
    let texts = ["new.key", "old.key"].map(|name| {
        let file = place.outside(name);
        assert!(program().arg("keygen").arg("--output").arg(&file).output().unwrap().status.success());
        fs::read_to_string(file).unwrap().trim().to_owned()
    });
    let mut session = start(&place, ["--key-file", "new.key", "--old-key-file", "old.key"]);
    let keys = texts.each_ref().map(|text| bytes(text));
    let [texts, keys] = [texts.each_ref().map(String::as_bytes), keys.each_ref().map(Vec::as_slice)];
    assert_places(&mut session, &keys, 1);
    assert_places(&mut session, &texts, 0);
    assert!(session.finish().1.success());
}

#[test]
fn each_passphrase_is_in_memory_once() {
    let place = Place::new();
    let passphrases = ["new.phrase", "old.phrase"].map(|name| {
        let passphrase = RawKey::generate().unwrap().to_hex();
        write_secret(&place, name, &format!("{}\n", *passphrase));
        passphrase
    });
    let mut session = start(&place, ["--passphrase-file", "new.phrase", "--old-passphrase-file", "old.phrase"]);
    assert_places(&mut session, &passphrases.each_ref().map(|passphrase| passphrase.as_bytes()), 1);
    assert!(session.finish().1.success());
}

/// A process after a write and a read.
fn start(place: &Place, options: [&str; 4]) -> Session {
    let [first, first_file, second, second_file] = options;
    let mut command = program();
    command.arg("run").arg("--store").arg(place.store());
    command.arg(first).arg(place.outside(first_file)).arg(second).arg(place.outside(second_file));
    let mut session = Session::start_as(&mut command);
    for input in [
        json!({"command": "create", "path": "/memories/a.txt", "file_text": "x"}),
        json!({"command": "view", "path": "/memories/a.txt"}),
    ] {
        session.call(input.to_string());
    }
    session
}

fn assert_places(session: &mut Session, secrets: &[&[u8]], most: usize) {
    for found in places(session.process_id(), secrets).unwrap() {
        assert!(found.len() <= most, "a secret is in {} places, and may be in {most}: {found:#?}", found.len());
    }
}

fn write_secret(place: &Place, name: &str, content: &str) {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;

    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(place.outside(name));
    file.unwrap().write_all(content.as_bytes()).unwrap();
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits = hexadecimal.as_bytes().chunks_exact(2).map(|digits| std::str::from_utf8(digits).unwrap());
    digits.map(|digits| u8::from_str_radix(digits, 16).unwrap()).collect()
}
