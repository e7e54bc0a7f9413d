//! Commands that were unanswered at a restart. Most run again. Two kinds get an answer instead: old commands that
//! change something, and commands that may have caused repeated crashes.

use super::{
    AcceptedCommand, CommandNeeds, CommandRunner, LaterCommands, WAIT_MAX, WAIT_MIN, is_inspection,
    may_change,
};
use crate::base::model::{ConversationId, InboundKind, InboxId, Reply};
use crate::state::store::{StoreError, UnansweredCommand};
use jiff::SignedDuration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Number of crashes after which a command without a stored effect is given up.
const CRASHES_MAX: u32 = 3;
/// Number of crashes after which a command with a stored effect is given up.
const CRASHES_WITH_EFFECT_MAX: u32 = 6;
/// Maximum age at which a command that changes something still runs after a restart.
const AGE_MAX: SignedDuration = SignedDuration::from_mins(5);
/// Total number of attempts at leftover stops before turns begin.
const STOP_ATTEMPTS_MAX: u32 = 3;
const TOO_OLD: &str =
    "I was restarted before I could do this, and that was some minutes ago, so I did nothing.";

/// The answer to a command or a press that does not run any more.
pub(in crate::engine::gateway) struct PresetReply {
    /// The reason, as a sentence.
    why: String,
    /// True if its effect is stored.
    has_effect: bool,
}

impl PresetReply {
    /// Returns the answer to a typed command, or to the press of a button that can be pressed again.
    pub(super) fn reply(&self, kind: &InboundKind) -> Reply {
        self.with_advice(match kind {
            InboundKind::Click { .. } => "Press the button again if you still want it.",
            _ => "Send it again if you still want it.",
        })
    }

    /// Returns the answer to the press of a button that cannot be pressed any more.
    pub(super) fn unusable_reply(&self) -> Reply {
        self.with_advice("If the button does not work any more, write what you want instead.")
    }

    /// True for a press without an effect, which gives its button back.
    pub(super) fn returns_press(&self, kind: &InboundKind) -> bool {
        matches!(kind, InboundKind::Click { .. }) && !self.has_effect
    }

    fn with_advice(&self, advice: &str) -> Reply {
        Reply::text(match self.has_effect {
            true => self.why.clone(),
            false => format!("{} {advice}", self.why),
        })
    }
}

impl CommandRunner {
    /// Runs the stops that a restart left unanswered, and starts the other commands in the background. A stop may
    /// concern another conversation than its own, so no turn begins before the stops are done. If a stop cannot be
    /// stored, it is retried while turns run.
    pub(in crate::engine::gateway) async fn resume_commands(self: &Arc<Self>) -> Result<(), StoreError> {
        let (mut unanswered, mut attempts_max) = (Vec::new(), STOP_ATTEMPTS_MAX);
        // Presses that only show something run on their own, like queries about environments.
        let mut shows = BTreeSet::new();
        for command in self.parts.store.unanswered().await? {
            match &command.inbound {
                Ok(inbound) if self.is_stop_request(&inbound.kind).await => {
                    let Ok(asked) = accepted_command(command, None) else {
                        continue;
                    };
                    if !self.run_command_within(&asked, attempts_max).await {
                        attempts_max = 1;
                        let runner = Arc::clone(self);
                        self.background
                            .spawn(async move { Box::pin(runner.run_command(asked)).await });
                    }
                }
                Ok(inbound) if self.only_shows(&inbound.kind).await => {
                    shows.insert(command.inbox);
                    unanswered.push(command);
                }
                _ => unanswered.push(command),
            }
        }
        for commands in group_by_conversation(unanswered, &shows) {
            let runner = Arc::clone(self);
            let Some(first) = commands.first() else { continue };
            // New commands wait for these as they would have without the restart.
            let only_shows = shows.contains(&first.inbox);
            let follows = !only_shows && !is_alone(first);
            let later = match follows {
                true => LaterCommands::Wait,
                false => LaterCommands::Continue,
            };
            let in_order = self.order.enter(first.conversation, later);
            let resumed = async move {
                for command in commands {
                    let now = (runner.parts.now)();
                    let is_old = !only_shows && now.duration_since(command.accepted_at) > AGE_MAX;
                    Box::pin(runner.resume(command, is_old.then_some(TOO_OLD))).await;
                }
            };
            let needs = CommandNeeds {
                waits: follows || only_shows,
                later,
            };
            self.background
                .spawn(in_order.run(std::future::ready(needs), Box::pin(resumed)));
        }
        Ok(())
    }

    /// Runs a command. If it changes something and is `too_late`, the answer gives the reason instead.
    async fn resume(self: &Arc<Self>, command: UnansweredCommand, too_late: Option<&str>) {
        let (inbox, conversation) = (command.inbox, command.conversation);
        match accepted_command(command, too_late) {
            Ok(asked) => Box::pin(self.run_command(asked)).await,
            Err(error) => self.answer_unreadable(inbox, conversation, error).await,
        }
    }

    /// Answers a command that cannot be read. Its conversation waits until the answer is stored, so storing is retried.
    async fn answer_unreadable(&self, inbox: InboxId, conversation: ConversationId, error: StoreError) {
        let reference = self.parts.log_internal_error(&error.into(), "reading a command");
        let text = format!("This command cannot be read any more; send it again. (ref {reference})");
        let mut wait = WAIT_MIN;
        while let Err(error) = self.answer_with_text(inbox, conversation, &text).await {
            tracing::warn!(%error, "the answer to a command that cannot be read is stored again");
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.shutdown.cancelled() => return,
            }
            wait = (wait * 2).min(WAIT_MAX);
        }
        self.outgoing.wake();
        self.scheduler.wake();
    }

    async fn answer_with_text(
        &self,
        inbox: InboxId,
        conversation: ConversationId,
        text: &str,
    ) -> Result<(), StoreError> {
        let address = self.parts.address_in(conversation, inbox).await?;
        let ops = vec![address.post("answer", Reply::text(text))];
        self.parts
            .store
            .finish_command(inbox, ops, (self.parts.now)())
            .await
    }
}

/// Converts a stored command for execution, or returns why it cannot be read.
fn accepted_command(
    command: UnansweredCommand,
    too_late: Option<&str>,
) -> Result<AcceptedCommand, StoreError> {
    let instead = preset_reply(&command, too_late);
    Ok(AcceptedCommand {
        inbox: command.inbox,
        conversation: command.conversation,
        inbound: *command.inbound?,
        crashes: command.crashes,
        preset_reply: instead,
    })
}

/// Divides commands into groups that run in parallel. Commands of one conversation are in one group and keep their
/// order. Commands that may take long are groups of their own. Presses in `shows` come last, because they wait for the
/// earlier commands of their conversation.
fn group_by_conversation(
    unanswered: Vec<UnansweredCommand>,
    shows: &BTreeSet<InboxId>,
) -> Vec<Vec<UnansweredCommand>> {
    let (mut alone, mut showing) = (Vec::new(), Vec::new());
    let mut by_conversation: BTreeMap<ConversationId, Vec<UnansweredCommand>> = BTreeMap::new();
    for command in unanswered {
        match (shows.contains(&command.inbox), is_alone(&command)) {
            (true, _) => showing.push(vec![command]),
            (false, true) => alone.push(vec![command]),
            (false, false) => by_conversation
                .entry(command.conversation)
                .or_default()
                .push(command),
        }
    }
    let groups = alone.into_iter().chain(by_conversation.into_values());
    groups.chain(showing).collect()
}

fn is_alone(command: &UnansweredCommand) -> bool {
    let inbound = command.inbound.as_ref();
    inbound.is_ok_and(|inbound| is_inspection(&inbound.kind))
}

/// Returns the reply to a command that must not run; `None` if it may run.
fn preset_reply(command: &UnansweredCommand, too_late: Option<&str>) -> Option<PresetReply> {
    let has_effect = command.has_effect;
    let crashes_max = match has_effect {
        true => CRASHES_WITH_EFFECT_MAX,
        false => CRASHES_MAX,
    };
    let preset = |why: String| PresetReply { why, has_effect };
    if command.crashes >= crashes_max {
        return Some(preset(format!(
            "I was restarted {} times before I could answer this, so I gave it up. `status` shows the current state.",
            command.crashes
        )));
    }
    let changes = command.inbound.as_ref();
    let changes = changes.is_ok_and(|inbound| may_change(&inbound.kind));
    too_late
        .filter(|_| changes && !has_effect)
        .map(|why| preset(why.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::group_by_conversation;
    use crate::base::model::{
        Account, ChatPlace, ConversationId, Inbound, InboundKind, InboxId, Platform, Sender,
    };
    use crate::state::store::UnansweredCommand;
    use jiff::Timestamp;
    use std::collections::BTreeSet;

    fn command(inbox: i64, conversation: i64, text: &str) -> UnansweredCommand {
        let inbound = Inbound {
            channel: "slack".to_owned(),
            delivery: Vec::new(),
            sender: Sender {
                platform: Platform::Slack,
                account: "T1".to_owned(),
                id: "U1".to_owned(),
            },
            place: ChatPlace {
                account: Account {
                    platform: Platform::Slack,
                    id: "T1".to_owned(),
                },
                chat: "C1".to_owned(),
                thread: None,
            },
            direct: false,
            message: None,
            kind: InboundKind::Text {
                text: text.to_owned(),
                quoted: None,
                addressed: true,
            },
            files: Vec::new(),
            about: None,
            response_url: None,
        };
        UnansweredCommand {
            inbox: InboxId(inbox),
            conversation: ConversationId(conversation),
            accepted_at: Timestamp::UNIX_EPOCH,
            has_effect: false,
            crashes: 0,
            inbound: Ok(Box::new(inbound)),
        }
    }

    /// Commands of other conversations do not wait for the slow rendering after an undo.
    #[test]
    fn commands_of_one_conversation_keep_their_order() {
        let unanswered = vec![
            command(1, 1, "!undo"),
            command(2, 2, "!discard"),
            command(3, 1, "!status"),
            command(5, 2, "!undo"),
            command(6, 1, "!envs"),
            command(7, 2, "the press of a button"),
        ];
        let shows = BTreeSet::from([InboxId(7)]);
        let lists: Vec<Vec<i64>> = group_by_conversation(unanswered, &shows)
            .into_iter()
            .map(|list| list.into_iter().map(|command| command.inbox.0).collect())
            .collect();
        assert_eq!(lists, [vec![6], vec![1, 3], vec![2, 5], vec![7]]);
    }
}
