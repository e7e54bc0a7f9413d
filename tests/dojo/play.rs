//! Plays one case: somebody asks, the model does what its row says, and what came of it is collected.

use super::arena::{Arena, BOUND, own_account};
use super::script::{Seen, mark, signed};
use super::table::{Case, Person, Platform};
use super::watch::surface::{Shown, of_slack, of_telegram, of_telegram_calls, whispers};
use drydock::demo::stage::{HOOK_SECRET, SLACK_CHANNEL};
use drydock::emulator::slack::State;
use drydock::emulator::telegram::BOT_NAME;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::json;
use sha2::Sha256;
use std::collections::BTreeSet;

/// The result of a case.
#[derive(Clone, Debug, Default)]
pub(crate) struct Played {
    pub(crate) seen: Seen,
    pub(crate) shown: Vec<Shown>,
    /// Files that differ from the base.
    pub(crate) edited: BTreeSet<String>,
}

/// Telegram accounts begin here.
const TELEGRAM_BEGIN: i64 = 700_000;
/// Groups of Telegram begin here, downwards.
const GROUP_BEGIN: i64 = -1_001_000_000_000;

/// Plays a case to its end.
pub(crate) async fn play(arena: &Arena, case: &Case) -> Played {
    let words = case.row.words.as_deref().unwrap_or("Do what has to be done.");
    let words = format!("{words} {}", mark(case.number));
    let (place, shown) = match case.on {
        Platform::Slack => in_a_thread(arena, case, &words).await,
        Platform::Direct => alone(arena, case, &words).await,
        Platform::Telegram | Platform::Group => in_telegram(arena, case, &words).await,
        Platform::Hook => by_a_hook(arena, case, &words).await,
    };
    Played {
        seen: arena.memory.of(case.number),
        shown,
        edited: arena.edited(&place).into_iter().collect(),
    }
}

async fn in_a_thread(arena: &Arena, case: &Case, words: &str) -> (String, Vec<Shown>) {
    if case.row.person == Person::Stranger {
        return as_a_stranger(arena, case, words).await;
    }
    let (thread, key, account) = match case.row.reply_to {
        Some(_) => {
            let (thread, account) = (arena.victim.clone(), own_account(case));
            let words = format!("@drydock {words}");
            arena.write(&account, SLACK_CHANNEL, Some(&thread), &words).await;
            (thread.clone(), format!("{account}%{thread}"), account)
        }
        None => {
            let thread = arena.say(case.row.person, words).await;
            (thread.clone(), thread, case.row.person.account().to_owned())
        }
    };
    let mut messages = 1;
    settle(arena, case, &key, messages).await;
    for more in &case.row.then {
        let more = more.replace("(this case)", &mark(case.number));
        arena.write(&account, SLACK_CHANNEL, Some(&thread), &more).await;
        messages += 1;
        settle(arena, case, &key, messages).await;
    }
    press(arena, case, &shown_to(arena, case, &thread, &account)).await;
    let shown = shown_to(arena, case, &thread, &account);
    (key, shown)
}

/// Plays a case as somebody who was never admitted, each message in a thread of its own; returns all they are shown.
async fn as_a_stranger(arena: &Arena, case: &Case, words: &str) -> (String, Vec<Shown>) {
    let account = own_account(case);
    let (channel, address) = match case.on {
        Platform::Direct => (format!("D{account}"), ""),
        _ => (SLACK_CHANNEL.to_owned(), "@drydock "),
    };
    let mut threads = Vec::new();
    for words in messages(case, words) {
        let words = format!("{address}{words}");
        threads.push(arena.write(&account, &channel, None, &words).await);
    }
    arena.until_quiet().await;
    let shown = arena.slack.look(|state| match case.on {
        Platform::Direct => of_slack(state, &channel, None, &account),
        _ => {
            let threads = threads.iter();
            let in_threads = threads.flat_map(|thread| of_slack(state, &channel, Some(thread), "nobody"));
            let whispers = whispers(state, &channel, None, &account);
            in_threads.chain(whispers).collect()
        }
    });
    (account, shown)
}

/// The messages of somebody who repeats what they say.
fn messages(case: &Case, words: &str) -> Vec<String> {
    let turns = 0..=case.row.again;
    turns
        .map(|turn| words.replace("(turn)", &format!("{turn:03}")))
        .collect()
}

/// Returns the messages and files of the bot in a thread for an account.
fn shown_to(arena: &Arena, case: &Case, thread: &str, account: &str) -> Vec<Shown> {
    let look = |state: &State| of_slack(state, SLACK_CHANNEL, Some(thread), account);
    let mut shown = arena.slack.look(look);
    if case.row.reply_to.is_some() {
        // What others were told there is theirs; files are sent to nobody in particular.
        let mention = format!("<@{account}>");
        shown.retain(|shown| shown.is_file || shown.text.contains(&mention));
    }
    shown
}

async fn press(arena: &Arena, case: &Case, shown: &[Shown]) {
    for press in &case.row.pressed {
        let with_button = shown.iter().filter(|shown| shown.buttons.contains(&press.label));
        let with_button: Vec<&str> = with_button.map(|shown| shown.id.as_str()).collect();
        let (title, label) = (&case.title, &press.label);
        assert_eq!(with_button.len(), 1, "{title}: one button `{label}`");
        for id in with_button {
            let pressed = arena.slack.click(press.by.account(), id, label).await;
            pressed.unwrap();
            arena.until_quiet().await;
        }
    }
}

/// Waits for the end; somebody who was never admitted has none.
async fn settle(arena: &Arena, case: &Case, key: &str, messages: usize) {
    if case.row.person.grant().is_some() {
        arena.until_answered(key, messages).await;
        if case.row.reply_to.is_some() {
            // The operations of a thread are everybody's there.
            arena.until_quiet().await;
        }
    }
}

/// Every case has a person of its own, since there is one conversation for each.
async fn alone(arena: &Arena, case: &Case, words: &str) -> (String, Vec<Shown>) {
    if case.row.person == Person::Stranger {
        return as_a_stranger(arena, case, words).await;
    }
    let account = own_account(case);
    let direct = format!("D{account}");
    let welcome = arena
        .slack
        .look(|state| of_slack(state, &direct, None, &account))
        .len();
    arena.tell(&account, words).await;
    let mut messages = 1;
    settle(arena, case, &direct, messages).await;
    for more in &case.row.then {
        arena.tell(&account, more).await;
        messages += 1;
        settle(arena, case, &direct, messages).await;
    }
    let shown = arena.slack.look(|state| of_slack(state, &direct, None, &account));
    (direct, shown.into_iter().skip(welcome).collect())
}

/// Plays a case in a chat with the bot alone, or in a group where it is spoken to by its name.
async fn in_telegram(arena: &Arena, case: &Case, words: &str) -> (String, Vec<Shown>) {
    let number = i64::try_from(case.number).unwrap();
    let account = TELEGRAM_BEGIN + number;
    let (chat, address) = match case.on {
        Platform::Group => (GROUP_BEGIN - number, format!("@{BOT_NAME} ")),
        _ => (account, String::new()),
    };
    let telegram = &arena.telegram;
    if case.on == Platform::Group {
        telegram.add_group(chat, &[]);
    }
    let key = format!("\"{account}\"");
    let welcome = match arena.invite(case.row.person, &format!("person {account}")).await {
        Some(token) => {
            let said = telegram.say(account, account, &format!("/start {token}")).await;
            arena.push(said).await;
            let welcomed = telegram
                .wait_until(BOUND, |telegram| !telegram.messages(account).is_empty())
                .await;
            assert!(welcomed, "{account} was not admitted");
            usize::from(chat == account)
        }
        None => 0,
    };
    let is_admitted = case.row.person != Person::Stranger;
    let mut written = 0;
    for words in messages(case, words).iter().chain(&case.row.then) {
        let said = telegram.say(account, chat, &format!("{address}{words}")).await;
        arena.push(said).await;
        written += 1;
        if is_admitted {
            arena.until_answered(&key, written).await;
        }
    }
    if chat != account || !is_admitted {
        let taken = telegram
            .wait_until(BOUND, |telegram| telegram.updates_waiting() == 0)
            .await;
        assert!(taken, "{}: the updates are not taken", case.title);
        // The operations of a group are everybody's there.
        arena.until_quiet().await;
    }
    let messages = telegram.messages(chat);
    let mut shown: Vec<Shown> = messages
        .iter()
        .skip(welcome)
        .map(|posted| of_telegram(posted, account))
        .collect();
    shown.extend(of_telegram_calls(&telegram.calls(), chat, account));
    (key, shown)
}

async fn by_a_hook(arena: &Arena, case: &Case, words: &str) -> (String, Vec<Shown>) {
    let payload = json!({
        "action": "published",
        "release": { "tag_name": "v1.9.0", "body": words },
        "repository": { "full_name": "acme/web" },
        "sender": { "login": "never-listed" },
    });
    let body = payload.to_string();
    let mut mac = Hmac::<Sha256>::new_from_slice(HOOK_SECRET.as_bytes()).unwrap();
    mac.update(body.as_bytes());
    let digest: String = mac
        .finalize()
        .into_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let url = format!("http://{}/in/release", arena.app.as_ref().unwrap().address);
    let id = format!("72d3162e-cc78-11e3-81ab-{:012}", case.number);
    let request = drydock::provider::http_client().unwrap().post(url).body(body);
    let request = request
        .header("content-type", "application/json")
        .header("x-github-event", "release")
        .header("x-github-delivery", &id)
        .header("x-hub-signature-256", format!("sha256={digest}"));
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 200, "{}", case.title);
    arena.until_answered(&id, 1).await;
    // The operations of an event are of the whole channel; one that prepares nothing may say nothing.
    arena.until_quiet().await;
    let end = signed(case.number);
    let shown = arena.slack.look(|state| {
        let mut roots = state
            .messages
            .iter()
            .filter(|message| message.thread_ts.is_none());
        let root = roots.find(|message| message.visible().join("\n").contains(&end))?;
        Some(of_slack(state, SLACK_CHANNEL, Some(&root.ts), ""))
    });
    (id, shown.unwrap_or_default())
}
