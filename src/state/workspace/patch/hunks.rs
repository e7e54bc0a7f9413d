//! The hunks of a text file: lines as bytes, three lines of context, original line ends.

use similar::{Algorithm, DiffOp};
use std::time::Instant;

const CONTEXT_LINES: usize = 3;

/// Writes the hunks and returns the number of added and removed lines.
pub(super) fn write(out: &mut Vec<u8>, old: &[u8], new: &[u8], deadline: Instant) -> (u64, u64) {
    let old_lines = lines(old);
    let new_lines = lines(new);
    let ops = similar::capture_diff_slices_deadline(Algorithm::Myers, &old_lines, &new_lines, Some(deadline));
    let (mut added, mut removed) = (0, 0);
    for group in similar::group_diff_ops(ops, CONTEXT_LINES) {
        write_header(out, &group);
        for op in &group {
            if let DiffOp::Equal { .. } = op {
                write_lines(out, b' ', &old_lines, op.old_range());
                continue;
            }
            removed += write_lines(out, b'-', &old_lines, op.old_range());
            added += write_lines(out, b'+', &new_lines, op.new_range());
        }
    }
    (added, removed)
}

pub(super) fn lines(content: &[u8]) -> Vec<&[u8]> {
    content.split_inclusive(|&byte| byte == b'\n').collect()
}

fn write_header(out: &mut Vec<u8>, group: &[DiffOp]) {
    let (Some(first), Some(last)) = (group.first(), group.last()) else {
        return;
    };
    let old = span(first.old_range().start, last.old_range().end);
    let new = span(first.new_range().start, last.new_range().end);
    out.extend_from_slice(format!("@@ -{old} +{new} @@\n").as_bytes());
}

/// Formats the range of a hunk. Lines count from 1. An empty range names the line before it, and a length of one is
/// left out.
fn span(start: usize, end: usize) -> String {
    match end - start {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        length => format!("{},{length}", start + 1),
    }
}

fn write_lines(out: &mut Vec<u8>, sign: u8, lines: &[&[u8]], range: std::ops::Range<usize>) -> u64 {
    let mut written = 0;
    for line in lines.get(range).unwrap_or_default() {
        out.push(sign);
        out.extend_from_slice(line);
        if line.last() != Some(&b'\n') {
            out.extend_from_slice(b"\n\\ No newline at end of file\n");
        }
        written += 1;
    }
    written
}
