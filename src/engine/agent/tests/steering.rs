//! Tests of messages that arrive while a turn runs.

use super::fixture::{MemoryJournal, TurnFixture};
use super::{READ_A, write};
use crate::base::model::{History, InboxId, Step, Verdict};
use crate::engine::agent::{SteeringMessage, TurnEvent};
use crate::interfaces::provider::scripted::{ScriptedProvider, calls, says};
use std::sync::atomic::Ordering;

pub(super) fn message(number: i64, text: &str) -> SteeringMessage {
    SteeringMessage {
        inbox: InboxId(number),
        text: text.to_owned(),
    }
}

fn waiting(steps: &[&[&str]]) -> MemoryJournal {
    let steps = steps.iter().map(|texts| {
        let texts = texts.iter().zip(1..);
        texts.map(|(text, number)| message(number, text)).collect()
    });
    MemoryJournal {
        waiting: steps.collect(),
        ..MemoryJournal::default()
    }
}

fn messages(steps: &[Step]) -> Vec<Vec<String>> {
    steps.iter().map(|step| step.messages().to_vec()).collect()
}

#[tokio::test]
async fn messages_reach_the_next_model_call_after_the_results_of_the_step() {
    let fixture = TurnFixture::new();
    let model = ScriptedProvider::new([calls(&[READ_A]), says("Done.")]);
    let mut history = History::default();
    let ran = fixture
        .run_on(
            &model,
            &mut history,
            waiting(&[&["make it three", "and say why"]]),
        )
        .await;
    assert_eq!((ran.outcome().verdict, ran.outcome().steps), (Verdict::Pass, 2));
    let asked = &model.requests()[1].turns;
    let [turn] = asked.as_slice() else {
        panic!("{asked:?}")
    };
    let [step] = turn.steps() else { panic!("{turn:?}") };
    assert_eq!(step.results().len(), 1);
    let said = ["[Message while you worked:]\nmake it three\n\nand say why"];
    assert_eq!(step.messages(), said);
    assert_eq!(
        messages(&ran.steps),
        [said.map(str::to_owned).to_vec(), Vec::new()]
    );
    let shown: Vec<&str> = ran
        .events
        .iter()
        .filter_map(|event| match event {
            TurnEvent::MessageTaken { text } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(shown, ["make it three", "and say why"]);
}

#[tokio::test]
async fn an_answer_waits_for_a_message_that_came_before_it_and_is_checked_once() {
    let fixture = TurnFixture::new();
    let model = ScriptedProvider::new([
        write("1", "a.txt", "two\n"),
        says("Two."),
        write("2", "a.txt", "three\n"),
        says("Three."),
    ]);
    let mut history = History::default();
    let ran = fixture
        .run_on(&model, &mut history, waiting(&[&[], &["no, three"]]))
        .await;
    assert_eq!(
        (ran.outcome().answer.as_str(), ran.outcome().steps),
        ("Three.", 4)
    );
    assert_eq!(fixture.postconditions.checks.load(Ordering::Relaxed), 1);
    let said = &history.turns()[0].steps()[1].messages()[0];
    assert!(
        said.starts_with("[Message while you worked. Your last answer was not sent"),
        "{said}"
    );
    assert!(said.ends_with("\nno, three"), "{said}");
}

#[tokio::test]
async fn a_turn_that_cannot_act_on_a_message_leaves_it() {
    let mut fixture = TurnFixture::new();
    let mut history = History::default();
    // The next step is the last one.
    fixture.limits.steps_max = 2;
    let model = ScriptedProvider::new([calls(&[READ_A]), says("Done.")]);
    let ran = fixture
        .run_on(&model, &mut history, waiting(&[&["too late"], &["too late"]]))
        .await;
    assert_eq!(messages(&ran.steps), vec![Vec::<String>::new(); 2]);
    // The same call again and again ends the turn.
    fixture.limits.steps_max = 20;
    let model = ScriptedProvider::new((0..3).map(|number| {
        let id = number.to_string();
        calls(&[(id.as_str(), "file_read", "{\"path\":\"a.txt\"}")])
    }));
    fixture.limits.identical_calls_max = 2;
    let ran = fixture
        .run_on(&model, &mut history, waiting(&[&[], &["too late"]]))
        .await;
    assert_eq!(ran.outcome().verdict, Verdict::Limit);
    assert!(messages(&ran.steps).concat().is_empty());
}

#[tokio::test]
async fn a_step_whose_messages_do_not_wait_any_more_is_recorded_without_them() {
    let fixture = TurnFixture::new();
    let mut history = History::default();
    let journal = MemoryJournal {
        leaves_messages: true,
        ..waiting(&[&["stopped"], &["stopped"]])
    };
    let model = ScriptedProvider::new([calls(&[READ_A]), says("Done.")]);
    let ran = fixture.run_on(&model, &mut history, journal).await;
    assert_eq!((ran.outcome().answer.as_str(), ran.steps.len()), ("Done.", 2));
    assert!(messages(&ran.steps).concat().is_empty());
    assert_eq!(history.turns()[0].steps().len(), 2);
}
