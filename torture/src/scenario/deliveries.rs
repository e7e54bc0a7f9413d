//! Ten thousand messages with the worst delivery of platforms: several times each, under several names, in any order
//! within a window, to a program that is stopped and killed in between. Each is answered once, and those of one place
//! in the order in which they were accepted.

use super::ScenarioContext;
use crate::final_checks;
use crate::hook::{HookEvent, HookSender};
use crate::program::{BOT_TOKEN, SIGNING_SECRET};
use crate::slack_thread::shown;
use crate::tally::Tally;
use crate::task::Task;
use crate::testbed::{BOT, CHANNEL, Testbed, TestbedOptions, person};
use anyhow::{Context, bail};
use drydock::simulation::emulator::slack::{RateLimits, SlackEmulator, SlackOptions, UnsentMessage};
use drydock::simulation::emulator::telegram::TelegramEmulator;
use fastrand::Rng;
use futures_util::StreamExt;
use jiff::Timestamp;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The number of deliveries within which the order is arbitrary.
const WINDOW: usize = 100;
/// The number of concurrent deliveries.
const AT_ONCE: usize = 8;
/// The number of parts between which the program ends.
const PARTS: usize = 3;
const PEOPLE: usize = 20;
const THREAD_MESSAGES: usize = 4;
/// The number of threads of which one has a twin at another app.
const THREADS_WITH_ONE_TWIN: usize = 25;
const TELEGRAM_PEOPLE: i64 = 8;
/// The variable with the token of Telegram.
const CHAT_TOKEN: &str = "TORTURE_CHAT_TOKEN";
const TELEGRAM_TOKEN: &str = "7700000001:AATortureTortureTortureTortureTorture";
/// The channel of the second app.
const SECOND_CHANNEL: &str = "C0SECOND";
const ATTEMPTS_MAX: usize = 20;
const WAIT_MAX: Duration = Duration::from_secs(60);
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// One delivery to the program.
enum OneDelivery {
    Slack(Value),
    /// To the second app.
    Second(Value),
    Github(Task),
}

/// The platforms beside the Slack of the testbed.
struct OtherPlatforms {
    /// The same workspace with another app.
    second: SlackEmulator,
    telegram: TelegramEmulator,
}

/// All messages, with their conversations.
#[derive(Default)]
struct SentMessages {
    conversations: BTreeMap<u32, u32>,
}

impl SentMessages {
    /// Returns a new message of a conversation.
    fn task(&mut self, conversation: usize, steps: usize) -> Task {
        let id = self.conversations.len() as u32 + 1;
        let conversation = conversation as u32;
        self.conversations.insert(id, conversation);
        Task {
            id,
            conversation,
            steps,
        }
    }
}

pub(super) async fn run(cx: &ScenarioContext<'_>) -> anyhow::Result<Tally> {
    let all: usize = cx.lane().either(600, 10_000);
    let (events, telegram_messages) = (all * 6 / 100, all * 24 / 100 / TELEGRAM_PEOPLE as usize);
    let others = OtherPlatforms::start().await?;
    let mut plan = TestbedOptions {
        people: PEOPLE,
        sections: others.sections(),
        limits: "waiting_messages_max = 1000\nwaiting_events_max = 10000",
        slowest_answer: Duration::from_millis(20),
        patience: Duration::from_secs(120),
        ..cx.plan(cx.binary())
    };
    let token = (CHAT_TOKEN.to_owned(), TELEGRAM_TOKEN.to_owned());
    plan.environment.push(token);
    let world = Arc::new(Testbed::start_with_people(plan).await?);
    others.connect(&world).await?;
    let mut rng = Rng::with_seed(cx.seed);
    let mut sent = SentMessages::default();
    let of_slack = all - events - telegram_messages * TELEGRAM_PEOPLE as usize;
    let mut deliveries = write_in_slack(&world, &others.second, of_slack, &mut sent, &mut rng);
    add_events(&mut deliveries, events, &mut sent, &mut rng);
    deliveries
        .chunks_mut(WINDOW)
        .for_each(|window| rng.shuffle(window));
    let mut updates = write_in_telegram(telegram_messages, &mut sent);
    for part in 0..PARTS {
        let share = |all: usize| all * (part + 1) / PARTS - all * part / PARTS;
        let from = deliveries.len() * part / PARTS;
        let due = deliveries
            .get(from..from + share(deliveries.len()))
            .unwrap_or_default();
        let due_updates: Vec<(i64, Task)> = updates.drain(..share_of(updates.len(), part)).collect();
        let sending = futures_util::stream::iter(due)
            .map(|delivery| deliver(&world, &others.second, delivery))
            .buffer_unordered(AT_ONCE)
            .collect::<()>();
        let seed = rng.u64(..);
        tokio::join!(sending, others.say(&due_updates, seed));
        match part {
            0 => world.terminate().await,
            1 => world.kill().await,
            _ => continue,
        }
        world.start().await?;
        others.restart_update_ids().await?;
    }
    until_answered(&world, &others, sent.conversations.len()).await;
    for problem in others
        .second
        .problems()
        .into_iter()
        .chain(others.telegram.problems())
    {
        world.report_violation(problem);
    }
    final_checks::check(&world, &[]).await;
    check_answers(&world, &others, &sent);
    check_turns(&world, &others, &sent)?;
    let mut tally = Tally::count(world, &cx.replay(cx.seed), cx.arguments.keep.as_deref());
    tally.messages = sent.conversations.len();
    tally.measured = vec![format!("{} deliveries", deliveries.len())];
    Ok(tally)
}

/// Returns the number of the next part, of those that are left.
fn share_of(left: usize, part: usize) -> usize {
    left / (PARTS - part)
}

impl OtherPlatforms {
    async fn start() -> anyhow::Result<Self> {
        let http = drydock::base::http_client::api_client()?;
        let second = SlackEmulator::start(SlackOptions {
            team: "T0ACME".to_owned(),
            bot_user: "U0SECOND".to_owned(),
            bot_name: "second".to_owned(),
            bot_token: BOT_TOKEN.to_owned(),
            signing_secret: SIGNING_SECRET.to_owned(),
            rate_limits: RateLimits::Off,
            at: Timestamp::now,
            http: http.clone(),
        })
        .await?;
        let people: Vec<String> = (0..PEOPLE).map(person).collect();
        let people: Vec<&str> = people.iter().map(String::as_str).collect();
        second.add_channel(SECOND_CHANNEL, &people);
        let telegram = TelegramEmulator::start(TELEGRAM_TOKEN, http).await?;
        Ok(Self { second, telegram })
    }

    fn sections(&self) -> String {
        format!(
            "[channels.second]\nkind = \"slack\"\npaced = false\nbot_token = {{ env = \"TORTURE_BOT_TOKEN\" }}\n\
             signing_secret = {{ env = \"TORTURE_SIGNING_SECRET\" }}\napi_base_url = \"{}\"\n\n\
             [channels.telegram]\nkind = \"telegram\"\npaced = false\nbot_token = {{ env = \"{CHAT_TOKEN}\" }}\n\
             api_base_url = \"{}\"\n",
            self.second.api_base_url(),
            self.telegram.api_base_url()
        )
    }

    /// Connects the second app, and admits the people of Telegram.
    async fn connect(&self, world: &Testbed) -> anyhow::Result<()> {
        let address = world.launch().address;
        self.second.connect_to(&format!("http://{address}/in/second"));
        for user in 1..=TELEGRAM_PEOPLE {
            let token = world.launch().invite(&format!("telegram {user}"))?;
            self.telegram.say(user, user, &format!("/start {token}")).await;
            let is_welcome = |telegram: &TelegramEmulator| {
                let mut shown = telegram.messages(user).into_iter();
                shown.any(|message| message.text.contains("You're in"))
            };
            if !self.telegram.wait_until(WAIT_MAX, is_welcome).await {
                bail!("an invited person was not welcomed in Telegram");
            }
        }
        Ok(())
    }

    /// Writes messages in Telegram. Some updates come again, and some messages are edited.
    async fn say(&self, messages: &[(i64, Task)], seed: u64) {
        let mut rng = Rng::with_seed(seed);
        for (user, task) in messages {
            let pushed = self.telegram.say(*user, *user, &words(task)).await;
            for _ in 0..rng.usize(0..5) {
                self.telegram.send_update(pushed.update.clone()).await;
            }
            if rng.usize(0..10) == 0 {
                self.telegram
                    .edit(*user, *user, pushed.message, "after an edit")
                    .await;
            }
        }
    }

    /// Restarts the update ids of Telegram below the earlier ones, as after a quiet week.
    async fn restart_update_ids(&self) -> anyhow::Result<()> {
        let telegram = &self.telegram;
        let is_empty = |telegram: &TelegramEmulator| telegram.updates_waiting() == 0;
        if !telegram.wait_until(WAIT_MAX, is_empty).await {
            bail!("the updates of Telegram were not fetched");
        }
        let calls = telegram.calls().len();
        telegram.end_poll();
        let is_polled = |telegram: &TelegramEmulator| telegram.calls().len() > calls;
        if !telegram.wait_until(WAIT_MAX, is_polled).await {
            bail!("Telegram was not polled any more");
        }
        telegram.restart_update_ids(1);
        Ok(())
    }
}

/// Returns the request of a task, which has its own turn, also while another runs.
fn words(task: &Task) -> String {
    format!("queue: please carry out {} now", task.word())
}

/// Writes messages in threads of Slack. Returns the deliveries of their events in order.
fn write_in_slack(
    world: &Testbed,
    second: &SlackEmulator,
    messages: usize,
    sent: &mut SentMessages,
    rng: &mut Rng,
) -> Vec<OneDelivery> {
    let mut deliveries = Vec::new();
    let mut root: Option<String> = None;
    for number in 0..messages {
        let thread = number / THREAD_MESSAGES;
        let user = person(thread % PEOPLE);
        if number % THREAD_MESSAGES == 0 {
            root = None;
        }
        let task = sent.task(thread + 1, 0);
        let text = format!("@drydock {}", words(&task));
        let written = world.slack.write(&user, CHANNEL, root.as_deref(), &text);
        let is_first = root.is_none();
        root.get_or_insert_with(|| written.ts.clone());
        if is_first && thread.is_multiple_of(THREADS_WITH_ONE_TWIN) {
            // Each twin has the event ids of the first app, and a conversation of its own.
            let twin = sent.task(messages + thread + 1, 0);
            let text = format!("@second {}", words(&twin));
            let twin = second.write(&user, SECOND_CHANNEL, None, &text);
            deliveries.extend(twin_events(&written, twin));
        }
        deliveries.extend(copies(&written.events, rng));
        if !is_first && rng.usize(0..12) == 0 {
            // A client without an answer sends its message again.
            let mut again = world.slack.write(&user, CHANNEL, root.as_deref(), &text);
            let client_id = written
                .events
                .first()
                .map(|event| event["event"]["client_msg_id"].clone());
            for event in &mut again.events {
                event["event"]["client_msg_id"] = json!(client_id);
            }
            deliveries.extend(copies(&again.events, rng));
        }
        if rng.usize(0..20) == 0 {
            deliveries.push(OneDelivery::Slack(edit_event(world, &user, &written.ts, &text)));
        }
    }
    deliveries
}

/// Returns each event once, and up to three further copies.
fn copies(events: &[Value], rng: &mut Rng) -> Vec<OneDelivery> {
    let mut copies: Vec<Value> = events.to_vec();
    for _ in 0..rng.usize(0..4) {
        copies.extend(rng.choice(events).cloned());
    }
    copies.into_iter().map(OneDelivery::Slack).collect()
}

/// Returns the events of a message to the second app, with the event ids of one to the first.
fn twin_events(first: &UnsentMessage, twin: UnsentMessage) -> Vec<OneDelivery> {
    let pairs = twin.events.into_iter().zip(&first.events);
    pairs
        .map(|(mut event, other)| {
            event["event_id"] = other["event_id"].clone();
            event["api_app_id"] = json!("A0SECOND");
            OneDelivery::Second(event)
        })
        .collect()
}

fn edit_event(world: &Testbed, user: &str, ts: &str, text: &str) -> Value {
    world.slack.envelope(&json!({
        "type": "message", "subtype": "message_changed", "channel": CHANNEL, "channel_type": "channel",
        "ts": ts, "event_ts": ts, "hidden": true,
        "message": {"type": "message", "user": user, "team": "T0ACME", "ts": ts,
            "text": format!("{text} after an edit"), "edited": {"user": user, "ts": ts}},
        "previous_message": {"type": "message", "user": user, "ts": ts, "text": text},
    }))
}

/// Adds events of a hook among the deliveries, each one to five times with the same id.
fn add_events(deliveries: &mut Vec<OneDelivery>, events: usize, sent: &mut SentMessages, rng: &mut Rng) {
    let before = std::mem::take(deliveries);
    let pause = before.len() / events.max(1);
    let mut left = events;
    for (index, delivery) in before.into_iter().enumerate() {
        deliveries.push(delivery);
        if left > 0 && index.is_multiple_of(pause.max(1)) {
            left -= 1;
            // Each event has a conversation of its own.
            let conversation = 1_000_000 + left;
            let task = sent.task(conversation, 1);
            for _ in 0..rng.usize(1..=5) {
                deliveries.push(OneDelivery::Github(task.clone()));
            }
        }
    }
}

/// Returns messages of all people in Telegram, one after the other.
fn write_in_telegram(messages: usize, sent: &mut SentMessages) -> Vec<(i64, Task)> {
    let users = (0..messages).flat_map(|_| 1..=TELEGRAM_PEOPLE);
    users
        .map(|user| (user, sent.task(2_000_000 + user as usize, 0)))
        .collect()
}

/// Makes a delivery until it is acknowledged.
async fn deliver(world: &Testbed, second: &SlackEmulator, delivery: &OneDelivery) {
    for _ in 0..ATTEMPTS_MAX {
        let is_acknowledged = match delivery {
            OneDelivery::Slack(event) => world.deliver(event).await,
            OneDelivery::Second(event) => {
                let answer = second.deliver(event, None).await;
                answer.is_ok_and(|answer| answer.status == 200)
            }
            OneDelivery::Github(task) => {
                let event = HookEvent::of_task(HookSender::Github, task);
                event.send(world).await == Some(200)
            }
        };
        if is_acknowledged {
            return;
        }
        world.wait_until_up().await;
    }
    world.report_violation("an event was never acknowledged".to_owned());
}

/// Returns the tasks whose results are shown, in the order of the messages of each place.
fn answers(world: &Testbed, others: &OtherPlatforms) -> Vec<u32> {
    let texts = |slack: &SlackEmulator, bot: &str| {
        slack.with_state(|state| {
            let messages = state.messages.iter().filter(|message| message.user == bot);
            messages
                .filter_map(|message| done(&shown(message)))
                .collect::<Vec<u32>>()
        })
    };
    let mut answers = texts(&world.slack, BOT);
    answers.extend(texts(&others.second, "U0SECOND"));
    for user in 1..=TELEGRAM_PEOPLE {
        let messages = others.telegram.messages(user).into_iter();
        answers.extend(messages.filter_map(|message| done(&message.text)));
    }
    answers
}

/// Returns the task that the text of a result names. A card that is not final may have the same words.
fn done(text: &str) -> Option<u32> {
    if text.starts_with("Working") {
        return None;
    }
    let (before, _) = text.split_once(" is done.")?;
    before.rsplit_once("Task ")?.1.parse().ok()
}

/// Waits until so many results are shown, or until no more come.
async fn until_answered(world: &Testbed, others: &OtherPlatforms, expected: usize) {
    let (mut most, mut since) = (0, Instant::now());
    loop {
        let count = answers(world, others).len();
        if count >= expected || since.elapsed() > world.patience {
            return;
        }
        if count > most {
            (most, since) = (count, Instant::now());
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// Checks that each message has one result.
fn check_answers(world: &Testbed, others: &OtherPlatforms, sent: &SentMessages) {
    let mut counts: BTreeMap<u32, usize> = sent.conversations.keys().map(|id| (*id, 0)).collect();
    for id in answers(world, others) {
        *counts.entry(id).or_default() += 1;
    }
    for (id, count) in counts.into_iter().filter(|(_, count)| *count != 1) {
        world.report_violation(format!("task {id} was answered {count} times"));
    }
}

/// Checks that each message had one turn, and that each conversation shows its results in the order of its turns.
fn check_turns(world: &Testbed, others: &OtherPlatforms, sent: &SentMessages) -> anyhow::Result<()> {
    let file = world.launch().data.join("drydock.db");
    let database = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    // Only a turn that the end of the process cut short begins again.
    let query = "SELECT user_text FROM turn WHERE verdict NOT IN ('cancelled', 'error') ORDER BY inbox";
    let mut turns = database.prepare(query)?;
    let texts = turns.query_map([], |row| row.get::<_, String>(0))?;
    let mut taken = Vec::new();
    for text in texts {
        let task = Task::in_text(&text?).context("a turn without a task")?;
        taken.push(task.id);
    }
    let expected = sent.conversations.len();
    let messages: i64 = database.query_row("SELECT COUNT(*) FROM inbox WHERE lane = 'turn'", [], |row| {
        row.get(0)
    })?;
    if taken.len() != expected || usize::try_from(messages) != Ok(expected) {
        let turns = taken.len();
        world.report_violation(format!(
            "{expected} messages were stored as {messages}, and had {turns} turns"
        ));
    }
    let (taken, shown) = (
        sent.by_conversation(&taken),
        sent.by_conversation(&answers(world, others)),
    );
    for (conversation, taken) in &taken {
        let shown = shown.get(conversation);
        if shown != Some(taken) {
            world.report_violation(format!(
                "conversation {conversation} took {taken:?} and shows {shown:?}"
            ));
        }
    }
    let in_order = taken
        .iter()
        .filter(|(conversation, _)| **conversation > 2_000_000);
    for (conversation, taken) in in_order.filter(|(_, taken)| !taken.is_sorted()) {
        world.report_violation(format!("Telegram {conversation}: {taken:?}, and not as written"));
    }
    Ok(())
}

impl SentMessages {
    /// Returns tasks by their conversations, in their order.
    fn by_conversation(&self, tasks: &[u32]) -> BTreeMap<u32, Vec<u32>> {
        let mut conversations: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for task in tasks {
            let conversation = self.conversations.get(task).copied().unwrap_or_default();
            conversations.entry(conversation).or_default().push(*task);
        }
        conversations
    }
}
