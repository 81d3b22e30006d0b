//! Test servers of object stores and the Messages API, and a proxy for fault injection.
//!
//! | protocol | server | implementation |
//! | --- | --- | --- |
//! | S3 | [`S3Server::start`] | ministack: fast, with exact preconditions |
//! | S3 | [`S3Server::start_seaweed`] | SeaweedFS: verifies signatures and writes to disk |
//! | Azure | [`AzureServer`] | Azurite |
//! | Google Cloud Storage | [`GcsServer`] | this crate: other servers lack the XML API's preconditions |
//!
//! The first use of a server installs it into `target/servers`, which needs network access. If this fails, the
//! [`Error`] names the missing program, and the test that needs the server must fail.
//!
//! Servers listen only on the loopback address. Dropping the value or ending its process stops the server. Any process
//! can connect to it.
//!
//! [`Proxy`] counts the requests to a server, and loses, truncates, delays or refuses selected ones.
//!
//! [`McpClients`] and [`python_with_mcp`] are clients of the Model Context Protocol.
//!
//! [`python_with_anthropic`] and [`node_with_anthropic`] have Anthropic's SDKs.
//!
//! [`messages_api`] has a server that sends scripted responses to an agent.
//!
//! [`PostgresServer`] starts the PostgreSQL of the system's packages on a separate port, and [`PgBouncer`] and
//! [`PgPool`] a pooler in front of it. [`SqlProxy`] counts the round trips to a server, and delays or loses requests.
//! They need Linux.
//!
//! Servers in separate processes need Unix, and SeaweedFS needs Linux.

#[cfg(unix)]
mod azure;
mod background;
#[cfg(unix)]
mod directory;
mod error;
mod gcs;
#[cfg(unix)]
mod install;
pub mod messages_api;
#[cfg(target_os = "linux")]
mod pgbouncer;
#[cfg(target_os = "linux")]
mod pgpool;
#[cfg(unix)]
mod port;
#[cfg(target_os = "linux")]
mod postgres;
#[cfg(unix)]
mod process;
mod proxy;
#[cfg(unix)]
mod request;
#[cfg(unix)]
mod s3;
#[cfg(target_os = "linux")]
mod seaweed;
mod server;
#[cfg(target_os = "linux")]
mod sql_proxy;

#[cfg(unix)]
pub use azure::AzureServer;
pub use error::Error;
pub use gcs::GcsServer;
#[cfg(unix)]
pub use install::{McpClients, browser, node_with_anthropic, python_with_anthropic, python_with_mcp};
#[cfg(target_os = "linux")]
pub use pgbouncer::PgBouncer;
#[cfg(target_os = "linux")]
pub use pgpool::PgPool;
#[cfg(target_os = "linux")]
pub use postgres::{Certificates, PostgresOptions, PostgresServer};
pub use proxy::{Fault, Faults, Proxy, Record, Refusal, Requests};
#[cfg(unix)]
pub use s3::S3Server;
pub use server::{BUCKET, Server};
#[cfg(target_os = "linux")]
pub use sql_proxy::SqlProxy;
