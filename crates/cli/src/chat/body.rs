//! [`bounded`]: bodies of responses, with a maximum size.

use std::future::ready;

use futures::{Stream, StreamExt as _, TryStreamExt as _};

/// The error of reading a body.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError<E> {
    #[error(transparent)]
    Broken(E),
    #[error("the body is too long")]
    TooLong,
}

/// Limits a body to a number of bytes. The chunk that exceeds it is replaced with an error.
pub(crate) fn bounded<B: AsRef<[u8]>, E>(
    chunks: impl Stream<Item = Result<B, E>>,
    limit: usize,
) -> impl Stream<Item = Result<B, BodyError<E>>> {
    let mut left = limit;
    chunks.map(move |chunk| {
        let chunk = chunk.map_err(BodyError::Broken)?;
        left = left.checked_sub(chunk.as_ref().len()).ok_or(BodyError::TooLong)?;
        Ok(chunk)
    })
}

/// Reads a bounded body.
pub(crate) async fn read_all<B: AsRef<[u8]>, E>(
    chunks: impl Stream<Item = Result<B, BodyError<E>>>,
) -> Result<Vec<u8>, BodyError<E>> {
    let append = |mut body: Vec<u8>, chunk: B| {
        body.extend_from_slice(chunk.as_ref());
        ready(Ok(body))
    };
    chunks.try_fold(Vec::new(), append).await
}

/// Reads up to `limit` bytes from the start of a body, or fewer if it ends or fails.
pub(crate) async fn read_start<B: AsRef<[u8]>, E>(chunks: impl Stream<Item = Result<B, E>>, limit: usize) -> Vec<u8> {
    let mut chunks = std::pin::pin!(chunks);
    let mut body = Vec::new();
    while body.len() < limit
        && let Some(Ok(chunk)) = chunks.next().await
    {
        body.extend_from_slice(chunk.as_ref());
    }
    body.truncate(limit);
    body
}

#[cfg(test)]
mod tests {
    use futures::stream::{iter, repeat};

    use super::*;

    fn chunks() -> impl Stream<Item = Result<&'static str, ()>> {
        iter(["ab", "", "cd"].map(Ok))
    }

    #[tokio::test]
    async fn a_body_is_read_up_to_its_limit() {
        assert_eq!(read_all(bounded(chunks(), 4)).await.unwrap(), b"abcd");
        assert!(matches!(read_all(bounded(chunks(), 3)).await, Err(BodyError::TooLong)));
        let broken = iter([Ok("ab"), Err("cut")]);
        assert!(matches!(read_all(bounded(broken, 2)).await, Err(BodyError::Broken("cut"))));
        let endless = repeat(Ok::<_, ()>("ab"));
        assert!(matches!(read_all(bounded(endless, 3)).await, Err(BodyError::TooLong)));
    }

    #[tokio::test]
    async fn the_start_is_read_up_to_the_limit_or_an_error() {
        assert_eq!(read_start(chunks(), 3).await, b"abc");
        assert_eq!(read_start(chunks(), 9).await, b"abcd");
        assert_eq!(read_start(repeat(Ok::<_, ()>("ab")), 3).await, b"aba");
        assert_eq!(read_start(iter([Ok("ab"), Err(()), Ok("cd")]), 9).await, b"ab");
    }
}
