//! [Full diff] in a Slack workspace with code channels: the source diff is shown in a tab, in the place of a file.

use crate::support::app::{TestApp, step_number};
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::model::{ModelRequest, ScriptedAnswer, calls, says};
use drydock::simulation::emulator::slack::{CodeChannel, Mention, SlackFault};
use serde_json::json;

const ALICE: &str = "U0ALICE";
const BOB: &str = "U0BOB";
const EVE: &str = "U0EVE";
const SCOPE: &str = "code_channels:manage";
const CREATE: &str = "agents.conversations.create";

/// Sets the replicas of dev to 4, and then to 5.
fn scale(asked: &ModelRequest) -> ScriptedAnswer {
    let (from, to) = match asked.last_user_text().contains("five") {
        true => (4, 5),
        false => (2, 4),
    };
    let of = |count: u32| format!("web:1.8.3',\n    replicas: {count},");
    let edit = json!({"path": "environments/dev/main.jsonnet", "old": of(from), "new": of(to)});
    match step_number(asked) {
        0 => calls("file_edit", edit),
        _ => says("Done."),
    }
}

/// Starts the program with code channels, for a bot without their scope. A diff of more bytes than `inline_max` is a file
/// of its result.
async fn app(inline_max: &str) -> TestApp {
    let settings = [
        ("channels.slack.code_channels", "true"),
        ("limits.inline_diff_bytes_max", inline_max),
    ];
    let app = TestApp::with_settings(scale, &settings).await;
    app.admit_slack_editor(ALICE).await;
    app
}

async fn wait_for_diff(app: &TestApp, version: u64) -> (String, CodeChannel) {
    app.wait_for_slack("a diff in a tab", |state| {
        let mut channels = state.code_channels.iter();
        let shown = channels.find(|(_, channel)| {
            let diff = channel.diff.as_ref();
            diff.is_some_and(|diff| diff.content_version == version)
        });
        shown.map(|(id, channel)| (id.clone(), channel.clone()))
    })
    .await
}

fn files(app: &TestApp, name: &str) -> Vec<String> {
    app.demo.slack.with_state(|state| {
        let files = state.files.iter().filter(|file| file.name == name);
        files
            .map(|file| String::from_utf8_lossy(&file.content).into_owned())
            .collect()
    })
}

async fn wait_for_files(app: &TestApp, count: usize) {
    app.wait_for_slack("a file", |state| {
        let files = state.files.iter().filter(|file| file.name == "CHG-1.diff");
        (files.count() == count).then_some(())
    })
    .await;
}

fn created(app: &TestApp) -> usize {
    app.demo
        .slack
        .with_state(|state| state.calls.iter().filter(|call| call.method == CREATE).count())
}

/// A patch is the same text in the tab, and one channel shows all revisions.
#[tokio::test]
async fn full_diff_shows_the_prepared_patch_in_a_tab_which_follows_the_change() {
    let app = app("2500").await;
    let slack = &app.demo.slack;
    slack.grant(SCOPE);
    let first = app.ask(ALICE, "four").await;
    slack.click(ALICE, &first.message.ts, "Full diff").await.unwrap();
    let (id, shown) = wait_for_diff(&app, 1).await;
    assert_eq!(
        shown.origin,
        Some((SLACK_CHANNEL.to_owned(), first.thread.clone()))
    );
    assert!(shown.name.starts_with("CHG-1 "), "{}", shown.name);
    slack.click(ALICE, &first.message.ts, "Get patch").await.unwrap();
    app.wait_for_slack("a patch", |state| {
        state
            .files
            .iter()
            .find(|file| file.name == "CHG-1.patch")
            .cloned()
    })
    .await;
    let diff = shown.diff.unwrap();
    assert_eq!(files(&app, "CHG-1.patch"), std::slice::from_ref(&diff.content));
    assert!(diff.content.contains("+    replicas: 4,"), "{}", diff.content);
    let line = app
        .wait_for_slack_reply(&first.thread, "The source diff is in")
        .await;
    assert_eq!(line.mentions(), [Mention::Channel(id.clone())]);
    assert!(
        line.text.starts_with("CHG-1: 1 file, +1 −1, base "),
        "{}",
        line.text
    );

    let second = app.ask_in(ALICE, &first.thread, "five").await;
    slack.click(ALICE, &second.message.ts, "Full diff").await.unwrap();
    let (again, shown) = wait_for_diff(&app, 2).await;
    let diff = shown.diff.unwrap();
    assert_eq!((again.as_str(), diff.head_branch.as_str()), (&*id, "CHG-1 rev 2"));
    assert!(diff.content.contains("+    replicas: 5,"), "{}", diff.content);

    // A mention there is one like in any channel.
    slack.say(ALICE, &id, "@drydock again").await.unwrap();
    app.wait_for_slack_message(&id, "Done.").await;

    slack.click(ALICE, &second.message.ts, "Discard").await.unwrap();
    app.wait_for_slack("an archived channel", |state| {
        let mut channels = state.code_channels.values();
        channels.find(|channel| channel.is_archived).map(|_| ())
    })
    .await;
    app.wait_until_idle().await;
    assert_eq!(slack.with_state(|state| state.code_channels.len()), 1);
    assert_eq!(files(&app, "CHG-1.diff"), [""; 0]);
}

#[tokio::test]
async fn full_diff_makes_no_second_code_channel_after_a_lost_answer() {
    let app = app("2500").await;
    let slack = &app.demo.slack;
    slack.grant(SCOPE);
    slack.fail_next(CREATE, 1, SlackFault::ResetAfter);
    let result = app.ask(ALICE, "four").await;
    slack.click(ALICE, &result.message.ts, "Full diff").await.unwrap();
    wait_for_diff(&app, 1).await;
    app.wait_for_slack_reply(&result.thread, "The source diff is in")
        .await;
    app.wait_until_idle().await;
    assert_eq!(created(&app), 2);
    assert_eq!(slack.with_state(|state| state.code_channels.len()), 1);
}

/// Without the scope, Slack refuses the first call, and is not asked again.
#[tokio::test]
async fn full_diff_is_a_file_where_slack_refuses_code_channels_and_nothing_for_others() {
    let app = app("0").await;
    let slack = &app.demo.slack;
    app.admit_slack_editor(BOB).await;
    app.add_slack_account(EVE);
    let first = app.ask(ALICE, "four").await;
    wait_for_files(&app, 1).await;
    for other in [BOB, EVE] {
        slack.click(other, &first.message.ts, "Full diff").await.unwrap();
        app.wait_until_idle().await;
    }
    assert_eq!((created(&app), files(&app, "CHG-1.diff").len()), (0, 1));
    slack.click(ALICE, &first.message.ts, "Full diff").await.unwrap();
    wait_for_files(&app, 2).await;
    let second = app.ask_in(ALICE, &first.thread, "five").await;
    wait_for_files(&app, 3).await;
    slack.click(ALICE, &second.message.ts, "Full diff").await.unwrap();
    wait_for_files(&app, 4).await;
    app.wait_until_idle().await;
    assert_eq!(created(&app), 1);
    let files = files(&app, "CHG-1.diff");
    assert!(files[1].contains("+    replicas: 4,"), "{}", files[1]);
    assert!(files[3].contains("+    replicas: 5,"), "{}", files[3]);
    assert_eq!((&files[0], &files[2]), (&files[1], &files[3]));
}
