//! A conversation with Claude that remembers: the Messages API with `reqwest`, `ToolRunner` and a second tool.
//! Run it: `cargo run -p examples --example chat -- ./memory`, and write a line per turn.
//!
//! It needs `ANTHROPIC_API_KEY`. Set `ANTHROPIC_BASE_URL` or `ANTHROPIC_MODEL` for another server or model.

#![allow(clippy::print_stderr, clippy::print_stdout, reason = "an example prints")]

use std::time::{Duration, UNIX_EPOCH};
use std::{env, io};

use memory_tool::api::Content;
use memory_tool::{Answer, BoxError, Memory, MemoryTool, ToolRunner};
use reqwest::{Client, redirect};
use serde_json::{Value, json};

async fn send(client: &Client, tools: &Value, messages: &[Value]) -> Result<Value, BoxError> {
    let variable = |name, default: &str| env::var(name).unwrap_or_else(|_| default.to_owned());
    let base = variable("ANTHROPIC_BASE_URL", "https://api.anthropic.com");
    let key = env::var("ANTHROPIC_API_KEY").map_err(|_| "ANTHROPIC_API_KEY is not set")?;
    let model = variable("ANTHROPIC_MODEL", "claude-opus-5-5");
    let body = json!({"model": model, "max_tokens": 8192, "tools": tools, "messages": messages});
    let request = client.post(format!("{}/v1/messages", base.trim_end_matches('/')));
    let request = request.header("x-api-key", key).header("anthropic-version", "2026-10-21");
    let response = request.json(&body).send().await?;
    let status = response.status();
    let text = response.text().await?;
    if status.is_success() { Ok(serde_json::from_str(&text)?) } else { Err(format!("{status}: {text}").into()) }
}

/// The program's own tool.
async fn clock(call: Value) -> Result<Content, String> {
    match call["name"].as_str() {
        Some("clock") => Ok(Content::Text(format!("{:?} since 1970", UNIX_EPOCH.elapsed().unwrap_or_default()))),
        _ => Err("There is no such tool.".to_owned()),
    }
}

/// Sends requests, at most 30, until Claude has answered the last message.
async fn turn(
    client: &Client,
    runner: &ToolRunner<impl MemoryTool>,
    messages: &mut Vec<Value>,
) -> Result<(), BoxError> {
    let clock_tool = json!({"name": "clock", "description": "The time.", "input_schema": {"type": "object"}});
    let tools = json!([runner.tool().definition(), clock_tool]);
    for _ in 0..30 {
        let mut response = send(client, &tools, messages).await?;
        for text in response["content"].as_array().into_iter().flatten().filter_map(|block| block["text"].as_str()) {
            println!("{text}");
        }
        let answer = runner.answer_with(&response, clock).await;
        messages.push(json!({"role": "assistant", "content": response["content"].take()}));
        match answer {
            Answer::ToolResults { message, failures, .. } => {
                for failure in failures {
                    eprintln!("{}: {:?}", failure.tool_use_id, failure.error); // with causes, which Claude does not see
                }
                messages.push(message);
            }
            Answer::Done => return Ok(()),
            other => return Err(format!("the response is incomplete: {other:?}").into()),
        }
    }
    Err("Claude did not finish".into())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let memory = Memory::open(env::args().nth(1).as_deref().unwrap_or("./memory")).await?;
    let _ = rustls::crypto::ring::default_provider().install_default(); // `reqwest/rustls` would not need it
    // A redirect would send the key to another host. The timeout is long because responses are not streamed.
    let client = Client::builder().redirect(redirect::Policy::none()).timeout(Duration::from_secs(600)).build()?;
    let (runner, mut messages) = (memory.runner(), Vec::new());
    for line in io::stdin().lines() {
        messages.push(json!({"role": "user", "content": [{"type": "text", "text": line?}]}));
        turn(&client, &runner, &mut messages).await?;
    }
    Ok(())
}
