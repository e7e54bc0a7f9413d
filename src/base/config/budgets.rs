//! `[budgets]`: bounds of what the calls of models may cost.

use crate::base::config::model_facts::ModelTable;
use crate::base::config::reader::SettingsReader;
use crate::base::config::settings::ModelSettings;
use crate::base::model::{BudgetBound, Budgets, Money};
use crate::base::webhook::PostTo;

/// `[budgets]`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BudgetSettings {
    /// The bounds; by default there is only one, for the events of hooks.
    pub bounds: Budgets,
    /// `ask_in`: the chat in which administrators are asked to allow more; by default that of the request.
    pub ask_in: Option<PostTo>,
}

/// The keys of amounts of money. They need the prices of the model.
const MONEY_KEYS: [&str; 5] = [
    "budgets.turn_cents_max",
    "budgets.unattended_turn_cents_max",
    "budgets.conversation_cents_max",
    "budgets.person_day_cents_max",
    "budgets.day_cents_max",
];

/// Reads the budgets of the chosen models.
pub(super) fn budgets(
    reader: &mut SettingsReader<'_>,
    models: &ModelTable,
    chosen: &ModelSettings,
) -> BudgetSettings {
    for model in chosen.in_order() {
        check_prices(reader, models, model);
    }
    let [turn, unattended, conversation, person_day, day] = MONEY_KEYS.map(|key| money(reader, key));
    BudgetSettings {
        bounds: Budgets {
            turn: BudgetBound {
                tokens_max: None,
                money_max: turn,
            },
            unattended_turn: BudgetBound {
                tokens_max: tokens(reader, "budgets.unattended_turn_tokens_max"),
                money_max: unattended,
            },
            conversation: BudgetBound {
                tokens_max: tokens(reader, "budgets.conversation_tokens_max"),
                money_max: conversation,
            },
            person_day: BudgetBound {
                tokens_max: tokens(reader, "budgets.person_day_tokens_max"),
                money_max: person_day,
            },
            day: BudgetBound {
                tokens_max: tokens(reader, "budgets.day_tokens_max"),
                money_max: day,
            },
        },
        ask_in: ask_in(reader),
    }
}

/// Refuses a bound of money for a model without known prices, because nothing would ever reach it.
fn check_prices(reader: &mut SettingsReader<'_>, models: &ModelTable, model: &str) {
    let Some((provider, name)) = model.split_once('/') else {
        return;
    };
    if models.facts(provider, name).price.is_some() {
        return;
    }
    let set = MONEY_KEYS.into_iter().find(|key| money(reader, key).is_some());
    if let Some(key) = set {
        let why = format!(
            "the prices of {model} are not known; add price_input and price_output to [models.\"{model}\"], or bound \
             the tokens instead"
        );
        reader.problem(key, why);
    }
}

fn money(reader: &mut SettingsReader<'_>, key: &str) -> Option<Money> {
    let cents: u64 = reader.integer(key);
    (cents > 0).then(|| Money::from_cents(cents))
}

fn tokens(reader: &mut SettingsReader<'_>, key: &str) -> Option<u64> {
    let tokens: u64 = reader.integer(key);
    (tokens > 0).then_some(tokens)
}

fn ask_in(reader: &mut SettingsReader<'_>) -> Option<PostTo> {
    let (channel, chat) = ("budgets.ask_in.channel", "budgets.ask_in.chat");
    match (reader.is_set(channel), reader.is_set(chat)) {
        (false, false) => None,
        (true, true) => Some(PostTo {
            channel: reader.reference(channel, "channels")?,
            chat: reader.text(chat)?,
        }),
        (true, false) => {
            reader.problem(chat, "is required beside ask_in.channel");
            None
        }
        (false, true) => {
            reader.problem(channel, "is required beside ask_in.chat");
            None
        }
    }
}
