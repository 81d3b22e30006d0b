//! Images that the API accepts in a `tool_result` (`[V9]`).

use std::io::Cursor;

use crate::store::path::MemoryPath;
use crate::tool::error::NotTextReason;

/// The largest side of an image in pixels.
const MAX_SIDE: u32 = 8_000;

const MAX_BASE64_CHARACTERS: usize = 5_242_880;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
const JPEG: &[u8] = b"\xff\xd8\xff";

/// Whether `view` can show the file at `path` as an image.
pub(crate) fn has_image_name(path: &MemoryPath) -> bool {
    let extension = path.file_name().and_then(|name| name.rsplit_once('.')).map(|(_, extension)| extension);
    extension.is_some_and(|extension| ["png", "jpg", "jpeg"].iter().any(|known| extension.eq_ignore_ascii_case(known)))
}

/// The media type of an image, which its content determines, or the reason why the API would refuse it.
pub(crate) fn media_type(content: &[u8]) -> Result<&'static str, NotTextReason> {
    let characters = content.len().div_ceil(3).saturating_mul(4);
    if characters > MAX_BASE64_CHARACTERS {
        return Err(NotTextReason::LargeImage { characters });
    }
    let (media_type, size) = match content {
        content if content.starts_with(PNG) => ("image/png", png_size(content)?),
        content if content.starts_with(JPEG) => ("image/jpeg", jpeg_size(content)),
        _ => return Err(NotTextReason::NotAnImage),
    };
    check_size(size.ok_or(NotTextReason::NotAnImage)?)?;
    Ok(media_type)
}

fn check_size((width, height): (u32, u32)) -> Result<(), NotTextReason> {
    let is_accepted = |side| (1..=MAX_SIDE).contains(&side);
    if is_accepted(width) && is_accepted(height) { Ok(()) } else { Err(NotTextReason::ImageSize { width, height }) }
}

/// The width and height of a PNG; `None` if it is damaged. It is decoded, because a damaged image is refused too.
fn png_size(content: &[u8]) -> Result<Option<(u32, u32)>, NotTextReason> {
    let Some(size) = png_header(content) else { return Ok(None) };
    check_size(size)?; // before the time to decode it is spent
    Ok(decode_png(content).is_ok().then_some(size))
}

/// The width and height in the header, which is the first chunk.
fn png_header(content: &[u8]) -> Option<(u32, u32)> {
    let header = content.get(PNG.len()..)?.strip_prefix(b"\0\0\0\x0dIHDR")?;
    let (width, rest) = header.split_first_chunk()?;
    let (height, _) = rest.split_first_chunk()?;
    Some((u32::from_be_bytes(*width), u32::from_be_bytes(*height)))
}

/// Decodes an image row by row, with its checksums, to its last chunk.
fn decode_png(content: &[u8]) -> Result<(), png::DecodingError> {
    let mut reader = png::Decoder::new(Cursor::new(content)).read_info()?;
    while reader.next_row()?.is_some() {}
    reader.finish()
}

/// The width and height of a JPEG with a frame, a scan and an end.
fn jpeg_size(content: &[u8]) -> Option<(u32, u32)> {
    let mut rest = content.get(2..)?; // after the start of the image
    let (mut size, mut has_scan) = (None, false);
    loop {
        let (marker, segment) = next_marker(rest)?;
        rest = match marker {
            0xd9 => return size.filter(|_| has_scan), // the end of the image
            0x01 | 0xd0..=0xd7 => segment,            // without parameters
            _ => {
                let (length, _) = segment.split_first_chunk()?;
                let (parameters, rest) = segment.split_at_checked(u16::from_be_bytes(*length).into())?;
                if matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc) {
                    let &[_, _, _, top, bottom, left, right, ..] = parameters else { return None };
                    size = Some((u16::from_be_bytes([left, right]).into(), u16::from_be_bytes([top, bottom]).into()));
                }
                if marker == 0xda {
                    has_scan = true;
                    after_scan(rest)?
                } else {
                    rest
                }
            }
        };
    }
}

/// Splits off the marker at the start, which can follow fill bytes.
fn next_marker(content: &[u8]) -> Option<(u8, &[u8])> {
    let rest = content.strip_prefix(b"\xff")?;
    let fill = rest.iter().take_while(|byte| **byte == 0xff).count();
    rest[fill..].split_first().map(|(marker, rest)| (*marker, rest))
}

/// The content from the first marker that is not a part of the data of a scan.
fn after_scan(content: &[u8]) -> Option<&[u8]> {
    let mut pairs = content.windows(2);
    let end = pairs.position(|pair| pair[0] == 0xff && !matches!(pair[1], 0x00 | 0xd0..=0xd7))?;
    content.get(end..)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut content = Vec::new();
        let mut writer = png::Encoder::new(&mut content, width, height).write_header().unwrap();
        writer.write_image_data(&vec![0x5a; (width * height) as usize]).unwrap();
        writer.finish().unwrap();
        content
    }

    /// A JPEG with these sides. Its scan holds an escaped byte and a restart marker.
    fn jpeg(width: u16, height: u16) -> Vec<u8> {
        let ([left, right], [top, bottom]) = (width.to_be_bytes(), height.to_be_bytes());
        let frame = [0xff, 0xc0, 0, 11, 8, top, bottom, left, right, 1, 1, 0x11, 0];
        let scan = [0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0, 0x12, 0xff, 0, 0xff, 0xd0, 0x34];
        [&b"\xff\xd8\xff\xe0\0\x04ab"[..], &frame, &scan, b"\xff\xd9"].concat()
    }

    #[test]
    fn complete_images_are_accepted() {
        assert_eq!(media_type(&png(1, 1)), Ok("image/png"));
        assert_eq!(media_type(&png(8_000, 2)), Ok("image/png"));
        assert_eq!(media_type(&jpeg(1, 8_000)), Ok("image/jpeg"));
        assert_eq!(media_type(&[png(2, 2), b"appended".to_vec()].concat()), Ok("image/png"));
    }

    #[test]
    fn an_image_that_is_cut_anywhere_is_refused() {
        for whole in [png(3, 2), jpeg(3, 2)] {
            for length in 0..whole.len() {
                assert_eq!(media_type(&whole[..length]), Err(NotTextReason::NotAnImage), "{length} of {}", whole.len());
            }
        }
    }

    #[test]
    fn a_png_with_a_changed_byte_is_refused() {
        let whole = png(3, 2);
        for index in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[index] ^= 1;
            assert!(media_type(&damaged).is_err(), "byte {index}");
        }
    }

    #[test]
    fn an_image_that_the_api_refuses_names_the_reason() {
        let with_side = |side: u32| {
            let mut content = png(1, 1);
            content[16..20].copy_from_slice(&side.to_be_bytes());
            content
        };
        for (content, width, height) in [
            (with_side(0), 0, 1),
            (with_side(8_001), 8_001, 1),
            (with_side(u32::MAX), u32::MAX, 1),
            (jpeg(1, 0), 1, 0),
            (jpeg(20_000, 1), 20_000, 1),
        ] {
            assert_eq!(media_type(&content), Err(NotTextReason::ImageSize { width, height }));
        }
        let mut large = jpeg(1, 1);
        large.resize(3_932_160, 0); // after the end of the image
        assert_eq!(media_type(&large), Ok("image/jpeg"));
        large.push(0);
        assert_eq!(media_type(&large), Err(NotTextReason::LargeImage { characters: 5_242_884 }));
    }
}
