//! Two thousand replies to platforms that limit, disconnect and lose answers. Time is virtual: the test advances it.

use drydock::base::config::{
    ChannelSettings, RichMessages, ServerSettings, SlackSettings, TelegramMode, TelegramSettings,
};
use drydock::base::model::{Account, Action, ChatPlace, Op, Platform, Reply, Secret};
use drydock::engine::gateway::{ChannelDelivery, Pacing};
use drydock::interfaces::channel::{self, Channel};
use drydock::simulation::emulator::RequestedWait;
use drydock::simulation::emulator::slack::{RateLimits, SlackEmulator, SlackFault, SlackOptions};
use drydock::simulation::emulator::telegram::{TelegramEmulator, TelegramFault};
use drydock::state::store::{DeadLetterFilter, Store};
use jiff::{SignedDuration, Timestamp};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const REPLIES: usize = 2_000;
/// The number of calls in a thousand that have their effect and lose their answer.
const LOST: u64 = 300;
/// The number of calls in a thousand that are answered 429.
const LIMITED: u64 = 50;
/// The longest time any step may take on a busy machine.
const BOUND: Duration = Duration::from_secs(240);
/// The step by which time advances during a long delivery.
const STEP: Duration = Duration::from_millis(500);
const SEED: u64 = 0x0dd5_eed5;

thread_local! {
    static STARTED: Cell<Option<Instant>> = const { Cell::new(None) };
}

fn now() -> Timestamp {
    let started = STARTED.get().unwrap_or_else(Instant::now);
    STARTED.set(Some(started));
    let ran = SignedDuration::try_from(Instant::now() - started).unwrap();
    Timestamp::from_second(1_800_000_000).unwrap() + ran
}

fn http() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    // A connection that idles for a virtual minute would be one more fault.
    let client = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0);
    client.build().unwrap()
}

fn post(channel: &str, place: &ChatPlace, id: String, text: String) -> Op {
    let action = Action::Post {
        reply: Reply::text(text),
        reply_to: None,
        placeholder: false,
    };
    Op {
        id,
        channel: channel.to_owned(),
        place: place.clone(),
        action,
        response_url: None,
    }
}

fn placeholder(channel: &str, place: &ChatPlace, id: String, text: String) -> Op {
    let mut op = post(channel, place, id, text);
    if let Action::Post { placeholder, .. } = &mut op.action {
        *placeholder = true;
    }
    op
}

/// Creates a store with these operations.
async fn store_of(ops: Vec<Op>) -> (TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).unwrap();
    store.enqueue(ops, now()).await.unwrap();
    (directory, store)
}

/// Delivers everything, while time advances step by step.
async fn deliver(settings: &ChannelSettings, channel: Arc<dyn Channel>, store: &Store, step: Duration) {
    let name = settings.common().platform().as_str();
    let pacing = Pacing::from_setting(settings.common().is_paced());
    let delivery = ChannelDelivery::new(store.clone(), name.to_owned(), pacing, now, || [7; 32]);
    let delivery = Arc::new(delivery);
    let cancel = CancellationToken::new();
    let running = tokio::spawn(Arc::clone(&delivery).run(channel, cancel.clone()));
    // While a thread blocks, a paused clock does not advance.
    let (still, stop) = std::sync::mpsc::channel::<()>();
    tokio::task::spawn_blocking(move || stop.recv());
    let started = std::time::Instant::now();
    while store.unsent_count(name).await.unwrap() > 0 {
        assert!(
            started.elapsed() < BOUND,
            "{} wait",
            store.unsent_count(name).await.unwrap()
        );
        // Calls and the database work in real time.
        for _ in 0..8 {
            let _ = store.wait_durable().await;
            store.next_due(name).await.unwrap();
            tokio::task::yield_now().await;
        }
        tokio::time::advance(step).await;
    }
    cancel.cancel();
    running.await.unwrap();
    drop(still);
}

async fn connected(name: &str, settings: &ChannelSettings) -> Arc<dyn Channel> {
    channel::connect(name, settings, &ServerSettings::default(), &http())
        .await
        .unwrap()
}

/// Creates a workspace that enforces its limits, and a channel to it.
async fn slack(pacing: Pacing) -> (SlackEmulator, ChannelSettings, Arc<dyn Channel>) {
    let slack = SlackEmulator::start(SlackOptions {
        team: "T0ACME".to_owned(),
        bot_user: "U0BOT".to_owned(),
        bot_name: "drydock".to_owned(),
        bot_token: "xoxb-1".to_owned(),
        signing_secret: "shh".to_owned(),
        rate_limits: RateLimits::Slack,
        at: now,
        http: http(),
    })
    .await
    .unwrap();
    let settings = ChannelSettings::Slack(SlackSettings {
        bot_token: Secret::new("xoxb-1".to_owned()),
        signing_secret: Some(Secret::new("shh".to_owned())),
        previous_signing_secret: None,
        app_token: None,
        code_channels: false,
        slash_commands: Vec::new(),
        api_base_url: slack.api_base_url(),
        paced: pacing == Pacing::Counted,
        repository: None,
    });
    let channel = connected("slack", &settings).await;
    (slack, settings, channel)
}

const TOKEN: &str = "42:AAsecret-part_of-the-token";

async fn telegram() -> (TelegramEmulator, ChannelSettings, Arc<dyn Channel>) {
    let telegram = TelegramEmulator::start(TOKEN, http()).await.unwrap();
    let settings = ChannelSettings::Telegram(TelegramSettings {
        bot_token: Secret::new(TOKEN.to_owned()),
        mode: TelegramMode::Polling,
        rich_messages: RichMessages::Auto,
        secret_token: None,
        previous_secret_token: None,
        api_base_url: telegram.api_base_url(),
        paced: true,
        repository: None,
    });
    let channel = connected("telegram", &settings).await;
    (telegram, settings, channel)
}

fn in_telegram(chat: i64) -> ChatPlace {
    ChatPlace {
        account: Account {
            platform: Platform::Telegram,
            id: "42".to_owned(),
        },
        chat: chat.to_string(),
        thread: None,
    }
}

/// Checks that after each wait that a platform asked for, no call came too early.
fn waits_are_kept(waits: &[RequestedWait]) {
    assert!(waits.len() > REPLIES / 50, "{} waits", waits.len());
    let is_short = |wait: &&RequestedWait| wait.waited.is_some_and(|waited| waited < wait.wait);
    let short: Vec<&RequestedWait> = waits.iter().filter(is_short).collect();
    assert!(short.is_empty(), "{} of {}: {short:?}", short.len(), waits.len());
}

/// R17
#[tokio::test(start_paused = true)]
async fn two_thousand_replies_over_a_bad_line_to_slack_show_once_each_within_its_limits() {
    // Few enough that each would exceed its limit without rate limiting.
    const CHANNELS: usize = 4;
    let (slack, settings, channel) = slack(Pacing::Counted).await;
    let mut ops = Vec::new();
    for number in 0..REPLIES {
        let chat = format!("C{}", number % CHANNELS);
        slack.add_channel(&chat, &[]);
        let place = ChatPlace {
            account: channel.installation().account.clone(),
            chat,
            thread: None,
        };
        let id = format!("inbox-{number}/answer");
        ops.push(post("slack", &place, id, format!("Answer {number}.")));
    }
    slack.fail_some("chat.postMessage", SlackFault::ResetAfter, LOST, SEED);
    let limited = SlackFault::Status {
        status: 429,
        retry_after_seconds: Some(3),
    };
    slack.fail_some("chat.postMessage", limited, LIMITED, SEED + 1);
    let (_directory, store) = store_of(ops).await;
    deliver(&settings, channel, &store, STEP).await;
    assert_eq!(store.dead_letters(None, 10).await, Ok(Vec::new()));
    let mut shown: BTreeMap<String, usize> = BTreeMap::new();
    let texts = slack.with_state(|state| {
        state
            .messages
            .iter()
            .map(|message| message.text.clone())
            .collect::<Vec<_>>()
    });
    for text in texts {
        *shown.entry(text).or_default() += 1;
    }
    let expected: BTreeMap<String, usize> = (0..REPLIES)
        .map(|number| (format!("Answer {number}."), 1))
        .collect();
    assert_eq!(shown, expected);
    // The rate is limited before the call, so Slack refuses hardly any.
    let problems = slack.problems();
    assert!(
        problems.len() <= REPLIES / 100,
        "{} {:?}",
        problems.len(),
        problems.first()
    );
    waits_are_kept(&slack.requested_waits());
}

/// Checks that results are posted as one line first, because Telegram shows a bot no history. That line may be left
/// behind. R17
#[tokio::test(start_paused = true)]
async fn two_thousand_replies_over_a_bad_line_to_telegram_show_once_each_within_its_limits() {
    const CHATS: usize = 100;
    const GROUPS: usize = 10;
    let (telegram, settings, channel) = telegram().await;
    let chat_of = |number: usize| {
        let chat = i64::try_from(1_000 + number % CHATS).unwrap();
        if number % CHATS < GROUPS { -chat } else { chat }
    };
    let mut ops = Vec::new();
    for number in 0..REPLIES {
        let chat = chat_of(number);
        match number {
            GROUPS..CHATS => drop(telegram.say(chat, chat, "hello").await),
            0..GROUPS => telegram.add_group(chat, &[]),
            _ => {}
        }
        let place = in_telegram(chat);
        let id = format!("inbox-{number}/result");
        ops.push(placeholder(
            "telegram",
            &place,
            id.clone(),
            format!("Line {number}."),
        ));
        let fill = Action::Fill {
            post: id.clone(),
            reply: Reply::text(format!("Answer {number}.")),
        };
        ops.push(Op {
            id: format!("{id}/fill"),
            channel: "telegram".to_owned(),
            place,
            action: fill,
            response_url: None,
        });
    }
    telegram.limit_rates();
    for (seed, method) in (SEED..).zip(["sendMessage", "editMessageText"]) {
        telegram.fail_some(method, TelegramFault::ResetAfterEffect, LOST, seed);
        telegram.fail_some(method, TelegramFault::TooMany(2), LIMITED, seed + 9);
    }
    let (_directory, store) = store_of(ops).await;
    deliver(&settings, channel, &store, STEP).await;
    let mut shown: BTreeMap<String, usize> = BTreeMap::new();
    for chat in 0..CHATS {
        for posted in telegram.messages(chat_of(chat)) {
            *shown.entry(posted.text).or_default() += 1;
        }
    }
    let mut missing = Vec::new();
    for number in 0..REPLIES {
        let count = |text: String| shown.get(&text).copied().unwrap_or(0);
        let (answers, lines) = (
            count(format!("Answer {number}.")),
            count(format!("Line {number}.")),
        );
        if answers != 1 || lines > 1 {
            missing.push((number, answers, lines));
        }
    }
    assert_eq!(missing, []);
    assert_eq!(telegram.problems(), Vec::<String>::new());
    // The rate is limited before the call, so Telegram refuses hardly any.
    let refused = telegram.rate_violations();
    assert!(refused <= REPLIES / 100, "{refused} came too fast");
    waits_are_kept(&telegram.requested_waits());
}

/// Checks that dead letters whose delivery is unknown are sent again, and that finding this out consumes no quota. P2
#[tokio::test(start_paused = true)]
async fn dead_letters_of_one_telegram_chat_are_all_resent() {
    const LETTERS: usize = 6;
    let (telegram, settings, channel) = telegram().await;
    for chat in [7_001, -7_002] {
        match chat {
            7_001 => drop(telegram.say(chat, chat, "hello").await),
            _ => telegram.add_group(chat, &[]),
        }
        let ids: Vec<String> = (0..LETTERS)
            .map(|number| format!("inbox{chat}-{number}/answer"))
            .collect();
        let ops = ids.iter().map(|id| {
            post(
                "telegram",
                &in_telegram(chat),
                id.clone(),
                format!("Answer {id}."),
            )
        });
        let (_directory, store) = store_of(ops.collect()).await;
        for id in &ids {
            assert_eq!(store.lease_due("telegram", now(), 1).await.unwrap().len(), 1);
            store.record_ambiguous(id, "broke", None, now()).await.unwrap();
        }
        let all = DeadLetterFilter::Channel("telegram".to_owned());
        store.send_again(all, "operator", now()).await.unwrap();
        // Small enough that no two quotas become free during one call.
        let step = Duration::from_millis(10);
        let began = Instant::now();
        deliver(&settings, Arc::clone(&channel), &store, step).await;
        let took = began.elapsed();
        assert!(took < Duration::from_secs(20), "{chat}: {took:?}");
        let shown: Vec<String> = telegram
            .messages(chat)
            .into_iter()
            .map(|posted| posted.text)
            .collect();
        let expected: Vec<String> = ids.iter().map(|id| format!("Answer {id}.")).collect();
        assert_eq!(shown, expected);
    }
    assert_eq!(telegram.problems(), Vec::<String>::new());
}

/// R17
#[tokio::test(start_paused = true)]
async fn a_channel_without_rate_limits_is_asked_to_wait_and_loses_no_message() {
    const POSTS: usize = 100;
    let (slack, settings, channel) = slack(Pacing::Ignored).await;
    slack.add_channel("C0", &[]);
    let place = ChatPlace {
        account: channel.installation().account.clone(),
        chat: "C0".to_owned(),
        thread: None,
    };
    let ops = (0..POSTS).map(|number| {
        let id = format!("inbox-{number}/answer");
        post("slack", &place, id, format!("Answer {number}."))
    });
    let (_directory, store) = store_of(ops.collect()).await;
    deliver(&settings, channel, &store, STEP).await;
    let shown = slack.with_state(|state| {
        let messages = state.messages.iter();
        messages.map(|message| message.text.clone()).collect::<Vec<_>>()
    });
    let expected: Vec<String> = (0..POSTS).map(|number| format!("Answer {number}.")).collect();
    assert_eq!(shown, expected);
    assert_eq!(store.dead_letters(None, 10).await, Ok(Vec::new()));
    // Nothing else limits it, and it does not call again before the time that Slack set.
    let refused = slack.problems().len();
    assert!((1..=POSTS / 5).contains(&refused), "{refused} were refused");
}
