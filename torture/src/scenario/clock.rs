//! The clock of the machine jumps while turns run and answers wait. Slack's stays right, so events are refused as
//! stale while it is wrong, which is no acknowledgement; what was acknowledged before has its end all the same.

use super::Cx;
use super::outage::with_clock;
use crate::tally::Tally;
use crate::world::Plan;
use drydock::emulator::slack::Fault;
use std::time::Duration;

const HOUR: i64 = 3_600;

pub(super) async fn run(cx: &Cx<'_>) -> anyhow::Result<Tally> {
    let Some(binary) = cx.points() else {
        return Ok(cx.needs_points());
    };
    let plan = Plan {
        slowest_answer: Duration::from_millis(200),
        ..cx.plan(binary)
    };
    let (mut stage, clock) = with_clock(plan).await?;
    let in_1970 = -jiff::Timestamp::now().as_second();
    let steps = [2 * HOUR, -2 * HOUR, 24 * HOUR, -24 * HOUR, in_1970];
    for seconds in steps {
        // In the middle of a turn, there and back.
        let mut talk = stage.talk();
        talk.ask(talk.task(3)).await;
        talk.ask(talk.task(1)).await;
        stage.world.note(&format!("the clock jumps by {seconds} s"));
        clock.step(seconds)?;
        talk.until_answered().await;
        stage.world.note("the clock is right");
        clock.step(0)?;
        talk.ends_with_its_patch().await;
        stage.talks.push(talk);

        // While an answer could not be sent: it waits for no time that will not come for days.
        let mut talk = stage.talk();
        talk.ask(talk.task(3)).await;
        clock.step(seconds)?;
        let unreachable = Fault::Status {
            status: 503,
            retry_after_seconds: None,
        };
        stage
            .world
            .slack
            .fail_next("chat.postMessage", 100, Fault::ResetBefore);
        stage.world.slack.fail_next("chat.update", 100, unreachable);
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        stage.world.note("the clock is right, and Slack answers");
        clock.step(0)?;
        stage.world.slack.recover("chat.postMessage");
        stage.world.slack.recover("chat.update");
        talk.ends_with_its_patch().await;
        stage.talks.push(talk);

        // While Slack takes a post, and the answer to it is lost: it is found whenever it seems to have been sent.
        let mut talk = stage.talk();
        talk.ask(talk.task(3)).await;
        clock.step(seconds)?;
        stage
            .world
            .slack
            .fail_next("chat.postMessage", 1, Fault::ResetAfter);
        talk.until_answered().await;
        stage.world.note("the clock is right");
        clock.step(0)?;
        stage.world.slack.recover("chat.postMessage");
        talk.ends_with_its_patch().await;
        stage.talks.push(talk);

        // A start under a wrong clock.
        let mut talk = stage.talk();
        talk.ask(talk.task(3)).await;
        clock.step(seconds)?;
        stage.world.kill().await;
        stage.world.start().await?;
        talk.until_answered().await;
        clock.step(0)?;
        talk.ends_with_its_patch().await;
        stage.talks.push(talk);
    }
    let mut tally = stage.close(cx).await;
    tally.faults = steps.len() * 4;
    Ok(tally)
}
