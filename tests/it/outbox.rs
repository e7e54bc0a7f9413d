//! Two thousand replies on their way to platforms that limit, break off and lose answers. Time is virtual: it moves
//! on when the test says so.

use drydock::channel::{self, Channel};
use drydock::config::{ChannelSettings, ServerSettings, SlackSettings, TelegramMode, TelegramSettings};
use drydock::emulator::slack::{Fault as SlackFault, RateLimits, SlackEmulator, SlackOptions};
use drydock::emulator::telegram::{Fault as TelegramFault, TelegramEmulator};
use drydock::gateway::Delivery;
use drydock::model::{Account, Action, Op, Place, Platform, Reply, Secret};
use drydock::store::Store;
use jiff::{SignedDuration, Timestamp};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const REPLIES: usize = 2_000;
/// Of a thousand calls, how many have their effect and lose their answer.
const LOST: u64 = 300;
/// Of a thousand calls, how many are answered 429.
const LIMITED: u64 = 50;
/// How long anything may take on a busy machine.
const BOUND: Duration = Duration::from_secs(240);
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
    // A connection that rests for a virtual minute would be one more fault.
    let client = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0);
    client.build().unwrap()
}

fn post(channel: &str, place: &Place, id: String, text: String, placeholder: bool) -> Op {
    let action = Action::Post {
        reply: Reply::text(text),
        reply_to: None,
        placeholder,
    };
    Op {
        id,
        channel: channel.to_owned(),
        place: place.clone(),
        action,
    }
}

/// Delivers everything, while time passes.
async fn deliver(name: &str, channel: Arc<dyn Channel>, ops: Vec<Op>) -> (TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).unwrap();
    store.enqueue(ops, now()).await.unwrap();
    let delivery = Arc::new(Delivery::new(store.clone(), name.to_owned(), true, now, || {
        [7; 32]
    }));
    let cancel = CancellationToken::new();
    let running = tokio::spawn(Arc::clone(&delivery).run(channel, cancel.clone()));
    // While something blocks, a paused clock stands still.
    let (still, stop) = std::sync::mpsc::channel::<()>();
    tokio::task::spawn_blocking(move || stop.recv());
    let started = std::time::Instant::now();
    while store.unsent(name).await.unwrap() > 0 {
        assert!(
            started.elapsed() < BOUND,
            "{} wait",
            store.unsent(name).await.unwrap()
        );
        // Calls and the database work in real time.
        for _ in 0..8 {
            let _ = store.durable().await;
            store.next_due(name).await.unwrap();
            tokio::task::yield_now().await;
        }
        tokio::time::advance(Duration::from_millis(500)).await;
    }
    cancel.cancel();
    running.await.unwrap();
    drop(still);
    (directory, store)
}

/// R17
#[tokio::test(start_paused = true)]
async fn two_thousand_replies_over_a_bad_line_to_slack_show_once_each_within_its_limits() {
    const CHANNELS: usize = 40;
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
        signing_secret: Secret::new("shh".to_owned()),
        api_base_url: slack.api_base_url(),
        paced: true,
        repository: None,
    });
    let channel = channel::connect("slack", &settings, &ServerSettings::default(), &http())
        .await
        .unwrap();
    let mut ops = Vec::new();
    for number in 0..REPLIES {
        let chat = format!("C{}", number % CHANNELS);
        slack.add_channel(&chat, &[]);
        let place = Place {
            account: channel.installation().account.clone(),
            chat,
            thread: None,
        };
        let id = format!("inbox-{number}/answer");
        ops.push(post("slack", &place, id, format!("Answer {number}."), false));
    }
    slack.fail_some("chat.postMessage", SlackFault::ResetAfter, LOST, SEED);
    let limited = SlackFault::Status {
        status: 429,
        retry_after_seconds: Some(3),
    };
    slack.fail_some("chat.postMessage", limited, LIMITED, SEED + 1);
    let (_directory, store) = deliver("slack", channel, ops).await;
    assert_eq!(store.dead_letters(None, 10).await, Ok(Vec::new()));
    let mut shown: BTreeMap<String, usize> = BTreeMap::new();
    let texts = slack.look(|state| {
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
    // The pace is kept before the call, so Slack has hardly anything to refuse.
    let problems = slack.problems();
    assert!(
        problems.len() <= REPLIES / 100,
        "{} {:?}",
        problems.len(),
        problems.first()
    );
}

/// Telegram shows a bot no history, so a result is born as one line, which may be left behind. R17
#[tokio::test(start_paused = true)]
async fn two_thousand_replies_over_a_bad_line_to_telegram_show_once_each_within_its_limits() {
    const CHATS: usize = 100;
    const TOKEN: &str = "42:AAsecret-part_of-the-token";
    let telegram = TelegramEmulator::start(TOKEN, http()).await.unwrap();
    let settings = ChannelSettings::Telegram(TelegramSettings {
        bot_token: Secret::new(TOKEN.to_owned()),
        mode: TelegramMode::Polling,
        secret_token: None,
        api_base_url: telegram.api_base_url(),
        paced: true,
        repository: None,
    });
    let channel = channel::connect("telegram", &settings, &ServerSettings::default(), &http())
        .await
        .unwrap();
    let mut ops = Vec::new();
    for number in 0..REPLIES {
        let chat = i64::try_from(1_000 + number % CHATS).unwrap();
        if number < CHATS {
            telegram.say(chat, chat, "hello").await;
        }
        let place = Place {
            account: Account {
                platform: Platform::Telegram,
                id: "42".to_owned(),
            },
            chat: chat.to_string(),
            thread: None,
        };
        let id = format!("inbox-{number}/result");
        ops.push(post(
            "telegram",
            &place,
            id.clone(),
            format!("Line {number}."),
            true,
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
        });
    }
    telegram.limit_rates();
    for (seed, method) in (SEED..).zip(["sendMessage", "editMessageText"]) {
        telegram.fail_some(method, TelegramFault::ResetAfterEffect, LOST, seed);
        telegram.fail_some(method, TelegramFault::TooMany(2), LIMITED, seed + 9);
    }
    let (_directory, _store) = deliver("telegram", channel, ops).await;
    let mut shown: BTreeMap<String, usize> = BTreeMap::new();
    for chat in 0..CHATS {
        for posted in telegram.messages(i64::try_from(1_000 + chat).unwrap()) {
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
}
