//! Git's binary patch: both sides compressed and written in base 85.

use std::io::Write as _;

/// Larger old sides are left out: only a reversed patch would need them.
const REVERSE_BYTES_MAX: usize = 1 << 20;
/// Bytes of compressed data on one line.
const LINE_BYTES: usize = 52;
const ALPHABET: &[u8; 85] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

/// Writes the literal of the new side, then of the old side so that the patch can be reversed.
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

/// `A` to `Z` are 1 to 26 bytes, `a` to `z` are 27 to 52.
fn length_sign(length: usize) -> u8 {
    let length = u8::try_from(length).unwrap_or(LINE_BYTES as u8);
    match length {
        0..=26 => b'A' + length.saturating_sub(1),
        longer => b'a' + (longer - 27),
    }
}

/// Up to four bytes, padded with zeros, as five signs; the length sign says how many count.
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
    // Writing to memory cannot fail; a literal that is cut short would be refused by `git apply`.
    let done = writer.write_all(content).and_then(|()| writer.flush());
    debug_assert!(done.is_ok(), "compressing to memory");
    writer.into_inner()
}
