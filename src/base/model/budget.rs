//! Budgets: bounds of what model calls may cost. A call is reserved with the most that it may cost before it is made,
//! and replaced by its real cost afterwards.

use super::{ModelPrice, Money, Usage, group_thousands};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The most bytes in a thousand tokens of a request that are assumed. Most texts have three to four thousand; a provider
/// that counts more tokens lowers the number.
const BYTES_PER_1000_TOKENS_MAX: u64 = 2_000;

/// An amount of tokens, and what they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spending {
    /// The number of tokens.
    pub tokens: u64,
    /// Their cost; none for a model without known prices.
    pub money: Money,
}

impl std::ops::Add for Spending {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            money: self.money + other.money,
        }
    }
}

impl Spending {
    /// Returns the larger amount of tokens and of money.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.max(other.tokens),
            money: self.money.max(other.money),
        }
    }

    /// Returns the most that a call may cost: all of its request is new to the cache, and its answer has the full
    /// length. `bytes_per_1000_tokens` is what the provider last counted. Without known prices it costs no money.
    pub fn of_call_max(
        request_bytes: usize,
        bytes_per_1000_tokens: Option<u32>,
        answer_tokens_max: u32,
        price: Option<&ModelPrice>,
    ) -> Self {
        let per_1000 = bytes_per_1000_tokens.map_or(BYTES_PER_1000_TOKENS_MAX, u64::from);
        let per_1000 = per_1000.clamp(1, BYTES_PER_1000_TOKENS_MAX);
        let (request, output) = (
            (request_bytes as u64).saturating_mul(1_000).div_ceil(per_1000),
            u64::from(answer_tokens_max),
        );
        let input = Usage {
            input: request,
            output,
            ..Usage::default()
        };
        let cache_write = Usage {
            cache_write: request,
            output,
            ..Usage::default()
        };
        Self {
            tokens: request + output,
            money: price.map_or(Money::ZERO, |price| {
                price.cost(input).max(price.cost(cache_write))
            }),
        }
    }
}

/// The scope of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetScope {
    /// The work on one message.
    Turn,
    /// All turns of a conversation.
    Conversation,
    /// A day of a person, in UTC, with all of their accounts and conversations.
    PersonDay,
    /// A day of this server, in UTC.
    Day,
}

impl BudgetScope {
    /// Returns the words for the budget in a sentence about the person it concerns.
    pub fn words(self) -> &'static str {
        match self {
            Self::Turn => "the budget of one request",
            Self::Conversation => "the budget of this conversation",
            Self::PersonDay => "the budget of a person for one day",
            Self::Day => "the budget of this server for one day",
        }
    }

    /// Returns the words for the time for which more can be allowed.
    pub fn period(self) -> &'static str {
        match self {
            Self::Turn => "for this request",
            Self::Conversation => "for this conversation",
            Self::PersonDay | Self::Day => "for today",
        }
    }
}

/// The bounds of a scope. A bound that is `None` does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetBound {
    /// The number of tokens.
    pub tokens_max: Option<u64>,
    /// The amount of money.
    pub money_max: Option<Money>,
}

impl BudgetBound {
    /// Returns true if there is a bound.
    pub fn is_set(&self) -> bool {
        self.tokens_max.is_some() || self.money_max.is_some()
    }

    /// Returns true if an amount is within the bounds.
    pub fn allows(&self, spending: Spending) -> bool {
        self.tokens_max.is_none_or(|max| spending.tokens <= max)
            && self.money_max.is_none_or(|max| spending.money <= max)
    }

    /// Returns the bounds with this much more.
    #[must_use]
    pub fn raised(self, by: Spending) -> Self {
        Self {
            tokens_max: self.tokens_max.map(|max| max.saturating_add(by.tokens)),
            money_max: self.money_max.map(|max| max + by.money),
        }
    }

    /// Returns the tighter of both bounds.
    #[must_use]
    pub fn tightened(self, other: Self) -> Self {
        fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
            match (one, other) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            }
        }
        Self {
            tokens_max: least(self.tokens_max, other.tokens_max),
            money_max: least(self.money_max, other.money_max),
        }
    }
}

/// The budgets of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budgets {
    /// The work on one message.
    pub turn: BudgetBound,
    /// The work that nobody watches: on one event of a hook, or on one request of a script.
    pub unattended_turn: BudgetBound,
    /// All turns of a conversation.
    pub conversation: BudgetBound,
    /// A day of a person.
    pub person_day: BudgetBound,
    /// A day of this server.
    pub day: BudgetBound,
}

/// The presence of a person who waits for the result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attendance {
    /// A person sent the message.
    Attended,
    /// Nobody waits: an event of a hook or a script started the turn.
    Unattended,
}

impl Budgets {
    /// Returns the bound of the work on one message, event or request.
    pub fn turn_bound(&self, attendance: Attendance) -> BudgetBound {
        match attendance {
            Attendance::Attended => self.turn,
            Attendance::Unattended => self.unattended_turn.tightened(self.turn),
        }
    }

    /// Returns the bounds that a turn must keep, from the narrowest scope to the widest.
    pub fn of_turn(&self, attendance: Attendance) -> Vec<(BudgetScope, BudgetBound)> {
        let bounds = [
            (BudgetScope::Turn, self.turn_bound(attendance)),
            (BudgetScope::Conversation, self.conversation),
            (BudgetScope::PersonDay, self.person_day),
            (BudgetScope::Day, self.day),
        ];
        bounds.into_iter().filter(|(_, bound)| bound.is_set()).collect()
    }
}

/// A model call that a budget does not cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetRefusal {
    /// The budget.
    pub scope: BudgetScope,
    /// The amount that was spent or reserved before.
    pub spent: Spending,
    /// The most that the call may cost.
    pub call: Spending,
    /// The bound of tokens, with what was allowed in addition.
    pub tokens_max: Option<u64>,
    /// The bound of money, with what was allowed in addition.
    pub money_max: Option<Money>,
}

impl BudgetRefusal {
    /// Returns the refusal of a call, if the bound does not cover it.
    pub fn check(scope: BudgetScope, bound: BudgetBound, spent: Spending, call: Spending) -> Option<Self> {
        (!bound.allows(spent + call)).then_some(Self {
            scope,
            spent,
            call,
            tokens_max: bound.tokens_max,
            money_max: bound.money_max,
        })
    }

    /// Returns how much more an administrator is asked to allow: half of the bound, and at least what the call needs.
    pub fn extra(&self) -> Spending {
        let total = self.spent + self.call;
        let tokens = self
            .tokens_max
            .map_or(0, |max| (max / 2).max(total.tokens.saturating_sub(max)));
        let money = self.money_max.map_or(Money::ZERO, |max| {
            let half = Money::from_nano_dollars(max.nano_dollars() / 2);
            half.max(total.money.saturating_sub(max)).in_whole_cents()
        });
        Spending { tokens, money }
    }
}

/// A budget that is nearly used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetWarning {
    scope: BudgetScope,
    spent: Spending,
    bound: BudgetBound,
}

/// The part of the budget of one request, in percent, from which on it is nearly used.
const NEARLY_USED_PERCENT: u64 = 80;

impl BudgetWarning {
    /// Returns a warning before a call if the bound does not cover the next two calls of the same size after it. The
    /// budget of one request is nearly used from 80 % on as well; the others are shared by much work.
    pub fn check(scope: BudgetScope, bound: BudgetBound, spent: Spending, call: Spending) -> Option<Self> {
        let part = |max: u64| max / 100 * NEARLY_USED_PERCENT;
        let is_part_used = scope == BudgetScope::Turn
            && (bound.tokens_max.is_some_and(|max| spent.tokens >= part(max))
                || bound
                    .money_max
                    .is_some_and(|max| spent.money.nano_dollars() >= part(max.nano_dollars())));
        let is_short = !bound.allows(spent + call + call + call);
        (is_part_used || is_short).then_some(Self { scope, spent, bound })
    }

    /// Returns the scope of the budget.
    pub fn scope(&self) -> BudgetScope {
        self.scope
    }
}

/// Says to the model which budget is nearly used.
impl fmt::Display for BudgetWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.scope.words();
        let money = self
            .bound
            .money_max
            .map(|max| format!("{} of {max}", self.spent.money));
        let tokens = self.bound.tokens_max.map(|max| {
            let spent = group_thousands(self.spent.tokens);
            format!("{spent} of {} tokens", group_thousands(max))
        });
        let used: Vec<String> = money.into_iter().chain(tokens).collect();
        write!(
            f,
            "Of {words}, {} are used. The work ends without an answer when the rest does not cover a call. Come to an end.",
            used.join(" and ")
        )
    }
}

/// Says which budget ends the work, how much of it is used, and what the next call may cost.
impl fmt::Display for BudgetRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.spent + self.call;
        let words = self.scope.words();
        let end = match self.scope {
            BudgetScope::Turn | BudgetScope::Conversation => "",
            BudgetScope::PersonDay | BudgetScope::Day => "; the day ends at 00:00 UTC",
        };
        if let Some(max) = self.money_max.filter(|max| total.money > *max) {
            return write!(
                f,
                "{words} is {max}; {} of it is used, and the next model call may cost up to {}{end}",
                self.spent.money, self.call.money
            );
        }
        write!(
            f,
            "{words} is {} tokens; {} of them are used, and the next model call may take up to {}{end}",
            group_thousands(self.tokens_max.unwrap_or_default()),
            group_thousands(self.spent.tokens),
            group_thousands(self.call.tokens)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{Attendance, BudgetBound, BudgetRefusal, BudgetScope, BudgetWarning, Budgets, Spending};
    use crate::base::model::Money;

    fn spending(tokens: u64, cents: u64) -> Spending {
        Spending {
            tokens,
            money: Money::from_cents(cents),
        }
    }

    fn bound(tokens: Option<u64>, cents: Option<u64>) -> BudgetBound {
        BudgetBound {
            tokens_max: tokens,
            money_max: cents.map(Money::from_cents),
        }
    }

    #[test]
    fn a_budget_is_nearly_used_if_two_more_calls_do_not_fit_and_that_of_a_request_from_80_percent_on() {
        let warning = |scope, bound, spent, call| {
            BudgetWarning::check(scope, bound, spent, call).map(|warning| warning.to_string())
        };
        let (dollar, call) = (bound(None, Some(100)), spending(10, 10));
        let used = "Of the budget of one request, $0.7100 of $1.00 are used. The work ends without an answer when the \
                    rest does not cover a call. Come to an end.";
        assert_eq!(warning(BudgetScope::Turn, dollar, spending(0, 70), call), None);
        assert_eq!(
            warning(BudgetScope::Turn, dollar, spending(0, 71), call),
            Some(used.to_owned())
        );
        let tiny = spending(1, 1);
        assert_eq!(warning(BudgetScope::Turn, dollar, spending(0, 79), tiny), None);
        assert!(warning(BudgetScope::Turn, dollar, spending(0, 80), tiny).is_some());
        assert_eq!(warning(BudgetScope::Day, dollar, spending(0, 80), tiny), None);
        let tokens = "Of the budget of this server for one day, 971 of 1,000 tokens are used.";
        let warned = warning(BudgetScope::Day, bound(Some(1_000), None), spending(971, 0), call);
        assert!(
            warned.as_deref().unwrap_or_default().starts_with(tokens),
            "{warned:?}"
        );
    }

    #[test]
    fn a_call_is_refused_if_the_most_it_may_cost_does_not_fit() {
        let check = |bound, spent| {
            BudgetRefusal::check(BudgetScope::PersonDay, bound, spent, spending(100, 6))
                .map(|refusal| (refusal.to_string(), refusal.extra()))
        };
        assert_eq!(check(bound(None, Some(500)), spending(9_000, 494)), None);
        let over_money = "the budget of a person for one day is $5.00; $4.95 of it is used, and the next model call \
                          may cost up to $0.0600; the day ends at 00:00 UTC";
        assert_eq!(
            check(bound(None, Some(500)), spending(9_000, 495)),
            Some((over_money.to_owned(), spending(0, 250)))
        );
        let over_tokens = "the budget of a person for one day is 1,000 tokens; 901 of them are used, and the next \
                           model call may take up to 100; the day ends at 00:00 UTC";
        assert_eq!(
            check(bound(Some(1_000), Some(500)), spending(901, 0)),
            Some((over_tokens.to_owned(), spending(500, 250)))
        );
        // Half of a bound that is smaller than one call would not help.
        let small = check(bound(Some(10), None), spending(0, 0)).map(|(_, extra)| extra);
        assert_eq!(small, Some(spending(90, 0)));
    }

    #[test]
    fn a_request_is_estimated_with_the_more_tokens_of_assumption_and_measurement() {
        let tokens = |measured| Spending::of_call_max(3_000, measured, 100, None).tokens;
        assert_eq!(tokens(None), 1_600);
        // Texts with few bytes per token, such as numbers.
        assert_eq!(tokens(Some(1_500)), 2_100);
        assert_eq!(tokens(Some(4_000)), 1_600);
        assert_eq!(tokens(Some(0)), 3_000_100);
    }

    #[test]
    fn an_unattended_turn_has_the_tighter_bounds() {
        let budgets = Budgets {
            turn: bound(Some(1_000), None),
            unattended_turn: bound(Some(2_000), Some(50)),
            day: bound(None, Some(900)),
            ..Budgets::default()
        };
        let attended = vec![
            (BudgetScope::Turn, bound(Some(1_000), None)),
            (BudgetScope::Day, bound(None, Some(900))),
        ];
        assert_eq!(budgets.of_turn(Attendance::Attended), attended);
        let unattended = vec![
            (BudgetScope::Turn, bound(Some(1_000), Some(50))),
            (BudgetScope::Day, bound(None, Some(900))),
        ];
        assert_eq!(budgets.of_turn(Attendance::Unattended), unattended);
    }
}
