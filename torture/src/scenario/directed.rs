//! Directed ends of the process, one at a time, exactly between an effect and its answer.

use super::ScenarioContext;
use crate::conversation::{CommandInput, UserConversation};
use crate::explain::CommandKind;
use crate::tally::Tally;
use crate::task::Task;
use crate::testbed::{Testbed, person};
use fastrand::Rng;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// The longest time the program may take to reach a point that a message leads to.
pub(super) const POINT_MAX: Duration = Duration::from_secs(30);

/// A testbed with one person and one conversation after another.
pub(super) struct DirectedTestbed {
    pub(super) testbed: Arc<Testbed>,
    pub(super) talks: Vec<UserConversation>,
    begun: u32,
    ids: Arc<AtomicU32>,
}

impl DirectedTestbed {
    pub(super) async fn build(cx: &ScenarioContext<'_>, binary: std::path::PathBuf) -> anyhow::Result<Self> {
        Ok(Self::new(Testbed::start_with_people(cx.plan(binary)).await?))
    }

    pub(super) fn new(world: Testbed) -> Self {
        Self {
            testbed: Arc::new(world),
            talks: Vec::new(),
            begun: 0,
            ids: Arc::new(AtomicU32::new(1)),
        }
    }

    /// Begins another conversation.
    pub(super) fn start_conversation(&mut self) -> UserConversation {
        self.begun += 1;
        UserConversation::new(&self.testbed, self.begun, person(0), &self.ids)
    }

    pub(super) async fn close(self, cx: &ScenarioContext<'_>) -> Tally {
        cx.close(self.testbed, self.talks).await
    }
}

/// Restarts the program with a crash point, where it ends itself.
pub(super) async fn restart_to_crash(world: &Testbed, point: &str) -> anyhow::Result<()> {
    world.terminate().await;
    world.note(&format!("it is to end at {point}"));
    world.set_variable("DRYDOCK_CRASH", Some(point));
    world.start().await
}

/// Waits for the end at a point, and then starts the release build of the program.
pub(super) async fn restart_after_crash(world: &Testbed) -> anyhow::Result<()> {
    world.wait_for_exit(POINT_MAX).await?;
    world.set_variable("DRYDOCK_CRASH", None);
    world.start().await
}

/// P4: an undo reverts one message, wherever the process ends.
pub(super) async fn undo(cx: &ScenarioContext<'_>) -> anyhow::Result<Tally> {
    let mut tally = Tally::default();
    if let Some(points) = cx.points() {
        let mut directed = DirectedTestbed::build(cx, points).await?;
        for verb in [CommandKind::Undo, CommandKind::Discard] {
            let mut talk = two_tasks(&mut directed).await;
            restart_to_crash(&directed.testbed, "effect:after").await?;
            talk.command(verb, CommandInput::Text).await;
            restart_after_crash(&directed.testbed).await?;
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
    for _ in 0..cx.lane().either(3, 40) {
        let mut talk = two_tasks(&mut directed).await;
        // An undo renders more slowly in a program that has just started.
        directed.testbed.kill().await;
        directed.testbed.start().await?;
        talk.command(CommandKind::Undo, CommandInput::Text).await;
        tokio::time::sleep(Duration::from_millis(rng.u64(0..60))).await;
        directed.testbed.kill().await;
        directed.testbed.start().await?;
        talk.check_final_patch().await;
        directed.talks.push(talk);
    }
    tally.add(directed.close(cx).await);
    Ok(tally)
}

async fn two_tasks(directed: &mut DirectedTestbed) -> UserConversation {
    let mut talk = directed.start_conversation();
    for steps in [2, 3] {
        talk.ask(talk.task(steps)).await;
        talk.until_answered().await;
    }
    talk
}

/// P4: an undo reverts all of a message that was interrupted and resumed.
pub(super) async fn resumed(cx: &ScenarioContext<'_>) -> anyhow::Result<Tally> {
    let mut directed = DirectedTestbed::build(cx, cx.binary()).await?;
    for cut in 1..=cx.lane().either(2, 3) {
        let mut talk = directed.start_conversation();
        talk.ask(talk.task(2)).await;
        talk.until_answered().await;
        let task = talk.task(4);
        directed.testbed.model.hold(&task, cut);
        let held = directed.testbed.model.held();
        talk.ask(task).await;
        if !directed.testbed.model.wait_until_held(held + 1).await {
            talk.report_violation("the model was not called");
        }
        match cut % 2 {
            0 => directed.testbed.terminate().await,
            _ => directed.testbed.kill().await,
        }
        directed.testbed.model.release();
        directed.testbed.start().await?;
        talk.until_answered().await;
        talk.command(CommandKind::Undo, CommandInput::Text).await;
        talk.check_final_patch().await;
        directed.talks.push(talk);
    }
    Ok(directed.close(cx).await)
}

/// A stop that was acknowledged holds, wherever the process ends.
pub(super) async fn stop(cx: &ScenarioContext<'_>) -> anyhow::Result<Tally> {
    let mut tally = Tally::default();
    if let Some(points) = cx.points() {
        tally.add(stop_before_its_end(cx, points).await?);
    }
    if cx.bug.is_some() {
        return Ok(tally);
    }
    let mut rng = Rng::with_seed(cx.seed);
    let mut directed = DirectedTestbed::build(cx, cx.binary()).await?;
    for round in 0..cx.lane().either(4, 40) {
        let mut talk = directed.start_conversation();
        let task = talk.task(3);
        directed.testbed.model.hold(&task, 1);
        let held = directed.testbed.model.held();
        talk.ask(task.clone()).await;
        if !directed.testbed.model.wait_until_held(held + 1).await {
            talk.report_violation("the model was not called");
        }
        talk.command(CommandKind::Stop, CommandInput::Text).await;
        tokio::time::sleep(Duration::from_millis(if round == 0 { 0 } else { rng.u64(0..30) })).await;
        match rng.bool() {
            true => directed.testbed.kill().await,
            false => directed.testbed.terminate().await,
        }
        directed.testbed.model.release();
        directed.testbed.start().await?;
        check_stopped(&mut talk, &task).await;
        directed.talks.push(talk);
    }
    tally.add(directed.close(cx).await);
    Ok(tally)
}

/// Ends the process just before a stopped turn is recorded.
async fn stop_before_its_end(cx: &ScenarioContext<'_>, points: std::path::PathBuf) -> anyhow::Result<Tally> {
    let mut directed = DirectedTestbed::build(cx, points).await?;
    let mut talk = directed.start_conversation();
    let task = talk.task(3);
    restart_to_crash(&directed.testbed, "B18:before").await?;
    directed.testbed.model.hold(&task, 1);
    let held = directed.testbed.model.held();
    talk.ask(task.clone()).await;
    if !directed.testbed.model.wait_until_held(held + 1).await {
        talk.report_violation("the model was not called");
    }
    talk.command(CommandKind::Stop, CommandInput::Text).await;
    directed.testbed.wait_for_exit(POINT_MAX).await?;
    directed.testbed.model.release();
    directed.testbed.set_variable("DRYDOCK_CRASH", None);
    directed.testbed.start().await?;
    check_stopped(&mut talk, &task).await;
    directed.talks.push(talk);
    Ok(directed.close(cx).await)
}

async fn check_stopped(talk: &mut UserConversation, task: &Task) {
    talk.until_answered().await;
    let done = task.done();
    if talk.read().results.iter().any(|result| result.contains(&done)) {
        talk.report_violation("a message was carried out to its end after its stop was acknowledged");
    }
    talk.check_final_patch().await;
}

/// P4: a button press performs its action once.
pub(super) async fn buttons(cx: &ScenarioContext<'_>) -> anyhow::Result<Tally> {
    let mut rng = Rng::with_seed(cx.seed);
    let mut directed = DirectedTestbed::build(cx, cx.binary()).await?;
    for _ in 0..cx.lane().either(3, 30) {
        let mut talk = directed.start_conversation();
        for (verb, label) in [
            (CommandKind::Patch, "Get patch"),
            (CommandKind::Discard, "Discard"),
        ] {
            talk.ask(talk.task(2)).await;
            talk.until_answered().await;
            talk.command(verb, CommandInput::Button(label)).await;
            tokio::time::sleep(Duration::from_millis(rng.u64(0..4))).await;
            directed.testbed.kill().await;
            directed.testbed.start().await?;
            talk.until_commands_are_answered().await;
        }
        talk.check_final_patch().await;
        directed.talks.push(talk);
    }
    Ok(directed.close(cx).await)
}

/// B25: a person who redeems an invite is admitted and welcomed once.
pub(super) async fn invites(cx: &ScenarioContext<'_>) -> anyhow::Result<Tally> {
    let mut tally = Tally::default();
    let mut rng = Rng::with_seed(cx.seed);
    let points = ["B25:before", "B25:after"];
    let points = cx
        .points()
        .into_iter()
        .flat_map(|binary| points.map(|point| (binary.clone(), Some(point))));
    let random = (0..cx.lane().either(2, 20)).map(|_| (cx.binary(), None));
    for (binary, point) in points.chain(random) {
        let world = Arc::new(Testbed::build(cx.plan(binary)).await?);
        world.set_variable("DRYDOCK_CRASH", point);
        world.start().await?;
        let token = world.launch().invite("person 0")?;
        let user = person(0);
        let channel = format!("D{user}");
        world.slack.add_channel(&channel, &[&user]);
        let joining = {
            let (world, channel, user) = (Arc::clone(&world), channel.clone(), user.clone());
            tokio::spawn(async move {
                let written = world.slack.write(&user, &channel, None, &format!("join {token}"));
                let acknowledged = world.deliver(&written.events[0]).await;
                if acknowledged {
                    world.count_acknowledged();
                }
                acknowledged
            })
        };
        match point {
            Some(_) => restart_after_crash(&world).await?,
            None => {
                tokio::time::sleep(Duration::from_millis(rng.u64(0..30))).await;
                world.kill().await;
                world.start().await?;
            }
        }
        if !joining.await? {
            world.report_violation("a person could not join however often the event was sent".to_owned());
        }
        let welcomes = || {
            world.slack.with_state(|state| {
                let messages = state.messages.iter().filter(|message| message.channel == channel);
                messages
                    .filter(|message| crate::slack_thread::shown(message).contains("You're in"))
                    .count()
            })
        };
        let welcomed = world.slack.wait_until(|state| {
            let mut messages = state.messages.iter().filter(|message| message.channel == channel);
            messages
                .any(|message| crate::slack_thread::shown(message).contains("You're in"))
                .then_some(())
        });
        welcomed.await;
        let mut talk = UserConversation::new(&world, 1, user.clone(), &Arc::new(AtomicU32::new(1)));
        talk.ask(talk.task(1)).await;
        talk.check_final_patch().await;
        if welcomes() != 1 {
            world.report_violation(format!(
                "a person who redeemed an invite was welcomed {} times",
                welcomes()
            ));
        }
        tally.add(cx.close(world, vec![talk]).await);
    }
    Ok(tally)
}
