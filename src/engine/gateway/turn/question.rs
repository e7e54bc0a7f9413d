//! The message with which a turn asks its person, and the answers that the person types. The message has a button for each
//! choice; each works once and belongs to the person.

use super::answer::new_button;
use super::opening_text::{cut, quote_block};
use super::sent_files::{unread_files, unread_note};
use super::{ClaimedMessage, OpenedTurn, TurnRunner, WaitingGuards};
use crate::base::model::{
    Action, AskedQuestion, ConversationId, Inbound, InboundKind, InboxId, Reply, TurnId, WorkStatus,
};
use crate::base::redact::Redactor;
use crate::engine::agent::QuestionRecord;
use crate::engine::gateway::active_turns::TurnHandle;
use crate::engine::gateway::compose::Address;
use crate::engine::gateway::parts::Parts;
use crate::state::access::Identity;
use crate::state::store::{NewQuestion, QuestionPlace, TypedAnswer};
use crate::state::workspace::SecretGuard;
use std::sync::Arc;
use tokio::time::Instant;

/// The verb of the buttons of a question. It is no command that people can type.
pub(in crate::engine::gateway) const ANSWER_VERB: &str = "choose";

/// Composes the questions of one turn.
pub(super) struct QuestionComposer {
    parts: Arc<Parts>,
    identity: Identity,
    conversation: ConversationId,
    inbox: InboxId,
    address: Address,
    /// True if the channel can look up sent posts.
    can_find_posts: bool,
    began: Instant,
    guard: SecretGuard,
    waiting_guards: Arc<WaitingGuards>,
}

impl TurnRunner {
    pub(super) fn question_composer(
        &self,
        assigned: &ClaimedMessage,
        opened: &OpenedTurn,
    ) -> QuestionComposer {
        let address = self.address(assigned);
        QuestionComposer {
            parts: Arc::clone(&self.parts),
            identity: opened.identity.clone(),
            conversation: opened.conversation.id,
            inbox: assigned.work.inbox,
            can_find_posts: self.outgoing.can_find(&address),
            address,
            began: opened.began,
            guard: opened.workspace.guard.clone(),
            waiting_guards: Arc::clone(&self.waiting_guards),
        }
    }

    /// Reads a message as the answer to the question that its conversation waits for, without the secrets of the turn that
    /// asked; `None` if it is no text.
    pub(in crate::engine::gateway) fn typed_answer(
        &self,
        id: ConversationId,
        question: &AskedQuestion,
        inbound: &Inbound,
    ) -> Option<TypedAnswer> {
        let InboundKind::Text { text, quoted, .. } = &inbound.kind else {
            return None;
        };
        let guard = self.waiting_guards.get(id);
        let redactor = guard
            .as_ref()
            .map_or(&self.parts.redactor, |guard| &guard.redactor);
        let chars_max = self.parts.config.limits.inbound_text_chars_max;
        // A reply to the question itself quotes what the model has asked.
        let quoted = quoted.as_ref().filter(|quoted| !quoted.contains(question.text()));
        let quoted = quoted.map(|quoted| quote_block(&cut(quoted, chars_max, redactor)));
        let beside: Vec<String> = unread_note(&unread_files(inbound))
            .into_iter()
            .chain(quoted)
            .collect();
        Some(TypedAnswer {
            answer: question.read(&redactor.redact(text)),
            beside: (!beside.is_empty()).then(|| beside.join("\n\n")),
        })
    }

    /// Shows on the card of a turn, if it has one, that the turn waits for an answer.
    pub(super) async fn show_waiting_card(
        &self,
        address: &Address,
        handle: &TurnHandle,
        redactor: &Redactor,
    ) -> anyhow::Result<()> {
        handle.card.send_modify(|card| card.set_asking());
        let reply = handle.card.borrow().reply(redactor);
        let number = hex::encode(&(self.parts.random)()[..4]);
        let id = format!("card/asks-{number}");
        // It may have been shown after the question was stored that work goes on.
        let waits = address.work(&format!("work/waits-{number}"), WorkStatus::Waiting, None);
        let fill = Action::Fill {
            post: address.id("card"),
            reply,
        };
        let (store, now) = (&self.parts.store, (self.parts.now)());
        let ops = std::iter::once(address.op(&id, fill)).chain(waits);
        store.enqueue(ops.collect(), now).await?;
        self.outgoing.wake();
        Ok(())
    }
}

impl QuestionComposer {
    /// Composes a question. The id of its message comes from the turn, because each turn asks anew. From now on an answer
    /// is read without the secrets of the turn.
    pub(super) fn compose(
        &self,
        turn: TurnId,
        asked: QuestionRecord<'_>,
        known: Option<InboxId>,
    ) -> NewQuestion {
        self.waiting_guards.keep(self.conversation, self.guard.clone());
        let name = format!("question-{turn}-{}", asked.number);
        let post = self.address.id(&name);
        let choices = 0..asked.question.choices().len();
        let buttons = choices.map(|choice| {
            let argument = format!("{choice} {post}");
            new_button(
                &self.parts,
                (ANSWER_VERB, argument),
                &self.identity,
                self.conversation,
            )
        });
        let (tokens, actions) = buttons.unzip();
        let reply = asked.question.reply(self.address.mention.as_ref(), tokens);
        let mut ops = match self.can_find_posts {
            true => vec![self.address.post(&name, reply)],
            false => {
                let fill = Action::Fill {
                    post: post.clone(),
                    reply,
                };
                let line = Reply::text("I need your decision.");
                vec![
                    self.address.placeholder(&name, line),
                    self.address.op(&format!("{name}/fill"), fill),
                ]
            }
        };
        ops.extend(
            self.address
                .work(&format!("{name}/waits"), WorkStatus::Waiting, None),
        );
        NewQuestion {
            question: asked.question.clone(),
            user: self.identity.user(),
            call: asked.call.to_owned(),
            shown: QuestionPlace {
                post,
                channel: self.address.channel.clone(),
                place: self.address.place.clone(),
            },
            ops,
            actions,
            ran: self.began.elapsed(),
            known: known.unwrap_or(self.inbox),
        }
    }
}
