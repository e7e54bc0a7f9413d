//! The scenarios. Each breaks something and reports the result.

mod boundaries;
mod bugs;
mod clock;
mod deliveries;
mod directed;
mod hooks;
mod kills;
mod load;
mod mirror;
mod outage;
mod questions;
mod queue;
mod runs;
mod steering;
mod store;

use crate::arguments::{Lane, TortureArguments};
use crate::conversation::UserConversation;
use crate::tally::Tally;
use crate::testbed::{Testbed, TestbedOptions};
use drydock::simulation::emulator::slack::RateLimits;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

type ScenarioFuture<'a> = Pin<Box<dyn Future<Output = anyhow::Result<Tally>> + 'a>>;

pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// The goals it shows, as docs/reliability.md lists them.
    pub(crate) goals: &'static str,
    pub(crate) what: &'static str,
    /// The smallest size of run that includes it.
    pub(crate) lane: Lane,
    run: for<'a> fn(&'a ScenarioContext<'a>) -> ScenarioFuture<'a>,
}

impl Scenario {
    pub(crate) fn run<'a>(&self, cx: &'a ScenarioContext<'a>) -> ScenarioFuture<'a> {
        (self.run)(cx)
    }
}

macro_rules! scenarios {
    ($($lane:ident $name:literal $goals:literal $what:literal $run:path;)*) => {
        /// All scenarios, in the order in which they run.
        pub(crate) const ALL: &[Scenario] = &[$(Scenario {
            name: $name,
            goals: $goals,
            what: $what,
            lane: Lane::$lane,
            run: |cx| Box::pin($run(cx)),
        }),*];
    };
}

scenarios! {
    Ci "kills" "R1,R3,R5" "kill -9 and SIGTERM at random moments, also while it recovers, under people who talk" kills::run;
    Ci "boundaries" "R1,B1-B12,B16-B24,B26,B28" "the end of the process before and after each durable boundary" boundaries::run;
    Ci "recovery" "R3" "the end of the process while it recovers, three times in a row" boundaries::recovery;
    Ci "undo" "P4" "an undo, and the end of the process between its effect and its answer" directed::undo;
    Ci "resumed" "P4" "an undo of a message that was cut short and resumed" directed::resumed;
    Ci "stop" "P4" "a stop, and the end of the process right after it" directed::stop;
    Ci "buttons" "P4" "presses of buttons, and the end of the process right after each" directed::buttons;
    Ci "questions" "P4" "questions of the model, and the end of the process as it asks and as it is answered" questions::run;
    Ci "queue" "P2,R6" "more messages than may wait" queue::run;
    Ci "steering" "R1,P2" "a message that reaches a running turn, and the end of the process before and after it is taken" steering::run;
    Ci "hooks" "P2,R5" "events of hooks, more than may wait, and ends of the process" hooks::run;
    Ci "runs" "R1,R5" "runs of pipelines by events and at set times, and ends of the process" runs::run;
    Ci "invites" "B25" "an invite, and the end of the process while it is redeemed" directed::invites;
    Ci "lost" "P3,R17" "answers of Slack that are lost after the effect" outage::lost;
    Full "storm" "R17" "Slack answers 429 again and again" outage::storm;
    Full "outage" "R17" "Slack is down for ten minutes" outage::down;
    Full "mirror" "R29" "a remote that gets one commit after the other" mirror::run;
    Ci "clock" "R20" "the clock jumps by hours and days, and back" clock::run;
    Ci "locked" "R15" "another process holds the database" store::locked;
    Ci "full" "R14" "the disk is full, and has room again" store::full;
    Ci "descriptors" "R14,R22" "no descriptor is left, and then there are some" store::descriptors;
    Ci "deliveries" "R5" "messages that are delivered again and again, in any order and under several names" deliveries::run;
    Ci "threads" "R17" "ten runs at once in a channel of Slack that enforces its tiers" load::threads;
    Ci "agent" "R17" "the same, with an app that is an agent" load::agent;
    Ci "direct" "R17" "ten runs at once in direct messages of Slack" load::direct;
    Ci "telegram" "R17" "ten runs at once in private chats of Telegram, and one in a group" load::telegram;
    Ci "discord" "R17" "ten runs at once in threads of Discord" load::discord;
    Ci "bugs" "" "each planted defect is found" bugs::run;
}

/// The context of a scenario.
pub(crate) struct ScenarioContext<'a> {
    pub(crate) arguments: &'a TortureArguments,
    pub(crate) name: &'static str,
    pub(crate) seed: u64,
    /// The planted defect that is turned on.
    bug: Option<String>,
}

impl<'a> ScenarioContext<'a> {
    pub(crate) fn new(scenario: &Scenario, arguments: &'a TortureArguments) -> Self {
        Self {
            arguments,
            name: scenario.name,
            seed: arguments.seed,
            bug: arguments.bug.clone(),
        }
    }

    /// Returns the same context with a planted defect, for another scenario.
    fn with_bug(&self, name: &'static str, bug: &str) -> Self {
        Self {
            arguments: self.arguments,
            name,
            seed: self.seed,
            bug: Some(bug.to_owned()),
        }
    }

    pub(crate) fn lane(&self) -> Lane {
        self.arguments.lane
    }

    /// Returns the release build of the program, unless a defect is turned on.
    fn binary(&self) -> PathBuf {
        let points = self.arguments.points.as_ref().filter(|_| self.bug.is_some());
        points
            .or(self.arguments.binary.as_ref())
            .cloned()
            .unwrap_or_default()
    }

    /// Returns the build with crash points, if there is one.
    fn points(&self) -> Option<PathBuf> {
        self.arguments.points.clone()
    }

    /// Returns the usual options of a testbed for this program.
    fn plan(&self, binary: PathBuf) -> TestbedOptions {
        TestbedOptions {
            binary,
            people: 1,
            slowest_answer: Duration::from_millis(40),
            sections: String::new(),
            files: Vec::new(),
            limits: "",
            environment: self
                .bug
                .iter()
                .map(|bug| ("DRYDOCK_BUG".to_owned(), bug.clone()))
                .collect(),
            open_files_max: None,
            is_remote: false,
            data: None,
            rate_limits: RateLimits::Off,
            may_fail: false,
            // A planted defect shows soon.
            patience: Duration::from_secs(if self.bug.is_some() { 12 } else { 60 }),
        }
    }

    /// Returns the arguments that reproduce the violation.
    fn replay(&self, seed: u64) -> String {
        let bug = self
            .bug
            .as_ref()
            .map(|bug| format!(" --bug {bug}"))
            .unwrap_or_default();
        format!("--scenario {} --seed {seed}{bug}", self.name)
    }

    async fn close(&self, world: Arc<Testbed>, talks: Vec<UserConversation>) -> Tally {
        Tally::close(
            world,
            talks,
            &self.replay(self.seed),
            self.arguments.keep.as_deref(),
        )
        .await
    }

    fn skip(&self, why: &str) -> Tally {
        Tally {
            skipped: vec![why.to_owned()],
            ..Tally::default()
        }
    }

    fn needs_points(&self) -> Tally {
        self.skip("needs `--points`, a build with `--features crash-points,planted-bugs`")
    }
}
