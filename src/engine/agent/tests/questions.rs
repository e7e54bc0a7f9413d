//! Tests of questions to the person.

use super::fixture::{MemoryJournal, TurnFixture, TurnRun};
use super::{notice, write};
use crate::base::model::{AskedQuestion, History, InboxId, QuestionAnswer, Step, Verdict};
use crate::engine::agent::{Questioner, SteeringMessage, TurnEvent};
use crate::interfaces::provider::scripted::{ScriptedProvider, calls, says};
use async_trait::async_trait;
use serde_json::json;
use std::sync::Mutex;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const ASK: &str = r#"{"question":"How many replicas?","choices":["3","5"],"default":"3","minutes":600}"#;
const READ_A: (&str, &str, &str) = ("r", "file_read", "{\"path\":\"a.txt\"}");

/// A person who takes a minute for each answer.
struct ScriptedPerson(Mutex<Vec<QuestionAnswer>>);

#[async_trait]
impl Questioner for ScriptedPerson {
    async fn ask(&self, question: &AskedQuestion, cancel: &CancellationToken) -> QuestionAnswer {
        let time = Duration::from_secs(60 * u64::from(question.minutes()));
        tokio::select! {
            () = tokio::time::sleep(time) => {}
            () = cancel.cancelled() => return QuestionAnswer::Stopped,
        }
        self.0.lock().unwrap().remove(0)
    }
}

fn choice(choice: &str) -> QuestionAnswer {
    QuestionAnswer::Choice {
        choice: choice.to_owned(),
    }
}

fn storing() -> MemoryJournal {
    MemoryJournal {
        stores_questions: true,
        ..MemoryJournal::default()
    }
}

/// Returns the results of all steps with the names of their calls.
fn results(ran: &TurnRun) -> Vec<(String, String, bool)> {
    let steps = ran.steps.iter();
    let pairs = steps.flat_map(|step| step.assistant().calls().zip(step.results()));
    pairs
        .map(|(call, result)| (call.name.clone(), result.content.clone(), result.is_error))
        .collect()
}

#[tokio::test]
async fn a_stored_question_ends_the_run_and_the_turn_goes_on_with_the_answer() {
    let mut fixture = TurnFixture::new();
    fixture.limits.question_minutes_max = 30;
    let mut history = History::default();
    // The calls beside the question have run, and all results are in the order of the calls.
    let asks = calls(&[
        ("w", "file_write", "{\"path\":\"new.txt\",\"content\":\"x\\n\"}"),
        ("q", "ask_user", ASK),
        READ_A,
    ]);
    let ran = fixture
        .run_on(&ScriptedProvider::new([asks]), &mut history, storing())
        .await;
    let outcome = ran.outcome();
    assert!(outcome.is_waiting && outcome.notice.is_none());
    assert_eq!((outcome.steps, outcome.tool_calls), (1, 3));
    let (asked, call, number) = &ran.questions[0];
    assert_eq!((asked.text(), asked.minutes()), ("How many replicas?", 30));
    assert_eq!((call.as_str(), *number), ("q", 1));
    let shown = results(&ran);
    assert_eq!(
        shown.iter().map(|result| result.0.as_str()).collect::<Vec<_>>(),
        ["file_write", "ask_user", "file_read"]
    );
    assert_eq!(shown[1].1, AskedQuestion::WAITING);
    assert!(shown[2].1.contains("alpha"), "{}", shown[2].1);

    // The answer becomes the result of the call, and the next run continues after it.
    let step: &Step = &ran.steps[0];
    let answered = step
        .clone()
        .with_late_result("q", AskedQuestion::WAITING, &choice("5").result())
        .unwrap();
    let mut history = History::default();
    history.begin("please").unwrap();
    history.push(answered).unwrap();
    fixture.resumed_steps = 1;
    let model = ScriptedProvider::new([says("Done.")]);
    let resumed = fixture.run_on(&model, &mut history, storing()).await;
    let outcome = resumed.outcome();
    assert_eq!(
        (outcome.verdict, outcome.answer.as_str()),
        (Verdict::Pass, "Done.")
    );
    assert_eq!((outcome.steps, outcome.tool_calls), (2, 3));
    assert_eq!(outcome.usage.input, 200);
    let requests = model.requests();
    let turn = &requests[0].turns[0];
    assert_eq!((requests[0].turns.len(), turn.steps().len()), (1, 1));
    assert_eq!(turn.steps()[0].results()[1].content, "The person chose: 5");
}

/// The steps of the turn that it continues do not count against its limits.
#[tokio::test]
async fn a_turn_that_continues_another_has_all_of_its_own_steps_after_an_answer() {
    let mut fixture = TurnFixture::new();
    fixture.limits.steps_max = 3;
    let mut history = History::default();
    let model = ScriptedProvider::new([
        calls(&[READ_A]),
        calls(&[("x", "git_status", "{}")]),
        says("Done."),
    ]);
    let earlier = fixture
        .run_on(&model, &mut history, MemoryJournal::default())
        .await;
    let mut history = History::default();
    history.begin("please").unwrap();
    for step in earlier.steps.iter().filter(|step| !step.is_final()) {
        history.push(step.clone()).unwrap();
    }
    let mut asking = History::default();
    let asks = ScriptedProvider::new([calls(&[("q", "ask_user", ASK)])]);
    let ran = fixture.run_on(&asks, &mut asking, storing()).await;
    history.push(ran.steps[0].clone()).unwrap();
    fixture.resumed_steps = 1;
    let model = ScriptedProvider::new([says("Done.")]);
    let resumed = fixture.run_on(&model, &mut history, storing()).await;
    let outcome = resumed.outcome();
    assert_eq!((outcome.verdict, outcome.steps), (Verdict::Pass, 2));
}

/// Messages that wait may hold the answer, so nothing is asked.
#[tokio::test]
async fn nothing_is_asked_while_words_of_the_person_wait() {
    let message = SteeringMessage {
        inbox: InboxId(7),
        text: "make it five".to_owned(),
    };
    for asks_inline in [false, true] {
        let mut fixture = TurnFixture::new();
        if asks_inline {
            // There is no answer, so a question would end the test.
            fixture.questioner = Some(Box::new(ScriptedPerson(Mutex::new(Vec::new()))));
        }
        let journal = MemoryJournal {
            waiting: [vec![message.clone()], vec![message.clone()]].into(),
            stores_questions: !asks_inline,
            ..MemoryJournal::default()
        };
        let model = ScriptedProvider::new([calls(&[("q", "ask_user", ASK)]), says("Five.")]);
        let ran = fixture.run_on(&model, &mut History::default(), journal).await;
        assert_eq!((ran.questions.len(), ran.outcome().verdict), (0, Verdict::Pass));
        assert!(results(&ran)[0].1.starts_with("not asked: "));
        assert_eq!(ran.steps[0].messages().len(), 1);
    }
}

#[tokio::test]
async fn a_step_asks_one_question_and_a_turn_asks_three() {
    let fixture = TurnFixture::new();
    let two = calls(&[("1", "ask_user", ASK), ("2", "ask_user", ASK)]);
    let mut history = History::default();
    let ran = fixture
        .run_on(&ScriptedProvider::new([two]), &mut history, storing())
        .await;
    assert_eq!((ran.questions.len(), ran.questions[0].1.as_str()), (1, "1"));
    let shown = results(&ran);
    assert_eq!(
        (shown[1].1.as_str(), shown[1].2),
        (
            "not asked: one answer asks one question; ask the next one later",
            true
        )
    );
    // Each further question of the same turn is asked with another answer of the person, until there are three.
    let mut fixture = TurnFixture::new();
    let person = ScriptedPerson(Mutex::new(vec![choice("3"), choice("5"), choice("3")]));
    fixture.questioner = Some(Box::new(person));
    let ask = |id: &'static str, words: &str| {
        let arguments = json!({ "question": words, "minutes": 1 }).to_string();
        calls(&[(id, "ask_user", &arguments)])
    };
    let model = ScriptedProvider::new([
        ask("1", "One?"),
        ask("2", "Two?"),
        ask("3", "Three?"),
        ask("4", "Four?"),
        says("Enough."),
    ]);
    tokio::time::pause();
    let ran = fixture.run(&model).await;
    let shown = results(&ran);
    assert_eq!(shown.len(), 4);
    assert!(shown[..3].iter().all(|(_, _, is_error)| !is_error), "{shown:?}");
    assert!(
        shown[3].1.starts_with("not asked: 3 questions were asked"),
        "{shown:?}"
    );
}

/// The time limit of the turn does not run while a person thinks.
#[tokio::test(start_paused = true)]
async fn a_person_who_is_there_answers_while_the_turn_waits() {
    let mut fixture = TurnFixture::new();
    fixture.limits.turn_time_max = Duration::from_secs(100);
    fixture.limits.question_minutes_max = 600;
    fixture.questioner = Some(Box::new(ScriptedPerson(Mutex::new(vec![choice("5")]))));
    let model = ScriptedProvider::new([calls(&[("q", "ask_user", ASK)]), says("Five.")]);
    let ran = fixture.run(&model).await;
    assert_eq!(ran.outcome().answer, "Five.");
    assert_eq!(results(&ran)[0].1, "The person chose: 5");
    let events = ran.events.iter().filter_map(|event| match event {
        TurnEvent::Asked(question) => Some(question.text().to_owned()),
        TurnEvent::Answered(answer) => Some(answer.line()),
        _ => None,
    });
    assert_eq!(
        events.collect::<Vec<_>>(),
        ["How many replicas?", "Your answer: 5"]
    );
    assert!(!ran.outcome().is_waiting);
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_a_person_is_asked_ends_the_turn() {
    let mut fixture = TurnFixture::new();
    fixture.questioner = Some(Box::new(ScriptedPerson(Mutex::new(Vec::new()))));
    let cancel = fixture.cancel.clone();
    let model = ScriptedProvider::new([calls(&[("q", "ask_user", ASK)])]);
    let running = fixture.run(&model);
    let stopping = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        cancel.cancel();
    };
    let (ran, ()) = tokio::join!(running, stopping);
    assert_eq!(ran.outcome().verdict, Verdict::Cancelled);
    assert_eq!(notice(&ran), "Stopped at step 1.");
    assert_eq!(
        results(&ran)[0].1,
        "The person stopped the work instead of answering."
    );
}

#[tokio::test]
async fn where_nobody_can_answer_the_tool_is_not_offered() {
    let fixture = TurnFixture::new();
    let model = ScriptedProvider::new([
        calls(&[("q", "ask_user", ASK)]),
        write("w", "n.txt", "x"),
        says("ok"),
    ]);
    let ran = fixture.run(&model).await;
    let requests = model.requests();
    assert!(
        requests
            .iter()
            .all(|request| !request.tools.contains(&"ask_user"))
    );
    let shown = results(&ran);
    assert!(shown[0].2 && shown[0].1.contains("ask_user"), "{shown:?}");
    // It is offered to a person who only reads as well.
    let mut history = History::default();
    let mut fixture = TurnFixture::new();
    fixture.identity = crate::state::access::testing::identity(crate::state::access::Role::Viewer, &["**"]);
    let model = ScriptedProvider::new([says("ok")]);
    fixture.run_on(&model, &mut history, storing()).await;
    assert!(model.requests()[0].tools.contains(&"ask_user"));
}
