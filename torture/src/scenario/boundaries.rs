//! The end of the process before and after each durable boundary, one world each; what a person said meanwhile is
//! answered after the next start.

use super::Cx;
use super::directed::{POINT_MAX, Stage, crashed};
use crate::explain::Verb;
use crate::talk::By;
use crate::tally::Tally;
use crate::world::{Plan, World};
use std::time::Duration;

/// The event by which a point is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// A message, a command and a patch.
    Talk,
    /// A start.
    Start,
    /// The first start, which makes the database.
    FirstStart,
    /// An orderly stop.
    Stop,
    /// Many messages.
    Much,
}

/// Every point, as docs/reliability.md lists them.
const POINTS: [(&str, Way); 45] = [
    ("B1:before", Way::Talk),
    ("B1:after", Way::Talk),
    ("B2:before", Way::Talk),
    ("B3:before", Way::Talk),
    ("B4:before", Way::Talk),
    ("B4:after", Way::Talk),
    ("B5:before", Way::Talk),
    ("B6:before", Way::Talk),
    ("B6:after", Way::Talk),
    ("B7:before", Way::Talk),
    ("B7:after", Way::Talk),
    ("B8:before", Way::Talk),
    ("B9:before", Way::Talk),
    ("B10:before", Way::Talk),
    ("B10:after", Way::Talk),
    ("B11:before", Way::Talk),
    ("B11:after", Way::Talk),
    ("B12:before", Way::Talk),
    ("B12:after", Way::Talk),
    ("B16:before", Way::Talk),
    ("B16:after", Way::Talk),
    ("B17:before", Way::Talk),
    ("B17:after", Way::Talk),
    ("B18:before", Way::Talk),
    ("B18:after", Way::Talk),
    ("B19:before", Way::Talk),
    ("B20:before", Way::Talk),
    ("B21:before", Way::Talk),
    ("B21:after", Way::Talk),
    ("B22:before", Way::Talk),
    ("B22:after", Way::Talk),
    ("B23:before", Way::Much),
    ("B23:after", Way::Much),
    ("B24:before", Way::Start),
    ("B24:after", Way::Start),
    ("B26:before", Way::FirstStart),
    ("B26:after", Way::FirstStart),
    ("B28:before", Way::Stop),
    ("B28:after", Way::Stop),
    ("effect:before", Way::Talk),
    ("effect:after", Way::Talk),
    ("answer:before", Way::Talk),
    ("answer:after", Way::Talk),
    ("recovery:before", Way::Start),
    ("recovery:after", Way::Start),
];

/// Worlds at a time: each mostly waits.
const AT_ONCE: usize = 6;
/// Tasks that fill the log of the database.
const MUCH: usize = 14;

pub(super) async fn run(cx: &Cx<'_>) -> anyhow::Result<Tally> {
    let Some(binary) = cx.points() else {
        return Ok(cx.needs_points());
    };
    let passes = cx.lane().either(1, 3);
    let all: Vec<(String, Way)> = POINTS
        .iter()
        .flat_map(|(point, way)| {
            let passes = if *way == Way::Talk { passes } else { 1 };
            (1..=passes).map(move |pass| (format!("{point}:{pass}"), *way))
        })
        .collect();
    let mut tally = Tally::default();
    for some in all.chunks(AT_ONCE) {
        let running = some
            .iter()
            .map(|(point, way)| Box::pin(at(cx, binary.clone(), point, *way)));
        let done = futures_util::future::join_all(running).await;
        for world in done {
            tally.add(world?);
        }
    }
    Ok(tally)
}

/// Tries the end of the process at one point.
async fn at(cx: &Cx<'_>, binary: std::path::PathBuf, point: &str, way: Way) -> anyhow::Result<Tally> {
    let plan = Plan {
        // So slow that every turn has a card.
        slowest_answer: Duration::from_millis(220),
        ..cx.plan(binary)
    };
    let mut stage = match way {
        Way::FirstStart => {
            let world = World::build(plan).await?;
            world.set_variable("DRYDOCK_CRASH", Some(point));
            if world.start_unless_it_ends().await? && world.ends_by_itself(POINT_MAX).await.is_err() {
                world.violated(format!("{point} was not passed"));
            }
            world.note(point);
            world.kill().await;
            world.set_variable("DRYDOCK_CRASH", None);
            world.start().await?;
            world.let_in().await?;
            Stage::of(world)
        }
        _ => {
            let stage = Stage::of(World::start_with_people(plan).await?);
            stage.world.note(point);
            stage
        }
    };
    let mut talk = stage.talk();
    let world = std::sync::Arc::clone(&stage.world);
    if way != Way::Talk && way != Way::Much && way != Way::FirstStart {
        talk.ask(talk.task(3)).await;
    }
    match way {
        Way::FirstStart => {}
        Way::Start => {
            world.kill().await;
            world.set_variable("DRYDOCK_CRASH", Some(point));
            if world.start_unless_it_ends().await? && world.ends_by_itself(POINT_MAX).await.is_err() {
                world.violated(format!("{point} was not passed"));
            }
            world.kill().await;
            world.set_variable("DRYDOCK_CRASH", None);
            world.start().await?;
        }
        Way::Talk | Way::Much | Way::Stop => {
            world.terminate().await;
            world.set_variable("DRYDOCK_CRASH", Some(point));
            world.start().await?;
            let (reached, ()) = tokio::join!(crashed(&world), lead_to(&world, &mut talk, way));
            if let Err(error) = reached {
                // Several passes are not made by every talk.
                let is_first = point.ends_with(":1");
                if is_first {
                    world.violated(format!("{point} was not passed: {error:#}"));
                }
                world.kill().await;
                world.set_variable("DRYDOCK_CRASH", None);
                world.start().await?;
            }
        }
    }
    talk.ask(talk.task(1)).await;
    talk.until_answered().await;
    talk.ends_with_its_patch().await;
    stage.talks.push(talk);
    Ok(Tally::close(
        world_of(stage.world, world),
        stage.talks,
        &format!("--scenario boundaries ({point})"),
        cx.arguments.keep.as_deref(),
    )
    .await)
}

/// Keeps one of two handles of a world and drops the other.
fn world_of(one: std::sync::Arc<World>, other: std::sync::Arc<World>) -> std::sync::Arc<World> {
    drop(other);
    one
}

/// Takes the actions that lead to a point.
async fn lead_to(world: &World, talk: &mut crate::talk::Talk, way: Way) {
    match way {
        Way::Talk => {
            talk.ask(talk.task(4)).await;
            talk.until_answered().await;
            talk.ask(talk.task(2)).await;
            talk.until_answered().await;
            talk.command(Verb::Undo, By::Words).await;
            talk.until_commands_are_answered().await;
            talk.ends_with_its_patch().await;
        }
        Way::Much => {
            for _ in 0..MUCH {
                talk.ask(talk.task(4)).await;
                talk.until_answered().await;
            }
        }
        Way::Stop => {
            if let Err(error) = world.ask_to_stop().await {
                world.violated(format!("{error:#}"));
            }
        }
        Way::Start | Way::FirstStart => {}
    }
}

/// R3: the process ends again and again while it recovers.
pub(super) async fn recovery(cx: &Cx<'_>) -> anyhow::Result<Tally> {
    let Some(binary) = cx.points() else {
        return Ok(cx.needs_points());
    };
    let mut stage = Stage::build(cx, binary).await?;
    for point in [
        "recovery:before",
        "recovery:after",
        "B6:before",
        "B6:after",
        "B11:after",
    ] {
        let mut talk = stage.talk();
        let task = talk.task(3);
        stage.world.model.hold(&task, 2);
        let held = stage.world.model.held();
        talk.ask(task).await;
        if !stage.world.model.holds(held + 1).await {
            talk.violated("the model was not asked");
        }
        talk.ask(talk.task(2)).await;
        stage.world.kill().await;
        stage.world.set_variable("DRYDOCK_CRASH", Some(point));
        for _ in 0..3 {
            if stage.world.start_unless_it_ends().await?
                && stage.world.ends_by_itself(POINT_MAX).await.is_err()
            {
                talk.violated(&format!("{point} was not passed"));
            }
        }
        stage.world.set_variable("DRYDOCK_CRASH", None);
        stage.world.model.let_go();
        stage.world.kill().await;
        stage.world.start().await?;
        talk.ends_with_its_patch().await;
        stage.talks.push(talk);
    }
    Ok(stage.close(cx).await)
}
