//! An agent with a memory: a loop over the Messages API with `reqwest` and `ToolRunner`.
//! Run it: `cargo run -p examples --example agent_loop -- 'I take tea without milk'`, then with `'What do I drink?'`
//!
//! It needs `ANTHROPIC_API_KEY`. Set `ANTHROPIC_BASE_URL` or `ANTHROPIC_MODEL` for another server or model.

#![allow(clippy::print_stderr, clippy::print_stdout, reason = "an example prints")]

use std::env;
use std::time::Duration;

use memory_tool::{Answer, BoxError, Memory};
use reqwest::{Client, redirect};
use serde_json::{Value, json};

/// The maximum number of requests for one prompt.
const MAX_REQUESTS: usize = 30;

/// A client of the Messages API.
struct Api {
    client: Client,
    url: String,
    key: String,
    model: String,
}

impl Api {
    fn from_environment() -> Result<Self, BoxError> {
        let variable = |name, default: &str| env::var(name).unwrap_or_else(|_| default.to_owned());
        let base = variable("ANTHROPIC_BASE_URL", "https://api.anthropic.com");
        let _ = rustls::crypto::ring::default_provider().install_default(); // `reqwest/rustls` would not need it
        // A redirect would send the key to another host. The timeout is long because responses are not streamed.
        let client = Client::builder().redirect(redirect::Policy::none()).timeout(Duration::from_secs(600));
        Ok(Self {
            client: client.build()?,
            url: format!("{}/v1/messages", base.trim_end_matches('/')),
            key: env::var("ANTHROPIC_API_KEY").map_err(|_| "ANTHROPIC_API_KEY is not set")?,
            model: variable("ANTHROPIC_MODEL", "claude-opus-5-5"),
        })
    }
    async fn send(&self, tools: &Value, messages: &[Value]) -> Result<Value, BoxError> {
        let body = json!({"model": self.model, "max_tokens": 8192, "tools": tools, "messages": messages});
        let request =
            self.client.post(&self.url).header("x-api-key", &self.key).header("anthropic-version", "2023-06-01");
        let response = request.json(&body).send().await?;
        let status = response.status();
        let text = response.text().await?;
        if status.is_success() { Ok(serde_json::from_str(&text)?) } else { Err(format!("{status}: {text}").into()) }
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let prompt = env::args().nth(1).ok_or("usage: agent_loop PROMPT")?;
    let api = Api::from_environment()?;
    let runner = Memory::open("./memory").await?.runner();
    let tools = json!([runner.tool().definition()]);
    let mut messages = vec![json!({"role": "user", "content": [{"type": "text", "text": prompt}]})];
    for _ in 0..MAX_REQUESTS {
        let mut response = api.send(&tools, &messages).await?;
        for text in response["content"].as_array().into_iter().flatten().filter_map(|block| block["text"].as_str()) {
            println!("{text}");
        }
        let (results, failures) = match runner.answer(&response).await {
            Answer::ToolResults { message, failures, .. } => (message, failures),
            Answer::Done => return Ok(()),
            other => return Err(format!("the response is incomplete: {other:?}").into()),
        };
        for failure in failures {
            eprintln!("{}: {:?}", failure.tool_use_id, failure.error); // with the causes, which Claude does not see
        }
        messages.extend([json!({"role": "assistant", "content": response["content"].take()}), results]);
    }
    Err("Claude did not finish".into())
}
