//! Carries out commands and button presses: no model, no queue, one answer each.

use super::Gateway;
use super::compose::{self, Address};
use super::prepared::{Onto, Prepared};
use crate::access::Identity;
use crate::command::{self, Verb};
use crate::model::{Action, Change, ConversationId, Inbound, InboxId, Kind, Op, Part, Platform, Reply};
use crate::store::Taken;
use crate::workspace::{Overlay, Workspace};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Waits after each attempt to store the answer to a command.
const STORED_AGAIN_AFTER: [Duration; 3] = [
    Duration::from_millis(200),
    Duration::from_secs(1),
    Duration::from_secs(5),
];

impl Gateway {
    /// Carries out commands that a restart left unfinished.
    pub(super) async fn resume_commands(self: &Arc<Self>) {
        let unfinished = match self.parts.store.unfinished_commands().await {
            Ok(unfinished) => unfinished,
            Err(error) => return tracing::error!(%error, "unfinished commands could not be read"),
        };
        for (inbox, conversation, inbound) in unfinished {
            self.command(inbox, conversation, inbound).await;
        }
    }

    /// Carries out one command and leaves its answer in the outbox.
    pub(super) async fn command(
        self: &Arc<Self>,
        inbox: InboxId,
        conversation: ConversationId,
        inbound: Inbound,
    ) {
        let Ok(_slot) = self.commands.acquire().await else {
            return;
        };
        // A slash command leaves no message behind that an answer could stand under.
        let slash =
            matches!(inbound.kind, Kind::Command { .. }) && inbound.message.is_none() && !inbound.direct;
        let whisper = slash.then(|| inbound.sender.clone());
        let address = Address {
            mention: None,
            whisper,
            ..Address::of_message(&inbound, inbox)
        };
        let ops = match self.identity(&inbound) {
            None => vec![address.post("answer", Reply::text("Access was revoked."))],
            Some(identity) => match self.answer(&address, &identity, conversation, &inbound).await {
                Ok(ops) => ops,
                Err(error) => vec![address.post("answer", Reply::text(self.internal(&error, "command")))],
            },
        };
        self.answered(inbox, ops).await;
        self.wake_deliveries();
    }

    /// Stores the answer to a command. It was carried out already, so the answer is what is tried again.
    async fn answered(&self, inbox: InboxId, ops: Vec<Op>) {
        for wait in STORED_AGAIN_AFTER {
            let stored = self
                .parts
                .store
                .command_done(inbox, ops.clone(), (self.parts.now)())
                .await;
            match stored {
                Ok(()) => return,
                Err(error) => tracing::error!(%error, "the answer to a command could not be stored"),
            }
            tokio::time::sleep(wait).await;
        }
    }

    async fn answer(
        &self,
        address: &Address,
        identity: &Identity,
        own: ConversationId,
        inbound: &Inbound,
    ) -> anyhow::Result<Vec<Op>> {
        let verb = match &inbound.kind {
            Kind::Click { token, callback } => {
                return self.click(address, inbound, token, callback.clone()).await;
            }
            Kind::Command { verb, .. } => match Verb::parse(verb) {
                Some(verb) => verb,
                None => return Ok(vec![address.post("answer", Reply::text(command::unknown(verb)))]),
            },
            Kind::Text { text, .. } => match command::in_text(text) {
                Some(verb) => verb,
                None => return Ok(vec![address.post("answer", Reply::text(self.unreadable(text)))]),
            },
            Kind::Unsupported { what } => {
                let text = format!("I can't read a {what}; send me text.");
                return Ok(vec![address.post("answer", Reply::text(text))]);
            }
            Kind::Join { .. } | Kind::Hook { .. } => return Ok(Vec::new()),
        };
        let conversation = self.meant(own, inbound).await?;
        self.carry_out(verb, address, identity, conversation).await
    }

    fn unreadable(&self, text: &str) -> String {
        let chars_max = self.parts.config.limits.inbound_text_chars_max;
        if text.trim().is_empty() {
            return "Say what should change, or `help`.".to_owned();
        }
        format!(
            "That message is too long: I read up to {} characters.",
            compose::thousands(chars_max as u64)
        )
    }

    /// A Slack slash command carries no thread: it means the sender's newest conversation there.
    async fn meant(&self, own: ConversationId, inbound: &Inbound) -> anyhow::Result<ConversationId> {
        if inbound.place.thread.is_some() || inbound.place.account.platform != Platform::Slack {
            return Ok(own);
        }
        let place = &inbound.place;
        let latest = self
            .parts
            .store
            .latest_conversation(&inbound.sender, &place.account, &place.chat)
            .await?;
        Ok(latest.unwrap_or(own))
    }

    async fn carry_out(
        &self,
        verb: Verb,
        address: &Address,
        identity: &Identity,
        conversation: ConversationId,
    ) -> anyhow::Result<Vec<Op>> {
        if let Some(refusal) = self.out_of_reach(verb, identity, conversation).await? {
            return Ok(vec![address.post("answer", refusal)]);
        }
        let reply = match verb {
            Verb::Help => help(identity),
            Verb::Status => self.status(conversation).await?,
            Verb::Diff => return self.diff(address, conversation).await,
            Verb::Patch => return self.patch(address, conversation).await,
            Verb::Undo => self.undo(conversation).await?,
            Verb::Discard => self.discard(conversation).await?,
            Verb::Clear => self.clear(conversation).await?,
            Verb::Context => self.context(conversation).await?,
            Verb::Usage => self.usage(identity).await?,
            Verb::Stop => self.stop(conversation).await?,
        };
        Ok(vec![address.post("answer", reply)])
    }

    async fn click(
        &self,
        address: &Address,
        inbound: &Inbound,
        token: &str,
        callback: Option<String>,
    ) -> anyhow::Result<Vec<Op>> {
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let taken = self
            .parts
            .store
            .take_action(hash, &inbound.sender, (self.parts.now)())
            .await?;
        let answer = |text: String| {
            let action = Action::AnswerClick {
                callback: callback.clone(),
                to: inbound.sender.clone(),
                text,
            };
            address.op("click", action)
        };
        let (verb, conversation) = match taken {
            Taken::Yes {
                verb, conversation, ..
            } => (verb, conversation),
            Taken::Foreign { owner } => return Ok(vec![answer(format!("This button belongs to {owner}."))]),
            Taken::Used => return Ok(vec![answer("That button was used already.".to_owned())]),
            Taken::Expired | Taken::Unknown => {
                return Ok(vec![answer(
                    "That button is too old; type the command instead.".to_owned(),
                )]);
            }
        };
        // The clicker is authorised like a sender: a grant may be gone since the button was made.
        let Some((identity, verb)) = self.identity(inbound).zip(Verb::parse(&verb)) else {
            return Ok(vec![answer("That button does nothing any more.".to_owned())]);
        };
        let mut ops = vec![answer(format!("{} …", capital(verb.word())))];
        ops.extend(self.carry_out(verb, address, &identity, conversation).await?);
        Ok(ops)
    }

    async fn status(&self, conversation: ConversationId) -> anyhow::Result<Reply> {
        let store = &self.parts.store;
        let row = store.conversation(conversation).await?;
        let running = match (self.desk.turn(conversation), self.desk.is_busy(conversation)) {
            (Some(turn), _) => format!("turn {turn}; `stop` ends it"),
            (None, true) => "a turn begins".to_owned(),
            (None, false) => "nothing".to_owned(),
        };
        let waiting = store.waiting(conversation).await?;
        let prepared = match store.current_change(conversation).await? {
            Some(change) => format!("{change}: {}", compose::totals(&change)),
            None => "nothing".to_owned(),
        };
        let workspace = match (row.repository, row.base) {
            (Some(repository), Some(base)) => format!("{repository} at {}", compose::short(&base)),
            _ => "none yet".to_owned(),
        };
        let delivery = match (
            store.unsent(&row.channel).await?,
            store.given_up(&row.channel).await?,
        ) {
            (0, 0) => "everything is sent".to_owned(),
            (unsent, 0) => format!("{unsent} to send"),
            (unsent, given_up) => format!("{unsent} to send, {given_up} given up; the log says why"),
        };
        let rows = [
            ("Running", running),
            ("Waiting", waiting.to_string()),
            ("Prepared", prepared),
            ("Workspace", workspace),
            ("Delivery", delivery),
        ];
        let rows = rows
            .into_iter()
            .map(|(label, value)| (label.to_owned(), value))
            .collect();
        Ok(Reply {
            parts: vec![Part::Facts { rows }],
        })
    }

    async fn diff(&self, address: &Address, conversation: ConversationId) -> anyhow::Result<Vec<Op>> {
        let Some(mut change) = self.parts.store.current_change(conversation).await? else {
            return Ok(vec![address.post("answer", nothing_prepared())]);
        };
        change.patch = compose::masked(&change.patch, &self.parts.redactor);
        let inline_max = self.parts.config.limits.inline_diff_bytes_max;
        let reply = titled(&change).with(Part::Facts {
            rows: compose::rows(&change),
        });
        let reply = Reply {
            parts: reply
                .parts
                .into_iter()
                .chain(compose::effects(&change))
                .chain(compose::diff(&change, inline_max).parts)
                .collect(),
        };
        let mut ops = self.posts(address, &reply);
        if !compose::fits_inline(&change, inline_max) {
            ops.push(self.upload(address, conversation, &change, "diff").await?);
        }
        Ok(ops)
    }

    /// A file cannot be whispered: it goes to the thread of the conversation it belongs to.
    async fn upload(
        &self,
        address: &Address,
        conversation: ConversationId,
        change: &Change,
        extension: &str,
    ) -> anyhow::Result<Op> {
        let mut address = address.clone();
        if address.whisper.is_some() {
            address.place = self.parts.store.conversation(conversation).await?.key.place;
        }
        Ok(address.upload(change, extension))
    }

    async fn patch(&self, address: &Address, conversation: ConversationId) -> anyhow::Result<Vec<Op>> {
        let Some(mut change) = self.parts.store.current_change(conversation).await? else {
            return Ok(vec![address.post("answer", nothing_prepared())]);
        };
        change.patch = compose::masked(&change.patch, &self.parts.redactor);
        let upload = self.upload(address, conversation, &change, "patch").await?;
        let base = compose::short(&change.base);
        let text = match compose::is_masked(&change) {
            true => format!("{change}, against {base}. A secret in it is masked, so it does not apply."),
            false => format!(
                "{change}, against {base}. `git apply CHG-{}.patch` puts it into your working tree.",
                change.number
            ),
        };
        Ok(vec![address.post("answer", Reply::text(text)), upload])
    }

    async fn undo(&self, conversation: ConversationId) -> anyhow::Result<Reply> {
        if let Some(busy) = self.busy(conversation) {
            return Ok(busy);
        }
        let at = (self.parts.now)();
        let Some(edits) = self.parts.store.undo(conversation, at).await? else {
            return Ok(Reply::text("There is nothing to undo."));
        };
        if edits.is_empty() {
            self.parts.store.discard(conversation, at).await?;
            return Ok(Reply::text(
                "Undone; the workspace is as the base again, and nothing is prepared.",
            ));
        }
        let row = self.parts.store.conversation(conversation).await?;
        let (Some(repository), Some(base)) = (row.repository, row.base) else {
            return Ok(Reply::text("Undone."));
        };
        let loaded = self.parts.repositories.base(&repository, &base).await?;
        let head = self.parts.repositories.head(&repository).await?;
        let branch = self.parts.repositories.branch(&repository).to_owned();
        let workspace = Workspace {
            repository: self.parts.repositories.get(&repository).await?,
            base: Some(base),
            tree: Arc::new(Overlay::new(loaded, edits)),
        };
        let onto = Onto {
            head: &head,
            branch: &branch,
        };
        let nobody = CancellationToken::new();
        let Some(Prepared { change, .. }) = self.prepared(&workspace, onto, "", &mut |_| {}, &nobody).await?
        else {
            return Ok(Reply::text("Undone; the workspace is as the base again."));
        };
        let change = self.parts.store.revise(conversation, change, at).await?;
        Ok(Reply::text(format!(
            "Undone. {change} is now {}; `diff` shows it.",
            compose::totals(&change)
        )))
    }

    async fn discard(&self, conversation: ConversationId) -> anyhow::Result<Reply> {
        if let Some(busy) = self.busy(conversation) {
            return Ok(busy);
        }
        Ok(
            match self.parts.store.discard(conversation, (self.parts.now)()).await? {
                Some(change) => Reply::text(format!(
                    "{change} is discarded; the workspace is as the base again."
                )),
                None => nothing_prepared(),
            },
        )
    }

    async fn clear(&self, conversation: ConversationId) -> anyhow::Result<Reply> {
        if let Some(busy) = self.busy(conversation) {
            return Ok(busy);
        }
        self.parts.store.clear(conversation, (self.parts.now)()).await?;
        Ok(Reply::text(
            "I forgot our conversation. The prepared change stays; `discard` throws it away.",
        ))
    }

    async fn context(&self, conversation: ConversationId) -> anyhow::Result<Reply> {
        let history = self.parts.store.history(conversation).await?;
        let limits = &self.parts.config.limits.turn;
        let window = history.window(limits.history_turns_max, limits.history_bytes_max);
        let turns = window.iter().map(|turn| {
            let calls: usize = turn.steps().iter().map(|step| step.results().len()).sum();
            let tokens: u64 = turn
                .steps()
                .iter()
                .map(|step| step.assistant().usage.total())
                .sum();
            let words: String = turn.user().chars().take(60).collect();
            let count = format!(
                "{} steps, {calls} tool calls, {} tokens",
                turn.steps().len(),
                compose::thousands(tokens)
            );
            (words.replace('\n', " "), count)
        });
        let rows: Vec<_> = turns.collect();
        if rows.is_empty() {
            return Ok(Reply::text("The model sees nothing of this conversation yet."));
        }
        let text = format!(
            "The model sees the last {} of {} turns.",
            rows.len(),
            history.turns().len()
        );
        Ok(Reply::text(text).with(Part::Facts { rows }))
    }

    async fn usage(&self, identity: &Identity) -> anyhow::Result<Reply> {
        let now = (self.parts.now)();
        let day = now
            .checked_sub(jiff::SignedDuration::from_hours(24))
            .unwrap_or(now);
        let store = &self.parts.store;
        let (today, ever) = (
            store.usage_of(identity.user(), day).await?,
            store
                .usage_of(identity.user(), jiff::Timestamp::UNIX_EPOCH)
                .await?,
        );
        let line = |used: &crate::store::UsageReport| {
            format!(
                "{} tokens in {} model calls",
                compose::thousands(used.usage.total()),
                used.calls
            )
        };
        let rows = vec![
            ("Last 24 hours".to_owned(), line(&today)),
            ("In all".to_owned(), line(&ever)),
        ];
        Ok(Reply {
            parts: vec![Part::Facts { rows }],
        })
    }

    /// A grant may be gone since something was prepared: then its files are nobody's to show.
    async fn out_of_reach(
        &self,
        verb: Verb,
        identity: &Identity,
        conversation: ConversationId,
    ) -> anyhow::Result<Option<Reply>> {
        if !matches!(verb, Verb::Diff | Verb::Patch | Verb::Undo) {
            return Ok(None);
        }
        let change = self.parts.store.current_change(conversation).await?;
        Ok(change
            .filter(|change| identity.role(&change.repository).is_none())
            .map(|change| {
                Reply::text(format!(
                    "You have no grant for `{}` any more; {change} is kept.",
                    change.repository
                ))
            }))
    }

    async fn stop(&self, conversation: ConversationId) -> anyhow::Result<Reply> {
        let stopped = self.desk.stop(conversation);
        let waiting = self.parts.store.waiting(conversation).await?;
        Ok(Reply::text(match (stopped, waiting) {
            (true, 0 | 1) => {
                "Stopping. What was edited so far is kept; `diff` shows it, `discard` throws it away."
                    .to_owned()
            }
            (true, waiting) => format!(
                "Stopping. What was edited so far is kept. {} more waiting, which I take up next.",
                waiting - 1
            ),
            (false, 0) => "Nothing is running.".to_owned(),
            (false, waiting) => format!("Nothing is running yet; {waiting} waiting for a free place."),
        }))
    }

    fn busy(&self, conversation: ConversationId) -> Option<Reply> {
        self.desk
            .is_busy(conversation)
            .then(|| Reply::text("A turn is running; `stop` it first."))
    }

    fn posts(&self, address: &Address, reply: &Reply) -> Vec<Op> {
        let split = self
            .channel(&address.channel)
            .map_or_else(|| vec![reply.clone()], |channel| channel.split(reply));
        let numbered = split.into_iter().enumerate();
        numbered
            .map(|(index, part)| address.post(&format!("answer-{}", index + 1), part))
            .collect()
    }
}

fn help(identity: &Identity) -> Reply {
    let rows = command::ALL
        .iter()
        .map(|(_, word, what)| ((*word).to_owned(), (*what).to_owned()))
        .collect();
    let admin = if identity.is_admin() {
        " You invite people with `drydock invite` on the server."
    } else {
        ""
    };
    let text = format!(
        "Say what should change, and I prepare it: a summary, the diff, checks and a patch. {}{admin}\n\
         These are answered without a model, as `/word` in Telegram, `/drydock word` in Slack, and `!word` in threads:",
        compose::NOT_APPLIED
    );
    Reply::text(text).with(Part::Facts { rows })
}

fn titled(change: &Change) -> Reply {
    Reply {
        parts: vec![Part::Heading {
            text: format!("{change}: {}", compose::totals(change)),
        }],
    }
}

fn nothing_prepared() -> Reply {
    Reply::text("Nothing is prepared here. Say what should change.")
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
