//! Tests of messages to other people.

use super::fixture::{MemoryJournal, SECRET, TurnFixture};
use super::notice;
use crate::base::model::{History, InboxId, MessageOutcome, SEND_USER_MESSAGE};
use crate::engine::agent::{SteeringMessage, TurnEvent, WriteCounts};
use crate::interfaces::provider::scripted::{ScriptedProvider, calls, says};
use crate::state::access::Role;
use crate::state::access::testing::identity;
use std::collections::VecDeque;

const SEND: (&str, &str, &str) = ("m", SEND_USER_MESSAGE, r#"{"person":"bob","text":"hi"}"#);

fn sending(outcomes: &[MessageOutcome]) -> MemoryJournal {
    MemoryJournal {
        outcomes: Some(outcomes.iter().copied().collect()),
        ..MemoryJournal::default()
    }
}

/// SDK-17
#[tokio::test]
async fn the_result_of_a_message_is_decided_with_its_step_and_is_no_edit() {
    let fixture = TurnFixture::new();
    let mut history = History::default();
    let read = ("r", "file_read", "{\"path\":\"a.txt\"}");
    let other = ("n", SEND_USER_MESSAGE, r#"{"person":"eve","text":"hi"}"#);
    let model = ScriptedProvider::new([calls(&[SEND, read, other]), says("Told.")]);
    let journal = sending(&[MessageOutcome::Sent, MessageOutcome::Blocked]);
    let ran = fixture.run_on(&model, &mut history, journal).await;
    let outcome = ran.outcome();
    assert_eq!(outcome.answer, "Told.");
    assert_eq!(outcome.writes, WriteCounts::default());
    let requests = model.requests();
    let results = requests[1].turns[0].steps()[0].results().to_vec();
    let shown: Vec<_> = results
        .iter()
        .map(|result| (result.content.as_str(), result.is_error))
        .collect();
    assert_eq!(shown[0], (MessageOutcome::Sent.result("bob").as_str(), false));
    assert!(shown[1].0.contains("alpha"));
    assert!(shown[2].0.starts_with("not sent: `eve` has blocked") && shown[2].1);
    // People see the decided result, once for each call.
    let finished = ran.events.iter().filter_map(|event| match event {
        TurnEvent::ToolFinished { call, is_error, .. } => Some((call.as_str(), *is_error)),
        _ => None,
    });
    assert_eq!(
        finished.collect::<Vec<_>>(),
        [("r", false), ("m", false), ("n", true)]
    );
    assert!(requests[0].tools.contains(&SEND_USER_MESSAGE));
}

/// SDK-17
#[tokio::test]
async fn nothing_is_sent_where_nobody_may_be_written_to_or_beside_a_question() {
    let fixture = TurnFixture::new();
    let model = ScriptedProvider::new([calls(&[SEND]), says("Done.")]);
    let ran = fixture
        .run_on(&model, &mut History::default(), MemoryJournal::default())
        .await;
    let refused = &ran.steps[0].results()[0];
    assert!(refused.is_error && refused.content.starts_with("no tool `send_user_message`"));

    let ask = ("q", "ask_user", r#"{"question":"Which?"}"#);
    let journal = MemoryJournal {
        stores_questions: true,
        ..sending(&[])
    };
    let model = ScriptedProvider::new([calls(&[SEND, ask])]);
    let ran = fixture.run_on(&model, &mut History::default(), journal).await;
    assert!(ran.outcome().is_waiting && notice(&ran).is_empty());
    let refused = &ran.steps[0].results()[0];
    assert!(refused.is_error && refused.content.starts_with("not sent: this answer also asks"));
}

/// A message of the person waits for the next step, and what is sent has no secret.
#[tokio::test]
async fn a_step_that_sends_takes_no_message_and_sends_no_secret() {
    let fixture = TurnFixture::new();
    let words = SteeringMessage {
        inbox: InboxId(7),
        text: "wait".to_owned(),
    };
    let journal = MemoryJournal {
        waiting: VecDeque::from([vec![words]]),
        ..sending(&[MessageOutcome::Sent])
    };
    let model = ScriptedProvider::new([calls(&[SEND]), says("Told."), says("Told, and read.")]);
    let ran = fixture.run_on(&model, &mut History::default(), journal).await;
    assert_eq!(ran.outcome().answer, "Told, and read.");
    assert_eq!(
        ran.steps
            .iter()
            .map(|step| step.messages().len())
            .collect::<Vec<_>>(),
        [0, 1, 0]
    );

    let arguments = format!(r#"{{"person":"bob","text":"it is {SECRET}"}}"#);
    let model = ScriptedProvider::new([
        calls(&[("m", SEND_USER_MESSAGE, arguments.as_str())]),
        says("Done."),
    ]);
    let ran = fixture
        .run_on(&model, &mut History::default(), sending(&[]))
        .await;
    let refused = &ran.steps[0].results()[0];
    assert!(
        refused.is_error && refused.content.contains("a secret of this server"),
        "{}",
        refused.content
    );
}

/// T28
#[tokio::test]
async fn the_model_of_a_viewer_sends_nothing() {
    let mut fixture = TurnFixture::new();
    fixture.identity = identity(Role::Viewer, &["**"]);
    let model = ScriptedProvider::new([calls(&[SEND]), says("No.")]);
    let ran = fixture
        .run_on(&model, &mut History::default(), sending(&[]))
        .await;
    let refused = &ran.steps[0].results()[0];
    assert!(
        refused.is_error
            && refused
                .content
                .starts_with("`send_user_message` is not available to this person"),
        "{}",
        refused.content
    );
}
