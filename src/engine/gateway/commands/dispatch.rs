//! The choice of what a command does, after the checks of the grants and of whose conversation it is for.

use super::answer::CommandAnswer;
use super::kind::{pressed_at, stopped_message, written};
use super::{AcceptedCommand, CommandRunner, slash};
use crate::base::model::{
    ConversationId, InboundKind, MessageConsent, Platform, Reply, ReplyPart, group_thousands,
};
use crate::engine::command::{self, Command, Verb};
use crate::engine::gateway::compose::Address;
use crate::engine::gateway::joined::ConversationRights;
use crate::state::access::Identity;

impl CommandRunner {
    pub(super) async fn answer(
        &self,
        asked: &AcceptedCommand,
        address: &Address,
        identity: &Identity,
    ) -> anyhow::Result<CommandAnswer> {
        let inbound = &asked.inbound;
        if let Some(command) = written(&inbound.kind) {
            let conversation = self.target_conversation(asked).await?;
            return self
                .carry_out(command, asked, address, identity, conversation)
                .await;
        }
        if let Some(command) = slash::of_pipelines(&inbound.kind) {
            return Box::pin(self.start_by_command(command, asked, address, identity)).await;
        }
        let text = match &inbound.kind {
            InboundKind::Click { token, .. } => return self.click(asked, address, token).await,
            InboundKind::Command { verb, .. } => command::unknown_reply(verb),
            InboundKind::Text { text, .. } => match command::find_unknown_in_text(text) {
                Some(word) => command::unknown_reply(word),
                None => self.unreadable_text(identity, text),
            },
            InboundKind::Unsupported { what } => format!("I can't read a {what}; send me text."),
            InboundKind::Join { .. }
            | InboundKind::Hook { .. }
            | InboundKind::Schedule(_)
            | InboundKind::Pipeline(_)
            | InboundKind::HomeOpened => {
                return Ok(CommandAnswer::ops(Vec::new()));
            }
        };
        Ok(CommandAnswer::post(address, Reply::text(text)))
    }

    fn unreadable_text(&self, identity: &Identity, text: &str) -> String {
        let chars_max = self.parts.config.limits.inbound_text_chars_max;
        if command::queued(text) == Some("") {
            return "Say what I should do after the running work: `queue: ` and your request.".to_owned();
        }
        if text.trim().is_empty() {
            return match identity.may_edit() {
                true => "Say what should change, or `help`.".to_owned(),
                false => "Ask a question, or say `help`.".to_owned(),
            };
        }
        format!(
            "That message is too long: I read up to {} characters.",
            group_thousands(chars_max as u64)
        )
    }

    /// Returns the conversation that a command is about. A platform may send a command without its thread. Then it
    /// means the sender's newest conversation in that chat at the time of typing.
    async fn target_conversation(&self, asked: &AcceptedCommand) -> anyhow::Result<ConversationId> {
        let (own, inbound) = (asked.conversation, &asked.inbound);
        let chat = inbound.place.account.platform.chat();
        let drops_threads = chat.is_some_and(|chat| chat.drops_threads_of_commands);
        if inbound.place.thread.is_some() || !drops_threads {
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

    pub(super) async fn carry_out(
        &self,
        command: Command<'_>,
        asked: &AcceptedCommand,
        address: &Address,
        identity: &Identity,
        conversation: ConversationId,
    ) -> anyhow::Result<CommandAnswer> {
        let verb = command.verb;
        if verb.is_about_a_conversation()
            && let Some(refusal) = self.refusal_to_joined(asked, identity, conversation).await?
        {
            let allowed = Box::pin(self.answer_to_asker(command, asked, identity, conversation)).await?;
            return Ok(self.posted(address, allowed.unwrap_or(refusal)));
        }
        // An effect that was stored before the answer is reported as done, even if the person's grants have changed
        // since.
        if let Some(refusal) = self.missing_grant_reply(verb, identity, conversation).await?
            && !self.parts.store.has_effect(asked.inbox).await?
        {
            return Ok(CommandAnswer::post(address, refusal));
        }
        if let Some(question) = verb.question(command.arguments) {
            return match question {
                Ok(_) => {
                    let ops = self.inspect(command, address, identity, conversation).await?;
                    Ok(CommandAnswer::ops(ops))
                }
                Err(missing) => Ok(CommandAnswer::post(address, Reply::text(missing.hint("")))),
            };
        }
        let reply = match verb {
            Verb::Help => help(identity),
            Verb::Status => self.status(asked, identity, conversation).await?,
            // All of these except `diff` are inspections, which were answered above.
            Verb::Diff | Verb::Risk | Verb::Envs | Verb::Render | Verb::WhoImports => {
                return Ok(CommandAnswer::ops(
                    self.diff(command.arguments, address, identity, conversation)
                        .await?,
                ));
            }
            Verb::Patch => {
                return Ok(CommandAnswer::ops(
                    self.patch(command.arguments, address, identity, conversation)
                        .await?,
                ));
            }
            Verb::Undo => {
                return self
                    .undo(command.arguments, asked, address, identity, conversation)
                    .await;
            }
            Verb::Discard => {
                let discarded = self.discard(command.arguments, asked, address, conversation);
                let (reply, closing) = discarded.await?;
                let mut answer = self.posted(address, reply);
                answer.ops.extend(closing);
                return Ok(answer);
            }
            Verb::Clear => self.clear(asked, conversation).await?,
            Verb::Context => self.context(identity, conversation).await?,
            Verb::Export => {
                return self
                    .export(command.arguments, asked, address, identity, conversation)
                    .await;
            }
            Verb::Usage => self.usage(command.arguments, identity).await?,
            Verb::Budget => {
                return self
                    .budget_command(command.arguments, asked, address, identity, conversation)
                    .await;
            }
            Verb::Stop => match (stopped_message(command.arguments), pressed_at(command.arguments)) {
                (Some(message), _) => self.stop_message(asked, conversation, message).await?,
                (None, Some(pressed)) => self.stop_begun(asked, conversation, pressed).await?,
                (None, None) => self.stop(asked, conversation).await?,
            },
            Verb::Retry => self.retry(asked, conversation).await?,
            Verb::Schedule => {
                let arguments = command.arguments;
                return Box::pin(self.schedule(arguments, asked, address, identity, conversation)).await;
            }
            Verb::Zone => self.own_zone(command.arguments, asked, identity).await?,
            Verb::Run => {
                let arguments = command.arguments;
                return Box::pin(self.run_pipeline(arguments, asked, address, identity, conversation)).await;
            }
            Verb::Runs => Box::pin(self.own_runs(command.arguments, asked, identity)).await?,
            Verb::Login => return Ok(self.log_in(asked, identity)),
            Verb::User => self.user_command(command.arguments, asked, identity).await?,
            Verb::Accept => {
                self.decide_messages(MessageConsent::Accepted, command.arguments, asked, identity)
                    .await?
            }
            Verb::Block => {
                self.decide_messages(MessageConsent::Blocked, command.arguments, asked, identity)
                    .await?
            }
        };
        Ok(self.posted(address, reply))
    }

    /// Returns the refusal to a person in the conversation of another; `None` if they may act there. An effect that was
    /// stored before the answer is reported as done.
    pub(super) async fn refusal_to_joined(
        &self,
        asked: &AcceptedCommand,
        identity: &Identity,
        conversation: ConversationId,
    ) -> anyhow::Result<Option<Reply>> {
        let store = &self.parts.store;
        let conversation = store.conversation(conversation).await?;
        let why = match self.parts.conversation_rights(identity, &conversation).await? {
            ConversationRights::Own | ConversationRights::Joined => return Ok(None),
            ConversationRights::Questions(change) => change.refusal(),
            ConversationRights::Nothing(why) => why,
        };
        Ok(match store.has_effect(asked.inbox).await? {
            true => None,
            false => Some(Reply::text(why)),
        })
    }
}

fn help(identity: &Identity) -> Reply {
    let known = command::ALL.iter();
    let rows = known
        .filter(|known| identity.is_admin() || !known.verb.is_for_administrators())
        .map(|known| (known.usage(), known.what.to_owned()))
        .collect();
    let admin = if identity.is_admin() {
        " You admit people with `user add`, or with an invite that `drydock invite` makes on the server."
    } else {
        ""
    };
    let offer = match identity.may_edit() {
        true => "Say what should change, and I prepare it: a summary, the diff, checks and a patch.",
        false => {
            "Ask about the files and environments, and look at what they render to and how they differ; you change nothing."
        }
    };
    // The newest platform is first.
    let forms = Platform::chats().rev().map(|chat| chat.command_form);
    let forms = forms.collect::<Vec<_>>().join(", ");
    let text = format!(
        "{offer} I never apply, commit or push.{admin}\n\
         A message while I work reaches me at my next step; one that begins with `queue:` waits for its own turn.\n\
         These are answered without a model, as {forms}, and `!word` in threads:"
    );
    Reply::text(text).with(ReplyPart::Facts { rows })
}
