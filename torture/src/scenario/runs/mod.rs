//! Runs of pipelines that events and times start. Events are delivered more than once, times come also while no server runs,
//! and the process ends at random moments and at the writes of runs. In the end each event and each time has started its runs
//! once, each step has had its effect once, each question one answer, and each result is posted once.

mod check;
mod definitions;
mod shown;

use super::ScenarioContext;
use super::directed::POINT_MAX;
use super::outage::ProgramClock;
use crate::final_checks;
use crate::tally::Tally;
use crate::testbed::{Testbed, TestbedOptions};
use check::Started;
use definitions::{EventPipeline, PARKED, REPLY_CHANNEL, TICK};
use fastrand::Rng;
use shown::ShownRuns;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// The seconds by which the clock jumps in a round, after which each schedule is due.
const ROUND_SECONDS: i64 = 300;
/// The time within which the events of a round are sent.
const SENT_WITHIN: Duration = Duration::from_millis(400);
/// The longest time from the begin of a round to an end of the process.
const END_AFTER_MAX: Duration = Duration::from_millis(900);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The choice with which the operator answers.
const ANSWER: &str = "yes";

/// The size of the scenario. At most 50 runs of a hook or of the times are open at once, which is what a server allows.
#[derive(Clone, Copy)]
struct Amounts {
    rounds: usize,
    /// The number of events of a round.
    events: u32,
    /// The number of pipelines that start at set times.
    schedules: u32,
    /// The number of rounds in which the process ends, once or twice.
    ends: usize,
    /// The most writes of runs and fires before the process ends itself at one. Those of the fires come first.
    writes: usize,
}

const SMALL: Amounts = Amounts {
    rounds: 3,
    events: 8,
    schedules: 10,
    ends: 3,
    writes: 32,
};

const LARGE: Amounts = Amounts {
    rounds: 12,
    events: 32,
    schedules: 44,
    ends: 10,
    writes: 160,
};

/// R1, R5: runs that nobody types.
pub(super) async fn run(cx: &ScenarioContext<'_>) -> anyhow::Result<Tally> {
    let Some(binary) = cx.points() else {
        return Ok(cx.needs_points());
    };
    let amounts = cx.lane().either(SMALL, LARGE);
    let plan = TestbedOptions {
        people: 0,
        sections: definitions::sections(),
        files: vec![(".drydock/pipelines.yaml", definitions::file(amounts.schedules))],
        patience: Duration::from_secs(240),
        ..cx.plan(binary)
    };
    let world = Arc::new(Testbed::build(plan).await?);
    world.slack.add_channel(REPLY_CHANNEL, &[]);
    let clock = ProgramClock::for_testbed(&world);
    world.start().await?;
    let mut rounds = Rounds {
        world: Arc::clone(&world),
        clock,
        rng: Rng::with_seed(cx.seed),
        amounts,
        done: 0,
        refused: 0,
        answered: BTreeSet::new(),
    };
    rounds.wait_for_schedules().await?;
    while rounds.done < amounts.rounds && rounds.carry_out_next().await? {}
    let (done, refused) = (rounds.done, rounds.refused);
    drop(rounds);
    final_checks::check(&world, &[]).await;
    let started = Started {
        events: amounts.events * u32::try_from(done)?,
        schedules: amounts.schedules,
        rounds: done,
    };
    let runs = check::check(&world, started)?;
    let mut tally = Tally::count(world, &cx.replay(cx.seed), cx.arguments.keep.as_deref());
    tally.faults = refused;
    tally.measured = vec![format!("{runs} runs")];
    Ok(tally)
}

/// The end of the process in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RoundEnd {
    /// It goes on.
    Never,
    /// It is killed at a random moment.
    Killed,
    /// It is killed, the times come meanwhile, and it ends itself at one of the next writes of runs.
    AtWrite,
    /// It is killed, and ends itself as soon as one of the next events has started a run. The times come meanwhile, and it
    /// ends itself again before it stores one of the next replies.
    AtStartAndReply,
}

/// The rounds: events are sent, and a time comes for each schedule.
struct Rounds {
    world: Arc<Testbed>,
    clock: ProgramClock,
    rng: Rng,
    amounts: Amounts,
    /// The number of rounds that began.
    done: usize,
    /// The number of times that an event was refused, or not answered.
    refused: usize,
    /// The runs whose question was answered.
    answered: BTreeSet<i64>,
}

impl Rounds {
    /// Waits until the times of all pipelines are known, which the program reads after its first start.
    async fn wait_for_schedules(&self) -> anyhow::Result<()> {
        let began = Instant::now();
        // That which is off is listed too.
        let expected = self.amounts.schedules as usize + 1;
        loop {
            let listed = self.world.launch().run_command(&["--json", "schedule", "list"])?;
            let listed: serde_json::Value = serde_json::from_slice(&listed.stdout)?;
            let count = listed["schedules"].as_array().map_or(0, Vec::len);
            if count == expected {
                return Ok(());
            }
            let waited = began.elapsed();
            anyhow::ensure!(
                waited < self.world.patience,
                "{count} of {expected} schedules are listed"
            );
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Carries out the next round. Returns false if its runs did not end.
    async fn carry_out_next(&mut self) -> anyhow::Result<bool> {
        let ends = match self.done {
            round if round >= self.amounts.ends => RoundEnd::Never,
            round if round % 3 == 0 => RoundEnd::Killed,
            round if round % 3 == 1 => RoundEnd::AtWrite,
            _ => RoundEnd::AtStartAndReply,
        };
        if ends == RoundEnd::AtStartAndReply {
            // All of its events then come to the program that ends itself.
            self.world.kill().await;
        }
        let mut sending = self.send()?;
        self.done += 1;
        self.world.note(&format!("round {}: {ends:?}", self.done));
        self.end(ends).await?;
        while let Some(sent) = sending.join_next().await {
            self.refused += sent?;
        }
        self.wait_for_ends().await
    }

    /// Lets the times of a round come, and ends the program meanwhile.
    async fn end(&mut self, ends: RoundEnd) -> anyhow::Result<()> {
        let seconds = ROUND_SECONDS * i64::try_from(self.done)?;
        match ends {
            RoundEnd::Never => return self.come(seconds),
            RoundEnd::Killed => {
                self.come(seconds)?;
                self.pause().await;
                self.answer_questions()?;
                self.world.kill().await;
            }
            RoundEnd::AtWrite => {
                self.pause().await;
                self.world.kill().await;
                self.clock.step(seconds)?;
                let side = if self.rng.bool() { "before" } else { "after" };
                let pass = self.rng.usize(1..=self.amounts.writes);
                self.end_at(&format!("effect:{side}:{pass}")).await?;
            }
            RoundEnd::AtStartAndReply => {
                // Each event starts a run at least, and each time one with a reply.
                let start = self.rng.u32(1..=self.amounts.events);
                self.end_at(&format!("start:after:{start}")).await?;
                self.clock.step(seconds)?;
                let reply = self.rng.u32(1..=self.amounts.schedules);
                self.end_at(&format!("tell:before:{reply}")).await?;
            }
        }
        self.world.start().await
    }

    /// Begins to send the events of a round, some of them more than once.
    fn send(&mut self) -> anyhow::Result<JoinSet<usize>> {
        let before = self.amounts.events * u32::try_from(self.done)?;
        let mut sending = JoinSet::new();
        for number in before + 1..=before + self.amounts.events {
            let event = definitions::event(number);
            let copies = 1 + usize::from(self.rng.u8(..) < 80);
            let wait = SENT_WITHIN.mul_f64(self.rng.f64());
            let world = Arc::clone(&self.world);
            sending.spawn(async move {
                tokio::time::sleep(wait).await;
                event.send_until_acknowledged(&world, copies).await
            });
        }
        Ok(sending)
    }

    /// Moves the clock, and makes the program look at it.
    fn come(&self, seconds: i64) -> anyhow::Result<()> {
        self.clock.step(seconds)?;
        let launch = self.world.launch();
        let ended = launch.run_command(&["schedule", "disable", PARKED])?;
        anyhow::ensure!(
            ended.status.success(),
            "the schedule cannot be turned off: {}",
            String::from_utf8_lossy(&ended.stderr)
        );
        Ok(())
    }

    async fn pause(&mut self) {
        tokio::time::sleep(END_AFTER_MAX.mul_f64(self.rng.f64())).await;
    }

    /// Starts the program, which ends itself at a point.
    async fn end_at(&self, point: &str) -> anyhow::Result<()> {
        self.world.note(point);
        self.world.set_variable("DRYDOCK_CRASH", Some(point));
        let is_ready = self.world.start_unless_it_ends().await?;
        if is_ready && self.world.wait_for_exit(POINT_MAX).await.is_err() {
            self.world.report_violation(format!("{point} was not passed"));
        }
        self.world.kill().await;
        self.world.set_variable("DRYDOCK_CRASH", None);
        Ok(())
    }

    /// Waits until all runs so far have ended and show it. Returns false if they do not in time.
    async fn wait_for_ends(&mut self) -> anyhow::Result<bool> {
        let began = Instant::now();
        loop {
            self.answer_questions()?;
            let missing = self.missing();
            if missing.is_empty() && self.open_runs()? == 0 {
                return Ok(true);
            }
            if began.elapsed() > self.world.patience {
                let missing = missing.join(", ");
                self.world
                    .report_violation(format!("runs of round {} have not ended: {missing}", self.done));
                return Ok(false);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Answers the questions of `checked` that are open, as an operator does: a press would be refused while the clock of the
    /// program is ahead of that of Slack. What was answered is not answered again, however the process ends.
    fn answer_questions(&mut self) -> anyhow::Result<()> {
        let shown = self.world.slack.with_state(ShownRuns::of);
        for run in shown.open_questions(EventPipeline::Checked.name()) {
            if self.answered.contains(&run) {
                continue;
            }
            let launch = self.world.launch();
            let ended = launch.run_command(&["runs", "answer", &run.to_string(), ANSWER])?;
            let is_answered = ended.status.success();
            self.world.note(&format!("run {run}: answered {is_answered}"));
            if is_answered {
                self.answered.insert(run);
            }
        }
        Ok(())
    }

    /// Returns the pipelines of which fewer runs show an end than were started. Nothing is shown about one that was left out,
    /// so those of `alone` are not counted; they begin before the others of their events.
    fn missing(&self) -> Vec<String> {
        let shown = self.world.slack.with_state(ShownRuns::of);
        let events = 1..=self.amounts.events * u32::try_from(self.done).unwrap_or(u32::MAX);
        let mut missing = Vec::new();
        let mut compare = |name: &str, expected: usize| {
            let ended = shown.ended(|pipeline| pipeline == name);
            if ended < expected {
                missing.push(format!("{name} {ended} of {expected}"));
            }
        };
        for pipeline in EventPipeline::ALL {
            let started = events
                .clone()
                .filter(|number| definitions::pipelines_of(*number).contains(&pipeline));
            if pipeline != EventPipeline::Alone {
                compare(pipeline.name(), started.count());
            }
        }
        for number in 0..self.amounts.schedules {
            compare(&format!("{TICK}{number}"), self.done);
        }
        missing
    }

    /// Returns the number of runs that have not ended, as an operator sees it.
    fn open_runs(&self) -> anyhow::Result<usize> {
        let mut open = 0;
        for status in ["queued", "running"] {
            let launch = self.world.launch();
            let listed = launch.run_command(&["--json", "runs", "list", "--status", status])?;
            let listed: serde_json::Value = serde_json::from_slice(&listed.stdout)?;
            let runs = listed["runs"].as_array();
            open += runs
                .map(Vec::len)
                .ok_or_else(|| anyhow::anyhow!("no list of runs: {listed}"))?;
        }
        Ok(open)
    }
}
