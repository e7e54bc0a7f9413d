//! Ten runs at once for two minutes, on a platform that enforces its rate limits. No call is refused for its rate, each
//! result shows within two seconds of its commit, and each card shows the newest state again and again.

mod place;
mod service;

use super::ScenarioContext;
use crate::final_checks;
use crate::long_run::LongRun;
use crate::tally::Tally;
use crate::testbed::{Testbed, TestbedOptions};
use anyhow::Context;
use drydock::simulation::emulator::slack::RateLimits;
use place::LoadPlace;
use rusqlite::{Connection, OpenFlags};
use service::{ChatService, SlackApp};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest time from the commit of a result until people see it.
const RESULT_TIME_MAX: Duration = Duration::from_secs(2);
/// The longest time for which the card of a run in Slack, one of ten, stays unchanged.
const SHARED_CARD_PAUSE_MAX: Duration = Duration::from_secs(45);
/// The same where cards are streams.
const STREAMED_CARD_PAUSE_MAX: Duration = Duration::from_secs(15);
/// The same in Telegram, where a group takes 20 messages and edits a minute, also those of results.
const GROUP_CARD_PAUSE_MAX: Duration = Duration::from_secs(20);
/// The same in threads of Discord.
const OWN_CARD_PAUSE_MAX: Duration = Duration::from_secs(10);
/// The longest time for which an edit of a card is behind the run.
const CARD_LAG_MAX: Duration = Duration::from_secs(2);
/// The time after the last run until all cards are closed.
const CLOSED_WITHIN: Duration = Duration::from_secs(30);
/// The interval at which people look at their messages.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
const PLACES: u32 = 10;

/// R17: ten runs in threads of one channel of Slack, with an app that is no agent.
pub(super) async fn threads(cx: &ScenarioContext<'_>) -> anyhow::Result<Tally> {
    load(cx, ChatService::Slack(SlackApp::CardsInThreads)).await
}

/// R17: the same, with an app that is an agent.
pub(super) async fn agent(cx: &ScenarioContext<'_>) -> anyhow::Result<Tally> {
    load(cx, ChatService::Slack(SlackApp::AgentInThreads)).await
}

/// R17: ten runs in direct messages of Slack.
pub(super) async fn direct(cx: &ScenarioContext<'_>) -> anyhow::Result<Tally> {
    load(cx, ChatService::Slack(SlackApp::AgentInDirectMessages)).await
}

/// R17: ten runs in private chats of Telegram, and one in a group.
pub(super) async fn telegram(cx: &ScenarioContext<'_>) -> anyhow::Result<Tally> {
    load(cx, ChatService::start_telegram().await?).await
}

/// R17: ten runs in threads of Discord.
pub(super) async fn discord(cx: &ScenarioContext<'_>) -> anyhow::Result<Tally> {
    load(cx, ChatService::start_discord().await?).await
}

async fn load(cx: &ScenarioContext<'_>, service: ChatService) -> anyhow::Result<Tally> {
    let mut plan = TestbedOptions {
        people: service.people_of_slack(),
        sections: service.sections(),
        limits: "steps_max = 200",
        rate_limits: RateLimits::Slack,
        ..cx.plan(cx.binary())
    };
    plan.environment.extend(service.variables());
    let world = Arc::new(Testbed::build(plan).await?);
    service.install(&world)?;
    world.start().await?;
    world.invite_all().await?;
    service.admit(&world).await?;
    let mut places: Vec<LoadPlace> = service.places().map(|number| plan_runs(cx, number)).collect();
    run_all(&world, &service, &mut places).await?;
    check_shown(&world, &service, &places);
    for problem in service.problems() {
        world.report_violation(problem);
    }
    final_checks::check(&world, &[]).await;
    let slowest = check_times(&world, &places)?;
    let pause = places.iter().map(|place| place.longest_pause).max();
    let pause = pause.unwrap_or_default();
    if pause > service.card_pause_max() {
        world.report_violation(format!("a card was unchanged for {:.1} s", pause.as_secs_f64()));
    }
    let mut tally = Tally::count(world, &cx.replay(cx.seed), cx.arguments.keep.as_deref());
    tally.measured = vec![
        format!("slowest result {:.2} s", slowest.as_secs_f64()),
        format!("longest pause of a card {:.1} s", pause.as_secs_f64()),
    ];
    Ok(tally)
}

/// Returns a place with its runs. They begin together, and end one after the other: a channel takes one message a
/// second.
fn plan_runs(cx: &ScenarioContext<'_>, number: u32) -> LoadPlace {
    let run = |id: u32, steps: u32| LongRun {
        id,
        place: number,
        steps: steps as usize,
    };
    let (first, second) = (number * 2 + 1, number * 2 + 2);
    // A step takes about a second.
    let runs = cx.lane().either(vec![run(first, 14 + number * 3 / 2)], {
        let steps = 60 + 6 * number;
        vec![
            run(first, steps),
            run(second, (124 + 2 * number).saturating_sub(steps)),
        ]
    });
    LoadPlace::new(number, runs)
}

/// Has all people request their runs, and looks at what they see until all is done.
async fn run_all(world: &Testbed, service: &ChatService, places: &mut [LoadPlace]) -> anyhow::Result<()> {
    let steps = places.iter().map(LoadPlace::steps).max().unwrap_or_default();
    // A step takes longer on a busy machine.
    let within = Duration::from_secs(steps as u64 * 3) + world.patience;
    let began = Instant::now();
    let mut done_at = None;
    loop {
        for place in places.iter_mut() {
            place.look(world, service);
            if let Some(run) = place.next_run() {
                service.ask(world, place, &run).await?;
                world.count_acknowledged();
                world.note(&format!("place {}: {}", run.place, run.word()));
            }
        }
        if places.iter().all(LoadPlace::is_done) {
            let since = *done_at.get_or_insert_with(Instant::now);
            if places.iter().all(|place| place.open_cards() == 0) || since.elapsed() > CLOSED_WITHIN {
                return Ok(());
            }
        } else if began.elapsed() > within {
            world.report_violation("a run has no result".to_owned());
            return Ok(());
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// Checks what people see in the end: each result once, and no card that goes on.
fn check_shown(world: &Testbed, service: &ChatService, places: &[LoadPlace]) {
    for place in places {
        let shown = service.shown(world, place);
        for run in place.asked() {
            let results = shown.iter().filter(|message| message.is_result_of(run)).count();
            if results != 1 {
                world.report_violation(format!("the result of run {} is shown {results} times", run.id));
            }
        }
        for open in shown.iter().filter(|message| message.is_open()) {
            let number = place.number;
            world.report_violation(format!("a card of place {number} is left open: {}", open.text));
        }
        for lag in &place.lags {
            world.report_violation(lag.clone());
        }
    }
    for route in service.rate_violations() {
        world.report_violation(format!("{route} was called too often"));
    }
}

/// Compares the commits of the results with the times at which people saw them. Returns the longest time between both.
fn check_times(world: &Testbed, places: &[LoadPlace]) -> anyhow::Result<Duration> {
    let committed = commits(world)?;
    let mut slowest = Duration::ZERO;
    for (run, seen) in places.iter().flat_map(|place| &place.seen) {
        let Some(committed) = committed.get(run) else {
            world.report_violation(format!("the result of run {run} was never committed"));
            continue;
        };
        let elapsed = Duration::from_millis(u64::try_from(seen - committed).unwrap_or_default());
        slowest = slowest.max(elapsed);
        if elapsed > RESULT_TIME_MAX {
            let seconds = elapsed.as_secs_f64();
            world.report_violation(format!("the result of run {run} was seen after {seconds:.2} s"));
        }
    }
    Ok(slowest)
}

/// Returns the times in milliseconds at which the turns ended, by run.
fn commits(world: &Testbed) -> anyhow::Result<BTreeMap<u32, i64>> {
    let file = world.launch().data.join("drydock.db");
    let database = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let query = "SELECT user_text, finished_at FROM turn WHERE finished_at IS NOT NULL";
    let mut turns = database.prepare(query)?;
    let turns = turns.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))?;
    let mut commits = BTreeMap::new();
    for turn in turns {
        let (text, at) = turn.context("a turn could not be read")?;
        let run = LongRun::in_text(&text).context("a turn without a run")?;
        if commits.insert(run.id, at).is_some() {
            world.report_violation(format!("run {} had two turns", run.id));
        }
    }
    Ok(commits)
}
