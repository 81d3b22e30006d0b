//! Servers for the tests of memory-tool: of object stores, with a proxy that puts faults between them and a client, and of the
//! Messages API.
//!
//! | protocol | server | what it is |
//! | --- | --- | --- |
//! | S3 | [`S3Server::start`] | ministack: quick, every condition exact |
//! | S3 | [`S3Server::start_seaweed`] | SeaweedFS: a second opinion that verifies signatures and writes to a disk |
//! | Azure | [`AzureServer`] | Azurite |
//! | Google Cloud Storage | [`GcsServer`] | a part of this crate, as no server that can be installed has the XML API's conditions |
//!
//! The first use installs a server into `target/servers`, and needs the network then; later ones do not. A server that cannot
//! be had is an [`Error`] that says what is missing, and a test that needs it has to fail with it.
//!
//! A server listens on the loopback address alone, and ends with the value that stands for it and with the process that holds
//! that, in whatever way it ends. Clients may be of any process.
//!
//! [`Proxy`] comes before any of them: it counts what is sent, and loses, cuts, delays and refuses as it is told.
//!
//! [`messages_api`] has the other side of an agent: a server that gives the responses of a script.
//!
//! The servers that are programs of their own run on Unix, SeaweedFS on Linux alone.

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
#[cfg(unix)]
mod port;
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

#[cfg(unix)]
pub use azure::AzureServer;
pub use error::Error;
pub use gcs::GcsServer;
#[cfg(unix)]
pub use install::python_with_anthropic;
pub use proxy::{Fault, Faults, Proxy, Record, Refusal, Requests};
#[cfg(unix)]
pub use s3::S3Server;
pub use server::{BUCKET, Server};
