//! Diffs of each size: within the result, within several messages, and as a file.

use super::chat::{Chat, Person};
use super::on_each_platform;
use crate::support::app::step_number;
use drydock::simulation::emulator::model::{ModelRequest, ScriptedAnswer, calls, says};
use serde_json::json;

/// The most messages of one answer, with its files.
const MESSAGES_MAX: usize = 5;

/// Writes a file with as many lines as the person asks for.
fn write_lines(asked: &ModelRequest) -> ScriptedAnswer {
    let words = asked.last_user_text();
    let count = words.split(' ').find_map(|word| word.parse::<usize>().ok());
    let content: String = (0..count.unwrap_or_default())
        .map(|line| format!("line {line} of a file\n"))
        .collect();
    match step_number(asked) {
        0 => calls(
            "file_write",
            json!({"path": "environments/dev/long.txt", "content": content}),
        ),
        _ => says("Written."),
    }
}

async fn diffs_of_each_size<C: Chat>() {
    for lines in [3, 60, 400] {
        let chat = C::begin(write_lines).await;
        chat.admit_editor(Person::Alice).await;
        let (thread, _) = chat.ask(Person::Alice, &format!("write {lines} lines")).await;
        chat.app().wait_until_idle().await;
        let name = format!("{}, {lines} lines", C::NAME);
        // A long result is several messages, of which one has the buttons.
        let messages = chat.messages(&thread);
        let texts: Vec<String> = messages.iter().map(C::text).collect();
        let text = texts.join("\n");
        assert!(text.contains("CHG-1 is ready"), "{name}: {text}");
        assert!(text.contains(&format!("+{lines} −0")), "{name}: {text}");
        let with_buttons = messages
            .iter()
            .filter(|message| C::labels(message).contains(&"Get patch".to_owned()));
        let with_buttons: Vec<&C::Message> = with_buttons.collect();
        assert_eq!(with_buttons.len(), 1, "{name}: {messages:#?}");
        assert_eq!(
            C::labels(with_buttons[0]),
            ["Get patch", "Full diff", "Revise", "Discard"],
            "{name}"
        );

        // All lines are in one of both places, and nothing of a file is cut.
        let added =
            |text: &str| text.matches(" of a file\n").count() + usize::from(text.ends_with(" of a file"));
        let files = chat.files(&thread);
        let diff = files.iter().find(|(name, _)| name == "CHG-1.diff");
        match diff {
            None => assert_eq!(added(&text), lines, "{name}: {text}"),
            Some((_, diff)) => {
                assert!(text.contains("CHG-1.diff"), "{name}: {text}");
                assert_eq!(diff.matches("\n+line ").count(), lines, "{name}");
            }
        }
        assert!(lines < 400 || diff.is_some(), "{name}");
        assert!(messages.len() <= MESSAGES_MAX + 1, "{name}: {messages:#?}");

        chat.press(Person::Alice, with_buttons[0], "Get patch").await;
        let patch = chat
            .wait_for("a patch", || {
                let mut files = chat.files(&thread).into_iter();
                files.find(|(name, _)| name == "CHG-1.patch")
            })
            .await;
        assert_eq!(patch.1.matches("\n+line ").count(), lines, "{name}");
        if let Some((_, diff)) = diff {
            assert_eq!(patch.1, *diff, "{name}");
        }
        chat.app().wait_until_idle().await;
    }
}

#[test]
fn a_diff_of_any_size_is_complete_in_the_result_or_in_a_file() {
    on_each_platform!(diffs_of_each_size);
}
