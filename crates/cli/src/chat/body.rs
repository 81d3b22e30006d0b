//! [`bounded`]: what a server sends, which may have no end.

use futures::{Stream, StreamExt as _};

/// Why no more of a body comes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError<E> {
    /// It broke off.
    #[error(transparent)]
    Broken(E),
    /// It is longer than it may be.
    #[error("it is too long")]
    TooLong,
}

/// The parts of a body up to so many bytes in all, and an error in the place of the part that goes beyond them.
pub(crate) fn bounded<B: AsRef<[u8]>, E>(
    parts: impl Stream<Item = Result<B, E>>,
    limit: usize,
) -> impl Stream<Item = Result<B, BodyError<E>>> {
    let mut left = limit;
    parts.map(move |part| {
        let part = part.map_err(BodyError::Broken)?;
        left = left.checked_sub(part.as_ref().len()).ok_or(BodyError::TooLong)?;
        Ok(part)
    })
}

/// All of a body that has a bound.
pub(crate) async fn whole<B: AsRef<[u8]>, E>(
    parts: impl Stream<Item = Result<B, BodyError<E>>>,
) -> Result<Vec<u8>, BodyError<E>> {
    let mut parts = std::pin::pin!(parts);
    let mut body = Vec::new();
    while let Some(part) = parts.next().await {
        body.extend_from_slice(part?.as_ref());
    }
    Ok(body)
}

/// The first bytes of a body, so many at most, as far as they come.
pub(crate) async fn beginning<B: AsRef<[u8]>, E>(parts: impl Stream<Item = Result<B, E>>, limit: usize) -> Vec<u8> {
    let mut parts = std::pin::pin!(parts);
    let mut body = Vec::new();
    while body.len() < limit
        && let Some(Ok(part)) = parts.next().await
    {
        body.extend_from_slice(part.as_ref());
    }
    body.truncate(limit);
    body
}

#[cfg(test)]
mod tests {
    use futures::stream::{iter, repeat};

    use super::*;

    fn parts() -> impl Stream<Item = Result<&'static str, ()>> {
        iter(["ab", "", "cd"].map(Ok))
    }

    #[tokio::test]
    async fn a_body_may_be_as_long_as_its_bound() {
        assert_eq!(whole(bounded(parts(), 4)).await.unwrap(), b"abcd");
        assert!(matches!(whole(bounded(parts(), 3)).await, Err(BodyError::TooLong)));
        let broken = iter([Ok("ab"), Err("cut")]);
        assert!(matches!(whole(bounded(broken, 2)).await, Err(BodyError::Broken("cut"))));
        let endless = repeat(Ok::<_, ()>("ab"));
        assert!(matches!(whole(bounded(endless, 3)).await, Err(BodyError::TooLong)));
    }

    #[tokio::test]
    async fn the_beginning_is_what_comes_of_it() {
        assert_eq!(beginning(parts(), 3).await, b"abc");
        assert_eq!(beginning(parts(), 9).await, b"abcd");
        assert_eq!(beginning(repeat(Ok::<_, ()>("ab")), 3).await, b"aba");
        assert_eq!(beginning(iter([Ok("ab"), Err(()), Ok("cd")]), 9).await, b"ab");
    }
}
