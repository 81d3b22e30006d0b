//! Signals during long commands.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::process::{Command, Stdio};

use memory_tool_test_fixtures::session::{Place, program, wait_for_end};

fn interrupt(mut command: Command, signal: &str, status: i32, wait_until_it_runs: impl FnOnce()) {
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until_it_runs();
    assert!(Command::new("kill").args([signal, &process.id().to_string()]).status().unwrap().success());
    let ended = wait_for_end(&mut process).code();
    let output = process.wait_with_output().unwrap();
    let (output, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(
        (ended, output.as_str(), errors.as_str()),
        (Some(status), "", "memory-tool: interrupted\n"),
        "{command:?}"
    );
}

#[test]
fn each_command_that_works_on_a_whole_store_reports_an_interruption() {
    let place = Place::new();
    let (key, directory) = (place.outside("key"), place.outside("directory"));
    assert!(program().args(["keygen", "--output"]).arg(&key).output().unwrap().status.success());
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("a"), "tea").unwrap();
    let (key, directory, target) = (key.to_str().unwrap(), directory.to_str().unwrap(), place.outside("target"));
    const STORE: &str = "--store=s3://bucket/a";
    for arguments in [
        &["copy", "s3://bucket/a", target.to_str().unwrap()][..],
        &["verify", STORE],
        &["import", STORE, directory],
        &["export", STORE, target.to_str().unwrap()],
        &["rekey", STORE, "--key-file", key],
        &["gc", STORE],
        &["expire", STORE, "--expire-after", "90d"],
    ] {
        for (signal, status) in [("-INT", 130), ("-TERM", 143)] {
            // A server that accepts connections and never answers.
            let server = TcpListener::bind("127.0.0.1:0").unwrap();
            let endpoint = format!("http://{}", server.local_addr().unwrap());
            let mut connection = None;
            let mut command = program();
            command.args(arguments).args(["--timeout", "1000s"]).env("AWS_ENDPOINT_URL", &endpoint);
            command.env("AWS_ALLOW_HTTP", "true").env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b");
            command.env("AWS_REGION", "us-east-1").env("NO_PROXY", "*");
            interrupt(command, signal, status, || connection = Some(server.accept().unwrap()));
            drop(connection);
        }
    }
}

#[test]
fn an_import_that_waits_for_standard_input_is_interrupted() {
    let place = Place::new();
    let (reader, mut writer) = std::io::pipe().unwrap();
    let mut command = program();
    command.args(["import", "-", "--store"]).arg(place.store()).stdin(reader);
    let mut header = tar::Header::new_gnu();
    header.set_path("a").unwrap();
    header.set_size(8 << 20);
    header.set_cksum();
    interrupt(command, "-INT", 130, || {
        // A pipe holds less than that, so the program has read a part of the file after this.
        writer.write_all(&[header.as_bytes().as_slice(), &vec![b'x'; 1 << 20]].concat()).unwrap();
    });
}
