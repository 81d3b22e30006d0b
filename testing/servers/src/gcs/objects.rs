//! [`Objects`]: the objects of the server, with atomic operations.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use chrono::{DateTime, Utc};

/// The reason of a rejected request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Rejection {
    Internal,
    InvalidArgument,
    InvalidRange,
    MethodNotAllowed,
    NoSuchBucket,
    NoSuchKey,
    PreconditionFailed,
    Unauthorized,
}

/// A stored object.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) content: Bytes,
    pub(super) generation: u64,
    pub(super) modified: DateTime<Utc>,
}

impl Object {
    pub(super) fn e_tag(&self) -> String {
        format!("\"{}\"", self.generation)
    }
}

/// The parameters of a list request.
#[derive(Debug)]
pub(super) struct Selection {
    pub(super) prefix: String,
    pub(super) delimiter: Option<String>,
    /// Only keys after this one.
    pub(super) after: String,
    /// The last entry of the previous page.
    pub(super) token: String,
    pub(super) limit: usize,
}

/// A page of a list.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) objects: Vec<(String, Object)>,
    pub(super) prefixes: Vec<String>,
    /// The token of the next page, if any.
    pub(super) next: Option<String>,
}

/// The objects of the bucket.
#[derive(Debug, Default)]
pub(super) struct Objects {
    by_key: BTreeMap<String, Object>,
    last_generation: u64,
}

impl Objects {
    pub(super) fn get(&self, key: &str) -> Result<&Object, Rejection> {
        self.by_key.get(key).ok_or(Rejection::NoSuchKey)
    }

    /// Writes an object. `is_new` refuses to replace one.
    pub(super) fn put(&mut self, key: &str, is_new: bool, content: Bytes) -> Result<&Object, Rejection> {
        if is_new && self.by_key.contains_key(key) {
            return Err(Rejection::PreconditionFailed);
        }
        self.last_generation += 1;
        let object = Object { content, generation: self.last_generation, modified: Utc::now() };
        self.by_key.insert(key.to_owned(), object);
        self.get(key)
    }

    pub(super) fn delete(&mut self, key: &str) -> Result<(), Rejection> {
        self.by_key.remove(key).map(drop).ok_or(Rejection::NoSuchKey)
    }

    pub(super) fn list(&self, selection: &Selection) -> Page {
        let Selection { prefix, delimiter, after, token, limit } = selection;
        let start = after.max(token).max(prefix).as_str();
        let start = if start == prefix { Bound::Included(start) } else { Bound::Excluded(start) };
        let mut page = Page::default();
        let mut last = String::new();
        let keys = self.by_key.range::<str, _>((start, Bound::Unbounded));
        for (key, object) in keys.take_while(|(key, _)| key.starts_with(prefix)) {
            let group = delimiter.as_deref().and_then(|delimiter| group(key, prefix, delimiter));
            let entry = group.unwrap_or(key);
            if group.is_some_and(|group| group == last || group == token) {
                continue; // already listed on this page or the previous one
            }
            if page.objects.len() + page.prefixes.len() == *limit {
                page.next = Some(last);
                break;
            }
            match group {
                Some(group) => page.prefixes.push(group.to_owned()),
                None => page.objects.push((key.clone(), object.clone())),
            }
            last = entry.to_owned();
        }
        page
    }
}

/// Returns the common prefix that groups a key: up to the first delimiter after the prefix.
fn group<'key>(key: &'key str, prefix: &str, delimiter: &str) -> Option<&'key str> {
    let position = key[prefix.len()..].find(delimiter)?;
    Some(&key[..prefix.len() + position + delimiter.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_any_size_form_the_whole_list() {
        let mut objects = Objects::default();
        for key in ["p", "p/a", "p/b/1", "p/b/2", "p/b/3", "p/c", "p/d/1", "q"] {
            objects.put(key, false, Bytes::new()).unwrap();
        }
        for limit in 1..6 {
            let whole = ["p/a", "p/b/1", "p/b/2", "p/b/3", "p/c", "p/d/1"];
            assert_eq!(entries(&objects, None, "", limit), whole);
            assert_eq!(entries(&objects, None, "p/b/2", limit), whole[3..]);
            assert_eq!(entries(&objects, Some("/"), "", limit), ["p/a", "p/b/", "p/c", "p/d/"]);
        }
    }

    /// Lists all entries under `p/`, page by page.
    fn entries(objects: &Objects, delimiter: Option<&str>, after: &str, limit: usize) -> Vec<String> {
        let (delimiter, mut token, mut all) = (delimiter.map(str::to_owned), String::new(), Vec::new());
        loop {
            let (prefix, delimiter) = ("p/".to_owned(), delimiter.clone());
            let page = objects.list(&Selection { prefix, delimiter, after: after.to_owned(), token, limit });
            let mut entries: Vec<_> = page.objects.into_iter().map(|(key, _)| key).chain(page.prefixes).collect();
            assert!(!entries.is_empty() && entries.len() <= limit);
            entries.sort();
            all.extend(entries);
            match page.next {
                Some(next) => token = next,
                None => return all,
            }
        }
    }
}
