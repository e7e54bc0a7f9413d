//! Answers of any length take a few messages. Long words of a model become a file, and our facts stay in the messages.

use crate::support::app::{TestApp, step_number, visible_text};
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::model::{ModelRequest, ScriptedAnswer, calls, says};
use serde_json::json;

const ALICE: &str = "U0ALICE";
const BOB: i64 = 4_201;
/// The most messages of one answer.
const MESSAGES_MAX: usize = 5;
/// The parts of every result of a change, whatever the model's words.
const OURS: [&str; 13] = [
    "is ready: dev, 1 file, +1 −1",
    "Nothing was applied, committed or pushed.",
    "environments/dev/main.jsonnet",
    "base is the newest commit",
    "JSON parses",
    "no conflict markers",
    "no secrets in added lines",
    "every changed Jsonnet file parses",
    "imports resolve",
    "every affected environment renders",
    "both engines agree",
    "+    replicas: 4,",
    " tokens · ",
];

/// Returns words of a model that are a megabyte long, or become very many blocks, lines or format changes.
fn lengthy() -> [String; 5] {
    [
        "A".repeat(1_000_000),
        "# h\n".repeat(100_000),
        "**a** `b` ".repeat(40_000),
        "```\nx\n```\n\n- y\n".repeat(20_000),
        "a word and another one\n\n".repeat(900),
    ]
}

fn change(answer: String) -> impl Fn(&ModelRequest) -> ScriptedAnswer + Send + Sync + 'static {
    let edit = json!({
        "path": "environments/dev/main.jsonnet",
        "old": "web:1.8.3',\n    replicas: 2,",
        "new": "web:1.8.3',\n    replicas: 4,",
    });
    move |asked: &ModelRequest| match step_number(asked) {
        0 => calls("file_edit", edit.clone()),
        _ => says(answer.clone()),
    }
}

fn says_all_of_ours(shown: &str, which: &str) {
    for ours in OURS {
        assert!(shown.contains(ours), "{which}: {ours} is missing");
    }
}

/// T77, T78
#[tokio::test]
async fn the_longest_answer_takes_a_few_messages_in_slack_and_keeps_all_facts() {
    for answer in lengthy() {
        let which: String = answer.chars().take(12).collect();
        let app = TestApp::new(change(answer.clone())).await;
        app.admit_slack_editor(ALICE).await;
        let thread = app.say(ALICE, "four replicas in dev").await.ts;
        app.wait_for_result(&thread, 1).await;
        app.wait_until_idle().await;
        app.demo.slack.with_state(|state| {
            let bots: Vec<_> = state
                .replies(SLACK_CHANNEL, &thread)
                .filter(|message| !message.request.is_null())
                .collect();
            let shown = bots
                .iter()
                .map(|message| visible_text(message))
                .collect::<Vec<_>>();
            let is_card = |text: &&String| text.contains("the result is below") || text.contains("Working");
            let cards = shown.iter().filter(is_card).count();
            assert!(
                cards <= 1 && bots.len() - cards <= MESSAGES_MAX,
                "{which}: {}",
                bots.len()
            );
            let edits: usize = bots.iter().map(|message| message.edits).sum();
            assert!(edits <= 20, "{which}: {edits} edits");
            let shown = shown.join("\n");
            says_all_of_ours(&shown, &which);
            let labels: Vec<String> = bots
                .iter()
                .flat_map(|message| message.buttons())
                .map(|button| button.label)
                .collect();
            assert_eq!(labels, ["Get patch", "Full diff", "Revise", "Discard"], "{which}");
            let whole = state.files.iter().find(|file| file.name == "answer.md");
            if shown.contains("The answer is cut here") {
                assert!(shown.contains("the full text follows as answer.md"), "{which}");
                assert_eq!(whole.unwrap().content, answer.as_bytes(), "{which}");
            } else {
                assert!(whole.is_none() && answer.len() < 30_000, "{which}");
            }
        });
        assert_eq!(app.demo.slack.problems(), Vec::<String>::new(), "{which}");
    }
}

/// T77, T78
#[tokio::test]
async fn the_longest_answer_takes_a_few_messages_in_telegram_and_keeps_all_facts() {
    for answer in lengthy() {
        let which: String = answer.chars().take(12).collect();
        let app = TestApp::new(change(answer.clone())).await;
        app.admit_telegram_editor(BOB).await;
        let seen = app.demo.telegram.messages(BOB).len();
        app.ask_telegram(BOB, "four replicas in dev").await;
        app.wait_until_idle().await;
        let posted = app.demo.telegram.messages(BOB).split_off(seen);
        let (files, texts): (Vec<_>, Vec<_>) =
            posted.into_iter().partition(|posted| posted.document.is_some());
        let is_card = |text: &str| text.contains("the result is below") || text.contains("Working");
        let cards = texts.iter().filter(|posted| is_card(&posted.text)).count();
        assert!(
            cards <= 1 && texts.len() - cards <= MESSAGES_MAX,
            "{which}: {}",
            texts.len()
        );
        let edits: usize = texts.iter().map(|posted| posted.edits).sum();
        assert!(edits <= 20, "{which}: {edits} edits");
        let shown: Vec<&str> = texts.iter().map(|posted| posted.text.as_str()).collect();
        let shown = shown.join("\n");
        says_all_of_ours(&shown, &which);
        let labels: Vec<&str> = texts
            .iter()
            .flat_map(|posted| posted.keyboard.iter().flatten())
            .map(|(label, _)| label.as_str())
            .collect();
        assert_eq!(labels, ["Get patch", "Full diff", "Revise", "Discard"], "{which}");
        assert!(shown.contains("The answer is cut here"), "{which}");
        let (name, content) = files.first().unwrap().document.clone().unwrap();
        assert_eq!((files.len(), name.as_str()), (1, "answer.md"), "{which}");
        assert_eq!(content, answer.as_bytes(), "{which}");
        assert_eq!(app.demo.telegram.problems(), Vec::<String>::new(), "{which}");
    }
}

/// T77: a diff that would take many messages is sent as a file instead.
#[tokio::test]
async fn a_diff_that_takes_too_many_messages_is_a_file() {
    let lines: String = (0..1_500)
        .map(|number| format!("line {number} of many\n"))
        .collect();
    let write = json!({ "path": "environments/dev/notes.txt", "content": lines });
    let script = move |asked: &ModelRequest| match step_number(asked) {
        0 => calls("file_write", write.clone()),
        _ => says("Written."),
    };
    let app = TestApp::with_settings(script, &[("limits.inline_diff_bytes_max", "30_000")]).await;
    app.admit_telegram_editor(BOB).await;
    let seen = app.demo.telegram.messages(BOB).len();
    let result = app.ask_telegram(BOB, "write notes").await;
    assert!(!result.text.contains("line 7 of many"), "{}", result.text);
    app.wait_until_idle().await;
    app.run_telegram_command(BOB, "/diff").await;
    app.wait_until_idle().await;
    let posted = app.demo.telegram.messages(BOB).split_off(seen);
    let files: Vec<String> = posted
        .iter()
        .filter_map(|posted| Some(posted.document.as_ref()?.0.clone()))
        .collect();
    assert_eq!(files, ["CHG-1.diff", "CHG-1.diff"]);
    assert!(posted.len() <= 8, "{}", posted.len());
}

/// T77, T78: names of files come from outside, so they are shortened among our facts.
#[tokio::test]
async fn very_long_names_of_files_take_a_few_messages_and_the_answer_stays() {
    let name = |number: usize| {
        let folder = "\u{e0041}".repeat(55);
        format!("environments/dev/{}{number}.txt", format!("{folder}/").repeat(16))
    };
    let script = move |asked: &ModelRequest| match step_number(asked) {
        0 => (0..10).fold(says(""), |answer, number| {
            answer.with_call("file_write", json!({ "path": name(number), "content": "x\n" }))
        }),
        _ => says("Ten files are written."),
    };
    let app = TestApp::new(script).await;
    app.admit_telegram_editor(BOB).await;
    let seen = app.demo.telegram.messages(BOB).len();
    app.ask_telegram(BOB, "write ten files").await;
    app.wait_until_idle().await;
    let posted = app.demo.telegram.messages(BOB).split_off(seen);
    let texts: Vec<&str> = posted
        .iter()
        .filter(|posted| posted.document.is_none())
        .map(|posted| posted.text.as_str())
        .collect();
    assert!(texts.len() <= MESSAGES_MAX + 1, "{}", texts.len());
    let shown = texts.join("\n");
    assert!(shown.contains("is ready: 10 files, +10 −0"), "{shown}");
    assert!(shown.contains("Ten files are written."), "{shown}");
    for number in 0..10 {
        assert!(shown.contains(&format!("{number}.txt")), "{number}: {shown}");
    }
}
