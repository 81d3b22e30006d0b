//! [`Usage`]: the tokens that the API counts.

use std::ops::AddAssign;

use serde::Deserialize;
use serde_json::Value;

/// How many tokens a response took, or several together.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub(crate) struct Usage {
    /// Tokens of the input that the cache had nothing to do with.
    input_tokens: Option<u64>,
    /// Tokens of the input that were written into the cache.
    cache_creation_input_tokens: Option<u64>,
    /// Tokens of the input that were read from the cache.
    cache_read_input_tokens: Option<u64>,
    /// Tokens of the output.
    output_tokens: Option<u64>,
}

impl Usage {
    /// Takes over the counts that `usage`, as the API writes it, has: those of a stream are sums so far.
    ///
    /// Where the API made several steps, as it does to sum a conversation up, the counts are those of all of them.
    pub(crate) fn update(&mut self, usage: &Value) {
        let steps: Vec<_> = usage["iterations"].as_array().into_iter().flatten().filter_map(parse).collect();
        let told = if steps.is_empty() { parse(usage).unwrap_or_default() } else { sum(&steps) };
        let of_both = |new: Option<u64>, old: Option<u64>| new.or(old);
        *self = Self {
            input_tokens: of_both(told.input_tokens, self.input_tokens),
            cache_creation_input_tokens: of_both(told.cache_creation_input_tokens, self.cache_creation_input_tokens),
            cache_read_input_tokens: of_both(told.cache_read_input_tokens, self.cache_read_input_tokens),
            output_tokens: of_both(told.output_tokens, self.output_tokens),
        };
    }

    /// The counts in words.
    pub(crate) fn in_words(&self) -> String {
        let count = Option::unwrap_or_default;
        format!(
            "{} tokens of input, {} read from the cache, {} written to the cache, {} tokens of output",
            count(self.input_tokens),
            count(self.cache_read_input_tokens),
            count(self.cache_creation_input_tokens),
            count(self.output_tokens),
        )
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        let add = |to: &mut Option<u64>, more: Option<u64>| {
            *to = to.map_or(more, |count| Some(count.saturating_add(more.unwrap_or_default())));
        };
        add(&mut self.input_tokens, other.input_tokens);
        add(&mut self.cache_creation_input_tokens, other.cache_creation_input_tokens);
        add(&mut self.cache_read_input_tokens, other.cache_read_input_tokens);
        add(&mut self.output_tokens, other.output_tokens);
    }
}

fn parse(usage: &Value) -> Option<Usage> {
    Usage::deserialize(usage).ok()
}

fn sum(steps: &[Usage]) -> Usage {
    let mut sum = Usage::default();
    for step in steps {
        sum += *step;
    }
    sum
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_count_of_a_stream_counts() {
        let mut usage = Usage::default();
        usage.update(&json!({
            "input_tokens": 10, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 30, "output_tokens": 1,
            "service_tier": "standard",
        }));
        usage.update(&json!({"output_tokens": 7, "input_tokens": null}));
        usage.update(&json!("none"));
        let words = "10 tokens of input, 30 read from the cache, 20 written to the cache, 7 tokens of output";
        assert_eq!(usage.in_words(), words);
        let mut all = Usage::default();
        all += usage;
        all += usage;
        all += Usage { output_tokens: Some(1), ..Usage::default() };
        let words = "20 tokens of input, 60 read from the cache, 40 written to the cache, 15 tokens of output";
        assert_eq!(all.in_words(), words);
    }

    #[test]
    fn every_step_counts() {
        let mut usage = Usage::default();
        usage.update(&json!({"input_tokens": 5, "output_tokens": 6, "iterations": [
            {"type": "compaction", "input_tokens": 100, "output_tokens": 50},
            {"type": "message", "input_tokens": 5, "output_tokens": 6},
        ]}));
        let words = "105 tokens of input, 0 read from the cache, 0 written to the cache, 56 tokens of output";
        assert_eq!(usage.in_words(), words);
    }
}
