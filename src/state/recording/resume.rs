//! A conversation restored from its recording. A recording that is damaged or cut is refused as a whole: a history with
//! a missing part would let the model believe something that did not happen.

use super::{RecordedEvent, SessionError, SessionRecord, is_session};
use crate::base::model::{
    Assistant, ContentBlock, History, HistoryError, Step, StopReason, ToolCall, ToolResult, Usage,
    with_absent_files,
};
use std::path::Path;
use std::time::SystemTime;

/// The answer of Drydock to a request that the recorded session did not finish.
const UNFINISHED: &str = "The session ended before this request was finished.";

/// The beginning of the line of an attachment. A recording has no contents of files.
const NO_LONGER_THERE: &str = "[no longer there]";

/// The reason why a recording cannot be continued.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// A line cannot be read.
    #[error("line {0} of the recording cannot be read: it is damaged, or was cut while it was written")]
    Unreadable(u64),
    /// A line does not follow from the lines before it.
    #[error("line {0} of the recording does not fit to the lines before it, so a part of it is missing")]
    Misplaced(u64),
    /// The last calls have no results.
    #[error("the recording ends in the middle of a step: {0}")]
    Unpaired(HistoryError),
    /// There is no request in the recording.
    #[error("the recording has no request")]
    Empty,
}

/// Returns the name of the recording in a data directory that was written last; `None` if there is none. Files with
/// other names and empty files are no recordings.
pub fn newest(directory: &Path) -> Result<Option<String>, SessionError> {
    let entries = match std::fs::read_dir(directory.join("sessions")) {
        Ok(entries) => entries,
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(err) => return Err(err.into()),
    };
    let mut newest: Option<(SystemTime, String)> = None;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(name) = name.strip_suffix(".jsonl").filter(|name| is_session(name)) else {
            continue;
        };
        let about = entry.metadata()?;
        if !about.is_file() || about.len() == 0 {
            continue;
        }
        let found = (about.modified()?, name.to_owned());
        if newest.as_ref().is_none_or(|known| known < &found) {
            newest = Some(found);
        }
    }
    Ok(newest.map(|(_, name)| name))
}

/// Returns the number of files that were attached to the messages of the conversation, and whose contents are not recorded.
pub fn absent_files(records: &[SessionRecord]) -> usize {
    records.iter().fold(0, |count, record| match &record.event {
        RecordedEvent::Began { attachments, .. } => count + attachments.len(),
        RecordedEvent::Cleared {} => 0,
        _ => count,
    })
}

/// Returns the conversation of a recording. After the conversation was cleared, it has no turns.
pub fn history_of(records: &[SessionRecord]) -> Result<History, ResumeError> {
    let mut restored = RestoredHistory::default();
    for (line, record) in (1..).zip(records) {
        restored.add(line, &record.event)?;
    }
    restored.finish_step()?;
    restored.history.close(UNFINISHED);
    let was_cleared = |record: &SessionRecord| matches!(record.event, RecordedEvent::Cleared {});
    match restored.history.turns().is_empty() && !records.iter().any(was_cleared) {
        true => Err(ResumeError::Empty),
        false => Ok(restored.history),
    }
}

#[derive(Default)]
struct RestoredHistory {
    history: History,
    step: Option<RestoredStep>,
}

/// The last answer, with the results of its calls and the person's messages so far.
struct RestoredStep {
    assistant: Assistant,
    results: Vec<ToolResult>,
    messages: Vec<String>,
}

impl RestoredStep {
    fn finish(mut self) -> Result<Step, HistoryError> {
        // The answer to a question is recorded later than the results of the other calls of its step.
        let ids: Vec<&str> = self.assistant.calls().map(|call| call.id.as_str()).collect();
        self.results
            .sort_by_key(|result| ids.iter().position(|id| *id == result.call));
        let step = Step::new(self.assistant, self.results)?;
        Ok(step.with_messages(self.messages))
    }
}

impl RestoredHistory {
    fn add(&mut self, line: u64, event: &RecordedEvent) -> Result<(), ResumeError> {
        let misplaced = |_| ResumeError::Misplaced(line);
        match event {
            RecordedEvent::Began { user, attachments } => {
                self.finish_step()?;
                self.history.close(UNFINISHED);
                let user = with_absent_files(user, NO_LONGER_THERE, attachments);
                self.history.begin(user).map_err(misplaced)
            }
            RecordedEvent::Assistant {
                text, calls, usage, ..
            } => {
                self.finish_step()?;
                self.step = Some(RestoredStep {
                    assistant: assistant(text, calls, *usage),
                    results: Vec::new(),
                    messages: Vec::new(),
                });
                match text.is_empty() && calls.is_empty() {
                    true => Err(ResumeError::Misplaced(line)),
                    false => Ok(()),
                }
            }
            RecordedEvent::Result {
                call,
                content,
                is_error,
            } => {
                let step = self.step.as_mut().filter(|step| step.messages.is_empty());
                let step = step.ok_or(ResumeError::Misplaced(line))?;
                step.results.push(ToolResult {
                    call: call.clone(),
                    content: content.clone(),
                    is_error: *is_error,
                });
                Ok(())
            }
            RecordedEvent::SentBack { remark } => {
                let step = self.step.take().ok_or(ResumeError::Misplaced(line))?;
                let step = step.finish().map_err(ResumeError::Unpaired)?;
                let step = step.with_remark(remark.clone()).map_err(misplaced)?;
                self.history.push(step).map_err(misplaced)
            }
            RecordedEvent::Message { text } => {
                let step = self.step.as_mut().ok_or(ResumeError::Misplaced(line))?;
                step.messages.push(text.clone());
                Ok(())
            }
            RecordedEvent::Cleared {} => {
                self.finish_step()?;
                self.history = History::default();
                Ok(())
            }
            RecordedEvent::Change { .. } | RecordedEvent::Verdict { .. } => Ok(()),
            RecordedEvent::Recovered { .. } => Err(ResumeError::Misplaced(line)),
            RecordedEvent::Unreadable { line } => Err(ResumeError::Unreadable(*line)),
        }
    }

    fn finish_step(&mut self) -> Result<(), ResumeError> {
        let Some(step) = self.step.take() else {
            return Ok(());
        };
        let step = step.finish().map_err(ResumeError::Unpaired)?;
        self.history.push(step).map_err(ResumeError::Unpaired)
    }
}

fn assistant(text: &str, calls: &[ToolCall], usage: Usage) -> Assistant {
    let text = (!text.is_empty()).then(|| ContentBlock::Text {
        text: text.to_owned(),
    });
    let calls_of = calls.iter().cloned().map(ContentBlock::Call);
    Assistant {
        blocks: text.into_iter().chain(calls_of).collect(),
        raw: None,
        stop: match calls.is_empty() {
            true => StopReason::EndTurn,
            false => StopReason::ToolUse,
        },
        usage,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{ResumeError, absent_files, history_of};
    use crate::state::recording::SessionRecord;

    fn records(lines: &[&str]) -> Vec<SessionRecord> {
        let lines = lines.iter().map(|line| {
            let line = format!("{{\"at\":\"2026-01-01T00:00:00Z\",\"turn\":null,{line}}}");
            serde_json::from_str(&line).unwrap()
        });
        lines.collect()
    }

    const BEGAN: &str = r#""event":"began","user":"one""#;
    const CALL: &str = r#""event":"assistant","model":"m","text":"","calls":[{"id":"c1","name":"file_read","arguments":"{}"}],"usage":{"input":1,"output":1,"cache_read":0,"cache_write":0}"#;
    const RESULT: &str = r#""event":"result","call":"c1","content":"text","is_error":false"#;
    const ANSWER: &str = r#""event":"assistant","model":"m","text":"Done.","calls":[],"usage":{"input":1,"output":1,"cache_read":0,"cache_write":0}"#;
    const MESSAGE: &str = r#""event":"message","text":"and two""#;
    const SENT_BACK: &str = r#""event":"sent_back","remark":"it is not""#;
    const CLEARED: &str = r#""event":"cleared""#;

    #[test]
    fn a_recording_gives_the_conversation_with_calls_and_results() {
        let lines = [
            BEGAN, CALL, RESULT, ANSWER, SENT_BACK, ANSWER, BEGAN, CALL, RESULT,
        ];
        let history = history_of(&records(&lines)).unwrap();
        let steps: Vec<usize> = history.turns().iter().map(|turn| turn.steps().len()).collect();
        assert_eq!(steps, [3, 2]);
        let last = history.turns()[1].steps().last().unwrap();
        assert_eq!(last.assistant().text(), super::UNFINISHED);
        let cleared = [BEGAN, ANSWER, CLEARED, BEGAN, ANSWER];
        assert_eq!(history_of(&records(&cleared)).unwrap().turns().len(), 1);
        let emptied = [BEGAN, ANSWER, CLEARED];
        assert_eq!(history_of(&records(&emptied)).unwrap().turns().len(), 0);
    }

    #[test]
    fn messages_of_a_recording_follow_the_steps_that_took_them() {
        let lines = [BEGAN, CALL, RESULT, MESSAGE, ANSWER, MESSAGE, MESSAGE, ANSWER];
        let history = history_of(&records(&lines)).unwrap();
        let steps = history.turns()[0].steps();
        let taken: Vec<usize> = steps.iter().map(|step| step.messages().len()).collect();
        assert_eq!(taken, [1, 2, 0]);
        assert!(steps[2].is_final());
        assert_eq!(history.turns().len(), 1);
        // A turn that was stopped after it took a message.
        let history = history_of(&records(&[BEGAN, ANSWER, MESSAGE])).unwrap();
        assert_eq!(history.turns()[0].steps()[0].messages(), ["and two"]);
        assert_eq!(
            history.turns()[0].steps()[1].assistant().text(),
            super::UNFINISHED
        );
        let misplaced = history_of(&records(&[BEGAN, CALL, MESSAGE, RESULT])).unwrap_err();
        assert!(matches!(misplaced, ResumeError::Misplaced(4)));
    }

    #[test]
    fn the_answer_to_a_question_belongs_to_its_call() {
        let asks = CALL.replace(
            r#"[{"id":"c1""#,
            r#"[{"id":"q","name":"ask_user","arguments":"{}"},{"id":"c1""#,
        );
        let told = RESULT.replace("c1", "q");
        let lines = [BEGAN, asks.as_str(), RESULT, told.as_str(), ANSWER];
        let history = history_of(&records(&lines)).unwrap();
        let results = history.turns()[0].steps()[0].results();
        let calls: Vec<&str> = results.iter().map(|result| result.call.as_str()).collect();
        assert_eq!(calls, ["q", "c1"]);
        let without = history_of(&records(&[BEGAN, asks.as_str(), RESULT, ANSWER])).unwrap_err();
        assert!(matches!(without, ResumeError::Unpaired(_)));
    }

    #[test]
    fn files_of_a_recording_are_named_where_they_were() {
        let attached = r#""event":"began","user":"one","attachments":[{"name":"a.png","media_type":"image/png","bytes":3,"sha256":"00"}]"#;
        let recorded = records(&[attached, ANSWER]);
        let history = history_of(&recorded).unwrap();
        let user = "one\n\n[no longer there] a.png (image/png, 3 bytes)";
        assert_eq!((history.turns()[0].user(), absent_files(&recorded)), (user, 1));
        assert_eq!(absent_files(&records(&[attached, ANSWER, CLEARED, BEGAN])), 0);
    }

    #[test]
    fn a_recording_with_a_missing_part_is_refused() {
        let error = |lines: &[&str]| history_of(&records(lines)).unwrap_err();
        assert!(matches!(error(&[]), ResumeError::Empty));
        assert!(matches!(error(&[BEGAN, CALL]), ResumeError::Unpaired(_)));
        assert!(matches!(error(&[BEGAN, CALL, ANSWER]), ResumeError::Unpaired(_)));
        assert!(matches!(error(&[BEGAN, RESULT]), ResumeError::Misplaced(2)));
        assert!(matches!(error(&[BEGAN, SENT_BACK]), ResumeError::Misplaced(2)));
        assert!(matches!(error(&[ANSWER]), ResumeError::Unpaired(_)));
    }
}
