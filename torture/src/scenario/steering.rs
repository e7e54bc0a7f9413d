//! Messages that reach a running turn, and ends of the process around the transaction that takes them. Each is in the
//! requests of the model once, and one answer covers it.

use super::ScenarioContext;
use super::directed::{DirectedTestbed, restart_after_crash, restart_to_crash};
use crate::conversation::UserConversation;
use crate::tally::Tally;
use fastrand::Rng;
use std::time::Duration;

/// The time that the first answer takes, in which the message arrives.
const SLOW: Duration = Duration::from_millis(800);

pub(super) async fn run(cx: &ScenarioContext<'_>) -> anyhow::Result<Tally> {
    let mut tally = Tally::default();
    if let Some(points) = cx.points() {
        let mut directed = DirectedTestbed::build(cx, points).await?;
        for point in ["steer:before:1", "steer:after:1"] {
            let mut talk = directed.start_conversation();
            restart_to_crash(&directed.testbed, point).await?;
            let note = steered(&mut talk).await;
            restart_after_crash(&directed.testbed).await?;
            check_noted(&mut talk, note).await;
            directed.talks.push(talk);
        }
        tally.add(directed.close(cx).await);
    }
    let mut rng = Rng::with_seed(cx.seed);
    let mut directed = DirectedTestbed::build(cx, cx.binary()).await?;
    for _ in 0..cx.lane().either(3, 30) {
        let mut talk = directed.start_conversation();
        let note = steered(&mut talk).await;
        tokio::time::sleep(Duration::from_millis(rng.u64(0..1_200))).await;
        directed.testbed.kill().await;
        directed.testbed.start().await?;
        check_noted(&mut talk, note).await;
        directed.talks.push(talk);
    }
    tally.add(directed.close(cx).await);
    Ok(tally)
}

/// Requests a task, and sends a note while the model works on its first step.
async fn steered(talk: &mut UserConversation) -> u32 {
    let task = talk.task(3);
    talk.testbed.model.slow_down(&task, 0, SLOW);
    let asked = talk.testbed.model.emulator.requests().len();
    talk.ask(task).await;
    let model = &talk.testbed.model.emulator;
    for _ in 0..1_000 {
        if model.requests().len() > asked {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    talk.steer().await
}

async fn check_noted(talk: &mut UserConversation, note: u32) {
    talk.until_answered().await;
    let noted = format!("Noted {note}.");
    let results = talk.read().results;
    let count = results.iter().filter(|result| result.contains(&noted)).count();
    if count != 1 {
        talk.report_violation(&format!("{count} answers cover note {note}"));
    }
    talk.check_final_patch().await;
}
