//! The program on an encrypted bucket memory, including copies to and from it.

use std::fs;
use std::process::Command;

use memory_tool_test_fixtures::session::{Place, program};
use memory_tool_test_servers::{S3Server, Server as _};

/// A server, a key, and a directory for other stores.
struct Stage {
    place: Place,
    server: S3Server,
}

impl Stage {
    fn new() -> Self {
        let stage = Self { place: Place::new(), server: S3Server::start().unwrap() };
        stage.run(&["keygen", "--output", &stage.key()]).unwrap();
        stage
    }

    fn key(&self) -> String {
        self.place.outside("memory.key").display().to_string()
    }

    fn bucket(&self) -> String {
        format!("{}/encrypted", self.server.bucket_url())
    }

    /// Returns the standard output of a success, or the standard error of a failure.
    fn run(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command: Command = program();
        let output = command.envs(self.server.environment(self.server.url())).args(arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }
}

#[test]
fn encrypted_bucket_needs_its_key_except_for_gc() {
    let stage = Stage::new();
    let (bucket, key) = (stage.bucket(), stage.key());
    let with_key = |arguments: &[&str]| stage.run(&[arguments, &["--store", &bucket, "--key-file", &key]].concat());
    with_key(&["create", "/memories/a", "--text", "the customer called about her divorce"]).unwrap();
    assert_eq!(with_key(&["verify"]).unwrap(), "1 file, 37 bytes: no problems found\n");
    let without_key = stage.run(&["view", "/memories", "--store", &bucket]).unwrap_err();
    assert!(without_key.contains("the store is encrypted"), "{without_key}");
    stage.run(&["gc", "--older-than", "0s", "--store", &bucket]).unwrap();
    assert_eq!(with_key(&["verify"]).unwrap(), "1 file, 37 bytes: no problems found\n");
}

#[test]
fn files_are_copied_to_an_encrypted_bucket_and_back() {
    let stage = Stage::new();
    let (bucket, key) = (stage.bucket(), stage.key());
    let contents: [(&str, &[u8]); 3] =
        [("empty", b""), ("a name.txt", b"not UTF-8: \xff\n"), ("large", &[b'x'; 300_000])];
    fs::create_dir_all(stage.place.file("")).unwrap();
    for (name, content) in contents {
        fs::write(stage.place.file(name), content).unwrap();
    }
    let (source, back) = (stage.place.store(), stage.place.outside("back"));
    let (source, back) = (source.to_str().unwrap(), back.to_str().unwrap());
    for expected in ["copied 3 files (", "copied 0 files (0 bytes), overwrote 0; 3 unchanged"] {
        let copied = stage.run(&["copy", source, &bucket, "--key-file", &key]).unwrap();
        assert!(copied.starts_with(expected), "{copied}");
    }
    stage.run(&["copy", &bucket, back, "--source-key-file", &key]).unwrap();
    for (name, content) in contents {
        assert_eq!(fs::read(stage.place.outside("back").join("memories").join(name)).unwrap(), content, "{name}");
    }
}
