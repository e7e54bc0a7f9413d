//! Slack for the scenarios.

use super::chat::{Chat, Person, Place, PostFault};
use crate::support::app::{TestApp, visible_text};
use crate::support::world::Host;
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::model::AnswerScript;
use drydock::simulation::emulator::slack::{Mention, SlackFault, SlackMessage, SlackState};

pub(super) struct SlackChat {
    app: TestApp,
}

fn id(person: Person) -> &'static str {
    match person {
        Person::Alice => "U0ALICE",
        Person::Bob => "U0BOB",
        Person::Eve => "U0EVE",
    }
}

fn is_in(message: &SlackMessage, place: &Place) -> bool {
    match place {
        Place::Direct(person) => message.channel == format!("D{}", id(*person)),
        Place::Shared => message.channel == SLACK_CHANNEL,
        Place::Thread(ts) => message.channel == SLACK_CHANNEL && message.thread_ts.as_ref() == Some(ts),
    }
}

impl Chat for SlackChat {
    const NAME: &'static str = "Slack";
    const BEGINS_THREADS: bool = true;
    const ANSWERS_ALONE: bool = true;
    type Message = SlackMessage;

    async fn start(script: impl AnswerScript + 'static, host: Host) -> Self {
        Self {
            app: TestApp::with_host(script, host, &[]).await,
        }
    }

    fn app(&self) -> &TestApp {
        &self.app
    }

    async fn restart(&mut self) {
        self.app.restart().await;
    }

    fn name(person: Person) -> String {
        id(person).to_owned()
    }

    fn account(person: Person) -> String {
        format!("slack:T0ACME:{}", id(person))
    }

    fn arrive(&self, person: Person) {
        self.app.add_slack_account(id(person));
    }

    async fn say(&self, person: Person, place: &Place, words: &str) -> Place {
        let (slack, named) = (&self.app.demo.slack, format!("@drydock {words}"));
        match place {
            Place::Direct(_) => {
                slack.dm(id(person), words).await.unwrap();
                place.clone()
            }
            Place::Shared => {
                let said = slack.say(id(person), SLACK_CHANNEL, &named).await.unwrap();
                Place::Thread(said.ts)
            }
            Place::Thread(_) => {
                self.follow_up(person, place, &named).await;
                place.clone()
            }
        }
    }

    async fn follow_up(&self, person: Person, place: &Place, words: &str) {
        let Place::Thread(ts) = place else {
            panic!("{place:?} is no thread");
        };
        self.app.say_in(id(person), ts, words).await;
    }

    async fn run_native(&self, person: Person, words: &str) {
        let slack = &self.app.demo.slack;
        slack.slash(id(person), SLACK_CHANNEL, words).await.unwrap();
    }

    async fn press(&self, person: Person, message: &SlackMessage, label: &str) {
        let slack = &self.app.demo.slack;
        // The work of a stream is stopped with the button of its thread.
        let stream = slack.with_state(|state| state.stream(&message.channel, &message.ts).cloned());
        if let Some(thread) = message
            .thread_ts
            .as_ref()
            .filter(|_| stream.is_some() && label == "Stop")
        {
            let stopped = slack.stop_session(id(person), &message.channel, thread);
            stopped.await.unwrap();
            return;
        }
        slack.click_as_seen(id(person), message, label).await.unwrap();
    }

    async fn revise(&self, person: Person, _place: &Place, message: &SlackMessage, words: &str) {
        self.press(person, message, "Revise").await;
        let is_open = |state: &SlackState| state.views.iter().any(|view| view.user == id(person));
        self.wait_for("a form", || self.app.demo.slack.with_state(is_open).then_some(()))
            .await;
        self.app.demo.slack.submit(id(person), words).await.unwrap();
    }

    fn messages(&self, place: &Place) -> Vec<SlackMessage> {
        self.app.demo.slack.with_state(|state| {
            let of_bot = state.messages.iter().filter(|message| !message.request.is_null());
            of_bot.filter(|message| is_in(message, place)).cloned().collect()
        })
    }

    fn notices(&self, person: Person, _place: &Place) -> Vec<SlackMessage> {
        self.app.demo.slack.with_state(|state| {
            let shown = state
                .ephemerals
                .iter()
                .filter(|message| message.user == id(person));
            shown.cloned().collect()
        })
    }

    fn private_texts(&self, person: Person) -> Vec<String> {
        let direct = self.messages(&Place::Direct(person));
        let mut texts = self.app.ephemeral_messages(id(person));
        texts.extend(direct.iter().map(Self::text));
        texts
    }

    fn files(&self, place: &Place) -> Vec<(String, String)> {
        self.app.demo.slack.with_state(|state| {
            let files = state.files.iter().filter(|file| match place {
                Place::Thread(ts) => file.thread_ts.as_ref() == Some(ts),
                Place::Shared | Place::Direct(_) => true,
            });
            files
                .map(|file| {
                    (
                        file.name.clone(),
                        String::from_utf8_lossy(&file.content).into_owned(),
                    )
                })
                .collect()
        })
    }

    fn text(message: &SlackMessage) -> String {
        visible_text(message)
    }

    fn labels(message: &SlackMessage) -> Vec<String> {
        message.buttons().into_iter().map(|button| button.label).collect()
    }

    fn edits(message: &SlackMessage) -> usize {
        message.edits
    }

    fn side_effects(message: &SlackMessage, for_whom: Person) -> Vec<String> {
        let own = Mention::User(id(for_whom).to_owned());
        let others = message.mentions().into_iter().filter(|mention| *mention != own);
        others.map(|mention| format!("{mention:?}")).collect()
    }

    fn fail_next_post(&self, fault: PostFault) {
        let failed = |status, retry_after_seconds| SlackFault::Status {
            status,
            retry_after_seconds,
        };
        let fault = match fault {
            PostFault::Limited => failed(429, Some(1)),
            PostFault::Failed => failed(500, None),
            PostFault::Lost => SlackFault::ResetBefore,
            PostFault::AnswerLost => SlackFault::ResetAfter,
        };
        self.app.demo.slack.fail_next("chat.postMessage", 1, fault);
    }

    fn forget_native_surfaces(&self) {
        let slack = &self.app.demo.slack;
        slack.forget_block("container");
        slack.forget_block("plan");
        slack.withdraw("assistant:write");
    }
}
