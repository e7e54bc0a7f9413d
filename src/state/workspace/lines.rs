//! Lines that contain a text. All are counted, and only the requested window is kept.

use super::Match;
use crate::base::model::RepoPath;
use crate::base::redact::Redactor;
use memchr::memmem::Finder;

/// Maximum length of a line that is shown, in characters.
const LINE_CHARS_MAX: usize = 500;
/// Bytes after the shown part of a line that are also checked, because a secret may continue there.
const SECRET_BYTES_MAX: usize = 16 << 10;

/// The matches of a search so far: the requested window and the exact count.
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

    /// Returns the window and the count of all matches.
    pub(super) fn finish(self) -> (Vec<Match>, usize) {
        (self.matches, self.total)
    }

    fn wants_next(&self) -> bool {
        self.total >= self.skip && self.matches.len() < self.limit
    }
}

/// True if a line can contain the needle.
pub(super) fn fits_a_line(needle: &str) -> bool {
    !needle.is_empty() && !needle.contains(['\n', '\0'])
}

/// Adds every line of `content` in which the finder finds a match.
pub(super) fn search(content: &[u8], finder: &Finder<'_>, name: &str, found: &mut MatchWindow) {
    let mut position = 0;
    // Counting of line ends resumes at the last counted position, and only for lines that are shown.
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
            // The path is parsed only for matches that are shown. Most searches count many more.
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

/// Searches like [`search`], but skips binary content, which has no lines.
pub(super) fn search_text(content: &[u8], finder: &Finder<'_>, name: &str, found: &mut MatchWindow) {
    if memchr::memchr(0, content).is_none() {
        search(content, finder, name, found);
    }
}

/// True if the shown text was cut from a longer line.
pub(super) fn is_cut(shown: &str) -> bool {
    shown.chars().count() >= LINE_CHARS_MAX
}

/// Returns the shown part of a line of a text, counted from 1. Secrets are removed before the line is cut, because
/// a part of a secret would no longer be recognized.
pub(super) fn shown_without_secrets(content: &[u8], line: u64, redactor: &Redactor) -> Option<String> {
    let before = usize::try_from(line.checked_sub(1)?).ok()?;
    let line = content.split(|byte| *byte == b'\n').nth(before)?;
    let line = line.get(..LINE_CHARS_MAX * 4 + SECRET_BYTES_MAX).unwrap_or(line);
    let redacted = redactor.redact(&String::from_utf8_lossy(line)).into_owned();
    Some(shown(redacted.as_bytes()))
}

/// Cuts a line to the shown length and removes its line end.
fn shown(line: &[u8]) -> String {
    // A character has at most four bytes, so the shown part ends within this prefix.
    let line = line.get(..LINE_CHARS_MAX * 4).unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    String::from_utf8_lossy(line)
        .chars()
        .take(LINE_CHARS_MAX)
        .collect()
}
