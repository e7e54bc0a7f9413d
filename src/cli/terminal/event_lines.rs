//! The events of a turn for scripts: one JSON object a line on standard output. The names are stable; new fields and
//! events may be added.

use crate::base::redact::Redactor;
use crate::cli::output::Output;
use crate::engine::agent::TurnEvent;
use serde_json::{Value, json};
use std::sync::Arc;

/// The description of the events in the help.
pub(in crate::cli) const EVENTS: &str = "\
Events, one JSON object a line with the field `event`:
  turn_started    request, attachments: name, media_type, bytes and sha256 of each attached file
  step_started    step
  text            text: more of the answer; the pieces since `step_started` follow each other
  text_discarded  the pieces since `step_started` do not count, the step starts again
  waiting         reason, seconds
  falling_back    from, to, reason: a model does not answer, and the next one gets the request
  tool_call       id, name, arguments, subject
  tool_progress   id, name, text
  tool_result     id, name, content, is_error
  summarising     the model summarises the oldest turns of a long conversation
  checks          done, total
  sent_back       failing: the failed checks, which the model fixes
  question        question, choices, default, seconds: the next line of the input answers it, in
                  `drydock chat --json`; an empty line, or none in these seconds, means the default
  question_closed by, result
  turn_ended      result: the object that `drydock ask --json` prints
  output          text: the answer of a command, in `drydock chat --json`";

/// The printer of the events of one turn.
pub(super) struct EventLines {
    output: Output,
    redactor: Arc<Redactor>,
    // The text since the step began, as the model wrote it, and the printed beginning of its redacted form.
    text: String,
    printed: String,
}

impl EventLines {
    pub(super) fn new(output: Output, redactor: Arc<Redactor>) -> Self {
        Self {
            output,
            redactor,
            text: String::new(),
            printed: String::new(),
        }
    }

    /// Prints one event.
    pub(super) fn show(&mut self, event: &TurnEvent) {
        match event {
            TurnEvent::Text(text) => {
                self.text.push_str(text);
                let stable = self.redactor.stable_bytes(&self.text);
                self.print_text(stable);
                return;
            }
            TurnEvent::StepStarted { .. } | TurnEvent::Waiting { .. } | TurnEvent::FallingBack { .. } => {
                self.discard();
            }
            // The text of this step is complete.
            _ => self.finish(),
        }
        if let Some(value) = event_value(event) {
            self.output.value(&value);
        }
    }

    /// Prints the rest of the text.
    pub(super) fn finish(&mut self) {
        self.print_text(self.text.len());
        self.text.clear();
        self.printed.clear();
    }

    fn discard(&mut self) {
        self.text.clear();
        if !std::mem::take(&mut self.printed).is_empty() {
            self.output.value(&json!({ "event": "text_discarded" }));
        }
    }

    fn print_text(&mut self, bytes: usize) {
        let text = self.text.get(..bytes).unwrap_or_default();
        let redacted = self.redactor.redact(text);
        let Some(more) = redacted.strip_prefix(self.printed.as_str()) else {
            return;
        };
        if !more.is_empty() {
            self.output.value(&json!({ "event": "text", "text": more }));
            self.printed = redacted.into_owned();
        }
    }
}

/// Returns the object of an event other than text.
fn event_value(event: &TurnEvent) -> Option<Value> {
    Some(match event {
        TurnEvent::StepStarted { step } => json!({ "event": "step_started", "step": step }),
        TurnEvent::FallingBack { from, to, why } => {
            json!({ "event": "falling_back", "from": from, "to": to, "reason": why })
        }
        TurnEvent::Waiting { why, wait } => {
            json!({ "event": "waiting", "reason": why, "seconds": wait.as_secs_f64() })
        }
        TurnEvent::ToolStarted {
            call,
            name,
            arguments,
            subject,
        } => json!({
            "event": "tool_call",
            "id": call,
            "name": name,
            "arguments": arguments.text(),
            "subject": subject,
        }),
        TurnEvent::ToolProgress { call, name, text } => {
            json!({ "event": "tool_progress", "id": call, "name": name, "text": text })
        }
        TurnEvent::ToolFinished {
            call,
            name,
            content,
            is_error,
        } => json!({
            "event": "tool_result",
            "id": call,
            "name": name,
            "content": content,
            "is_error": is_error,
        }),
        TurnEvent::Summarising => json!({ "event": "summarising" }),
        TurnEvent::Checking(progress) => {
            json!({ "event": "checks", "done": progress.done, "total": progress.total })
        }
        TurnEvent::SentBack { failing } => json!({ "event": "sent_back", "failing": failing }),
        TurnEvent::Asked(question) => json!({
            "event": "question",
            "question": question.text(),
            "choices": question.choices(),
            "default": question.default_choice(),
            "seconds": u64::from(question.minutes()) * 60,
        }),
        TurnEvent::Answered(answer) => {
            json!({ "event": "question_closed", "by": answer.word(), "result": answer.result() })
        }
        #[allow(unreachable_patterns, reason = "events that scripts do not need")]
        _ => return None,
    })
}
