//! A turn ends as done only if its result holds. The gateway checks the result itself, returns failures to the model,
//! and reports to the person what could not be fixed.

use crate::support::app::{TestApp, visible_text};
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::model::{ScriptedAnswer, calls, queue, says};
use serde_json::json;
use std::time::{Duration, Instant};

const ALICE: &str = "U0ALICE";
const LIBRARY: &str = "lib/app.libsonnet";

fn edit(old: &str, new: &str) -> ScriptedAnswer {
    calls("file_edit", json!({ "path": LIBRARY, "old": old, "new": new }))
}

/// TK-79, TK-80: every environment that uses the file is rendered before the answer is sent.
#[tokio::test]
async fn an_environment_that_does_not_render_any_more_goes_back_to_the_model() {
    let app = TestApp::new(queue([
        edit("memoryMi:: 128,", "memoryMi:: error 'no default',"),
        says("There is no default any more."),
        edit("memoryMi:: error 'no default',", "memoryMi:: 192,"),
        says("The default is 192Mi."),
    ]))
    .await;
    app.admit_slack_editor(ALICE).await;
    let result = app.ask(ALICE, "raise the default memory").await;
    assert!(
        result
            .text
            .contains("CHG-1 is ready: 3 environments, 1 file, +1 −1"),
        "{}",
        result.text
    );
    assert!(result.text.contains("The default is 192Mi."), "{}", result.text);
    assert!(
        !result.text.contains("There is no default any more."),
        "{}",
        result.text
    );
    assert!(result.text.contains("4 steps"), "{}", result.text);
    let asked = app.demo.model.requests();
    let remark = asked[2].messages.last().unwrap().text.clone();
    for environment in ["dev", "staging", "prod"] {
        let fails = format!("every affected environment renders: no, `environments/{environment}`: ");
        assert!(remark.contains(&fails), "{remark}");
    }
    assert!(remark.contains("no default"), "{remark}");
    assert_eq!(app.column("SELECT verdict FROM turn"), ["pass"]);
    assert_eq!(app.column("SELECT source FROM turn"), ["verified"]);
}

/// TK-40, TK-80: the model sees a difference as soon as one engine has rendered it. The turn still fails if the other
/// engine has another value.
#[tokio::test]
async fn a_difference_shown_early_still_has_to_pass_the_cross_check() {
    // One engine allows for a tiny difference between numbers, and the other one does not.
    let disputed = "memoryMi:: if std.member([0.1 + 0.2], 0.3) then 192 else 128,";
    let app = TestApp::new(queue([
        edit("memoryMi:: 128,", disputed),
        calls("tanka_diff", json!({ "env_path": "." })),
        says("It is 192Mi."),
        edit(disputed, "memoryMi:: 192,"),
        says("The default is 192Mi."),
    ]))
    .await;
    app.admit_slack_editor(ALICE).await;
    let result = app.ask(ALICE, "raise the default memory").await;
    let asked = app.demo.model.requests();
    let shown = asked[2].last_results()[0].content.clone();
    for expected in [
        "192Mi",
        "– both engines agree: the second engine runs before this counts as checked",
    ] {
        assert!(shown.contains(expected), "no `{expected}` in {shown}");
    }
    let remark = asked[3].messages.last().unwrap().text.clone();
    assert!(remark.contains("the two engines disagree at"), "{remark}");
    assert!(remark.contains("both engines agree: no"), "{remark}");
    assert!(result.text.contains("The default is 192Mi."), "{}", result.text);
    assert!(!result.text.contains("It is 192Mi."), "{}", result.text);
    assert_eq!(app.column("SELECT verdict FROM turn"), ["pass"]);
}

#[tokio::test]
async fn a_change_the_model_cannot_repair_is_shown_with_its_failing_check() {
    let app = TestApp::new(queue([
        edit("memoryMi:: 128,", "memoryMi:: 128 +,"),
        says("Done."),
        edit("memoryMi:: 128 +,", "memoryMi:: 128 -,"),
        says("Done now."),
        edit("memoryMi:: 128 -,", "memoryMi:: 128 /,"),
        says("Done at last."),
        edit("memoryMi:: 128 /,", "memoryMi:: 128 *,"),
        says("I do not know how to mend it."),
    ]))
    .await;
    app.admit_slack_editor(ALICE).await;
    let result = app.ask(ALICE, "raise the default memory").await;
    for expected in [
        "CHG-1 is not ready: 2 of 6 checks fail",
        "I do not know how to mend it.",
        "A check of mine still fails after 3 attempts to fix it.",
        "every changed Jsonnet file parses",
        "lib/app.libsonnet:13:",
        "+    memoryMi:: 128 *,",
    ] {
        assert!(
            result.text.contains(expected),
            "no `{expected}` in {}",
            result.text
        );
    }
    assert_eq!(app.column("SELECT verdict FROM turn"), ["fail"]);
    assert_eq!(app.demo.model.requests().len(), 8);
}

#[tokio::test]
async fn an_operator_may_have_nothing_sent_back() {
    let script = queue([edit("memoryMi:: 128,", "memoryMi:: 128 +,"), says("Done.")]);
    let app = TestApp::with_settings(script, &[("limits.repairs_max", "0")]).await;
    app.admit_slack_editor(ALICE).await;
    let result = app.ask(ALICE, "raise the default memory").await;
    let reported = "A check of mine fails.";
    assert!(
        result.text.contains(reported) && result.text.contains("Done."),
        "{}",
        result.text
    );
    assert_eq!(app.demo.model.requests().len(), 2);
}

/// T48: a person stops a turn while environments are rendered, and is answered at once.
#[tokio::test]
async fn a_stop_ends_the_rendering_and_the_answer_says_so() {
    let endless = "memoryMi:: std.foldl(function(a, i) a + i, std.range(0, 1e9), 0),";
    let app = TestApp::new(queue([
        edit("memoryMi:: 128,", endless),
        says("It is computed now."),
    ]))
    .await;
    app.admit_slack_editor(ALICE).await;
    let said = app.say(ALICE, "compute the default memory").await;
    let rendering = app.demo.slack.wait_until(|state| {
        let mut replies = state.replies(SLACK_CHANNEL, &said.ts);
        replies
            .any(|message| visible_text(message).contains("Checking the change"))
            .then_some(())
    });
    assert!(
        rendering.await.is_some(),
        "no card says that the change is checked"
    );
    let stopped = Instant::now();
    app.say_in(ALICE, &said.ts, "!stop").await;
    let result = app.wait_for_result(&said.ts, 1).await;
    assert!(
        stopped.elapsed() < Duration::from_secs(3),
        "{:?}",
        stopped.elapsed()
    );
    for expected in [
        "CHG-1 is not finished: 1 file, +1 −1",
        "It is computed now.",
        "the comparison was stopped",
    ] {
        assert!(
            result.text.contains(expected),
            "no `{expected}` in {}",
            result.text
        );
    }
    assert_eq!(app.column("SELECT verdict FROM turn"), ["incomplete"]);
}

/// R23: an answer whose checks are cut short by a stop of the server is not kept, but its cost still counts.
#[tokio::test]
async fn an_answer_that_a_stop_of_the_server_cut_short_is_paid() {
    let endless = "memoryMi:: std.foldl(function(a, i) a + i, std.range(0, 1e9), 0),";
    let answers = [
        edit("memoryMi:: 128,", endless),
        says("It is computed now."),
        says("It is still computed."),
    ];
    let mut app = TestApp::new(queue(answers)).await;
    app.admit_slack_editor(ALICE).await;
    let said = app.say(ALICE, "compute the default memory").await;
    let checking = app.demo.slack.wait_until(|state| {
        let mut replies = state.replies(SLACK_CHANNEL, &said.ts);
        replies
            .any(|message| visible_text(message).contains("Checking the change"))
            .then_some(())
    });
    assert!(
        checking.await.is_some(),
        "no card says that the change is checked"
    );
    app.restart().await;
    let paid = app.column("SELECT model FROM usage WHERE turn = 1");
    assert_eq!(paid.len(), 2, "{paid:?}");
    assert_eq!(app.column("SELECT verdict FROM turn WHERE id = 1"), ["cancelled"]);
    app.wait_for_model_requests(3).await;
    app.say_in(ALICE, &said.ts, "!stop").await;
    let result = app.wait_for_result(&said.ts, 1).await;
    assert!(result.text.contains("is not finished"), "{}", result.text);
}
