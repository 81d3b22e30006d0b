//! A tool that replies in German.
//! Run it: `cargo run -p examples --example wording`

#![allow(clippy::print_stdout, reason = "an example prints")]

use memory_tool::command::Reply;
use memory_tool::{BoxError, Error, Memory};
use serde_json::json;

/// Words replies and some errors. The output of `view` stays, because Claude relies on its format.
fn in_german(outcome: &Result<Reply, Error>) -> Option<String> {
    Some(match outcome {
        Ok(Reply::Created { path }) => format!("Datei angelegt: {path}"),
        Ok(Reply::Replaced { path, snippet }) => {
            format!("{path} wurde geändert und lautet an dieser Stelle:\n{snippet}")
        }
        Ok(Reply::Inserted { path }) => format!("{path} wurde geändert."),
        Ok(Reply::Deleted { path }) => format!("Gelöscht: {path}"),
        Ok(Reply::Renamed { old_path, new_path }) => format!("{old_path} heißt nun {new_path}"),
        Err(Error::NotFound { path, .. }) => format!("Fehler: {path} gibt es nicht."),
        Err(Error::AlreadyExists { path }) => format!("Fehler: {path} gibt es schon."),
        Err(Error::NoMatch { path, old_str }) => format!("Fehler: „{old_str}“ steht nicht in {path}."),
        _ => return None,
    })
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let tool = Memory::builder("in-process:").wording(in_german).build().await?.tool();
    for input in [
        json!({"command": "create", "path": "/memories/tee.md", "file_text": "Anna nimmt Milch."}),
        json!({"command": "str_replace", "path": "/memories/tee.md", "old_str": "Milch", "new_str": "keine Milch"}),
        json!({"command": "delete", "path": "/memories/kaffee.md"}),
        json!({"command": "view", "path": "/memories/../etc/passwd"}),
    ] {
        let answer = tool.call(input).await;
        println!("{}", answer.map_or_else(|error| error.to_string(), |reply| reply.to_string()));
    }
    Ok(())
}
