//! Entry points to the decoders for the fuzz targets and a similar test. Other builds do not include them.

use crate::header::{Slot, parse};
use crate::id::{ID_BYTES, Id};
use crate::index::Index;
use crate::keys::KeyId;

/// Parses arbitrary bytes as a stored object.
pub fn parse_object(stored: &[u8]) {
    if let Ok((header, head)) = parse(stored) {
        // Encoding the header restores the same bytes, so the parser has not skipped any.
        let mut written = Vec::new();
        assert_eq!(header.encode(stored.len() - head, &mut written), Some(()));
        assert_eq!(written, stored[..head]);
    }
}

/// Decodes arbitrary bytes as the plaintext of an index. The first byte is the number of data keys.
pub fn decode_index(input: &[u8]) {
    let Some((count, encoded)) = input.split_first() else { return };
    let Ok(key) = "key".parse::<KeyId>() else { return };
    let slot = |number| Slot { data_key: Id::from_bytes([number; ID_BYTES]), key: key.clone(), wrapped: Vec::new() };
    if let Ok(index) = Index::decode(Id::from_bytes([0; ID_BYTES]), (0..*count).map(slot).collect(), encoded) {
        assert_eq!(index.encode().as_deref(), Some(encoded));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INPUTS: usize = 100_000;

    const OBJECTS: [&[u8]; 2] = [include_bytes!("../tests/versions/1/index-1"), b"\x8dMTE\r\n\x1a\n\x01\x02"];
    const INDEX: &[u8] = b"\x02\0\0\0\0\0\0\0\x07\0\0\0\x03\
        \0\x01a0123456789abcdef\0\0\0\
        \0\x03b/c0123456789abcdef\0\x01\x01\0\0\0\0\0\0\0\x09\
        \0\x04/d/e0123456789abcdef\0\0\0";

    /// The generator `xorshift64`, which gives the same numbers in every run.
    struct Generator(u64);

    impl Generator {
        fn below(&mut self, end: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            usize::try_from(self.0 >> 16).unwrap() % end.max(1)
        }

        /// Changes a few bytes, to random or to extreme values, and sometimes the length.
        fn mutate(&mut self, seed: &[u8]) -> Vec<u8> {
            const EXTREMES: [u8; 6] = [0, 1, 0x7f, 0x80, 0xfe, 0xff];
            let mut input = seed.to_vec();
            for _ in 0..=self.below(4) {
                let at = self.below(input.len());
                match self.below(6) {
                    0 => input.truncate(at),
                    1 => input.insert(at, EXTREMES[self.below(EXTREMES.len())]),
                    2 => input.extend_from_within(at..),
                    3 if !input.is_empty() => input[at] = EXTREMES[self.below(EXTREMES.len())],
                    4 if !input.is_empty() => input[at] ^= 1 << self.below(8),
                    _ if !input.is_empty() => input[at] = u8::try_from(self.below(256)).unwrap(),
                    _ => {}
                }
            }
            input
        }
    }

    #[test]
    fn the_seeds_are_valid() {
        assert!(parse(OBJECTS[0]).is_ok());
        let slot =
            |number| Slot { data_key: Id::from_bytes([number; 16]), key: "key".parse().unwrap(), wrapped: vec![] };
        let index = Index::decode(Id::from_bytes([0; 16]), vec![slot(0), slot(1)], &INDEX[1..]).unwrap();
        assert_eq!(index.files.files().len(), 3);
    }

    #[test]
    fn mutated_objects_do_not_make_the_parser_panic() {
        let mut generator = Generator(1);
        for number in 0..INPUTS {
            parse_object(&generator.mutate(OBJECTS[number % OBJECTS.len()]));
        }
    }

    #[test]
    fn mutated_indexes_do_not_make_the_decoder_panic() {
        let mut generator = Generator(2);
        for _ in 0..INPUTS {
            decode_index(&generator.mutate(INDEX));
        }
    }
}
