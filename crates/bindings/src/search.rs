//! [`SearchRequest`]: a search in both languages, as JSON.

use std::time::{Duration, SystemTime};

use memory_tool::search::{LetterCase, Search, SearchError};
use memory_tool::{Memory, MemoryPath, StoreError};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::errors::CallError;

/// The pattern and the options of a search.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchRequest {
    pattern: String,
    #[serde(default)]
    regex: bool,
    #[serde(default)]
    case: LetterCase,
    #[serde(default)]
    within: Vec<String>,
    /// Times are in seconds since 1970.
    since: Option<f64>,
    before: Option<f64>,
    only: Option<Only>,
    #[serde(default)]
    hidden: bool,
    #[serde(default)]
    context: usize,
    #[serde(default)]
    paths_only: bool,
    max_matches: Option<usize>,
    max_characters: Option<usize>,
    at: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Only {
    Names,
    Text,
}

impl SearchRequest {
    fn search(self) -> Result<Search, CallError> {
        let mut search = Search::new(self.pattern).case(self.case).context(self.context, self.context);
        for path in self.within {
            search = search.within(MemoryPath::parse(&path).map_err(StoreError::from)?);
        }
        search = match self.only {
            Some(Only::Names) => search.names_only(),
            Some(Only::Text) => search.text_only(),
            None => search,
        };
        for (is_set, set) in [
            (self.regex, Search::regex as fn(Search) -> Search),
            (self.hidden, Search::hidden),
            (self.paths_only, Search::paths_only),
        ] {
            search = if is_set { set(search) } else { search };
        }
        search = self.since.map(time).transpose()?.into_iter().fold(search, Search::since);
        search = self.before.map(time).transpose()?.into_iter().fold(search, Search::before);
        search = self.max_matches.into_iter().fold(search, Search::max_matches);
        Ok(self.max_characters.into_iter().fold(search, Search::max_characters))
    }
}

fn time(seconds: f64) -> Result<SystemTime, CallError> {
    let time =
        Duration::try_from_secs_f64(seconds.max(0.0)).ok().and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since));
    time.ok_or_else(|| CallError::Search("the time is out of range".to_owned()))
}

/// Searches a memory, and returns the report as JSON, with its text for a model.
pub(crate) async fn perform(memory: &Memory, request: &str) -> Result<Value, CallError> {
    let request: SearchRequest = serde_json::from_str(request).map_err(|error| CallError::Search(error.to_string()))?;
    let at = request.at;
    let search = request.search()?;
    let report = match at {
        None => memory.search(&search).await?,
        Some(entry) => {
            let history = memory.history().ok_or_else(|| CallError::History("the memory has no history".to_owned()))?;
            search.run(&history.at(entry).await?).await?
        }
    };
    let mut value = json!(report);
    value["text"] = report.to_string().into();
    Ok(value)
}

impl From<SearchError> for CallError {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Store(error) => Self::Store(error),
            error => Self::Search(error.to_string()),
        }
    }
}
