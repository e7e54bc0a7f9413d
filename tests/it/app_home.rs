//! The Home tab of Slack: a person's own open changes, what they may do, and help, without a model.

use crate::support::app::{TestApp, step_number, visible_text};
use crate::support::log::LogCapture;
use crate::support::world::{advance, now, world};
use drydock::base::config::ChannelSettings;
use drydock::base::model::Secret;
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::model::{ModelRequest, ScriptedAnswer, calls, queue, says};
use drydock::simulation::emulator::slack::{HomeTab, Mention, PublishedHome, SlackFault, SlackState};
use drydock::state::access::Role;
use serde_json::json;

const ALICE: &str = "U0ALICE";
const BOB: &str = "U0BOB";
const EVE: &str = "U0EVE";
const CLOCK: usize = 11;
const APP_TOKEN: &str = "xapp-1-A0DRYDOCK-1-stage-app-level-token";

/// Writes a file whose name is the last word of the request.
fn write_note(asked: &ModelRequest) -> ScriptedAnswer {
    let words = asked.last_user_text();
    let name = words.split_whitespace().last().unwrap_or_default().to_owned();
    match step_number(asked) {
        0 => calls(
            "file_write",
            json!({"path": format!("notes/{name}.txt"), "content": "one\n"}),
        ),
        _ => says("Done."),
    }
}

fn text_of(home: &PublishedHome) -> String {
    home.visible().join("\n")
}

fn home_of<'a>(state: &'a SlackState, user: &str) -> Option<&'a PublishedHome> {
    state.homes.get(user)
}

fn publications(app: &TestApp, user: &str) -> usize {
    let count = |state: &SlackState| home_of(state, user).map_or(0, |home| home.publications);
    app.demo.slack.with_state(count)
}

/// Opens the Home tab as a user, who must get an acknowledgement.
async fn open(app: &TestApp, user: &str) {
    let answer = app.demo.slack.open_app_home(user, HomeTab::Home).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
}

/// Waits until the Home tab of a user has a text.
async fn wait_for_home(app: &TestApp, user: &str, text: &str) -> PublishedHome {
    app.wait_for_slack(text, |state| {
        home_of(state, user)
            .filter(|home| text_of(home).contains(text))
            .cloned()
    })
    .await
}

#[tokio::test]
async fn a_person_sees_their_own_open_changes_and_those_of_nobody_else() {
    let app = TestApp::new(write_note).await;
    app.admit_slack_user(ALICE, Role::Editor, &["**"]).await;
    app.admit_slack_user(BOB, Role::Editor, &["**"]).await;
    let first = app.ask(ALICE, "please keep a note about turnips").await;
    app.ask(BOB, "please keep a note about radishes").await;
    let dm = app
        .demo
        .slack
        .dm(ALICE, "please keep a note about leeks")
        .await
        .unwrap();
    app.wait_for_slack_message("DU0ALICE", "CHG-3 is ready").await;
    app.wait_until_idle().await;
    let asked = app.model_requests().len();
    open(&app, ALICE).await;
    let home = wait_for_home(&app, ALICE, "Your open changes: 2").await;
    let text = text_of(&home);
    let newest = text.find("CHG-3  please keep a note about leeks").unwrap();
    let oldest = text.find("CHG-1  please keep a note about turnips").unwrap();
    assert!(newest < oldest, "{text}");
    for line in [
        "I never apply, commit or push.",
        "State  ready for review",
        "Files  1 file, +1 −0",
        "ago)",
        "editor  all repositories and all environments",
        "Last 24 hours  ",
        "patch  send the prepared change as a patch file",
        "Set the replicas of web to 4 in dev.",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    for hidden in ["CHG-2", "radishes", "U0BOB", "Who else is admitted"] {
        assert!(!text.contains(hidden), "{hidden}: {text}");
    }
    let threads = [("DU0ALICE", &dm.ts), (SLACK_CHANNEL, &first.thread)];
    let links = threads.map(|(chat, thread)| {
        Mention::Link(format!(
            "https://app.slack.com/client/T0ACME/{chat}/thread/{chat}-{thread}"
        ))
    });
    assert_eq!(home.mentions(), links);
    open(&app, BOB).await;
    let text = text_of(&wait_for_home(&app, BOB, "CHG-2  please keep a note about radishes").await);
    assert!(!text.contains("CHG-1") && !text.contains("turnips"), "{text}");
    assert_eq!(app.model_requests().len(), asked, "a page costs no tokens");
    assert_eq!(app.demo.slack.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn the_page_follows_the_changes_of_its_person_without_another_opening() {
    let app = TestApp::new(write_note).await;
    app.admit_slack_editor(ALICE).await;
    open(&app, ALICE).await;
    wait_for_home(&app, ALICE, "Nothing is prepared.").await;
    let result = app.ask(ALICE, "keep a note about leeks").await;
    wait_for_home(&app, ALICE, "CHG-1  keep a note about leeks").await;
    let slack = &app.demo.slack;
    slack.click(ALICE, &result.message.ts, "Discard").await.unwrap();
    let text = text_of(&wait_for_home(&app, ALICE, "Nothing is prepared.").await);
    assert!(!text.contains("CHG-1"), "{text}");
    app.wait_until_idle().await;
}

/// The change of a person may be continued by others, who joined their thread. Their words are not shown as the person's.
#[tokio::test]
async fn the_page_follows_a_member_of_the_thread_and_shows_only_the_words_of_its_person() {
    let app = TestApp::new(write_note).await;
    app.admit_slack_editor(ALICE).await;
    app.admit_slack_user(BOB, Role::Editor, &["**"]).await;
    open(&app, ALICE).await;
    let thread = app.ask(ALICE, "keep a note about leeks").await.thread;
    wait_for_home(&app, ALICE, "CHG-1  keep a note about leeks").await;
    app.say_in(BOB, &thread, "@drydock keep a note about radishes")
        .await;
    let question = app
        .wait_for_slack("the question whose thread it is", |state| {
            let mut shown = state.ephemerals.iter();
            shown
                .find(|message| {
                    message.user == BOB && visible_text(message).contains("This thread belongs to")
                })
                .cloned()
        })
        .await;
    let slack = &app.demo.slack;
    slack
        .click_as_seen(BOB, &question, "Ask U0ALICE to join")
        .await
        .unwrap();
    let request = app.wait_for_slack_reply(&thread, "U0BOB asks to join").await;
    slack.click(ALICE, &request.ts, "Let U0BOB join").await.unwrap();
    app.wait_for_slack_reply(&thread, "CHG-1 rev 2 is ready").await;
    let home = wait_for_home(&app, ALICE, "CHG-1 rev 2  keep a note about leeks").await;
    let text = text_of(&home);
    assert!(
        !text.contains("about radishes") && !text.contains("writes:"),
        "{text}"
    );
    app.say_in(BOB, &thread, "!discard").await;
    wait_for_home(&app, ALICE, "Nothing is prepared.").await;
    app.wait_until_idle().await;
}

/// The clock stands one second before the next minute.
#[tokio::test]
async fn a_page_that_was_shown_often_enough_follows_in_the_next_minute() {
    let app = TestApp::with_host(write_note, world::<CLOCK>(), &[]).await;
    app.admit_slack_editor(ALICE).await;
    let result = app.ask(ALICE, "keep a note about leeks").await;
    app.wait_until_idle().await;
    advance::<CLOCK>(58 - now::<CLOCK>().as_second().rem_euclid(60));
    open(&app, ALICE).await;
    wait_for_home(&app, ALICE, "CHG-1  keep a note about leeks").await;
    for _ in 0..5 {
        app.run_command_in(ALICE, &result.thread, "!usage").await;
    }
    app.run_command_in(ALICE, &result.thread, "!discard").await;
    advance::<CLOCK>(2);
    wait_for_home(&app, ALICE, "Nothing is prepared.").await;
    app.wait_until_idle().await;
}

#[tokio::test]
async fn a_change_beyond_the_grants_is_shown_as_withheld() {
    let app = TestApp::new(write_note).await;
    app.admit_slack_editor(ALICE).await;
    app.ask(ALICE, "keep a note about leeks").await;
    app.wait_until_idle().await;
    app.grant(ALICE, Role::Viewer, &["**"]).await;
    open(&app, ALICE).await;
    let text = text_of(&wait_for_home(&app, ALICE, "State  withheld: ").await);
    assert!(text.contains("viewer  all repositories"), "{text}");
    assert!(!text.contains("Set the replicas"), "{text}");
}

#[tokio::test]
async fn administrators_see_who_else_is_admitted() {
    let app = TestApp::new(queue([])).await;
    app.admit_slack_user(ALICE, Role::Admin, &["**"]).await;
    app.admit_slack_user(BOB, Role::Editor, &["dev"]).await;
    app.admit_telegram_user(4_201, Role::Viewer, &["**"]).await;
    app.admit_slack_user(EVE, Role::Editor, &["dev"]).await;
    app.revoke(EVE).await;
    open(&app, ALICE).await;
    let text = text_of(&wait_for_home(&app, ALICE, "Who else is admitted").await);
    assert!(
        text.contains("U0BOB  editor for all repositories, environments dev"),
        "{text}"
    );
    assert!(
        text.contains("t4201  viewer for all repositories and all environments"),
        "{text}"
    );
    assert!(!text.contains(EVE), "{text}");
}

/// A revoked person sees the refusal in place of their changes.
#[tokio::test]
async fn a_person_who_is_not_admitted_sees_their_id_once_and_costs_nothing() {
    let app = TestApp::new(write_note).await;
    app.admit_slack_user(BOB, Role::Admin, &["**"]).await;
    app.demo.slack.dm(BOB, "help").await.unwrap();
    app.wait_for_slack_message("DU0BOB", "without a model").await;
    app.admit_slack_editor(ALICE).await;
    app.ask(ALICE, "keep a note about leeks").await;
    app.wait_until_idle().await;
    let asked = app.model_requests().len();
    open(&app, ALICE).await;
    wait_for_home(&app, ALICE, "CHG-1").await;
    app.add_slack_account(EVE);
    let messages = app.demo.slack.with_state(|state| state.messages.len());
    for _ in 0..5 {
        open(&app, EVE).await;
        wait_for_home(&app, EVE, "Not authorised.").await;
    }
    let shown = app
        .demo
        .slack
        .with_state(|state| home_of(state, EVE).cloned().unwrap());
    let refusal = "Not authorised. I did nothing (0 tokens).\nYour ID is slack:T0ACME:U0EVE: write to me to ask for access, or \
                   ask for an invite.";
    assert_eq!(text_of(&shown), refusal);
    app.wait_for_audit_line("home.unknown").await;
    assert_eq!(app.audit_lines_with("home.unknown").len(), 1);
    assert_eq!(shown.publications, 1);
    app.revoke(ALICE).await;
    open(&app, ALICE).await;
    let text = text_of(&wait_for_home(&app, ALICE, "Not authorised.").await);
    assert!(!text.contains("CHG-1"), "{text}");
    let after = app.demo.slack.with_state(|state| state.messages.len());
    assert_eq!((after, app.model_requests().len()), (messages, asked));
    // An opening takes the place of no notice.
    app.demo.slack.dm(EVE, "let me in").await.unwrap();
    let notice = app.wait_for_slack_message("DU0EVE", "Not authorised.").await;
    assert_eq!(notice.buttons().len(), 1);
}

#[tokio::test]
async fn hostile_words_are_only_words_on_the_page() {
    let app = TestApp::new(write_note).await;
    app.admit_slack_editor(ALICE).await;
    let words = "`a` *b* [c](https://evil.example) @channel my key is \
                 xoxb-17653672481-19874698323-pdFZKVeTuE8sk7oOcHrzqqgy about leeks";
    let result = app.ask(ALICE, words).await;
    open(&app, ALICE).await;
    let home = wait_for_home(&app, ALICE, "CHG-1").await;
    let text = text_of(&home);
    assert!(
        text.contains("*b* [c](https://evil.example) @channel my key is"),
        "{text}"
    );
    assert!(!text.contains("xoxb"), "{text}");
    let thread = &result.thread;
    let address =
        format!("https://app.slack.com/client/T0ACME/{SLACK_CHANNEL}/thread/{SLACK_CHANNEL}-{thread}");
    assert_eq!(home.mentions(), [Mention::Link(address)]);
}

#[tokio::test]
async fn the_page_has_a_bounded_number_of_changes_and_counts_the_others() {
    let app = TestApp::new(write_note).await;
    app.admit_slack_editor(ALICE).await;
    for number in 1..=12 {
        let long = "long ".repeat(200);
        app.ask(ALICE, &format!("{long} keep a note about leek{number}"))
            .await;
    }
    open(&app, ALICE).await;
    let home = wait_for_home(&app, ALICE, "Your open changes: 12").await;
    let text = text_of(&home);
    assert!(text.contains("And 2 more, which are older"), "{text}");
    assert!(text.contains("CHG-12  ") && text.contains("CHG-3  "), "{text}");
    assert!(!text.contains("CHG-2  "), "{text}");
    assert!(home.view.to_string().len() < 30_000, "{}", home.view);
}

#[tokio::test]
async fn a_page_that_is_opened_again_and_again_is_shown_a_few_times_a_minute() {
    let app = TestApp::new(queue([])).await;
    app.admit_slack_editor(ALICE).await;
    for _ in 0..60 {
        open(&app, ALICE).await;
    }
    wait_for_home(&app, ALICE, "Nothing is prepared.").await;
    // The openings may lie in two minutes.
    assert!(publications(&app, ALICE) <= 20, "{}", publications(&app, ALICE));
    let answer = app.demo.slack.open_app_home(ALICE, HomeTab::Messages).await;
    assert_eq!(answer.map(|answer| answer.status), Ok(200));
}

#[tokio::test]
async fn an_opening_shows_the_page_whatever_its_person_did_before() {
    let app = TestApp::new(queue([says("Here.")])).await;
    app.admit_slack_editor(ALICE).await;
    let result = app.ask(ALICE, "hello").await;
    open(&app, ALICE).await;
    wait_for_home(&app, ALICE, "Nothing is prepared.").await;
    for _ in 0..12 {
        app.run_command_in(ALICE, &result.thread, "!usage").await;
    }
    app.wait_until_idle().await;
    let before = publications(&app, ALICE);
    open(&app, ALICE).await;
    app.wait_for_slack("another publication", |state| {
        home_of(state, ALICE)
            .filter(|home| home.publications > before)
            .map(|_| ())
    })
    .await;
}

#[tokio::test]
async fn a_workspace_that_refuses_the_home_tab_is_reported_once_and_everything_else_works() {
    let app = TestApp::new(write_note).await;
    app.admit_slack_editor(ALICE).await;
    let log = LogCapture::capture();
    let refusal = SlackFault::Refuse("not_enabled".to_owned());
    app.demo.slack.fail_all("views.publish", refusal);
    open(&app, ALICE).await;
    let result = app.ask(ALICE, "keep a note about leeks").await;
    assert!(result.text.contains("CHG-1 is ready"), "{}", result.text);
    app.run_command_in(ALICE, &result.thread, "!status").await;
    app.wait_until_idle().await;
    assert_eq!(publications(&app, ALICE), 0);
    assert_eq!(app.readyz().await.0, 200);
    app.demo.slack.recover("views.publish");
    open(&app, ALICE).await;
    wait_for_home(&app, ALICE, "CHG-1").await;
    let reported = log.text().matches("slack refuses the Home tab").count();
    assert_eq!(reported, 1, "{}", log.text());
}

#[tokio::test]
async fn the_page_is_shown_over_a_socket() {
    let mut app = TestApp::new(queue([])).await;
    app.demo.stop().await;
    app.demo.slack.turn_socket_mode_on(APP_TOKEN);
    let mut config = app.demo.config().unwrap();
    let Some(ChannelSettings::Slack(slack)) = config.channels.get_mut("slack") else {
        panic!("a Slack channel");
    };
    slack.signing_secret = None;
    slack.app_token = Some(Secret::new(APP_TOKEN.to_owned()));
    app.start_with(config).await;
    app.admit_slack_editor(ALICE).await;
    open(&app, ALICE).await;
    wait_for_home(&app, ALICE, "Nothing is prepared.").await;
}
