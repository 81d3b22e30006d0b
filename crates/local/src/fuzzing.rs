//! Access to the parser of journals for the fuzz target and a test. Other builds do not contain it.

use crate::journal::{self, Committed};
use crate::step::Step;

/// Parses arbitrary bytes as a journal. Returns whether they are valid.
pub fn parse_journal(bytes: &[u8]) -> bool {
    let Ok(journal) = journal::parse(bytes) else { return false };
    let names = journal.steps.iter().flat_map(Step::temporary_names).map(|name| name.as_str().as_bytes());
    for name in names {
        assert!(name.len() == 16 && name.iter().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte)));
    }
    // Encoding and parsing again gives the same steps.
    let encode = |journal: &Committed| journal::encode(&journal.steps, journal.stuck.as_deref()).ok();
    let encoded = encode(&journal);
    let again = encoded.as_deref().and_then(|encoded| journal::parse(encoded).ok());
    assert_eq!(again.as_ref().and_then(encode), encoded);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const INPUTS: usize = 100_000;

    const JOURNAL: &[u8] = br#"{"format":1,"steps":[
        {"write":{"path":"/memories/a","staged":"0123456789abcdef","replaces":[1,2,255],"undo":{"kept":"a123456789abcdef","written":[3]}}},
        {"write":{"path":"/memories/b/c","staged":"1123456789abcdef","replaces":null,
            "undo":{"kept":"b123456789abcdef","written":[4]}}},
        {"remove":{"path":"/memories/d","removed":"2123456789abcdef"}},
        {"rename":{"from":"/memories/e","to":"/memories/f"}},
        {"write":{"path":"/records/expiry/access-times","staged":"3123456789abcdef","replaces":null,
            "undo":{"kept":"c123456789abcdef","written":[]}}},
        {"remove":{"path":"/records/expiry/log","removed":"4123456789abcdef"}}],"stuck":"the write of /memories/a"}"#;

    /// A deterministic sequence of numbers: the generator `xorshift64`.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, end: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            usize::try_from(self.0 >> 16).unwrap() % end.max(1)
        }

        /// Changes a few bytes, and sometimes the length.
        fn mutate(&mut self, seed: &[u8]) -> Vec<u8> {
            const PIECES: [&[u8]; 8] = [b"/", b"..", b".", b"\\u0000", b"\"", b"}", b"/memories", b"d/id_rsa"];
            let mut input = seed.to_vec();
            for _ in 0..=self.below(3) {
                let place = self.below(input.len());
                match self.below(4) {
                    0 => input.truncate(place),
                    1 => drop(input.splice(place..place, PIECES[self.below(PIECES.len())].iter().copied())),
                    2 if !input.is_empty() => input[place] = u8::try_from(self.below(256)).unwrap(),
                    _ if !input.is_empty() => drop(input.remove(place)),
                    _ => {}
                }
            }
            input
        }
    }

    #[test]
    fn the_seed_is_a_valid_journal() {
        assert!(parse_journal(JOURNAL));
    }

    #[test]
    fn mutated_journals_cause_no_panic_or_invalid_name() {
        let mut numbers = Numbers(1);
        let valid = (0..INPUTS).filter(|_| parse_journal(&numbers.mutate(JOURNAL))).count();
        assert!(valid > 1_000 && valid < INPUTS / 2, "{valid}");
    }
}
