//! Tests of conversations that are restored from recordings.

use super::{DueNotes, RecordingLoss, ResumeError, restore};
use crate::base::model::{History, OutputNumber};
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
const RECOVERED: &str = r#""event":"recovered","lost_bytes":3"#;
const LEFT_OUT: &str = r#""event":"left_out","lines":1"#;
const UNDO_BEGAN: &str = r#""event":"undo_began","files":["a"]"#;
const UNDONE: &str = r#""event":"undone","files":["a"]"#;
const NOTHING_UNDONE: &str = r#""event":"undone","files":[]"#;
const CLEARED: &str = r#""event":"cleared""#;

fn history_of(records: &[SessionRecord]) -> Result<History, ResumeError> {
    restore(records, b"").map(|restored| restored.history)
}

fn absent_files(records: &[SessionRecord]) -> usize {
    restore(records, b"").unwrap().absent_files
}

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
    assert!(matches!(error(&[BEGAN, CALL, ANSWER]), ResumeError::Unpaired(_)));
    assert!(matches!(error(&[BEGAN, RESULT]), ResumeError::Misplaced(2)));
    assert!(matches!(error(&[BEGAN, SENT_BACK]), ResumeError::Misplaced(2)));
    assert!(matches!(error(&[ANSWER]), ResumeError::Unpaired(_)));
}

#[test]
fn a_step_that_a_crash_cut_is_left_out_and_counted() {
    let restored = restore(&records(&[BEGAN, CALL, RESULT, CALL]), b"{\"at\":\"").unwrap();
    assert_eq!(restored.loss, RecordingLoss { bytes: 7, lines: 1 });
    assert!(restored.is_unanswered);
    let steps = restored.history.turns()[0].steps();
    assert_eq!(
        (steps.len(), steps[1].assistant().text().as_str()),
        (2, super::UNFINISHED)
    );
    // A later session went on without it.
    for went_on in [RECOVERED, LEFT_OUT] {
        let restored = restore(&records(&[BEGAN, CALL, went_on, BEGAN, ANSWER]), b"").unwrap();
        let steps: Vec<usize> = restored
            .history
            .turns()
            .iter()
            .map(|turn| turn.steps().len())
            .collect();
        assert_eq!((steps, restored.is_unanswered), (vec![1, 1], false));
        assert_eq!(restored.loss, RecordingLoss::default());
        // A whole step before it stays.
        let restored = restore(&records(&[BEGAN, CALL, RESULT, went_on]), b"").unwrap();
        assert_eq!(restored.history.turns()[0].steps().len(), 2);
    }
}

#[test]
fn an_answer_without_its_recorded_remark_is_no_answer() {
    let remark = r#""session":{"lines":1,"last_output":3,"used":{"usage":{"input":9,"output":1,"cache_read":0,"cache_write":0},"cost":5,"unpriced_calls":2}}"#;
    let answer = format!("{ANSWER},{remark}");
    let restored = restore(&records(&[BEGAN, &answer]), b"").unwrap();
    assert!(restored.is_unanswered);
    assert_eq!(restored.loss.lines, 1);
    let restored = restore(&records(&[BEGAN, &answer, SENT_BACK, ANSWER]), b"").unwrap();
    assert_eq!(restored.history.turns()[0].steps().len(), 2);
    // The last answer has no recorded price.
    assert_eq!(
        (restored.used.usage.total(), restored.used.unpriced_calls),
        (12, 3)
    );
    assert_eq!(restored.last_output, OutputNumber(3));
    let missing = restore(&records(&[BEGAN, &answer, ANSWER]), b"").unwrap_err();
    assert!(matches!(missing, ResumeError::Misplaced(3)));
}

#[test]
fn a_note_is_due_until_a_request_has_carried_it() {
    let due = |lines: &[&str]| {
        let restored = restore(&records(lines), b"").unwrap();
        let DueNotes { lost, undone } = restored.due;
        (lost, undone, restored.is_unanswered)
    };
    assert_eq!(due(&[BEGAN, ANSWER]), (false, false, false));
    for lost in [RECOVERED, LEFT_OUT] {
        assert_eq!(due(&[BEGAN, ANSWER, lost]), (true, false, false));
        assert_eq!(due(&[BEGAN, CALL, RESULT, lost, ANSWER]), (false, false, false));
        assert_eq!(due(&[BEGAN, ANSWER, lost, BEGAN, ANSWER]), (false, false, false));
        assert_eq!(due(&[BEGAN, ANSWER, lost, CLEARED]), (false, false, false));
        assert_eq!(
            due(&[BEGAN, ANSWER, lost, UNDO_BEGAN, UNDONE]),
            (true, true, false)
        );
    }
    assert_eq!(due(&[BEGAN, CALL, RESULT]), (true, false, true));
    // What was undone is not continued.
    assert_eq!(
        due(&[BEGAN, CALL, RESULT, UNDO_BEGAN, UNDONE]),
        (false, true, false)
    );
    assert_eq!(
        due(&[BEGAN, ANSWER, UNDO_BEGAN, UNDONE, BEGAN, ANSWER]),
        (false, false, false)
    );
    // A crash ended the undo: perhaps files were restored.
    assert_eq!(due(&[BEGAN, ANSWER, UNDO_BEGAN]), (true, false, false));
    assert_eq!(
        due(&[BEGAN, ANSWER, UNDO_BEGAN, NOTHING_UNDONE]),
        (false, false, false)
    );
}

/// An old recording has each line of a step in a write of its own.
#[test]
fn an_old_answer_whose_remark_was_cut_is_no_answer() {
    let unanswered = |cut: &[u8]| {
        let restored = restore(&records(&[BEGAN, CALL, RESULT, ANSWER]), cut).unwrap();
        let steps = restored.history.turns()[0].steps().len();
        assert_eq!(steps, 2);
        assert_eq!(restored.loss.lines, usize::from(restored.is_unanswered));
        restored.is_unanswered
    };
    assert!(!unanswered(b""));
    for cut in [
        "{",
        r#"{"at":"2026-01-01T00:00:00Z","event":"#,
        r#"{"at":"2026-01-01T00:00:00Z","event":"sent"#,
        r#"{"at":"2026-01-01T00:00:00Z","event":"sent_back","remark":"it is"#,
    ] {
        assert!(unanswered(cut.as_bytes()), "{cut}");
    }
    for cut in [
        r#"{"at":"2026-01-01T00:00:00Z","event":"be"#,
        r#"{"at":"2026-01-01T00:00:00Z","event":"began","user":"two"#,
    ] {
        assert!(!unanswered(cut.as_bytes()), "{cut}");
    }
}

/// The lines that the first session after the crash wrote say what it left out.
#[test]
fn an_old_answer_that_was_left_out_is_left_out_every_time() {
    let steps = |after: &[&str]| {
        let lines = [&[BEGAN, CALL, RESULT, ANSWER, RECOVERED], after].concat();
        let restored = restore(&records(&lines), b"").unwrap();
        let turns = restored.history.turns().iter();
        turns.map(|turn| turn.steps().len()).collect::<Vec<_>>()
    };
    assert_eq!(steps(&[LEFT_OUT, ANSWER]), [2]);
    assert_eq!(steps(&[LEFT_OUT, BEGAN, ANSWER]), [2, 1]);
    // What a later crash cut is not about an answer before other lines.
    let finished = [BEGAN, CALL, RESULT, ANSWER, RECOVERED];
    let restored = restore(&records(&finished), b"{").unwrap();
    assert_eq!((restored.is_unanswered, restored.loss.lines), (false, 0));
    // A crash that cut the next request left nothing out.
    assert_eq!(steps(&[BEGAN, ANSWER]), [2, 1]);
}
