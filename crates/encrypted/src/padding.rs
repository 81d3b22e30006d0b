//! [`Padding`]: how much of the size of a file can be seen beneath the encryption.

use std::num::NonZeroUsize;

/// To what sizes files are filled up before they are encrypted.
///
/// Without padding, the size of each file can be seen beneath the encryption to the byte. With it, the sizes are kept in the
/// encrypted index, so that an edit that changes the size of a file writes the index, too.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Padding {
    /// None: a file takes no more room than it must.
    #[default]
    None,
    /// To the next multiple of so many bytes. All files that are shorter than that look alike. Where there is not so much memory,
    /// nothing is written: that is [`EncryptionError::TooLarge`](crate::EncryptionError::TooLarge).
    Multiple(NonZeroUsize),
    /// To one of the sizes of Padmé: at most 12 % more, 6 % for a megabyte. Of a size of `n` bytes no more is seen than about
    /// `log log n` bits. From "Reducing Metadata Leakage from Encrypted Files and Communication with PURBs" (2019).
    Padme,
}

/// Marks the end of the content; nothing but zeros comes after it.
const END: u8 = 0x80;

impl Padding {
    /// The size that the index has to keep, because the ciphertext does not tell it.
    pub(crate) fn noted_size(self, content: usize) -> Option<u64> {
        (self != Self::None).then_some(content as u64)
    }

    /// The length to which a content is filled up, the mark of its end included.
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

/// The smallest length of Padmé that is not below `length`: one whose low bits are zero, the more so the longer it is.
fn padme(length: usize) -> usize {
    let Some(exponent) = length.checked_ilog2().filter(|exponent| *exponent > 0) else { return length };
    let zeros = exponent - (exponent.ilog2() + 1);
    next_multiple(length, 1 << zeros)
}

/// Marks the end of what is in `buffer`, and fills it up to `length`.
pub(crate) fn pad(buffer: &mut Vec<u8>, length: usize) {
    buffer.push(END);
    buffer.resize(length.max(buffer.len()), 0);
}

/// The length of what was padded, or `None` where there is no padding.
pub(crate) fn unpadded_length(padded: &[u8]) -> Option<usize> {
    let end = padded.iter().rposition(|byte| *byte != 0)?;
    (padded[end] == END).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_padded_comes_back() {
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
    fn sizes_are_multiples() {
        let multiple = Padding::Multiple(NonZeroUsize::new(1024).unwrap());
        assert_eq!(
            [0, 1, 1023, 1024, 2047].map(|length| multiple.padded_length(length)),
            [1024, 1024, 1024, 2048, 2048]
        );
    }

    /// From the paper: at most 12 % more, and few sizes in all.
    #[test]
    fn sizes_of_padme_are_few_and_near() {
        let mut sizes: Vec<_> = (0..1_000_000).map(|length| Padding::Padme.padded_length(length)).collect();
        for (length, size) in sizes.iter().enumerate() {
            assert!(*size > length && (*size - (length + 1)) as f64 <= 0.12 * (length + 1) as f64, "{length}: {size}");
        }
        sizes.dedup();
        assert!(sizes.len() < 350, "{}", sizes.len());
        assert_eq!(Padding::Padme.padded_length(8), 10);
    }

    #[test]
    fn what_has_no_mark_was_not_padded() {
        for content in [b"".as_slice(), &[0; 9], b"text", &[END, 1]] {
            assert_eq!(unpadded_length(content), None);
        }
        assert_eq!(Padding::None.padded_length(usize::MAX), usize::MAX);
        assert_eq!(Padding::Padme.padded_length(usize::MAX), usize::MAX);
    }
}
