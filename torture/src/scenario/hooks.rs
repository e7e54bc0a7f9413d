//! Events of hooks: each that is acknowledged is carried out and told once, also when more come than may wait and the
//! process ends meanwhile.

use super::Cx;
use crate::hook::{self, Sender};
use crate::tally::Tally;
use crate::task::Task;
use crate::world::{HOOK_CHANNEL, Plan, World};
use drydock::emulator::slack::State;
use fastrand::Rng;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between two attempts of a sender.
const RESEND_AFTER: Duration = Duration::from_millis(150);
const ATTEMPTS_MAX: usize = 300;

pub(super) async fn run(cx: &Cx<'_>) -> anyhow::Result<Tally> {
    let plan = Plan {
        people: 0,
        limits: "waiting_events_max = 3\nturns_at_once_max = 2",
        slowest_answer: Duration::from_millis(120),
        ..cx.plan(cx.binary())
    };
    let mut rng = Rng::with_seed(cx.seed);
    let world = Arc::new(World::build(plan).await?);
    world.start().await?;
    let events = cx.lane().either(12, 120);
    let tasks: Vec<Task> = (1..=events)
        .map(|id| Task {
            id,
            talk: id,
            steps: 2,
        })
        .collect();
    let mut sending = tokio::task::JoinSet::new();
    for task in tasks.clone() {
        let sender = if rng.bool() {
            Sender::Github
        } else {
            Sender::Generic
        };
        let repeats = rng.u8(..) < 60;
        let id = task.id;
        sending.spawn({
            let world = Arc::clone(&world);
            async move { until_taken(&world, sender, &task, repeats).await }
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
    all_are_told(&world, &tasks).await;
    let mut tally = cx.close(world, Vec::new()).await;
    tally.faults = refused;
    Ok(tally)
}

/// Sends an event until it is acknowledged, and sometimes once more; answers how often it was refused.
async fn until_taken(world: &World, sender: Sender, task: &Task, repeats: bool) -> usize {
    for refused in 0..ATTEMPTS_MAX {
        world.is_up().await;
        match hook::send(world, sender, task).await {
            Some(200..=299) => {
                if repeats {
                    hook::send(world, sender, task).await;
                }
                return refused;
            }
            Some(503) | None => tokio::time::sleep(RESEND_AFTER).await,
            Some(status) => {
                world.violated(format!("an event was answered {status}"));
                return refused;
            }
        }
    }
    world.violated(format!("task {} of a hook was never taken", task.id));
    ATTEMPTS_MAX
}

/// Checks that each event is told once, or given up aloud: the program allows a message three crashes.
async fn all_are_told(world: &World, tasks: &[Task]) {
    let told = |task: &Task| {
        let count = |state: &State| {
            in_channel(state)
                .filter(|text| text.contains(&task.done()))
                .count()
        };
        world.slack.look(count)
    };
    let untold = || tasks.iter().filter(|task| told(task) == 0).count();
    let asked = Instant::now();
    while untold() > world.slack.look(refusals) && asked.elapsed() < world.patience {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for task in tasks {
        let told = told(task);
        if told > 1 {
            world.violated(format!("the event of task {} was told {told} times", task.id));
        }
    }
    let (untold, refusals) = (untold(), world.slack.look(refusals));
    if untold != refusals {
        world.violated(format!(
            "{untold} events were given up, and {refusals} of them aloud"
        ));
    }
}

fn refusals(state: &State) -> usize {
    let refusals = in_channel(state).filter(|text| crate::reading::is_refusal(text));
    refusals.count()
}

fn in_channel(state: &State) -> impl Iterator<Item = String> {
    let messages = state.messages.iter();
    let messages = messages.filter(|message| message.channel == HOOK_CHANNEL);
    messages.map(crate::reading::shown)
}
