//! The log on standard error: events as JSON lines.

use std::io;
use std::sync::OnceLock;

use memory_tool::LogDetail;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::registry::Registry;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Starts the log of the program. Without a detail, only errors are logged.
pub(crate) fn start_log(detail: Option<LogDetail>) {
    // rmcp logs whole messages, which contain the contents of files.
    let filter =
        Targets::new().with_default(detail.map_or(LevelFilter::ERROR, level)).with_target("rmcp", LevelFilter::OFF);
    let lines = fmt::layer().json().with_writer(io::stderr).with_target(false);
    // It fails only if a log was started before, which is not the case.
    drop(tracing_subscriber::registry().with(lines.with_filter(filter)).try_init());
}

/// Starts the log of a process of another language. The first memory with a log sets the level. Before that, only the
/// warnings of stores in buckets are logged: they are about background work, which no call reports.
pub fn start_log_of_package(detail: Option<LogDetail>) {
    static FILTER: OnceLock<reload::Handle<Targets, Registry>> = OnceLock::new();
    static LEVEL: OnceLock<LevelFilter> = OnceLock::new();

    let filter = FILTER.get_or_init(|| {
        let of_buckets = Targets::new().with_target("memory_tool_bucket", LevelFilter::WARN);
        let (filter, handle) = reload::Layer::new(of_buckets);
        let lines = fmt::layer().json().with_writer(io::stderr).with_target(false);
        drop(tracing_subscriber::registry().with(lines.with_filter(filter)).try_init());
        handle
    });
    if let Some(detail) = detail {
        let level = *LEVEL.get_or_init(|| level(detail));
        drop(filter.modify(|filter| *filter = Targets::new().with_default(level)));
    }
}

fn level(detail: LogDetail) -> LevelFilter {
    if detail == LogDetail::Operations { LevelFilter::DEBUG } else { LevelFilter::INFO }
}
