//! Failures of Slack: answers that are lost after the effect, rate limits, and ten minutes without an answer.

use super::ScenarioContext;
use super::directed::DirectedTestbed;
use crate::conversation::{CommandInput, UserConversation};
use crate::explain::CommandKind;
use crate::tally::Tally;
use crate::testbed::{Testbed, TestbedOptions, step_slack_clock};
use drydock::simulation::emulator::slack::SlackFault;
use fastrand::Rng;
use std::sync::Arc;
use std::time::Duration;

/// The methods of the Web API that a bot's answers use.
const METHODS: [&str; 8] = [
    "chat.postMessage",
    "chat.update",
    "chat.postEphemeral",
    "conversations.replies",
    "conversations.history",
    "reactions.add",
    "files.getUploadURLExternal",
    "files.completeUploadExternal",
];
/// A number of failures greater than the number of calls during an outage.
const FOREVER: usize = 10_000;

/// P3: a post whose answer is lost is still shown once.
pub(super) async fn lost(cx: &ScenarioContext<'_>) -> anyhow::Result<Tally> {
    let mut rng = Rng::with_seed(cx.seed);
    let mut directed = DirectedTestbed::build(cx, cx.binary()).await?;
    let mut faults = 0;
    for _ in 0..cx.lane().either(3, 60) {
        let mut talk = directed.start_conversation();
        for _ in 0..3 {
            faults += disturb(&directed.testbed, &mut rng);
            talk.ask(talk.task(2)).await;
            talk.until_answered().await;
        }
        faults += disturb(&directed.testbed, &mut rng);
        talk.command(CommandKind::Patch, CommandInput::Text).await;
        talk.until_commands_are_answered().await;
        METHODS
            .iter()
            .for_each(|method| directed.testbed.slack.recover(method));
        talk.check_final_patch().await;
        directed.talks.push(talk);
    }
    let mut tally = directed.close(cx).await;
    tally.faults = faults;
    Ok(tally)
}

fn disturb(world: &Testbed, rng: &mut Rng) -> usize {
    let method = [
        "chat.postMessage",
        "chat.postMessage",
        "files.completeUploadExternal",
        "chat.update",
    ];
    let method = method[rng.usize(..method.len())];
    let fault = match rng.u8(0..3) {
        0 => SlackFault::ResetBefore,
        1 => SlackFault::Status {
            status: 503,
            retry_after_seconds: None,
        },
        _ => SlackFault::ResetAfter,
    };
    world.note(&format!("the next {method}: {fault:?}"));
    world.slack.fail_next(method, 1, fault);
    1
}

/// R17: rate limits delay answers and lose none.
pub(super) async fn storm(cx: &ScenarioContext<'_>) -> anyhow::Result<Tally> {
    const LIMITED: usize = 36;
    const TALKS: usize = 3;
    let mut directed = DirectedTestbed::build(cx, cx.binary()).await?;
    let limit = SlackFault::Status {
        status: 429,
        retry_after_seconds: Some(1),
    };
    let mut talks: Vec<UserConversation> = (0..TALKS).map(|_| directed.start_conversation()).collect();
    directed
        .testbed
        .slack
        .fail_next("chat.postMessage", LIMITED, limit);
    for talk in &mut talks {
        talk.ask(talk.task(1)).await;
    }
    for mut talk in talks {
        talk.check_final_patch().await;
        directed.talks.push(talk);
    }
    let mut tally = directed.close(cx).await;
    tally.faults = LIMITED;
    Ok(tally)
}

/// P2: an outage of ten minutes loses nothing.
pub(super) async fn down(cx: &ScenarioContext<'_>) -> anyhow::Result<Tally> {
    const SECONDS: i64 = 600;
    const STEP: usize = 20;
    let Some(binary) = cx.points() else {
        return Ok(cx.needs_points());
    };
    let (mut directed, clock) = with_clock(cx.plan(binary)).await?;
    let faults = [
        SlackFault::ResetBefore,
        SlackFault::Status {
            status: 503,
            retry_after_seconds: None,
        },
    ];
    // One is enough to find a planted defect.
    let kinds = if cx.bug.is_some() { 1 } else { faults.len() };
    for fault in faults.into_iter().take(kinds) {
        let world = Arc::clone(&directed.testbed);
        let mut talk = directed.start_conversation();
        talk.ask(talk.task(2)).await;
        talk.until_answered().await;
        METHODS
            .iter()
            .for_each(|method| world.slack.fail_next(method, FOREVER, fault.clone()));
        world.note(&format!("Slack is down: {fault:?}"));
        talk.ask(talk.task(2)).await;
        // Another person writes all the time, which wakes the delivery.
        let mut other = directed.start_conversation();
        other.ask(other.task(1)).await;
        for seconds in (0..=SECONDS).step_by(STEP) {
            clock.step(seconds)?;
            step_slack_clock(seconds);
            other.command(CommandKind::Status, CommandInput::Text).await;
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        METHODS.iter().for_each(|method| world.slack.recover(method));
        world.note("Slack is back");
        // Waits that began during the outage are over.
        clock.step(SECONDS * 2)?;
        step_slack_clock(SECONDS * 2);
        for mut talk in [talk, other] {
            talk.ask(talk.task(1)).await;
            talk.check_final_patch().await;
            directed.talks.push(talk);
        }
        clock.step(0)?;
        step_slack_clock(0);
    }
    let mut tally = directed.close(cx).await;
    tally.faults = kinds;
    Ok(tally)
}

/// The clock of the program, in a build that allows stepping it.
pub(super) struct ProgramClock(std::path::PathBuf);

impl ProgramClock {
    /// Creates the clock of a testbed whose program was not started yet.
    pub(super) fn for_testbed(world: &Testbed) -> Self {
        let file = world.directory().join("clock");
        world.set_variable("DRYDOCK_CLOCK_OFFSET", file.to_str());
        Self(file)
    }

    pub(super) fn step(&self, seconds: i64) -> anyhow::Result<()> {
        // A rename is atomic, so a reader never sees half of a number.
        let new = self.0.with_extension("new");
        std::fs::write(&new, seconds.to_string())?;
        Ok(std::fs::rename(new, &self.0)?)
    }
}

/// Builds a testbed with people and a program whose clock can be stepped.
pub(super) async fn with_clock(plan: TestbedOptions) -> anyhow::Result<(DirectedTestbed, ProgramClock)> {
    let world = Testbed::build(plan).await?;
    let clock = ProgramClock::for_testbed(&world);
    world.start().await?;
    world.invite_all().await?;
    Ok((DirectedTestbed::new(world), clock))
}
