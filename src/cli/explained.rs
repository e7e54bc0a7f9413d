//! An error of a program as a terminal shows it: the message, the line of the source with a mark below it, and the calls
//! that led there.

use super::Failure;
use crate::jsonnet::Frame;
use crate::model::{RepoPath, one_line};
use crate::redact::Redactor;
use crate::tanka::TankaError;
use crate::workspace::Tree;

/// Calls that are shown.
const FRAMES_MAX: usize = 12;
/// Characters of a line of source.
const LINE_CHARS_MAX: usize = 160;

/// The failure of a rendering.
pub(super) fn explained(error: &TankaError, tree: &dyn Tree) -> Failure {
    Failure::failed(told(error, tree))
}

/// The same as a text.
pub(super) fn told(error: &TankaError, tree: &dyn Tree) -> String {
    let details = match error {
        TankaError::Evaluation(error) => traced(&error.places(), tree),
        _ => String::new(),
    };
    format!("{error}{details}")
}

/// The calls, after the line of the innermost one.
pub(super) fn traced(trace: &[Frame], tree: &dyn Tree) -> String {
    let innermost = trace.iter().find(|frame| !frame.at.is_empty());
    let source = innermost.and_then(|frame| marked(&frame.at, tree));
    let calls = trace
        .iter()
        .take(FRAMES_MAX)
        .map(|frame| match frame.at.as_str() {
            "" => format!("\n  {}", one_line(&frame.what)),
            at => format!("\n  {at}: {}", one_line(&frame.what)),
        });
    let calls: String = calls.collect();
    let more = match trace.len().saturating_sub(FRAMES_MAX) {
        0 => String::new(),
        more => format!("\n  and {more} more"),
    };
    format!("{}{calls}{more}", source.unwrap_or_default())
}

/// The line of a place, and a mark below the column.
fn marked(at: &str, tree: &dyn Tree) -> Option<String> {
    let (rest, column) = at.rsplit_once(':')?;
    let (path, line) = rest.rsplit_once(':')?;
    let (line, column): (usize, usize) = (line.parse().ok()?, column.parse().ok()?);
    let version = tree.read(&RepoPath::parse(path).ok()?).ok()?;
    let text = String::from_utf8_lossy(&version.content).into_owned();
    let source = text.lines().nth(line.checked_sub(1)?)?;
    let source: String = source
        .chars()
        .map(|char| if char.is_control() { ' ' } else { char })
        .collect();
    // What a terminal shows is pasted elsewhere.
    let redactor = Redactor::new([]);
    let redacted = redactor.redact(&source);
    let is_there = redacted == source.as_str() && column <= source.chars().count() + 1;
    let (shown, skipped) = window(&redacted, if is_there { column } else { 1 });
    let number = line.to_string();
    let margin = " ".repeat(number.len());
    let mark = match is_there {
        true => format!(
            "\n  {margin} | {}^",
            " ".repeat(column.saturating_sub(1 + skipped))
        ),
        false => String::new(),
    };
    Some(format!("\n  {number} | {shown}{mark}"))
}

/// The part of a line around a column, and how many columns further left it begins than it is shown.
fn window(line: &str, column: usize) -> (String, usize) {
    let length = line.chars().count();
    let skipped = match column > LINE_CHARS_MAX {
        true => column - LINE_CHARS_MAX / 2,
        false => 0,
    };
    let part: String = line.chars().skip(skipped).take(LINE_CHARS_MAX).collect();
    let before = if skipped > 0 { "…" } else { "" };
    let after = if length > skipped + LINE_CHARS_MAX {
        "…"
    } else {
        ""
    };
    (
        format!("{before}{part}{after}"),
        skipped - before.chars().count().min(skipped),
    )
}

#[cfg(test)]
mod tests {
    use super::window;

    #[test]
    fn a_long_line_is_shown_around_the_column() {
        let line = format!("{}X{}", "a".repeat(300), "b".repeat(300));
        let (shown, skipped) = window(&line, 301);
        assert_eq!(shown.chars().nth(301 - 1 - skipped), Some('X'), "{shown}");
        assert!(shown.starts_with('…') && shown.ends_with('…'));
        let (shown, skipped) = window("short", 3);
        assert_eq!((shown.as_str(), skipped), ("short", 0));
        let (shown, skipped) = window(&line, 160);
        assert!(shown.starts_with('a') && shown.ends_with('…') && skipped == 0);
    }
}
