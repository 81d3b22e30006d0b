//! The status of each error of the storage, for all fronts. The log has their causes, which no response contains.

use std::error::Error;

use memory_tool::command::Reply;
use memory_tool::history::HistoryError;
use memory_tool::{ErrorKind, OptionsError, StoreError};

use crate::http::error::{ApiError, log_failure};

/// The refusal of an error of this kind.
fn refusal(kind: ErrorKind, error: &dyn Error) -> ApiError {
    match kind {
        ErrorKind::Invalid | ErrorKind::Refused => ApiError::invalid(error.to_string()),
        ErrorKind::NotFound => ApiError::not_found(error.to_string()),
        ErrorKind::AlreadyExists | ErrorKind::Conflict => ApiError::conflict(error.to_string()),
        // Their texts can name a place of the host.
        ErrorKind::UnsupportedName => logged(error, ApiError::invalid("the storage does not support this name")),
        ErrorKind::Busy => logged(error, ApiError::busy()),
        _ => logged(error, ApiError::storage()),
    }
}

fn logged(error: &dyn Error, refusal: ApiError) -> ApiError {
    log_failure(error);
    refusal
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        // A batch that no store accepts is a fault of the server.
        let is_fault = matches!(error, StoreError::InvalidBatch(_));
        refusal(if is_fault { ErrorKind::Other } else { error.kind() }, &error)
    }
}

impl From<HistoryError> for ApiError {
    fn from(error: HistoryError) -> Self {
        match error {
            HistoryError::Store(error) => error.into(),
            HistoryError::NoEntry { .. } | HistoryError::NoChange { .. } | HistoryError::Forgotten { .. } => {
                refusal(ErrorKind::NotFound, &error)
            }
            error => refusal(ErrorKind::Conflict, &error),
        }
    }
}

/// The error of opening a memory.
impl From<OptionsError> for ApiError {
    fn from(error: OptionsError) -> Self {
        match &error {
            OptionsError::Open(open) if open.is_not_found() => Self::not_found("it does not exist"),
            OptionsError::Open(open) if open.kind() == ErrorKind::Busy => logged(&error, Self::busy()),
            _ => logged(&error, Self::storage()),
        }
    }
}

/// The outcome of a command for the log.
pub(crate) fn outcome_name(outcome: &Result<Reply, memory_tool::Error>) -> &'static str {
    outcome.as_ref().map_or_else(|error| error.kind().name(), |_| "done")
}

#[cfg(test)]
mod tests {
    use std::io::Error;

    use memory_tool::store::{Batch, StorePath};
    use memory_tool_test_fixtures::Log;

    use super::*;

    fn logged(reply: impl FnOnce() -> ApiError) -> (u16, String) {
        let log = Log::of_this_thread();
        (reply().status().as_u16(), log.text())
    }

    #[test]
    fn each_failure_of_the_server_is_logged_with_its_reason() {
        let records = StorePath::records();
        let invalid = Batch::new().remove(records.clone()).remove(records.clone()).validate().unwrap_err();
        let (status, log) = logged(|| StoreError::from(invalid).into());
        assert!(status == 500 && log.contains("/records"), "{log}");
        let (status, log) = logged(|| ApiError::internal(Error::other("no entropy")));
        assert!(status == 500 && log.contains("no entropy"), "{log}");
        let (status, log) = logged(|| StoreError::NotFound { path: records }.into());
        assert_eq!((status, log.as_str()), (404, ""));
    }

    #[test]
    fn each_kind_of_error_has_its_status_and_all_failures_are_logged() {
        for kind in memory_tool::ErrorKind::OF_FAILURES {
            let (status, log) = logged(|| StoreError::failure(*kind, "reading", "the cause").into());
            let expected = match kind {
                memory_tool::ErrorKind::Busy => 503,
                memory_tool::ErrorKind::UnsupportedName => 400,
                _ => 500,
            };
            assert!(status == expected && log.contains("the cause"), "{kind:?}: {status} {log}");
        }
        let path = StorePath::memories();
        for (error, status) in [
            (StoreError::AlreadyExists { path: path.clone() }, 409),
            (StoreError::VersionMismatch { path: path.clone() }, 409),
            (StoreError::NotADirectory { path: path.clone() }, 400),
            (StoreError::refused(&path, "limits", "too much"), 400),
        ] {
            let message = error.to_string();
            assert_eq!(logged(|| error.into()), (status, String::new()), "{message}");
        }
        for (error, status) in [
            (HistoryError::Forgotten { oldest: 2 }, 404),
            (HistoryError::NoEntry { number: 2, newest: 1 }, 404),
            (HistoryError::Changed { paths: Vec::new() }, 409),
            (HistoryError::Redacted { number: 1 }, 409),
        ] {
            assert_eq!(logged(|| error.into()), (status, String::new()));
        }
    }
}
