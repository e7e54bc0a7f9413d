//! Formats an error of a Jsonnet program for a terminal: the message, the source line with a marker below it, and the
//! stack trace.

use super::CliError;
use crate::base::model::{RepoPath, one_line, quoted};
use crate::base::redact::Redactor;
use crate::rendering::compare::BrokenEnvironment;
use crate::rendering::jsonnet::TraceFrame;
use crate::rendering::tanka::TankaError;
use crate::state::workspace::Tree;

/// The maximum number of different failures that are shown, and of environments that are named with each.
const FAILURES_MAX: usize = 10;
const NAMES_MAX: usize = 5;
/// The maximum number of stack frames that are shown.
const FRAMES_MAX: usize = 12;
/// The maximum number of characters of a source line.
const LINE_CHARS_MAX: usize = 160;

/// A formatter of failures with their source lines, which all commands use for the failures of programs.
#[derive(Clone, Copy)]
pub(super) struct FailureFormatter<'a> {
    pub(super) tree: &'a dyn Tree,
    /// Redacts secrets: terminal output is often pasted elsewhere.
    pub(super) redactor: &'a Redactor,
}

impl FailureFormatter<'_> {
    /// Converts the failure of a rendering.
    pub(super) fn to_error(self, error: &TankaError) -> CliError {
        CliError::failed(self.format_error(error))
    }

    /// Returns the failure with its source locations as one text.
    pub(super) fn format_error(self, error: &TankaError) -> String {
        let details = match error {
            TankaError::Evaluation(error) => self.format_trace(&error.places()),
            _ => String::new(),
        };
        format!("{error}{details}")
    }

    /// Formats the stack trace, after the source line of the innermost frame.
    pub(super) fn format_trace(self, trace: &[TraceFrame]) -> String {
        let innermost = trace.iter().find(|frame| !frame.at.is_empty());
        let source = innermost.and_then(|frame| self.source_excerpt(&frame.at));
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

    /// Returns the locations where environments fail; environments with the same failure are combined.
    pub(super) fn format_failures(self, broken: &[BrokenEnvironment]) -> Vec<String> {
        let mut ways: Vec<(&[TraceFrame], Vec<String>)> = Vec::new();
        for BrokenEnvironment { name, trace } in broken {
            let known = ways.iter_mut().find(|(known, _)| *known == trace.as_slice());
            if let Some((_, names)) = known {
                names.push(quoted(name));
                continue;
            }
            if ways.len() < FAILURES_MAX {
                ways.push((trace, vec![quoted(name)]));
            }
        }
        let texts = ways.into_iter().map(|(trace, names)| {
            let named = names.iter().take(NAMES_MAX).map(String::as_str);
            let named = named.collect::<Vec<_>>().join(", ");
            let (more, verb) = match names.len() {
                1 => (String::new(), "fails"),
                all if all <= NAMES_MAX => (String::new(), "fail"),
                all => (format!(" and {} more", all - NAMES_MAX), "fail"),
            };
            format!("{named}{more} {verb} here:{}", self.format_trace(trace))
        });
        texts.collect()
    }

    /// Returns the source line of a location, with a marker below the column.
    fn source_excerpt(self, at: &str) -> Option<String> {
        let (rest, column) = at.rsplit_once(':')?;
        let (path, line) = rest.rsplit_once(':')?;
        let (line, column): (usize, usize) = (line.parse().ok()?, column.parse().ok()?);
        let version = self.tree.read(&RepoPath::parse(path).ok()?).ok()?;
        let text = String::from_utf8_lossy(&version.content).into_owned();
        let source = text.lines().nth(line.checked_sub(1)?)?;
        let redacted = redact_line(source, line, &text)?;
        let redacted = self.redactor.redact(&redacted);
        let is_there = redacted == source && column <= source.chars().count() + 1;
        let redacted: String = redacted
            .chars()
            .map(|char| if char.is_control() { ' ' } else { char })
            .collect();
        let (shown, skipped) = line_window(&redacted, if is_there { column } else { 1 });
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
}

/// Redacts a line. Secrets are found in the whole file, because terminal output is often pasted elsewhere. Returns
/// `None` for a line in the middle of a secret of several lines.
fn redact_line(source: &str, line: usize, text: &str) -> Option<String> {
    let redactor = Redactor::new([]);
    redactor.learn_file(None, text.as_bytes());
    let redacted = redactor.redact(source).into_owned();
    let is_hidden = redacted != source;
    (is_hidden || !redactor.lines(text).contains(&line)).then_some(redacted)
}

/// Returns the part of a line around a column, and the number of columns that were cut off at its left.
fn line_window(line: &str, column: usize) -> (String, usize) {
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
    use super::{line_window, redact_line};

    /// T87
    #[test]
    fn a_line_is_shown_without_what_its_file_shows_to_be_a_secret() {
        let label = "PRIVATE KEY";
        let key = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
        for (text, line, shown) in [
            ("{ a: 1, b: error 'no' }", 1, Some("{ a: 1, b: error 'no' }")),
            (
                "{ password: 'blue moon 42', x: error self.password }",
                1,
                Some("{ password: '⟦secret:1⟧', x: error self.password }"),
            ),
            ("{ password: |||\n  blue moon 42\n||| }", 2, Some("  ⟦secret:1⟧")),
            (
                "- name: DB_PASSWORD\n  value: 'blue moon 42'",
                2,
                Some("  value: '⟦secret:1⟧'"),
            ),
            (
                "{ kind: 'Secret', stringData: {\n  opens: 'brass-kettle-41' } }",
                2,
                Some("  opens: '⟦secret:1⟧' } }"),
            ),
            (
                &format!(
                    "{{ k: |||\n  -----BEGIN {label}-----\n  {key}\n  {key}\n  -----END {label}-----\n||| }}"
                ),
                2,
                None,
            ),
        ] {
            assert_eq!(
                redact_line(text.lines().nth(line - 1).unwrap_or_default(), line, text).as_deref(),
                shown
            );
        }
    }

    #[test]
    fn a_long_line_is_shown_around_the_column() {
        let line = format!("{}X{}", "a".repeat(300), "b".repeat(300));
        let (shown, skipped) = line_window(&line, 301);
        assert_eq!(shown.chars().nth(301 - 1 - skipped), Some('X'), "{shown}");
        assert!(shown.starts_with('…') && shown.ends_with('…'));
        let (shown, skipped) = line_window("short", 3);
        assert_eq!((shown.as_str(), skipped), ("short", 0));
        let (shown, skipped) = line_window(&line, 160);
        assert!(shown.starts_with('a') && shown.ends_with('…') && skipped == 0);
    }
}
