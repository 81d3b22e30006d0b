//! Metrics for Prometheus at `/metrics`, and traces for OpenTelemetry.
//! Run it: `cargo run -p examples --example monitoring -- 127.0.0.1:9464`, with `OTEL_EXPORTER_OTLP_ENDPOINT`.

#![allow(clippy::print_stdout, reason = "an example prints")]

use axum::Router;
use axum::routing::get;
use memory_tool::{BoxError, Memory, MemoryTool as _};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use serde_json::json;
use tokio::net::TcpListener;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

/// Records the metrics of all memories. The handle renders them as text for Prometheus.
fn record_metrics() -> Result<PrometheusHandle, BoxError> {
    let seconds = [0.0001, 0.001, 0.01, 0.1, 1.0, 10.0];
    Ok(PrometheusBuilder::new().set_buckets(&seconds)?.install_recorder()?)
}

/// Sends the spans of all memories to `OTEL_EXPORTER_OTLP_ENDPOINT`, in batches.
fn export_traces() -> Result<SdkTracerProvider, BoxError> {
    let exporter = SpanExporter::builder().with_http().build()?;
    let resource = Resource::builder().with_service_name("my-agent").build();
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("memory-tool"));
    // DEBUG adds a span for each operation of the store. The spans of other libraries are left out.
    let memories = Targets::new().with_target("memory_tool_policies", LevelFilter::DEBUG);
    tracing_subscriber::registry().with(layer.with_filter(memories)).try_init()?;
    Ok(provider)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    // Examples enable no provider of cryptography by default.
    rustls::crypto::ring::default_provider().install_default().map_err(|_| "a provider is installed")?;
    let (metrics, traces) = (record_metrics()?, export_traces()?);

    let memory = Memory::builder("in-process:").observe("users").build().await?;
    let tool = memory.tool();
    tool.call(json!({"command": "create", "path": "/memories/tea.md", "file_text": "No milk."})).await?;
    let missing = tool.call(json!({"command": "view", "path": "/memories/coffee.md"})).await;
    println!("{}", missing.map_or_else(|error| error.to_string(), |reply| reply.to_string()));

    let address = std::env::args().nth(1).ok_or("usage: monitoring ADDRESS")?;
    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    let router = Router::new().route("/metrics", get(async move || metrics.render()));
    axum::serve(listener, router).with_graceful_shutdown(async { drop(tokio::signal::ctrl_c().await) }).await?;
    tokio::task::spawn_blocking(move || traces.shutdown()).await??; // sends the last spans
    Ok(())
}
