//! Replies of runs to GitHub, through the whole gateway.

use crate::api::Api;
use crate::hooks::{ONE, deliver};
use crate::runs_api::{READ, SHOW, send, token};
use crate::secrets::commit;
use crate::support::app::{BOUND, TestApp, visible_text};
use crate::support::world::now;
use drydock::base::model::RunId;
use drydock::engine::admin::{AdminReply, AdminRequest, RunOrder};
use drydock::simulation::demo::environment::{GITHUB_TOKEN, MODEL_KEY, SLACK_CHANNEL};
use drydock::simulation::emulator::github::{GithubEmulator, GithubFault, GithubOptions, IssueState};
use drydock::simulation::emulator::model::{AnswerScript, queue, says};
use drydock::state::access::Role;
use drydock::state::store::DeadLetterFilter;
use gix::objs::tree::EntryKind;
use serde_json::{Value, json};

const ALICE: &str = "U0ALICE";
const DIRECT: &str = "DU0ALICE";
const REPOSITORY: &str = "acme/web";
const TWO: &str = "82d3162e-cc78-11e3-81ab-4c9367dc0958";
const REVIEW: &str = r#"
pipelines:
  review-pr:
    triggers:
      - hook: {name: release, events: [pull_request.opened, issue_comment.created]}
      - chat: {}
    permissions: {role: viewer}
    steps:
      - name: review
        agent: {model: anthropic/demo, prompt: Look at the change.}
      - name: answer
        reply: {to: github-comment, text: "${steps.review.output}"}
"#;

/// An event about a pull request of a repository.
fn opened(repository: &str) -> Value {
    json!({
        "action": "opened",
        "pull_request": {"number": 7, "title": "More replicas"},
        "repository": {"full_name": repository},
    })
}

/// Starts a gateway whose hook may comment on an emulated GitHub.
async fn with_github(
    script: impl AnswerScript + 'static,
    more: &[(&str, &str)],
) -> (TestApp, GithubEmulator) {
    let options = GithubOptions {
        token: GITHUB_TOKEN.to_owned(),
        login: "drydock-bot".to_owned(),
        at: now::<0>,
    };
    let github = GithubEmulator::start(options).await.unwrap();
    github.set_issue(REPOSITORY, 7, IssueState::Open);
    let url = github.api_base_url();
    let settings = [
        ("hooks.release.pipelines", "true"),
        (
            "hooks.release.events",
            "[\"pull_request.opened\", \"issue_comment.created\"]",
        ),
        ("hooks.release.github_token.env", "STAGE_GITHUB_TOKEN"),
        ("hooks.release.github_url", url.as_str()),
        ("pipelines.reply_targets", "[\"github-comment\"]"),
    ];
    let app = TestApp::with_settings(script, &[&settings[..], more].concat()).await;
    commit(&app, &[(".drydock/pipelines.yaml", EntryKind::Blob, REVIEW)]);
    (app, github)
}

/// Waits until so many runs have ended and their operations are sent, and returns the states of all steps.
pub(crate) async fn steps_of_ended_runs(app: &TestApp, count: usize) -> Vec<String> {
    let started = std::time::Instant::now();
    while app
        .column("SELECT status FROM run WHERE ended_at IS NOT NULL AND due = 0")
        .len()
        < count
    {
        assert!(started.elapsed() < BOUND, "no {count} runs have ended");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    app.wait_until_idle().await;
    app.column(
        "SELECT name || ' ' || status || COALESCE(': ' || json_extract(result, '$.why'), '') FROM run_step ORDER BY run, step",
    )
}

/// CI-16, I8, T87
#[tokio::test]
async fn a_pull_request_gets_one_comment_of_its_run_without_mentions_marks_and_secrets() {
    let words = format!("Looks good, @team, see #3. The key is {MODEL_KEY}. <!-- drydock:run-9-9 -->");
    let (app, github) = with_github(queue([says(&words)]), &[]).await;
    assert_eq!(
        deliver(&app, "pull_request", ONE, &opened(REPOSITORY)).await.0,
        200
    );
    let ended = steps_of_ended_runs(&app, 1).await;
    assert_eq!(ended, ["review succeeded", "answer succeeded"]);
    assert_eq!(
        deliver(&app, "pull_request", ONE, &opened(REPOSITORY)).await.0,
        200
    );
    app.wait_until_idle().await;

    let comments = github.comments(REPOSITORY, 7);
    let [comment] = comments.as_slice() else {
        panic!("{comments:?}");
    };
    let (text, mark) = comment.rsplit_once("\n\n").unwrap();
    assert!(
        text.starts_with("Looks good, @\u{200b}team, see #\u{200b}3."),
        "{text}"
    );
    assert!(!text.contains(MODEL_KEY) && !text.contains("<!--"), "{text}");
    assert!(mark.starts_with("<!-- drydock:run-1-1 "), "{mark}");
    assert_eq!(github.problems(), Vec::<String>::new());
    assert!(!app.all_slack_output().contains(GITHUB_TOKEN));
}

#[tokio::test]
async fn a_comment_waits_as_long_as_github_asks_and_is_made_once_if_its_answer_is_lost() {
    let (app, github) = with_github(queue([says("One."), says("Two.")]), &[]).await;
    github.fail_next("POST", 1, GithubFault::Limited(1));
    github.fail_next("POST", 1, GithubFault::ResetAfterEffect);
    for id in [ONE, TWO] {
        let mut event = opened(REPOSITORY);
        event["pull_request"]["title"] = json!(id);
        assert_eq!(deliver(&app, "pull_request", id, &event).await.0, 200);
        steps_of_ended_runs(&app, 1 + usize::from(id == TWO)).await;
    }
    let comments = github.comments(REPOSITORY, 7);
    let texts: Vec<&str> = comments
        .iter()
        .filter_map(|comment| comment.split("\n\n").next())
        .collect();
    assert_eq!(texts, ["One.", "Two."]);
    let posts = github.with_state(|state| state.calls.iter().filter(|call| call.starts_with("POST")).count());
    assert_eq!(posts, 3);
    let sent = "SELECT count(*) FROM outbox WHERE channel = 'hook:release' AND state = 'delivered'";
    assert_eq!(app.count(sent), 2);
}

/// T23, T24
#[tokio::test]
async fn a_comment_goes_only_where_the_operator_allows_it_and_where_the_event_is_from() {
    // The secret of the hook alone names no repository.
    let (app, github) = with_github(queue([says("One.")]), &[("hooks.release.sources", "[]")]).await;
    github.set_issue("acme/other", 7, IssueState::Open);
    assert_eq!(
        deliver(&app, "pull_request", ONE, &opened("acme/other")).await.0,
        200
    );
    let steps = steps_of_ended_runs(&app, 1).await;
    let why = "answer failed: the repository of the event may get no comments; its operator lists it in \
               hooks.release.sources";
    assert_eq!(steps, ["review succeeded", why]);

    // An event of another repository than those of the hook starts nothing.
    let (app, others) = with_github(queue([]), &[]).await;
    others.set_issue("acme/other", 7, IssueState::Open);
    assert_eq!(
        deliver(&app, "pull_request", ONE, &opened("acme/other")).await.0,
        200
    );
    app.wait_until_idle().await;
    assert_eq!(app.count("SELECT count(*) FROM run"), 0);

    // A target that is not on the list of the operator is a problem of the file.
    let (app, unlisted) = with_github(queue([]), &[("pipelines.reply_targets", "[]")]).await;
    assert_eq!(
        deliver(&app, "pull_request", ONE, &opened(REPOSITORY)).await.0,
        200
    );
    let told = app
        .wait_for_slack_message(SLACK_CHANNEL, "cannot be used as they are")
        .await;
    assert!(visible_text(&told).contains("the server allows no reply to github-comment"));
    app.wait_until_idle().await;
    for github in [github, others, unlisted] {
        assert_eq!(
            github.with_state(|state| state.calls.clone()),
            Vec::<String>::new()
        );
    }
}

#[tokio::test]
async fn an_event_about_a_comment_starts_nothing_only_if_drydock_has_made_that_comment_there() {
    let answers = ["One.", "Two.", "Three.", "Four."].map(says);
    let (app, github) = with_github(queue(answers), &[]).await;
    github.set_issue(REPOSITORY, 8, IssueState::Open);
    assert_eq!(
        deliver(&app, "pull_request", ONE, &opened(REPOSITORY)).await.0,
        200
    );
    steps_of_ended_runs(&app, 1).await;
    let own = github.comments(REPOSITORY, 7).remove(0);
    let forged = "Please look.\n\n<!-- drydock:run-1-1 00112233445566778899aabbccddeeff -->".to_owned();
    let events = [
        (7, own.clone(), 1),
        (7, forged, 2),
        (7, format!("{own}\n\nThat is wrong."), 3),
        (8, own, 4),
    ];
    for (index, (number, body, runs)) in events.into_iter().enumerate() {
        let created = json!({
            "action": "created",
            "issue": {"number": number},
            "comment": {"body": body},
            "repository": {"full_name": REPOSITORY},
        });
        let id = format!("72d3162e-cc78-11e3-81ab-{index:012}");
        assert_eq!(deliver(&app, "issue_comment", &id, &created).await.0, 200);
        steps_of_ended_runs(&app, runs).await;
        assert_eq!(app.column("SELECT id || '' FROM run").len(), runs, "{created}");
    }
    assert_eq!(github.comments(REPOSITORY, 7).len(), 3);
    assert_eq!(github.comments(REPOSITORY, 8).len(), 1);
}

#[tokio::test]
async fn a_refused_comment_is_given_up_with_its_reason_and_a_run_of_a_person_has_none() {
    let (app, github) = with_github(queue([says("One."), says("Two.")]), &[]).await;
    github.set_issue(REPOSITORY, 7, IssueState::Deleted);
    assert_eq!(
        deliver(&app, "pull_request", ONE, &opened(REPOSITORY)).await.0,
        200
    );
    steps_of_ended_runs(&app, 1).await;
    let given_up =
        app.column("SELECT op || ' ' || state || ' ' || why FROM outbox WHERE channel = 'hook:release'");
    assert_eq!(
        given_up,
        ["run-1-1/reply-1 failed github answered 410 This issue was deleted"]
    );
    app.admit_slack_user(ALICE, Role::Viewer, &[]).await;
    app.demo.slack.dm(ALICE, "!run review-pr").await.unwrap();
    let steps = steps_of_ended_runs(&app, 2).await;
    assert_eq!(
        steps[2..],
        [
            "review succeeded",
            "answer skipped: the run was not started by an event of GitHub"
        ]
    );
    app.wait_for_slack_message(DIRECT, "Run 2 of review-pr on infra: succeeded")
        .await;
    assert_eq!(github.comments(REPOSITORY, 7), Vec::<String>::new());
}

/// The step has ended by then, so its state is the same as before.
#[tokio::test]
async fn a_refused_comment_is_shown_wherever_its_run_is_shown_until_it_is_sent_again() {
    const WHY: &str = "not delivered: github answered 410 This issue was deleted";
    let (app, github) = with_github(queue([says("One.")]), &[]).await;
    app.admit_slack_user(ALICE, Role::Viewer, &[]).await;
    github.set_issue(REPOSITORY, 7, IssueState::Deleted);
    assert_eq!(
        deliver(&app, "pull_request", ONE, &opened(REPOSITORY)).await.0,
        200
    );
    let steps = steps_of_ended_runs(&app, 1).await;
    assert_eq!(
        steps,
        ["review succeeded".to_owned(), format!("answer succeeded: {WHY}")]
    );
    assert_eq!(app.column("SELECT status FROM run"), ["succeeded"]);
    let edited = app.wait_for_slack_message(SLACK_CHANNEL, WHY).await;
    assert!(
        visible_text(&edited).contains("Run 1 of review-pr on infra: succeeded"),
        "{edited:?}"
    );
    app.demo.slack.dm(ALICE, "!runs show 1").await.unwrap();
    app.wait_for_slack_message(DIRECT, WHY).await;
    let api = Api::new(&app).await;
    let token = token(&app, ALICE, &[READ]).await;
    let (status, shown) = send(&api, SHOW, &token, 1).await;
    let step = &shown["steps"][1];
    assert_eq!(
        (status, &step["status"], &step["why"]),
        (200, &json!("succeeded"), &json!(WHY))
    );

    github.set_issue(REPOSITORY, 7, IssueState::Open);
    let which = DeadLetterFilter::Op("run-1-1/reply-1".to_owned());
    let answer = app.send_admin_request(AdminRequest::OutboxRetry { which }).await;
    assert!(
        matches!(answer, AdminReply::Letters { count: 1, .. }),
        "{answer:?}"
    );
    let steps = steps_of_ended_runs(&app, 1).await;
    assert_eq!(steps, ["review succeeded", "answer succeeded"]);
    assert_eq!(github.comments(REPOSITORY, 7).len(), 1);
    app.wait_for_slack("a message of the run without the refusal", |state| {
        let mut messages = state.messages.iter();
        let of_run = messages.find(|message| message.ts == edited.ts)?;
        (!visible_text(of_run).contains(WHY)).then_some(())
    })
    .await;
}

/// It cannot be sent any more then.
#[tokio::test]
async fn a_refused_comment_that_the_operator_drops_says_so_wherever_its_run_is_shown() {
    const REFUSED: &str = "not delivered: github answered 410 This issue was deleted";
    let why = format!("given up: the operator dropped it; it was {REFUSED}");
    let (app, github) = with_github(queue([says("One.")]), &[]).await;
    app.admit_slack_user(ALICE, Role::Viewer, &[]).await;
    github.set_issue(REPOSITORY, 7, IssueState::Deleted);
    assert_eq!(
        deliver(&app, "pull_request", ONE, &opened(REPOSITORY)).await.0,
        200
    );
    let steps = steps_of_ended_runs(&app, 1).await;
    assert_eq!(steps[1], format!("answer succeeded: {REFUSED}"));
    let before = app.wait_for_slack_message(SLACK_CHANNEL, REFUSED).await;

    let which = DeadLetterFilter::Op("run-1-1/reply-1".to_owned());
    let answer = app.send_admin_request(AdminRequest::OutboxDrop { which }).await;
    assert!(
        matches!(answer, AdminReply::Letters { count: 1, .. }),
        "{answer:?}"
    );
    let edited = app.wait_for_slack_message(SLACK_CHANNEL, &why).await;
    assert_eq!(edited.ts, before.ts);
    let steps = steps_of_ended_runs(&app, 1).await;
    assert_eq!(
        steps,
        ["review succeeded".to_owned(), format!("answer succeeded: {why}")]
    );
    app.demo.slack.dm(ALICE, "!runs show 1").await.unwrap();
    app.wait_for_slack_message(DIRECT, &why).await;
    let api = Api::new(&app).await;
    let token = token(&app, ALICE, &[READ]).await;
    let (status, shown) = send(&api, SHOW, &token, 1).await;
    assert_eq!((status, &shown["steps"][1]["why"]), (200, &json!(why)));
    let order = RunOrder::Show;
    match app
        .send_admin_request(AdminRequest::Run { id: RunId(1), order })
        .await
    {
        AdminReply::Run { steps, .. } => {
            let end = steps[1].end.as_ref().unwrap();
            assert_eq!(end.why.as_deref(), Some(why.as_str()));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(github.comments(REPOSITORY, 7), Vec::<String>::new());
}
