//! How often Telegram may be called. It publishes figures for messages only, and answers 429 for the chat that
//! has too many. See <https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this>.

use super::private_place;
use crate::channel::{Limit, Scope};
use crate::model::{Action, Op};
use std::time::Duration;

/// The limits of one call. The first is the one a 429 is about.
pub(super) fn limits(op: &Op) -> Vec<Limit> {
    match &op.action {
        Action::Post { .. } | Action::Upload { .. } => messages(&op.place.chat),
        Action::Notice { to, .. }
        | Action::AnswerClick {
            to, callback: None, ..
        } => messages(&private_place(&op.place, &to.id).chat),
        Action::Edit { message, .. } => edits(&message.chat),
        Action::Fill { .. } => edits(&op.place.chat),
        Action::React { .. } => calls("setMessageReaction"),
        Action::AnswerClick {
            callback: Some(_), ..
        } => calls("answerCallbackQuery"),
    }
}

/// One message a second in a chat, with short bursts, 20 a minute in a group, and about 30 a second in all.
fn messages(chat: &str) -> Vec<Limit> {
    let scope = Scope::Chat(chat.to_owned());
    let of_chat = match is_group(chat) {
        true => Limit::new(scope, 4, Duration::from_millis(3_750)),
        false => Limit::new(scope, 3, Duration::from_millis(1_050)),
    };
    vec![of_chat, account()]
}

/// Nothing is published of edits: they may be as many as messages, and are counted apart.
fn edits(chat: &str) -> Vec<Limit> {
    let scope = Scope::Edits(chat.to_owned());
    let of_chat = match is_group(chat) {
        true => Limit::new(scope, 10, Duration::from_millis(3_000)),
        false => Limit::new(scope, 10, Duration::from_millis(1_050)),
    };
    vec![of_chat, account()]
}

fn calls(method: &'static str) -> Vec<Limit> {
    vec![
        Limit::new(Scope::Method(method), 30, Duration::from_millis(50)),
        account(),
    ]
}

fn account() -> Limit {
    Limit::new(Scope::Account, 25, Duration::from_millis(40))
}

fn is_group(chat: &str) -> bool {
    chat.starts_with('-')
}
