//! The number of equal bytes of two texts. Most bytes are compared in blocks.

const BLOCK_BYTES: usize = 64;

/// Returns the number of equal bytes at the beginnings of two texts.
pub(super) fn common_start(one: &[u8], other: &[u8]) -> usize {
    let blocks = one.chunks_exact(BLOCK_BYTES).zip(other.chunks_exact(BLOCK_BYTES));
    let equal = BLOCK_BYTES * blocks.take_while(|(one, other)| one == other).count();
    let (one, other) = (one.iter().skip(equal), other.iter().skip(equal));
    equal + one.zip(other).take_while(|(one, other)| one == other).count()
}

/// Returns the number of equal bytes at the ends of two texts.
pub(super) fn common_end(one: &[u8], other: &[u8]) -> usize {
    let blocks = one
        .rchunks_exact(BLOCK_BYTES)
        .zip(other.rchunks_exact(BLOCK_BYTES));
    let equal = BLOCK_BYTES * blocks.take_while(|(one, other)| one == other).count();
    let (one, other) = (one.iter().rev().skip(equal), other.iter().rev().skip(equal));
    equal + one.zip(other).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::{BLOCK_BYTES, common_end, common_start};

    #[test]
    fn equal_bytes_are_counted_up_to_the_first_difference_at_any_distance() {
        let text: Vec<u8> = (0..=255).collect();
        for length in 0..=3 * BLOCK_BYTES {
            let (mut from_start, mut from_end) = (text.clone(), text.clone());
            from_start[length] ^= 1;
            from_end[255 - length] ^= 1;
            assert_eq!(common_start(&text, &from_start), length);
            assert_eq!(common_end(&from_end, &text), length);
            assert_eq!(common_start(&text[..length], &text), length);
            assert_eq!(common_end(&text, &text[256 - length..]), length);
        }
    }
}
