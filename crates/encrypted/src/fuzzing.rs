//! Doors to the decoders, for the fuzz targets alone.

use crate::header::parse;
use crate::id::{ID_BYTES, Id};
use crate::index::Index;

/// Reads arbitrary bytes as a stored object.
pub fn parse_object(stored: &[u8]) {
    if let Ok((header, head)) = parse(stored) {
        // What was understood is written back as it was: nothing in it was passed over.
        let mut written = Vec::new();
        assert_eq!(header.encode(stored.len() - head, &mut written), Some(()));
        assert_eq!(written, stored[..head]);
    }
}

/// Reads arbitrary bytes as what is encrypted in the copies of an index; the first byte says how many data keys there are.
pub fn decode_index(input: &[u8]) {
    use crate::header::Slot;

    let Some((count, encoded)) = input.split_first() else { return };
    let Ok(key) = "key".parse::<crate::KeyId>() else { return };
    let slot = |number| Slot { data_key: Id::from_bytes([number; ID_BYTES]), key: key.clone(), wrapped: Vec::new() };
    let slots: Vec<_> = (0..*count).map(slot).collect();
    if let Ok(index) = Index::decode(Id::from_bytes([0; ID_BYTES]), slots, encoded) {
        assert_eq!(index.encode().as_deref(), Some(encoded));
    }
}
