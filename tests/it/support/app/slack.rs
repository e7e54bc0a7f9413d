//! The actions of people in the emulated Slack, and what they see there.

use super::{BOUND, FOOTER, SlackResult, TestApp, visible_text};
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::slack::{SentMessage, SlackMessage, SlackState};

impl TestApp {
    /// Waits until the workspace shows something.
    pub(crate) async fn wait_for_slack<T>(&self, what: &str, look: impl Fn(&SlackState) -> Option<T>) -> T {
        let started = std::time::Instant::now();
        while started.elapsed() < BOUND {
            if let Some(found) = self.demo.slack.wait_until(&look).await {
                return found;
            }
        }
        let shown = self.demo.slack.with_state(|state| {
            let texts = state.messages.iter().map(visible_text);
            texts.collect::<Vec<_>>().join("\n---\n")
        });
        let open = self.open_work();
        panic!("Slack never showed {what}; it shows:\n{shown}\nopen: {open:#?}");
    }

    /// Waits for a message of the bot in a channel.
    pub(crate) async fn wait_for_slack_message(&self, channel: &str, text: &str) -> SlackMessage {
        self.wait_for_slack(text, |state| {
            let mut messages = state.messages.iter().filter(|message| is_from_bot(message));
            messages
                .find(|message| message.channel == channel && visible_text(message).contains(text))
                .cloned()
        })
        .await
    }

    /// Waits for a message of the bot in a thread of the platform channel.
    pub(crate) async fn wait_for_slack_reply(&self, thread: &str, text: &str) -> SlackMessage {
        self.wait_for_slack(text, |state| {
            let mut replies = state.replies(SLACK_CHANNEL, thread);
            replies
                .find(|message| is_from_bot(message) && visible_text(message).contains(text))
                .cloned()
        })
        .await
    }

    /// Sends a message of a person to the bot in the platform channel.
    pub(crate) async fn say(&self, user: &str, words: &str) -> SentMessage {
        let words = format!("@drydock {words}");
        self.demo.slack.say(user, SLACK_CHANNEL, &words).await.unwrap()
    }

    /// Sends a message of a person in a thread.
    pub(crate) async fn say_in(&self, user: &str, thread: &str, words: &str) -> SentMessage {
        let slack = &self.demo.slack;
        slack
            .reply_in_thread(user, SLACK_CHANNEL, thread, words)
            .await
            .unwrap()
    }

    /// Sends a request of a person in the platform channel, and waits for the result.
    pub(crate) async fn ask(&self, user: &str, words: &str) -> SlackResult {
        let said = self.say(user, words).await;
        self.wait_for_result(&said.ts, 1).await
    }

    /// Sends another request of a person in a thread, and waits for the next result.
    pub(crate) async fn ask_in(&self, user: &str, thread: &str, words: &str) -> SlackResult {
        let before = self.results(thread).len();
        self.say_in(user, thread, words).await;
        self.wait_for_result(thread, before + 1).await
    }

    /// Waits for the n-th result of a thread, from 1.
    pub(crate) async fn wait_for_result(&self, thread: &str, n: usize) -> SlackResult {
        let message = self
            .wait_for_slack(&format!("result {n} in {thread}"), |state| {
                results_of(state, thread).nth(n - 1).cloned()
            })
            .await;
        SlackResult {
            thread: thread.to_owned(),
            text: visible_text(&message),
            message,
        }
    }

    /// Returns the results of a thread so far.
    pub(crate) fn results(&self, thread: &str) -> Vec<String> {
        self.demo
            .slack
            .with_state(|state| results_of(state, thread).map(visible_text).collect())
    }

    /// Returns the messages of the bot in a thread, each on one line.
    pub(crate) fn thread_messages(&self, thread: &str) -> Vec<String> {
        self.demo.slack.with_state(|state| {
            let replies = state.replies(SLACK_CHANNEL, thread);
            let bots = replies.filter(|message| is_from_bot(message));
            bots.map(|message| visible_text(message).replace('\n', " "))
                .collect()
        })
    }

    /// Answers the question to a person who wrote in the thread of another: a conversation of their own.
    pub(crate) async fn start_own(&self, user: &str) {
        let asked = self
            .wait_for_slack("the question whose thread it is", |state| {
                let mut shown = state.ephemerals.iter().rev();
                shown
                    .find(|message| {
                        message.user == user && visible_text(message).contains("This thread belongs to")
                    })
                    .cloned()
            })
            .await;
        let pressed = self.demo.slack.click_as_seen(user, &asked, "Start my own");
        pressed.await.unwrap();
    }

    /// Types `/drydock <words>` in the platform channel as a person. Returns the answer, which only that person sees.
    pub(crate) async fn run_slash_command(&self, user: &str, words: &str) -> String {
        let seen = self.ephemeral_messages(user).len();
        self.demo.slack.slash(user, SLACK_CHANNEL, words).await.unwrap();
        self.wait_for_ephemeral(user, seen).await
    }

    pub(crate) async fn wait_for_ephemeral(&self, user: &str, seen: usize) -> String {
        self.wait_for_slack("an ephemeral message", |state| {
            let mut ephemerals = state.ephemerals.iter().filter(|message| message.user == user);
            ephemerals.nth(seen).map(visible_text)
        })
        .await
    }

    /// Returns the ephemeral messages of a person.
    pub(crate) fn ephemeral_messages(&self, user: &str) -> Vec<String> {
        self.demo.slack.with_state(|state| {
            let ephemerals = state.ephemerals.iter().filter(|message| message.user == user);
            ephemerals.map(visible_text).collect()
        })
    }

    /// Sends a command of a person in a thread. Returns the answer below it.
    pub(crate) async fn run_command_in(&self, user: &str, thread: &str, words: &str) -> String {
        // Later output of an earlier message must not be taken for this answer.
        self.wait_until_idle().await;
        let seen = self
            .demo
            .slack
            .with_state(|state| state.replies(SLACK_CHANNEL, thread).count());
        self.say_in(user, thread, words).await;
        self.wait_for_slack(words, |state| {
            let news = state.replies(SLACK_CHANNEL, thread).skip(seen);
            news.filter(|message| is_from_bot(message))
                .map(visible_text)
                .next()
        })
        .await
    }

    /// Returns all output of the bot in Slack: messages, ephemeral messages and files.
    pub(crate) fn all_slack_output(&self) -> String {
        self.demo.slack.with_state(|state| {
            let messages = state.messages.iter().filter(|message| is_from_bot(message));
            let mut all: Vec<String> = messages
                .chain(&state.ephemerals)
                .map(|message| format!("{}\n{}", visible_text(message), message.request))
                .collect();
            all.extend(
                state
                    .files
                    .iter()
                    .map(|file| format!("{} {}", file.name, String::from_utf8_lossy(&file.content))),
            );
            all.join("\n")
        })
    }
}

fn is_from_bot(message: &SlackMessage) -> bool {
    !message.request.is_null()
}

fn results_of<'a>(state: &'a SlackState, thread: &'a str) -> impl Iterator<Item = &'a SlackMessage> {
    state
        .replies(SLACK_CHANNEL, thread)
        .filter(|message| is_from_bot(message) && visible_text(message).contains(FOOTER))
}
