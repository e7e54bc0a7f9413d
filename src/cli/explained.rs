//! An error of a program as a terminal shows it: the message, the line of the source with a mark below it, and the calls
//! that led there.

use super::Failure;
use crate::jsonnet::{EvalError, Frame};
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
    let details = match error {
        TankaError::Evaluation(EvalError::Runtime { trace, .. }) => traced(trace, tree),
        TankaError::Evaluation(EvalError::Syntax {
            path, line, column, ..
        }) => marked(&format!("{path}:{line}:{column}"), tree).unwrap_or_default(),
        _ => String::new(),
    };
    Failure::failed(format!("{error}{details}"))
}

fn traced(trace: &[Frame], tree: &dyn Tree) -> String {
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
        .take(LINE_CHARS_MAX)
        .collect();
    // What a terminal shows is pasted elsewhere.
    let redactor = Redactor::new([]);
    let shown = redactor.redact(&source);
    let number = line.to_string();
    let margin = " ".repeat(number.len());
    let is_there = shown == source.as_str() && column <= source.chars().count() + 1;
    let mark = match is_there {
        true => format!("\n  {margin} | {}^", " ".repeat(column.saturating_sub(1))),
        false => String::new(),
    };
    Some(format!("\n  {number} | {shown}{mark}"))
}
