//! The page in a browser.

use std::process::Command;

use memory_tool::Memory;
use memory_tool::store::{Batch, StorePath};
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

async fn fill(place: &str) {
    use base64::Engine as _;

    let open = async |name: &str| {
        let url =
            if place.starts_with("sqlite:") { format!("{place}?memory={name}") } else { format!("{place}/{name}") };
        Memory::builder(url).history().build().await.unwrap()
    };
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
    let large = open("large").await;
    let files = (0..10_000).map(|number| format!("/memories/{number}.md").parse::<StorePath>().unwrap());
    let batch = files.fold(Batch::new(), |batch, path| batch.write(path, "text"));
    large.store().apply(batch).await.unwrap();
    large.write("/memories/5-mb.txt", "a line of a long file\n".repeat(5 * 1024 * 1024 / 22)).await.unwrap();
}
