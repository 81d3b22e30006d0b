//! [`Padding`]: hides the sizes of files.

use std::num::NonZeroUsize;
use std::str::FromStr;

/// The padding of files before encryption, which hides their sizes.
///
/// Without padding, ciphertexts reveal the exact size of each file. With padding, the encrypted index stores the sizes,
/// and an edit that changes the size of a file also writes the index.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Padding {
    /// No padding.
    #[default]
    None,
    /// Pads to the next multiple of this number of bytes. All shorter files have the same size. A write fails with
    /// [`EncryptionError::TooLarge`](crate::EncryptionError::TooLarge) if the padded file does not fit in RAM.
    Multiple(NonZeroUsize),
    /// Pads to a Padmé size, which adds at most 12 % (6 % for one megabyte). A size of `n` bytes reveals about
    /// `log log n` bits. From "Reducing Metadata Leakage from Encrypted Files and Communication with PURBs" (2019).
    Padme,
}

/// Not a padding.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("expected padme, or a number of bytes from 1 up")]
#[non_exhaustive]
pub struct InvalidPadding;

/// Parses `padme`, or a number of bytes for [`Multiple`](Padding::Multiple).
impl FromStr for Padding {
    type Err = InvalidPadding;

    fn from_str(given: &str) -> Result<Self, InvalidPadding> {
        match given {
            "padme" => Ok(Self::Padme),
            number => number.parse().map(Self::Multiple).map_err(|_| InvalidPadding),
        }
    }
}

/// Marks the end of the content. Only zeros follow.
const END: u8 = 0x80;

impl Padding {
    /// The size to store in the index, if the length of the ciphertext does not give it.
    pub(crate) fn index_size(self, content: usize) -> Option<u64> {
        (self != Self::None).then_some(content as u64)
    }

    /// The padded length of a content, including the end marker.
    pub(crate) fn padded_length(self, content: usize) -> usize {
        match self {
            Self::None => content,
            Self::Multiple(size) => next_multiple(content.saturating_add(1), size.get()),
            Self::Padme => padme(content.saturating_add(1)),
        }
    }
}

fn next_multiple(length: usize, size: usize) -> usize {
    length.checked_next_multiple_of(size).unwrap_or(length)
}

/// The smallest Padmé length that is at least `length`. The low bits of a Padmé length are zero, more bits for longer
/// lengths.
fn padme(length: usize) -> usize {
    let Some(exponent) = length.checked_ilog2().filter(|exponent| *exponent > 0) else { return length };
    let zeros = exponent - (exponent.ilog2() + 1);
    next_multiple(length, 1 << zeros)
}

/// Appends the end marker to `buffer` and pads it to `length`.
pub(crate) fn pad(buffer: &mut Vec<u8>, length: usize) {
    buffer.push(END);
    buffer.resize(length.max(buffer.len()), 0);
}

/// The length without the padding; `None` if there is no end marker.
pub(crate) fn unpadded_length(padded: &[u8]) -> Option<usize> {
    let end = padded.iter().rposition(|byte| *byte != 0)?;
    (padded[end] == END).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpadding_restores_the_length() {
        let multiple = Padding::Multiple(NonZeroUsize::new(64).unwrap());
        for padding in [multiple, Padding::Padme] {
            for length in 0..300 {
                let content = vec![if length % 2 == 0 { 0 } else { END }; length];
                let mut padded = content.clone();
                pad(&mut padded, padding.padded_length(length));
                assert_eq!(padded.len(), padding.padded_length(length));
                assert!(padded.len() > length);
                assert_eq!(unpadded_length(&padded), Some(length));
            }
        }
    }

    #[test]
    fn padded_sizes_are_multiples() {
        let multiple = Padding::Multiple(NonZeroUsize::new(1024).unwrap());
        assert_eq!(
            [0, 1, 1023, 1024, 2047].map(|length| multiple.padded_length(length)),
            [1024, 1024, 1024, 2048, 2048]
        );
    }

    /// The bounds of the paper: at most 12 % overhead, and a small number of distinct sizes.
    #[test]
    fn padme_has_few_sizes_and_little_overhead() {
        let mut sizes: Vec<_> = (0..1_000_000).map(|length| Padding::Padme.padded_length(length)).collect();
        for (length, size) in sizes.iter().enumerate() {
            assert!(*size > length && (*size - (length + 1)) as f64 <= 0.12 * (length + 1) as f64, "{length}: {size}");
        }
        sizes.dedup();
        assert!(sizes.len() < 350, "{}", sizes.len());
        assert_eq!(Padding::Padme.padded_length(8), 10);
    }

    #[test]
    fn bytes_without_an_end_marker_have_no_padding() {
        for content in [b"".as_slice(), &[0; 9], b"text", &[END, 1]] {
            assert_eq!(unpadded_length(content), None);
        }
        assert_eq!(Padding::None.padded_length(usize::MAX), usize::MAX);
        assert_eq!(Padding::Padme.padded_length(usize::MAX), usize::MAX);
    }
}
