//! Files in chats: Drydock reads only the text of a message, and says so once.

use crate::support::app::TestApp;
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::model::{ModelRequest, ScriptedAnswer, says};
use serde_json::json;

const ALICE: &str = "U0ALICE";

fn repeats(asked: &ModelRequest) -> ScriptedAnswer {
    says(format!("heard: {}", asked.last_user_text()))
}

/// The person reads it once, although Slack sends two events of the message, and the model is told as well.
#[tokio::test]
async fn files_beside_the_words_of_a_message_are_not_dropped_without_a_word() {
    let app = TestApp::new(repeats).await;
    app.admit_slack_editor(ALICE).await;
    app.admit_telegram_editor(4_201).await;
    let slack = &app.demo.slack;
    let files = ["values.yaml", "notes.txt"];
    let sent = slack.say_with_files(ALICE, SLACK_CHANNEL, None, "@drydock use these values", &files);
    let thread = sent.await.unwrap().ts;
    let result = app.wait_for_result(&thread, 1).await;
    assert!(result.text.contains("heard: use these values"), "{}", result.text);
    let told = "This message has 2 attached files that you cannot read.";
    assert!(app.model_requests()[0].last_user_text().contains(told));
    app.wait_until_idle().await;
    let said = app.thread_messages(&thread).concat();
    let notice = "I read only the text of your message, not the attached files. Paste here what matters of the content";
    assert_eq!(said.matches(notice).count(), 1, "{said}");

    let document = json!({"file_id": "f1", "file_unique_id": "u1", "file_name": "values.yaml"});
    let photo = json!([{"file_id": "f2", "file_unique_id": "u2", "width": 8, "height": 8}]);
    for (number, fields) in [
        json!({"document": document, "caption": "use this"}),
        json!({"photo": photo, "caption": "and this"}),
        json!({"text": "and this text"}),
    ]
    .into_iter()
    .enumerate()
    {
        app.demo.telegram.write(4_201, 4_201, fields).await;
        app.wait_for_telegram("a result", || app.telegram_results(4_201).into_iter().nth(number))
            .await;
        app.wait_until_idle().await;
    }
    let shown = app.demo.telegram.messages(4_201);
    let notice = "I read only the text of your message, not the attached file.";
    let notices = shown.iter().filter(|posted| posted.text.contains(notice));
    assert_eq!(notices.count(), 2, "{shown:?}");
}

/// An album without words gets one answer, not one for each of its files.
#[tokio::test]
async fn an_album_without_words_is_answered_once() {
    let app = TestApp::new(repeats).await;
    app.admit_telegram_editor(4_201).await;
    for number in 0..3 {
        let photo =
            json!([{"file_id": format!("f{number}"), "file_unique_id": "u", "width": 8, "height": 8}]);
        let fields = json!({"photo": photo, "media_group_id": "g1"});
        app.demo.telegram.write(4_201, 4_201, fields).await;
    }
    app.wait_for_telegram_message(4_201, "I can't read a photo").await;
    app.wait_until_idle().await;
    let shown = app.demo.telegram.messages(4_201);
    let answers = shown
        .iter()
        .filter(|posted| posted.text.contains("I can't read a photo"));
    assert_eq!(answers.count(), 1, "{shown:?}");
    assert!(app.model_requests().is_empty());
}
