//! The protocol between a parent and its sandbox worker: frames of a tag, a length and that many bytes. Each side
//! checks a received length against its own bound.

use std::io::{Error, ErrorKind, Read, Write};

/// The tag of the first frame of every sandbox worker: the layers that confine it, as JSON.
pub(super) const CONFINED: u8 = 0;
/// Bytes of the header of a frame.
const HEADER_BYTES: usize = 5;
/// Bytes that are read or written at a time: the capacity of a pipe.
const PIECE_BYTES: usize = 64 << 10;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The kind of message.
    pub tag: u8,
    /// The content of the message.
    pub content: Vec<u8>,
}

/// Reads one frame of at most `bytes_max`. The error is `UnexpectedEof` if the other side has ended, and `InvalidData`
/// if the frame is too large.
pub fn read_frame(input: &mut impl Read, bytes_max: usize) -> std::io::Result<Frame> {
    let mut header = [0; HEADER_BYTES];
    input.read_exact(&mut header)?;
    let [tag, length @ ..] = header;
    let bytes = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if bytes > bytes_max {
        return Err(Error::new(ErrorKind::InvalidData, "a frame is too large"));
    }
    // The buffer grows with the bytes that arrive, so a false length allocates at most one piece.
    let mut content = Vec::new();
    while content.len() < bytes {
        let had = content.len();
        content.resize(bytes.min(had.saturating_mul(2).max(PIECE_BYTES)), 0);
        input.read_exact(content.get_mut(had..).unwrap_or_default())?;
    }
    Ok(Frame { tag, content })
}

/// Writes one frame; its content is the concatenation of the parts. A small frame is written at once, so that the other
/// side wakes only once.
pub fn write_frame(output: &mut impl Write, tag: u8, parts: &[&[u8]]) -> std::io::Result<()> {
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    let length = u32::try_from(bytes).map_err(|_| Error::from(ErrorKind::InvalidInput))?;
    let mut piece = Vec::with_capacity(PIECE_BYTES.min(HEADER_BYTES + bytes));
    piece.push(tag);
    piece.extend_from_slice(&length.to_be_bytes());
    for part in parts {
        if piece.len() + part.len() > PIECE_BYTES {
            output.write_all(&piece)?;
            output.write_all(part)?;
            piece.clear();
        } else {
            piece.extend_from_slice(part);
        }
    }
    output.write_all(&piece)?;
    output.flush()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{Frame, read_frame, write_frame};
    use std::io::ErrorKind;

    #[test]
    fn a_frame_comes_back_as_it_was_sent() {
        let mut wire = Vec::new();
        write_frame(&mut wire, 7, &[b"a", b"", b"bc"]).unwrap();
        let frame = read_frame(&mut wire.as_slice(), 3).unwrap();
        assert_eq!(
            frame,
            Frame {
                tag: 7,
                content: b"abc".to_vec()
            }
        );
    }

    /// T49
    #[test]
    fn a_length_that_is_a_lie_costs_nothing() {
        let lie = [1, 0xff, 0xff, 0xff, 0xff, b'x'];
        let error = read_frame(&mut lie.as_slice(), 8 << 20).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        let short = [1, 0, 0, 0, 9, b'x'];
        let error = read_frame(&mut short.as_slice(), 8 << 20).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    }
}
