//! Stops: of a turn that runs, by word and by button, and of one that waits.

use super::chat::{Chat, Person, Place};
use super::on_each_platform;
use crate::support::app::step_number;
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, ScriptedAnswer, calls, says};
use drydock::state::access::Role;
use serde_json::json;
use std::time::{Duration, Instant};

/// Far below the model's idle limit of 30 s. The goal is a second on an idle machine.
const STOP_TIME_MAX: Duration = Duration::from_secs(15);

/// Stalls at the first step or, after a call, at the second.
fn stall(asked: &ModelRequest) -> ScriptedAnswer {
    let never = || says("Never said.").with_fault(AnswerFault::Stall);
    let words = asked.last_user_text();
    match (
        step_number(asked),
        words.contains("stall"),
        words.contains("later"),
    ) {
        (0, true, true) => calls("file_read", json!({"path": "environments/dev/main.jsonnet"})),
        (_, true, _) => never(),
        _ => says("Here I am."),
    }
}

/// Has other people press the button of a running turn, which stops nothing.
async fn others_press<C: Chat>(chat: &C, card: &C::Message, label: &str) {
    for person in [Person::Eve, Person::Bob] {
        chat.press(person, card, label).await;
    }
    // The button of a platform itself stops the work of who presses it.
    let refusals = [
        format!("This button belongs to {}.", C::name(Person::Alice)),
        "Nothing is running.".to_owned(),
    ];
    let refused = || {
        let mut texts = chat.private_texts(Person::Bob).into_iter();
        texts.find(|text| refusals.contains(text))
    };
    chat.wait_for("a refusal of the stop of Bob", refused).await;
    let stopped = "SELECT count(*) FROM inbox WHERE stopped_by IS NOT NULL AND done_at IS NULL";
    assert_eq!(chat.app().count(stopped), 0, "{}", C::NAME);
}

async fn stops_at_each_step<C: Chat>() {
    let chat = C::begin(stall).await;
    chat.admit_editor(Person::Alice).await;
    chat.admit(Person::Bob, Role::Viewer, &["**"]).await;
    chat.arrive(Person::Eve);
    let mut asked = 0;
    for (words, step, button) in [
        ("stall", 1, None),
        ("stall", 1, Some("Stop")),
        ("stall later", 2, None),
        ("stall later", 2, Some("Stop")),
    ] {
        chat.app().wait_until_idle().await;
        let place = chat.say(Person::Alice, &Place::Shared, words).await;
        let before = chat.results(&place).len();
        asked += step;
        chat.app().wait_for_model_requests(asked).await;
        let card = chat
            .wait_for_message(&place, &format!("Working, step {step}"))
            .await;
        if let (Some(label), 1) = (button, step) {
            others_press(&chat, &card, label).await;
            assert_eq!(chat.results(&place).len(), before, "{}", C::NAME);
        }
        let stopped = Instant::now();
        match button {
            Some(label) => chat.press(Person::Alice, &card, label).await,
            None => chat.follow_up(Person::Alice, &place, "stop").await,
        }
        let result = chat.wait_for_result(&place, before + 1).await;
        let time = stopped.elapsed();
        let text = C::text(&result);
        let name = format!("{}: {words}, {button:?}", C::NAME);
        assert!(
            text.contains(&format!("Stopped at step {step}.")),
            "{name}: {text}"
        );
        assert!(time < STOP_TIME_MAX, "{name}: {time:?}");
        assert_eq!(chat.app().model_requests().len(), asked, "{name}");
    }
    let place = chat.say(Person::Alice, &Place::Shared, "are you there?").await;
    chat.wait_for_message(&place, "Here I am.").await;
    chat.app().wait_until_idle().await;
    chat.run_native(Person::Alice, "stop").await;
    chat.wait_for("that nothing runs", || {
        let shared = chat.messages(&Place::Shared);
        let shared = shared.iter().map(C::text);
        let mut all = shared.chain(chat.private_texts(Person::Alice));
        all.find(|text| text.contains("Nothing is running."))
    })
    .await;
    let said = chat.messages(&place);
    assert!(
        said.iter()
            .all(|message| !C::text(message).contains("Never said."))
    );
}

/// T07
#[test]
fn a_turn_is_stopped_at_each_step_by_word_and_by_button() {
    on_each_platform!(stops_at_each_step);
}
