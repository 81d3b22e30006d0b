//! [`Path`]: the parameters of a path.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::http::error::ApiError;

/// The parameters of a path. The extractor of axum refuses invalid UTF-8 with plain text.
pub(crate) struct Path<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let found = axum::extract::Path::from_request_parts(parts, state).await;
        found.map(|axum::extract::Path(found)| Self(found)).map_err(|_| ApiError::invalid("the path is not valid"))
    }
}
