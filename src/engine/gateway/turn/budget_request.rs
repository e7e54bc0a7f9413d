//! The request to administrators to allow more, when a budget has ended a turn.

use super::{ClaimedMessage, OpenedTurn, TurnRunner};
use crate::base::model::{
    BudgetRefusal, BudgetScope, Button, ButtonStyle, Money, Op, Reply, ReplyPart, Sender, Spending,
    group_thousands,
};
use crate::engine::gateway::compose::Address;
use crate::state::store::{ActionOwner, BudgetRequest, BudgetSubject, NewAction};

/// A request with the message that shows it.
#[derive(Clone)]
pub(super) struct BudgetQuestion {
    pub(super) request: BudgetRequest,
    pub(super) action: NewAction,
    pub(super) op: Op,
}

impl TurnRunner {
    /// Composes the request to allow more. More of the budget of one request is not asked for: the next request has its
    /// own.
    pub(super) fn budget_question(
        &self,
        assigned: &ClaimedMessage,
        opened: &OpenedTurn,
        address: &Address,
        (subject, refusal): (BudgetSubject, BudgetRefusal),
    ) -> Option<BudgetQuestion> {
        if refusal.scope == BudgetScope::Turn {
            return None;
        }
        let id = hex::encode(&(self.parts.random)()[..8]);
        let (token, action) = self.button("budget", format!("allow #{id}"), opened);
        let action = NewAction {
            owner: ActionOwner::ADMINISTRATORS,
            ..action
        };
        let label = format!(
            "Allow {} more {}",
            spending_text(refusal.extra()),
            refusal.scope.period()
        );
        let button = Button::new(label, token, ButtonStyle::Primary);
        let who = match subject.user {
            Some(_) => opened.identity.name().to_owned(),
            None => {
                let Sender { platform, id, .. } = &assigned.inbound().sender;
                format!("The {} `{id}`", platform.as_str())
            }
        };
        let text = format!("{who} needs an administrator: {refusal}.");
        let reply = Reply::text(text).with(ReplyPart::Buttons {
            buttons: vec![button],
        });
        Some(BudgetQuestion {
            request: BudgetRequest { id, subject, refusal },
            action,
            op: self.administrators(address).post("budget", reply),
        })
    }

    /// Returns where administrators are asked: the configured chat, or else the chat of the message.
    fn administrators(&self, address: &Address) -> Address {
        let Some(ask_in) = &self.parts.config.budgets.ask_in else {
            return Address {
                reply_to: None,
                mention: None,
                ephemeral_to: None,
                response_url: None,
                ..address.clone()
            };
        };
        let mut place = address.place.clone();
        if let Some(connected) = self.outgoing.channel(&ask_in.channel) {
            place.account = connected.installation().account.clone();
        }
        place.chat.clone_from(&ask_in.chat);
        place.thread = None;
        Address {
            channel: ask_in.channel.clone(),
            place,
            reply_to: None,
            mention: None,
            ephemeral_to: None,
            response_url: None,
            prefix: address.prefix.clone(),
        }
    }
}

/// Returns an additional amount in words: `$2.50`, `500,000 tokens`, or both.
pub(in crate::engine::gateway) fn spending_text(extra: Spending) -> String {
    let tokens = format!("{} tokens", group_thousands(extra.tokens));
    match (extra.money, extra.tokens) {
        (Money::ZERO, _) => tokens,
        (money, 0) => money.to_string(),
        (money, _) => format!("{money} and {tokens}"),
    }
}
