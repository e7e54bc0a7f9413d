//! Messages that people send to Discord while Drydock is stopped, or while it has no session, are answered once.

use crate::support::app::BOUND;
use crate::support::discord::{ALICE, BOB, DiscordApp, EVE, PLATFORM};
use crate::support::log::LogCapture;
use crate::support::world::{advance, world};
use drydock::simulation::emulator::discord::{DiscordFault, GatewayClosing};
use drydock::simulation::emulator::model::{ModelRequest, ScriptedAnswer, says};
use drydock::state::access::Role;
use std::time::{Duration, Instant};

fn answers(_: &ModelRequest) -> ScriptedAnswer {
    says("Nothing to change.")
}

/// Returns an application in which Alice has a conversation in a thread and one in private, with the thread and her chat.
async fn with_conversations() -> (DiscordApp, u64, u64) {
    let app = DiscordApp::new(answers).await;
    app.admit(ALICE, Role::Editor).await;
    let (thread, _) = app.ask(ALICE, "hello").await;
    app.discord.dm(ALICE, "hello");
    let direct = app.direct(ALICE);
    app.wait_for_result(direct, 1).await;
    app.app.wait_until_idle().await;
    (app, thread, direct)
}

/// True if no message up to this one is missed, and that is stored.
fn is_stored(app: &DiscordApp, message: u64) -> bool {
    let stored = format!(
        "SELECT count(*) FROM channel_position WHERE channel = 'discord' AND position ->> 'seen' >= {message}
         AND position ->> 'missed_since' IS NULL"
    );
    app.app.count(&stored) == 1
}

async fn wait_until_stored(app: &DiscordApp, message: u64) {
    let started = Instant::now();
    while !is_stored(app, message) {
        assert!(
            started.elapsed() < BOUND,
            "no position up to {message} is stored, but {:?}; open: {:#?}",
            app.app.column("SELECT position FROM channel_position"),
            app.app.open_work()
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// R3, R5: Discord resumes the session of the stopped process, or has ended it.
#[tokio::test]
async fn messages_to_a_stopped_drydock_are_answered_once_in_every_place() {
    for is_ended in [false, true] {
        let (mut app, thread, direct) = with_conversations().await;
        app.stop().await;
        let asked = app.discord.say(ALICE, PLATFORM, "@drydock is anything new?");
        app.discord.say(ALICE, thread, "and now?");
        app.discord.dm(ALICE, "and here?");
        // Nobody asks Drydock for this.
        let lunch = app.discord.say(ALICE, PLATFORM, "lunch?");
        if is_ended {
            app.discord.forget_sessions();
        }
        app.run().await;
        app.wait_for_result(asked, 1).await;
        app.wait_for_result(thread, 2).await;
        app.wait_for_result(direct, 2).await;
        app.app.wait_until_idle().await;
        let gateway = app
            .discord
            .with_state(|state| (state.gateway.identified, state.gateway.resumed > 0));
        assert_eq!(gateway, if is_ended { (2, false) } else { (1, true) });
        // Another start, with a new session again, finds nothing to answer.
        wait_until_stored(&app, lunch).await;
        app.stop().await;
        app.discord.forget_sessions();
        app.run().await;
        let last = app.discord.say(ALICE, PLATFORM, "@drydock are you there?");
        app.wait_for_result(last, 1).await;
        app.app.wait_until_idle().await;
        let counts = [asked, thread, direct, lunch].map(|place| app.results(place).len());
        assert_eq!(counts, [1, 2, 2, 0], "ended: {is_ended}");
        assert_eq!(app.app.model_requests().len(), 6, "ended: {is_ended}");
    }
}

/// R5: the process is killed after it has stored messages, and before their position.
#[tokio::test]
async fn a_position_that_lags_behind_the_stored_messages_doubles_no_answer() {
    for is_ended in [false, true] {
        let (mut app, thread, direct) = with_conversations().await;
        wait_until_stored(&app, thread).await;
        app.app.alter_database(
            "CREATE TRIGGER lag BEFORE UPDATE ON channel_position BEGIN SELECT RAISE(IGNORE); END",
        );
        let asked = app.discord.say(ALICE, PLATFORM, "@drydock is anything new?");
        app.wait_for_result(asked, 1).await;
        app.discord.say(ALICE, thread, "and now?");
        app.wait_for_result(thread, 2).await;
        app.discord.dm(ALICE, "stop");
        app.wait_for_message(direct, "Nothing is running.").await;
        app.app.wait_until_idle().await;
        assert!(!is_stored(&app, asked));
        app.stop().await;
        app.app.alter_database("DROP TRIGGER lag");
        if is_ended {
            app.discord.forget_sessions();
        }
        app.run().await;
        // What comes again comes before this.
        let last = app.discord.say(ALICE, PLATFORM, "@drydock are you there?");
        app.wait_for_result(last, 1).await;
        app.app.wait_until_idle().await;
        let counts = [asked, thread, direct].map(|place| app.results(place).len());
        assert_eq!(counts, [1, 2, 1], "ended: {is_ended}");
        assert_eq!(app.app.model_requests().len(), 5, "ended: {is_ended}");
    }
}

/// R5: Discord ends the session while Drydock runs.
#[tokio::test]
async fn a_message_between_two_sessions_is_answered_once() {
    let (app, thread, _) = with_conversations().await;
    app.discord.forget_sessions();
    app.discord.say(ALICE, thread, "and now?");
    app.wait_for_result(thread, 2).await;
    app.app.wait_until_idle().await;
    assert_eq!(app.results(thread).len(), 2);
}

/// R5: neither an error of Discord nor a connection that ends leaves missed messages out.
#[tokio::test]
async fn missed_messages_are_read_again_after_a_failure() {
    let (mut app, thread, direct) = with_conversations().await;
    app.stop().await;
    app.discord.say(ALICE, thread, "and now?");
    app.discord.dm(ALICE, "and here?");
    app.discord.forget_sessions();
    let unavailable = DiscordFault::Status(503);
    app.discord.fail_next("GET users/@me/guilds", 1, &unavailable);
    app.discord
        .fail_next("GET channels/messages", 1, &DiscordFault::Late(2_000));
    app.run().await;
    app.wait_for("a read channel", |state| {
        let mut calls = state.calls.iter();
        calls
            .find(|(route, _)| route == "GET channels/messages")
            .map(|_| ())
    })
    .await;
    app.discord.close_connections(GatewayClosing::Code(4_000));
    app.wait_for_result(thread, 2).await;
    app.wait_for_result(direct, 2).await;
    app.app.wait_until_idle().await;
    let counts = [thread, direct].map(|place| app.results(place).len());
    assert_eq!(counts, [2, 2]);
    assert_eq!(app.discord.with_state(|state| state.gateway.identified), 2);
}

/// The follow-ups of a missed request, in a thread that a person began, belong to it. The words are those after an edit.
#[tokio::test]
async fn missed_messages_keep_their_order_and_their_last_words() {
    let (mut app, thread, _) = with_conversations().await;
    app.stop().await;
    let asked = app.discord.say(ALICE, PLATFORM, "@drydock word-zero");
    app.discord.add_thread(asked, PLATFORM);
    app.discord.say(ALICE, asked, "word-two");
    app.discord.say(ALICE, thread, "word-four");
    let last = app.discord.say(ALICE, asked, "word-three");
    app.discord.edit(ALICE, PLATFORM, asked, "@drydock word-one");
    app.discord.forget_sessions();
    app.run().await;
    wait_until_stored(&app, last).await;
    app.app.wait_until_idle().await;
    assert_eq!(app.results(thread).len(), 2);
    let requests = app.app.model_requests();
    let last = requests.iter().rfind(|asked| asked.raw.contains("word-three"));
    let raw = last.unwrap().raw.as_str();
    let places: Vec<Option<usize>> = ["word-one", "word-two", "word-three"]
        .map(|word| raw.find(word))
        .into();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{raw}");
    assert!(!raw.contains("word-zero") && !raw.contains("word-four"), "{raw}");
}

/// T06, R5: the process is killed after it has stored a mention, and before the position. The words before the mention were
/// for nobody, and still are when they come again: as events, because Discord resumes the session, or as messages that are
/// read. So is an old message that was edited to address the bot.
#[tokio::test]
async fn words_that_were_for_nobody_begin_nothing_when_they_come_again() {
    for is_ended in [false, true] {
        let (mut app, ..) = with_conversations().await;
        let lunch = app.discord.say(ALICE, PLATFORM, "lunch?");
        wait_until_stored(&app, lunch).await;
        app.app.alter_database(
            "CREATE TRIGGER lag BEFORE UPDATE ON channel_position BEGIN SELECT RAISE(IGNORE); END",
        );
        let thread = app.discord.say(BOB, PLATFORM, "dinner?");
        app.discord.add_thread(thread, PLATFORM);
        app.discord.say(ALICE, thread, "word-before");
        app.discord.say(ALICE, thread, "@drydock word-mention");
        app.wait_for_result(thread, 1).await;
        app.discord.say(ALICE, thread, "word-after");
        app.wait_for_result(thread, 2).await;
        app.app.wait_until_idle().await;
        assert!(!is_stored(&app, thread));
        app.stop().await;
        app.app.alter_database("DROP TRIGGER lag");
        app.discord.edit(ALICE, PLATFORM, lunch, "@drydock word-edited");
        if is_ended {
            app.discord.forget_sessions();
        }
        app.run().await;
        // What comes again comes before this.
        let last = app.discord.say(ALICE, PLATFORM, "@drydock are you there?");
        app.wait_for_result(last, 1).await;
        app.app.wait_until_idle().await;
        let counts = [thread, lunch].map(|place| app.results(place).len());
        assert_eq!(counts, [2, 0], "ended: {is_ended}");
        let requests = app.app.model_requests();
        assert_eq!(requests.len(), 5, "ended: {is_ended}");
        for word in ["word-before", "word-edited"] {
            assert!(!requests.iter().any(|asked| asked.raw.contains(word)), "{word}");
        }
    }
}

/// A long history is read to its end, and a channel that the bot may not see is left out.
#[tokio::test]
async fn a_request_behind_a_page_of_other_messages_is_answered() {
    const HIDDEN: u64 = 502;
    let (mut app, ..) = with_conversations().await;
    app.discord.add_channel(HIDDEN, 0);
    app.stop().await;
    for _ in 0..150 {
        app.discord.say(BOB, PLATFORM, "lunch?");
    }
    let asked = app.discord.say(ALICE, PLATFORM, "@drydock is anything new?");
    app.discord.hide_channel(HIDDEN);
    let hidden = app.discord.say(ALICE, HIDDEN, "@drydock is anything new?");
    app.discord.forget_sessions();
    app.run().await;
    app.wait_for_result(asked, 1).await;
    wait_until_stored(&app, asked).await;
    app.app.wait_until_idle().await;
    assert_eq!(app.results(asked).len(), 1);
    assert_eq!(app.results(hidden).len(), 0);
}

/// The channels beyond the bound are those of the oldest messages. The log says that messages are left out.
#[tokio::test]
async fn the_channels_of_the_newest_messages_are_read_and_the_rest_is_reported() {
    const FIRST: u64 = 600;
    let log = LogCapture::capture();
    let (mut app, ..) = with_conversations().await;
    app.stop().await;
    let mut asked = Vec::new();
    for channel in FIRST..FIRST + 101 {
        app.discord.add_channel(channel, 0);
        let person = if channel < FIRST + 2 { ALICE } else { EVE };
        asked.push(app.discord.say(person, channel, "@drydock is anything new?"));
    }
    app.discord.forget_sessions();
    app.run().await;
    app.wait_for_result(asked[1], 1).await;
    wait_until_stored(&app, asked[100]).await;
    app.app.wait_until_idle().await;
    assert_eq!(app.results(asked[0]).len(), 0);
    assert!(log.text().contains("some are not answered"), "{}", log.text());
}

#[tokio::test]
async fn a_message_of_the_day_before_is_not_answered_after_a_long_stop() {
    const CLOCK: usize = 10;
    let mut app = DiscordApp::with_host(answers, world::<CLOCK>()).await;
    app.admit(ALICE, Role::Editor).await;
    let (thread, _) = app.ask(ALICE, "hello").await;
    app.app.wait_until_idle().await;
    app.stop().await;
    app.discord.say(ALICE, thread, "word-old");
    advance::<CLOCK>(24 * 60 * 60);
    app.discord.say(ALICE, thread, "word-new");
    app.discord.forget_sessions();
    app.run().await;
    app.wait_for_result(thread, 2).await;
    app.app.wait_until_idle().await;
    assert_eq!(app.results(thread).len(), 2);
    assert!(
        !app.app
            .model_requests()
            .iter()
            .any(|asked| asked.raw.contains("word-old"))
    );
}
