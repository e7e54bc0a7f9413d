//! The clock of the machine jumps while turns run and answers wait. Slack's clock stays right, so events are refused as
//! stale in the meantime, which is no acknowledgement. Messages acknowledged before must still get their outcome.

use super::ScenarioContext;
use super::outage::with_clock;
use crate::tally::Tally;
use crate::testbed::TestbedOptions;
use drydock::simulation::emulator::slack::SlackFault;
use std::time::Duration;

const HOUR: i64 = 3_600;

pub(super) async fn run(cx: &ScenarioContext<'_>) -> anyhow::Result<Tally> {
    let Some(binary) = cx.points() else {
        return Ok(cx.needs_points());
    };
    let plan = TestbedOptions {
        slowest_answer: Duration::from_millis(200),
        ..cx.plan(binary)
    };
    let (mut directed, clock) = with_clock(plan).await?;
    let in_1970 = -jiff::Timestamp::now().as_second();
    let steps = [2 * HOUR, -2 * HOUR, 24 * HOUR, -24 * HOUR, in_1970];
    for seconds in steps {
        // The clock jumps in the middle of a turn, and back.
        let mut talk = directed.start_conversation();
        talk.ask(talk.task(3)).await;
        talk.ask(talk.task(1)).await;
        directed.testbed.note(&format!("the clock jumps by {seconds} s"));
        clock.step(seconds)?;
        talk.until_answered().await;
        directed.testbed.note("the clock is right");
        clock.step(0)?;
        talk.check_final_patch().await;
        directed.talks.push(talk);

        // The clock jumps while an answer cannot be sent. The retry must not wait for a time that is days away.
        let mut talk = directed.start_conversation();
        talk.ask(talk.task(3)).await;
        clock.step(seconds)?;
        let unreachable = SlackFault::Status {
            status: 503,
            retry_after_seconds: None,
        };
        directed
            .testbed
            .slack
            .fail_next("chat.postMessage", 100, SlackFault::ResetBefore);
        directed.testbed.slack.fail_next("chat.update", 100, unreachable);
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        directed.testbed.note("the clock is right, and Slack answers");
        clock.step(0)?;
        directed.testbed.slack.recover("chat.postMessage");
        directed.testbed.slack.recover("chat.update");
        talk.check_final_patch().await;
        directed.talks.push(talk);

        // The clock jumps while Slack accepts a post and the answer is lost. The post is found, whatever its apparent
        // time.
        let mut talk = directed.start_conversation();
        talk.ask(talk.task(3)).await;
        clock.step(seconds)?;
        directed
            .testbed
            .slack
            .fail_next("chat.postMessage", 1, SlackFault::ResetAfter);
        talk.until_answered().await;
        directed.testbed.note("the clock is right");
        clock.step(0)?;
        directed.testbed.slack.recover("chat.postMessage");
        talk.check_final_patch().await;
        directed.talks.push(talk);

        // The program starts with a wrong clock.
        let mut talk = directed.start_conversation();
        talk.ask(talk.task(3)).await;
        clock.step(seconds)?;
        directed.testbed.kill().await;
        directed.testbed.start().await?;
        talk.until_answered().await;
        clock.step(0)?;
        talk.check_final_patch().await;
        directed.talks.push(talk);
    }
    let mut tally = directed.close(cx).await;
    tally.faults = steps.len() * 4;
    Ok(tally)
}
