//! A full queue, with more messages than may wait: each that is acknowledged is carried out or refused aloud.

use super::Cx;
use super::directed::Stage;
use crate::tally::Tally;
use crate::world::{Plan, World};

const WAITING_MAX: usize = 3;
const MESSAGES: usize = 9;

pub(super) async fn run(cx: &Cx<'_>) -> anyhow::Result<Tally> {
    let plan = Plan {
        limits: "waiting_messages_max = 3",
        ..cx.plan(cx.binary())
    };
    let mut stage = Stage::of(World::start_with_people(plan).await?);
    for _ in 0..cx.lane().either(1, 5) {
        let mut talk = stage.talk();
        let first = talk.task(2);
        stage.world.model.hold(&first, 0);
        let held = stage.world.model.held();
        talk.ask(first).await;
        if !stage.world.model.holds(held + 1).await {
            talk.violated("the model was not asked");
        }
        for _ in 1..MESSAGES {
            talk.ask(talk.task(1)).await;
        }
        stage.world.kill().await;
        stage.world.model.let_go();
        stage.world.start().await?;
        talk.ends_with_its_patch().await;
        let refused = talk.read().refusals.len();
        if refused != MESSAGES - 1 - WAITING_MAX && cx.bug.is_none() {
            talk.violated(&format!("{refused} messages were refused"));
        }
        stage.talks.push(talk);
    }
    Ok(stage.close(cx).await)
}
