//! Platforms without their native surfaces, such as folds, plans, drafts and histories.

use super::chat::{Chat, Person, Place};
use super::on_each_platform;
use crate::support::app::step_number;
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, ScriptedAnswer, calls, says};
use serde_json::json;
use std::time::Duration;

/// Changes dev in a turn that is long enough to show its progress.
fn slowly(asked: &ModelRequest) -> ScriptedAnswer {
    match (step_number(asked), asked.last_user_text().contains("four")) {
        (0, true) => calls(
            "file_edit",
            json!({"path": "environments/dev/main.jsonnet", "old": "web:1.8.3',\n    replicas: 2,",
                "new": "web:1.8.3',\n    replicas: 4,"}),
        ),
        _ => says("Four replicas of web in dev.").with_fault(AnswerFault::Delay(Duration::from_secs(2))),
    }
}

async fn a_change_without_native_surfaces<C: Chat>() {
    let chat = C::begin(slowly).await;
    chat.admit_editor(Person::Alice).await;
    chat.forget_native_surfaces();
    let name = C::NAME;
    for n in 0..2 {
        let words = if n == 0 {
            "four replicas in dev"
        } else {
            "is that right?"
        };
        let (thread, result) = chat.ask(Person::Alice, words).await;
        chat.app().wait_until_idle().await;
        let text = C::text(&result);
        assert!(text.contains("Four replicas of web in dev."), "{name}: {text}");
        if n == 0 {
            assert!(text.contains("CHG-1 is ready"), "{name}: {text}");
            assert!(text.contains("+    replicas: 4,"), "{name}: {text}");
            assert_eq!(
                C::labels(&result),
                ["Get patch", "Full diff", "Revise", "Discard"],
                "{name}"
            );
        }
        let shown = chat.messages(&thread);
        let results = shown
            .iter()
            .filter(|message| C::text(message).contains("Four replicas"));
        assert!(results.count() <= n + 1, "{name}: {shown:?}");
    }
    // In the own chat of a person, too.
    let direct = Place::Direct(Person::Alice);
    chat.say(Person::Alice, &direct, "is that right?").await;
    chat.wait_for_message(&direct, "Four replicas of web in dev.")
        .await;
    chat.app().wait_until_idle().await;
    let missing = chat.messages(&direct);
    let missing = missing
        .iter()
        .filter(|message| C::text(message).contains("may be missing"));
    assert_eq!(missing.count(), 0, "{name}");
}

#[test]
fn a_result_is_complete_where_the_native_surfaces_are_missing() {
    on_each_platform!(a_change_without_native_surfaces);
}
