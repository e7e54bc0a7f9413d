//! Tests of budgets.

use super::*;
use crate::base::model::{BudgetBound, Budgets, Money};
use crate::base::webhook::PostTo;

/// Returns the problems of the good configuration with these lines at its end.
fn problems_with(lines: &str) -> Vec<String> {
    problems(sources(&format!("{GOOD}{lines}")))
}

#[test]
fn budgets_are_bounds_of_tokens_and_of_money() {
    let text = format!(
        "{GOOD}[budgets]\nperson_day_cents_max = 500\nday_tokens_max = 2_000_000\nask_in.channel = \"team\"\n\
         ask_in.chat = \"C7\"\n"
    );
    let budgets = Config::load(sources(&text)).unwrap().budgets;
    let expected = Budgets {
        unattended_turn: BudgetBound {
            tokens_max: Some(500_000),
            money_max: None,
        },
        person_day: BudgetBound {
            tokens_max: None,
            money_max: Some(Money::from_dollars(5)),
        },
        day: BudgetBound {
            tokens_max: Some(2_000_000),
            money_max: None,
        },
        ..Budgets::default()
    };
    assert_eq!(budgets.bounds, expected);
    let ask_in = PostTo {
        channel: "team".to_owned(),
        chat: "C7".to_owned(),
    };
    assert_eq!(budgets.ask_in, Some(ask_in));
}

#[test]
fn a_bound_of_money_needs_the_prices_of_the_model() {
    let model = "[model]\ndefault = \"house/qwen3\"\n[providers.house]\nkeyless = true\n\
                 base_url = \"https://models.example.com/v1\"\n";
    let bound = "[budgets]\nday_cents_max = 500\n";
    assert_eq!(
        problems_with(&format!("{model}{bound}")),
        [
            "drydock.toml:28: budgets.day_cents_max: the prices of house/qwen3 are not known; add price_input and \
             price_output to [models.\"house/qwen3\"], or bound the tokens instead"
        ]
    );
    let prices = "[models.\"house/qwen3\"]\nprice_input = 0.5\nprice_output = 2\n";
    assert_eq!(problems_with(&format!("{model}{bound}{prices}")), [""; 0]);
}

#[test]
fn administrators_are_asked_in_a_chat_of_a_channel() {
    for (lines, why) in [
        (
            "[budgets]\nask_in.channel = \"team\"\n",
            "budgets.ask_in.chat: is required beside ask_in.channel",
        ),
        (
            "[budgets]\nask_in.chat = \"C7\"\n",
            "budgets.ask_in.channel: is required beside ask_in.chat",
        ),
        (
            "[budgets]\nask_in.channel = \"teem\"\nask_in.chat = \"C7\"\n",
            "budgets.ask_in.channel: does not name one of the channels; did you mean team?",
        ),
    ] {
        let problems = problems_with(lines);
        assert!(problems.len() == 1 && problems[0].ends_with(why), "{problems:?}");
    }
}
