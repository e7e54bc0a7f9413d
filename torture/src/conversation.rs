//! The conversation of one person in a thread: requests, commands and button presses, and the check that the thread
//! shows their results in the end.

use crate::explain::CommandKind;
use crate::model::CHOICE;
use crate::slack_thread::{Thread, transcript};
use crate::task::Task;
use crate::testbed::{CHANNEL, Testbed};
use drydock::simulation::emulator::slack::{SlackMessage, SlackState};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The time, after everything else, within which the answer to an accepted but unacknowledged command may arrive.
const UNCERTAIN_REST: Duration = Duration::from_millis(1_500);
const POLL_INTERVAL: Duration = Duration::from_millis(15);

/// A conversation of one person.
pub(crate) struct UserConversation {
    pub(crate) testbed: Arc<Testbed>,
    number: u32,
    user: String,
    ids: Arc<AtomicU32>,
    root: Option<String>,
    pub(crate) messages: Vec<TaskMessage>,
    pub(crate) commands: Vec<SentCommand>,
    pressed: BTreeSet<(String, &'static str)>,
    /// True if a message was never answered. Further checks would only repeat that failure.
    pub(crate) is_stuck: bool,
    /// The longest time of an event that was sent once.
    pub(crate) slowest_answer: Duration,
}

/// A message for a turn.
pub(crate) struct TaskMessage {
    pub(crate) task: Task,
    pub(crate) acknowledged: bool,
}

/// A command or a button press.
pub(crate) struct SentCommand {
    pub(crate) verb: CommandKind,
    pub(crate) acknowledged: bool,
    /// The least and the greatest number of messages after which it took effect.
    pub(crate) after: (usize, usize),
}

/// The way a command is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandInput {
    Text,
    /// A press of the newest button with this label.
    Button(&'static str),
}

impl UserConversation {
    pub(crate) fn new(world: &Arc<Testbed>, number: u32, user: String, ids: &Arc<AtomicU32>) -> Self {
        Self {
            testbed: Arc::clone(world),
            number,
            user,
            ids: Arc::clone(ids),
            root: None,
            messages: Vec::new(),
            commands: Vec::new(),
            pressed: BTreeSet::new(),
            is_stuck: false,
            slowest_answer: Duration::ZERO,
        }
    }

    /// Creates a task with `steps` steps, without requesting it.
    pub(crate) fn task(&self, steps: usize) -> Task {
        Task {
            id: self.ids.fetch_add(1, Ordering::SeqCst),
            conversation: self.number,
            steps,
        }
    }

    /// Requests a task and does not wait for its end. Returns true if the request was acknowledged.
    pub(crate) async fn ask(&mut self, task: Task) -> bool {
        if self.is_stuck {
            return false;
        }
        let mention = if self.root.is_none() { "@drydock " } else { "" };
        // Each request has its own turn, also while another runs.
        let text = format!("{mention}queue: please carry out {} now", task.word());
        let acknowledged = self.send_message(&text).await;
        if self.messages.is_empty() && !acknowledged {
            // The conversation cannot go on without its first message.
            self.is_stuck = true;
        }
        self.messages.push(TaskMessage { task, acknowledged });
        acknowledged
    }

    /// Sends a note that the running turn takes. Returns its number.
    pub(crate) async fn steer(&mut self) -> u32 {
        let note = self.ids.fetch_add(1, Ordering::SeqCst);
        self.send_message(&format!("also keep note-{note}-end in mind"))
            .await;
        note
    }

    /// Requests a task with a single delivery. Returns the status, or `None` without an answer.
    pub(crate) async fn ask_once(&mut self, task: Task) -> Option<u16> {
        let mention = if self.root.is_none() { "@drydock " } else { "" };
        let text = format!("{mention}queue: please carry out {} now", task.word());
        let written = self
            .testbed
            .slack
            .write(&self.user, CHANNEL, self.root.as_deref(), &text);
        let mut status = None;
        for event in &written.events {
            let began = Instant::now();
            let answer = self.testbed.slack.deliver(event, None).await;
            self.slowest_answer = self.slowest_answer.max(began.elapsed());
            status = answer.ok().map(|answer| answer.status);
            if status.is_some_and(|status| (200..300).contains(&status)) {
                break;
            }
        }
        let acknowledged = status.is_some_and(|status| (200..300).contains(&status));
        self.testbed
            .note(&format!("talk {}: {text}: {status:?}", self.number));
        if acknowledged {
            self.testbed.count_acknowledged();
        }
        if acknowledged || self.root.is_some() {
            self.root.get_or_insert(written.ts);
            self.messages.push(TaskMessage { task, acknowledged });
        }
        status
    }

    /// Returns true if the newest message was not acknowledged.
    pub(crate) fn is_refused(&self) -> bool {
        self.messages.last().is_none_or(|asked| !asked.acknowledged)
    }

    async fn send_message(&mut self, text: &str) -> bool {
        let written = self
            .testbed
            .slack
            .write(&self.user, CHANNEL, self.root.as_deref(), text);
        self.testbed.note(&format!("talk {}: {text}", self.number));
        self.root.get_or_insert(written.ts);
        let mut acknowledged = false;
        for event in &written.events {
            if self.testbed.deliver(event).await && !std::mem::replace(&mut acknowledged, true) {
                self.testbed.count_acknowledged();
            }
        }
        self.testbed
            .note(&format!("talk {}: acknowledged {acknowledged}", self.number));
        acknowledged
    }

    /// Sends a command and does not wait for its answer. The previous command must have been answered.
    pub(crate) async fn command(&mut self, verb: CommandKind, by: CommandInput) -> bool {
        if self.is_stuck {
            return false;
        }
        let least = self.read().finished().min(self.messages.len());
        let acknowledged = match by {
            CommandInput::Text => self.send_message(verb.word()).await,
            CommandInput::Button(label) => match self.press(label).await {
                Some(acknowledged) => acknowledged,
                None => return false,
            },
        };
        self.commands.push(SentCommand {
            verb,
            acknowledged,
            after: (least, usize::MAX),
        });
        acknowledged
    }

    /// Presses the newest button with a label that was not pressed before. Does nothing without such a button.
    async fn press(&mut self, label: &'static str) -> Option<bool> {
        self.testbed.wait_until_up().await;
        let root = self.root.clone()?;
        let message = self
            .testbed
            .slack
            .with_state(|state| newest_button(state, &root, label))?;
        if !self.pressed.insert((message.clone(), label)) {
            return None;
        }
        self.testbed
            .note(&format!("talk {}: presses {label}", self.number));
        let answer = self.testbed.slack.click(&self.user, &message, label).await;
        // Slack does not repeat a press by itself.
        let acknowledged = answer.is_ok_and(|answer| (200..300).contains(&answer.status));
        if acknowledged {
            self.testbed.count_acknowledged();
        }
        self.testbed
            .note(&format!("talk {}: acknowledged {acknowledged}", self.number));
        Some(acknowledged)
    }

    /// Waits until the thread shows a button, for as long as the emulator waits.
    async fn wait_for_button(&self, label: &str) {
        if let Some(root) = &self.root {
            let is_shown = |state: &SlackState| newest_button(state, root, label);
            self.testbed.slack.wait_until(is_shown).await;
        }
    }

    /// Waits for an open question, and answers it: with a button, or else with a message. The message is repeated until it
    /// is acknowledged, and so is the press.
    pub(crate) async fn answer_question(&mut self, by: CommandInput) {
        self.until("a question", |thread| !thread.questions.is_empty())
            .await;
        if self.is_stuck {
            return;
        }
        let acknowledged = match by {
            CommandInput::Text => self.send_message(CHOICE).await,
            CommandInput::Button(label) => {
                // A question may be posted as one line, which an edit fills with its buttons.
                self.wait_for_button(label).await;
                let pressed = self.press(label).await;
                if pressed == Some(false) {
                    self.pressed.clear();
                    self.press(label).await;
                }
                pressed.is_some()
            }
        };
        if !acknowledged {
            self.report_violation("an answer was not acknowledged");
        }
    }

    /// Checks that exactly one question was asked, and that it is closed.
    pub(crate) async fn check_question(&mut self) {
        self.until("a closed question", |thread| thread.questions.is_empty())
            .await;
        let closed = self.read().closed_questions;
        if closed != 1 {
            self.report_violation(&format!("{closed} questions were asked and closed, and not one"));
        }
    }

    /// Waits until every message for a turn has its outcome.
    pub(crate) async fn until_answered(&mut self) {
        let expected = self.messages.iter().filter(|asked| asked.acknowledged).count();
        self.until("a message", |thread| thread.finished() >= expected)
            .await;
    }

    /// Waits until every command has its answer.
    pub(crate) async fn until_commands_are_answered(&mut self) {
        let expected = self
            .commands
            .iter()
            .filter(|command| command.acknowledged)
            .count();
        self.until("a command", |thread| thread.answers.len() >= expected)
            .await;
        // It took effect before any message that is sent from now on.
        let most = self.messages.len();
        for command in &mut self.commands {
            command.after.1 = command.after.1.min(most);
        }
    }

    /// Requests the patch, and waits for it.
    pub(crate) async fn check_final_patch(&mut self) {
        self.until_answered().await;
        self.until_commands_are_answered().await;
        self.command(CommandKind::Patch, CommandInput::Text).await;
        self.until_commands_are_answered().await;
        let sent = |thread: &Thread| {
            let announced = thread.answers.iter().filter(|answer| announces_patch(answer));
            announced.count() <= thread.patches.len()
        };
        self.until("a patch", sent).await;
        self.until("a card", |thread| thread.open == 0).await;
        let is_uncertain = |command: &SentCommand| !command.acknowledged;
        if self.commands.iter().any(is_uncertain) {
            // The command may have been accepted without an acknowledgement, and its answer may be the last message.
            tokio::time::sleep(UNCERTAIN_REST).await;
        }
    }

    async fn until(&mut self, what: &str, holds: impl Fn(&Thread) -> bool) {
        if self.is_stuck {
            return;
        }
        let asked = Instant::now();
        loop {
            if holds(&self.read()) {
                return;
            }
            let patience = self.testbed.patience;
            let waited = self.testbed.up_since().map(|since| since.max(asked).elapsed());
            if waited.is_some_and(|waited| waited > patience) {
                self.is_stuck = true;
                let what = format!("{what} has no end after {} s", patience.as_secs());
                return self.report_violation(&what);
            }
            if asked.elapsed() > patience * 4 {
                self.is_stuck = true;
                return self.report_violation("no message was finished");
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Reads the thread as it is shown now.
    pub(crate) fn read(&self) -> Thread {
        let root = self.root.as_deref().unwrap_or_default();
        self.testbed
            .slack
            .with_state(|state| Thread::read(state, CHANNEL, root))
    }

    pub(crate) fn report_violation(&self, what: &str) {
        let root = self.root.as_deref().unwrap_or_default();
        let shown = self
            .testbed
            .slack
            .with_state(|state| transcript(state, CHANNEL, root));
        self.testbed
            .report_violation(format!("talk {}: {what}\n{shown}", self.number));
    }

    /// Counts the messages and commands that were acknowledged.
    pub(crate) fn acknowledged(&self) -> usize {
        let asked = self.messages.iter().filter(|asked| asked.acknowledged).count();
        asked
            + self
                .commands
                .iter()
                .filter(|command| command.acknowledged)
                .count()
    }
}

/// Returns the newest message of a thread with a button.
fn newest_button(state: &SlackState, root: &str, label: &str) -> Option<String> {
    let has_button = |message: &&SlackMessage| message.buttons().iter().any(|button| button.label == label);
    let found = state.replies(CHANNEL, root).filter(has_button).last();
    found.map(|message| message.ts.clone())
}

/// Returns true for the answer to a command that a file follows.
pub(crate) fn announces_patch(answer: &str) -> bool {
    answer.starts_with("CHG-") && answer.contains(", against ")
}
