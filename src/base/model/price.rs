//! Prices of a model, and the cost of a call.

use super::{Money, Usage};
use jiff::civil::Date;

/// The largest price of a million tokens, in dollars.
const DOLLARS_MAX: u64 = 10_000;

/// The number of decimals of a price.
const DECIMALS: usize = 6;

const UNITS_PER_DOLLAR: u64 = 1_000_000;

/// The price of a kind of tokens, stored in millionths of a dollar per million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenPrice(u64);

impl TokenPrice {
    /// Parses dollars per million tokens: `2.5`. `None` if it is no number from 0 to 10,000 with at most six decimals.
    pub fn parse(text: &str) -> Option<Self> {
        let (dollars, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_digits(dollars) || !is_digits(decimals) || decimals.len() > DECIMALS {
            return None;
        }
        let dollars: u64 = dollars.parse().ok().filter(|dollars| *dollars <= DOLLARS_MAX)?;
        let decimals: u64 = format!("{decimals:0<DECIMALS$}").parse().ok()?;
        let units = dollars * UNITS_PER_DOLLAR + decimals;
        (units <= DOLLARS_MAX * UNITS_PER_DOLLAR).then_some(Self(units))
    }

    /// Returns the price of a million tokens.
    pub fn of_a_million(self) -> Money {
        Money::from_nano_dollars(self.0.saturating_mul(1_000))
    }

    /// Returns the price of some tokens in millionths of a millionth of a dollar.
    fn of(self, tokens: u64) -> u128 {
        u128::from(self.0) * u128::from(tokens)
    }
}

/// The prices of each kind of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenPrices {
    /// Input tokens neither read from nor written to the cache.
    pub input: TokenPrice,
    /// Output tokens.
    pub output: TokenPrice,
    /// Input tokens read from the cache; without it, they cost as much as other input.
    pub cache_read: Option<TokenPrice>,
    /// Input tokens written to the cache; without it, they cost as much as other input.
    pub cache_write: Option<TokenPrice>,
}

/// The prices of a request with a long prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongPromptPrices {
    /// The number of input tokens above which these prices apply, to all tokens of the request.
    pub above_tokens: u64,
    /// The prices.
    pub prices: TokenPrices,
}

/// The prices of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelPrice {
    /// The prices.
    pub prices: TokenPrices,
    /// The prices of long prompts, if they differ.
    pub long_prompt: Option<LongPromptPrices>,
    /// The date of the price list; none for prices of the operator.
    pub as_of: Option<Date>,
}

impl ModelPrice {
    /// Returns the cost of a call, rounded up.
    pub fn cost(&self, usage: Usage) -> Money {
        let prompt = usage
            .input
            .saturating_add(usage.cache_read)
            .saturating_add(usage.cache_write);
        let prices = match self.long_prompt {
            Some(long) if prompt > long.above_tokens => long.prices,
            Some(_) | None => self.prices,
        };
        let parts = [
            prices.input.of(usage.input),
            prices.output.of(usage.output),
            prices.cache_read.unwrap_or(prices.input).of(usage.cache_read),
            prices.cache_write.unwrap_or(prices.input).of(usage.cache_write),
        ];
        let sum = parts.into_iter().fold(0_u128, u128::saturating_add);
        Money::from_nano_dollars(u64::try_from(sum.div_ceil(1_000)).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{LongPromptPrices, ModelPrice, TokenPrice, TokenPrices};
    use crate::base::model::{Money, Usage};

    fn prices(input: &str, output: &str, cache: Option<&str>) -> TokenPrices {
        TokenPrices {
            input: TokenPrice::parse(input).unwrap(),
            output: TokenPrice::parse(output).unwrap(),
            cache_read: cache.map(|cache| TokenPrice::parse(cache).unwrap()),
            cache_write: None,
        }
    }

    fn usage(input: u64, output: u64, cache_read: u64, cache_write: u64) -> Usage {
        Usage {
            input,
            output,
            cache_read,
            cache_write,
        }
    }

    #[test]
    fn a_price_has_bounds_and_at_most_six_decimals() {
        let nano = |text: &str| Some(TokenPrice::parse(text)?.of_a_million().nano_dollars());
        assert_eq!(nano("2.5"), Some(2_500_000_000));
        assert_eq!(nano("0.000001"), Some(1_000));
        assert_eq!(nano("10000"), Some(10_000_000_000_000));
        for refused in [
            "",
            ".",
            "1.",
            ".5",
            "-1",
            "+1",
            "1e3",
            "nan",
            "0.0000001",
            "10000.1",
            "10001",
            "1,5",
        ] {
            assert_eq!(nano(refused), None, "{refused}");
        }
    }

    #[test]
    fn the_cost_of_a_call_is_the_sum_of_its_parts_rounded_up() {
        let price = ModelPrice {
            prices: prices("2.5", "10", Some("1.25")),
            long_prompt: None,
            as_of: None,
        };
        let nano = |usage| price.cost(usage).nano_dollars();
        assert_eq!(
            nano(usage(1_000, 100, 2_000, 10)),
            2_500_000 + 1_000_000 + 2_500_000 + 25_000
        );
        let cheap = ModelPrice {
            prices: prices("0.000001", "0", None),
            ..price
        };
        assert_eq!(cheap.cost(usage(1, 0, 0, 0)), Money::from_nano_dollars(1));
        assert_eq!(nano(usage(u64::MAX, u64::MAX, u64::MAX, u64::MAX)), u64::MAX);
    }

    #[test]
    fn a_long_prompt_has_its_own_price_for_all_tokens() {
        let long = LongPromptPrices {
            above_tokens: 200_000,
            prices: prices("4", "18", None),
        };
        let price = ModelPrice {
            prices: prices("2", "12", None),
            long_prompt: Some(long),
            as_of: None,
        };
        let dollars = |usage| price.cost(usage).to_string();
        assert_eq!(dollars(usage(100_000, 0, 100_000, 0)), "$0.4000");
        assert_eq!(dollars(usage(100_000, 0, 100_001, 0)), "$0.8001");
    }
}
