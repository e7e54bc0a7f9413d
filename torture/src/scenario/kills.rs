//! People write in their threads while the process is ended at random moments, often right after an acknowledgement,
//! and sometimes again while it recovers.

use super::ScenarioContext;
use crate::conversation::{CommandInput, UserConversation};
use crate::explain::CommandKind;
use crate::tally::Tally;
use crate::task::STEPS_MAX;
use crate::testbed::{Testbed, TestbedOptions, person};
use drydock::simulation::emulator::slack::SlackFault;
use fastrand::Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

const PEOPLE: usize = 6;
/// The approximate number of messages of a testbed.
const MESSAGES_OF_WORLD: usize = 240;
/// The most ends of the process in a row.
const DEPTH_MAX: usize = 3;

/// The remaining work, shared by consecutive testbeds.
struct RemainingWork {
    ends: usize,
    messages: usize,
}

pub(super) async fn run(cx: &ScenarioContext<'_>) -> anyhow::Result<Tally> {
    let mut left = RemainingWork {
        ends: cx.arguments.kills.unwrap_or(cx.lane().either(24, 1_000)),
        messages: cx.arguments.messages.unwrap_or(cx.lane().either(480, 20_000)),
    };
    let mut seeds = Rng::with_seed(cx.seed);
    let mut tally = Tally::default();
    let mut seed = cx.seed;
    while (left.ends > 0 || left.messages > 0) && tally.failures.len() < 5 {
        let messages = MESSAGES_OF_WORLD.min(left.messages.max(40));
        let worlds = left.messages.div_ceil(MESSAGES_OF_WORLD).max(1);
        let ends = left.ends.div_ceil(worlds);
        let world = run_testbed(cx, seed, ends, messages).await?;
        left.ends = left.ends.saturating_sub(world.ends);
        left.messages = left.messages.saturating_sub(world.messages);
        tally.add(world);
        seed = seeds.u64(..);
    }
    Ok(tally)
}

async fn run_testbed(
    cx: &ScenarioContext<'_>,
    seed: u64,
    ends: usize,
    messages: usize,
) -> anyhow::Result<Tally> {
    let mut rng = Rng::with_seed(seed);
    let plan = TestbedOptions {
        people: PEOPLE,
        slowest_answer: Duration::from_millis(rng.u64(20..160)),
        ..cx.plan(cx.binary())
    };
    let world = Arc::new(Testbed::start_with_people(plan).await?);
    let ids = Arc::new(AtomicU32::new(1));
    let sent = Arc::new(AtomicUsize::new(0));
    let mut people = JoinSet::new();
    for number in 0..PEOPLE {
        let person = SimulatedUser {
            testbed: Arc::clone(&world),
            number,
            rng: Rng::with_seed(rng.u64(..)),
            ids: Arc::clone(&ids),
            sent: Arc::clone(&sent),
            messages_max: messages,
        };
        people.spawn(person.talks());
    }
    let reaper = tokio::spawn(kill_repeatedly(
        Arc::clone(&world),
        Rng::with_seed(rng.u64(..)),
        ends,
    ));
    let mut talks = Vec::new();
    while let Some(done) = people.join_next().await {
        talks.extend(done?);
    }
    reaper.abort();
    let broke = match reaper.await {
        Ok(Err(error)) => Some(format!("{error:#}")),
        Ok(Ok(())) | Err(_) => None,
    };
    if let Some(error) = broke {
        world.report_violation(format!("the program could not be ended and started: {error}"));
    }
    if world.up_since().is_none() {
        world.start().await?;
    }
    for talk in &mut talks {
        talk.check_final_patch().await;
    }
    let replay = format!("--scenario kills --seed {seed} --kills {ends} --messages {messages}");
    Ok(Tally::close(world, talks, &replay, cx.arguments.keep.as_deref()).await)
}

/// Ends the process again and again, at moments that depend on people's messages.
async fn kill_repeatedly(world: Arc<Testbed>, mut rng: Rng, ends: usize) -> anyhow::Result<()> {
    let mut acknowledged = world.acknowledged();
    let mut left = ends;
    while left > 0 {
        let wanted = *acknowledged.borrow() + rng.usize(1..6);
        acknowledged.wait_for(|count| *count >= wanted).await?;
        let millis = if rng.bool() {
            rng.u64(0..40)
        } else {
            rng.u64(0..1_000)
        };
        tokio::time::sleep(Duration::from_millis(millis)).await;
        if rng.u8(..) < 40 {
            world.note("the next post is lost on its way back");
            world
                .slack
                .fail_next("chat.postMessage", 1, SlackFault::ResetAfter);
        }
        let depth = (1..=DEPTH_MAX)
            .find(|_| rng.u8(..) > 64)
            .unwrap_or(DEPTH_MAX)
            .min(left);
        for again in 0..depth {
            if again > 0 {
                tokio::time::sleep(Duration::from_millis(rng.u64(0..300))).await;
            }
            match rng.u8(..) < 200 {
                true => world.kill().await,
                false => world.terminate().await,
            }
            left -= 1;
            world.start().await?;
        }
    }
    Ok(())
}

struct SimulatedUser {
    testbed: Arc<Testbed>,
    number: usize,
    rng: Rng,
    ids: Arc<AtomicU32>,
    sent: Arc<AtomicUsize>,
    messages_max: usize,
}

impl SimulatedUser {
    /// Begins one conversation after another until all people have sent enough messages.
    async fn talks(mut self) -> Vec<UserConversation> {
        let mut talks = Vec::new();
        while self.sent.load(Ordering::SeqCst) < self.messages_max {
            let number = u32::try_from(self.number * 1_000 + talks.len()).unwrap_or_default();
            let mut talk = UserConversation::new(&self.testbed, number, person(self.number), &self.ids);
            self.talk(&mut talk).await;
            self.sent.fetch_add(talk.acknowledged(), Ordering::SeqCst);
            talks.push(talk);
        }
        talks
    }

    async fn talk(&mut self, talk: &mut UserConversation) {
        self.ask(talk).await;
        for _ in 0..self.rng.usize(4..11) {
            match self.rng.u8(0..100) {
                0..40 => self.ask(talk).await,
                40..54 => self.commands(talk, CommandKind::Undo, CommandInput::Text).await,
                54..61 => {
                    self.commands(talk, CommandKind::Discard, CommandInput::Text)
                        .await
                }
                61..68 => {
                    self.commands(talk, CommandKind::Discard, CommandInput::Button("Discard"))
                        .await
                }
                68..76 => self.commands(talk, CommandKind::Patch, CommandInput::Text).await,
                76..84 => {
                    self.commands(talk, CommandKind::Patch, CommandInput::Button("Get patch"))
                        .await
                }
                84..88 => self.commands(talk, CommandKind::Status, CommandInput::Text).await,
                88..91 => self.commands(talk, CommandKind::Clear, CommandInput::Text).await,
                91..94 => self.commands(talk, CommandKind::Diff, CommandInput::Text).await,
                94..97 => self.commands(talk, CommandKind::Stop, CommandInput::Text).await,
                _ => {
                    self.commands(talk, CommandKind::Stop, CommandInput::Button("Stop"))
                        .await
                }
            }
        }
        talk.check_final_patch().await;
    }

    async fn ask(&mut self, talk: &mut UserConversation) {
        let task = talk.task(self.rng.usize(1..=STEPS_MAX));
        talk.ask(task).await;
        if self.rng.u8(..) < 150 {
            talk.until_answered().await;
        }
    }

    /// Sends a command, mostly after everything before it is answered, and sometimes sends the next request at once.
    async fn commands(&mut self, talk: &mut UserConversation, verb: CommandKind, by: CommandInput) {
        if self.rng.u8(..) < 150 {
            talk.until_answered().await;
        }
        talk.command(verb, by).await;
        if self.rng.u8(..) < 60 {
            self.ask(talk).await;
        }
        talk.until_commands_are_answered().await;
    }
}
