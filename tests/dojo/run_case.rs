//! The run of one case: a person sends a request, the model answers with its row, and the effects are collected.

use super::expansion::DojoCase;
use super::fixture::{AttackFixture, BOUND, own_account, sender_number};
use super::script::{ConversationRecord, case_mark, final_line};
use super::table::{ButtonPress, CasePlatform, Persona, QuestionReply, ReceiverDecision};
use super::watch::visible_messages::{
    VisibleMessage, ephemeral_messages, slack_messages, telegram_call_messages, telegram_message,
};
use drydock::simulation::demo::environment::{HOOK_SECRET, SLACK_CHANNEL};
use drydock::simulation::emulator::slack::SlackState;
use drydock::simulation::emulator::telegram::BOT_NAME;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::json;
use sha2::Sha256;
use std::collections::BTreeSet;

#[derive(Clone, Debug, Default)]
pub(crate) struct CaseResult {
    pub(crate) record: ConversationRecord,
    pub(crate) messages: Vec<VisibleMessage>,
    /// The files that differ from the base.
    pub(crate) edited: BTreeSet<String>,
}

/// The number of the first Telegram account.
const TELEGRAM_BEGIN: i64 = 700_000;
/// The number of the first Telegram group. Further groups count downwards.
const GROUP_BEGIN: i64 = -1_001_000_000_000;

/// Plays a case to its end.
pub(crate) async fn run_case(fixture: &AttackFixture, case: &DojoCase) -> CaseResult {
    let words = case.row.words.as_deref().unwrap_or("Do what has to be done.");
    let words = format!("{words} {}", case_mark(case.number));
    let (place, shown) = match case.on {
        CasePlatform::Slack => run_in_thread(fixture, case, &words).await,
        CasePlatform::Direct => run_in_direct_message(fixture, case, &words).await,
        CasePlatform::Telegram | CasePlatform::Group => run_in_telegram(fixture, case, &words).await,
        CasePlatform::Hook => run_by_hook(fixture, case, &words).await,
    };
    CaseResult {
        record: fixture.records.record(case.number),
        messages: shown,
        edited: fixture.edited_files(&place).into_iter().collect(),
    }
}

async fn run_in_thread(
    fixture: &AttackFixture,
    case: &DojoCase,
    words: &str,
) -> (String, Vec<VisibleMessage>) {
    if case.row.person == Persona::Unknown {
        return run_as_unknown_sender(fixture, case, words).await;
    }
    let (thread, key, account) = match case.row.reply_to {
        Some(_) => {
            let (thread, account) = (fixture.victim_thread.clone(), own_account(case));
            let words = format!("@drydock {words}");
            fixture
                .send_message(&account, SLACK_CHANNEL, Some(&thread), &words)
                .await;
            fixture.start_own(&account).await;
            (thread.clone(), format!("{account}%{thread}"), account)
        }
        None => {
            let thread = fixture.send_channel_message(case.row.person, words).await;
            (thread.clone(), thread, case.row.person.account().to_owned())
        }
    };
    let mut messages = 1 + case.row.replies.len();
    if case.row.reply_to.is_some() {
        // The message that was kept until the press, and the press.
        messages += 2;
    }
    if !case.row.meanwhile.is_empty() {
        fixture.wait_for_request(case.number).await;
    }
    for more in &case.row.meanwhile {
        fixture
            .send_message(&account, SLACK_CHANNEL, Some(&thread), more)
            .await;
        messages += 1;
    }
    for reply in &case.row.replies {
        fixture.wait_until_asked(&key).await;
        match reply {
            QuestionReply::Press(press) => {
                let shown = messages_shown_to(fixture, case, &thread, &account);
                press_button(fixture, case, press, &shown).await;
            }
            QuestionReply::Words(words) => {
                fixture
                    .send_message(&account, SLACK_CHANNEL, Some(&thread), words)
                    .await;
            }
        }
    }
    wait_for_case(fixture, case, &key, messages).await;
    for more in &case.row.then {
        let more = more.replace("(this case)", &case_mark(case.number));
        fixture
            .send_message(&account, SLACK_CHANNEL, Some(&thread), &more)
            .await;
        messages += 1;
        wait_for_case(fixture, case, &key, messages).await;
    }
    press_buttons(
        fixture,
        case,
        &messages_shown_to(fixture, case, &thread, &account),
    )
    .await;
    let shown = messages_shown_to(fixture, case, &thread, &account);
    (key, shown)
}

/// Plays a case as an unknown sender, each message in a separate thread. Returns all messages shown to the sender.
async fn run_as_unknown_sender(
    fixture: &AttackFixture,
    case: &DojoCase,
    words: &str,
) -> (String, Vec<VisibleMessage>) {
    let account = own_account(case);
    let (channel, address) = match case.on {
        CasePlatform::Direct => (format!("D{account}"), ""),
        _ => (SLACK_CHANNEL.to_owned(), "@drydock "),
    };
    let mut threads = Vec::new();
    for words in repeated_words(case, words) {
        let words = format!("{address}{words}");
        threads.push(fixture.send_message(&account, &channel, None, &words).await);
    }
    fixture.wait_until_idle().await;
    let shown = fixture.slack.with_state(|state| match case.on {
        CasePlatform::Direct => slack_messages(state, &channel, None, &account),
        _ => {
            let threads = threads.iter();
            let in_threads =
                threads.flat_map(|thread| slack_messages(state, &channel, Some(thread), "nobody"));
            let ephemerals = ephemeral_messages(state, &channel, None, &account);
            in_threads.chain(ephemerals).collect()
        }
    });
    (account, shown)
}

/// Returns the messages of a person who repeats their words.
fn repeated_words(case: &DojoCase, words: &str) -> Vec<String> {
    let turns = 0..=case.row.again;
    turns
        .map(|turn| words.replace("(turn)", &format!("{turn:03}")))
        .collect()
}

/// Returns the messages and files of the bot in a thread for an account.
fn messages_shown_to(
    fixture: &AttackFixture,
    case: &DojoCase,
    thread: &str,
    account: &str,
) -> Vec<VisibleMessage> {
    let look = |state: &SlackState| slack_messages(state, SLACK_CHANNEL, Some(thread), account);
    let mut shown = fixture.slack.with_state(look);
    if case.row.reply_to.is_some() {
        // Messages that mention another person belong to that person. Files mention no person.
        let mention = format!("<@{account}>");
        shown.retain(|shown| shown.is_file || shown.text.contains(&mention));
    }
    shown
}

async fn press_buttons(fixture: &AttackFixture, case: &DojoCase, shown: &[VisibleMessage]) {
    for press in &case.row.pressed {
        press_button(fixture, case, press, shown).await;
        fixture.wait_until_idle().await;
    }
}

async fn press_button(
    fixture: &AttackFixture,
    case: &DojoCase,
    press: &ButtonPress,
    shown: &[VisibleMessage],
) {
    let with_button = shown.iter().filter(|shown| shown.buttons.contains(&press.label));
    let with_button: Vec<&str> = with_button.map(|shown| shown.id.as_str()).collect();
    let (title, label) = (&case.title, &press.label);
    assert_eq!(with_button.len(), 1, "{title}: one button `{label}`");
    for id in with_button {
        let pressed = fixture.slack.click(press.by.account(), id, label).await;
        pressed.unwrap();
    }
}

/// Waits for the end. An unknown sender has no turn to wait for.
async fn wait_for_case(fixture: &AttackFixture, case: &DojoCase, key: &str, messages: usize) {
    if case.row.person.grant().is_some() {
        fixture.wait_until_answered(key, messages).await;
        if case.row.reply_to.is_some() {
            // The operations of a thread belong to all its people.
            fixture.wait_until_idle().await;
        }
    }
}

/// Plays a case in direct messages. Every case has a separate person, because a person has one conversation there.
async fn run_in_direct_message(
    fixture: &AttackFixture,
    case: &DojoCase,
    words: &str,
) -> (String, Vec<VisibleMessage>) {
    if case.row.person == Persona::Unknown {
        return run_as_unknown_sender(fixture, case, words).await;
    }
    let account = own_account(case);
    let direct = format!("D{account}");
    let welcome = fixture
        .slack
        .with_state(|state| slack_messages(state, &direct, None, &account))
        .len();
    let mut messages = receive_message(fixture, case, &account).await;
    fixture.send_direct_message(&account, words).await;
    messages += 1;
    wait_for_case(fixture, case, &direct, messages).await;
    for more in &case.row.then {
        fixture.send_direct_message(&account, more).await;
        messages += 1;
        wait_for_case(fixture, case, &direct, messages).await;
    }
    let shown = fixture
        .slack
        .with_state(|state| slack_messages(state, &direct, None, &account));
    (direct, shown.into_iter().skip(welcome).collect())
}

/// Lets another person send the message of a case to its person. Returns the number of messages that the person wrote.
async fn receive_message(fixture: &AttackFixture, case: &DojoCase, account: &str) -> usize {
    let Some(received) = &case.row.received else {
        return 0;
    };
    let sender = received.by.account();
    // Without any message of the person there is no private chat.
    let command = match received.consent {
        ReceiverDecision::Accept => format!("!accept {sender}"),
        ReceiverDecision::Block => format!("!block {sender}"),
        ReceiverDecision::Open => "!accept".to_owned(),
    };
    fixture.send_direct_message(account, &command).await;
    fixture.wait_until_idle().await;
    let words = format!("Tell {account} about it. {}", case_mark(sender_number(case)));
    let thread = fixture.send_channel_message(received.by, &words).await;
    fixture.wait_until_answered(&thread, 1).await;
    fixture.wait_until_idle().await;
    1
}

/// Plays a case in a direct chat with the bot, or in a group where the message mentions the bot.
async fn run_in_telegram(
    fixture: &AttackFixture,
    case: &DojoCase,
    words: &str,
) -> (String, Vec<VisibleMessage>) {
    let number = i64::try_from(case.number).unwrap();
    let account = TELEGRAM_BEGIN + number;
    let (chat, address) = match case.on {
        CasePlatform::Group => (GROUP_BEGIN - number, format!("@{BOT_NAME} ")),
        _ => (account, String::new()),
    };
    let telegram = &fixture.telegram;
    if case.on == CasePlatform::Group {
        telegram.add_group(chat, &[]);
    }
    let key = format!("\"{account}\"");
    let welcome = match fixture
        .invite(case.row.person, &format!("person {account}"))
        .await
    {
        Some(token) => {
            let said = telegram.say(account, account, &format!("/start {token}")).await;
            fixture.push_update(said).await;
            let welcomed = telegram
                .wait_until(BOUND, |telegram| !telegram.messages(account).is_empty())
                .await;
            assert!(welcomed, "{account} was not admitted");
            usize::from(chat == account)
        }
        None => 0,
    };
    let is_admitted = case.row.person != Persona::Unknown;
    let mut written = 0;
    for words in repeated_words(case, words).iter().chain(&case.row.then) {
        let said = telegram.say(account, chat, &format!("{address}{words}")).await;
        fixture.push_update(said).await;
        written += 1;
        if written == 1 {
            for reply in &case.row.replies {
                fixture.wait_until_asked(&key).await;
                let QuestionReply::Words(words) = reply else {
                    panic!("{}: buttons are pressed in Slack", case.title);
                };
                let said = telegram.say(account, chat, &format!("{address}{words}")).await;
                fixture.push_update(said).await;
                written += 1;
            }
        }
        if is_admitted {
            fixture.wait_until_answered(&key, written).await;
        }
    }
    if chat != account || !is_admitted {
        let taken = telegram
            .wait_until(BOUND, |telegram| telegram.updates_waiting() == 0)
            .await;
        assert!(taken, "{}: the updates are not taken", case.title);
        // The operations of a group belong to all its people.
        fixture.wait_until_idle().await;
    }
    let messages = telegram.messages(chat);
    let mut shown: Vec<VisibleMessage> = messages
        .iter()
        .skip(welcome)
        .map(|posted| telegram_message(posted, account))
        .collect();
    shown.extend(telegram_call_messages(&telegram.calls(), chat, account));
    (key, shown)
}

async fn run_by_hook(fixture: &AttackFixture, case: &DojoCase, words: &str) -> (String, Vec<VisibleMessage>) {
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
    let url = format!("http://{}/in/release", fixture.app.as_ref().unwrap().address);
    let id = format!("72d3162e-cc78-11e3-81ab-{:012}", case.number);
    let request = drydock::base::http_client::api_client()
        .unwrap()
        .post(url)
        .body(body);
    let request = request
        .header("content-type", "application/json")
        .header("x-github-event", "release")
        .header("x-github-delivery", &id)
        .header("x-hub-signature-256", format!("sha256={digest}"));
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 200, "{}", case.title);
    fixture.wait_until_answered(&id, 1).await;
    // The operations of an event belong to the whole channel. An event that prepares nothing may post nothing.
    fixture.wait_until_idle().await;
    let end = final_line(case.number);
    let shown = fixture.slack.with_state(|state| {
        let mut roots = state
            .messages
            .iter()
            .filter(|message| message.thread_ts.is_none());
        let root = roots.find(|message| message.visible().join("\n").contains(&end))?;
        Some(slack_messages(state, SLACK_CHANNEL, Some(&root.ts), ""))
    });
    (id, shown.unwrap_or_default())
}
