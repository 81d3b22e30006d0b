//! Opening the memory that the command line names.

use std::ffi::OsStr;

use memory_tool::policies::Scope;
use memory_tool::store::MemoryName;
use memory_tool::{BoxError, KeysRequired, Memory, MemoryBuilder, MemoryOptions, OpenError, OptionsError, StoreUrl};
use memory_tool_bucket::{BucketStoreBuilder, OpenFailure};

use crate::failure::{Context as _, Failure, eprint_line};
use crate::log::start_log;
use crate::terminal::escapes::on_one_line;
use crate::warnings::print_warnings;

/// Parses the URL of a store, including the name of a memory in a database.
pub(crate) fn parse_url(given: &OsStr) -> Result<StoreUrl, BoxError> {
    let url = StoreUrl::parse(given)?;
    if let StoreUrl::Sqlite { memory, .. } | StoreUrl::Postgres { memory, .. } = &url {
        MemoryName::parse(memory)?;
    }
    Ok(url)
}

/// Returns an error for the in-process store.
pub(crate) fn refuse_temporary(url: &StoreUrl) -> Result<(), Failure> {
    if *url == StoreUrl::InProcess { Err(temporary()) } else { Ok(()) }
}

/// The memory at a URL, or the part of it that belongs to a scope.
pub(crate) fn scoped(url: &StoreUrl, scope: Option<&Scope>) -> MemoryBuilder {
    let builder = MemoryBuilder::from(url.clone());
    match scope {
        Some(scope) => builder.scope(scope.clone()),
        None => builder,
    }
}

/// The use of a memory that must exist.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Access {
    Read,
    Change,
}

/// Opens the memory at a URL with exactly these options.
pub async fn open(url: &StoreUrl, options: &MemoryOptions) -> Result<Memory, Failure> {
    if options.log.is_some() {
        start_log(options.log);
    }
    print_warnings();
    options.build(url.clone()).await.map_err(failed_options)
}

/// Opens a memory that exists, or the part of it that belongs to the scope of the options.
pub(crate) async fn open_existing(
    url: &StoreUrl,
    mut options: MemoryOptions,
    access: Access,
) -> Result<Memory, Failure> {
    refuse_temporary(url)?;
    options.must_exist = true;
    options.read_only |= access == Access::Read;
    open(url, &options).await
}

/// Opens the memory of an agent. Reports a new one to the operator, because its name may be mistyped.
pub(crate) async fn open_or_create(url: &StoreUrl, options: &MemoryOptions) -> Result<Memory, Failure> {
    let mut existing = options.clone();
    existing.must_exist = true;
    match open(url, &existing).await.map_err(advise_read_only) {
        Err(Failure::NotFound(error)) if !options.must_exist => {
            let opened = open(url, options).await.map_err(advise_read_only)?;
            eprint_line(&on_one_line(&format!("memory-tool: created the memory store {}", error.place())));
            Ok(opened)
        }
        opened => opened,
    }
}

/// Converts the error of options.
pub fn failed_options(error: OptionsError) -> Failure {
    match error {
        OptionsError::Open(error) => failure(error),
        error => Failure::other(error),
    }
}

/// Converts the error of opening a memory.
pub(crate) fn failure(error: OpenError) -> Failure {
    let cause = std::error::Error::source(&error);
    match cause.and_then(|cause| cause.downcast_ref::<KeysRequired>()) {
        Some(KeysRequired) => Failure::Encrypted,
        None if error.is_not_found() => Failure::NotFound(error),
        None => Failure::Store(error),
    }
}

/// Adds the option to use, if a store was opened to be changed and its credentials may only read it.
pub(crate) fn advise_read_only(failure: Failure) -> Failure {
    let Failure::Store(error) = failure else { return failure };
    let cause = std::error::Error::source(&error);
    match cause.and_then(|cause| cause.downcast_ref::<OpenFailure>()) {
        Some(OpenFailure::CannotWrite { .. }) => {
            let place = error.place();
            let message =
                format!("the credentials may not change the memory store {place}; add --read-only to use it unchanged");
            Failure::caused(message, error)
        }
        _ => Failure::Store(error),
    }
}

pub fn temporary() -> Failure {
    Failure::new("in-process: is temporary and always starts empty; name a persistent store")
}

/// A client of a bucket with the settings of the environment. It has sent no request yet.
pub fn bucket(url: &str) -> Result<BucketStoreBuilder, Failure> {
    BucketStoreBuilder::from_url(url).context(format!("cannot use {url}"))
}
