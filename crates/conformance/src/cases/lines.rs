//! Lines that no JSON text has, and the end of the input.

use crate::failure::CaseError;
use crate::target::Target;

cases! {
    |target| &target;
    not_utf_8, last_without_line_feed;
}

async fn not_utf_8(target: &Target) -> Result<(), CaseError> {
    let (path, client) = ("/memories/a.txt", target.client());
    client.must_create(path, "text").await?;
    let lines: [&[u8]; 9] = [
        b"\xff",
        b"\xff\xfe{\0}\0",
        b"{\"command\":\"create\",\"path\":\"/memories/b\xff.txt\",\"file_text\":\"\"}",
        b"{\"command\":\"create\",\"path\":\"/memories/b.txt\",\"file_text\":\"\xc3\x28\"}",
        b"{\"command\":\"create\",\"path\":\"/memories/b.txt\",\"file_text\":\"\xed\xa0\x80\"}", // a surrogate
        b"{\"command\":\"create\",\"path\":\"/memories/b\xc0\xafc.txt\",\"file_text\":\"\"}",    // a long form of `/`
        b"{\"command\":\"create\",\"path\":\"/memories/b.txt\",\"file_text\":\"\xe2\x82\"}",
        b"{\"command\":\"insert\",\"path\":\"/memories/a.txt\",\"insert_line\":0,\"insert_text\":\"\xf8\"}",
        b"{\"command\":\"delete\",\"path\":\"/memories/a.txt\"}\xff",
    ];
    for line in lines {
        let answer = client.send_bytes(line).await?;
        answer.text(true)?;
        target.expect_files(&[path.parse()?]).await.map_err(|stop| stop.in_step(line.escape_ascii().to_string()))?;
        client.expect_text(path, "text").await?;
    }
    Ok(())
}

async fn last_without_line_feed(target: &Target) -> Result<(), CaseError> {
    let client = target.process_client().await?;
    client.must_create("/memories/a.txt", "one").await?;
    let last = br#"{"command":"create","path":"/memories/b.txt","file_text":"two"}"#;
    client.send_last(last).await?.text(false)?;
    let client = target.process_client().await?;
    client.expect_text("/memories/b.txt", "two").await?;
    let answer = client.send_last(br#"{"command":"delete","path":"/memories/b.txt""#).await?;
    answer.text(true).map(drop)
}
