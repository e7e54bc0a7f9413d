//! Commands about the conversation: its running work, the model's context, its usage, and its end.

use super::change::PreparedState;
use super::{AcceptedCommand, CommandRunner};
use crate::base::model::{
    ConversationId, InboxId, Reply, ReplyPart, Turn, by_number, group_thousands, pluralize, totals,
};
use crate::engine::agent::context::{self, ContextParts, FixedParts};
use crate::engine::agent::prompt::{self, PromptFacts, RepositoryKind};
use crate::engine::agent::{Questions, Recipients, ToolOffer, VerdictRule};
use crate::engine::gateway::compose;
use crate::state::access::Identity;
use crate::state::store::{ClearOutcome, Conversation, DeadLetter, StopOutcome, StoreError};
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// Maximum number of turns that `context` lists; all of them count in its sums.
const TURNS_LISTED_MAX: usize = 40;
/// Longest wait for the files that decide which instructions a conversation has.
const BASE_TIME_MAX: Duration = Duration::from_secs(2);

/// The answer to a stop of a turn that has ended, while another one runs.
const LATER_RUNS: &str = "That turn has ended. A later turn is running; `stop` ends it.";

/// Maximum number of undelivered files listed by name. Further ones are only counted.
const FILES_LISTED_MAX: usize = 3;

impl CommandRunner {
    pub(super) async fn status(
        &self,
        asked: &AcceptedCommand,
        identity: &Identity,
        conversation: ConversationId,
    ) -> anyhow::Result<Reply> {
        let store = &self.parts.store;
        let row = store.conversation(conversation).await?;
        let question = store.open_question(conversation).await?;
        let running = match (
            self.active_turns.turn(conversation),
            self.active_turns.is_busy(conversation),
        ) {
            (Some(turn), _) => format!("turn {turn}; `stop` ends it"),
            (None, true) => "a turn begins".to_owned(),
            (None, false) if let Some(open) = &question => {
                format!(
                    "a turn waits for your answer until {} UTC; `stop` ends it",
                    open.deadline.strftime("%H:%M")
                )
            }
            (None, false) if self.inspections.is_any(conversation) => {
                "a query about environments; `stop` ends it".to_owned()
            }
            (None, false) => "nothing".to_owned(),
        };
        let waiting = store.waiting(conversation).await?;
        let prepared = match self.prepared_state(identity, conversation).await? {
            PreparedState::Prepared(change) => format!("{change}: {}", totals(&change.stats)),
            PreparedState::Withheld(why) => format!("nothing; the edits are withheld: {why}"),
            PreparedState::Nothing => "nothing".to_owned(),
        };
        let workspace = match (row.repository, row.base) {
            (Some(repository), Some(base)) => format!("{repository} at {}", compose::short(&base)),
            _ => "none yet".to_owned(),
        };
        let given_up = store
            .report_given_up(&row.channel, &row.key.place, asked.inbox)
            .await?;
        let missing = missing(&given_up, self.parts.config.retention.dead_letter_days);
        let mut delivery = match (missing, store.unsent_count(&row.channel).await?) {
            (None, 0) => "everything is sent".to_owned(),
            (None, unsent) => format!("{unsent} to send"),
            (Some(missing), 0) => missing,
            (Some(missing), unsent) => format!("{missing}; {unsent} to send"),
        };
        for (channel, state) in self.outgoing.closed_channels() {
            delivery.push_str(&format!("; `{channel}` is {state}"));
        }
        let joined = self.joined_line(conversation).await?;
        let rows = [
            ("Running", running),
            ("Waiting", waiting.to_string()),
            ("Prepared", prepared),
            ("Workspace", workspace),
            ("Delivery", delivery),
        ];
        let rows = rows
            .into_iter()
            .chain(joined.map(|joined| ("Joined", joined)))
            .map(|(label, value)| (label.to_owned(), value))
            .collect();
        Ok(Reply {
            parts: vec![ReplyPart::Facts { rows }],
        })
    }

    /// Returns the people who joined a conversation, with the times; `None` if nobody did.
    async fn joined_line(&self, conversation: ConversationId) -> anyhow::Result<Option<String>> {
        let members = self.parts.store.thread_members(conversation).await?;
        let lines = members.iter().filter_map(|(member, since)| {
            let identity = self.parts.access.admit(member)?;
            Some(format!("{} since {since:.0}", identity.name()))
        });
        let lines = lines.collect::<Vec<_>>().join("; ");
        Ok((!lines.is_empty()).then_some(lines))
    }

    pub(super) async fn clear(
        &self,
        asked: &AcceptedCommand,
        conversation: ConversationId,
    ) -> anyhow::Result<Reply> {
        let store = &self.parts.store;
        if let ClearOutcome::Busy = store.clear(conversation, asked.inbox).await? {
            return Ok(busy_reply());
        }
        Ok(Reply::text(match store.current_change(conversation).await? {
            Some(_) => "I cleared our conversation. The prepared change stays; `discard` removes it.",
            None => "I cleared our conversation.",
        }))
    }

    pub(super) async fn context(
        &self,
        identity: &Identity,
        conversation: ConversationId,
    ) -> anyhow::Result<Reply> {
        let store = &self.parts.store;
        let (row, history) = (
            store.conversation(conversation).await?,
            store.history(conversation).await?,
        );
        let all = store.user_messages(conversation).await?.len();
        if all == 0 {
            return Ok(Reply::text("The model sees nothing of this conversation yet."));
        }
        let fixed = self.fixed_parts(identity, &row).await?;
        let config = &self.parts.config;
        let parts = ContextParts::measure(
            &history,
            fixed,
            (&config.limits.turn, self.parts.context_tokens()),
            row.context.bytes_per_1000_tokens,
        );
        let mut text = format!(
            "The model sees the last {} of {}.",
            history.turns().len(),
            pluralize(all, "turn", "turns")
        );
        if history.trimmed_turns() > 0 {
            let oldest = by_number(history.trimmed_turns(), "one", "ones");
            text.push_str(&format!(
                " The results of the oldest {} {oldest} are trimmed.",
                history.trimmed_turns()
            ));
        }
        let newest = history.turns().len().saturating_sub(TURNS_LISTED_MAX);
        let turns = history.turns().iter().skip(newest).map(turn_row);
        Ok(Reply::text(text)
            .with(ReplyPart::Facts {
                rows: turns.collect(),
            })
            .with(ReplyPart::Facts { rows: parts.rows() }))
    }

    /// Returns the size of the instructions and tools that the person's next request has.
    async fn fixed_parts(&self, identity: &Identity, row: &Conversation) -> anyhow::Result<FixedParts> {
        let name = row.repository.as_deref().unwrap_or_default();
        let base = row.base.as_deref().unwrap_or_default();
        let opening = self.parts.repositories.base(name, base);
        let kind = match tokio::time::timeout(BASE_TIME_MAX, opening).await {
            Ok(Ok(base)) => RepositoryKind::of_files(&base.files()),
            Ok(Err(_)) | Err(_) => RepositoryKind::Tanka,
        };
        let environments = identity.environments(name);
        let facts = PromptFacts {
            repository: name,
            branch: self.parts.repositories.branch(name),
            role: identity.role(name),
            environments: &environments,
        };
        let config = &self.parts.config;
        let offer = ToolOffer {
            toolbox: &self.parts.toolbox,
            identity,
            repository: name,
            verdict: VerdictRule::Computed,
            strategy: context::strategy(config.limits.turn.context_strategy),
            questions: Questions::Stored,
            recipients: match config.messages.between_people {
                true => Recipients::People,
                false => Recipients::Nobody,
            },
        };
        Ok(FixedParts::of(
            &prompt::system(kind, &facts),
            offer.tools()?.specs(),
        ))
    }

    /// Stops the oldest message of a conversation that was waiting or being answered when the command arrived. Also
    /// stops inspections of environments.
    pub(super) async fn stop(
        &self,
        asked: &AcceptedCommand,
        conversation: ConversationId,
    ) -> anyhow::Result<Reply> {
        let stopped = self.stop_turn(asked, conversation, None).await?;
        let inspections = self.inspections.stop(conversation);
        Ok(Reply::text(match (stopped.message, stopped.waiting) {
            (Some(_), waiting) => stopping(waiting),
            (None, _) if inspections => "Stopping.".to_owned(),
            (None, 0) if stopped.commands > 0 => {
                "Nothing is running. If a `retry` still waits, it does not begin.".to_owned()
            }
            (None, 0) => "Nothing is running.".to_owned(),
            (None, waiting) => format!("That work has ended; {waiting} more waiting."),
        }))
    }

    /// Stops exactly one message of a conversation. Later messages are not affected by its button.
    pub(super) async fn stop_message(
        &self,
        asked: &AcceptedCommand,
        conversation: ConversationId,
        message: InboxId,
    ) -> anyhow::Result<Reply> {
        let stopped = self.stop_turn(asked, conversation, Some(message)).await?;
        Ok(Reply::text(match stopped.message {
            Some(_) => stopping(stopped.waiting),
            None => self
                .later_work(conversation, stopped.waiting)
                .await?
                .after_its_turn(),
        }))
    }

    /// Stops the message whose turn had begun at a time. Later turns are not affected.
    pub(super) async fn stop_begun(
        &self,
        asked: &AcceptedCommand,
        conversation: ConversationId,
        pressed: Timestamp,
    ) -> anyhow::Result<Reply> {
        let (store, now) = (&self.parts.store, (self.parts.now)());
        let stopped = store.stop_begun(conversation, asked.inbox, pressed, now).await?;
        if let Some(message) = stopped.message {
            self.active_turns.stop(conversation, message);
        }
        Ok(Reply::text(match stopped.message {
            Some(_) => stopping(stopped.waiting),
            None => self
                .later_work(conversation, stopped.waiting)
                .await?
                .after_its_time(),
        }))
    }

    /// Returns the work of a conversation in which a stop ended nothing. `unfinished` messages are answered or wait.
    async fn later_work(
        &self,
        conversation: ConversationId,
        unfinished: u32,
    ) -> Result<LaterWork, StoreError> {
        if unfinished == 0 {
            return Ok(LaterWork::Nothing);
        }
        let is_busy = self.active_turns.is_busy(conversation);
        Ok(
            match is_busy || self.parts.store.open_question(conversation).await?.is_some() {
                true => LaterWork::Runs,
                false => LaterWork::Waits(unfinished),
            },
        )
    }

    async fn stop_turn(
        &self,
        asked: &AcceptedCommand,
        conversation: ConversationId,
        message: Option<InboxId>,
    ) -> anyhow::Result<StopOutcome> {
        let (store, now) = (&self.parts.store, (self.parts.now)());
        let stopped = store.stop(conversation, asked.inbox, message, now).await?;
        // The stop is stored first, so that a turn that is just beginning finds it.
        if let Some(message) = stopped.message {
            self.active_turns.stop(conversation, message);
        }
        Ok(stopped)
    }
}

/// Returns the text for a stopped turn with this number of waiting messages.
fn stopping(waiting: u32) -> String {
    match waiting {
        0 => "Stopping. The edits so far are kept; `diff` shows them, `discard` removes them.".to_owned(),
        waiting => {
            format!("Stopping. The edits so far are kept. {waiting} more waiting; I continue with those.")
        }
    }
}

/// The work of a conversation after the turn that a stop was meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LaterWork {
    Nothing,
    /// No turn runs, and this number of messages wait.
    Waits(u32),
    /// A turn runs, begins or waits for an answer.
    Runs,
}

impl LaterWork {
    /// Returns the answer to a stop of a certain turn.
    fn after_its_turn(self) -> String {
        match self {
            Self::Nothing => "That turn has ended.".to_owned(),
            Self::Waits(messages) => format!("That turn has ended. {}", next_waits(messages)),
            Self::Runs => LATER_RUNS.to_owned(),
        }
    }

    /// Returns the answer to a stop of the turn that ran at a certain time.
    fn after_its_time(self) -> String {
        match self {
            Self::Nothing => "Nothing is running.".to_owned(),
            Self::Waits(messages) => format!(
                "No turn had begun by then that is still running. {}",
                next_waits(messages)
            ),
            Self::Runs => LATER_RUNS.to_owned(),
        }
    }
}

fn next_waits(messages: u32) -> String {
    let wait = pluralize(messages as usize, "message waits", "messages wait");
    format!("{wait}; `stop` ends the next.")
}

/// Describes the dead letters of a conversation for the person, and how long they can still be sent. Placeholder lines
/// are left out, because they carry no content.
fn missing(given_up: &[DeadLetter], kept_days: Option<u32>) -> Option<String> {
    let is_missed = |letter: &&DeadLetter| {
        let name = letter.op.rsplit('/').next().unwrap_or_default();
        let is_text = ["post", "edit", "notice", "upload"].contains(&letter.what.as_str());
        is_text && !name.starts_with("missing") && name != "card"
    };
    let missed: Vec<&DeadLetter> = given_up.iter().filter(is_missed).collect();
    let oldest = missed.iter().map(|letter| letter.given_up).min()?;
    let files: Vec<&str> = missed
        .iter()
        .filter_map(|letter| letter.file.as_deref())
        .collect();
    let named = files.iter().take(FILES_LISTED_MAX);
    let mut what: Vec<String> = named.map(|file| format!("the file `{file}`")).collect();
    match files.len() - what.len() {
        0 => {}
        1 => what.push("another file".to_owned()),
        others => what.push(format!("{others} other files")),
    }
    match missed.len() - files.len() {
        0 => {}
        1 => what.push("an answer".to_owned()),
        others => what.push(format!("{others} answers")),
    }
    let until = kept_days
        .and_then(|days| {
            oldest
                .checked_add(SignedDuration::from_hours(24 * i64::from(days)))
                .ok()
        })
        .map(|until| format!(" until {}", until.strftime("%-d %B %Y")))
        .unwrap_or_default();
    Some(format!(
        "not delivered here: {}; the operator of this server can send it again{until}",
        what.join(", ")
    ))
}

/// Returns the reply to a command that cannot run during a turn.
pub(super) fn busy_reply() -> Reply {
    Reply::text("A turn is running; `stop` it first.")
}

/// Returns the line of a turn: the beginning of its message, and its work.
fn turn_row(turn: &Turn) -> (String, String) {
    let calls: usize = turn.steps().iter().map(|step| step.results().len()).sum();
    let used = turn.steps().iter().map(|step| step.assistant().usage.total());
    // What others sent is not the person's message.
    let words: String = prompt::own_words(turn.user()).trim().chars().take(60).collect();
    let work = format!(
        "{} steps, {calls} tool calls, {} tokens",
        turn.steps().len(),
        group_thousands(used.sum::<u64>())
    );
    (words.replace('\n', " "), work)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{LaterWork, missing};
    use crate::state::store::DeadLetter;
    use jiff::Timestamp;

    fn letter(op: &str, what: &str, file: Option<&str>) -> DeadLetter {
        let given_up = Timestamp::from_second(1_795_293_600).unwrap();
        DeadLetter {
            op: op.to_owned(),
            channel: "slack".to_owned(),
            chat: "C1".to_owned(),
            thread: None,
            what: what.to_owned(),
            file: file.map(str::to_owned),
            state: "failed".to_owned(),
            why: "is_archived".to_owned(),
            attempts: 1,
            enqueued: given_up,
            given_up,
        }
    }

    #[test]
    fn a_stop_that_ends_nothing_says_whether_a_turn_runs_or_messages_wait() {
        for (later, of_turn, of_time) in [
            (LaterWork::Nothing, "That turn has ended.", "Nothing is running."),
            (
                LaterWork::Waits(1),
                "That turn has ended. 1 message waits; `stop` ends the next.",
                "No turn had begun by then that is still running. 1 message waits; `stop` ends the next.",
            ),
            (
                LaterWork::Waits(2),
                "That turn has ended. 2 messages wait; `stop` ends the next.",
                "No turn had begun by then that is still running. 2 messages wait; `stop` ends the next.",
            ),
            (
                LaterWork::Runs,
                "That turn has ended. A later turn is running; `stop` ends it.",
                "That turn has ended. A later turn is running; `stop` ends it.",
            ),
        ] {
            assert_eq!(later.after_its_turn(), of_turn);
            assert_eq!(later.after_its_time(), of_time);
        }
    }

    #[test]
    fn undelivered_messages_are_listed_in_plain_words() {
        let file = letter("inbox-1/CHG-1.patch", "upload", Some("CHG-1.patch"));
        let answer = letter("inbox-2/result", "post", None);
        let instead = letter("inbox-2/missing", "post", None);
        let receipt = letter("inbox-3/seen", "react", None);
        assert_eq!(missing(&[instead.clone(), receipt.clone()], Some(30)), None);
        let all = [file.clone(), answer.clone(), answer, instead, receipt];
        assert_eq!(
            missing(&all, Some(30)).unwrap(),
            "not delivered here: the file `CHG-1.patch`, 2 answers; the operator of this server can send it again \
             until 21 December 2026"
        );
        assert_eq!(
            missing(std::slice::from_ref(&file), None).unwrap(),
            "not delivered here: the file `CHG-1.patch`; the operator of this server can send it again"
        );
        for (files, others) in [(4, "another file"), (5, "2 other files")] {
            let text = missing(&vec![file.clone(); files], None).unwrap();
            let three = ["the file `CHG-1.patch`"; 3].join(", ");
            assert_eq!(
                text,
                format!(
                    "not delivered here: {three}, {others}; the operator of this server can send it again"
                )
            );
        }
    }
}
