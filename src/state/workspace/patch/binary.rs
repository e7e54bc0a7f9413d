//! Git's binary patch format: both sides compressed and written in base 85.

use std::io::Write as _;

/// Maximum size of an old side in bytes. Larger ones are left out, because only a reversed patch needs them.
const REVERSE_BYTES_MAX: usize = 1 << 20;
/// Number of bytes of compressed data on one line.
const LINE_BYTES: usize = 52;
const ALPHABET: &[u8; 85] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

/// Writes the literal of the new side, then that of the old side so that the patch can be reversed.
pub(super) fn write(out: &mut Vec<u8>, old: &[u8], new: &[u8]) {
    out.extend_from_slice(b"GIT binary patch\n");
    write_literal(out, new);
    if old.len() <= REVERSE_BYTES_MAX {
        write_literal(out, old);
    }
}

fn write_literal(out: &mut Vec<u8>, content: &[u8]) {
    out.extend_from_slice(format!("literal {}\n", content.len()).as_bytes());
    for line in deflate(content).chunks(LINE_BYTES) {
        out.push(length_sign(line.len()));
        for group in line.chunks(4) {
            out.extend_from_slice(&encode(group));
        }
        out.push(b'\n');
    }
    out.push(b'\n');
}

/// Returns the character for a line length: `A` to `Z` for 1 to 26 bytes, `a` to `z` for 27 to 52.
fn length_sign(length: usize) -> u8 {
    let length = u8::try_from(length).unwrap_or(LINE_BYTES as u8);
    match length {
        0..=26 => b'A' + length.saturating_sub(1),
        longer => b'a' + (longer - 27),
    }
}

/// Encodes up to four bytes, padded with zeros, as five characters. The length character tells how many bytes
/// count.
fn encode(group: &[u8]) -> [u8; 5] {
    let mut value = 0_u32;
    for index in 0..4 {
        value = value << 8 | u32::from(group.get(index).copied().unwrap_or(0));
    }
    let mut signs = [0; 5];
    for sign in signs.iter_mut().rev() {
        *sign = ALPHABET.get((value % 85) as usize).copied().unwrap_or(b'0');
        value /= 85;
    }
    signs
}

fn deflate(content: &[u8]) -> Vec<u8> {
    let mut writer = gix::zlib::stream::deflate::Write::new(Vec::new(), gix::zlib::Compression::default());
    // Writing to memory cannot fail. `git apply` would refuse a truncated literal.
    let done = writer.write_all(content).and_then(|()| writer.flush());
    debug_assert!(done.is_ok(), "compressing to memory");
    writer.into_inner()
}
