//! Lines that contain a text: counted exactly, kept only as far as the caller asked for.

use super::Match;
use crate::model::RepoPath;
use crate::redact::Redactor;
use memchr::memmem::Finder;

/// Longest line that is shown.
const LINE_CHARS_MAX: usize = 500;
/// Bytes behind the end of what is shown in which a secret may go on.
const SECRET_BYTES_MAX: usize = 16 << 10;

/// The finds of a search so far: the window the caller wants, and the exact count.
#[derive(Debug)]
pub(super) struct MatchWindow {
    skip: usize,
    limit: usize,
    matches: Vec<Match>,
    total: usize,
}

impl MatchWindow {
    /// Returns an empty collector that keeps the matches from `offset` on, at most `limit`.
    pub(super) fn new(offset: usize, limit: usize) -> Self {
        Self {
            skip: offset,
            limit,
            matches: Vec::new(),
            total: 0,
        }
    }

    /// The window and the count of all.
    pub(super) fn finish(self) -> (Vec<Match>, usize) {
        (self.matches, self.total)
    }

    fn wants_next(&self) -> bool {
        self.total >= self.skip && self.matches.len() < self.limit
    }
}

/// True if a needle can be in a line at all.
pub(super) fn fits_a_line(needle: &str) -> bool {
    !needle.is_empty() && !needle.contains(['\n', '\0'])
}

/// Adds every line of `content` that the finder finds something in.
pub(super) fn search(content: &[u8], finder: &Finder<'_>, name: &str, found: &mut MatchWindow) {
    let mut position = 0;
    // Line ends are counted from where they were counted last, and only for lines that are shown.
    let (mut counted, mut line) = (0, 1_u64);
    while let Some(rest) = content.get(position..)
        && let Some(hit) = finder.find(rest)
    {
        let hit = position + hit;
        let end = memchr::memchr(b'\n', content.get(hit..).unwrap_or_default())
            .map_or(content.len(), |length| hit + length);
        if found.wants_next() {
            let start = memchr::memrchr(b'\n', content.get(..hit).unwrap_or_default()).map_or(0, |at| at + 1);
            let passed = content.get(counted..start).unwrap_or_default();
            line += memchr::memchr_iter(b'\n', passed).count() as u64;
            counted = start;
            // Parsed only for what is shown: most searches count far more than they show.
            let Ok(path) = RepoPath::parse(name) else { return };
            found.matches.push(Match {
                path,
                line,
                text: shown(content.get(start..end).unwrap_or_default()),
            });
        }
        found.total += 1;
        position = end + 1;
    }
}

/// Like [`search`], for content that may be binary: then it has no lines.
pub(super) fn search_text(content: &[u8], finder: &Finder<'_>, name: &str, found: &mut MatchWindow) {
    if memchr::memchr(0, content).is_none() {
        search(content, finder, name, found);
    }
}

/// True for what is shown of a line that has more.
pub(super) fn is_cut(shown: &str) -> bool {
    shown.chars().count() >= LINE_CHARS_MAX
}

/// The part of a line of a text, from 1, that is shown. Secrets are taken out before it is cut: half of one would not be known
/// any more.
pub(super) fn shown_without_secrets(content: &[u8], line: u64, redactor: &Redactor) -> Option<String> {
    let before = usize::try_from(line.checked_sub(1)?).ok()?;
    let line = content.split(|byte| *byte == b'\n').nth(before)?;
    let line = line.get(..LINE_CHARS_MAX * 4 + SECRET_BYTES_MAX).unwrap_or(line);
    let redacted = redactor.redact(&String::from_utf8_lossy(line)).into_owned();
    Some(shown(redacted.as_bytes()))
}

/// The line without its end, cut to what is shown.
fn shown(line: &[u8]) -> String {
    // A character has at most four bytes, so nothing that is shown lies behind this.
    let line = line.get(..LINE_CHARS_MAX * 4).unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    String::from_utf8_lossy(line)
        .chars()
        .take(LINE_CHARS_MAX)
        .collect()
}
