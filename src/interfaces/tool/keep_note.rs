//! `keep_note`: keeps a note of a conversation. Notes are read from the calls when their turns are left out, so a call
//! has no effect of its own. Only conversations that are shortened to their notes offer the tool.

use super::adapter::{ToolAdapter, ToolBody, ToolFunction};
use super::arguments::ToolArguments;
use super::conclude::NoContext;
use super::{Tool, ToolError};
use crate::base::model::{Effect, ToolCall};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::{Arc, LazyLock};

/// The name of the tool.
const KEEP_NOTE: &str = "keep_note";
/// Maximum number of bytes of a note.
const NOTE_BYTES_MAX: usize = 1_024;

struct KeepNote;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoteArguments {
    /// One fact, decision or open question, in one line of at most 1,024 bytes.
    note: String,
}

impl ToolArguments for NoteArguments {
    const SUBJECT: Option<&'static str> = Some("note");
}

impl ToolBody for KeepNote {
    type Arguments = NoteArguments;
    type CallContext = NoContext;

    const NAME: &'static str = KEEP_NOTE;
    const DESCRIPTION: &'static str = "Keeps a note. When this conversation becomes too long, its oldest messages and results are left out, \
                                       and only your notes of them remain.";
    const EFFECT: Effect = Effect::Read;
    const EXAMPLES: &'static [&'static str] =
        &[r#"{"note":"web runs 3 replicas in prod; the person wants 5 there after Monday."}"#];
    const RUN: ToolFunction<Self> =
        ToolFunction::Blocking(|_, arguments: NoteArguments| match one_line(&arguments.note) {
            Some(_) => Ok("Kept.".to_owned()),
            None => Err(ToolError::Failed(format!(
                "not kept: a note has text of at most {NOTE_BYTES_MAX} bytes; keep several short ones"
            ))),
        });
}

/// Returns the tool.
pub fn keep_note() -> Arc<dyn Tool> {
    static TOOL: LazyLock<Arc<dyn Tool>> = LazyLock::new(|| Arc::new(ToolAdapter::<KeepNote>::new()));
    Arc::clone(&TOOL)
}

/// Returns the note that a call kept, in one line; `None` for another call, or for one that kept nothing.
pub fn kept_note(call: &ToolCall) -> Option<String> {
    if call.name != KEEP_NOTE {
        return None;
    }
    let arguments = call.arguments.value().ok()?.clone();
    let arguments: NoteArguments = serde_json::from_value(arguments).ok()?;
    one_line(&arguments.note)
}

fn one_line(note: &str) -> Option<String> {
    let words: Vec<&str> = note.split_whitespace().collect();
    let note = words.join(" ");
    (!note.is_empty() && note.len() <= NOTE_BYTES_MAX).then_some(note)
}

#[cfg(test)]
mod tests {
    use super::{KEEP_NOTE, kept_note};
    use crate::base::model::ToolCall;

    /// STK-58
    #[test]
    fn a_note_is_one_short_line() {
        let of = |name: &str, arguments: &str| {
            kept_note(&ToolCall {
                id: "1".to_owned(),
                name: name.to_owned(),
                arguments: arguments.into(),
            })
        };
        assert_eq!(
            of(KEEP_NOTE, r#"{"note":" web\n runs  3 "}"#),
            Some("web runs 3".to_owned())
        );
        let long = format!(r#"{{"note":"{}"}}"#, "x".repeat(1_025));
        for arguments in [r#"{"note":" "}"#, "{", r#"{"text":"x"}"#, &long] {
            assert_eq!(of(KEEP_NOTE, arguments), None, "{arguments}");
        }
        assert_eq!(of("file_read", r#"{"note":"x"}"#), None);
    }
}
