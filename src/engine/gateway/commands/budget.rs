//! `budget`: what is used of the budgets, and more of them, allowed by an administrator.

use super::{AcceptedCommand, CommandAnswer, CommandRunner};
use crate::base::model::{
    BudgetScope, ConversationId, InboxId, Money, Reply, ReplyPart, Spending, group_thousands, quoted,
};
use crate::engine::gateway::compose::Address;
use crate::engine::gateway::turn::spending_text;
use crate::state::access::{AccessError, Identity};
use crate::state::store::{AllowOutcome, BudgetState, BudgetSubject};

const USAGE: &str = "Write `!budget` to see the budgets. An administrator allows more for today with \
                     `!budget allow NAME 5` in dollars, `!budget allow NAME 200000 tokens`, or for everybody with \
                     `!budget allow server 20`.";
/// The most that one allowance adds, in tokens. Sums of allowances stay far below what a column holds.
const TOKENS_ALLOWED_MAX: u64 = 1_000_000_000_000;
/// The most that one allowance adds, in dollars.
const DOLLARS_ALLOWED_MAX: u64 = 1_000_000;
/// The word that stands for the whole server in the place of a name.
const SERVER: &str = "server";

/// An additional amount that an administrator allows.
#[derive(Debug, PartialEq, Eq)]
enum AllowCommand<'a> {
    /// The amount of the request with this id.
    Request(&'a str),
    /// An amount for a person, or for the server.
    More { name: String, extra: Spending },
}

impl CommandRunner {
    pub(super) async fn budget_command(
        &self,
        arguments: &str,
        asked: &AcceptedCommand,
        address: &Address,
        identity: &Identity,
        conversation: ConversationId,
    ) -> anyhow::Result<CommandAnswer> {
        let Some(arguments) = arguments.trim().strip_prefix("allow") else {
            let reply = match arguments.trim().is_empty() {
                true => self.budgets(asked, identity, conversation).await?,
                false => Reply::text(USAGE),
            };
            return Ok(CommandAnswer::post(address, reply));
        };
        // An allowance that was stored before a crash is reported, even if the person is not an administrator any more.
        if !identity.is_admin() && !self.parts.store.has_effect(asked.inbox).await? {
            let text = "Only an administrator allows more.";
            return Ok(CommandAnswer::post(address, Reply::text(text)));
        }
        match parse(arguments) {
            Err(why) => Ok(CommandAnswer::post(address, Reply::text(why))),
            Ok(AllowCommand::Request(id)) => {
                self.allow_request(id, asked, address, identity, conversation)
                    .await
            }
            Ok(AllowCommand::More { name, extra }) => {
                let text = self
                    .allow_more(&name, extra, asked, identity, conversation)
                    .await?;
                Ok(CommandAnswer::post(address, Reply::text(text)))
            }
        }
    }

    /// Returns the budgets that concern a person here; those of the server for administrators only.
    async fn budgets(
        &self,
        asked: &AcceptedCommand,
        identity: &Identity,
        conversation: ConversationId,
    ) -> anyhow::Result<Reply> {
        let budgets = &self.parts.config.budgets.bounds;
        let mut bounds = vec![
            (BudgetScope::Conversation, budgets.conversation),
            (BudgetScope::PersonDay, budgets.person_day),
        ];
        if identity.is_admin() {
            bounds.push((BudgetScope::Day, budgets.day));
        }
        bounds.retain(|(_, bound)| bound.is_set());
        let subject = BudgetSubject {
            inbox: asked.inbox,
            conversation,
            user: Some(identity.user()),
        };
        let states = self
            .parts
            .store
            .budget_states(subject, bounds, (self.parts.now)())
            .await?;
        if states.is_empty() {
            return Ok(Reply::text("There is no budget for you here."));
        }
        Ok(Reply {
            parts: vec![ReplyPart::Facts {
                rows: states.iter().map(row).collect(),
            }],
        })
    }

    async fn allow_request(
        &self,
        id: &str,
        asked: &AcceptedCommand,
        address: &Address,
        identity: &Identity,
        conversation: ConversationId,
    ) -> anyhow::Result<CommandAnswer> {
        let (store, now) = (&self.parts.store, (self.parts.now)());
        let outcome = store.allow_request(id, asked.inbox, identity.name(), now).await?;
        let said = |text: &str| Ok(CommandAnswer::post(address, Reply::text(text)));
        let (scope, extra) = match outcome {
            AllowOutcome::More { scope, extra } => (scope, extra),
            AllowOutcome::Before => return said("More was allowed already."),
            AllowOutcome::Late => return said("That was for an earlier day; today has a budget of its own."),
            AllowOutcome::Unknown => return said("There is no such request any more."),
        };
        let text = format!(
            "{} allowed {} more {}. Press Retry or ask again, and I go on.",
            identity.name(),
            spending_text(extra),
            scope.period()
        );
        let mut ops = vec![address.post("answer", Reply::text(text.clone()))];
        let waiting = store.conversation(conversation).await?;
        // The person reads it in their own conversation, if the administrator pressed the button elsewhere. The
        // conversation of a hook has no channel.
        let is_chat = self.parts.config.channels.contains_key(&waiting.channel);
        if is_chat && (&waiting.channel, &waiting.key.place) != (&address.channel, &address.place) {
            let theirs = Address::for_conversation(&waiting, asked.inbox);
            ops.push(theirs.post("allowed", Reply::text(text)));
        }
        Ok(CommandAnswer::ops(ops))
    }

    async fn allow_more(
        &self,
        name: &str,
        extra: Spending,
        asked: &AcceptedCommand,
        identity: &Identity,
        conversation: ConversationId,
    ) -> anyhow::Result<String> {
        let (scope, user) = match name == SERVER {
            true => (BudgetScope::Day, None),
            false => match self.parts.access.user(name).await {
                Ok(user) => (BudgetScope::PersonDay, Some(user.id)),
                Err(AccessError::Store(error)) => return Err(error.into()),
                Err(error) => return Ok(format!("Nothing was allowed: {error}.")),
            },
        };
        let budgets = &self.parts.config.budgets.bounds;
        let bound = match scope {
            BudgetScope::Day => budgets.day,
            BudgetScope::Turn | BudgetScope::Conversation | BudgetScope::PersonDay => budgets.person_day,
        };
        let is_bounded = match extra.money {
            Money::ZERO => bound.tokens_max.is_some(),
            _ => bound.money_max.is_some(),
        };
        if !is_bounded {
            return Ok(format!(
                "Nothing was allowed: {} has no bound of that kind.",
                scope.words()
            ));
        }
        let subject = BudgetSubject {
            inbox: asked.inbox,
            conversation,
            user,
        };
        let by: (InboxId, &str) = (asked.inbox, identity.name());
        let (store, now) = (&self.parts.store, (self.parts.now)());
        store.allow_more(scope, subject, extra, by, now).await?;
        Ok(format!(
            "{} may spend {} more {}.",
            match scope {
                BudgetScope::Day => "This server".to_owned(),
                _ => quoted(name),
            },
            spending_text(extra),
            scope.period()
        ))
    }
}

/// Returns the row of a budget: `$1.20 of $5.00; 12,000 of 2,000,000 tokens`.
pub(super) fn row(state: &BudgetState) -> (String, String) {
    let money = state
        .bound
        .money_max
        .map(|max| format!("{} of {max}", state.spent.money));
    let tokens = state.bound.tokens_max.map(|max| {
        let (spent, max) = (group_thousands(state.spent.tokens), group_thousands(max));
        format!("{spent} of {max} tokens")
    });
    let label = match state.scope {
        BudgetScope::Turn => "This request",
        BudgetScope::Conversation => "This conversation",
        BudgetScope::PersonDay => "You, today",
        BudgetScope::Day => "This server, today",
    };
    let used: Vec<String> = money.into_iter().chain(tokens).collect();
    (label.to_owned(), used.join("; "))
}

/// Parses `#ID`, or `NAME AMOUNT [tokens]`.
fn parse(arguments: &str) -> Result<AllowCommand<'_>, String> {
    let words: Vec<&str> = arguments.split_whitespace().collect();
    if let [word] = words.as_slice()
        && let Some(id) = word.strip_prefix('#')
    {
        return Ok(AllowCommand::Request(id));
    }
    let (name, amount, is_tokens) = match words.as_slice() {
        [name @ .., amount, "tokens"] => (name, *amount, true),
        [name @ .., amount] => (name, *amount, false),
        [] => return Err(USAGE.to_owned()),
    };
    let amount = amount.trim_matches('`').replace([',', '_'], "");
    let extra = match is_tokens {
        true => amount.parse().ok().map(|tokens| Spending {
            tokens,
            money: Money::ZERO,
        }),
        false => {
            Money::parse_dollars(amount.trim_start_matches('$')).map(|money| Spending { tokens: 0, money })
        }
    };
    let most = Money::from_cents(DOLLARS_ALLOWED_MAX * 100);
    if extra.is_some_and(|extra| extra.tokens > TOKENS_ALLOWED_MAX || extra.money > most) {
        return Err(format!(
            "Nothing was allowed: the most at once is {most}, or {} tokens.",
            group_thousands(TOKENS_ALLOWED_MAX)
        ));
    }
    match extra.filter(|extra| *extra != Spending::default()) {
        Some(extra) if !name.is_empty() => Ok(AllowCommand::More {
            name: name.join(" ").trim_matches('`').to_owned(),
            extra,
        }),
        _ => Err(USAGE.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{AllowCommand, USAGE, parse};
    use crate::base::model::{Money, Spending};

    #[test]
    fn an_allowance_has_a_name_and_an_amount() {
        let more = |name: &str, tokens, cents| {
            Ok(AllowCommand::More {
                name: name.to_owned(),
                extra: Spending {
                    tokens,
                    money: Money::from_cents(cents),
                },
            })
        };
        assert_eq!(parse(" #4f"), Ok(AllowCommand::Request("4f")));
        assert_eq!(parse(" alice 5"), more("alice", 0, 500));
        assert_eq!(parse(" `Alice B` $2.50"), more("Alice B", 0, 250));
        assert_eq!(parse(" server 200,000 tokens"), more("server", 200_000, 0));
        for wrong in [
            "",
            " alice",
            " 5",
            " alice 0",
            " alice -1",
            " alice five",
            " alice 1e9",
            " tokens",
        ] {
            assert_eq!(parse(wrong), Err(USAGE.to_owned()), "{wrong}");
        }
        assert_eq!(parse(" a 1000000"), more("a", 0, 100_000_000));
        for much in [
            " a 1000000.01",
            " a 1000000000001 tokens",
            " a 18446744073709551615 tokens",
        ] {
            let why = "Nothing was allowed: the most at once is $1,000,000.00, or 1,000,000,000,000 tokens.";
            assert_eq!(parse(much), Err(why.to_owned()), "{much}");
        }
    }
}
