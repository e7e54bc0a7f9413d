//! A press of a button that counts, and the answers to it.

use super::{AcceptedCommand, CommandAnswer};
use crate::base::model::{Action, ConversationId, InboundKind, Op, Reply};
use crate::engine::gateway::compose::Address;
use crate::state::access::Identity;

/// A press that counts, by a person who may use Drydock.
#[derive(Clone, Copy)]
pub(super) struct CountedPress<'a> {
    pub(super) asked: &'a AcceptedCommand,
    pub(super) address: &'a Address,
    pub(super) identity: &'a Identity,
    pub(super) conversation: ConversationId,
    /// The subject of the button, such as the name of a change and its revision.
    pub(super) argument: &'a str,
}

impl CountedPress<'_> {
    /// Returns an answer that only the person sees.
    pub(super) fn said(self, text: impl Into<String>) -> CommandAnswer {
        CommandAnswer::ops(vec![receipt(self.asked, self.address, text.into())])
    }

    /// Returns the answer in the place of the message with the button, which has no buttons then.
    pub(super) fn in_place(self, reply: Reply) -> Op {
        match &self.asked.inbound.message {
            Some(message) => {
                let message = message.clone();
                self.address.op("answer", Action::Edit { message, reply })
            }
            None => self.address.post("answer", reply),
        }
    }

    /// Returns the answer in the place of the message with the button, and what the platform waits for.
    pub(super) fn replaced(self, reply: Reply) -> CommandAnswer {
        let awaited = awaited_receipt(self.asked, self.address);
        CommandAnswer::ops(awaited.into_iter().chain([self.in_place(reply)]).collect())
    }
}

/// Returns the text that only the person who pressed sees.
pub(super) fn receipt(asked: &AcceptedCommand, address: &Address, text: String) -> Op {
    let inbound = &asked.inbound;
    let callback = match &inbound.kind {
        InboundKind::Click { callback, .. } => callback.clone(),
        _ => None,
    };
    let action = Action::AnswerClick {
        callback,
        to: inbound.sender.clone(),
        text,
    };
    Op {
        place: inbound.private_place(),
        ..address.op("click", action)
    }
}

/// Returns the empty answer to a press for which the platform waits; `None` if it waits for none.
pub(super) fn awaited_receipt(asked: &AcceptedCommand, address: &Address) -> Option<Op> {
    match &asked.inbound.kind {
        InboundKind::Click {
            callback: Some(_), ..
        } => Some(receipt(asked, address, String::new())),
        _ => None,
    }
}
