//! Carries out commands and button presses: no model, no queue, one answer each.

mod change;
mod click;
mod conversation;
mod environments;

use super::Gateway;
use super::compose::{self, Address};
use crate::access::Identity;
use crate::command::{self, Command, Verb};
use crate::model::{ConversationId, Inbound, InboxId, Kind, Op, Part, Platform, Reply};
use std::sync::Arc;
use std::time::Duration;

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
            match is_inspection(&inbound.kind) {
                // It may take long, and nothing has to wait for it.
                true => {
                    let gateway = Arc::clone(self);
                    self.errands
                        .spawn(async move { gateway.command(inbox, conversation, inbound).await });
                }
                false => self.command(inbox, conversation, inbound).await,
            }
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
        let answering = self.ops(&address, conversation, &inbound);
        let ops = tokio::select! {
            ops = answering => ops,
            // It changed nothing, so the next start does it again.
            () = self.leaving.cancelled(), if is_inspection(&inbound.kind) => return,
        };
        self.answered(inbox, ops).await;
        self.wake_deliveries();
    }

    async fn ops(&self, address: &Address, conversation: ConversationId, inbound: &Inbound) -> Vec<Op> {
        let Some(identity) = self.identity(inbound) else {
            return vec![address.post("answer", Reply::text("Access was revoked."))];
        };
        match self.answer(address, &identity, conversation, inbound).await {
            Ok(ops) => ops,
            Err(error) => vec![address.post("answer", Reply::text(self.internal(&error, "command")))],
        }
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
        if let Some(command) = written(&inbound.kind) {
            let conversation = self.meant(own, inbound).await?;
            return self.carry_out(command, address, identity, conversation).await;
        }
        let text = match &inbound.kind {
            Kind::Click { token, callback } => {
                return self.click(address, inbound, token, callback.clone()).await;
            }
            Kind::Command { verb, .. } => command::unknown(verb),
            Kind::Text { text, .. } => self.unreadable(text),
            Kind::Unsupported { what } => format!("I can't read a {what}; send me text."),
            Kind::Join { .. } | Kind::Hook { .. } => return Ok(Vec::new()),
        };
        Ok(vec![address.post("answer", Reply::text(text))])
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
        command: Command<'_>,
        address: &Address,
        identity: &Identity,
        conversation: ConversationId,
    ) -> anyhow::Result<Vec<Op>> {
        let verb = command.verb;
        if let Some(refusal) = self.out_of_reach(verb, identity, conversation).await? {
            return Ok(vec![address.post("answer", refusal)]);
        }
        if let Some(question) = verb.question(command.arguments) {
            return match question {
                Ok(_) => self.inspect(command, address, identity, conversation).await,
                Err(usage) => Ok(vec![address.post("answer", Reply::text(usage))]),
            };
        }
        let reply = match verb {
            Verb::Help => help(identity),
            Verb::Status => self.status(conversation).await?,
            // All but `diff` ask something, which was answered above.
            Verb::Diff | Verb::Risk | Verb::Envs | Verb::Render | Verb::WhoImports => {
                return self.diff(address, conversation).await;
            }
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

    fn posts(&self, address: &Address, reply: &Reply) -> Vec<Op> {
        let numbered = address.split(&self.parts.config, reply).into_iter().enumerate();
        numbered
            .map(|(index, part)| address.post(&format!("answer-{}", index + 1), part))
            .collect()
    }
}

/// The command that somebody wrote.
fn written(kind: &Kind) -> Option<Command<'_>> {
    match kind {
        Kind::Command { verb, arguments } => Some(Command {
            verb: Verb::parse(verb)?,
            arguments,
        }),
        Kind::Text { text, .. } => command::in_text(text),
        Kind::Click { .. } | Kind::Unsupported { .. } | Kind::Join { .. } | Kind::Hook { .. } => None,
    }
}

/// Asks of environments, which may take long and changes nothing.
fn is_inspection(kind: &Kind) -> bool {
    let question = |command: Command<'_>| command.verb.question(command.arguments);
    written(kind).and_then(question).is_some()
}

fn help(identity: &Identity) -> Reply {
    let rows = command::ALL
        .iter()
        .map(|known| (known.usage(), known.what.to_owned()))
        .collect();
    let admin = if identity.is_admin() {
        " You invite people with `drydock invite` on the server."
    } else {
        ""
    };
    let text = format!(
        "Say what should change, and I prepare it: a summary, the diff, checks and a patch. {}{admin}\n\
         These are answered without a model, as `/word` in Telegram (`_` for `-`), `/drydock word` in Slack, and `!word` in threads:",
        compose::NOT_APPLIED
    );
    Reply::text(text).with(Part::Facts { rows })
}
