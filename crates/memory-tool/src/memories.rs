//! Finding the memories of a database, a bucket or a directory.

use memory_tool_core::{OpenError, OpenOptions};

use crate::store_url::{StoreUrl, escape};

impl StoreUrl {
    /// The URL of the memory `name` of the database, or of the store `name` right under the directory or prefix. `None`
    /// for [`InProcess`](Self::InProcess), and for names that a directory or prefix cannot have.
    ///
    /// ```
    /// use memory_tool::StoreUrl;
    ///
    /// let child = |url: &str| StoreUrl::parse(url).unwrap().child("alice").map(|url| url.to_string());
    /// assert_eq!(child("sqlite:memory.db").unwrap(), "sqlite:memory.db?memory=alice");
    /// assert_eq!(child("./users").unwrap(), "file:./users/alice");
    /// assert_eq!(child("s3://bucket/users/").unwrap(), "s3://bucket/users/alice");
    /// ```
    pub fn child(&self, name: &str) -> Option<Self> {
        let is_segment = !["", ".", ".."].contains(&name) && !name.contains(['/', '\\', '\0']);
        match self {
            Self::Sqlite { path, .. } => Some(Self::Sqlite { path: path.clone(), memory: name.to_owned() }),
            Self::Postgres { url, .. } => Some(Self::Postgres { url: url.clone(), memory: name.to_owned() }),
            _ if !is_segment => None,
            Self::Local(path) => Some(Self::Local(path.join(name))),
            Self::TrustedDirectory { path, other_users, file_system } => Some(Self::TrustedDirectory {
                path: path.join(name),
                other_users: *other_users,
                file_system: *file_system,
            }),
            Self::Bucket { url } => {
                Some(Self::Bucket { url: format!("{}/{}", url.trim_end_matches('/'), escape(name.as_bytes())) })
            }
            Self::InProcess => None,
        }
    }

    /// The last part of the URL: the name of the memory in a database, or of the directory or prefix.
    pub fn name(&self) -> Option<String> {
        match self {
            Self::Sqlite { memory, .. } | Self::Postgres { memory, .. } => Some(memory.clone()),
            Self::Local(path) | Self::TrustedDirectory { path, .. } => path.file_name()?.to_str().map(str::to_owned),
            Self::Bucket { url } => {
                let name = url.trim_end_matches('/').rsplit('/').next()?;
                Some(percent_encoding::percent_decode_str(name).decode_utf8().ok()?.into_owned())
            }
            Self::InProcess => None,
        }
    }

    /// The URLs of all memories in this database, or of all stores at and right under this directory or prefix, sorted.
    /// [`Scope::list_in`](memory_tool_policies::Scope::list_in) lists the scopes of a store.
    ///
    /// # Errors
    /// [`OpenError`] if the database, directory or bucket cannot be read.
    #[allow(unused_variables, reason = "without a backend, the options are not used")]
    pub async fn memories(&self, options: OpenOptions) -> Result<Vec<Self>, OpenError> {
        match self {
            #[cfg(feature = "local")]
            Self::Local(_) | Self::TrustedDirectory { .. } => local::memories(self.clone()).await,
            #[cfg(feature = "sqlite")]
            Self::Sqlite { path, .. } => {
                let builder = memory_tool_sqlite::SqliteStore::builder(path);
                let store = builder.options(options.mode(memory_tool_core::OpenMode::ReadOnly)).open().await?;
                self.children(store.memory_names().await)
            }
            #[cfg(feature = "postgres")]
            Self::Postgres { url, .. } => {
                let builder = self.postgres(url, crate::store_url::DEFAULT_MEMORY)?;
                let opened = builder.options(options.mode(memory_tool_core::OpenMode::ReadOnly)).open().await;
                let store = opened.map_err(|error| error.with_place(format!("at {self}")))?;
                self.children(store.memory_names().await)
            }
            #[cfg(any(feature = "azure", feature = "gcs", feature = "s3"))]
            Self::Bucket { url } => {
                let bucket = url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
                let prefixes = self.bucket(url)?.options(options).prefixes().await;
                let prefixes = prefixes.map_err(|error| error.with_place(format!("at {self}")))?;
                let url_of = |prefix: &str| match prefix {
                    "" => bucket.clone(),
                    prefix => format!("{bucket}/{}", escape(prefix.as_bytes())),
                };
                Ok(prefixes.iter().map(|prefix| Self::Bucket { url: url_of(prefix.as_ref()) }).collect())
            }
            Self::InProcess => Ok(Vec::new()),
            #[allow(unreachable_patterns, reason = "with all features, every variant is matched above")]
            _ => Err(self.missing_feature(self.feature())),
        }
    }

    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    fn children(
        &self,
        names: Result<Vec<memory_tool_core::MemoryName>, memory_tool_core::StoreError>,
    ) -> Result<Vec<Self>, OpenError> {
        let names = names.map_err(|error| OpenError::new(format!("at {self}"), error.kind(), error))?;
        Ok(names.iter().filter_map(|name| self.child(name.as_str())).collect())
    }
}

#[cfg(feature = "local")]
mod local {
    use std::io;
    use std::path::Path;

    use memory_tool_core::{ErrorKind, OpenError};

    use crate::store_url::StoreUrl;

    pub(super) async fn memories(url: StoreUrl) -> Result<Vec<StoreUrl>, OpenError> {
        let place = format!("at {url}");
        let found = tokio::task::spawn_blocking(move || find(&url)).await.unwrap_or_else(|error| Err(error.into()));
        found.map_err(|error| {
            let is_missing = error.kind() == io::ErrorKind::NotFound;
            OpenError::new(place, if is_missing { ErrorKind::NotFound } else { ErrorKind::Other }, error)
        })
    }

    fn find(url: &StoreUrl) -> io::Result<Vec<StoreUrl>> {
        let (StoreUrl::Local(path) | StoreUrl::TrustedDirectory { path, .. }) = url else { return Ok(Vec::new()) };
        let mut names: Vec<_> =
            path.read_dir()?.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        let own = is_store(path).then(|| url.clone());
        let below = names.iter().filter(|name| is_store(&path.join(name))).filter_map(|name| url.child(name));
        Ok(own.into_iter().chain(below).collect())
    }

    /// Whether there is the directory `memories` and not a link to it.
    fn is_store(path: &Path) -> bool {
        path.join("memories").symlink_metadata().is_ok_and(|found| found.is_dir())
    }
}
