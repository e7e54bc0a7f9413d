//! Discord for the scenarios.

use super::chat::{Chat, Person, Place, PostFault};
use crate::support::app::TestApp;
use crate::support::discord::{self, DiscordApp, PLATFORM};
use crate::support::world::Host;
use drydock::simulation::emulator::discord::{DiscordFault, DiscordMessage};
use drydock::simulation::emulator::model::AnswerScript;

/// The account of the bot.
const BOT: u64 = 1002;

pub(super) struct DiscordChat {
    app: DiscordApp,
}

fn id(person: Person) -> u64 {
    match person {
        Person::Alice => discord::ALICE,
        Person::Bob => discord::BOB,
        Person::Eve => discord::EVE,
    }
}

impl DiscordChat {
    /// Returns the channel of a place; `None` for a private chat that nobody has opened.
    fn channel(&self, place: &Place) -> Option<u64> {
        match place {
            Place::Direct(person) => self.app.discord.with_state(|state| state.direct(id(*person))),
            Place::Shared => Some(PLATFORM),
            Place::Thread(thread) => thread.parse().ok(),
        }
    }
}

impl Chat for DiscordChat {
    const NAME: &'static str = "Discord";
    const BEGINS_THREADS: bool = true;
    const ANSWERS_ALONE: bool = true;
    type Message = DiscordMessage;

    async fn start(script: impl AnswerScript + 'static, host: Host) -> Self {
        Self {
            app: DiscordApp::with_host(script, host).await,
        }
    }

    fn app(&self) -> &TestApp {
        &self.app.app
    }

    async fn restart(&mut self) {
        self.app.restart().await;
    }

    fn name(person: Person) -> String {
        format!("d{}", id(person))
    }

    fn account(person: Person) -> String {
        format!("discord:1001:{}", id(person))
    }

    /// Everybody is in the server.
    fn arrive(&self, _: Person) {}

    async fn say(&self, person: Person, place: &Place, words: &str) -> Place {
        let discord = &self.app.discord;
        match place {
            Place::Direct(_) => {
                discord.dm(id(person), words);
                place.clone()
            }
            Place::Shared => {
                let message = discord.say(id(person), PLATFORM, &format!("@drydock {words}"));
                Place::Thread(message.to_string())
            }
            Place::Thread(_) => {
                self.follow_up(person, place, &format!("@drydock {words}")).await;
                place.clone()
            }
        }
    }

    async fn follow_up(&self, person: Person, place: &Place, words: &str) {
        let channel = self.channel(place).unwrap();
        self.app.discord.say(id(person), channel, words);
    }

    async fn run_native(&self, person: Person, words: &str) {
        let command = self.app.discord.slash(id(person), PLATFORM, words);
        self.app.interact(&command).await;
    }

    async fn press(&self, person: Person, message: &DiscordMessage, label: &str) {
        let press = self.app.discord.press_as_seen(id(person), message, label);
        self.app.interact(&press.unwrap()).await;
    }

    async fn revise(&self, person: Person, _place: &Place, message: &DiscordMessage, words: &str) {
        self.press(person, message, "Revise").await;
        let modal = self
            .app
            .wait_for("a form", |state| {
                let mut newest_first = state.modals.iter().rev();
                newest_first.find(|modal| modal.person == id(person)).cloned()
            })
            .await;
        self.app.interact(&self.app.discord.submit(&modal, words)).await;
    }

    fn messages(&self, place: &Place) -> Vec<DiscordMessage> {
        let Some(channel) = self.channel(place) else {
            return Vec::new();
        };
        self.app.discord.with_state(|state| {
            let messages = state.messages_in(channel);
            messages
                .filter(|message| message.author == BOT && message.only_for.is_none())
                .cloned()
                .collect()
        })
    }

    fn private_texts(&self, person: Person) -> Vec<String> {
        let private = self.app.discord.private_answers(id(person)).into_iter();
        let direct = self.messages(&Place::Direct(person));
        private.chain(direct).map(|message| message.text()).collect()
    }

    fn files(&self, place: &Place) -> Vec<(String, String)> {
        let messages = self.messages(place).into_iter();
        messages
            .flat_map(|message| message.files)
            .map(|(name, content)| (name, String::from_utf8_lossy(&content).into_owned()))
            .collect()
    }

    fn text(message: &DiscordMessage) -> String {
        message.text()
    }

    fn labels(message: &DiscordMessage) -> Vec<String> {
        message.buttons().into_iter().map(|(label, _)| label).collect()
    }

    fn edits(message: &DiscordMessage) -> usize {
        message.edits
    }

    fn side_effects(message: &DiscordMessage, for_whom: Person) -> Vec<String> {
        let shown = message.shown();
        let people = shown.people.iter().chain(&message.pinged);
        let others = people.filter(|person| **person != id(for_whom));
        let others = others.map(ToString::to_string);
        others.chain(shown.other_mentions).chain(shown.links).collect()
    }

    fn fail_next_post(&self, fault: PostFault) {
        let fault = match fault {
            PostFault::Limited => DiscordFault::TooMany {
                milliseconds: 50,
                is_global: false,
            },
            PostFault::Failed => DiscordFault::Status(502),
            PostFault::Lost => DiscordFault::Reset,
            PostFault::AnswerLost => DiscordFault::ResetAfterEffect,
        };
        self.app.discord.fail_next("POST channels/messages", 1, &fault);
    }

    fn forget_native_surfaces(&self) {
        self.app.discord.hide_history();
    }
}
