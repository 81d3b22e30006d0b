//! The page in a browser.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use memory_tool::Memory;
use memory_tool::store::{Batch, StorePath};
use memory_tool_server::TlsFiles;
use memory_tool_test_servers::browser;

use crate::server::{Server, places};

/// A picture of one pixel.
const PICTURE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

const ATTACKS: &str = "<script>alert(1)</script>\n<img src=//evil.example onerror=alert(1)>\n\n\
                       [a](javascript:alert(1))\n\
                       ![a](https://evil.example/pixel.png)\n<svg onload=alert(1)>\n\
                       <style>@import '//evil.example';</style>\n";

const MARKDOWN: &str = "# Ada\n\nLikes *tea* and [books](https://example.com).\n\n| drink | how |\n|---|---|\n\
                        | tea | green |\n\n- `code`\n\n> quote\n";

/// Runs the script in the browser of the system.
pub(crate) fn the_page_works_in_a_browser() {
    let packages = browser().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (_directory, places) = places();
    for place in places {
        let server = runtime.block_on(async {
            fill(&place).await;
            Server::start(&place).await
        });
        let mut script = Command::new("node");
        script.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/downloads/page.mjs")).arg(&packages);
        script.arg(format!("http://{}", server.address)).arg(&server.token).arg("/usr/bin/chromium");
        let output = script.output().unwrap();
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{place}: {printed}");
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "passed", "{place}: {printed}");
        println!("{printed}");
    }
}

/// Runs the script, and restarts the server without TLS for each of its lines.
pub(crate) fn tabs_and_texts_survive_in_a_browser() {
    let packages = browser().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (directory, [place, _]) = places();
    let tls = certify(directory.path());
    let (mut server, encrypted) = runtime.block_on(async {
        for number in 1..=8 {
            let memory = Memory::builder(format!("{place}/m{number}")).history().build().await.unwrap();
            memory.write("/memories/a", "old").await.unwrap();
        }
        let encrypted = Server::start_with(&place, |options| {
            options.tls = Some(tls);
        });
        let limited = Server::start_with(&place, |options| options.limits.body_bytes = 64 * 1024);
        (limited.await, encrypted.await)
    });
    let token = runtime.block_on(async { server.share_token(&encrypted).await });
    let mut script = Command::new("node");
    script.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/downloads/tabs.mjs")).arg(&packages);
    script.arg(format!("http://{}", server.address)).arg(format!("https://{}", encrypted.address));
    script.arg(token).arg("/usr/bin/chromium").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut script = script.spawn().unwrap();
    let mut lines = BufReader::new(script.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut last = None;
    for line in lines.by_ref() {
        if line == "restart" {
            runtime.block_on(server.restart(&place));
            script.stdin.as_mut().unwrap().write_all(b"done\n").unwrap();
        }
        last = Some(line);
    }
    assert!(script.wait().unwrap().success());
    assert_eq!(last.as_deref(), Some("passed"));
}

fn certify(directory: &Path) -> TlsFiles {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let files = TlsFiles::new(directory.join("certificate.pem"), directory.join("key.pem"));
    std::fs::write(&files.certificate, certified.cert.pem()).unwrap();
    let mut key = std::fs::File::options().write(true).create_new(true).mode(0o600).open(&files.key).unwrap();
    key.write_all(certified.signing_key.serialize_pem().as_bytes()).unwrap();
    files
}

async fn fill(place: &str) {
    use base64::Engine as _;

    let url = |name: &str| {
        if place.starts_with("sqlite:") { format!("{place}?memory={name}") } else { format!("{place}/{name}") }
    };
    let open = async |name: &str| Memory::builder(url(name)).history().build().await.unwrap();
    let alice = open("alice").await;
    let picture = base64::engine::general_purpose::STANDARD.decode(PICTURE).unwrap();
    alice.write("/memories/markdown.md", "# Ada\n").await.unwrap();
    alice.write("/memories/markdown.md", MARKDOWN).await.unwrap();
    alice.write("/memories/picture.png", picture).await.unwrap();
    alice.write("/memories/attacks.md", ATTACKS).await.unwrap();
    alice.write("/memories/<img src=x onerror=alert(1)>", ATTACKS).await.unwrap();
    // The longest path, in letters from right to left.
    let longest = format!("/memories{}/{}", format!("/{}", "\u{5d0}".repeat(120)).repeat(4), "\u{5d0}".repeat(25));
    assert_eq!(longest.len(), 1_024);
    alice.write(longest.as_str(), "x").await.unwrap();
    alice.write(format!("/memories{}", format!("/{}", "n".repeat(240)).repeat(4)).as_str(), "x").await.unwrap();
    let proposing = Memory::builder(url("alice")).proposal("nightly".parse().unwrap()).build().await.unwrap();
    proposing.write("/memories/markdown.md", ATTACKS).await.unwrap();
    proposing.remove("/memories/<img src=x onerror=alert(1)>").await.unwrap();
    proposing.write(longest.as_str(), "a long line ".repeat(100)).await.unwrap();
    alice.write(longest.as_str(), "y").await.unwrap(); // a conflict
    let large = open("large").await;
    let files = (0..10_000).map(|number| format!("/memories/{number}.md").parse::<StorePath>().unwrap());
    let batch = files.fold(Batch::new(), |batch, path| batch.write(path, "text"));
    large.store().apply(batch).await.unwrap();
    large.write("/memories/5-mb.txt", "a line of a long file\n".repeat(5 * 1024 * 1024 / 22)).await.unwrap();
}
