//! The needs of the scenarios: people who write, press and see on a platform.

use crate::support::app::{BOUND, TestApp, step_number};
use crate::support::world::{Host, world};
use drydock::simulation::emulator::model::{AnswerScript, ModelRequest, ScriptedAnswer, calls, says};
use drydock::state::access::Role;
use serde_json::json;
use std::fmt::Debug;
use std::time::{Duration, Instant};

/// The end of every result: steps, tokens, time.
const FOOTER: &str = " tokens · ";

/// A person of a scenario. Eve is never admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Person {
    Alice,
    Bob,
    Eve,
}

/// A place of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The own chat of a person with the bot.
    Direct(Person),
    /// The channel or group of all people.
    Shared,
    /// The thread of a message in the channel; the group itself where there are no threads.
    Thread(String),
}

/// A fault of the next post of the bot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PostFault {
    /// The platform asks to wait.
    Limited,
    /// The platform fails.
    Failed,
    /// The post does not arrive, and has no answer.
    Lost,
    /// The post arrives, and its answer is lost.
    AnswerLost,
}

/// A chat platform with the gateway.
pub(super) trait Chat: Sized {
    const NAME: &'static str;
    /// True if a message in the shared place begins a thread of its own.
    const BEGINS_THREADS: bool;
    /// True if the bot can answer a person alone where others read, also before it knows them.
    const ANSWERS_ALONE: bool;
    /// A message of the bot, as it was seen.
    type Message: Clone + Debug;

    async fn start(script: impl AnswerScript + 'static, host: Host) -> Self;
    fn app(&self) -> &TestApp;
    /// Stops the gateway and starts it again on the same data.
    async fn restart(&mut self);
    /// Returns the name under which a person is admitted.
    fn name(person: Person) -> String;
    /// Returns the id of the account of a person, as notices show it.
    fn account(person: Person) -> String;
    /// Lets a person into the shared place without an invite.
    fn arrive(&self, person: Person);
    /// Sends a message for the bot. Returns the place of its answer.
    async fn say(&self, person: Person, place: &Place, words: &str) -> Place;
    /// Sends a message in a thread in which the bot takes part, without its name if that is enough.
    async fn follow_up(&self, person: Person, place: &Place, words: &str);
    /// Types the platform's own command in the shared place.
    async fn run_native(&self, person: Person, words: &str);
    /// Presses a button of a message as it was seen, also if the message has changed since.
    async fn press(&self, person: Person, message: &Self::Message, label: &str);
    /// Presses [Revise] below a message of a place, and writes words where the platform asks for them.
    async fn revise(&self, person: Person, place: &Place, message: &Self::Message, words: &str);
    /// Returns the messages of the bot in a place, oldest first.
    fn messages(&self, place: &Place) -> Vec<Self::Message>;
    /// Returns the messages in a place that are for one person, such as questions about the place.
    fn notices(&self, _person: Person, place: &Place) -> Vec<Self::Message> {
        self.messages(place)
    }
    /// Returns what only a person sees: private answers, and messages in their own chat.
    fn private_texts(&self, person: Person) -> Vec<String>;
    /// Returns the names and the contents of the files in a place.
    fn files(&self, place: &Place) -> Vec<(String, String)>;
    fn text(message: &Self::Message) -> String;
    fn labels(message: &Self::Message) -> Vec<String>;
    /// Returns how often a message was edited.
    fn edits(message: &Self::Message) -> usize;
    /// Returns whom a message notifies and what it links, except the person it is for.
    fn side_effects(message: &Self::Message, for_whom: Person) -> Vec<String>;
    fn fail_next_post(&self, fault: PostFault);
    /// Refuses the native surfaces of the platform from now on, such as drafts, plans and folds.
    fn forget_native_surfaces(&self);

    async fn begin(script: impl AnswerScript + 'static) -> Self {
        Self::start(script, world::<0>()).await
    }

    /// Invites and admits a person in their own chat.
    async fn admit(&self, person: Person, role: Role, environments: &[&str]) {
        self.arrive(person);
        let token = self.app().invite(&Self::name(person), role, environments).await;
        self.say(person, &Place::Direct(person), &format!("join {token}"))
            .await;
        self.wait_for_message(&Place::Direct(person), "You're in").await;
    }

    async fn admit_editor(&self, person: Person) {
        self.admit(person, Role::Editor, &["**"]).await;
    }

    /// Waits until something is seen.
    async fn wait_for<T>(&self, what: &str, look: impl Fn() -> Option<T>) -> T {
        let started = Instant::now();
        loop {
            if let Some(found) = look() {
                return found;
            }
            if started.elapsed() > BOUND {
                let shared: Vec<String> = self.messages(&Place::Shared).iter().map(Self::text).collect();
                panic!(
                    "{}: nobody ever sees {what}; the shared place shows {shared:#?}\nopen: {:#?}",
                    Self::NAME,
                    self.app().open_work()
                );
            }
            // The emulators notify in different ways. A poll is bounded and ends as soon as possible.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn wait_for_message(&self, place: &Place, text: &str) -> Self::Message {
        let what = format!("`{text}` in {place:?}");
        self.wait_for(&what, || {
            let messages = self.messages(place).into_iter();
            messages.rev().find(|message| Self::text(message).contains(text))
        })
        .await
    }

    fn results(&self, place: &Place) -> Vec<Self::Message> {
        let mut messages = self.messages(place);
        messages.retain(|message| Self::text(message).contains(FOOTER));
        messages
    }

    async fn wait_for_result(&self, place: &Place, n: usize) -> Self::Message {
        let what = format!("result {n} in {place:?}");
        self.wait_for(&what, || self.results(place).into_iter().nth(n - 1))
            .await
    }

    /// Sends a request in the shared place. Returns the place of the answer and the result.
    async fn ask(&self, person: Person, words: &str) -> (Place, Self::Message) {
        self.app().wait_until_idle().await;
        let before = match Self::BEGINS_THREADS {
            true => 0,
            false => self.results(&Place::Shared).len(),
        };
        let place = self.say(person, &Place::Shared, words).await;
        let result = self.wait_for_result(&place, before + 1).await;
        (place, result)
    }

    /// Sends a further request, and waits for its result.
    async fn ask_in(&self, person: Person, place: &Place, words: &str) -> Self::Message {
        self.app().wait_until_idle().await;
        let before = self.results(place).len();
        self.follow_up(person, place, words).await;
        self.wait_for_result(place, before + 1).await
    }

    /// Waits for another private text of a person.
    async fn wait_for_private_text(&self, person: Person, seen: usize) -> String {
        let what = format!("a private text of {person:?}");
        self.wait_for(&what, || self.private_texts(person).into_iter().nth(seen))
            .await
    }

    /// Answers the question to a person who writes in the thread of another: a conversation of their own. Where there are no
    /// threads, nobody is asked.
    async fn start_own(&self, person: Person, place: &Place) {
        if !Self::BEGINS_THREADS {
            return;
        }
        let question = self.wait_for("whose thread it is", || {
            let notices = self.notices(person, place).into_iter();
            notices
                .rev()
                .find(|notice| Self::text(notice).contains("This thread belongs to"))
        });
        let question = question.await;
        self.press(person, &question, "Start my own").await;
    }

    fn open_changes(&self) -> i64 {
        self.app()
            .count("SELECT count(*) FROM conversation WHERE change_number IS NOT NULL")
    }
}

/// Sets the replicas of dev: "from 2 to 4". Anything else is only answered.
pub(super) fn scale(asked: &ModelRequest) -> ScriptedAnswer {
    let words = asked.last_user_text();
    let (_, asked_for) = words.split_once("from ").unwrap_or_default();
    let numbers: Vec<&str> = asked_for
        .split(|char: char| !char.is_ascii_digit())
        .filter(|word| !word.is_empty())
        .take(2)
        .collect();
    let of = |count: &str| format!("web:1.8.3',\n    replicas: {count},");
    match (step_number(asked), numbers.as_slice()) {
        (0, [from, to]) => calls(
            "file_edit",
            json!({"path": "environments/dev/main.jsonnet", "old": of(from), "new": of(to)}),
        ),
        _ => says("Done as requested."),
    }
}
