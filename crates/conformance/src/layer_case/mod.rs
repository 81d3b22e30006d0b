//! [`LayerCase`]: tests of policies and of the history on any store. The suite tests that a store with such a layer
//! still keeps the contract. These cases test that the layer itself works.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use memory_tool_core::{BoxError, FileEntry, MemoryPath, Node, Store, StoreError, StoreExt as _};

/// A test of one guarantee of a layer over a store: a policy, or the history.
///
/// ```
/// # #[cfg(all(feature = "policies", feature = "history"))] {
/// use std::sync::Arc;
///
/// use memory_tool_conformance::LayerCase;
/// use memory_tool_core::InMemoryStore;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// for case in LayerCase::POLICIES.iter().chain(LayerCase::HISTORY) {
///     let store = Arc::new(InMemoryStore::new()); // create a new store for each
///     case.run(store).await.map_err(|error| format!("{}: {error}", case.id()))?;
/// }
/// # Ok::<(), String>(())
/// # })?;
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct LayerCase {
    id: &'static str,
    about: &'static str,
    run: fn(Arc<dyn Store>) -> BoxFuture<'static, Outcome>,
}

type Outcome = Result<(), BoxError>;

macro_rules! cases {
    ($($id:literal, $about:literal, $function:ident;)+) => {
        &[$(LayerCase { id: $id, about: $about, run: |store| Box::pin($function(store)) },)+]
    };
}

#[cfg(feature = "history")]
mod history;
#[cfg(feature = "policies")]
mod policies;

impl LayerCase {
    /// The cases of the history.
    #[cfg(feature = "history")]
    pub const HISTORY: &'static [Self] = history::CASES;

    /// The cases of the policies.
    #[cfg(feature = "policies")]
    pub const POLICIES: &'static [Self] = policies::CASES;

    /// The name of the case: the layer, a dot and the subject.
    pub fn id(&self) -> &'static str {
        self.id
    }

    /// The guarantee that the case tests, in one sentence.
    pub fn about(&self) -> &'static str {
        self.about
    }

    /// Runs the case, in a Tokio runtime, on an empty store that nothing else uses.
    ///
    /// # Errors
    /// If the layer does not keep its guarantee on this store, or the store fails.
    pub async fn run(&self, store: Arc<dyn Store>) -> Result<(), BoxError> {
        (self.run)(store).await
    }
}

impl fmt::Debug for LayerCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LayerCase").field("id", &self.id).field("about", &self.about).finish_non_exhaustive()
    }
}

fn path(name: &str) -> Result<MemoryPath, BoxError> {
    Ok(format!("/memories/{name}").parse()?)
}

async fn write(store: &dyn Store, name: &str, content: &str) -> Result<(), StoreError> {
    store.write(format!("/memories/{name}"), content).await
}

async fn content(store: &dyn Store, name: &str) -> Result<Option<String>, BoxError> {
    Ok(match store.read(path(name)?).await? {
        Node::File(file) => Some(String::from_utf8(file.content)?),
        Node::Absent | Node::Directory(_) => None,
    })
}

async fn files(store: &dyn Store) -> Result<Vec<FileEntry>, StoreError> {
    store.list(MemoryPath::root()).await
}

fn expect(holds: bool, otherwise: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(otherwise().into()) }
}

fn expect_equal<T: fmt::Debug + PartialEq>(what: &str, found: T, expected: T) -> Outcome {
    expect(found == expected, || format!("{what}: found {found:?} instead of {expected:?}"))
}

fn expect_refused<T: fmt::Debug>(outcome: Result<T, StoreError>) -> Result<String, BoxError> {
    match outcome {
        Err(StoreError::Refused { reason, .. }) => Ok(reason),
        other => Err(format!("not refused, but {other:?}").into()),
    }
}
