//! Tests of the time limit of a turn, and of stops.

use super::fixture::TurnFixture;
use super::notice;
use crate::base::model::Verdict;
use crate::interfaces::provider::scripted::{ScriptStep, ScriptedProvider, calls, says};
use crate::interfaces::tool::testing::{LateAdmission, late_write};
use std::time::Duration;
use tokio::time::Instant;

/// R28
#[tokio::test(start_paused = true)]
async fn a_model_or_a_tool_that_never_answers_ends_with_the_time_of_the_turn() {
    let mut fixture = TurnFixture::new();
    fixture.limits.turn_time_max = Duration::from_secs(600);
    let ran = fixture.run(&ScriptedProvider::new([ScriptStep::Stall])).await;
    assert_eq!(
        (ran.outcome().verdict, notice(&ran)),
        (Verdict::Limit, "I stopped after 600 s without an answer.")
    );
    let started = Instant::now();
    let ran = fixture
        .run(&ScriptedProvider::new([
            calls(&[("1", "hang", "")]),
            says("never"),
        ]))
        .await;
    assert_eq!(ran.outcome().verdict, Verdict::Limit);
    assert_eq!(ran.results(), [("stopped: the turn ran out of time", true)]);
    assert_eq!(started.elapsed().as_secs(), 600);
}

/// R28
#[tokio::test]
async fn a_call_that_ran_out_of_time_writes_nothing_afterwards() {
    let (tool, steps, go_on) = late_write(LateAdmission::AfterWait);
    let mut fixture = TurnFixture::new().with_tool(tool);
    fixture.limits.turn_time_max = Duration::from_secs(1);
    let model = ScriptedProvider::new([calls(&[("1", "late_write", "{}")]), says("never")]);
    let ran = fixture.run(&model).await;
    assert_eq!(ran.results(), [("stopped: the turn ran out of time", true)]);
    assert_eq!(ran.outcome().verdict, Verdict::Limit);
    go_on.send(()).unwrap();
    let _ended = steps.ended.acquire().await.unwrap();
    assert!(fixture.overlay.is_untouched(), "it wrote after its turn");
}

/// R28
#[tokio::test]
async fn a_write_that_has_begun_when_the_time_is_up_belongs_to_its_step() {
    for by_stop in [false, true] {
        let (tool, steps, go_on) = late_write(LateAdmission::BeforeWait);
        let mut fixture = TurnFixture::new().with_tool(tool);
        if !by_stop {
            fixture.limits.turn_time_max = Duration::from_secs(1);
        }
        let model = ScriptedProvider::new([calls(&[("1", "late_write", "{}")]), says("never")]);
        let running = fixture.run(&model);
        tokio::pin!(running);
        let begun = async {
            let _waits = steps.waits.acquire().await.unwrap();
            if by_stop {
                fixture.cancel.cancel();
            }
            // The sleep is longer than the time limit of the turn.
            tokio::time::sleep(Duration::from_millis(1_200)).await;
        };
        tokio::select! {
            _ = &mut running => panic!("the step ended before its write"),
            () = begun => {}
        }
        go_on.send(()).unwrap();
        let ran = running.await;
        assert!(ran.outcome.is_ok(), "{:?}", ran.outcome);
        assert!(!fixture.overlay.is_untouched(), "by_stop: {by_stop}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_call_of_an_answer_begins_after_the_time_is_up() {
    let mut fixture = TurnFixture::new();
    // The first call takes as long as the turn's time limit: both end at once.
    fixture.limits.turn_time_max = Duration::from_millis(100);
    let model = ScriptedProvider::new([
        calls(&[("1", "slow_write", ""), ("2", "slow_write", "")]),
        says("never"),
    ]);
    let ran = fixture.run(&model).await;
    assert_eq!(ran.outcome().verdict, Verdict::Limit);
    assert_eq!(ran.results()[1], ("stopped: the turn ran out of time", true));
    let begun = fixture
        .log
        .lock()
        .unwrap()
        .iter()
        .filter(|line| line.ends_with("begins"))
        .count();
    assert_eq!(begun, 1);
}

/// STK-43
#[tokio::test(start_paused = true)]
async fn a_stop_ends_a_stalled_model_and_a_hanging_tool_within_a_second() {
    for script in [
        vec![ScriptStep::Stall],
        vec![calls(&[("1", "hang", "")]), says("never")],
    ] {
        let fixture = TurnFixture::new();
        let cancel = fixture.cancel.clone();
        let model = ScriptedProvider::new(script);
        let stop = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            cancel.cancel();
            Instant::now()
        };
        let (ran, stopped_at) = tokio::join!(fixture.run(&model), stop);
        assert!(stopped_at.elapsed() < Duration::from_secs(1));
        assert_eq!(
            (ran.outcome().verdict, notice(&ran)),
            (Verdict::Cancelled, "Stopped at step 1.")
        );
    }
}

#[tokio::test]
async fn a_stop_before_the_first_step_asks_nobody() {
    let fixture = TurnFixture::new();
    fixture.cancel.cancel();
    let model = ScriptedProvider::new([says("never")]);
    let ran = fixture.run(&model).await;
    assert_eq!(
        (ran.outcome().verdict, model.requests().len(), notice(&ran)),
        (Verdict::Cancelled, 0, "Stopped before the first step.")
    );
}
