//! Tests of recordings: reading back, torn lines, secrets and names.

use super::{
    RecordedEvent, Recorder, Redact, SessionError, SessionRecord, SessionState, SessionUsage, ShortenResult,
    read, render,
};
use crate::base::model::{
    Assistant, ContextState, OutputNumber, RawBlocks, Step, ToolCall, TurnId, Usage, Verdict, VerdictSource,
};
use crate::state::store::Prune;
use jiff::Timestamp;
use serde_json::value::RawValue;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

const SESSION: &str = "00112233445566778899aabbccddeeff";

fn record(second: i64, event: RecordedEvent) -> SessionRecord {
    SessionRecord {
        at: Timestamp::from_second(1_800_000_000 + second).unwrap(),
        turn: Some(TurnId(7)),
        event,
    }
}

fn began(user: &str) -> RecordedEvent {
    RecordedEvent::Began {
        user: user.into(),
        attachments: Vec::new(),
        repository: None,
    }
}

fn recorder(directory: &Path) -> Recorder {
    let redact: Redact = Arc::new(|text| text.replace("hunter2", "[redacted]"));
    Recorder::open(
        directory,
        SESSION,
        redact,
        Timestamp::from_second(1_800_000_099).unwrap(),
    )
    .unwrap()
}

fn sample_records() -> Vec<SessionRecord> {
    let call = ToolCall {
        id: "c1".into(),
        name: "file_read".into(),
        arguments: r#"{"path":"a"}"#.into(),
    };
    let usage = Usage {
        input: 10,
        output: 2,
        cache_read: 3,
        cache_write: 4,
    };
    vec![
        record(0, began("make it 3")),
        record(
            1,
            RecordedEvent::Assistant {
                model: "m".into(),
                text: "Reading.".into(),
                calls: vec![call],
                usage,
                session: None,
            },
        ),
        record(
            2,
            RecordedEvent::Result {
                call: "c1".into(),
                content: "no file".into(),
                is_error: true,
            },
        ),
        record(
            3,
            RecordedEvent::Verdict {
                verdict: Verdict::Pass,
                source: VerdictSource::Verified,
                summary: "1 file".into(),
            },
        ),
    ]
}

#[test]
fn what_is_recorded_is_read_back_and_shown() {
    let directory = tempfile::tempdir().unwrap();
    let first = recorder(directory.path());
    sample_records()
        .iter()
        .for_each(|record| first.append(record).unwrap());
    drop(first);
    recorder(directory.path())
        .append(&record(4, began("again")))
        .unwrap();
    let mut expected = sample_records();
    expected.push(record(4, began("again")));
    let records = read(directory.path(), SESSION).unwrap();
    assert_eq!(records, expected);
    assert_eq!(
        render(&records),
        "2027-01-15T08:00:00Z  turn 7  user\n    make it 3\n\
         2027-01-15T08:00:01Z  turn 7  m (10 in, 2 out, 7 cached)\n    Reading.\n    call c1 file_read\n    {\"path\":\"a\"}\n\
         2027-01-15T08:00:02Z  turn 7  result c1 failed\n    no file\n\
         2027-01-15T08:00:03Z  turn 7  verdict pass (verified)\n    1 file\n\
         2027-01-15T08:00:04Z  turn 7  user\n    again\n"
    );
}

#[test]
fn a_torn_last_line_is_taken_away_and_said() {
    for torn in [&b"{\"at\":\"2027"[..], &[0; 100_000], b"x"] {
        let directory = tempfile::tempdir().unwrap();
        recorder(directory.path())
            .append(&record(0, began("one")))
            .unwrap();
        let file = directory.path().join("sessions").join(format!("{SESSION}.jsonl"));
        std::fs::OpenOptions::new()
            .append(true)
            .open(&file)
            .unwrap()
            .write_all(torn)
            .unwrap();
        recorder(directory.path())
            .append(&record(1, began("two")))
            .unwrap();
        let recovered = SessionRecord {
            turn: None,
            ..record(
                99,
                RecordedEvent::Recovered {
                    lost_bytes: torn.len() as u64,
                },
            )
        };
        let expected = [record(0, began("one")), recovered, record(1, began("two"))];
        assert_eq!(read(directory.path(), SESSION).unwrap(), expected);
        recorder(directory.path());
        assert_eq!(read(directory.path(), SESSION).unwrap().len(), 3);
    }
}

#[test]
fn a_line_that_cannot_be_read_hides_no_other() {
    let directory = tempfile::tempdir().unwrap();
    recorder(directory.path())
        .append(&record(0, began("one")))
        .unwrap();
    let file = directory.path().join("sessions").join(format!("{SESSION}.jsonl"));
    let mut open = std::fs::OpenOptions::new().append(true).open(&file).unwrap();
    open.write_all(b"\xff{}\n").unwrap();
    recorder(directory.path())
        .append(&record(1, began("two")))
        .unwrap();
    let events: Vec<RecordedEvent> = read(directory.path(), SESSION)
        .unwrap()
        .into_iter()
        .map(|record| record.event)
        .collect();
    assert_eq!(
        events,
        [began("one"), RecordedEvent::Unreadable { line: 2 }, began("two")]
    );
}

#[test]
fn secrets_are_taken_out_of_every_text() {
    let directory = tempfile::tempdir().unwrap();
    let recorder = recorder(directory.path());
    let call = ToolCall {
        id: "1".into(),
        name: "x".into(),
        arguments: "{\"p\":\"hunter2\"}".into(),
    };
    recorder
        .append(&record(0, began("my password is hunter2")))
        .unwrap();
    recorder
        .append(&record(
            0,
            RecordedEvent::Assistant {
                model: "m".into(),
                text: "hunter2".into(),
                calls: vec![call],
                usage: Usage::default(),
                session: None,
            },
        ))
        .unwrap();
    let file = directory.path().join("sessions").join(format!("{SESSION}.jsonl"));
    let text = std::fs::read_to_string(file).unwrap();
    assert_eq!(
        (
            text.matches("hunter2").count(),
            text.matches("[redacted]").count()
        ),
        (0, 3)
    );
}

/// Signed blocks are kept byte for byte, or not at all.
#[test]
fn blocks_with_a_secret_are_not_recorded_and_others_are_not_changed() {
    let whole = r#"{"type":"thinking","thinking":"First I \"look\".","signature":"c2ln"}"#;
    let secret = r#"{"type":"thinking","thinking":"It is hunter2.","signature":"c2ln"}"#;
    for (blocks, kept) in [(vec![whole], vec![whole]), (vec![whole, secret], Vec::new())] {
        let directory = tempfile::tempdir().unwrap();
        let raw = blocks
            .iter()
            .map(|block| RawValue::from_string((*block).to_owned()));
        let assistant = Assistant {
            raw: Some(RawBlocks {
                provider: "anthropic".to_owned(),
                blocks: raw.collect::<Result<_, _>>().unwrap(),
            }),
            ..Assistant::synthetic("Done.")
        };
        let step = Step::new(assistant, Vec::new()).unwrap();
        let numbers = (OutputNumber(0), SessionUsage::default());
        let state = SessionState::new(&step, &ContextState::default(), "anthropic/m", numbers);
        let events = RecordedEvent::from_session_step(&step, "m", state);
        let records: Vec<SessionRecord> = events.into_iter().map(|event| record(0, event)).collect();
        recorder(directory.path()).append_all(&records).unwrap();
        let read = read(directory.path(), SESSION).unwrap();
        let [
            SessionRecord {
                event:
                    RecordedEvent::Assistant {
                        session: Some(state), ..
                    },
                ..
            },
        ] = read.as_slice()
        else {
            panic!("{read:?}")
        };
        let own = state.own_blocks().unwrap();
        let own: Vec<&str> = own.blocks.iter().map(|block| block.get()).collect();
        assert_eq!(own, kept);
    }
}

/// T32
#[test]
fn a_recording_has_a_hex_name_and_is_private() {
    let directory = tempfile::tempdir().unwrap();
    recorder(directory.path());
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let sessions = directory.path().join("sessions");
    assert_eq!(mode(&sessions), 0o700);
    assert_eq!(mode(&sessions.join(format!("{SESSION}.jsonl"))), 0o600);
    let long = "x".repeat(300);
    let upper = SESSION.to_uppercase();
    let traversal = format!("{}aa", "../".repeat(10));
    for name in [
        "",
        ".",
        "..",
        "../../x",
        "a\0b",
        "İ",
        "/etc/passwd",
        &long,
        &upper,
        &traversal,
    ] {
        let redact: Redact = Arc::new(str::to_owned);
        let opened = Recorder::open(directory.path(), name, redact, Timestamp::UNIX_EPOCH);
        assert!(matches!(opened, Err(SessionError::Name(_))), "{name:?}");
        assert!(
            matches!(read(directory.path(), name), Err(SessionError::Name(_))),
            "{name:?}"
        );
    }
    assert_eq!(std::fs::read_dir(sessions).unwrap().count(), 1);
    let missing = read(directory.path(), &"0".repeat(32));
    assert!(matches!(missing, Err(SessionError::Missing(_))));
}

/// T95
#[test]
fn a_terminal_obeys_nothing_that_was_recorded() {
    let shown = render(&[record(0, began("a\u{1b}[2J\rb\u{202e}c\nuser"))]);
    assert_eq!(
        shown,
        "2027-01-15T08:00:00Z  turn 7  user\n    a\\u{1b}[2J\\rb\\u{202e}c\n    user\n"
    );
}

/// R29, SDK-12
#[test]
fn lines_that_are_too_old_go_and_a_recording_without_lines_with_them() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join(format!("sessions/{SESSION}.jsonl"));
    let line = |second| record(second, began(&format!("said at {second}")));
    {
        let recorder = recorder(directory.path());
        (0..10).for_each(|second| recorder.append(&line(second)).unwrap());
    }
    let before = |second: i64| Timestamp::from_second(1_800_000_000 + second).unwrap();
    let shorten = |second, prune| super::shorten(directory.path(), before(second), None, prune).unwrap();
    let bytes = std::fs::metadata(&file).unwrap().len();
    assert_eq!(shorten(0, Prune::Remove), ShortenResult::default());
    let dry = shorten(4, Prune::DryRun);
    assert_eq!((dry.files, std::fs::metadata(&file).unwrap().len()), (1, bytes));
    // A recording is not shortened while it is being written.
    let writing = recorder(directory.path());
    assert_eq!(shorten(4, Prune::Remove), ShortenResult::default());
    writing.append(&line(10)).unwrap();
    drop(writing);
    // An incomplete copy after a kill is not a recording, and it is removed.
    let half = file.with_extension("jsonl.part");
    std::fs::write(&half, "{").unwrap();
    assert_eq!(shorten(4, Prune::Remove), dry);
    assert!(!half.exists());
    let kept: Vec<SessionRecord> = (4..11).map(line).collect();
    assert_eq!(read(directory.path(), SESSION).unwrap(), kept);
    assert_eq!(
        std::fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    // Appending still works.
    recorder(directory.path()).append(&line(11)).unwrap();
    assert_eq!(read(directory.path(), SESSION).unwrap().len(), 8);
    // A long recording is not rewritten for a small old part.
    assert_eq!(shorten(6, Prune::Remove).files, 1);
    (12..40).for_each(|second| recorder(directory.path()).append(&line(second)).unwrap());
    assert_eq!(shorten(7, Prune::Remove), ShortenResult::default());
    assert_eq!(shorten(40, Prune::Remove).files, 1);
    assert!(!file.exists());
    assert!(matches!(
        read(directory.path(), SESSION),
        Err(SessionError::Missing(_))
    ));
}

/// R29
#[test]
fn what_is_written_while_a_recording_is_shortened_is_not_lost() {
    let directory = tempfile::tempdir().unwrap();
    for second in 0..200 {
        recorder(directory.path())
            .append(&record(second, began("x")))
            .unwrap();
    }
    let (data, before) = (
        directory.path().to_owned(),
        Timestamp::from_second(1_800_000_000 + 200).unwrap(),
    );
    let shortening = std::thread::spawn(move || {
        for second in (0..200).rev() {
            let before = before
                .checked_sub(jiff::SignedDuration::from_secs(second))
                .unwrap();
            super::shorten(&data, before, None, Prune::Remove).unwrap();
        }
    });
    for second in 200..400 {
        recorder(directory.path())
            .append(&record(second, began("x")))
            .unwrap();
    }
    shortening.join().unwrap();
    let kept = read(directory.path(), SESSION).unwrap();
    let expected: Vec<SessionRecord> = (200..400).map(|second| record(second, began("x"))).collect();
    assert!(kept.ends_with(&expected), "{} lines", kept.len());
}
