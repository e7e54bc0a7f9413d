//! Questions of the model: asked once, answered once, and gone on with once, wherever the process ends.

use super::ScenarioContext;
use super::directed::{DirectedTestbed, restart_after_crash, restart_to_crash};
use crate::conversation::CommandInput;
use crate::model::CHOICE;
use crate::tally::Tally;
use fastrand::Rng;
use std::time::Duration;

/// The points at which the process ends, and whether the question has been answered by then.
const POINTS: [(&str, Ends); 6] = [
    ("ask:before", Ends::AsItAsks),
    ("ask:after", Ends::AsItAsks),
    ("reply:before", Ends::AsItIsAnswered),
    ("reply:after", Ends::AsItIsAnswered),
    ("answer:before", Ends::AsItIsAnswered),
    ("B22:before", Ends::AsItAsks),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    AsItAsks,
    AsItIsAnswered,
}

/// P4: a question is asked, answered and gone on with once.
pub(super) async fn run(cx: &ScenarioContext<'_>) -> anyhow::Result<Tally> {
    let mut tally = Tally::default();
    if let Some(binary) = cx.points() {
        let mut directed = DirectedTestbed::build(cx, binary).await?;
        for (point, ends) in POINTS {
            let mut talk = directed.start_conversation();
            let task = talk.task(3);
            directed.testbed.model.ask(&task, 1);
            if ends == Ends::AsItAsks {
                restart_to_crash(&directed.testbed, point).await?;
                talk.ask(task).await;
                restart_after_crash(&directed.testbed).await?;
                talk.answer_question(CommandInput::Button(CHOICE)).await;
            } else {
                restart_to_crash(&directed.testbed, point).await?;
                talk.ask(task).await;
                talk.answer_question(CommandInput::Button(CHOICE)).await;
                restart_after_crash(&directed.testbed).await?;
            }
            talk.until_answered().await;
            talk.check_question().await;
            talk.check_final_patch().await;
            directed.talks.push(talk);
        }
        tally.add(directed.close(cx).await);
    }
    if cx.bug.is_some() {
        return Ok(tally);
    }
    let mut rng = Rng::with_seed(cx.seed);
    let mut directed = DirectedTestbed::build(cx, cx.binary()).await?;
    for round in 0..cx.lane().either(4, 40) {
        let mut talk = directed.start_conversation();
        let task = talk.task(3);
        directed.testbed.model.ask(&task, rng.usize(0..3));
        talk.ask(task).await;
        if round % 2 == 0 {
            tokio::time::sleep(Duration::from_millis(rng.u64(0..200))).await;
            directed.testbed.kill().await;
            directed.testbed.start().await?;
        }
        let by = match rng.bool() {
            true => CommandInput::Button(CHOICE),
            false => CommandInput::Text,
        };
        talk.answer_question(by).await;
        tokio::time::sleep(Duration::from_millis(rng.u64(0..30))).await;
        directed.testbed.kill().await;
        directed.testbed.start().await?;
        talk.until_answered().await;
        talk.check_question().await;
        talk.check_final_patch().await;
        directed.talks.push(talk);
    }
    tally.add(directed.close(cx).await);
    Ok(tally)
}
