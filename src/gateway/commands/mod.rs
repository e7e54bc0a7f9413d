//! Carries out commands and button presses: no model, no queue, one answer each.

mod change;
mod click;
mod conversation;
mod environments;
mod order;
mod people;
mod resumed;

pub(super) use order::CommandOrder;

use super::Gateway;
use super::compose::{self, Address, MESSAGES_MAX, WHOLE};
use super::turn::REVOKED;
use crate::access::Identity;
use crate::command::{self, Command, Verb};
use crate::crash_point;
use crate::jsonnet::Budget;
use crate::model::{ConversationId, Inbound, InboxId, Kind, Op, Part, Platform, Reply};
use crate::store::{Left, NewChange, Rest, StoreError};
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

/// First wait before a command is tried again that the store could not serve; each further one is twice as long.
const WAIT_MIN: Duration = Duration::from_millis(200);
/// Longest such wait.
const WAIT_MAX: Duration = Duration::from_secs(4);

/// A command that was accepted.
pub(super) struct Asked {
    /// The row of the command in the inbox.
    pub(super) inbox: InboxId,
    /// The conversation it was said in.
    pub(super) conversation: ConversationId,
    /// The message.
    pub(super) inbound: Inbound,
    /// The ends of the process since.
    pub(super) crashes: u32,
    /// The answer it gets instead of being carried out.
    pub(super) instead: Option<Reply>,
}

/// The result of a command. It is stored in one transaction with "the command is answered".
struct Answer {
    ops: Vec<Op>,
    revision: Option<Revision>,
}

/// The workspace that an undo left, to be made a revision of the open change.
struct Revision {
    conversation: ConversationId,
    identity: Identity,
    /// The edits it was made of: if there are others by now, it is none.
    snapshot: String,
    /// The prepared change; `None` where the workspace is as its base.
    change: Option<NewChange>,
    address: Address,
}

/// The process stops, and the command is carried out again at the next start.
#[derive(Debug, thiserror::Error)]
#[error("the process stops")]
struct Leaving;

impl Answer {
    fn ops(ops: Vec<Op>) -> Self {
        Self { ops, revision: None }
    }

    fn post(address: &Address, reply: Reply) -> Self {
        Self::ops(vec![address.post("answer", reply)])
    }
}

impl Revision {
    fn announcement(address: &Address, left: Left<'_>) -> Op {
        let text = match left {
            Left::Prepared(change) => format!(
                "Undone. {change} is now {}; `diff` shows it.",
                compose::totals(change)
            ),
            Left::Withheld(why) => format!("Undone. What is left: {}", compose::withheld(why)),
            Left::AsBase => "Undone; the workspace is as the base again, and nothing is prepared.".to_owned(),
            Left::Overtaken => {
                "Undone. The workspace was changed again since; `diff` shows what is prepared.".to_owned()
            }
        };
        address.post("answer", Reply::text(text))
    }
}

impl Gateway {
    /// True for what shows or changes the prepared change, and so comes after the commands before it. What asks of
    /// environments may take long, and a stop can end it.
    pub(super) async fn follows(&self, kind: &Kind) -> bool {
        match (kind, written(kind)) {
            (Kind::Click { token, .. }, _) => !self.is_stop_button(token).await,
            (_, Some(command)) => match command.verb {
                Verb::Undo | Verb::Discard | Verb::Clear | Verb::Patch => true,
                Verb::Diff => !is_inspection(kind),
                _ => false,
            },
            _ => false,
        }
    }

    /// Carries out one command and leaves its answer in the outbox. A panic is answered, and what the store cannot
    /// do now is tried again: an effect that is on record is not repeated.
    pub(super) async fn command(self: &Arc<Self>, asked: Asked) {
        self.command_within(&asked, u32::MAX).await;
    }

    /// Carries out one command in so many attempts at most; false if it has to be tried again.
    async fn command_within(self: &Arc<Self>, asked: &Asked, attempts_max: u32) -> bool {
        let address = address_of(&asked.inbound, asked.inbox.answers());
        let (mut attempts, mut wait) = (0, WAIT_MIN);
        loop {
            let Some(answer) = self.attempt(asked, &address).await else {
                return true;
            };
            crash_point::before("answer");
            let stored = match answer {
                Ok(answer) => self.store_answer(asked, &address, answer).await,
                Err(error) => Err(error),
            };
            crash_point::after("answer");
            match stored {
                Ok(()) => break,
                Err(error) => tracing::warn!(%error, "a command is tried again"),
            }
            attempts += 1;
            if attempts >= attempts_max {
                return false;
            }
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.leaving.cancelled() => return true,
            }
            wait = (wait * 2).min(WAIT_MAX);
        }
        self.wake_deliveries();
        // Turns of the conversation may have waited for it.
        self.shift.wake();
        true
    }

    /// Carries a command out once; nothing if the process stops first.
    async fn attempt(
        self: &Arc<Self>,
        asked: &Asked,
        address: &Address,
    ) -> Option<Result<Answer, StoreError>> {
        let _slot = self.commands.acquire().await.ok()?;
        let answering = AssertUnwindSafe(self.authorised(asked, address)).catch_unwind();
        let answered = tokio::select! {
            answered = answering => answered,
            // It changed nothing, so the next start does it again.
            () = self.leaving.cancelled(), if is_inspection(&asked.inbound.kind) => return None,
        };
        let error = match answered {
            Ok(Ok(answer)) => return Some(Ok(answer)),
            Ok(Err(error)) => error,
            Err(_) => anyhow::anyhow!("it panicked"),
        };
        if error.is::<Leaving>() {
            return None;
        }
        if let Some(error) = error.downcast_ref().filter(|_| is_passing(&error)) {
            return Some(Err(StoreError::clone(error)));
        }
        let told = self.internal(&error, "command");
        Some(Ok(Answer::post(address, Reply::text(told))))
    }

    async fn authorised(&self, asked: &Asked, address: &Address) -> anyhow::Result<Answer> {
        if let Some(reply) = &asked.instead {
            return Ok(Answer::post(address, reply.clone()));
        }
        let Some(identity) = self.identity(&asked.inbound) else {
            return Ok(Answer::post(address, Reply::text(REVOKED)));
        };
        // Whatever a command has evaluated is paid for by its person.
        let answering = self.answer(asked, address, &identity);
        let answer = Budget::of(identity.user()).charge(answering).await?;
        // It may have taken long: what it shows is nobody's to see who is out by now.
        match identity.is_revoked() {
            true => Ok(Answer::post(address, Reply::text(REVOKED))),
            false => Ok(answer),
        }
    }

    /// Stores an answer. A revision that can never be stored is answered in words: it would be prepared again
    /// without end.
    async fn store_answer(&self, asked: &Asked, address: &Address, answer: Answer) -> Result<(), StoreError> {
        let (store, inbox, now) = (&self.parts.store, asked.inbox, (self.parts.now)());
        let Answer { ops, revision } = answer;
        let Some(revision) = revision else {
            return store.command_done(inbox, ops, now).await;
        };
        match self.store_revision(inbox, ops.clone(), revision).await {
            Ok(()) => Ok(()),
            Err(error) if error.may_pass() => Err(error),
            Err(error) => {
                let Answer { ops: told, .. } = self.unprepared(address, &error.into());
                let ops = ops.into_iter().chain(told).collect();
                store.command_done(inbox, ops, now).await
            }
        }
    }

    async fn store_revision(
        &self,
        inbox: InboxId,
        mut ops: Vec<Op>,
        revision: Revision,
    ) -> Result<(), StoreError> {
        let (store, now) = (&self.parts.store, (self.parts.now)());
        let Revision {
            conversation,
            identity,
            snapshot,
            change,
            address,
        } = revision;
        let announce = move |left: Left<'_>| {
            ops.push(Revision::announcement(&address, left));
            ops
        };
        let rest = Rest {
            snapshot,
            change,
            user: identity.user(),
            decide: Box::new(move |grants, change| match grants {
                Some(grants) => identity
                    .with_stored(grants)
                    .may_prepare(&change.repository, &change.needs),
                None => Err("access was revoked".to_owned()),
            }),
        };
        store.undo_done(inbox, conversation, rest, announce, now).await
    }

    async fn answer(&self, asked: &Asked, address: &Address, identity: &Identity) -> anyhow::Result<Answer> {
        let inbound = &asked.inbound;
        if let Some(command) = written(&inbound.kind) {
            let conversation = self.meant(asked).await?;
            return self
                .carry_out(command, asked, address, identity, conversation)
                .await;
        }
        let text = match &inbound.kind {
            Kind::Click { token, callback } => {
                return self.click(asked, address, token, callback.clone()).await;
            }
            Kind::Command { verb, .. } => command::unknown(verb),
            Kind::Text { text, .. } => match command::unknown_in_text(text) {
                Some(word) => command::unknown(word),
                None => self.unreadable_text(identity, text),
            },
            Kind::Unsupported { what } => format!("I can't read a {what}; send me text."),
            Kind::Join { .. } | Kind::Hook { .. } => return Ok(Answer::ops(Vec::new())),
        };
        Ok(Answer::post(address, Reply::text(text)))
    }

    fn unreadable_text(&self, identity: &Identity, text: &str) -> String {
        let chars_max = self.parts.config.limits.inbound_text_chars_max;
        if text.trim().is_empty() {
            return match identity.may_edit() {
                true => "Say what should change, or `help`.".to_owned(),
                false => "Ask a question, or say `help`.".to_owned(),
            };
        }
        format!(
            "That message is too long: I read up to {} characters.",
            compose::thousands(chars_max as u64)
        )
    }

    /// A Slack slash command carries no thread: it means the conversation there that was the sender's newest when it
    /// was typed.
    async fn meant(&self, asked: &Asked) -> anyhow::Result<ConversationId> {
        let (own, inbound) = (asked.conversation, &asked.inbound);
        if inbound.place.thread.is_some() || inbound.place.account.platform != Platform::Slack {
            return Ok(own);
        }
        let place = &inbound.place;
        let latest = self
            .parts
            .store
            .latest_conversation(&inbound.sender, &place.account, &place.chat, asked.inbox)
            .await?;
        Ok(latest.unwrap_or(own))
    }

    async fn carry_out(
        &self,
        command: Command<'_>,
        asked: &Asked,
        address: &Address,
        identity: &Identity,
        conversation: ConversationId,
    ) -> anyhow::Result<Answer> {
        let verb = command.verb;
        // What was done before its answer could be kept is told as that, whatever its person may do by now.
        if let Some(refusal) = self.out_of_reach(verb, identity, conversation).await?
            && !self.parts.store.has_effect(asked.inbox).await?
        {
            return Ok(Answer::post(address, refusal));
        }
        if let Some(question) = verb.question(command.arguments) {
            return match question {
                Ok(_) => {
                    let ops = self.inspect(command, address, identity, conversation).await?;
                    Ok(Answer::ops(ops))
                }
                Err(usage) => Ok(Answer::post(address, Reply::text(usage))),
            };
        }
        let reply = match verb {
            Verb::Help => help(identity),
            Verb::Status => self.status(asked, identity, conversation).await?,
            // All but `diff` ask something, which was answered above.
            Verb::Diff | Verb::Risk | Verb::Envs | Verb::Render | Verb::WhoImports => {
                return Ok(Answer::ops(self.diff(address, identity, conversation).await?));
            }
            Verb::Patch => {
                return Ok(Answer::ops(
                    self.patch(command.arguments, address, identity, conversation)
                        .await?,
                ));
            }
            Verb::Undo => return self.undo(asked, address, identity, conversation).await,
            Verb::Discard => self.discard(command.arguments, asked, conversation).await?,
            Verb::Clear => self.clear(asked, conversation).await?,
            Verb::Context => self.context(conversation).await?,
            Verb::Usage => self.usage(identity).await?,
            Verb::Stop => self.stop(asked, conversation).await?,
            Verb::User => self.user_command(command.arguments, asked, identity).await?,
        };
        Ok(match address.fits(&self.parts.config, &reply, 1) {
            true => Answer::post(address, reply),
            false => Answer::ops(self.posts(address, &reply)),
        })
    }

    /// A reply in a few messages, and the whole of it as a file where it takes more.
    fn posts(&self, address: &Address, reply: &Reply) -> Vec<Op> {
        let mut messages = address.split(&self.parts.config, reply);
        let mut file = None;
        if messages.len() > MESSAGES_MAX {
            let left = messages.len() - (MESSAGES_MAX - 1);
            messages.truncate(MESSAGES_MAX - 1);
            // A file cannot be whispered.
            file = address.whisper.is_none().then(|| address.whole(reply));
            messages.push(Reply::text(match &file {
                Some(_) => format!("This is cut here; the whole of it follows as `{WHOLE}`."),
                None => format!(
                    "This is cut here: {left} more messages would be too many, and a file cannot be shown to you alone. \
                     Ask in a thread, with `!` before the word."
                ),
            }));
        }
        let numbered = messages.into_iter().enumerate();
        let posts = numbered.map(|(index, part)| address.post(&format!("answer-{}", index + 1), part));
        posts.chain(file).collect()
    }

    /// True if a reply takes more messages than one answer has.
    fn is_long(&self, address: &Address, reply: &Reply) -> bool {
        !address.fits(&self.parts.config, reply, MESSAGES_MAX)
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

/// The address of the answer to a command. A slash command leaves no message behind that an answer could stand under.
pub(super) fn address_of(inbound: &Inbound, prefix: String) -> Address {
    let address = Address::of(inbound, prefix);
    let is_slash =
        matches!(inbound.kind, Kind::Command { .. }) && inbound.message.is_none() && !inbound.direct;
    Address {
        mention: None,
        whisper: is_slash.then(|| inbound.sender.clone()),
        ..address
    }
}

/// True for what may change the workspace, the history or the running turn of its conversation: no turn of the one it
/// was said in is begun before it has its effect.
pub(super) fn may_change(kind: &Kind) -> bool {
    let changes = |command: Command<'_>| {
        matches!(
            command.verb,
            Verb::Undo | Verb::Discard | Verb::Clear | Verb::Stop
        )
    };
    matches!(kind, Kind::Click { .. }) || written(kind).is_some_and(changes)
}

/// True for a failure that is over when the store can be used again.
fn is_passing(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(StoreError::may_pass)
}

/// True for a written `stop`.
fn is_stop(kind: &Kind) -> bool {
    written(kind).is_some_and(|command| command.verb == Verb::Stop)
}

/// Asks of environments, which may take long and changes nothing.
fn is_inspection(kind: &Kind) -> bool {
    let question = |command: Command<'_>| command.verb.question(command.arguments);
    written(kind).and_then(question).is_some()
}

fn help(identity: &Identity) -> Reply {
    let known = command::ALL.iter();
    let rows = known
        .filter(|known| identity.is_admin() || !known.verb.is_for_administrators())
        .map(|known| (known.usage(), known.what.to_owned()))
        .collect();
    let admin = if identity.is_admin() {
        " You let people in: `user add`, or an invite that `drydock invite` makes on the server."
    } else {
        ""
    };
    let offer = match identity.may_edit() {
        true => "Say what should change, and I prepare it: a summary, the diff, checks and a patch.",
        false => {
            "Ask about the files and environments, and look at what they render to and how they differ; you change nothing."
        }
    };
    let text = format!(
        "{offer} {}{admin}\n\
         These are answered without a model, as `/word` in Telegram (`_` for `-`), `/drydock word` in Slack, and `!word` in threads:",
        compose::NOT_APPLIED
    );
    Reply::text(text).with(Part::Facts { rows })
}
