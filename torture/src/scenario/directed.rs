//! Directed ends of the process, one at a time, right where an effect and its answer could come apart.

use super::Cx;
use crate::explain::Verb;
use crate::talk::{By, Talk};
use crate::tally::Tally;
use crate::task::Task;
use crate::world::{World, person};
use fastrand::Rng;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// The longest time the program may take to reach a point that a message leads to.
pub(super) const POINT_MAX: Duration = Duration::from_secs(30);

/// A world with one person and one conversation after another.
pub(super) struct Stage {
    pub(super) world: Arc<World>,
    pub(super) talks: Vec<Talk>,
    begun: u32,
    ids: Arc<AtomicU32>,
}

impl Stage {
    pub(super) async fn build(cx: &Cx<'_>, binary: std::path::PathBuf) -> anyhow::Result<Self> {
        Ok(Self::of(World::start_with_people(cx.plan(binary)).await?))
    }

    pub(super) fn of(world: World) -> Self {
        Self {
            world: Arc::new(world),
            talks: Vec::new(),
            begun: 0,
            ids: Arc::new(AtomicU32::new(1)),
        }
    }

    /// Begins another conversation.
    pub(super) fn talk(&mut self) -> Talk {
        self.begun += 1;
        Talk::new(&self.world, self.begun, person(0), &self.ids)
    }

    pub(super) async fn close(self, cx: &Cx<'_>) -> Tally {
        cx.close(self.world, self.talks).await
    }
}

/// Starts the program anew, so that it ends itself when it passes a point.
pub(super) async fn restart_to_crash(world: &World, point: &str) -> anyhow::Result<()> {
    world.terminate().await;
    world.note(&format!("it is to end at {point}"));
    world.set_variable("DRYDOCK_CRASH", Some(point));
    world.start().await
}

/// Waits for the end at a point, and starts the program again as it is released.
pub(super) async fn crashed(world: &World) -> anyhow::Result<()> {
    world.ends_by_itself(POINT_MAX).await?;
    world.set_variable("DRYDOCK_CRASH", None);
    world.start().await
}

/// P4: an undo takes back one message, wherever the process ends.
pub(super) async fn undo(cx: &Cx<'_>) -> anyhow::Result<Tally> {
    let mut tally = Tally::default();
    if let Some(points) = cx.points() {
        let mut stage = Stage::build(cx, points).await?;
        for verb in [Verb::Undo, Verb::Discard] {
            let mut talk = two_tasks(&mut stage).await;
            restart_to_crash(&stage.world, "effect:after").await?;
            talk.command(verb, By::Words).await;
            crashed(&stage.world).await?;
            talk.ends_with_its_patch().await;
            stage.talks.push(talk);
        }
        tally.add(stage.close(cx).await);
    }
    if cx.bug.is_some() {
        return Ok(tally);
    }
    let mut rng = Rng::with_seed(cx.seed);
    let mut stage = Stage::build(cx, cx.binary()).await?;
    for _ in 0..cx.lane().either(3, 40) {
        let mut talk = two_tasks(&mut stage).await;
        // What an undo renders takes longer in a program that has just begun.
        stage.world.kill().await;
        stage.world.start().await?;
        talk.command(Verb::Undo, By::Words).await;
        tokio::time::sleep(Duration::from_millis(rng.u64(0..60))).await;
        stage.world.kill().await;
        stage.world.start().await?;
        talk.ends_with_its_patch().await;
        stage.talks.push(talk);
    }
    tally.add(stage.close(cx).await);
    Ok(tally)
}

async fn two_tasks(stage: &mut Stage) -> Talk {
    let mut talk = stage.talk();
    for steps in [2, 3] {
        talk.ask(talk.task(steps)).await;
        talk.until_answered().await;
    }
    talk
}

/// P4: an undo takes back all of a message that was cut short and resumed.
pub(super) async fn resumed(cx: &Cx<'_>) -> anyhow::Result<Tally> {
    let mut stage = Stage::build(cx, cx.binary()).await?;
    for cut in 1..=cx.lane().either(2, 3) {
        let mut talk = stage.talk();
        talk.ask(talk.task(2)).await;
        talk.until_answered().await;
        let task = talk.task(4);
        stage.world.model.hold(&task, cut);
        let held = stage.world.model.held();
        talk.ask(task).await;
        if !stage.world.model.holds(held + 1).await {
            talk.violated("the model was not asked");
        }
        match cut % 2 {
            0 => stage.world.terminate().await,
            _ => stage.world.kill().await,
        }
        stage.world.model.let_go();
        stage.world.start().await?;
        talk.until_answered().await;
        talk.command(Verb::Undo, By::Words).await;
        talk.ends_with_its_patch().await;
        stage.talks.push(talk);
    }
    Ok(stage.close(cx).await)
}

/// A stop that was acknowledged holds, wherever the process ends.
pub(super) async fn stop(cx: &Cx<'_>) -> anyhow::Result<Tally> {
    let mut tally = Tally::default();
    if let Some(points) = cx.points() {
        tally.add(stop_before_its_end(cx, points).await?);
    }
    if cx.bug.is_some() {
        return Ok(tally);
    }
    let mut rng = Rng::with_seed(cx.seed);
    let mut stage = Stage::build(cx, cx.binary()).await?;
    for round in 0..cx.lane().either(4, 40) {
        let mut talk = stage.talk();
        let task = talk.task(3);
        stage.world.model.hold(&task, 1);
        let held = stage.world.model.held();
        talk.ask(task.clone()).await;
        if !stage.world.model.holds(held + 1).await {
            talk.violated("the model was not asked");
        }
        talk.command(Verb::Stop, By::Words).await;
        tokio::time::sleep(Duration::from_millis(if round == 0 { 0 } else { rng.u64(0..30) })).await;
        match rng.bool() {
            true => stage.world.kill().await,
            false => stage.world.terminate().await,
        }
        stage.world.model.let_go();
        stage.world.start().await?;
        was_stopped(&mut talk, &task).await;
        stage.talks.push(talk);
    }
    tally.add(stage.close(cx).await);
    Ok(tally)
}

/// The process ends where a stopped turn is about to be put on record.
async fn stop_before_its_end(cx: &Cx<'_>, points: std::path::PathBuf) -> anyhow::Result<Tally> {
    let mut stage = Stage::build(cx, points).await?;
    let mut talk = stage.talk();
    let task = talk.task(3);
    restart_to_crash(&stage.world, "B18:before").await?;
    stage.world.model.hold(&task, 1);
    let held = stage.world.model.held();
    talk.ask(task.clone()).await;
    if !stage.world.model.holds(held + 1).await {
        talk.violated("the model was not asked");
    }
    talk.command(Verb::Stop, By::Words).await;
    stage.world.ends_by_itself(POINT_MAX).await?;
    stage.world.model.let_go();
    stage.world.set_variable("DRYDOCK_CRASH", None);
    stage.world.start().await?;
    was_stopped(&mut talk, &task).await;
    stage.talks.push(talk);
    Ok(stage.close(cx).await)
}

async fn was_stopped(talk: &mut Talk, task: &Task) {
    talk.until_answered().await;
    let done = task.done();
    if talk.read().results.iter().any(|result| result.contains(&done)) {
        talk.violated("a message was carried out to its end after its stop was acknowledged");
    }
    talk.ends_with_its_patch().await;
}

/// P4: a press does what the button says, once.
pub(super) async fn buttons(cx: &Cx<'_>) -> anyhow::Result<Tally> {
    let mut rng = Rng::with_seed(cx.seed);
    let mut stage = Stage::build(cx, cx.binary()).await?;
    for _ in 0..cx.lane().either(3, 30) {
        let mut talk = stage.talk();
        for (verb, label) in [(Verb::Patch, "Get patch"), (Verb::Discard, "Discard")] {
            talk.ask(talk.task(2)).await;
            talk.until_answered().await;
            talk.command(verb, By::Button(label)).await;
            tokio::time::sleep(Duration::from_millis(rng.u64(0..4))).await;
            stage.world.kill().await;
            stage.world.start().await?;
            talk.until_commands_are_answered().await;
        }
        talk.ends_with_its_patch().await;
        stage.talks.push(talk);
    }
    Ok(stage.close(cx).await)
}

/// B25: whoever redeems an invite is let in and welcomed, once.
pub(super) async fn invites(cx: &Cx<'_>) -> anyhow::Result<Tally> {
    let mut tally = Tally::default();
    let mut rng = Rng::with_seed(cx.seed);
    let points = ["B25:before", "B25:after"];
    let points = cx
        .points()
        .into_iter()
        .flat_map(|binary| points.map(|point| (binary.clone(), Some(point))));
    let random = (0..cx.lane().either(2, 20)).map(|_| (cx.binary(), None));
    for (binary, point) in points.chain(random) {
        let world = Arc::new(World::build(cx.plan(binary)).await?);
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
                    world.is_acknowledged();
                }
                acknowledged
            })
        };
        match point {
            Some(_) => crashed(&world).await?,
            None => {
                tokio::time::sleep(Duration::from_millis(rng.u64(0..30))).await;
                world.kill().await;
                world.start().await?;
            }
        }
        if !joining.await? {
            world.violated("a person could not join however often the event was sent".to_owned());
        }
        let welcomes = || {
            world.slack.look(|state| {
                let messages = state.messages.iter().filter(|message| message.channel == channel);
                messages
                    .filter(|message| crate::reading::shown(message).contains("You're in"))
                    .count()
            })
        };
        let welcomed = world.slack.wait_until(|state| {
            let mut messages = state.messages.iter().filter(|message| message.channel == channel);
            messages
                .any(|message| crate::reading::shown(message).contains("You're in"))
                .then_some(())
        });
        welcomed.await;
        let mut talk = Talk::new(&world, 1, user.clone(), &Arc::new(AtomicU32::new(1)));
        talk.ask(talk.task(1)).await;
        talk.ends_with_its_patch().await;
        if welcomes() != 1 {
            world.violated(format!(
                "a person who redeemed an invite was welcomed {} times",
                welcomes()
            ));
        }
        tally.add(cx.close(world, vec![talk]).await);
    }
    Ok(tally)
}
