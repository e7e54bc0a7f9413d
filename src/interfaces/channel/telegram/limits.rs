//! Rate limits of Telegram. It publishes figures for messages only, and answers 429 for the chat with too many
//! messages. See <https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this>.

use super::private_place;
use crate::base::model::{Action, Op};
use crate::interfaces::channel::{CallPurpose, Limit, Scope};
use std::time::Duration;

/// Returns the limits of one call. The first is the one that a 429 refers to. A lookup makes no calls to Telegram.
pub(super) fn limits(op: &Op, call: CallPurpose) -> Vec<Limit> {
    if call == CallPurpose::Find {
        return Vec::new();
    }
    match &op.action {
        Action::Post { .. } | Action::Stream { .. } => messages(&op.place.chat),
        Action::AskForWords { .. } | Action::Upload { .. } => messages(&op.place.chat),
        // An ephemeral answer is a message of the group.
        Action::Notice { .. } if op.response_url.is_some() => messages(&op.place.chat),
        Action::Notice { to, .. }
        | Action::AnswerClick {
            to, callback: None, ..
        } => messages(&private_place(&op.place, &to.id).chat),
        Action::Edit { message, .. } | Action::Progress { message, .. } => messages(&message.chat),
        Action::Fill { .. } => messages(&op.place.chat),
        // No operation shows work in Telegram.
        Action::React { .. } | Action::ShowWork { .. } => calls("setMessageReaction"),
        Action::Draft { .. } => calls("sendMessageDraft"),
        Action::ShowHome { .. } | Action::ShowDiff { .. } | Action::CloseDiff { .. } => Vec::new(),
        Action::Respond { .. } => Vec::new(),
        Action::AnswerClick {
            callback: Some(_), ..
        } => calls("answerCallbackQuery"),
    }
}

/// Returns the limits of messages: one a second in a chat, with short bursts, 20 a minute in a group, and about 30 a
/// second in all. Edits count like messages: see <https://github.com/tdlib/td/issues/2592>.
fn messages(chat: &str) -> Vec<Limit> {
    let scope = Scope::Chat(chat.to_owned());
    let of_chat = match is_group(chat) {
        true => Limit::new(scope, 4, Duration::from_millis(3_750)),
        false => Limit::new(scope, 3, Duration::from_millis(1_050)),
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
    Limit::new(Scope::Account, 5, Duration::from_millis(40))
}

fn is_group(chat: &str) -> bool {
    chat.starts_with('-')
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::limits;
    use crate::base::model::{Account, Action, ChatPlace, MessageRef, Op, Platform, Reply};
    use crate::interfaces::channel::{CallPurpose, Limit, Scope};
    use std::time::Duration;

    fn op(chat: &str, action: Action) -> Op {
        Op {
            id: "inbox-1/result".to_owned(),
            channel: "telegram".to_owned(),
            place: ChatPlace {
                account: Account {
                    platform: Platform::Telegram,
                    id: "42".to_owned(),
                },
                chat: chat.to_owned(),
                thread: None,
            },
            action,
            response_url: None,
        }
    }

    fn post(chat: &str) -> Op {
        let action = Action::Post {
            reply: Reply::text("x"),
            reply_to: None,
            placeholder: false,
        };
        op(chat, action)
    }

    fn edit(chat: &str) -> Op {
        let message = MessageRef {
            chat: chat.to_owned(),
            id: "1".to_owned(),
        };
        let reply = Reply::text("x");
        op(chat, Action::Edit { message, reply })
    }

    /// Returns the highest number of calls in any period of this length.
    fn most_in(limits: &[Limit], scope: &Scope, seconds: u64) -> u128 {
        let limit = limits.iter().find(|limit| limit.scope == *scope).unwrap();
        let window = Duration::from_secs(seconds).as_nanos();
        u128::from(limit.burst) + window / limit.every.as_nanos()
    }

    /// R17
    #[test]
    fn the_send_rate_stays_just_below_the_limits_of_telegram() {
        let (group, private) = (post("-100"), post("7001"));
        let of = |chat: &str| Scope::Chat(chat.to_owned());
        let most = [
            most_in(&limits(&group, CallPurpose::Deliver), &of("-100"), 60),
            most_in(&limits(&private, CallPurpose::Deliver), &of("7001"), 60),
            most_in(&limits(&private, CallPurpose::Deliver), &Scope::Account, 1),
        ];
        assert_eq!(most, [20, 60, 30]);
        // Edits count against the same limits.
        for (edit, post) in [(edit("-100"), group), (edit("7001"), private)] {
            assert_eq!(
                limits(&edit, CallPurpose::Deliver),
                limits(&post, CallPurpose::Deliver)
            );
            assert_eq!(limits(&post, CallPurpose::Find), []);
        }
    }
}
