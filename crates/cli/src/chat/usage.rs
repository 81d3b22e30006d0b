//! [`Usage`]: numbers of tokens.

use std::fmt;
use std::ops::AddAssign;

use serde::Deserialize;
use serde_json::Value;

/// The tokens of a response, or of several together.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub(crate) struct Usage {
    /// Input tokens without those of the cache.
    input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

impl Usage {
    /// Replaces the counts with the fields of `usage`. In a stream these are sums so far.
    ///
    /// If the API made several steps, as it does to summarize a conversation, their counts are added up.
    pub(crate) fn update(&mut self, usage: &Value) {
        let steps = usage["iterations"].as_array().into_iter().flatten().filter_map(parse);
        let new = steps.reduce(|sum, step| sum.with(step, add)).or_else(|| parse(usage)).unwrap_or_default();
        *self = new.with(*self, Option::or);
    }

    fn with(self, other: Self, combined: fn(Option<u64>, Option<u64>) -> Option<u64>) -> Self {
        Self {
            input_tokens: combined(self.input_tokens, other.input_tokens),
            cache_creation_input_tokens: combined(self.cache_creation_input_tokens, other.cache_creation_input_tokens),
            cache_read_input_tokens: combined(self.cache_read_input_tokens, other.cache_read_input_tokens),
            output_tokens: combined(self.output_tokens, other.output_tokens),
        }
    }
}

fn add(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.map_or(other, |count| Some(count.saturating_add(other.unwrap_or_default())))
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = Option::unwrap_or_default;
        write!(
            f,
            "{} input tokens, {} read from the cache, {} written to the cache, {} output tokens",
            count(self.input_tokens),
            count(self.cache_read_input_tokens),
            count(self.cache_creation_input_tokens),
            count(self.output_tokens),
        )
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = self.with(other, add);
    }
}

fn parse(usage: &Value) -> Option<Usage> {
    Usage::deserialize(usage).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn later_counts_of_a_stream_replace_earlier_ones() {
        let mut usage = Usage::default();
        usage.update(&json!({
            "input_tokens": 10, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 30, "output_tokens": 1,
            "service_tier": "standard",
        }));
        usage.update(&json!({"output_tokens": 7, "input_tokens": null}));
        usage.update(&json!("none"));
        let words = "10 input tokens, 30 read from the cache, 20 written to the cache, 7 output tokens";
        assert_eq!(usage.to_string(), words);
        let mut all = Usage::default();
        all += usage;
        all += usage;
        all += Usage { output_tokens: Some(1), ..Usage::default() };
        let words = "20 input tokens, 60 read from the cache, 40 written to the cache, 15 output tokens";
        assert_eq!(all.to_string(), words);
    }

    #[test]
    fn the_counts_of_steps_are_added_up() {
        let mut usage = Usage::default();
        usage.update(&json!({"input_tokens": 5, "output_tokens": 6, "iterations": [
            {"type": "compaction", "input_tokens": 100, "output_tokens": 50},
            {"type": "message", "input_tokens": 5, "output_tokens": 6},
        ]}));
        let words = "105 input tokens, 0 read from the cache, 0 written to the cache, 56 output tokens";
        assert_eq!(usage.to_string(), words);
    }
}
