//! Rate limits of Discord. It publishes 50 calls a second in all, and sends the limit of each route with its answers.
//! Five messages in five seconds are what it allows in a channel; a 429 states the wait. See
//! <https://docs.discord.com/developers/topics/rate-limits>.

use super::message_channel;
use crate::base::model::{Action, Op, Receipt};
use crate::interfaces::channel::{CallPurpose, Limit, Scope};
use std::time::Duration;

/// Returns the limits of one call. The first is the one that a 429 refers to.
pub(super) fn limits(op: &Op, call: CallPurpose) -> Vec<Limit> {
    if call == CallPurpose::Find {
        return calls("messages");
    }
    match &op.action {
        Action::Post { .. } | Action::Stream { .. } => messages(message_channel(&op.place)),
        Action::AskForWords { .. } | Action::Upload { .. } => messages(message_channel(&op.place)),
        Action::Draft { .. } | Action::ShowWork { .. } => Vec::new(),
        Action::Edit { message, .. } | Action::Progress { message, .. } => messages(&message.chat),
        Action::Fill { .. } => messages(message_channel(&op.place)),
        Action::ShowHome { .. } | Action::ShowDiff { .. } | Action::CloseDiff { .. } => Vec::new(),
        Action::Respond { .. } => Vec::new(),
        // These are not bound to the limits of the bot.
        Action::Notice { .. } | Action::AnswerClick { .. } if op.response_url.is_some() => {
            vec![Limit::new(
                Scope::Method("followups"),
                5,
                Duration::from_millis(500),
            )]
        }
        Action::Notice { to, .. } | Action::AnswerClick { to, .. } => messages(&to.id),
        Action::React {
            receipt: Receipt::Started,
            ..
        }
        | Action::React { .. } => {
            vec![
                Limit::new(Scope::Method("reactions"), 1, Duration::from_millis(300)),
                account(),
            ]
        }
    }
}

fn messages(channel: &str) -> Vec<Limit> {
    let scope = Scope::Chat(channel.to_owned());
    vec![Limit::new(scope, 4, Duration::from_millis(1_050)), account()]
}

fn calls(method: &'static str) -> Vec<Limit> {
    vec![
        Limit::new(Scope::Method(method), 5, Duration::from_millis(1_000)),
        account(),
    ]
}

fn account() -> Limit {
    Limit::new(Scope::Account, 10, Duration::from_millis(25))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::limits;
    use crate::base::model::{Account, Action, ChatPlace, Op, Platform, Reply};
    use crate::interfaces::channel::{CallPurpose, Scope};
    use std::time::Duration;

    /// R17
    #[test]
    fn the_send_rate_stays_below_the_limits_of_discord() {
        let op = Op {
            id: "inbox-1/result".to_owned(),
            channel: "discord".to_owned(),
            place: ChatPlace {
                account: Account {
                    platform: Platform::Discord,
                    id: "1".to_owned(),
                },
                chat: "2".to_owned(),
                thread: Some("3".to_owned()),
            },
            action: Action::Post {
                reply: Reply::text("x"),
                reply_to: None,
                placeholder: false,
            },
            response_url: None,
        };
        let limits = limits(&op, CallPurpose::Deliver);
        let most_in = |scope: &Scope, seconds: u64| {
            let limit = limits.iter().find(|limit| limit.scope == *scope).unwrap();
            u128::from(limit.burst) + Duration::from_secs(seconds).as_millis() / limit.every.as_millis()
        };
        assert!(most_in(&Scope::Account, 1) <= 50);
        assert!(most_in(&Scope::Chat("3".to_owned()), 5) <= 8);
    }
}
