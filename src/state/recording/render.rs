//! A recording as plain text for a terminal.

use super::{RecordedEvent, SessionRecord};
use crate::base::model::is_invisible;
use std::fmt::Write as _;

/// Maximum number of lines shown of one text.
const SHOWN_LINES_MAX: usize = 40;

/// Formats a recording as plain text for a terminal. Control characters are made visible, so the terminal does not
/// interpret them.
pub fn render(records: &[SessionRecord]) -> String {
    let mut text = String::new();
    for record in records {
        let _ = match record.turn {
            Some(turn) => write!(text, "{:.0}  turn {turn}  ", record.at),
            None => write!(text, "{:.0}  ", record.at),
        };
        render_event(&mut text, &record.event);
    }
    text
}

fn render_event(text: &mut String, event: &RecordedEvent) {
    match event {
        RecordedEvent::Began {
            user, attachments, ..
        } => {
            block(text, "user", user);
            for file in attachments {
                block(text, &format!("    attached {file}, sha256 {}", file.sha256), "");
            }
        }
        RecordedEvent::Assistant {
            model,
            text: words,
            calls,
            usage,
            ..
        } => {
            let cached = usage.cache_read.saturating_add(usage.cache_write);
            let tokens = format!("{} in, {} out, {cached} cached", usage.input, usage.output);
            block(text, &format!("{model} ({tokens})"), words);
            for call in calls {
                block(
                    text,
                    &format!("    call {} {}", call.id, call.name),
                    call.arguments.text(),
                );
            }
        }
        RecordedEvent::Result {
            call,
            content,
            is_error,
        } => {
            let outcome = if *is_error { "failed" } else { "ok" };
            block(text, &format!("result {call} {outcome}"), content);
        }
        RecordedEvent::SentBack { remark } => block(text, "sent back to the model", remark),
        RecordedEvent::Message { text: said } => block(text, "user, while the turn ran", said),
        RecordedEvent::Change {
            change,
            repository,
            base,
            patch,
        } => block(text, &format!("{change} of {repository} at {base}"), patch),
        RecordedEvent::Verdict {
            verdict,
            source,
            summary,
        } => block(
            text,
            &format!("verdict {verdict:?} ({source:?})").to_lowercase(),
            summary,
        ),
        RecordedEvent::Cleared {} => block(text, "the history was cleared", ""),
        RecordedEvent::Recovered { lost_bytes } => {
            let head = format!("a crash cut the last line short; {lost_bytes} bytes were lost");
            block(text, &head, "");
        }
        RecordedEvent::LeftOut { lines } => {
            let head = format!("the session went on without its last step; {lines} lines of it are above");
            block(text, &head, "");
        }
        RecordedEvent::Used { used } => {
            let head = format!("an answer arrived; {} tokens so far", used.usage.total());
            block(text, &head, "");
        }
        RecordedEvent::Summarised { session } => {
            let (head, summary) = match session.summary() {
                Some(summary) => ("a model summarised the earlier turns", summary),
                None => (
                    "a model was asked for a summary; the earlier turns were shortened",
                    "",
                ),
            };
            block(text, head, summary);
        }
        RecordedEvent::UndoBegan { files } => block(text, "an undo began", &files.join("\n")),
        RecordedEvent::Undone { files } => block(text, "the undo restored these files", &files.join("\n")),
        RecordedEvent::Unreadable { line } => block(text, &format!("line {line} cannot be read"), ""),
    }
}

/// Appends a head line and an indented body.
fn block(text: &mut String, head: &str, body: &str) {
    push_visible(text, head);
    text.push('\n');
    let lines = body.lines().count();
    for line in body.lines().take(SHOWN_LINES_MAX) {
        text.push_str("    ");
        push_visible(text, line);
        text.push('\n');
    }
    if let Some(more @ 1..) = lines.checked_sub(SHOWN_LINES_MAX) {
        let _ = writeln!(text, "    ... {more} more lines");
    }
}

// Text direction marks are removed for the same reason as escape sequences: they can make a line look like another one.
fn push_visible(text: &mut String, line: &str) {
    for character in line.chars() {
        match character {
            _ if character.is_control() && character != '\t' => text.extend(character.escape_default()),
            _ if is_invisible(character) => text.extend(character.escape_unicode()),
            _ => text.push(character),
        }
    }
}
