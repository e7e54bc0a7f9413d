//! The end of the process before and after each durable boundary, each in a separate testbed. Messages from the
//! meantime are answered after the next start.

use super::ScenarioContext;
use super::directed::{DirectedTestbed, POINT_MAX, restart_after_crash};
use crate::conversation::CommandInput;
use crate::explain::CommandKind;
use crate::tally::Tally;
use crate::testbed::{Testbed, TestbedOptions};
use std::time::Duration;

/// The event by which a point is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PointTrigger {
    /// A message, a command and a patch.
    Conversation,
    /// A start.
    Start,
    /// The first start, which creates the database.
    FirstStart,
    /// An orderly stop.
    Stop,
    /// Many messages.
    ManyMessages,
}

/// All points, as docs/reliability.md lists them.
const POINTS: [(&str, PointTrigger); 45] = [
    ("B1:before", PointTrigger::Conversation),
    ("B1:after", PointTrigger::Conversation),
    ("B2:before", PointTrigger::Conversation),
    ("B3:before", PointTrigger::Conversation),
    ("B4:before", PointTrigger::Conversation),
    ("B4:after", PointTrigger::Conversation),
    ("B5:before", PointTrigger::Conversation),
    ("B6:before", PointTrigger::Conversation),
    ("B6:after", PointTrigger::Conversation),
    ("B7:before", PointTrigger::Conversation),
    ("B7:after", PointTrigger::Conversation),
    ("B8:before", PointTrigger::Conversation),
    ("B9:before", PointTrigger::Conversation),
    ("B10:before", PointTrigger::Conversation),
    ("B10:after", PointTrigger::Conversation),
    ("B11:before", PointTrigger::Conversation),
    ("B11:after", PointTrigger::Conversation),
    ("B12:before", PointTrigger::Conversation),
    ("B12:after", PointTrigger::Conversation),
    ("B16:before", PointTrigger::Conversation),
    ("B16:after", PointTrigger::Conversation),
    ("B17:before", PointTrigger::Conversation),
    ("B17:after", PointTrigger::Conversation),
    ("B18:before", PointTrigger::Conversation),
    ("B18:after", PointTrigger::Conversation),
    ("B19:before", PointTrigger::Conversation),
    ("B20:before", PointTrigger::Conversation),
    ("B21:before", PointTrigger::Conversation),
    ("B21:after", PointTrigger::Conversation),
    ("B22:before", PointTrigger::Conversation),
    ("B22:after", PointTrigger::Conversation),
    ("B23:before", PointTrigger::ManyMessages),
    ("B23:after", PointTrigger::ManyMessages),
    ("B24:before", PointTrigger::Start),
    ("B24:after", PointTrigger::Start),
    ("B26:before", PointTrigger::FirstStart),
    ("B26:after", PointTrigger::FirstStart),
    ("B28:before", PointTrigger::Stop),
    ("B28:after", PointTrigger::Stop),
    ("effect:before", PointTrigger::Conversation),
    ("effect:after", PointTrigger::Conversation),
    ("answer:before", PointTrigger::Conversation),
    ("answer:after", PointTrigger::Conversation),
    ("recovery:before", PointTrigger::Start),
    ("recovery:after", PointTrigger::Start),
];

/// The number of testbeds at a time. Each mostly waits.
const AT_ONCE: usize = 6;
/// The number of tasks that fill the log of the database.
const MANY_TASKS: usize = 14;

pub(super) async fn run(cx: &ScenarioContext<'_>) -> anyhow::Result<Tally> {
    let Some(binary) = cx.points() else {
        return Ok(cx.needs_points());
    };
    let passes = cx.lane().either(1, 3);
    let all: Vec<(String, PointTrigger)> = POINTS
        .iter()
        .flat_map(|(point, way)| {
            let passes = if *way == PointTrigger::Conversation {
                passes
            } else {
                1
            };
            (1..=passes).map(move |pass| (format!("{point}:{pass}"), *way))
        })
        .collect();
    let mut tally = Tally::default();
    for some in all.chunks(AT_ONCE) {
        let running = some
            .iter()
            .map(|(point, way)| Box::pin(crash_at(cx, binary.clone(), point, *way)));
        let done = futures_util::future::join_all(running).await;
        for world in done {
            tally.add(world?);
        }
    }
    Ok(tally)
}

/// Ends the process at one point, and checks the recovery.
async fn crash_at(
    cx: &ScenarioContext<'_>,
    binary: std::path::PathBuf,
    point: &str,
    way: PointTrigger,
) -> anyhow::Result<Tally> {
    let plan = TestbedOptions {
        // Slow enough that every turn has a card.
        slowest_answer: Duration::from_millis(220),
        ..cx.plan(binary)
    };
    let mut directed = match way {
        PointTrigger::FirstStart => {
            let world = Testbed::build(plan).await?;
            world.set_variable("DRYDOCK_CRASH", Some(point));
            if world.start_unless_it_ends().await? && world.wait_for_exit(POINT_MAX).await.is_err() {
                world.report_violation(format!("{point} was not passed"));
            }
            world.note(point);
            world.kill().await;
            world.set_variable("DRYDOCK_CRASH", None);
            world.start().await?;
            world.invite_all().await?;
            DirectedTestbed::new(world)
        }
        _ => {
            let directed = DirectedTestbed::new(Testbed::start_with_people(plan).await?);
            directed.testbed.note(point);
            directed
        }
    };
    let mut talk = directed.start_conversation();
    let world = std::sync::Arc::clone(&directed.testbed);
    if way != PointTrigger::Conversation
        && way != PointTrigger::ManyMessages
        && way != PointTrigger::FirstStart
    {
        talk.ask(talk.task(3)).await;
    }
    match way {
        PointTrigger::FirstStart => {}
        PointTrigger::Start => {
            world.kill().await;
            world.set_variable("DRYDOCK_CRASH", Some(point));
            if world.start_unless_it_ends().await? && world.wait_for_exit(POINT_MAX).await.is_err() {
                world.report_violation(format!("{point} was not passed"));
            }
            world.kill().await;
            world.set_variable("DRYDOCK_CRASH", None);
            world.start().await?;
        }
        PointTrigger::Conversation | PointTrigger::ManyMessages | PointTrigger::Stop => {
            world.terminate().await;
            world.set_variable("DRYDOCK_CRASH", Some(point));
            world.start().await?;
            let (reached, ()) =
                tokio::join!(restart_after_crash(&world), trigger_point(&world, &mut talk, way));
            if let Err(error) = reached {
                // Not every conversation passes a point several times.
                let is_first = point.ends_with(":1");
                if is_first {
                    world.report_violation(format!("{point} was not passed: {error:#}"));
                }
                world.kill().await;
                world.set_variable("DRYDOCK_CRASH", None);
                world.start().await?;
            }
        }
    }
    talk.ask(talk.task(1)).await;
    talk.until_answered().await;
    talk.check_final_patch().await;
    directed.talks.push(talk);
    Ok(Tally::close(
        keep_one_handle(directed.testbed, world),
        directed.talks,
        &format!("--scenario boundaries ({point})"),
        cx.arguments.keep.as_deref(),
    )
    .await)
}

/// Keeps one of two handles of a testbed and drops the other.
fn keep_one_handle(one: std::sync::Arc<Testbed>, other: std::sync::Arc<Testbed>) -> std::sync::Arc<Testbed> {
    drop(other);
    one
}

/// Performs the actions that lead to a point.
async fn trigger_point(world: &Testbed, talk: &mut crate::conversation::UserConversation, way: PointTrigger) {
    match way {
        PointTrigger::Conversation => {
            talk.ask(talk.task(4)).await;
            talk.until_answered().await;
            talk.ask(talk.task(2)).await;
            talk.until_answered().await;
            talk.command(CommandKind::Undo, CommandInput::Text).await;
            talk.until_commands_are_answered().await;
            talk.check_final_patch().await;
        }
        PointTrigger::ManyMessages => {
            for _ in 0..MANY_TASKS {
                talk.ask(talk.task(4)).await;
                talk.until_answered().await;
            }
        }
        PointTrigger::Stop => {
            if let Err(error) = world.ask_to_stop().await {
                world.report_violation(format!("{error:#}"));
            }
        }
        PointTrigger::Start | PointTrigger::FirstStart => {}
    }
}

/// R3: the process ends again and again while it recovers.
pub(super) async fn recovery(cx: &ScenarioContext<'_>) -> anyhow::Result<Tally> {
    let Some(binary) = cx.points() else {
        return Ok(cx.needs_points());
    };
    let mut directed = DirectedTestbed::build(cx, binary).await?;
    for point in [
        "recovery:before",
        "recovery:after",
        "B6:before",
        "B6:after",
        "B11:after",
    ] {
        let mut talk = directed.start_conversation();
        let task = talk.task(3);
        directed.testbed.model.hold(&task, 2);
        let held = directed.testbed.model.held();
        talk.ask(task).await;
        if !directed.testbed.model.wait_until_held(held + 1).await {
            talk.report_violation("the model was not called");
        }
        talk.ask(talk.task(2)).await;
        directed.testbed.kill().await;
        directed.testbed.set_variable("DRYDOCK_CRASH", Some(point));
        for _ in 0..3 {
            if directed.testbed.start_unless_it_ends().await?
                && directed.testbed.wait_for_exit(POINT_MAX).await.is_err()
            {
                talk.report_violation(&format!("{point} was not passed"));
            }
        }
        directed.testbed.set_variable("DRYDOCK_CRASH", None);
        directed.testbed.model.release();
        directed.testbed.kill().await;
        directed.testbed.start().await?;
        talk.check_final_patch().await;
        directed.talks.push(talk);
    }
    Ok(directed.close(cx).await)
}
