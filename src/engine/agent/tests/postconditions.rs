//! Tests that the loop itself checks the files before a turn ends as done.

use super::fixture::{ScriptedPostconditions, TurnFixture};
use super::{READ_A, notice, write};
use crate::base::model::{History, Verdict, VerdictSource};
use crate::engine::agent::TurnEvent;
use crate::interfaces::provider::scripted::{ScriptedProvider, says};
use crate::rendering::change_checks::CheckOutcome;
use crate::rendering::compare::CompareProgress;
use std::sync::atomic::Ordering;
use std::time::Duration;

fn fails(what: &str) -> CheckOutcome {
    CheckOutcome::Failed(vec![what.to_owned()])
}

/// TK-79, TK-80, REP-2
#[tokio::test]
async fn an_answer_goes_back_to_the_model_until_its_edits_hold() {
    let mut fixture = TurnFixture::new();
    fixture.postconditions = ScriptedPostconditions::finding([
        fails("every affected environment renders: no, `dev`"),
        CheckOutcome::Passed,
    ]);
    let model = ScriptedProvider::new([
        write("1", "a.txt", "broken\n"),
        says("All done."),
        write("2", "a.txt", "mended\n"),
        says("Done, after one repair."),
    ]);
    let mut history = History::default();
    let ran = fixture.run_on(&model, &mut history, Default::default()).await;
    let outcome = ran.outcome();
    assert_eq!(
        (outcome.verdict, outcome.source),
        (Verdict::Pass, VerdictSource::Verified)
    );
    assert_eq!(
        (outcome.answer.as_str(), outcome.steps),
        ("Done, after one repair.", 4)
    );
    // The remark is what the model read, is at its place in the conversation, and was recorded.
    let steps = history.turns()[0].steps();
    let remarks: Vec<_> = steps.iter().map(|step| step.remark().is_some()).collect();
    assert_eq!(remarks, [false, true, false, false]);
    let remark = steps[1].remark().unwrap();
    assert!(
        remark.contains("- every affected environment renders: no, `dev`\n"),
        "{remark}"
    );
    assert_eq!(ran.steps[1].remark(), Some(remark));
    let checking = TurnEvent::Checking(CompareProgress { done: 1, total: 2 });
    assert_eq!(ran.events.iter().filter(|event| **event == checking).count(), 2);
    let sent_back = |event: &&TurnEvent| matches!(event, TurnEvent::SentBack { .. });
    assert_eq!(ran.events.iter().filter(sent_back).count(), 1);
}

/// REP-2
#[tokio::test]
async fn repairs_are_bounded_and_then_the_person_gets_it_as_it_is() {
    let mut fixture = TurnFixture::new();
    fixture.postconditions = ScriptedPostconditions::finding(["one", "one", "one", "one", "one"].map(fails));
    let model = ScriptedProvider::new([
        write("1", "a.txt", "1\n"),
        says("Done."),
        write("2", "a.txt", "2\n"),
        says("Done now."),
        write("3", "a.txt", "3\n"),
        says("Done at last."),
        write("4", "a.txt", "4\n"),
        says("I cannot mend it."),
    ]);
    let ran = fixture.run(&model).await;
    let outcome = ran.outcome();
    assert_eq!(
        (outcome.verdict, outcome.source),
        (Verdict::Fail, VerdictSource::Verified)
    );
    assert_eq!(outcome.answer, "I cannot mend it.");
    assert_eq!(
        notice(&ran),
        "A check of mine still fails after 3 attempts to fix it."
    );
    assert_eq!(fixture.postconditions.checks.load(Ordering::Relaxed), 4);
}

#[tokio::test]
async fn a_model_that_answers_a_repair_without_edits_is_not_asked_again() {
    let mut fixture = TurnFixture::new();
    fixture.postconditions = ScriptedPostconditions::finding([fails("one"), fails("one"), fails("one")]);
    let model = ScriptedProvider::new([
        write("1", "a.txt", "1\n"),
        says("Done."),
        says("It is meant to be so."),
    ]);
    let ran = fixture.run(&model).await;
    assert_eq!((ran.outcome().verdict, ran.outcome().steps), (Verdict::Fail, 3));
    assert_eq!(ran.outcome().answer, "It is meant to be so.");
}

#[tokio::test]
async fn a_turn_without_edits_starts_no_repair() {
    let mut fixture = TurnFixture::new();
    fixture.postconditions = ScriptedPostconditions::finding([fails("one")]);
    let ran = fixture
        .run(&ScriptedProvider::new([
            super::calls(&[READ_A]),
            says("It says alpha."),
        ]))
        .await;
    assert_eq!((ran.outcome().verdict, ran.outcome().steps), (Verdict::Fail, 2));
    assert_eq!(notice(&ran), "A check of mine fails.");
}

#[tokio::test]
async fn without_repairs_left_or_steps_nothing_is_sent_back() {
    let turn = || [write("1", "a.txt", "1\n"), says("Done.")];
    let mut fixture = TurnFixture::new();
    fixture.limits.repairs_max = 0;
    fixture.postconditions = ScriptedPostconditions::finding([fails("one")]);
    assert_eq!(
        fixture
            .run(&ScriptedProvider::new(turn()))
            .await
            .outcome()
            .verdict,
        Verdict::Fail
    );
    fixture.reset();
    fixture.limits.repairs_max = 2;
    fixture.limits.steps_max = 2;
    fixture.postconditions = ScriptedPostconditions::finding([fails("one")]);
    assert_eq!(
        fixture
            .run(&ScriptedProvider::new(turn()))
            .await
            .outcome()
            .verdict,
        Verdict::Fail
    );
}

#[tokio::test]
async fn a_check_that_could_not_run_is_never_a_pass() {
    let mut fixture = TurnFixture::new();
    fixture.postconditions =
        ScriptedPostconditions::finding([CheckOutcome::Incomplete("it took more than 120 s".to_owned())]);
    let ran = fixture
        .run(&ScriptedProvider::new([
            write("1", "a.txt", "1\n"),
            says("Done."),
        ]))
        .await;
    let outcome = ran.outcome();
    assert_eq!(
        (outcome.verdict, outcome.source),
        (Verdict::Incomplete, VerdictSource::Harness)
    );
    assert_eq!(outcome.answer, "Done.");
    assert_eq!(
        notice(&ran),
        "I could not check all of this change: it took more than 120 s."
    );
}

#[tokio::test]
async fn an_unchanged_workspace_is_no_change() {
    let mut fixture = TurnFixture::new();
    fixture.postconditions = ScriptedPostconditions::finding([CheckOutcome::Unchanged]);
    let ran = fixture
        .run(&ScriptedProvider::new([says("Nothing to do.")]))
        .await;
    assert_eq!(
        (ran.outcome().verdict, &ran.outcome().notice),
        (Verdict::NoChange, &None)
    );
}

#[tokio::test(start_paused = true)]
async fn checks_end_when_the_turn_times_out_or_is_stopped() {
    let mut fixture = TurnFixture::new();
    fixture.postconditions.takes_forever = true;
    fixture.limits.turn_time_max = Duration::from_secs(30);
    let turn = || [write("1", "a.txt", "1\n"), says("Done.")];
    let ran = fixture.run(&ScriptedProvider::new(turn())).await;
    assert_eq!(
        (ran.outcome().verdict, ran.outcome().answer.as_str()),
        (Verdict::Incomplete, "Done.")
    );
    fixture.reset();
    let stop = fixture.cancel.clone();
    let model = ScriptedProvider::new(turn());
    let (ran, ()) = tokio::join!(fixture.run(&model), async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        stop.cancel();
    });
    assert_eq!(
        (ran.outcome().verdict, ran.outcome().answer.as_str()),
        (Verdict::Incomplete, "Done.")
    );
}
