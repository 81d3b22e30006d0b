//! [`Metrics`]: the metrics of this process for Prometheus.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use memory_tool::store::MemoryName;

/// Renders the metrics of this process in the text format of Prometheus.
#[derive(Clone)]
pub(crate) struct Metrics(pub(crate) Arc<dyn Fn() -> String + Send + Sync>);

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

/// Describes all metrics of the process.
pub(crate) fn describe() {
    metrics::describe_counter!("memory_commands_total", "Commands of Claude, by outcome and error.");
    metrics::describe_histogram!("memory_command_seconds", "Durations of the commands of Claude.");
    metrics::describe_counter!("memory_store_operations_total", "Operations of the store, by outcome and error.");
    metrics::describe_histogram!("memory_store_operation_seconds", "Durations of the operations of the store.");
    metrics::describe_counter!("memory_server_requests_total", "HTTP requests, by route, method and status.");
    metrics::describe_histogram!("memory_server_request_seconds", "Durations of HTTP requests, by route.");
    metrics::describe_gauge!("memory_server_open_memories", "Memories that are open.");
}

/// Counts a request. The route has the names of its parameters, not their values.
pub(crate) fn record_request(route: &str, method: &str, status: u16, duration: Duration) {
    let (route, method) = (route.to_owned(), method.to_owned());
    metrics::counter!(
        "memory_server_requests_total", "route" => route.clone(), "method" => method, "status" => status.to_string()
    )
    .increment(1);
    metrics::histogram!("memory_server_request_seconds", "route" => route).record(duration);
}

/// A gauge by memory. The recorder would also keep memories that were closed or deleted.
pub(crate) fn render_gauge(gauge: &str, help: &str, values: &[(MemoryName, f64)]) -> String {
    if values.is_empty() {
        return String::new();
    }
    let mut text = format!("# HELP {gauge} {help}\n# TYPE {gauge} gauge\n");
    for (memory, value) in values {
        let memory = memory.as_str().replace('\\', r"\\").replace('"', "\\\"");
        text += &format!("{gauge}{{memory=\"{memory}\"}} {value}\n");
    }
    text
}
