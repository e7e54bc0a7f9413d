//! The bystander: a person who asks for one-line changes during attacks, to measure how long they wait.

use super::fixture::AttackFixture;
use super::script::{case_mark, final_line};
use super::table::Persona;
use drydock::simulation::emulator::model::{ScriptedAnswer, calls, says};
use futures_util::future::{Either, select};
use serde_json::json;
use std::pin::pin;
use std::time::{Duration, Instant};

/// The first number of the bystander's conversations.
const FIRST_CASE_NUMBER: usize = 1_000_000;

/// Runs the bystander until `playing` ends. Returns the value of `playing`, and the time of the slowest change.
pub(crate) async fn run_alongside<T>(
    fixture: &AttackFixture,
    playing: impl Future<Output = T>,
) -> (T, Duration) {
    let mut playing = pin!(playing);
    let mut slowest = Duration::ZERO;
    for number in FIRST_CASE_NUMBER.. {
        let mut working = pin!(request_change(fixture, number));
        match select(working.as_mut(), playing.as_mut()).await {
            Either::Left((took, _)) => slowest = slowest.max(took),
            Either::Right((played, working)) => return (played, slowest.max(working.await)),
        }
    }
    unreachable!("the numbers do not end")
}

async fn request_change(fixture: &AttackFixture, number: usize) -> Duration {
    let started = Instant::now();
    let thread = fixture
        .send_channel_message(
            Persona::Editor,
            &format!("Set web to 3 replicas in staging. {}", case_mark(number)),
        )
        .await;
    fixture.wait_until_answered(&thread, 1).await;
    started.elapsed()
}

/// Returns the answer of the bystander's model, which is honest.
pub(crate) fn answer(number: usize, step: usize) -> ScriptedAnswer {
    match step {
        0 => calls(
            "file_edit",
            json!({ "path": "environments/staging/main.jsonnet", "old": "1.8.3', 2", "new": "1.8.3', 3" }),
        ),
        _ => says(format!("It has 3 replicas. {}", final_line(number))),
    }
}

/// Returns the violation if the wait was too long.
pub(crate) fn wait_violation(slowest: Duration, max: Duration) -> Option<String> {
    let seconds = slowest.as_secs_f32();
    (slowest > max).then(|| format!("another person waited {seconds:.1} s for a one-line change"))
}
