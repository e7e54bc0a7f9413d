//! Replies of runs to GitHub and to slash commands, through the whole gateway.

use crate::hooks::{ONE, deliver};
use crate::secrets::commit;
use crate::support::app::{BOUND, TestApp, visible_text};
use crate::support::sign;
use crate::support::world::{advance, now, world};
use drydock::simulation::demo::environment::{GITHUB_TOKEN, MODEL_KEY, SLACK_CHANNEL, SLACK_SIGNING_SECRET};
use drydock::simulation::emulator::github::{GithubEmulator, GithubFault, GithubOptions, IssueState};
use drydock::simulation::emulator::model::{AnswerScript, ModelRequest, queue, says};
use drydock::simulation::emulator::slack::SlackFault;
use drydock::state::access::Role;
use gix::objs::tree::EntryKind;
use serde_json::{Value, json};

const ALICE: &str = "U0ALICE";
const BOB: &str = "U0BOB";
const DIRECT: &str = "DU0ALICE";
/// A private channel without the app.
const PRIVATE: &str = "C0PRIVATE";
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
const ODD: &str = r#"
pipelines:
  odd:
    triggers:
      - slash_command: {command: /odd}
        when: params.number > 0
    params: {number: {type: integer}}
    permissions: {role: viewer}
    steps:
      - name: look
        agent: {model: anthropic/demo, prompt: Is the number odd?, params: {number: "${params.number}"}}
      - name: answer
        reply: {to: slack-response, text: "${steps.look.output}"}
  change:
    triggers: [{slash_command: {command: /change}}]
    steps: [{name: change, agent: {model: anthropic/demo, prompt: Change something.}}]
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

/// Starts a gateway whose Slack app has two commands of pipelines.
async fn with_commands<const CLOCK: usize>(script: impl AnswerScript + 'static) -> TestApp {
    let settings = [
        (
            "channels.slack.slash_commands",
            "[\"/odd\", \"/change\", \"/absent\"]",
        ),
        ("pipelines.reply_targets", "[\"slack-response\"]"),
    ];
    let app = TestApp::with_host(script, world::<CLOCK>(), &settings).await;
    app.admit_slack_user(ALICE, Role::Viewer, &[]).await;
    app.demo.slack.add_channel_without_bot(PRIVATE, &[ALICE]);
    commit(&app, &[(".drydock/pipelines.yaml", EntryKind::Blob, ODD)]);
    app
}

/// Waits until so many runs have ended and their operations are sent, and returns the states of all steps.
async fn steps_of_ended_runs(app: &TestApp, count: usize) -> Vec<String> {
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

/// CI-16
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
    // Neither does one about a comment of its own.
    let own = json!({
        "action": "created",
        "issue": {"number": 7},
        "comment": {"body": "Done.\n\n<!-- drydock:run-1-1 00 -->"},
        "repository": {"full_name": REPOSITORY},
    });
    assert_eq!(deliver(&app, "issue_comment", TWO, &own).await.0, 200);
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

/// CI-16
#[tokio::test]
async fn a_slash_command_starts_its_pipeline_and_its_person_alone_gets_the_answer() {
    let app = with_commands::<0>(queue([says("Seven is odd."), says("Nine is odd.")])).await;
    for (channel, words, answer) in [
        (SLACK_CHANNEL, "7", "Seven is odd."),
        (PRIVATE, "infra: number=9", "Nine is odd."),
    ] {
        let typed = ("/odd", words);
        app.demo.slack.slash_command(ALICE, channel, typed).await.unwrap();
        let seen = app
            .wait_for_slack(answer, |state| {
                let ephemerals = state.ephemerals.iter();
                let here = ephemerals.filter(|message| message.channel == channel && message.user == ALICE);
                let texts: Vec<String> = here.map(visible_text).collect();
                texts.iter().any(|text| text == answer).then_some(texts)
            })
            .await;
        assert!(seen[0].contains("/odd is run") && seen.len() == 2, "{seen:?}");
    }
    let steps = steps_of_ended_runs(&app, 2).await;
    assert_eq!(
        steps,
        [
            "look succeeded",
            "answer succeeded",
            "look succeeded",
            "answer succeeded"
        ]
    );
    assert_eq!(
        app.column("SELECT started_by FROM run"),
        ["slash_command /odd", "slash_command /odd"]
    );
    // Nobody else sees anything of it.
    let public = app.demo.slack.with_state(|state| {
        let messages = state.messages.iter().filter(|message| !message.request.is_null());
        messages.filter(|message| message.channel != DIRECT).count()
    });
    assert_eq!(public, 0);
    assert!(app.model_requests()[0].last_user_text().contains('7'));
    // The address is a credential, and is in no message.
    let held = app.column(
        "SELECT inbound FROM inbox UNION ALL SELECT body FROM outbox UNION ALL SELECT inputs FROM run",
    );
    assert!(held.iter().all(|text| !text.contains("/commands/")), "{held:?}");
}

#[tokio::test]
async fn a_slash_command_starts_nothing_without_a_grant_and_says_the_same_as_for_none() {
    let app = with_commands::<0>(queue([])).await;
    app.admit_slack_user(BOB, Role::Editor, &["**"]).await;
    let request = drydock::engine::admin::AdminRequest::Grant {
        which: BOB.to_owned(),
        grant: drydock::state::access::Grant {
            role: Role::Editor,
            repositories: "other".to_owned(),
            environments: vec!["**".to_owned()],
        },
    };
    app.send_admin_request(request).await;
    let unknown = |command: &str| format!("There is no pipeline that {command} starts for you here.");
    for (user, command, words, answer) in [
        (BOB, "/odd", "7", unknown("/odd")),
        (BOB, "/odd", "infra: 7", unknown("/odd")),
        (ALICE, "/absent", "", unknown("/absent")),
        (ALICE, "/odd", "", "number is required".to_owned()),
        (ALICE, "/odd", "seven", "number: is no integer".to_owned()),
        (
            ALICE,
            "/odd",
            "-7",
            "the condition of its trigger is false".to_owned(),
        ),
        (ALICE, "/change", "", "the role in infra is viewer".to_owned()),
        // The command of Drydock has the same words as before.
        (ALICE, "/drydock", "odd 7", "I don't know the command".to_owned()),
    ] {
        let seen = app.ephemeral_messages(user).len();
        let typed = (command, words);
        app.demo
            .slack
            .slash_command(user, SLACK_CHANNEL, typed)
            .await
            .unwrap();
        let told = app.wait_for_ephemeral(user, seen).await;
        assert!(told.contains(&answer), "{user} {command} {words}: {told}");
    }
    app.wait_until_idle().await;
    assert_eq!(app.count("SELECT count(*) FROM run"), 0);
    assert!(app.model_requests().is_empty());
}

#[tokio::test]
async fn an_answer_after_half_an_hour_fails_and_its_person_is_told_in_a_chat_with_the_bot() {
    const CLOCK: usize = 29;
    let late = |_: &ModelRequest| {
        advance::<CLOCK>(1_900);
        says("Seven is odd.")
    };
    let app = with_commands::<CLOCK>(late).await;
    let seen = app.ephemeral_messages(ALICE).len();
    app.demo
        .slack
        .slash_command(ALICE, SLACK_CHANNEL, ("/odd", "7"))
        .await
        .unwrap();
    let told = app.wait_for_ephemeral(ALICE, seen + 1).await;
    assert!(told.contains("Run 1 of odd on infra: failed"), "{told}");
    let steps = steps_of_ended_runs(&app, 1).await;
    let why = "answer failed: the address for answers to the command has expired, half an hour after it";
    assert_eq!(steps, ["look succeeded", why]);
    assert_eq!(app.ephemeral_messages(ALICE).len(), seen + 2);
}

#[tokio::test]
async fn an_answer_that_may_have_arrived_is_not_sent_again_and_none_follows_a_revocation() {
    let app = with_commands::<0>(queue([says("Seven is odd.")])).await;
    app.demo
        .slack
        .fail_next("response_url", 1, SlackFault::ResetAfter);
    app.demo
        .slack
        .slash_command(ALICE, SLACK_CHANNEL, ("/odd", "7"))
        .await
        .unwrap();
    steps_of_ended_runs(&app, 1).await;
    let answers = app.ephemeral_messages(ALICE).into_iter();
    assert_eq!(answers.filter(|text| text == "Seven is odd.").count(), 1);
    let outcome = app.column("SELECT state || ' ' || why FROM outbox WHERE op = 'run-1-1/reply-1'");
    assert_eq!(outcome, ["ambiguous it is unknown whether it was sent"]);

    let stalls = |_: &ModelRequest| {
        says("Never.").with_fault(drydock::simulation::emulator::model::AnswerFault::Stall)
    };
    let app = with_commands::<0>(stalls).await;
    app.demo
        .slack
        .slash_command(ALICE, SLACK_CHANNEL, ("/odd", "7"))
        .await
        .unwrap();
    app.wait_for_model_requests(1).await;
    app.wait_for_ephemeral(ALICE, 0).await;
    app.revoke(ALICE).await;
    steps_of_ended_runs(&app, 1).await;
    assert_eq!(app.column("SELECT status FROM run"), ["cancelled"]);
    assert_eq!(app.ephemeral_messages(ALICE).len(), 1);
}

const SIGNED: &str = r#"
pipelines:
  odd:
    triggers:
      - hook: {name: signed, params: {number: /text}, fields: {who: {pointer: /user_id}}}
        when: event.command == '/odd'
    params: {number: {type: integer}}
    permissions: {role: viewer}
    steps:
      - name: look
        agent:
          model: anthropic/demo
          prompt: Is the number odd?
          params: {number: "${params.number}", who: "${trigger.who}"}
"#;

/// CI-24
#[tokio::test]
async fn a_command_that_slack_signs_starts_its_pipeline_with_typed_fields_and_without_its_credentials() {
    let settings = [
        ("hooks.signed.scheme", "slack"),
        ("hooks.signed.secret.env", "STAGE_SLACK_SIGNING_SECRET"),
        ("hooks.signed.repository", "infra"),
        ("hooks.signed.prompt", ".drydock/release.md"),
        ("hooks.signed.pipelines", "true"),
        ("hooks.signed.post_to.channel", "slack"),
        ("hooks.signed.post_to.chat", SLACK_CHANNEL),
    ];
    let app = TestApp::with_settings(queue([says("Seven is odd.")]), &settings).await;
    commit(&app, &[(".drydock/pipelines.yaml", EntryKind::Blob, SIGNED)]);
    let seconds = now::<0>().as_second();
    let send = async |body: &str, secret: &str| {
        let (time, signature) = (seconds.to_string(), sign::slack(secret, seconds, body.as_bytes()));
        let headers = [
            ("content-type", "application/x-www-form-urlencoded"),
            ("x-slack-request-timestamp", time.as_str()),
            ("x-slack-signature", &signature),
        ];
        app.post("/in/signed", &headers, body.as_bytes()).await.0
    };
    let body = "command=%2Fodd&text=7&user_id=U0MALLORY&trigger_id=1.2.3&token=CANARY1&\
                response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FCANARY2";
    assert_eq!(send(body, "another secret of 32 characters.").await, 401);
    assert_eq!(send(body, SLACK_SIGNING_SECRET).await, 200);
    assert_eq!(steps_of_ended_runs(&app, 1).await, ["look succeeded"]);
    assert_eq!(send(body, SLACK_SIGNING_SECRET).await, 200);
    app.wait_until_idle().await;
    assert_eq!(app.column("SELECT started_by FROM run"), ["hook signed"]);
    let asked = app.model_requests()[0].last_user_text().to_owned();
    let (_, data) = asked.split_once("<untrusted_data>").unwrap();
    assert!(data.contains('7') && data.contains("U0MALLORY"), "{asked}");
    for canary in ["CANARY1", "CANARY2"] {
        assert_eq!(app.data_files_with(canary), Vec::<String>::new());
    }
}
