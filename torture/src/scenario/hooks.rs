//! Events of hooks: each acknowledged event is carried out and reported once, even if more arrive than may wait and the
//! process ends in the meantime.

use super::ScenarioContext;
use crate::hook::{HookEvent, HookSender};
use crate::tally::Tally;
use crate::task::Task;
use crate::testbed::{HOOK_CHANNEL, Testbed, TestbedOptions};
use drydock::simulation::emulator::slack::SlackState;
use fastrand::Rng;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) async fn run(cx: &ScenarioContext<'_>) -> anyhow::Result<Tally> {
    let plan = TestbedOptions {
        people: 0,
        limits: "waiting_events_max = 3\nturns_at_once_max = 2",
        slowest_answer: Duration::from_millis(120),
        ..cx.plan(cx.binary())
    };
    let mut rng = Rng::with_seed(cx.seed);
    let world = Arc::new(Testbed::build(plan).await?);
    world.start().await?;
    let events = cx.lane().either(12, 120);
    let tasks: Vec<Task> = (1..=events)
        .map(|id| Task {
            id,
            conversation: id,
            steps: 2,
        })
        .collect();
    let mut sending = tokio::task::JoinSet::new();
    for task in tasks.clone() {
        let sender = if rng.bool() {
            HookSender::Github
        } else {
            HookSender::Generic
        };
        let copies = 1 + usize::from(rng.u8(..) < 60);
        let id = task.id;
        sending.spawn({
            let world = Arc::clone(&world);
            async move {
                let event = HookEvent::of_task(sender, &task);
                event.send_until_acknowledged(&world, copies).await
            }
        });
        if id % 10 == 0 {
            tokio::time::sleep(Duration::from_millis(rng.u64(0..400))).await;
            world.kill().await;
            world.start().await?;
        }
    }
    let mut refused = 0;
    while let Some(sent) = sending.join_next().await {
        refused += sent?;
    }
    world.note(&format!("{refused} times an event was refused"));
    check_all_reported(&world, &tasks).await;
    let mut tally = cx.close(world, Vec::new()).await;
    tally.faults = refused;
    Ok(tally)
}

/// Checks that each event is reported once, or reported as given up. The program allows a message three crashes.
async fn check_all_reported(world: &Testbed, tasks: &[Task]) {
    let reported = |task: &Task| {
        let count = |state: &SlackState| {
            in_channel(state)
                .filter(|text| text.contains(&task.done()))
                .count()
        };
        world.slack.with_state(count)
    };
    let untold = || tasks.iter().filter(|task| reported(task) == 0).count();
    let asked = Instant::now();
    while untold() > world.slack.with_state(refusals) && asked.elapsed() < world.patience {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for task in tasks {
        let reported = reported(task);
        if reported > 1 {
            world.report_violation(format!(
                "the event of task {} was reported {reported} times",
                task.id
            ));
        }
    }
    let (untold, refusals) = (untold(), world.slack.with_state(refusals));
    if untold != refusals {
        world.report_violation(format!(
            "{untold} events were given up, and {refusals} of them with a report"
        ));
    }
}

fn refusals(state: &SlackState) -> usize {
    let refusals = in_channel(state).filter(|text| crate::slack_thread::is_refusal(text));
    refusals.count()
}

fn in_channel(state: &SlackState) -> impl Iterator<Item = String> {
    let messages = state.messages.iter();
    let messages = messages.filter(|message| message.channel == HOOK_CHANNEL);
    messages.map(crate::slack_thread::shown)
}
