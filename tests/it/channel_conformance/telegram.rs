//! Telegram for the scenarios. All people share a group without topics.

use super::chat::{Chat, Person, Place, PostFault};
use crate::support::app::TestApp;
use crate::support::world::Host;
use drydock::simulation::emulator::model::AnswerScript;
use drydock::simulation::emulator::telegram::{PostedMessage, TelegramFault};

/// The group of all people.
const GROUP: i64 = -100_777;

pub(super) struct TelegramChat {
    app: TestApp,
}

/// A message with the chat that shows it.
#[derive(Clone, Debug)]
pub(super) struct GroupMessage {
    chat: i64,
    posted: PostedMessage,
}

fn id(person: Person) -> i64 {
    match person {
        Person::Alice => 4_201,
        Person::Bob => 4_202,
        Person::Eve => 4_666,
    }
}

fn chat(place: &Place) -> i64 {
    match place {
        Place::Direct(person) => id(*person),
        Place::Shared | Place::Thread(_) => GROUP,
    }
}

impl Chat for TelegramChat {
    const NAME: &'static str = "Telegram";
    const BEGINS_THREADS: bool = false;
    const ANSWERS_ALONE: bool = false;
    type Message = GroupMessage;

    async fn start(script: impl AnswerScript + 'static, host: Host) -> Self {
        let app = TestApp::with_host(script, host, &[]).await;
        app.demo.telegram.add_group(GROUP, &[]);
        Self { app }
    }

    fn app(&self) -> &TestApp {
        &self.app
    }

    async fn restart(&mut self) {
        self.app.restart().await;
    }

    fn name(person: Person) -> String {
        format!("t{}", id(person))
    }

    fn account(person: Person) -> String {
        format!("telegram:42:{}", id(person))
    }

    /// Everybody in Telegram can write to the group and to the bot.
    fn arrive(&self, _: Person) {}

    async fn say(&self, person: Person, place: &Place, words: &str) -> Place {
        let telegram = &self.app.demo.telegram;
        match (place, words.strip_prefix("join ")) {
            (Place::Direct(_), Some(token)) => {
                telegram
                    .say(id(person), id(person), &format!("/start {token}"))
                    .await;
                place.clone()
            }
            (Place::Direct(_), None) => {
                telegram.say(id(person), id(person), words).await;
                place.clone()
            }
            (Place::Shared | Place::Thread(_), _) => {
                self.follow_up(person, place, words).await;
                Place::Thread("group".to_owned())
            }
        }
    }

    async fn follow_up(&self, person: Person, place: &Place, words: &str) {
        let telegram = &self.app.demo.telegram;
        telegram
            .say(id(person), chat(place), &format!("@drydock_bot {words}"))
            .await;
    }

    async fn run_native(&self, person: Person, words: &str) {
        let (word, rest) = words.split_once(' ').unwrap_or((words, ""));
        let telegram = &self.app.demo.telegram;
        telegram
            .say(id(person), GROUP, &format!("/{word}@drydock_bot {rest}"))
            .await;
    }

    async fn press(&self, person: Person, message: &GroupMessage, label: &str) {
        let GroupMessage { chat, posted } = message;
        let telegram = &self.app.demo.telegram;
        telegram
            .click_as_seen(id(person), *chat, posted, label)
            .await
            .unwrap();
    }

    async fn revise(&self, person: Person, place: &Place, message: &GroupMessage, words: &str) {
        self.press(person, message, "Revise").await;
        let asked = self.wait_for_message(place, "What should be different in").await;
        let telegram = &self.app.demo.telegram;
        telegram
            .reply(id(person), asked.chat, asked.posted.id, words)
            .await;
    }

    fn messages(&self, place: &Place) -> Vec<GroupMessage> {
        let chat = chat(place);
        let messages = self.app.demo.telegram.messages(chat).into_iter();
        messages.map(|posted| GroupMessage { chat, posted }).collect()
    }

    /// The answer to a press does not say who sees it; here, only one person presses at a time.
    fn private_texts(&self, person: Person) -> Vec<String> {
        let answers = self.app.demo.telegram.answers().into_iter();
        let answers = answers.map(|(_, text)| text).filter(|text| !text.is_empty());
        let direct = self.messages(&Place::Direct(person));
        answers.chain(direct.iter().map(Self::text)).collect()
    }

    fn files(&self, place: &Place) -> Vec<(String, String)> {
        let messages = self.messages(place).into_iter();
        messages
            .filter_map(|message| message.posted.document)
            .map(|(name, content)| (name, String::from_utf8_lossy(&content).into_owned()))
            .collect()
    }

    fn text(message: &GroupMessage) -> String {
        message.posted.text.clone()
    }

    fn labels(message: &GroupMessage) -> Vec<String> {
        let keys = message.posted.keyboard.iter().flatten();
        keys.map(|(label, _)| label.clone()).collect()
    }

    fn edits(message: &GroupMessage) -> usize {
        message.posted.edits
    }

    /// The emulator itself reports what Telegram would link in plain text.
    fn side_effects(message: &GroupMessage, for_whom: Person) -> Vec<String> {
        let acting = [
            "mention",
            "text_mention",
            "text_link",
            "url",
            "hashtag",
            "bot_command",
        ];
        let entities = message.posted.entities.iter().filter(|entity| {
            let kind = entity["type"].as_str().unwrap_or_default();
            acting.contains(&kind) && entity["user"]["id"] != id(for_whom)
        });
        entities.map(ToString::to_string).collect()
    }

    fn fail_next_post(&self, fault: PostFault) {
        let fault = match fault {
            PostFault::Limited => TelegramFault::TooMany(1),
            PostFault::Failed => TelegramFault::Status(502),
            PostFault::Lost => TelegramFault::Reset,
            PostFault::AnswerLost => TelegramFault::ResetAfterEffect,
        };
        self.app.demo.telegram.fail("sendMessage", 1, fault);
    }

    fn forget_native_surfaces(&self) {
        self.app.demo.telegram.forget_drafts();
    }
}
