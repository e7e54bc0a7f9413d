//! A full queue, with more messages than may wait: each acknowledged message is carried out, or refused with a notice.

use super::ScenarioContext;
use super::directed::DirectedTestbed;
use crate::tally::Tally;
use crate::testbed::{Testbed, TestbedOptions};

const WAITING_MAX: usize = 3;
const MESSAGES: usize = 9;

pub(super) async fn run(cx: &ScenarioContext<'_>) -> anyhow::Result<Tally> {
    let plan = TestbedOptions {
        limits: "waiting_messages_max = 3",
        ..cx.plan(cx.binary())
    };
    let mut directed = DirectedTestbed::new(Testbed::start_with_people(plan).await?);
    for _ in 0..cx.lane().either(1, 5) {
        let mut talk = directed.start_conversation();
        let first = talk.task(2);
        directed.testbed.model.hold(&first, 0);
        let held = directed.testbed.model.held();
        talk.ask(first).await;
        if !directed.testbed.model.wait_until_held(held + 1).await {
            talk.report_violation("the model was not called");
        }
        for _ in 1..MESSAGES {
            talk.ask(talk.task(1)).await;
        }
        directed.testbed.kill().await;
        directed.testbed.model.release();
        directed.testbed.start().await?;
        talk.check_final_patch().await;
        let refused = talk.read().refusals.len();
        if refused != MESSAGES - 1 - WAITING_MAX && cx.bug.is_none() {
            talk.report_violation(&format!("{refused} messages were refused"));
        }
        directed.talks.push(talk);
    }
    Ok(directed.close(cx).await)
}
